"""KAPLA's inter-layer search (section IV-B): slice, prune, prioritise, cost in full, take the best chain.

A scheme is a segment with the division of its batch; a chain is a sequence of schemes that covers all layers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import inf
from typing import Any

from costmodel.errors import InputError
from costmodel.schedule.evaluate import ChipEvaluator
from solvers.budget import Budget, Deadline
from solvers.divisors import divisors
from solvers.outcome import Outcome, noting_limits
from solvers.schedule.answer_time import kept_for_recount, prepare_bound
from solvers.schedule.chip_model import ChipModel, chip_model_of
from solvers.schedule.garbage import garbage_rarely
from solvers.schedule.kapla.candidates import Candidates, Pruned, pruned_schemes
from solvers.schedule.kapla.chains import Chain, best_chain
from solvers.schedule.kapla.costing import Costing, CostingLimit
from solvers.schedule.kapla.estimates.estimate import Estimates
from solvers.schedule.kapla.estimates.floors import LayerFloor
from solvers.schedule.kapla.estimates.footprints import Footprints
from solvers.schedule.kapla.params import Params
from solvers.schedule.kapla.regions import Regions
from solvers.schedule.kapla.segments import Scheme, Slicing
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution, answer, no_tree
from solvers.schedule.tiles.cost_table import TabledTileCosts, TileCostsNeeded, need, offers_whole_chip
from solvers.schedule.tiles.layer_parts import Request

VERSION = "24"
DEFAULT = Params()


@noting_limits
@garbage_rarely()
def solve(problem: ScheduleProblem, budget: Budget, params: Params = DEFAULT) -> Outcome[ScheduleSolution]:
    """The best chain of the schemes that are worth costing in full (section IV-B), as a tree.

    The first chain is one layer after the other. It is the answer where the time is up before there is a
    better one. Then each number of passes is searched, or only the fewest with a chain (``all_passes``).

    Schemes need the costs of layers on tiles or on the whole chip. Those that a step needs are requested
    together. Where this process cannot solve them, TileCostsNeeded is raised; the caller has them solved and
    calls again. With more known, the solver gets further each time, and its answer is the one that it finds
    where all costs are known from the start.

    ``budget.iterations`` is the most schemes that the search costs in full, and also the most that the first
    chain does; ``evaluations`` of the outcome counts those of the search. The seed matters only with a
    ``probability`` below 1.

    Raises InputError for a model other than the chip model, as a segment by itself must cost the same
    whatever is around it; and for layers that need the whole chip where mappings on it are not offered.
    """
    model = _checked(problem)
    if params.bands > 1:
        model = replace(model, bands=True)
        problem = replace(problem, model=model)
    deadline = Deadline(budget.wall_seconds)
    layers = range(len(problem.graph.layers))
    need(model.tile_costs, (Request(number, 1, 1) for number in layers))
    evaluator = model.evaluator(problem.graph, problem.batch, problem.objective)
    first = _one_by_one(Slicing(problem, params), model, evaluator, CostingLimit(deadline, budget.iterations))
    limit = CostingLimit(deadline, budget.iterations, kept_for_recount(deadline))
    prepare_bound(problem, limit.left)
    found = []
    for passes in divisors(problem.batch):
        if not limit.in_time():
            break
        found.append(_searched(Slicing(problem, params, passes), model, evaluator, limit, budget.seed))
        if found[-1].chain and not params.all_passes:
            break
    best = min([*found, first], key=lambda one: one.objective)
    if best.chain is None:
        # More passes have fewer samples each, which take less of the buffers. So the reason why the last
        # search, that with the most passes, found no chain is the reason for all.
        reason = f"no chain of segments runs all layers: {(found or [first])[-1].note}"
        return no_tree(problem, reason, deadline)
    outcome = answer(problem, best.slicing.tree(best.chain.schemes), (), deadline, best.note)
    return replace(outcome, evaluations=limit.count)


def _checked(problem: ScheduleProblem) -> ChipModel:
    """The chip model of a problem. InputError where KAPLA's search cannot solve the problem."""
    model = chip_model_of(problem, "kapla_schedule")
    only_there = [layer.name for layer in problem.graph.layers if layer.needs_whole_chip]
    if only_there and not offers_whole_chip(model.tile_costs):
        expected = f"layers on the whole chip to be offered, as {only_there[0]} runs in no other way"
        setting = "--whole-chip, or whole_chip: true in a study's schedule block"
        remedy = f"Offer it ({setting}) with a mapping solver for tiles"
        found = f"not offered, and {len(only_there)} such layers"
        raise InputError("kapla_schedule", expected, found, remedy)
    return model


@dataclass(frozen=True)
class Searched:
    """The best chain of one number of passes; ``note``: how many schemes were looked at for it."""

    slicing: Slicing
    chain: Chain | None
    note: str

    @property
    def objective(self) -> float:
        """The objective of the whole batch, all passes together; infinite without a chain.

        What the first scheme saves by following the last one of the pass before is not in it: the answer,
        which is counted as a tree, costs no more.
        """
        if self.chain is None:
            return inf
        cost, passes = self.chain.cost, self.slicing.passes
        return self.slicing.problem.objective.value(passes * cost.energy_pj, passes * cost.cycles)


def _one_by_one(
    slicing: Slicing, model: ChipModel, evaluator: ChipEvaluator, limit: CostingLimit
) -> Searched:
    """The first chain: every layer as a segment of its own, in the fewest sub-batches and bands possible.

    It needs no estimates, so it is there soon. Its costs and counts are kept apart from the search's, which
    must not depend on them; but the evaluator remembers its segments.
    """
    layers = [slicing.single(number) for number in range(len(slicing.problem.graph.layers))]
    costing = Costing(Regions(slicing, model.tile_costs.normalized_cycles), evaluator, model.tile_costs)
    waiting = layers
    every = {division for one in layers for division in slicing.divisions(one)}
    for division in sorted(every):
        schemes = [Scheme(one, division) for one in waiting if division in slicing.divisions(one)]
        costing.cost(schemes, limit)
        waiting = [one for one in waiting if one not in costing.found]
        if not waiting or limit.reached:
            break
    chain = best_chain(costing.found, len(layers), slicing.problem.objective, costing.savings)
    note = f"one layer after the other {costing.note}"
    return Searched(slicing, chain, note if chain else f"{note}: {costing.reason}")


def _searched(
    slicing: Slicing, model: ChipModel, evaluator: ChipEvaluator, limit: CostingLimit, seed: int
) -> Searched:
    """The best chain of one number of passes: prune and rank its schemes, cost the likely ones in full."""
    problem, costs = slicing.problem, model.tile_costs
    layers = range(len(problem.graph.layers))
    normalized = [costs.normalized_cycles(number) for number in layers]
    regions = Regions(slicing, normalized.__getitem__)
    floors = [_floor(problem, number, model) for number in layers]
    # all that pruning rests on; of a table only how it prunes partitions, for it learns more costs meanwhile
    partitions = costs.pruning if isinstance(costs, TabledTileCosts) else costs
    facts = (problem.graph, problem.batch, model.chip, partitions, *floors, *normalized)
    estimates = Estimates(slicing, model.chip, floors, regions, costs.shares_weights)
    footprints = Footprints(problem.graph, model.chip, costs, regions)
    # Pruning may take half of the time. The rest is for costing, without which there is no chain at all.
    deadline = Deadline(limit.left / 2)
    key = (*facts, slicing.passes, slicing.params)
    asked = _Pruning(key, seed, slicing, estimates, footprints, deadline)
    pruned = _pruned(asked)
    # A pruning that the clock cut short must not be remembered as the result.
    if not pruned.complete:
        _pruned.cache_clear()
    before = limit.count
    candidates = _INTERRUPTED.resumed(asked, evaluator, limit)
    if candidates is None:
        candidates = Candidates(slicing, pruned, Costing(regions, evaluator, costs))
    try:
        candidates.cost_likely(limit)
    except TileCostsNeeded:
        _INTERRUPTED.keep(asked, evaluator, limit.most, candidates, limit.count - before)
        raise
    costing = candidates.costing
    chain = best_chain(costing.found, len(layers), problem.objective, costing.savings)
    note = f"passes={slicing.passes} {pruned.note} {costing.note}"
    return Searched(slicing, chain, note if chain else f"{note}: {costing.reason}")


@dataclass(frozen=True)
class _Pruning:
    """The arguments of pruning. Two are equal, and have the same result, if ``facts`` and seeds are equal."""

    facts: tuple[Any, ...]
    seed: int
    slicing: Slicing = field(compare=False)
    estimates: Estimates = field(compare=False)
    footprints: Footprints = field(compare=False)
    deadline: Deadline = field(compare=False)


@lru_cache(maxsize=2)
def _pruned(asked: _Pruning) -> Pruned:
    """The schemes that pruning leaves, remembered between calls of the solver.

    A solver that has raised TileCostsNeeded is called again from the start, often in the same process, and
    would prune the same schemes again.
    """
    return pruned_schemes(
        asked.slicing, asked.estimates, asked.footprints, asked.seed, asked.deadline.in_time
    )


class _Interrupted:
    """The search that lacked tile costs last: when the solver is asked again, it goes on from there.

    A solver that has raised TileCostsNeeded is called again from the start, for ResNet-50 some twenty times.
    What it costed until then it would cost again, and rank as many chains, to arrive where it stopped. It
    stops before a round, so what it knows then is what it would know again. Nothing is kept of a search that
    ended, so no answer rests on another's.
    """

    def __init__(self) -> None:
        self._kept: tuple[_Pruning, ChipEvaluator, int | None, Candidates, int] | None = None

    def keep(
        self,
        asked: _Pruning,
        evaluator: ChipEvaluator,
        most: int | None,
        candidates: Candidates,
        count: int,
    ) -> None:
        """Remember a search that has costed ``count`` schemes, of at most ``most``, and lacks costs now."""
        self._kept = asked, evaluator, most, candidates, count

    def resumed(self, asked: _Pruning, evaluator: ChipEvaluator, limit: CostingLimit) -> Candidates | None:
        """The search that was asked the same, its schemes counted in ``limit``; None if there is none.

        The evaluator must be the same object, because it counted the schemes that are known.
        """
        kept, self._kept = self._kept, None
        if kept is None or kept[1] is not evaluator or (kept[0], kept[2]) != (asked, limit.most):
            return None
        limit.count += kept[4]
        return kept[3]


_INTERRUPTED = _Interrupted()


def _floor(problem: ScheduleProblem, number: int, model: ChipModel) -> LayerFloor:
    """The least that a layer takes, raised to what one sample costs on one tile if that has a mapping."""
    floor, costs = LayerFloor.of(problem.graph, number, model.chip), model.tile_costs
    rows = costs.rows(number, 1, 1)
    if not len(rows.parts):
        return floor
    return floor.raised(float(rows.energy_pj.min()), costs.normalized_cycles(number))
