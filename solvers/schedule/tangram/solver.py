"""Finds the best chain of Tangram's segments (Gao et al., ASPLOS 2019, with the released nn_dataflow).

A root T cut runs segments one after the other: single layers, layers in turn, and pipelines. In a pipeline
each vertex, a layer with the pooling and sums that follow it (:mod:`.vertices`), has a region of tiles of its
own. The vertices b and d have two layers here::

    one layer    in turn        basic pipeline    alternate loop orders
    a 8          T 8/4          S 8/2             S 8/2
                   a 2            a 4               S 4/4
                   b 2            T 4/1               a 1
                   b' 2             b 4               T 1/1
                                    b' 4                b 1
                                  c 4                   b' 1
                                  T 4/1             S 4/4
                                    d 4               c 1
                                    d' 4              T 1/1
                                                        d 1
                                                        d' 1

**Alternate loop orders.** Tangram's layers take turns: one has the loop over its output channels outermost
and *streams* its map in groups of channels; the next one has the loop over its input channels outermost,
takes each group as it comes, and *buffers* its own map whole; then the next one can stream again. So every
other map is held whole, and the layers of a pair work on the same sub-batch at the same time. Which of the
two the first layer does is Tangram's one free choice, the phase; here both are counted.

The chip model hands on whole samples or bands of rows: a leaf reads all channels of its inputs, so groups of
channels cannot be stated as a tree. Here the groups are of samples. Two layers between which the map is
streamed are an S cut of their own, with more sub-batches than the segment around it; pairs hand on whole
sub-batches to each other. What that saves and what it does not, docs/set.md says.

**What is as in the released program**: vertices, the rules by which they share a segment, regions in
proportion to work, pipelines that are left out because regions are unequally fast, equal sub-batches of all
layers of a segment, every number of them, and chains built layer by layer. **What is not**: groups of
samples for groups of channels, the same number in all pairs of a segment; no buffers shared by tiles and no
inputs of DRAM forwarded from tile to tile; the network's own order of layers; all numbers of sub-batches are
counted, where the released program drops those with more than one that works, and the best chain of all is
found exactly unless ``Params.kept`` says how many are kept for each layer.
"""

from __future__ import annotations

from dataclasses import replace

from costmodel.schedule.tree.tree import Cut, TreeNode
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.budget import Budget, Deadline, OutOfTimeError
from solvers.outcome import Outcome, noting_limits
from solvers.schedule.answer_time import kept_for_recount, prepare_bound
from solvers.schedule.chip_model import chip_model_of
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution, answer, no_tree
from solvers.schedule.segment_chain.chains import Chains
from solvers.schedule.segment_chain.counted_segments import in_fewest_rounds
from solvers.schedule.tangram.beam import best_of_kept
from solvers.schedule.tangram.params import Params
from solvers.schedule.tangram.segments import TangramSegments

VERSION = "6"
DEFAULT = Params()


@noting_limits
def solve(problem: ScheduleProblem, budget: Budget, params: Params = DEFAULT) -> Outcome[ScheduleSolution]:
    """The best chain of Tangram's segments, in the fewest rounds in which the chip can run all layers.

    When the time is up, the answer is the best chain of the segments counted by then; single layers are
    counted first, and always. ``budget.iterations`` is the most segments that are counted.

    Raises InputError for a model other than the chip's. With bands, tile costs may be lacking that this
    process cannot solve. TileCostsNeeded is raised then; the caller has them solved and calls again.
    """
    model = chip_model_of(problem, "tangram")
    if params.bands > 1:
        model = replace(model, bands=True)
    problem = replace(problem, model=model)
    deadline = Deadline(budget.wall_seconds)
    try:
        rounds, segments = in_fewest_rounds(
            problem.batch, lambda rounds: TangramSegments(problem, model, rounds, params), deadline
        )
    except OutOfTimeError as reason:
        return no_tree(problem, f"the first chain: {reason}", deadline)
    except NotPossibleError as reason:
        return no_tree(problem, str(reason), deadline)
    prepare_bound(problem, deadline.left)
    end = Deadline(deadline.left - kept_for_recount(deadline))
    complete = segments.longer(budget.iterations, end.in_time)
    tree = Cut("T", problem.batch, rounds, _best(problem, segments, rounds, params))
    note = f"segments={segments.counted} rounds={rounds}"
    note += "" if complete else "; not all segments were counted"
    return replace(answer(problem, tree, (), deadline, note), evaluations=segments.counted)


def _best(
    problem: ScheduleProblem, segments: TangramSegments, rounds: int, params: Params
) -> tuple[TreeNode, ...]:
    """The segments of the best chain, of all or of those that are kept."""
    ending = segments.kept()
    if params.kept:
        return best_of_kept(ending, segments.saved, problem.objective, params.kept)
    return Chains(ending, segments.saved, rounds).best(problem.objective).segments
