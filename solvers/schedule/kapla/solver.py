"""KAPLA's segment search end to end: slice, prune, prioritise, cost what is left in full, chain it up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from costmodel.chip import ChipEvaluator
from costmodel.errors import InputError
from solvers.budget import Budget, Stopwatch
from solvers.outcome import Outcome
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.kapla.candidates import Candidates, valid_segments
from solvers.schedule.kapla.chains import Chain, best_chain
from solvers.schedule.kapla.costing import Costing, Limit
from solvers.schedule.kapla.estimate import Estimates
from solvers.schedule.kapla.floors import LayerFloor
from solvers.schedule.kapla.params import Params
from solvers.schedule.kapla.segments import Slicing, divisors
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
    limit = Limit(Stopwatch(), budget)
    evaluator = problem.model.evaluator(problem.graph, problem.batch, problem.objective)
    found = []
    for passes in divisors(problem.batch):
        slicing = Slicing(problem, params, passes)
        found.append(_searched(slicing, problem.model, evaluator, limit))
        if found[-1].chain and not params.all_passes:
            break
    best = min(found, key=lambda one: one.objective)
    if best.chain is None:  # more passes need less room: what stops the most stops all
        reason = f"no chain of segments runs all layers: {found[-1].note}"
        return no_tree(problem, reason, limit.watch)
    outcome = answer(problem, best.slicing.tree(best.chain.segments), (), limit.watch, best.note)
    return replace(outcome, evaluations=limit.count)


@dataclass(frozen=True)
class Searched:
    """The best chain of one number of passes, and what was looked at for it."""

    slicing: Slicing
    chain: Chain | None
    note: str

    @property
    def objective(self) -> float:
        """Of the whole batch; infinite without a chain."""
        if self.chain is None:
            return inf
        cost, passes = self.chain.cost, self.slicing.passes
        return self.slicing.problem.objective.value(passes * cost.energy_pj, passes * cost.cycles)


def _searched(slicing: Slicing, model: ChipModel, evaluator: ChipEvaluator, limit: Limit) -> Searched:
    """Prune, prioritise and cost the segments of one number of passes; chain up what is possible."""
    costing = Costing(slicing, evaluator)
    valid = valid_segments(slicing, _estimates(slicing, model, costing, limit))
    Candidates(slicing, valid, costing).cost_likely(limit)
    chain = best_chain(costing.found, len(slicing.problem.graph.layers), slicing.problem.objective)
    every = sum(1 for _ in slicing.segments())
    note = f"{slicing.passes} passes, {len(valid)} of {every} segments may fit, {costing.note}"
    return Searched(slicing, chain, note if chain else f"{note}: {costing.reason}")


def _estimates(slicing: Slicing, model: ChipModel, costing: Costing, limit: Limit) -> Estimates:
    """Estimates whose floors are what layers alone on the chip take within tiles, where that is more."""
    graph = slicing.problem.graph
    floors = [LayerFloor.of(graph, number, model.chip) for number in range(len(graph.layers))]
    normalized = [model.tile_costs.normalized_cycles(number) for number in range(len(floors))]
    alone = [segment for segment in slicing.segments() if len(segment) == 1]
    costing.cost(((segment, parts) for segment in alone for parts in slicing.subbatches()), limit)
    raised = [costing.raised(floor, segment) for floor, segment in zip(floors, alone, strict=True)]
    return Estimates(slicing, model.chip, raised, normalized)
