"""Tile costs: parts by counting, pruning by enumeration, the released program's table, mapping solvers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.errors import InputError
from costmodel.formats.chips import load_chip
from costmodel.formats.json.layer_graph_json import load_graph
from costmodel.formats.tiles import load_tile
from costmodel.hardware.chip import Tile
from costmodel.hardware.widths import BYTES
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import Mapping
from costmodel.mapping.nest_text import mapping_of_text
from costmodel.published.set_isca2023.hardware import PLATFORMS
from costmodel.published.set_isca2023.nvdla_tile.mapper import NvdlaMapper
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.leaf.partitions import Parts, factorizations, utilization
from costmodel.schedule.tile_counts.tile_count import counted_on_tile
from solvers.budget import Budget
from solvers.mapping import exact
from solvers.mapping.problem import MappingProblem, objective_of
from solvers.mapping.problem import violations as mapping_violations
from solvers.schedule.tiles.cost_table import TabledTileCosts, solved_costs
from solvers.schedule.tiles.layer_parts import (
    Pruning,
    TileCostDemand,
    TilePart,
    all_boxes,
    batches_of,
    distinct_boxes,
    held_bits,
    useful_partitions,
    vector_operations,
)
from solvers.schedule.tiles.mapper import (
    TileMapper,
    TilePartCost,
    TileProblem,
    architecture_of,
    with_sizes_of,
)
from solvers.schedule.tiles.nvdla import SPLITS, dataflow
from solvers.schedule.tiles.nvdla import solve as solve_nvdla
from solvers.schedule.tiles.partition_ranking import least_inputs
from sweep.study.mapping_space import load_rules

DATA = Path(__file__).parents[2] / "data"
EDGE = load_chip("set-edge").tile
PLAIN: dict[str, Any] = {"r": 1, "s": 1, "stride_h": 1, "stride_w": 1, "pad_h": 0, "pad_w": 0}


def layer(kind: str = "conv", c: int = 8, k: int = 8, size: int = 6, **changes: Any) -> NetworkLayer:
    sizes = {"c": c, "k": k, "h": size, "w": size, "input_h": size, "input_w": size, "external_c": c}
    return NetworkLayer("layer", kind, **{**sizes, **PLAIN, **changes})


def held(one: NetworkLayer, parts: tuple[int, ...], batch: int) -> int:
    largest = [-(-size // part) for size, part in zip(one.sizes(batch), parts, strict=True)]
    return int(held_bits(one, np.array([largest]), BYTES)[0]) // 8


def useful(one: NetworkLayer, batch: int, tiles: int, tile: Tile, *pruning: Pruning) -> list[Parts]:
    found = useful_partitions(one, batch, tiles, tile, *pruning).tolist()
    return [(k, b, h, w) for k, b, h, w in found]


@st.composite
def layers(draw: st.DrawFn) -> NetworkLayer:
    """A layer of any kind with a window inside its input (no padding)."""
    kind = draw(st.sampled_from(["conv", "groupconv", "pool", "eltwise", "ptp"]))
    groups = draw(st.sampled_from([2, 4])) if kind == "groupconv" else 1
    c, k = groups * draw(st.integers(1, 6)), groups * draw(st.integers(1, 6))
    k = k if kind in ("conv", "groupconv") else c
    h, w = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    window = kind in ("conv", "groupconv", "pool")
    r, s, stride = (draw(st.integers(1, 3)) if window else 1 for _ in range(3))
    operands = draw(st.integers(2, 3)) if kind == "eltwise" else 1
    size: dict[str, Any] = {"input_h": (h - 1) * stride + r, "input_w": (w - 1) * stride + s}
    windows: dict[str, Any] = {"r": r, "s": s, "stride_h": stride, "stride_w": stride, "pad_h": 0, "pad_w": 0}
    channels: dict[str, Any] = {"c": c * operands, "k": k, "external_c": c * operands}
    return NetworkLayer("l", kind, h=h, w=w, **channels, **size, **windows, groups=groups, operands=operands)


@given(layers(), st.integers(1, 4), st.sampled_from(factorizations(12)))
def test_the_largest_part_covers_what_a_tile_computes(
    one: NetworkLayer, batch: int, parts: tuple[int, int, int, int]
) -> None:
    work = one.operations * batch
    if one.has_weights:
        part = TilePart.of(one, parts, batch)
        done = part.layer().macs
        assert part.layer().sizes["P"] == -(-one.h // parts[2])
    else:
        done = int(vector_operations(one, np.array([parts]), batch)[0])
    assert done * prod(parts) >= work
    k = -(-one.k // parts[0])
    whole_groups = one.groups == 1 or one.group_k % k == 0 or k % one.group_k == 0
    if all(size % part == 0 for size, part in zip(one.sizes(batch), parts, strict=True)) and whole_groups:
        assert done * prod(parts) == work


@given(layers(), st.integers(1, 4), st.sampled_from(factorizations(8)))
def test_held_bits_are_those_of_the_largest_part(
    one: NetworkLayer, batch: int, parts: tuple[int, int, int, int]
) -> None:
    """Counted address by address for every part."""
    most = 0
    for part in (
        (a, b, c, d)
        for a in range(parts[0])
        for b in range(parts[1])
        for c in range(parts[2])
        for d in range(parts[3])
    ):
        k, b, h, w = (
            range(size * i // n, size * (i + 1) // n)
            for size, n, i in zip(one.sizes(batch), parts, part, strict=True)
        )
        rows = {y * one.stride_h + r for y in h for r in range(one.r)}
        columns = {x * one.stride_w + s for x in w for s in range(one.s)}
        # a window that moves further than its size skips rows, which are held none the less
        span = (max(rows) - min(rows) + 1 if rows else 0) * (
            max(columns) - min(columns) + 1 if columns else 0
        )
        if one.has_weights:
            groups = {channel // one.group_k for channel in k}
            bytes_here = len(groups) * one.group_c * len(b) * span + len(k) * one.group_c * one.r * one.s
        else:
            bytes_here = len(k) * one.operands * len(b) * span
        most = max(most, bytes_here)
    assert most <= held(one, parts, batch)
    if one.groups == 1:
        assert most == held(one, parts, batch)


def test_activations_as_weights_are_a_group_a_sample() -> None:
    scores = layer("groupconv", 64, 48, groups=4, input_w=1, w=1)
    product = replace(scores, external_c=0, producers=(0,), weight_producers=(1,))
    whole = TilePart.of(product, (1, 1, 1, 1), 3)
    assert (whole.groups, whole.b, whole.c, whole.k) == (12, 1, 16, 12)
    assert whole.layer().macs == 3 * product.operations
    assert TilePart.of(product, (4, 3, 1, 1), 3).groups == 1


def test_useful_partitions_use_tiles_well_and_fit() -> None:
    one = layer(c=64, k=48, size=28, r=3, s=3, pad_h=1, pad_w=1)
    for batch, tiles in ((1, 7), (4, 12), (8, 16)):
        found = useful(one, batch, tiles, EDGE)
        used = {parts: utilization(one.sizes(batch), parts) for parts in factorizations(tiles)}
        well = {parts for parts in used if used[parts] >= 0.75}
        assert set(found) == (well or {max(used, key=lambda parts: used[parts])})
        assert [used[parts] for parts in found] == sorted((used[parts] for parts in found), reverse=True)
        few = [useful(one, batch, tiles, EDGE, Pruning(most=most)) for most in (2, 5, len(found))]
        assert few[0] == few[1][:2]
        assert set(few[1]) <= set(found)
        assert few[2] == found
    # in a small buffer only what is cut enough
    small = load_chip("set-edge", {"tile.buffer.size": "80 KiB"}).tile
    room = small.buffer.size_bytes - small.output_stream_bytes
    fitting = useful(one, 8, 16, small, Pruning(0.5))
    assert fitting
    assert {held(one, parts, 8) <= room for parts in fitting} == {True}
    assert len(fitting) < len(useful(one, 8, 16, EDGE, Pruning(0.5)))


@given(st.tuples(*[st.integers(1, 9)] * 4), st.sampled_from(factorizations(12)))
def test_parts_are_charged_as_they_are(
    sizes: tuple[int, int, int, int], parts: tuple[int, int, int, int]
) -> None:
    """Against every part written out, from its first to its last index along each dim."""
    every = Counter(
        box
        for place in product(*map(range, parts))
        if min(
            box := tuple(n * (i + 1) // p - n * i // p for n, p, i in zip(sizes, parts, place, strict=True))
        )
    )
    assert dict(distinct_boxes(sizes, parts)) == every
    assert sum(prod(box) * count for box, count in distinct_boxes(sizes, parts)) == prod(sizes)
    assert {tuple(box) for box in all_boxes(sizes, np.array([parts])).tolist()} == set(every)


def test_energy_is_that_of_all_parts_and_cycles_are_the_slowest_ones() -> None:
    """Ten output channels on four tiles are two of three and two of two."""
    one = layer(c=16, k=10)
    mapper, tile = TileMapper("nvdla"), load_tile("nvdla")
    costs = solved_costs(TileCostDemand(LayerGraph("one", (one,)), EDGE, 4, 1), mapper)
    rows = costs.rows(0, 1, 4)
    row = rows.parts.tolist().index([4, 1, 1, 1])
    assert EDGE.architecture is not None
    large, small = (mapper.cost(EDGE.architecture, TilePart.of_outputs(one, (k, 1, 6, 6))) for k in (3, 2))
    assert large is not None
    assert small is not None
    assert rows.energy_pj[row] == 2 * large.energy_pj + 2 * small.energy_pj
    assert rows.cycles[row] == max(large.cycles, small.cycles)
    found = costs.mappings(0, 1, (4, 1, 1, 1))
    assert found == {(3, 1, 6, 6): large.mapping, (2, 1, 6, 6): small.mapping}
    assert tile.levels[:-1] == EDGE.architecture.levels[:-1]


def test_the_demand_has_every_part_that_rows_ask_for() -> None:
    graph = load_graph("trans_cell")
    demand = TileCostDemand(graph, EDGE, 6, 4)
    known = dict.fromkeys(demand.tile_parts(), TilePartCost(1.0, 1))
    costs = TabledTileCosts(graph, EDGE, known)
    asked = 0
    for index in range(len(graph.layers)):
        assert costs.normalized_cycles(index) > 0
        for batch in batches_of(4):
            asked += sum(len(costs.rows(index, batch, tiles).parts) for tiles in range(1, 7))
    assert asked > len(known)


TILE_PARTS = [
    TilePart(c=64, k=64, p=14, q=28, r=3, s=3, stride_h=1, stride_w=1, b=2, groups=1),
    TilePart(c=3, k=16, p=28, q=28, r=7, s=7, stride_h=2, stride_w=2, b=1, groups=1),
    TilePart(c=256, k=13, p=7, q=5, r=1, s=1, stride_h=1, stride_w=1, b=3, groups=1),
    TilePart(c=512, k=250, p=1, q=1, r=1, s=1, stride_h=1, stride_w=1, b=8, groups=1),
    TilePart(c=1, k=1, p=14, q=14, r=3, s=3, stride_h=1, stride_w=1, b=1, groups=96),
    TilePart(c=4, k=4, p=14, q=14, r=3, s=3, stride_h=2, stride_w=1, b=1, groups=12),
    # the weights of more channels fit a lane than the activation buffer has inputs of
    TilePart(c=1, k=1, p=3, q=4, r=7, s=7, stride_h=2, stride_w=2, b=1, groups=864),
]


@pytest.mark.parametrize("objective", ["energy", "cycles", "edp"])
@pytest.mark.parametrize("part", TILE_PARTS, ids=str)
def test_nvdla_proposes_mappings_of_its_dataflow(part: TilePart, objective: Any) -> None:
    tile, layer = load_tile("nvdla"), part.layer()
    problem = TileProblem(tile, part, objective)
    outcome = solve_nvdla(problem, Budget())
    mapping = outcome.solution
    assert mapping is not None
    kept = [MappingProblem(tile, layer, objective, dataflow(tile, layer, split)) for split in SPLITS]
    assert [] in [mapping_violations(one, mapping) for one in kept]
    counted = evaluate(tile, with_sizes_of(mapping, layer), mapping)
    assert outcome.objective == pytest.approx(objective_of(counted, objective), rel=1e-12)
    cost = TileMapper("nvdla", objective).cost(tile, part)
    assert cost is not None
    assert mapping_of_text(cost.mapping) == mapping
    assert cost.energy_pj == pytest.approx(counted.energy_pj, rel=1e-12)
    assert cost.cycles >= counted.cycles


@pytest.mark.parametrize("solver", ["exact", "cosa", "kapla"])
def test_a_dataflow_that_a_user_states_is_obeyed(solver: str) -> None:
    """Row stationary, read off the mappings: a PE has a row of the filter, a column of PEs all its rows."""
    tile = load_tile("eyeriss")
    row_stationary = load_rules(DATA / "dataflows" / "row-stationary.yaml")
    free, stated = TileMapper(solver), TileMapper(solver, rules=row_stationary)
    for part in (TilePart(16, 24, 14, 14, 3, 3, 1, 1, 1, 1), TilePart(3, 8, 12, 12, 5, 5, 2, 2, 2, 1)):
        cost, any_cost = stated.cost(tile, part), free.cost(tile, part)
        assert cost is not None
        assert any_cost is not None
        mapping = mapping_of_text(cost.mapping)
        assert isinstance(mapping, Mapping)
        buffer, *scratchpads = reversed(mapping.levels)
        assert dict(buffer.spatial_y)["R"] == part.r
        assert {dim for dim, _ in buffer.spatial_x} <= {"P", "K", "N"}
        assert {dim for dim, _ in buffer.spatial_y} <= {"R", "C", "K"}
        assert not {"R", "S"} & {dim for dim, _ in buffer.temporal}
        assert prod(dict(level.temporal).get("S", 1) for level in scratchpads) == part.s
        if solver == "exact":  # both are the best of their spaces, one of which has the other in it
            of_both = [one.energy_pj * one.cycles for one in (cost, any_cost)]
            assert of_both[0] >= of_both[1]
    with pytest.raises(InputError, match="nvdla has a dataflow of its own"):
        TileMapper("nvdla", rules=row_stationary)


@pytest.mark.slow
def test_nvdla_is_close_to_the_best_of_its_dataflow() -> None:
    """Against the proven best of each split without padding; largest blocks are not always the best."""
    tile = load_tile("nvdla")
    for part in TILE_PARTS[:1]:
        layer, found = part.layer(), solve_nvdla(TileProblem(tile, part, "energy"), Budget()).objective
        rules = [replace(dataflow(tile, layer, split), padding=0.0) for split in SPLITS]
        outcomes = [exact.solve(MappingProblem(tile, layer, "energy", one), Budget()) for one in rules]
        assert {str(outcome.status) for outcome in outcomes} == {"optimal"}
        best = min(outcome.objective for outcome in outcomes if outcome.objective is not None)
        assert found is not None
        assert best <= found * (1 + 1e-12)
        assert found <= 1.05 * best


@pytest.mark.slow
def test_the_released_program_counts_about_the_same() -> None:
    """Both ways of counting NVDLA's dataflow: SET's own, and ``evaluate`` on the tile's levels."""
    graph, chip = load_graph("resnet"), load_chip("set-edge")
    assert chip.tile.architecture is not None
    mapper, released = TileMapper("nvdla"), NvdlaMapper(PLATFORMS["edge"].tile, 1)
    tile_parts = TileCostDemand(graph, chip.tile, chip.tiles, 8).tile_parts()[::60]
    ours = [mapper.cost(chip.tile.architecture, part) for part in tile_parts]
    theirs = [released.searched(tuple(part)) for part in tile_parts]
    assert [one is None for one in ours] == [one is None for one in theirs]
    pairs = [(one, other) for one, other in zip(ours, theirs, strict=True) if one and other]
    energies = np.log([one.energy_pj / other.energy_pj for one, other in pairs])
    cycles = np.log([one.cycles / other.cycles for one, other in pairs])
    assert abs(energies.mean()) < 0.05
    assert abs(cycles.mean()) < 0.01
    assert np.abs(energies).max() < 0.5


@pytest.mark.slow
def test_a_mapping_solver_is_judged_by_the_cost_model() -> None:
    part = TilePart.of(layer(c=16, k=16), (2, 1, 2, 1), 1)
    tile = load_tile("nvdla")
    cost = TileMapper("cosa", "energy", None, Budget(wall_seconds=20)).cost(tile, part)
    assert cost is not None
    macs = part.layer().macs
    # every product is one, and no more than 1024 are done in a cycle
    assert cost.energy_pj > macs * tile.compute.energy_pj
    assert cost.cycles >= macs / tile.mac_units
    assert (
        solved_costs(TileCostDemand(LayerGraph("one", (layer(c=16, k=16),)), EDGE, 4, 1), TileMapper())
        .rows(0, 1, 4)
        .cycles.min()
        >= 1
    )


@pytest.mark.parametrize("chip", ["kapla-16x16-released", "set-edge"])
def test_compiled_counts_of_single_mappings_are_the_readable_ones(chip: str) -> None:
    """To the last bit, with and without a dim of groups."""
    architecture = architecture_of(load_chip(chip).tile)
    for part in (
        TilePart(16, 12, 7, 4, 3, 3, 2, 1, 2, 1),
        TilePart(32, 8, 1, 1, 1, 1, 1, 1, 4, 1),
        TilePart(1, 1, 6, 6, 3, 3, 1, 1, 1, 8),
    ):
        cost = TileMapper("kapla", "energy").cost(architecture, part)
        assert cost is not None
        count = counted_on_tile(architecture, part.layer(), mapping_of_text(cost.mapping))
        found = cost.energy_pj, cost.cycles, cost.leakage_pj_per_cycle
        assert found == (count.energy_pj, count.cycles, count.leakage_pj_per_cycle)


def test_floors_are_the_least_of_all_rows() -> None:
    one = layer("pool", 8, 8)
    costs = solved_costs(TileCostDemand(LayerGraph("pool", (one,)), EDGE, 4, 4), TileMapper())
    floor = costs.floor(0, batches_of(4), 4)
    rows = [(b, n, costs.rows(0, b, n)) for b in batches_of(4) for n in range(1, 5)]
    assert floor.energy_pj == min(row.energy_pj.min() / b for b, _, row in rows)
    assert floor.tile_cycles == min(row.cycles.min() * n / b for b, n, row in rows)
    assert floor.energy_pj <= one.operations * EDGE.vector_operation_pj * (1 + 1e-12)


def test_what_a_tile_cannot_do_has_no_row() -> None:
    # all channels under a 6 x 6 window do not fit a lane's weights
    part = TilePart.of(layer(c=4096, k=8, size=1, r=6, s=6, input_h=6, input_w=6), (1, 1, 1, 1), 1)
    assert TileMapper("nvdla").cost(load_tile("nvdla"), part) is None
    with pytest.raises(InputError, match="an NVDLA-style tile"):
        TileMapper("nvdla").cost(load_tile("eyeriss"), part)
    with pytest.raises(InputError, match=r"Did you mean nvdla"):
        TileMapper("nvdl").cost(load_tile("nvdla"), part)
    assert TileProblem(load_tile("nvdla"), part).objective == "edp"
    wrong: dict[str, Any]
    for wrong in ({"least_utilization": 2.0}, {"most": 0}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            Pruning(**wrong)


def test_a_tile_without_limits_fits_every_part() -> None:
    tile = load_tile("nvdla")
    endless = replace(tile, levels=tuple(replace(level, size_words=None) for level in tile.levels))
    part = TilePart.of(layer(c=4096, k=8, size=1, r=6, s=6, input_h=6, input_w=6), (1, 1, 1, 1), 1)
    assert TileMapper("nvdla").cost(tile, part) is None
    assert TileMapper("nvdla").cost(endless, part) is not None


@pytest.mark.parametrize(
    "change",
    [{"leakage_pj_per_cycle": 0.5}, {"update_energy_pj": 9.0}, {"read_bandwidth": 0.5}, {"block_size": 4}],
)
@pytest.mark.parametrize("place", [1, 2, 3])
def test_whatever_a_level_says_is_counted(place: int, change: dict[str, Any]) -> None:
    tile, part = load_tile("nvdla"), TILE_PARTS[0]
    levels = list(tile.levels)
    levels[place] = replace(levels[place], **change)
    changed = replace(tile, levels=tuple(levels))
    cost = TileMapper("nvdla").cost(changed, part)
    assert cost is not None
    mapping = mapping_of_text(cost.mapping)
    counted = evaluate(changed, with_sizes_of(mapping, part.layer()), mapping)
    assert counted.energy_pj == pytest.approx(cost.energy_pj + cost.leakage_pj_per_cycle * counted.cycles)
    assert (cost.leakage_pj_per_cycle > 0) == ("leakage_pj_per_cycle" in change)


@pytest.mark.parametrize("length", [5, 8])
@pytest.mark.parametrize(("above", "below"), [(0, 0), (1, 1), (0, 1), (2, 0), (0, 2), (-2, 0), (-1, 1)])
def test_no_part_holds_less_than_its_size_says(length: int, above: int, below: int) -> None:
    """Every interval of rows, window by window; with more padding on one side than on the other."""
    for window, stride in ((3, 1), (3, 2), (2, 2)):
        rows = (length + above + below - window) // stride + 1
        one = NetworkLayer(
            "conv", "conv", c=1, k=1, h=rows, w=1, r=window, s=1, stride_h=stride, stride_w=1, pad_h=above,
            pad_w=0, input_h=min(length, (rows - 1) * stride + window - above), input_w=1,
        )  # fmt: skip
        for size in range(1, rows + 1):
            (least,) = least_inputs(one, np.array([[1, 1, size, 1]]))
            for first in range(rows - size + 1):
                under = {p * stride + i - above for p in range(first, first + size) for i in range(window)}
                assert least <= max(len(under & set(range(one.input_h))), 1)
