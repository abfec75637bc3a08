"""Leaves whose tiles share their weights: what they move, hold, take and cost, and their programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from random import Random
from statistics import mean
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.chips import load_chip
from costmodel.formats.json.programs import program_from_json, program_to_json
from costmodel.hardware.chip import Chip
from costmodel.replay.replay import replay
from costmodel.schedule.bounds.bounds import lower_bounds
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.leaf.geometry import orders_of
from costmodel.schedule.leaf.sharing import FoundSharing, SharedLeaf, _counted, cheapest_sharing
from costmodel.schedule.program.checker import violations
from costmodel.schedule.program.program import Instruction, Program, Repeat
from costmodel.schedule.program.writer import write_program
from costmodel.schedule.tile_cost import TileRows
from costmodel.schedule.tree.data_flow import DataFlow
from costmodel.schedule.tree.text import parse_tree
from costmodel.schedule.tree.tree import Leaf, leaves
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.budget import Budget
from solvers.schedule import kapla
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem
from solvers.schedule.tiles.cost_table import solved_costs
from solvers.schedule.tiles.layer_parts import Pruning, TileCostDemand
from solvers.schedule.tiles.mapper import TileMapper
from tests.costmodel.schedule.band_cases import written as in_bands
from tests.costmodel.schedule.chip_cases import (
    FormulaCosts,
    chain,
    chip,
    every_kind,
    layer,
    of_widths,
    random_tree,
    read_in_part,
)
from tests.costmodel.schedule.chip_counts import energy_pj, most_held, recount
from tests.costmodel.schedule.program.test_writer import needed, read_by_computes, replayed_as_counted
from tests.costmodel.schedule.test_evaluate import check_segment, fetched_weights, stages_of

SHARES = ((2, 1), (2, 2), (3, 1), (4, 1), (6, 1))
"""Sharers, and slices of each share."""


class OnlyShared(FormulaCosts):
    """Tile costs of leaves that share weights wherever two tiles can need the same ones."""

    def rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        return (
            TileRows.of([])
            if len(self.shared_rows(layer, batch, tiles).parts)
            else self.every(layer, batch, tiles)
        )

    def band_rows(self, layer: int, batch: int, tiles: int, heights: Sequence[int]) -> Sequence[TileRows]:
        sharing = self.shared_band_rows(layer, batch, tiles, heights)
        if len(sharing[0].parts):
            return [TileRows.of([]) for _ in heights]
        return super().band_rows(layer, batch, tiles, heights)

    def every(self, layer: int, batch: int, tiles: int) -> TileRows:
        return super().rows(layer, batch, tiles)

    def shared_rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        whole = FormulaCosts(self.graph, self.idle, shares=self.shares)
        return whole.shared_rows(layer, batch, tiles)


def wide() -> LayerGraph:
    """Four layers of 12 channels on 3 x 3 positions, the last of which reads the second as well."""
    sizes: dict[str, Any] = {"c": 12, "k": 12, "h": 3, "w": 3}
    window: dict[str, Any] = {"r": 3, "s": 3, "pad_h": 1, "pad_w": 1}
    layers = (
        layer("first", external_c=12, **sizes, **window),
        layer("second", producers=(0,), **sizes),
        layer("third", "groupconv", producers=(1,), groups=3, **sizes),
        layer("last", producers=(2, 1), **{**sizes, "c": 24, "k": 7}),
    )
    return LayerGraph("wide", layers)


CHIPS = [
    chip(2, 2),
    of_widths(chip(3, 2, stripe=2, link=2), 4, 8, 32),
    chip(1, 4),
    chip(6, 1, dram=9),
    of_widths(chip(2, 3, link=64), 5, 12, 24),
]
GRAPHS = [wide(), every_kind(), read_in_part()]
FEW = range(10)
MANY = pytest.param(range(10, 40), marks=[pytest.mark.slow, pytest.mark.thorough])


def evaluated(
    graph: LayerGraph, on: Chip, seed: int, idle: bool = False
) -> tuple[ChipEvaluation, FormulaCosts] | None:
    """A random tree whose leaves share weights; None where it does not fit, or none do."""
    random = Random(seed)
    batch = random.choice([1, 2, 4, 6])
    costs = OnlyShared(graph, idle, shares=SHARES)
    try:
        found = ChipEvaluator(graph, on, batch, costs, (1.5, 2.0)).evaluate(random_tree(random, graph, batch))
    except NotPossibleError:
        return None
    return (found, costs) if any(node.leaf and node.leaf.sharing for node in found.nodes()) else None


@pytest.mark.slow
@pytest.mark.parametrize("on", CHIPS, ids=lambda on: f"{on.columns}x{on.rows}")
@pytest.mark.parametrize("idle", [False, True], ids=["every tile has a part", "some tiles idle"])
@pytest.mark.parametrize("seeds", [FEW, MANY], ids=["few", "many"])
def test_all_counts_of_random_trees(on: Chip, idle: bool, seeds: range) -> None:
    """Traffic on every link, DRAM, energy, cycles and buffers, by a count element by element."""
    checked = 0
    for graph, seed in product(GRAPHS, seeds):
        found = evaluated(graph, on, seed, idle)
        if found is None:
            continue
        evaluation, costs = found
        flow = DataFlow(evaluation.tree, graph.producers)
        stages, total = stages_of(evaluation, flow), 0.0
        drawn = evaluation.spatial_temporal(graph.producers)
        for segment in evaluation.segments:
            counts = recount(graph, evaluation, segment, flow)
            total += evaluation.rounds * sum(energy_pj(counts, costs, number) for number in counts.leaves)
            check_segment(counts, segment, stages)
            names = {graph.layers[number].name for number in counts.leaves}
            mine = [one for one in drawn if one.layer in names and one.end_sample <= segment.node.batch]
            assert segment.held.most >= most_held(counts, mine, flow, set(fetched_weights(segment.node)))
        assert evaluation.energy_pj == pytest.approx(total, rel=1e-12)
        checked += 1
    assert checked > 3


@pytest.mark.slow
@pytest.mark.parametrize("on", CHIPS, ids=lambda on: f"{on.columns}x{on.rows}")
@pytest.mark.parametrize("idle", [False, True], ids=["every tile has a part", "some tiles idle"])
@pytest.mark.parametrize("seeds", [FEW, MANY], ids=["few", "many"])
def test_programs_of_random_trees(on: Chip, idle: bool, seeds: range) -> None:
    """They can run, move what the model counts link by link, do all operations, and hold no more.

    Each compute reads the weights of its slice, from its own share or as another tile passed them on.
    """
    ratios: list[float] = []
    for graph, seed in product(GRAPHS, seeds):
        found = evaluated(graph, on, seed, idle)
        if found is None:
            continue
        evaluation, _ = found
        program = write_program(graph, evaluation)
        operations = evaluation.tree.batch * sum(one.operations for one in graph.layers)
        again = replayed_as_counted(program, evaluation, operations)
        if graph.name == "wide":  # short layers with branches overlap more than the model says in any case
            ratios.append(evaluation.cycles / again.cycles)
        for code in program.tiles if seed < 3 else ():
            for one in read_by_computes(program, code):
                wanted = needed(graph, one.layer, one.box)
                assert wanted <= one.elements
                beyond = {element[0] for element in one.elements - wanted}
                # Other slices of the tile's own share; a slice of a grouped layer leaves inputs, too.
                if graph.layers[graph.index[one.layer]].groups == 1:
                    assert beyond <= {f"{one.layer}.weights"}
    assert len(ratios) > 3
    assert 0.95 < mean(ratios) < 1.15


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(25), MANY], ids=["few", "many"])
def test_programs_of_random_segments_with_bands(seeds: range) -> None:
    """Each band goes through all slices. Every link, DRAM and operations are those of the model."""
    ratios, sharing = [], 0
    for seed in seeds:
        found = in_bands(seed, partial(OnlyShared, shares=SHARES))
        if found is None:
            continue
        graph, program, evaluation = found
        leaves_of = [node.leaf for node in evaluation.nodes() if node.leaf]
        sharing += sum(1 for one in leaves_of if one.sharing and one.bands)
        operations = evaluation.tree.batch * sum(one.operations for one in graph.layers)
        again = replayed_as_counted(program, evaluation, operations)
        if evaluation.rounds == 1:
            ratios.append(evaluation.cycles / again.cycles)
    assert sharing > 5
    assert len(ratios) > 5
    assert 0.85 < mean(ratios) < 1.15


@pytest.mark.slow
@pytest.mark.parametrize("on", [chip(2, 2, dram=1), chip(1, 4, 900, dram=2)], ids=["large", "small"])
def test_bounds_of_random_trees(on: Chip) -> None:
    """No tree is below the bounds, which know of shared weights by the tile costs alone."""
    checked = 0
    for graph, seed in product(GRAPHS, range(30)):
        found = evaluated(graph, on, seed)
        if found is not None:
            evaluation, costs = found
            bounds = lower_bounds(graph, on, evaluation.tree.batch, costs)
            assert evaluation.energy_pj >= bounds.energy_pj
            assert evaluation.cycles >= bounds.cycles
            assert evaluation.energy_pj * evaluation.cycles >= bounds.product((1.0, 1.0))
            checked += 1
    assert checked > 10


@pytest.mark.parametrize("on", CHIPS, ids=lambda on: f"{on.columns}x{on.rows}")
def test_the_search_finds_the_least_of_all_rows_and_orders(on: Chip, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row is counted in each order, and the search's bounds have left out none that is cheaper."""
    asked: list[tuple[SharedLeaf, FoundSharing | None]] = []

    def both(one: SharedLeaf, workspace: Any, chip: Chip, prices: Any, below: float) -> FoundSharing | None:
        found = cheapest_sharing(one, workspace, chip, prices, below)
        exponents = prices.energy_exponent, prices.cycles_exponent
        every = [
            one.factors[row] * _counted(one, workspace, chip, row, order).value(exponents)
            for row in range(len(one.parts))
            for order in orders_of(one.parts[row])
        ]
        if found is None:  # a way that costs the same but for rounding may be found or not
            assert min(every) >= below * (1 - 1e-12)
        else:
            assert one.factors[found.row] * found.value(exponents) == min(every)
            assert min(every) <= below * (1 + 1e-12)
        asked.append((one, found))
        return found

    monkeypatch.setattr("costmodel.schedule.leaf.leaf.cheapest_sharing", both)
    for graph, seed in product(GRAPHS, range(6)):
        random = Random(seed)
        batch = random.choice([1, 2, 4, 6])
        # with and without other ways, whose value every way to share may be above
        kind = OnlyShared if seed % 2 else FormulaCosts
        costs = kind(graph, slices=(3, 2), shares=SHARES)
        tree = random_tree(random, graph, batch)
        with suppress(NotPossibleError):
            ChipEvaluator(graph, on, batch, costs, (1.5, 2.0)).evaluate(tree)
    assert len({found is None for _, found in asked}) == 2
    assert max(len(one.parts) for one, _ in asked) > 3


class Rows(FormulaCosts):
    """The same costs with the channels of no layer cut, so that all tiles need all weights."""

    def rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        found = super().rows(layer, batch, tiles)
        return found.kept(found.parts[:, 0] == 1)


def in_a_row(tree: str = "T 2/1\n\tT 2/2\n\t\tone 1\n") -> ChipEvaluation:
    """A layer of 8 x 8 weights on four tiles in a row, a row of outputs each; one share is two channels."""
    graph = LayerGraph("one", (layer("one", c=8, k=8, h=4, w=1, external_c=8),))
    costs = OnlyShared(graph, shares=((4, 1),))
    costs.every = Rows(graph).rows  # type: ignore[method-assign]
    on = chip(4, 1, link=16, dram=8)
    return ChipEvaluator(graph, on, parse_tree(tree).batch, costs).evaluate(parse_tree(tree))


def test_traffic_of_a_share_by_hand() -> None:
    """A tree from any tile of a row to the three others has 3 links, so each byte of weights makes 3 hops.

    In two runs the 64 bytes of weights make 2 x 64 x 3 = 384 hops. DRAM sends a share of 16 bytes to each
    tile and 8 bytes of inputs in each run, half of it from either end: to tiles 0 to 3 over 0 + 3, 1 + 2,
    2 + 1 and 3 + 0 links, 1.5 in the mean. So do the 8 bytes of outputs of each tile and run on their way
    back.
    """
    found = in_a_row()
    (leaf,) = (node.leaf for node in found.nodes() if node.leaf)
    assert leaf.sharing is not None
    assert (leaf.placement.parts, leaf.slices, leaf.sharing.sharers) == ((1, 1, 4, 1), 4, 4)
    assert leaf.sharing.kept.tolist() == [8 * 16] * 4
    assert found.noc_hop_bytes == 2 * 64 * 3 + 1.5 * (64 + 2 * 32 + 2 * 32)
    assert (found.dram_read_bytes, found.dram_write_bytes) == (64 + 2 * 32, 2 * 32)
    again = replay(write_program(LayerGraph("one", (layer("one", c=8, k=8, h=4, w=1, external_c=8),)), found))
    assert again.hop_bytes == found.noc_hop_bytes


def heavy_pair() -> LayerGraph:
    """Two layers of 4 KiB of weights each, for 1 KiB of outputs of a sample."""
    sizes: dict[str, Any] = {"c": 64, "k": 64, "h": 4, "w": 4}
    return LayerGraph("pair", (layer("one", external_c=64, **sizes), layer("two", producers=(0,), **sizes)))


def test_a_pipeline_fits_that_would_not_without_sharing() -> None:
    """By hand: of 4 KiB of weights a tile of four holds 1 KiB and three slices of 256 bytes, two samples'
    inputs of 256 bytes each, and outputs on their way: 2,312 bytes.
    """
    graph, on, tree = heavy_pair(), chip(4, 2, 2400, link=16, dram=8), "S 8/8\n\tone 1\n\ttwo 1\n"
    with pytest.raises(NotPossibleError):
        ChipEvaluator(graph, on, 8, Rows(graph, slices=(2, 4))).evaluate(parse_tree(tree))
    costs = Rows(graph, slices=(2, 4), shares=((4, 4),))
    found = ChipEvaluator(graph, on, 8, costs).evaluate(parse_tree(tree))
    assert [node.leaf.sharing.sharers for node in found.nodes() if node.leaf and node.leaf.sharing] == [4, 4]
    assert found.most_held == 8 * (1024 + 3 * 256 + 2 * 256 + 8)
    assert found.dram_read_bytes == 2 * 4096 + 8 * 1024
    program = write_program(graph, found)
    assert violations(program) == []
    again = replay(program)
    assert int(again.peak_bits.max()) == found.most_held
    assert again.hop_bytes == found.noc_hop_bytes
    assert found.cycles == pytest.approx(again.cycles, rel=0.05)


@pytest.mark.slow
def test_what_fits_without_sharing_fits_with_it() -> None:
    """Leaves that share may overflow a cut in which they would fit with streamed weights."""
    fitting = 0
    for graph, seed, size in product([wide(), chain(3)], range(40), (200, 300, 500)):
        random, on = Random(seed), chip(2, 2, size)
        tree = random_tree(random, graph, batch := random.choice([1, 2, 4]))
        try:
            ChipEvaluator(graph, on, batch, FormulaCosts(graph, slices=(3, 2))).evaluate(tree)
        except NotPossibleError:
            continue
        costs = FormulaCosts(graph, slices=(3, 2), shares=SHARES)
        ChipEvaluator(graph, on, batch, costs).evaluate(tree)
        fitting += 1
    assert fitting > 10


def nodes(share: bool) -> tuple[LayerGraph, ChipModel]:
    """Six layers on four of KAPLA's nodes, each with 4 Ki weights for 16 Ki words of a sample's outputs."""
    sizes: dict[str, Any] = {"c": 64, "k": 64, "h": 16, "w": 16, "r": 1, "s": 1}
    others = (layer(f"layer{number}", producers=(number - 1,), **sizes) for number in range(1, 6))
    graph = LayerGraph("products", (layer("layer0", external_c=64, **sizes), *others))
    on = load_chip("kapla-16x16-released", {"mesh": [2, 2], "stripe": 2})
    demand = TileCostDemand(graph, on.tile, on.tiles, 8, Pruning(most=4, share_weights=share))
    return graph, ChipModel(on, solved_costs(demand, TileMapper("kapla"), on))


@pytest.mark.slow
def test_on_nodes_sharing_saves_what_streaming_reads_again_and_a_replay_confirms_it() -> None:
    """All six layers hand on their outputs either way. Shared weights are sent by DRAM once."""
    found: list[tuple[ChipEvaluation, int]] = []
    for share in (False, True):
        graph, model = nodes(share)
        outcome = kapla.solve(ScheduleProblem(graph, model, 8, Objective()), Budget(60))
        assert outcome.solution is not None
        evaluation = model.judge(graph, 8, Objective()).evaluate(outcome.solution.tree)
        program = write_program(graph, evaluation)
        assert violations(program) == []
        again = replay(program)
        moved = again.dram_read_bytes, again.dram_write_bytes, again.hop_bytes
        assert moved == (evaluation.dram_read_bytes, evaluation.dram_write_bytes, evaluation.noc_hop_bytes)
        assert evaluation.cycles == pytest.approx(again.cycles, rel=0.05)
        found.append((evaluation, again.cycles))
    (streaming, longer), (sharing, cycles) = found
    assert [len(list(leaves(one.node))) for one in sharing.segments] == [6]
    # Not all six share: equal leaves under one price leave more bits free than are missing.
    sharers = sum(node.leaf.sharing is not None for node in sharing.nodes() if node.leaf)
    assert sharers >= 4
    weights, maps = 4096 * 2, 2 * 8 * 64 * 256 * 2
    assert sharing.dram_bytes == (sharers + 8 * (6 - sharers)) * weights + maps
    assert streaming.dram_bytes == 8 * 6 * weights + maps
    assert sharing.energy_pj * cycles < 0.9 * streaming.energy_pj * longer


Code = list[Instruction | Repeat]


def changed(program: Program, change: Callable[[Instruction], Sequence[Instruction]]) -> Program:
    """The program with other instructions in place of each."""

    def of(code: Sequence[Instruction | Repeat]) -> Code:
        found: Code = []
        for item in code:
            if isinstance(item, Repeat):
                found.append(Repeat(item.times, tuple(of(item.body))))
            else:
                found += change(item)
        return found

    return replace(program, tiles=tuple(tuple(of(code)) for code in program.tiles))


def one_program() -> Program:
    graph = LayerGraph("one", (layer("one", c=8, k=8, h=4, w=1, external_c=8),))
    return write_program(graph, in_a_row())


def test_the_checker_and_the_replay_find_what_is_wrongly_passed_on() -> None:
    program = one_program()
    assert violations(program) == []
    passes = [
        item for code in program.tiles for item in flat(code) if item.operation == "send" and item.reads
    ]
    assert passes
    message, (share,) = passes[0].message, passes[0].reads
    box = program.messages[message].box

    def other(number: int, **changes: Any) -> Program:
        messages = [
            replace(one, **changes) if at == number else one for at, one in enumerate(program.messages)
        ]
        return replace(program, messages=tuple(messages))

    wrong = {
        "has not all": other(message, box=((7, 8), *box[1:]) if box[0][0] < 7 else ((0, 1), *box[1:])),
        "has not all of": other(message, tensor="one.input"),
        "change from one time": other(share, moves=((2, (0, 0, 0, 0)),)),
        "are not in the buffer": changed(
            program, lambda it: (Instruction("free", share), it) if it == passes[0] else (it,)
        ),
        "several messages": changed(
            program, lambda it: (replace(it, reads=(share, share)),) if it == passes[0] else (it,)
        ),
        "of 99": changed(program, lambda it: (replace(it, reads=(99,)),) if it == passes[0] else (it,)),
    }
    for reason, one in wrong.items():
        assert any(reason in found or "of message 99" in found for found in violations(one)), reason
        with pytest.raises(InputError):
            replay(one)


def flat(code: Sequence[Instruction | Repeat]) -> list[Instruction]:
    """The instructions of a tile, each once."""
    return [one for item in code for one in (flat(item.body) if isinstance(item, Repeat) else [item])]


def test_programs_that_pass_data_on_survive_their_file() -> None:
    program = one_program()
    assert program_from_json(program_to_json(program)) == program


def test_a_single_tile_has_nobody_to_share_with() -> None:
    graph = chain(1)
    costs = FormulaCosts(graph, shares=SHARES)
    found = ChipEvaluator(graph, chip(1, 1), 2, costs).evaluate(Leaf("layer0", 2))
    assert [node.leaf.sharing for node in found.nodes() if node.leaf] == [None]
