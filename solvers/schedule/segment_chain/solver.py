"""Finds the best chain of segments, each a run of neighbouring layers in the network's order.

A root T cut runs segments one after the other. Their energies and cycles add up, less what each saves by
fetching its first data while the one before it ends. A segment here has one of five forms::

    one layer     T cut          S cut            comb             pipeline of combs
    a 8           T 8/1          S 8/4            T 8/1            S 8/4
                    a 8            a 2              a 8              T 2/1
                    b 8            b 2              T 8/1              a 2
                    c 8            c 2                b 8              b 2
                                                      c 8            c 2

- The **T cut** keeps data on the chip for the next layer only.
- The **S cut** is a pipeline. It keeps data for layers of the same stage and of the next one.
- In a **comb** the child after a layer holds all layers that follow it. So every edge goes to the next child
  of a T cut and stays on the chip, residual connections included.
- **T cuts of blocks** (:mod:`.blocks`) stand for combs with ``blocks``, as by default. They keep every edge,
  too, and hold it for a shorter time, so longer runs of layers fit. Runs of more than ``longest`` layers
  begin and end at *necks*, the boundaries that little data crosses.
- In a **pipeline** of a few combs, or T cuts of blocks, a layer has more tiles than in a pipeline of single
  layers, and fewer than all. So less data is repeated in buffers, and more layers fit. The children of the
  pipeline have as equal work as neighbouring layers allow.

Each form is tried with every number of sub-batches. With ``bands`` it is also tried sample by sample in bands
of rows (:mod:`costmodel.schedule.row_bands`), in every number that divides the rows of the last layer.

Each segment is counted once with the chip model, and so is each pair of segments that may be neighbours in a
best chain. The best chain follows from these costs exactly (:mod:`.chains`).

With ``joined`` two neighbouring segments of that chain become one T cut, as long as that makes E^n D^m less;
of all such pairs the best one first (:mod:`.joining`). The new segment keeps data on the chip that one hands
to the other. So layers that run in many sub-batches and layers that run in few, or as a pipeline, share a
segment. This is a search step by step, and its result need not be the best of its kind. At last the cuts of
the tree are rearranged in small steps (:mod:`.rearranging`), above all so that weights come earlier, and
then so that layers run in more or fewer sub-batches, in turn or side by side.

The space is small beside that of all RA trees, so this answers in seconds. An annealing reaches long segments
rarely, because most single steps towards them cost more; so the answer is also a start for ``set``.
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
from solvers.schedule.segment_chain.channel_cuts import with_channels_cut
from solvers.schedule.segment_chain.counted_segments import CountedSegments, in_fewest_rounds
from solvers.schedule.segment_chain.joining import joined
from solvers.schedule.segment_chain.params import Params
from solvers.schedule.segment_chain.rearranging import rearranged

VERSION = "16"
DEFAULT = Params()

NOT_ALL = "not all segments were counted"
"""What the note of an answer says whose time or iterations were up before."""

TIME_FOR_CUTS = 0.25
"""The fraction of the time for segments that is kept for cutting input channels, where that is asked for."""


@noting_limits
def solve(problem: ScheduleProblem, budget: Budget, params: Params = DEFAULT) -> Outcome[ScheduleSolution]:
    """The best chain of segments of ``problem``, in the fewest rounds in which the chip can run one.

    More rounds have fewer samples each, which take less of the buffers, but each round loads all weights
    again. When the time is up, the answer is the best chain of the segments counted by then; single layers
    are counted first.

    Raises InputError for a model other than the chip's. With bands, tile costs may be lacking that this
    process cannot solve. TileCostsNeeded is raised then, with the costs of all segments that are known to
    need them; the caller has them solved and calls again.
    """
    model = chip_model_of(problem, "segment_chain")
    deadline = Deadline(budget.wall_seconds)
    if params.bands > 1:
        model = replace(model, bands=True)
    if params.reductions:
        model = replace(model, reductions=True)
    problem = replace(problem, model=model)
    try:
        rounds, segments = in_fewest_rounds(
            problem.batch, lambda rounds: CountedSegments(problem, model, rounds, params), deadline
        )
    except OutOfTimeError as reason:
        return no_tree(problem, f"the first chain: {reason}", deadline)
    except NotPossibleError as reason:
        return no_tree(problem, str(reason), deadline)
    prepare_bound(problem, deadline.left)
    kept = kept_for_recount(deadline)
    left = deadline.left - kept
    end = Deadline(left * (1 - TIME_FOR_CUTS) if params.reductions else left)
    complete = segments.longer(budget.iterations, end.in_time)
    chain = Chains(segments.kept(), segments.saved, rounds).best(problem.objective)
    tree, counted = Cut("T", problem.batch, rounds, chain.segments), segments.counted
    if params.joined and complete:
        tree, tried = joined(tree, segments.evaluator, problem.objective, end.in_time)
        counted += tried
    if complete:
        for most, reshaping in ((params.changes, False), (params.reshapes, True)):
            tree, tried = rearranged(
                tree, segments.evaluator, problem.objective, most, end.in_time, reshaping
            )
            counted += tried
    whole: TreeNode = tree
    if params.reductions:
        end = Deadline(deadline.left - kept)
        whole = with_channels_cut(segments.evaluator, model.tile_costs, problem.objective, tree, end.in_time)
    note = f"segments={segments.counted} rounds={rounds}"
    note += "" if complete else f"; {NOT_ALL}"
    return replace(answer(problem, whole, (), deadline, note), evaluations=counted)
