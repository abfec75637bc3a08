"""KAPLA's segment search by enumeration: pruning, least costs, chains, whole solves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from itertools import pairwise, product
from random import Random
from typing import Any

import pytest
from released_model import ReleasedModel

from costmodel.errors import InputError
from costmodel.formats.json.layer_graph_json import load_graph
from costmodel.hardware.widths import BYTES, Widths
from costmodel.published.set_isca2023.hardware import load_platform
from costmodel.published.set_isca2023.nvdla_tile_costs import NvdlaTileCosts, chip_of
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.budget import Budget
from solvers.outcome import Status
from solvers.schedule import kapla
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.kapla.chains import Savings, best_chain
from solvers.schedule.kapla.estimates.estimate import BatchCost, Estimates
from solvers.schedule.kapla.estimates.floors import LayerFloor
from solvers.schedule.kapla.ranking import Ranking
from solvers.schedule.kapla.regions import Regions
from solvers.schedule.kapla.segments import BatchDivision, Scheme, Segment, Slicing
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem, violations

EDGE = load_platform("edge")
OBJECTIVES = [Objective(1, 0), Objective(0, 1), Objective(1, 1), Objective(1, 2)]
ALL = kapla.Params(chains=0)


def problem_of(name: str, layers: int, batch: int, **changes: int) -> ScheduleProblem:
    """The first layers of a network on four tiles of the edge platform; ``changes``: of the chip."""
    graph = LayerGraph(name, load_graph(name).layers[:layers])
    buffer_bytes = changes.pop("buffer_bytes", EDGE.tile.shared.size_bytes)
    whole = chip_of(EDGE, "small")
    tile = replace(whole.tile, buffer=replace(whole.tile.buffer, size_bytes=buffer_bytes))
    shape: dict[str, Any] = {"columns": 2, "rows": 2, "stripe": 2, **changes}
    chip = replace(whole, **shape, tile=tile)
    return ScheduleProblem(graph, ChipModel(chip, NvdlaTileCosts(graph, EDGE.tile)), batch)


@pytest.fixture(scope="module")
def problem() -> ScheduleProblem:
    return problem_of("resnet", 5, 2)


def model_of(problem: ScheduleProblem) -> ChipModel:
    assert isinstance(problem.model, ChipModel)
    return problem.model


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "layers", "batch", "buffer_bytes", "widths"),
    [
        ("resnet", 14, 4, 1 << 20, BYTES),
        ("goog", 12, 4, 1 << 18, BYTES),
        ("trans_cell", 30, 2, 1 << 18, BYTES),
        ("lstm", 9, 8, 1 << 19, BYTES),
        ("resnet", 10, 4, 1 << 20, Widths(4, 12, 24)),
        ("trans_cell", 20, 2, 1 << 18, Widths(4, 8, 8)),
    ],
)
def test_nothing_valid_is_pruned_and_nothing_costs_less_than_estimated(
    name: str, layers: int, batch: int, buffer_bytes: int, widths: Widths
) -> None:
    """Every segment with every number of sub-batches, costed in full."""
    problem = problem_of(name, layers, batch, buffer_bytes=buffer_bytes)
    chip = model_of(problem).chip
    chip = replace(chip, tile=replace(chip.tile, widths=widths))
    problem = replace(problem, model=replace(model_of(problem), chip=chip))
    model, slicing = model_of(problem), Slicing(problem, kapla.Params(most_layers=6))
    floors = [LayerFloor.of(problem.graph, number, model.chip) for number in range(layers)]
    regions = Regions(slicing, model.tile_costs.normalized_cycles)
    estimates = Estimates(slicing, model.chip, floors, regions)
    evaluator = model.evaluator(problem.graph, batch, problem.objective)
    possible = pruned = 0
    for segment in slicing.segments():
        for division, least in estimates.least(segment, slicing.divisions(segment)):
            scheme = Scheme(segment, division)
            may_fit = estimates.may_fit(scheme)
            pruned += not may_fit
            try:
                cost = evaluator.segment(slicing.node(scheme))
            except NotPossibleError:
                continue
            possible += 1
            assert may_fit, scheme
            assert least.cost.energy_pj <= sum(cost.parts_pj) * (1 + 1e-12), scheme
            assert least.cost.cycles <= cost.cycles * (1 + 1e-12), scheme
            assert sum(least.accesses.read) <= cost.dram_read_bits, scheme
            assert sum(least.accesses.written) <= cost.dram_write_bits, scheme
    assert possible > 20
    assert pruned > 20 or name == "lstm"


def every_chain(layers: int, segments: list[Segment]) -> Iterator[tuple[Segment, ...]]:
    """All ways from the first layer to the last."""
    if layers == 0:
        yield ()
        return
    for last in segments:
        if last.end == layers:
            yield from ((*before, last) for before in every_chain(last.first, segments))


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_the_best_chain_is_the_best_of_all(objective: Objective) -> None:
    """Random costs: the corners that are kept are enough, for every objective."""
    random = Random(str(objective))
    for _ in range(40):
        segments = [Segment(first, end, "turns") for end in range(1, 6) for first in range(end)]
        costs = {
            segment: {
                BatchDivision(parts): BatchCost(
                    random.randint(1, 30) * len(segment), random.randint(1, 30) * len(segment)
                )
                for parts in (1, 2)
            }
            for segment in random.sample(segments, 12)
        }
        values = [
            objective.value(sum(cost.energy_pj for cost in chosen), sum(cost.cycles for cost in chosen))
            for chain in every_chain(5, list(costs))
            for chosen in product(*(costs[segment].values() for segment in chain))
        ]
        found = best_chain(costs, 5, objective)
        assert (found is None) == (not values)
        if found is not None:
            assert objective.value(found.cost.energy_pj, found.cost.cycles) == min(values)
            assert found.schemes[0].segment.first == 0
            assert found.cost.cycles == sum(costs[segment][parts].cycles for segment, parts in found.schemes)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_savings_of_pairs_count_in_the_best_chain(objective: Objective) -> None:
    """Random costs and savings: schemes that are left out beforehand are in no best chain."""
    random = Random(str(objective))
    assert sum(savings_change_the_best_chain(random, objective) for _ in range(60)) > 0


def savings_change_the_best_chain(random: Random, objective: Objective) -> bool:
    """Whether the best chain of random schemes is another one with savings than without."""
    every = [Segment(first, end, "turns") for end in range(1, 6) for first in range(end)]
    schemes = [Scheme(segment, BatchDivision(1)) for segment in random.sample(every, 13)]
    costs = {
        scheme: BatchCost(random.randint(20, 50) * len(scheme.segment), random.randint(20, 50))
        for scheme in schemes
    }
    most = {scheme: BatchCost(random.randint(0, 15), random.randint(0, 15)) for scheme in schemes}
    fractions = {pair: random.random() for pair in product(schemes, schemes)}

    def between(before: Scheme, after: Scheme) -> BatchCost:
        fraction, limit = fractions[before, after], most[after]
        return BatchCost(fraction * limit.energy_pj, fraction * limit.cycles)

    def value(chain: tuple[Segment, ...]) -> float:
        parts = [Scheme(segment, BatchDivision(1)) for segment in chain]
        saved = [between(*pair) for pair in pairwise(parts)]
        return objective.value(
            sum(costs[part].energy_pj for part in parts) - sum(one.energy_pj for one in saved),
            sum(costs[part].cycles for part in parts) - sum(one.cycles for one in saved),
        )

    by_segment = {scheme.segment: {scheme.division: cost} for scheme, cost in costs.items()}
    found = best_chain(by_segment, 5, objective, Savings(between, most.__getitem__))
    without = best_chain(by_segment, 5, objective)
    values = [value(chain) for chain in every_chain(5, list(by_segment))]
    assert (found is None) == (without is None) == (not values)
    if found is None or without is None:
        return False
    assert objective.value(found.cost.energy_pj, found.cost.cycles) == pytest.approx(min(values), rel=1e-12)
    return found.schemes != without.schemes


def test_ranking_forgets_what_is_not_possible_and_prefers_what_is_counted() -> None:
    """Two ways to run two layers cost the same; the one that was counted is the likely one."""
    one, other = (Scheme(Segment(0, 2, kind), BatchDivision(1)) for kind in ("turns", "pipeline"))
    apart = [Scheme(Segment(layer, layer + 1, "turns"), BatchDivision(1)) for layer in (0, 1)]
    costs: list[tuple[Scheme, BatchCost | None]] = [(one, BatchCost(5, 1)), (other, BatchCost(5, 1))]
    ranking = Ranking([*costs, *((scheme, None) for scheme in apart)], 2, Objective(1, 0))
    assert ranking.likely(1) == [one]
    ranking.know(other, BatchCost(5, 1))
    assert ranking.likely(1) == [other]
    assert ranking.likely(2) == [other, one]
    for scheme in apart:
        ranking.know(scheme, BatchCost(3, 1))
    assert ranking.likely(2) == [apart[0], other, one]
    assert ranking.likely(3) == [apart[0], other, one, apart[1]]
    ranking.know(other, None)
    assert ranking.likely(2) == [apart[0], one, apart[1]]


def test_with_more_chains_more_schemes_are_likely_and_the_best_ones_are_among_them() -> None:
    random = Random(7)
    segments = [Segment(first, end, "turns") for end in range(1, 7) for first in range(end)]
    costs = {
        segment: {
            BatchDivision(parts): BatchCost(random.randint(1, 50), random.randint(1, 50)) for parts in (1, 2)
        }
        for segment in segments
    }
    listed = [
        (Scheme(segment, parts), cost) for segment, found in costs.items() for parts, cost in found.items()
    ]
    ranking = Ranking(listed, 6, Objective(1, 0))
    likely = [set(ranking.likely(most)) for most in (1, 2, 1000)]
    schemes = {Scheme(segment, BatchDivision(parts)) for segment in segments for parts in (1, 2)}
    assert likely[0] < likely[1] < likely[2] == schemes
    best = min(
        (
            [Scheme(segment, BatchDivision(parts)) for segment, parts in zip(chain, chosen, strict=True)]
            for chain in every_chain(6, segments)
            for chosen in product((1, 2), repeat=len(chain))
        ),
        key=lambda chain: sum(costs[segment][parts].energy_pj for segment, parts in chain),
    )
    assert set(best) <= likely[0]


def test_regions_of_a_segment(problem: ScheduleProblem) -> None:
    """Of ResNet-50's first layers the second is a pooling."""
    slicing = Slicing(problem, kapla.Params())
    kinds = [layer.kind for layer in problem.graph.layers]
    assert kinds[:3] == ["conv", "pool", "conv"]
    assert slicing.regions(Segment(0, 3, "grouped")) == [[0, 1], [2]]
    assert slicing.regions(Segment(0, 3, "pipeline")) == [[0], [1], [2]]
    assert slicing.regions(Segment(0, 3, "turns")) == [[0, 1, 2]]
    assert all(len(slicing.regions(segment)) <= 4 for segment in slicing.segments())


@pytest.mark.parametrize("objective", OBJECTIVES[:3], ids=str)
def test_without_prioritising_it_is_the_best_of_all_chains(
    objective: Objective, problem: ScheduleProblem
) -> None:
    """Every chain of every segment as a whole tree, counted by the evaluator of trees."""
    problem = replace(problem, objective=objective)
    slicing, evaluator = Slicing(problem, ALL), problem.evaluator()
    values = []
    for chain in every_chain(5, list(slicing.segments())):
        for parts in product(*(slicing.divisions(segment) for segment in chain)):
            try:
                cost = evaluator.evaluate(slicing.tree(map(Scheme, chain, parts)))
            except NotPossibleError:
                continue
            values.append(objective.value(cost.energy_pj, cost.cycles))
    outcome = kapla.solve(problem, Budget(), ALL)
    assert len(values) > 200
    assert outcome.objective == pytest.approx(min(values), rel=1e-12)
    assert outcome.solution is not None
    assert violations(problem, outcome.solution) == []


@pytest.mark.slow
@pytest.mark.parametrize(("name", "layers"), [("resnet", 12), ("goog", 10)])
def test_prioritising_again_and_again_finds_the_best_chain_here(name: str, layers: int) -> None:
    """The same as of all segments with fewer in full; a ranking of one chain takes least, finds no more."""
    problem = problem_of(name, layers, 4)
    best, usual, once = (
        kapla.solve(problem, Budget(), params)
        for params in (ALL, kapla.Params(), kapla.Params(chains=1, rounds=1))
    )
    assert best.objective is not None
    assert usual.objective is not None
    assert once.objective is not None
    assert usual.objective == pytest.approx(best.objective, rel=1e-12)
    assert once.objective >= best.objective * (1 - 1e-12)
    assert once.evaluations < usual.evaluations < best.evaluations


@pytest.mark.slow
def test_pruning_saves_segments_and_no_quality() -> None:
    problem = problem_of("goog", 8, 4, buffer_bytes=1 << 19)
    pruned, whole = (kapla.solve(problem, Budget(), replace(ALL, prune=prune)) for prune in (True, False))
    assert pruned.objective == whole.objective
    assert pruned.evaluations < whole.evaluations


def test_the_seed_does_not_matter(problem: ScheduleProblem) -> None:
    first, second = (kapla.solve(problem, Budget(seed=seed)) for seed in (1, 2))
    assert first.solution == second.solution
    assert first.evaluations == second.evaluations


@pytest.mark.slow
@pytest.mark.parametrize("switch", ["spatial", "grouped", "temporal"])
def test_switches_leave_segments_out(switch: str, problem: ScheduleProblem) -> None:
    params = replace(ALL, **{switch: False})
    kinds = {segment.kind for segment in Slicing(problem, params).segments() if len(segment) > 1}
    lost = {"spatial": {"pipeline", "grouped"}, "grouped": {"grouped"}, "temporal": {"turns"}}[switch]
    assert kinds == {"turns", "pipeline", "grouped"} - lost
    fewer, every = (kapla.solve(problem, Budget(), one).objective for one in (params, ALL))
    assert fewer is not None
    assert every is not None
    assert fewer >= every


@pytest.mark.parametrize(
    "budget", [Budget(wall_seconds=1e-6), Budget(iterations=1)], ids=["time", "iterations"]
)
def test_with_next_to_nothing_to_spend_it_says_so(budget: Budget, problem: ScheduleProblem) -> None:
    outcome = kapla.solve(problem, budget)
    assert outcome.status is Status.UNKNOWN
    assert "no more in time" in outcome.note
    assert outcome.evaluations <= 1


def test_enough_for_single_layers_is_enough_for_a_schedule(problem: ScheduleProblem) -> None:
    outcome = kapla.solve(problem, Budget(iterations=10))
    assert outcome.status is Status.FEASIBLE
    assert outcome.solution is not None
    assert outcome.evaluations == 10
    assert violations(problem, outcome.solution) == []


def test_a_network_that_no_chain_can_run_is_told_from_a_bug() -> None:
    problem = problem_of("resnet", 3, 1, buffer_bytes=1 << 15)
    outcome = kapla.solve(problem, Budget())
    assert outcome.status is Status.UNKNOWN
    assert "no chain of segments runs all layers" in outcome.note


def test_another_model_than_the_chips_is_refused(problem: ScheduleProblem) -> None:
    with pytest.raises(InputError, match="layer_pipeline"):
        kapla.solve(replace(problem, model=ReleasedModel.named("edge")), Budget())


def test_parameters_are_checked_and_plain() -> None:
    for field in fields(kapla.Params):
        wrong: Any
        for wrong in (object(), "nonsense", -1):
            with pytest.raises(InputError, match=field.name):
                kapla.Params(**{field.name: wrong})
    assert kapla.Params(**json.loads(json.dumps(asdict(kapla.Params())))) == kapla.Params()


@pytest.mark.slow
def test_passes_are_as_many_as_a_chain_needs_or_the_best_of_all() -> None:
    """Buffers too small for four samples at a time: the chain runs for fewer, and the tree says so."""
    problem = problem_of("goog", 6, 4, buffer_bytes=1 << 18)
    fewest, best = (kapla.solve(problem, Budget(), kapla.Params(all_passes=every)) for every in (False, True))
    assert fewest.solution is not None
    assert best.solution is not None
    alone = [
        kapla.solve(replace(problem, batch=4 // passes), Budget(), kapla.Params()) for passes in (1, 2, 4)
    ]
    assert violations(problem, fewest.solution) == violations(problem, best.solution) == []
    assert best.objective is not None
    assert fewest.objective is not None
    assert best.objective <= fewest.objective
    values = [
        passes**2 * one.objective
        for passes, one in zip((1, 2, 4), alone, strict=True)
        if one.objective is not None and one.solution is not None and "passes=1 " in one.note
    ]
    assert best.objective == pytest.approx(min(values), rel=1e-9)


def test_pruning_leaves_time_for_costing(problem: ScheduleProblem, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time is up at the first look: layers by themselves make a schedule, and a later solve begins anew."""
    whole = kapla.solve(problem, Budget(60))
    monkeypatch.setattr("solvers.schedule.kapla.solver.Deadline.in_time", lambda self: False)
    other_seed = Budget(60, seed=9)  # pruned already for that of the first solve
    cut = kapla.solve(problem, other_seed)
    assert cut.solution is not None
    assert "not all segments looked at in time" in cut.note
    assert violations(problem, cut.solution) == []
    monkeypatch.undo()
    assert kapla.solve(problem, other_seed).objective == whole.objective
