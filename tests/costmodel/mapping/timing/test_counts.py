"""What the steps of a walk ask for, counted a second way: step by step, tile by tile, row by row."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from math import ceil, exp, prod
from random import Random

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.hardware.architecture import Architecture
from costmodel.hardware.timing import Timing
from costmodel.mapping.timing.caches import hit_rate, lines_of_run
from costmodel.mapping.timing.counts import step_counts
from costmodel.mapping.timing.cycles import cycles_of
from costmodel.mapping.timing.walk import Walk, rounded
from costmodel.workload.network import Layer, convolution, gemm

GEMMINI = load_architecture("gemmini")


def timing_of(architecture: Architecture) -> Timing:
    assert architecture.timing is not None
    return architecture.timing


def walks(seed: int, count: int) -> list[Walk]:
    """Random convolutions and walks over them, whose last tiles are often smaller than the others."""
    rng = Random(seed)
    found = []
    for _ in range(count):
        stride = rng.choice([1, 1, 2])
        layer = convolution(
            "drawn",
            N=rng.choice([1, 1, 2]),
            K=rng.randint(1, 40),
            C=rng.randint(1, 40),
            P=rng.randint(1, 25),
            Q=rng.randint(2, 5),
            R=rng.choice([1, 3]),
            S=rng.choice([1, 2]),
            stride=(stride, stride),
        )
        tile = {dim: rng.randint(1, size) for dim, size in layer.dims}
        loops = [(dim, ceil(size / tile[dim])) for dim, size in layer.dims if tile[dim] < size]
        rng.shuffle(loops)
        found.append(Walk(layer, tile, tuple(loops)))
    return found


def boxes(walk: Walk) -> list[dict[str, tuple[int, int]]]:
    """Every step's box of points, as (first, end) by dim, in the order of the walk."""
    found = []
    for numbers in product(*(range(bound) for _, bound in walk.loops)):
        at = dict(zip((dim for dim, _ in walk.loops), numbers, strict=True))
        box = {}
        for dim, size in walk.layer.dims:
            first = at.get(dim, 0) * walk.tile[dim]
            box[dim] = first, min(first + walk.tile[dim], size)
        found.append(box)
    return found


@pytest.mark.parametrize("walk", walks(1, 30))
def test_passes_are_those_of_every_step(walk: Walk) -> None:
    array = timing_of(GEMMINI).array
    assert array is not None
    passes: Counter[int] = Counter()
    last: Counter[int] = Counter()
    for box in boxes(walk):
        points = {dim: end - first for dim, (first, end) in box.items()}
        blocks = ceil(points["C"] / 16) * ceil(points["K"] / 16) * points["R"] * points["S"]
        for _ in range(blocks):
            for _row in range(points["N"] * points["Q"]):
                lengths = [min(16, points["P"] - begun) for begun in range(0, points["P"], 16)]
                passes.update(lengths)
            last[lengths[-1]] += 1
    counts = step_counts(GEMMINI, timing_of(GEMMINI), walk).array
    assert counts is not None
    assert dict(counts.passes) == passes
    assert dict(counts.last) == last


@pytest.mark.parametrize("reloads", [True, False])
@pytest.mark.parametrize("walk", walks(2, 30))
def test_rows_and_beats_are_those_of_every_step(walk: Walk, reloads: bool) -> None:
    """Weights have rows of output channels, inputs of input channels; a tile that stays is not loaded
    again."""
    timing = replace(timing_of(GEMMINI), reloads=("weights", "inputs") if reloads else ())
    rows, beats = Counter[str](), Counter[str]()
    before: dict[str, tuple[tuple[int, int], ...]] = {}
    for box in boxes(walk):
        points = {dim: end - first for dim, (first, end) in box.items()}
        pixels = pixels_along(walk.layer, points, "P", "R") * pixels_along(walk.layer, points, "Q", "S")
        of = {
            "weights": ("RSCK", points["R"] * points["S"] * points["C"], points["K"]),
            "inputs": ("NCPQRS", points["N"] * pixels, points["C"]),
        }
        for name, (dims, count, length) in of.items():
            tile = tuple(box[dim] for dim in dims)
            if reloads or before.get(name) != tile:
                rows[name] += count
                beats[name] += count * ceil(length / 16)
            before[name] = tile
    counts = step_counts(GEMMINI, timing, walk).loads
    roles = [tensor.role for tensor in walk.layer.tensors if not tensor.is_output]
    assert [one.rows for one in counts] == [rows[role] for role in roles]
    assert [one.beats for one in counts] == [beats[role] for role in roles]


def test_a_dilated_filter_loads_no_pixel_behind_its_last() -> None:
    """Filters of 3 with a pixel between their weights reach over 5; a stride of 2 skips one behind them."""
    layer = convolution("drawn", K=16, C=16, P=8, Q=1, R=3, S=1, stride=(2, 1), dilation=(2, 1))
    timing = replace(timing_of(GEMMINI), reloads=())
    rows = []
    for points in (8, 4):
        tile = dict(layer.sizes) | {"P": points}
        walk = Walk(layer, tile, (("P", 8 // points),) if points < 8 else ())
        rows.append(step_counts(GEMMINI, timing, walk).loads[1].rows)
    whole = 7 * 2 + 2 * 2 + 1
    assert rows == [whole, 2 * (4 * 2 + 2 * 2)]


@pytest.mark.slow
def test_rows_of_a_layout_in_blocks_are_runs_of_its_addresses() -> None:
    """Of every step's inputs the addresses in ``N C Q P 4C``; whole blocks move, counted from a tile's first.

    Rows are counted for all tiles of an axis alike. So where some of them are as wide as the tensor, whose
    runs join, and others are not, rows are as many or more.
    """
    blocked = timing_of(GEMMINI).with_layouts({"inputs": ("N", "C", "Q", "P", "4C")})
    assert blocked.load is not None
    timing = replace(blocked, reloads=("inputs",), load=replace(blocked.load, joins_rows=True))
    equal = 0
    for walk in walks(7, 40):
        layer = walk.layer
        width, height = (pixels_along(layer, dict(layer.sizes), *side) for side in ("PR", "QS"))
        blocks, runs = ceil(layer.sizes["C"] / 4), 0
        for box in boxes(walk):
            points = {dim: end - first for dim, (first, end) in box.items()}
            sides = [pixels_along(layer, points, *side) for side in ("PR", "QS")]
            shape = points["N"], ceil(points["C"] / 4), sides[1], sides[0], 4
            addresses = {
                (((n * blocks + block) * height + y) * width + x) * 4 + inside
                for n, block, y, x, inside in product(*map(range, shape))
            }
            runs += sum(address - 1 not in addresses for address in addresses)
        roles = [tensor.role for tensor in layer.tensors if not tensor.is_output]
        rows = step_counts(GEMMINI, timing, walk).loads[roles.index("inputs")].rows
        assert rows >= runs
        equal += rows == runs
    assert equal > 20


def test_a_layout_says_each_dim_once() -> None:
    for wrong in (["N", "C", "N"], ["C", "8C", "4C"], ["C", "1C"], ["08C"], ["8"], [""]):
        with pytest.raises(InputError, match=r"once|8C"):
            timing_of(GEMMINI).with_layouts({"inputs": wrong})


def pixels_along(layer: Layer, points: dict[str, int], position: str, window: str) -> int:
    """Pixels of a tile along one side, with those that the stride skips behind the last; no more than there
    are."""
    inputs = layer.tensor("Inputs")
    stride = next(step.coefficient for axis in inputs.axes for step in axis.steps if step.dim == position)
    whole = (layer.sizes[position] - 1) * stride + layer.sizes[window]
    return min(points[position] * stride + points[window] - 1, whole)


def test_lines_of_a_run_are_the_mean_over_its_rows() -> None:
    for size, stride in product((1, 8, 20, 64, 100), (16, 36, 64, 96, 4096)):
        begins = [row * stride for row in range(64)]
        lines = [(begin + size - 1) // 64 - begin // 64 + 1 for begin in begins]
        assert lines_of_run(size, stride, 64) == pytest.approx(sum(lines) / len(lines))


def test_the_hit_rate_is_its_own_fixed_point() -> None:
    assert hit_rate(0.7) == hit_rate(1.0) == 1.0
    rates = [hit_rate(pressure) for pressure in (1.1, 1.5, 2.0, 5.0)]
    assert rates == sorted(rates, reverse=True)
    for pressure, rate in zip((1.1, 1.5, 2.0, 5.0), rates, strict=True):
        assert rate == pytest.approx(exp(-pressure * (1 - rate)), abs=1e-6)


def test_a_product_runs_in_tiles_of_whole_blocks() -> None:
    layer = gemm("product", M=100, N=70, K=40)
    walk = rounded(timing_of(GEMMINI), layer, {"M": 10, "N": 20, "K": 40}, (("M", 10), ("N", 4)))
    assert walk.tile == {"M": 16, "N": 32, "K": 40}
    assert walk.loops == (("M", 7), ("N", 3))
    assert step_counts(GEMMINI, timing_of(GEMMINI), walk).steps == 21


@pytest.mark.parametrize("walk", walks(3, 30))
def test_no_component_takes_longer_than_the_layer(walk: Walk) -> None:
    timing = timing_of(GEMMINI)
    counts = step_counts(GEMMINI, timing, walk)
    timed = cycles_of(timing, counts)
    serial = cycles_of(replace(timing, steps_in_flight=1), counts)
    assert max(timed.components.values()) <= timed.cycles <= serial.cycles
    assert prod(bound for _, bound in walk.loops) == timed.steps
