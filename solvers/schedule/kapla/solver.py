"""KAPLA's segment search end to end: slice, prune, prioritise, cost what is left in full, chain it up."""

from __future__ import annotations

from dataclasses import replace

from costmodel.errors import InputError
from solvers.budget import Budget, Stopwatch
from solvers.outcome import Outcome
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.kapla.candidates import Candidates, valid_segments
from solvers.schedule.kapla.chains import best_chain
from solvers.schedule.kapla.costing import Costing, Limit
from solvers.schedule.kapla.estimate import Estimates
from solvers.schedule.kapla.floors import LayerFloor
from solvers.schedule.kapla.params import Params
from solvers.schedule.kapla.segments import Slicing
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution, answer, no_tree

VERSION = "1"
DEFAULT = Params()


def solve(problem: ScheduleProblem, budget: Budget, params: Params = DEFAULT) -> Outcome[ScheduleSolution]:
    """The best chain of the segments that are worth costing in full (section IV-B), as a tree.

    Single layers are costed first: they are in every choice, and what they take within tiles is what segments
    are estimated by. Nothing is drawn, so the seed does not matter. ``budget.iterations`` is the most
    segments, counted with their sub-batches, that are costed in full; ``evaluations`` is how many were.
    Raises InputError for another model than the chip's: segments must cost the same whatever is around them.
    """
    if not isinstance(problem.model, ChipModel):
        remedy = "Take the chip model, or one of set, layer_sequential, layer_pipeline"
        raise InputError("kapla_schedule", "the chip model", problem.model.name, remedy, key="model")
    watch, slicing = Stopwatch(), Slicing(problem, params)
    limit = Limit(watch, budget)
    costing = Costing(slicing, problem.model.evaluator(problem.graph, problem.batch, problem.objective))
    valid = valid_segments(slicing, _estimates(slicing, problem.model, costing, limit))
    Candidates(slicing, valid, costing).cost_likely(limit)
    chain = best_chain(costing.found, len(problem.graph.layers), problem.objective)
    note = f"{len(valid)} of {sum(1 for _ in slicing.segments())} segments may fit, {costing.note}"
    if chain is None:
        return no_tree(problem, f"no chain of segments runs all layers: {costing.reason}; {note}", watch)
    outcome = answer(problem, slicing.tree(chain.segments), (), watch, note)
    return replace(outcome, evaluations=costing.count)


def _estimates(slicing: Slicing, model: ChipModel, costing: Costing, limit: Limit) -> Estimates:
    """Estimates whose floors are what layers alone on the chip take within tiles, where that is more."""
    graph = slicing.problem.graph
    floors = [LayerFloor.of(graph, number, model.chip) for number in range(len(graph.layers))]
    normalized = [model.tile_costs.normalized_cycles(number) for number in range(len(floors))]
    alone = [segment for segment in slicing.segments() if len(segment) == 1]
    costing.cost(((segment, parts) for segment in alone for parts in slicing.subbatches()), limit)
    raised = [costing.raised(floor, segment) for floor, segment in zip(floors, alone, strict=True)]
    return Estimates(slicing, model.chip, raised, normalized)
