"""Schedulers that try bands of rows: where they find some, what they ask for, and that bounds hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.chips import load_chip
from costmodel.hardware.chip import Chip
from costmodel.replay.replay import replay
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.program.checker import violations as program_violations
from costmodel.schedule.program.writer import write_program
from costmodel.schedule.row_bands import band_violations
from costmodel.schedule.segment.node_cost import NodeCost
from costmodel.schedule.tree.tree import has_bands
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.budget import Budget
from solvers.outcome import Outcome
from solvers.schedule import kapla, segment_chain
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.kapla.estimates.estimate import Estimates, SchemeEstimate
from solvers.schedule.kapla.estimates.floors import LayerFloor
from solvers.schedule.kapla.regions import Regions
from solvers.schedule.kapla.segments import Scheme, Slicing
from solvers.schedule.known_trees import KnownTree, best_of
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution, violations
from solvers.schedule.set import solver as annealing
from solvers.schedule.set.canonical import sequential_tree
from solvers.schedule.set.operators.operators import WEIGHTS, Current, Operators
from solvers.schedule.set.operators.row_bands import BAND_OPERATORS, BandRules
from solvers.schedule.set.space import TreeSpace
from solvers.schedule.tiles.cost_table import TabledTileCosts, TileCostsNeeded
from solvers.schedule.tiles.layer_parts import Pruning, Request, TilePart, requested_parts
from solvers.schedule.tiles.mapper import TileMapper, TilePartCost, architecture_of
from tests.costmodel.schedule.band_cases import CHIPS, windows
from tests.costmodel.schedule.chip_cases import FormulaCosts, layer

BANDS = segment_chain.Params(bands=8)
FEW = Pruning(most=4)


def maps() -> LayerGraph:
    """Three convolutions whose maps of 64 rows are large beside their weights."""
    sizes: dict[str, Any] = {"c": 16, "k": 16, "h": 64, "w": 32, "r": 3, "s": 3, "pad_h": 1, "pad_w": 1}
    others = (layer(f"layer{number}", producers=(number - 1,), **sizes) for number in (1, 2))
    return LayerGraph("maps", (layer("layer0", external_c=16, **sizes), *others))


def small_chip(buffer: str) -> Chip:
    return load_chip("set-edge", {"mesh": [2, 2], "stripe": 2, "tile.buffer.size": buffer})


def problem_on(chip: Chip) -> ScheduleProblem:
    graph = maps()
    solve = partial(TileMapper("nvdla").costs, architecture_of(chip.tile))
    return ScheduleProblem(graph, ChipModel(chip, TabledTileCosts(graph, chip.tile, {}, solve, FEW)), 1)


def solution(outcome: Outcome[ScheduleSolution]) -> ScheduleSolution:
    assert outcome.solution is not None
    return outcome.solution


def test_bands_are_found_where_maps_do_not_fit_and_a_replay_confirms_the_gain() -> None:
    problem = problem_on(small_chip("24 KiB"))
    both = segment_chain.Params(), BANDS
    found = {params: segment_chain.solve(problem, Budget(60), params) for params in both}
    cycles, dram = [], []
    for outcome in found.values():
        tree = solution(outcome).tree
        evaluation = problem.evaluator().evaluate(tree)
        assert isinstance(evaluation, ChipEvaluation)
        program = write_program(problem.graph, evaluation)
        assert program_violations(program) == []
        result = replay(program)
        assert (result.dram_read_bytes, result.dram_write_bytes) == (
            evaluation.dram_read_bytes,
            evaluation.dram_write_bytes,
        )
        assert evaluation.cycles == pytest.approx(result.cycles, rel=0.05)
        assert violations(problem, solution(outcome)) == []
        cycles.append(result.cycles)
        dram.append(result.dram_read_bytes + result.dram_write_bytes)
    plain, bands = (solution(outcome) for outcome in found.values())
    assert not has_bands(plain.tree)
    assert has_bands(bands.tree)
    assert dram[1] < 0.4 * dram[0]
    assert bands.energy_pj * cycles[1] < 0.3 * plain.energy_pj * cycles[0]


def test_layers_whose_sample_does_not_fit_run_in_bands() -> None:
    problem = problem_on(small_chip("16 KiB"))
    assert segment_chain.solve(problem, Budget(60)).solution is None
    found = solution(segment_chain.solve(problem, Budget(60), BANDS))
    assert has_bands(found.tree)
    assert violations(problem, found) == []


def test_with_bands_the_answer_is_never_worse() -> None:
    """With a MiB a tile all maps stay on the chip as they are."""
    problem = problem_on(small_chip("1 MiB"))
    plain = segment_chain.solve(problem, Budget(60))
    bands = segment_chain.solve(problem, Budget(60), BANDS)
    assert plain.objective is not None
    assert bands.objective is not None
    assert bands.objective <= plain.objective


def test_bounds_of_trees_with_bands_are_below_those_of_trees_without() -> None:
    problem = problem_on(small_chip("20 KiB"))
    model = problem.model
    assert isinstance(model, ChipModel)
    outcome = segment_chain.solve(problem, Budget(60), BANDS)
    with_bands = replace(model, bands=True).bounds(problem.graph, 1)
    without = model.bounds(problem.graph, 1)
    assert with_bands is not None
    assert without is not None
    assert with_bands.energy_pj <= solution(outcome).energy_pj
    assert with_bands.cycles <= solution(outcome).cycles
    # two maps of 32 KiB do not fit four buffers of 20 KiB beside weights
    assert without.energy_pj > with_bands.energy_pj
    assert outcome.bound is not None
    assert outcome.objective is not None
    assert outcome.bound <= outcome.objective


@pytest.mark.slow
def test_costs_of_bands_are_asked_for() -> None:
    """A table that solves nothing gets every cost by request, and the answer is that of one that does."""
    problem = problem_on(small_chip("20 KiB"))
    wanted = segment_chain.solve(problem, Budget(60), BANDS)
    model = problem.model
    assert isinstance(model, ChipModel)
    chip, graph = model.chip, problem.graph
    known: dict[TilePart, TilePartCost | None] = {}
    mapper, architecture = TileMapper("nvdla"), architecture_of(chip.tile)

    def answer(request: Request) -> None:
        again = Request.of_numbers(request.numbers)
        assert again == request
        known.update(mapper.costs(architecture, requested_parts(graph, again, chip.tile, FEW)))

    for number in range(len(graph.layers)):
        for tiles in range(1, chip.tiles + 1):
            answer(Request(number, 1, tiles))
    heights, rounds = 0, 0
    while True:
        asking = replace(model, tile_costs=TabledTileCosts(graph, chip.tile, dict(known), pruning=FEW))
        try:
            outcome = segment_chain.solve(replace(problem, model=asking), Budget(60), BANDS)
            break
        except TileCostsNeeded as needed:
            rounds += 1
            for request in needed.requests:
                heights += bool(request.heights)
                answer(request)
    assert heights > 0
    assert rounds == 1
    assert solution(outcome).text == solution(wanted).text
    assert outcome.objective == wanted.objective


def test_a_sibling_takes_a_tree_with_bands_and_no_space_of_set_has_it() -> None:
    problem = problem_on(small_chip("20 KiB"))
    tree = solution(segment_chain.solve(problem, Budget(60), BANDS))
    sibling = problem_on(small_chip("24 KiB"))
    costed = best_of(sibling, [KnownTree("it", tree.text)], 10.0)
    assert costed.best is not None
    assert costed.best.text == tree.text
    reasons = TreeSpace(problem.graph.producers, 1, 4).violations(tree.tree)
    assert reasons == ["cuts with bands are in none of these spaces"]


def test_wrong_bands_of_the_search() -> None:
    with pytest.raises(InputError, match="bands"):
        segment_chain.Params(bands=0)


def test_kapla_finds_bands_where_maps_do_not_fit() -> None:
    problem = problem_on(small_chip("24 KiB"))
    plain, bands = (solution(kapla.solve(problem, Budget(60), kapla.Params(bands=most))) for most in (1, 8))
    assert not has_bands(plain.tree)
    assert has_bands(bands.tree)
    assert violations(problem, bands) == []
    assert bands.energy_pj * bands.cycles < 0.3 * plain.energy_pj * plain.cycles


def test_kapla_runs_layers_whose_sample_does_not_fit_in_bands() -> None:
    problem = problem_on(small_chip("16 KiB"))
    assert kapla.solve(problem, Budget(60)).solution is None
    found = solution(kapla.solve(problem, Budget(60), kapla.Params(bands=8)))
    assert has_bands(found.tree)
    assert violations(problem, found) == []


@pytest.mark.slow
@pytest.mark.parametrize("shares", [(), ((2, 1), (2, 2), (4, 1))], ids=["pinned", "or shared"])
def test_no_scheme_with_bands_is_pruned_wrongly_nor_costs_less_than_estimated(
    shares: tuple[tuple[int, int], ...],
) -> None:
    """Every segment of random networks in every number of bands, costed in full."""
    possible = pruned = 0
    for seed in range(6):
        for scheme, may_fit, least, cost in costed_schemes(seed, shares):
            pruned += not may_fit
            if cost is None:
                continue
            possible += 1
            assert may_fit, scheme
            assert least.cost.energy_pj <= sum(cost.parts_pj) * (1 + 1e-12), scheme
            # the formula rounds the cycles of each band down
            rounded = len(scheme.segment) * scheme.subbatches * scheme.bands
            assert least.cost.cycles <= cost.cycles * (1 + 1e-12) + rounded, scheme
            assert sum(least.accesses.read) <= cost.dram_read_bits, scheme
            assert sum(least.accesses.written) <= cost.dram_write_bits, scheme
    assert possible > 50
    assert pruned > (2 if shares else 5)


def costed_schemes(
    seed: int, shares: Sequence[tuple[int, int]] = ()
) -> Iterator[tuple[Scheme, bool, SchemeEstimate, NodeCost | None]]:
    """Schemes with bands of a random network, whether they may fit, their least cost, and their cost.

    ``shares``: (sharers, slices of each share) where tiles share weights.
    """
    random = Random(seed)
    graph, batch = windows(random, 5), random.choice([1, 2])
    chip = CHIPS[seed % len(CHIPS)]
    # small enough that some schemes do not fit; vector units as fast as the formula says
    buffer = replace(chip.tile.buffer, size_bytes=60 if seed % 2 else 1500)
    chip = replace(chip, tile=replace(chip.tile, buffer=buffer, vector_units=chip.tile.macs))
    model = ChipModel(chip, FormulaCosts(graph, shares=shares))
    problem = ScheduleProblem(graph, model, batch)
    slicing = Slicing(problem, kapla.Params(bands=8))
    floors = [LayerFloor.of(graph, number, chip) for number in range(len(graph.layers))]
    regions = Regions(slicing, model.tile_costs.normalized_cycles)
    estimates = Estimates(slicing, chip, floors, regions, model.tile_costs.shares_weights)
    evaluator = model.evaluator(graph, batch, problem.objective)
    for segment in slicing.segments():
        schemes = [Scheme(segment, one) for one in slicing.divisions(segment) if one.bands > 1]
        divisions = [one.division for one in schemes if slicing.has_rows(one)]
        for division, least in estimates.least(segment, divisions):
            scheme = Scheme(segment, division)
            try:
                cost: NodeCost | None = evaluator.segment(slicing.node(scheme))
            except NotPossibleError:
                cost = None
            yield scheme, estimates.may_fit(scheme), least, cost


@pytest.mark.parametrize("batch", [1, 4])
def test_annealed_trees_with_bands_are_valid(batch: int) -> None:
    """A walk of all operators: bands only where they may be, and some after every operator."""
    graph = windows(Random(3), 6)
    space = TreeSpace(graph.producers, batch, 8, bands=4)
    operators = Operators(space, WEIGHTS["paper"], BandRules(graph, 4))
    random, current, seen = (
        Random(batch),
        Current(sequential_tree(list(graph.producers), batch)),
        dict[str, int](),
    )
    for _ in range(3000):
        name, tree = operators.draw(current, random)
        if tree is None:
            continue
        assert space.violations(tree) == []
        assert band_violations(tree, graph) == []
        seen[name] = seen.get(name, 0) + has_bands(tree)
        current = Current(tree)
    assert seen.keys() >= set(BAND_OPERATORS)
    assert min(seen.values()) > 2


def test_annealing_finds_bands_where_maps_do_not_fit() -> None:
    problem = problem_on(small_chip("24 KiB"))
    plain, bands = (
        solution(annealing.solve(problem, Budget(60, seed=1), annealing.Params(beta=100, bands=most)))
        for most in (1, 8)
    )
    assert has_bands(bands.tree)
    assert violations(problem, bands) == []
    assert bands.energy_pj * bands.cycles < 0.6 * plain.energy_pj * plain.cycles


def test_annealing_with_bands_needs_costs_as_it_goes() -> None:
    problem = problem_on(small_chip("24 KiB"))
    model = problem.model
    assert isinstance(model, ChipModel)
    asking = replace(model, tile_costs=TabledTileCosts(problem.graph, model.chip.tile, {}, pruning=FEW))
    with pytest.raises(InputError, match="segment_chain"):
        annealing.solve(replace(problem, model=asking), Budget(60), annealing.Params(bands=8))
