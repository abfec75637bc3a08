"""Tile costs: shares by counting, pruning by enumeration, the released program's table, mapping solvers."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.errors import InputError
from costmodel.formats.chips import load_chip
from costmodel.formats.layer_graph_json import load_graph
from costmodel.formats.tiles import load_tile
from costmodel.hardware.architecture import Architecture
from costmodel.hardware.chip import Tile
from costmodel.published.set_isca2023.hardware import PLATFORMS
from costmodel.published.set_isca2023.nvdla_tile_costs import NvdlaTileCosts
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.leaf.partitions import Parts, factorizations, utilization
from solvers.budget import Budget
from solvers.schedule.tiles.cost_table import TabledTileCosts, solved_costs
from solvers.schedule.tiles.layer_parts import (
    Pruning,
    TileCostDemand,
    TilePart,
    batches_of,
    held_bytes,
    useful_partitions,
    vector_operations,
)
from solvers.schedule.tiles.mapper import TileMapper, TilePartCost, TileProblem
from solvers.schedule.tiles.nvdla import Params, nvdla_tile
from solvers.schedule.tiles.partition_ranking import least_inputs

EDGE = load_chip("set-edge").tile
PLAIN: dict[str, Any] = {"r": 1, "s": 1, "stride_h": 1, "stride_w": 1, "pad_h": 0, "pad_w": 0}


def layer(kind: str = "conv", c: int = 8, k: int = 8, size: int = 6, **changes: Any) -> NetworkLayer:
    sizes = {"c": c, "k": k, "h": size, "w": size, "input_h": size, "input_w": size, "external_c": c}
    return NetworkLayer("layer", kind, **{**sizes, **PLAIN, **changes})


def held(one: NetworkLayer, parts: tuple[int, ...], batch: int) -> int:
    largest = [-(-size // part) for size, part in zip(one.sizes(batch), parts, strict=True)]
    return int(held_bytes(one, np.array([largest]))[0])


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
def test_the_largest_share_covers_its_part_of_the_work(
    one: NetworkLayer, batch: int, parts: tuple[int, int, int, int]
) -> None:
    work = one.operations * batch
    if one.has_weights:
        share = TilePart.of(one, parts, batch)
        done = share.layer().macs
        assert share.layer().sizes["P"] == -(-one.h // parts[2])
    else:
        done = int(vector_operations(one, np.array([parts]), batch)[0])
    assert done * prod(parts) >= work
    k = -(-one.k // parts[0])
    whole_groups = one.groups == 1 or one.group_k % k == 0 or k % one.group_k == 0
    if all(size % part == 0 for size, part in zip(one.sizes(batch), parts, strict=True)) and whole_groups:
        assert done * prod(parts) == work


@given(layers(), st.integers(1, 4), st.sampled_from(factorizations(8)))
def test_held_bytes_are_those_of_the_largest_part(
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


def test_the_demand_has_every_share_that_rows_ask_for() -> None:
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


def test_nvdla_is_the_released_programs_mapper() -> None:
    platform, graph = PLATFORMS["edge"], load_graph("resnet")
    chip = load_chip("set-edge")
    assert replace(nvdla_tile(load_tile("nvdla")), shared=platform.tile.shared) == platform.tile
    for objective, exponent in (("edp", 1), ("energy", -1), ("cycles", 0)):
        demand = TileCostDemand(graph, chip.tile, chip.tiles, 8)
        ours = solved_costs(demand, TileMapper("nvdla", objective))  # type: ignore[arg-type]
        theirs = NvdlaTileCosts(graph, platform.tile, exponent)
        for index in range(0, len(graph.layers), 9):
            for batch, tiles in ((1, 16), (8, 5)):
                one, other = (table.rows(index, batch, tiles) for table in (ours, theirs))
                known = {
                    tuple(p): (e, c)
                    for p, e, c in zip(other.parts.tolist(), other.energy_pj, other.cycles, strict=True)
                }
                for parts, energy, cycles in zip(one.parts.tolist(), one.energy_pj, one.cycles, strict=True):
                    assert known[tuple(parts)] == (energy, cycles)


def test_a_mapping_solver_is_judged_by_the_cost_model() -> None:
    share = TilePart.of(layer(c=16, k=16), (2, 1, 2, 1), 1)
    tile = load_tile("nvdla")
    cost = TileMapper("cosa", "energy", None, Budget(wall_seconds=20)).cost(tile, share)
    assert cost is not None
    macs = share.layer().macs
    # every product is one, and no more than 1024 are done in a cycle
    assert cost.energy_pj > macs * tile.compute.energy_pj
    assert cost.cycles >= macs / tile.mac_units
    assert (
        solved_costs(TileCostDemand(LayerGraph("one", (layer(c=16, k=16),)), EDGE, 4, 1), TileMapper())
        .rows(0, 1, 4)
        .cycles.min()
        >= 1
    )


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
    share = TilePart.of(layer(c=4096, k=8, size=1, r=6, s=6, input_h=6, input_w=6), (1, 1, 1, 1), 1)
    assert TileMapper("nvdla").cost(load_tile("nvdla"), share) is None
    with pytest.raises(InputError, match="an NVDLA-style tile"):
        TileMapper("nvdla").cost(load_tile("eyeriss"), share)
    with pytest.raises(InputError, match=r"Did you mean nvdla"):
        TileMapper("nvdl").cost(load_tile("nvdla"), share)
    with pytest.raises(InputError, match="bus_bytes_per_cycle"):
        Params(bus_bytes_per_cycle=0)
    assert TileProblem(load_tile("nvdla"), share).objective == "edp"
    wrong: dict[str, Any]
    for wrong in ({"least_utilization": 2.0}, {"most": 0}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            Pruning(**wrong)


@pytest.mark.parametrize("unlimited", [(0,), (1,), (2,), (3,), (1, 2), (0, 1, 2, 3, 4)])
def test_a_level_without_a_size_costs_what_an_endless_one_does(unlimited: tuple[int, ...]) -> None:
    """Against sizes and bandwidths far beyond what any share can use."""
    tile = load_tile("nvdla")

    def changed(size: int | None, bandwidth: float | None) -> Architecture:
        outermost = {"read_bandwidth": bandwidth, "write_bandwidth": bandwidth}
        levels = [
            replace(level, **(outermost if number == 4 else {"size_words": size}))
            if number in unlimited
            else level
            for number, level in enumerate(tile.levels)
        ]
        return replace(tile, levels=tuple(levels))

    shares = [
        TilePart.of(layer(c=256, k=64), (1, 1, 1, 1), 2),
        TilePart.of(layer(c=4096, k=8, size=1, r=6, s=6, input_h=6, input_w=6), (1, 1, 1, 1), 1),
    ]
    mapper = TileMapper("nvdla")
    found = [mapper.cost(changed(None, None), share) for share in shares]
    assert found == [mapper.cost(changed(2**45, 2.0**45), share) for share in shares]
    assert found[0] is not None
    # neither a lane's weights nor a PE's activations have room for the second share
    assert (found[1] is not None) == ({1, 2} <= set(unlimited))


@pytest.mark.parametrize(
    ("place", "change", "said"),
    [
        (2, {"word_bits": 16}, r"ActivationBuffer.word_bits: expected 8, found 16"),
        (1, {"fanout_x": 2}, r"WeightBuffer.fanout: expected 1"),
        (4, {"fanout_y": 2}, r"Buffer.fanout: expected 1"),
        (0, {"leakage_pj_per_cycle": 0.5}, r"Accumulators.leakage_pj_per_cycle: expected 0"),
        (3, {"multiple_buffering": 2.0}, r"OutputBuffer.multiple_buffering: expected 1"),
        (3, {"read_bandwidth": 4.0}, r"OutputBuffer.read_bandwidth: expected unlimited"),
        (4, {"shared_bandwidth": 4.0}, r"Buffer.shared_bandwidth: expected unlimited"),
        (4, {"read_bandwidth": 0.5}, r"Buffer.read_bandwidth: expected a whole number"),
        (4, {"write_bandwidth": 8.0}, r"Buffer.write_bandwidth: expected 256.0, as read_bandwidth"),
        (1, {"update_energy_pj": 9.0}, r"WeightBuffer.update_energy_pj: expected 0.2471"),
    ],
)
def test_what_nvdlas_counts_would_leave_out_is_refused(place: int, change: dict[str, Any], said: str) -> None:
    tile = load_tile("nvdla")
    levels = list(tile.levels)
    levels[place] = replace(levels[place], **change)
    with pytest.raises(InputError, match=said):
        nvdla_tile(replace(tile, levels=tuple(levels)))


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
