"""The mapping space against plain enumeration."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations, product
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.mapping.batch.batch import BatchEvaluator
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import LevelMapping, Loop, Mapping, loops, violations
from costmodel.workload.network import Layer, convolution, gemm
from solvers.budget import Budget
from solvers.mapping import exact
from solvers.mapping.problem import MappingProblem
from solvers.mapping.space.loop_orders import LoopOrders
from solvers.mapping.space.obstacles import obstacle
from solvers.mapping.space.rules import KeepRule, SpaceRules
from solvers.mapping.space.space import MappingSpace


def level(name: str, words: int | None, x: int = 1, y: int = 1, **other: Any) -> StorageLevel:
    return StorageLevel(name, words, 16, 1.0, 1.0, 1.0, fanout_x=x, fanout_y=y, **other)


def stack(*levels: StorageLevel) -> Architecture:
    return Architecture("stack", levels, Compute("MAC", 16, 1.0))


GEMM = gemm("g", M=12, N=8, K=6)
THREE = stack(level("Register", 3), level("Buffer", 40, 4, 3), level("DRAM", None, 2, 1))


def named(layer: Layer, masks: tuple[int, ...]) -> list[str]:
    return [
        "".join(tensor.name for number, tensor in enumerate(layer.tensors) if mask >> number & 1)
        for mask in masks
    ]


@pytest.mark.parametrize(
    ("keep", "words", "expected"),
    [
        ("fitting", 3, ["ABZ"]),
        ("fitting", 2, ["AB", "AZ", "BZ"]),
        ("fitting", 1, ["A", "B", "Z"]),
        ("all", 3, ["ABZ"]),
        ("all", 2, []),
        ("free", 2, ["", "A", "B", "Z", "AB", "AZ", "BZ"]),
        ("free", None, ["", "A", "B", "Z", "AB", "AZ", "BZ", "ABZ"]),
    ],
)
def test_keep_sets(keep: KeepRule, words: int | None, expected: list[str]) -> None:
    space = MappingSpace(stack(level("R", words), level("DRAM", None)), GEMM, SpaceRules(keep))
    assert named(GEMM, space.keep_sets[0]) == expected
    assert named(GEMM, space.keep_sets[1]) == ["ABZ"]
    assert bool(obstacle(space)) == (not expected)


def test_a_level_keeps_only_its_roles_and_what_fits_twice() -> None:
    hardware = level("R", 3, multiple_buffering=2, keeps=("weights", "outputs"))
    space = MappingSpace(stack(hardware, level("DRAM", None)), GEMM)
    assert named(GEMM, space.keep_sets[0]) == ["B", "Z"]


def test_the_obstacle_names_the_level_and_the_words() -> None:
    space = MappingSpace(stack(level("R", 2), level("DRAM", None)), GEMM, SpaceRules("all"))
    assert obstacle(space) == "R: tiles of one word each of A, B, Z need 3 words, 2 are usable"


def plain_ways(space: MappingSpace, dim: int, masks: tuple[int, ...]) -> set[tuple[int, ...]]:
    name, size = space.layer.dims[dim]
    candidates = product(range(1, size + 1), repeat=len(space.slots))
    found = set()
    for factors in candidates:
        if prod(factors) != size or any(f > s.most[dim] for f, s in zip(factors, space.slots, strict=True)):
            continue
        tiles = {slot.level: prod(factors[: place + 1]) for place, slot in enumerate(space.slots)}
        words = [
            sum(t.words({name: tiles[index]}) for n, t in enumerate(space.layer.tensors) if mask >> n & 1)
            for index, mask in enumerate(masks)
        ]
        if all(w <= h.usable_words for w, h in zip(words, space.architecture.levels, strict=True)):
            found.add(factors)
    return found


@pytest.mark.parametrize("masks", [(7, 7, 7), (0, 7, 7), (2, 1, 7), (4, 0, 7)])
def test_ways_to_factor_a_dim(masks: tuple[int, ...]) -> None:
    space = MappingSpace(THREE, GEMM, SpaceRules("free"))
    assert [(slot.level, slot.spatial) for slot in space.slots] == [
        (0, False),
        (1, True),
        (1, False),
        (2, True),
        (2, False),
    ]
    counts = []
    for dim in range(3):
        ways = [tuple(way) for way in space.ways(dim, masks).tolist()]
        assert len(set(ways)) == len(ways)
        assert set(ways) == plain_ways(space, dim, masks)
        counts.append(len(ways))
    assert space.count_factorisations(masks) == prod(counts)


def drawn(space: MappingSpace, seed: int, blocks: int) -> list[Mapping]:
    batch = space.sample(range(blocks), seed)
    return [batch.mapping(row, space.layer) for row in range(len(batch))]


@pytest.mark.parametrize("name", ["eyeriss", "B_simba_like", "E_four_level", "tpu-like"])
@pytest.mark.parametrize("keep", ["fitting", "free"])
def test_drawn_mappings_fail_only_in_capacity_and_fanout(name: str, keep: KeepRule) -> None:
    layer = convolution("c", K=48, C=20, P=14, Q=9, R=3, S=5, stride=(2, 1), N=2)
    space = MappingSpace(load_architecture(name), layer, SpaceRules(keep))
    batch = space.sample(range(12), seed=4, rows_per_block=16)
    valid = BatchEvaluator(space.architecture, layer).evaluate(batch).valid
    assert valid.sum() > 10
    bits = np.arange(len(layer.tensors))
    for row in range(len(batch)):
        reasons = violations(space.architecture, layer, batch.mapping(row, layer))
        assert valid[row] == (not reasons)
        assert all("tiles need" in reason or "the fan-out is" in reason for reason in reasons)
        masks = (batch.keep[row] << bits).sum(axis=1).tolist()
        assert all(mask in allowed for mask, allowed in zip(masks, space.keep_sets, strict=True))


def test_the_draw_is_the_seeds_and_the_blocks_own() -> None:
    space = MappingSpace(THREE, GEMM)
    whole = space.sample(range(6), seed=1)
    parts = [space.sample(range(2), seed=1), space.sample(range(2, 6), seed=1)]
    for name in ("temporal", "permutation", "spatial_x", "spatial_y", "keep"):
        pieces = np.concatenate([getattr(part, name) for part in parts])
        assert np.array_equal(getattr(whole, name), pieces)
    assert not np.array_equal(space.sample(range(6), seed=2).temporal, whole.temporal)


def splits(*factors: Loop) -> Iterator[tuple[tuple[Loop, ...], tuple[Loop, ...]]]:
    for sides in product((True, False), repeat=len(factors)):
        x = loops(loop for loop, on_x in zip(factors, sides, strict=True) if on_x)
        yield x, loops(loop for loop, on_x in zip(factors, sides, strict=True) if not on_x)


@pytest.mark.slow
def test_ways_sides_and_orders_are_drawn_uniformly() -> None:
    """Chi-square, within 4 standard deviations; the seed is fixed, so the test cannot flicker."""
    layer = gemm("g", M=4, N=4, K=1)
    space = MappingSpace(stack(level("Buffer", None, 4, 4), level("DRAM", None)), layer, SpaceRules("all"))
    counts = Counter(
        (mapping.levels[0].spatial_x, mapping.levels[0].spatial_y, mapping.levels[1].temporal)
        for mapping in drawn(space, seed=7, blocks=80)
    )
    ways: dict[Any, float] = defaultdict(float)
    for m, n, outer_m, outer_n in product((1, 2, 4), repeat=4):
        if 4 % (m * outer_m) == 4 % (n * outer_n) == 0:  # the rest are temporal loops in the buffer
            sides = {xy for xy in splits(("M", m), ("N", n)) if all(prod(b for _, b in s) <= 4 for s in xy)}
            orders = {loops(order) for order in permutations((("M", outer_m), ("N", outer_n)))}
            for (x, y), order in product(sides, orders):
                ways[x, y, order] += 1 / len(sides) / len(orders)
    total, draws = sum(ways.values()), sum(counts.values())
    assert set(counts) == set(ways)
    expected = {key: draws * weight / total for key, weight in ways.items()}
    chi_square = sum((counts[key] - mean) ** 2 / mean for key, mean in expected.items())
    freedom = len(ways) - 1
    assert abs(chi_square - freedom) < 4 * (2 * freedom) ** 0.5


def ordered(architecture: Architecture, layer: Layer, order: tuple[int, ...], rest: Mapping) -> Mapping:
    """``rest`` with the temporal loops of its last but one level in ``order``."""
    place = len(architecture.levels) - 2
    bounds = dict(rest.levels[place].temporal)
    names = [layer.dims[dim][0] for dim in order]
    changed = replace(rest.levels[place], temporal=tuple((name, bounds[name]) for name in names))
    return Mapping((*rest.levels[:place], changed, *rest.levels[place + 1 :]))


shapes = st.sampled_from(
    [
        gemm("g", M=8, N=8, K=8),
        convolution("plain", K=4, C=4, P=4, Q=4, R=1, S=1),
        convolution("rows", K=4, C=4, P=8, Q=4, R=4, S=1),
        convolution("strided", K=2, C=4, P=8, Q=1, R=4, S=1, stride=(2, 1), N=4),
        convolution("depthwise", K=4, C=4, P=8, Q=8, R=2, S=1, groups=4),
    ]
)


@pytest.mark.slow
@given(layer=shapes, keep=st.integers(0, 7), data=st.data())
@settings(deadline=None, max_examples=40)
def test_orders_left_out_cost_what_a_kept_one_costs(layer: Layer, keep: int, data: st.DataObject) -> None:
    """All orders of one level between loops inside and outside: the same set of costs, with fewer orders."""
    architecture = stack(level("Inner", None), level("Middle", None), level("DRAM", None))
    everything = frozenset(tensor.name for tensor in layer.tensors)
    inner_keep = frozenset(t.name for number, t in enumerate(layer.tensors) if keep >> number & 1)
    split: list[list[tuple[str, int]]] = [[], [], []]
    for dim, size in layer.dims:
        inner = data.draw(st.sampled_from([f for f in (1, 2, 4) if size % f == 0]), label=f"inner {dim}")
        middle = data.draw(st.sampled_from([f for f in (1, 2, 4) if size // inner % f == 0]), label=dim)
        for part, bound in zip(split, (inner, middle, size // inner // middle), strict=True):
            part.append((dim, bound))
    outer = data.draw(st.permutations(split[2]), label="outer order")
    rest = Mapping(
        (
            LevelMapping(loops(split[0]), (), (), inner_keep),
            LevelMapping(loops(split[1]), (), (), everything),
            LevelMapping(loops(outer), (), (), everything),
        )
    )
    looped = frozenset(index for index, (_, bound) in enumerate(split[1]) if bound > 1)
    chosen = MappingSpace(architecture, layer).orders(1, looped, (keep, 7, 7))
    assert len(set(chosen)) == len(chosen)
    assert all(sorted(order) == sorted(looped) for order in chosen)

    def costs(orders: Any) -> set[Any]:
        return {
            str(evaluate(architecture, layer, ordered(architecture, layer, order, rest)).levels)
            for order in orders
        }

    assert costs(chosen) == costs(permutations(sorted(looped)))


def test_orders_of_a_matrix_product_are_told_by_the_first_two_loops() -> None:
    """Any two of three loops move all three tensors: 6 orders; a level without kept tensors inside: 1."""
    space = MappingSpace(THREE, GEMM)
    assert len(space.orders(1, frozenset({0, 1, 2}), (7, 7, 7))) == 6
    assert space.orders(1, frozenset({0, 1, 2}), (0, 7, 7)) == [(0, 1, 2)]
    only_z = LoopOrders(GEMM, GEMM.tensors[2:])
    assert list(only_z.of(frozenset({0, 1, 2}))) == [(0, 1, 2), (2, 0, 1)]


def test_a_dim_beyond_what_batches_hold_is_refused() -> None:
    """Its factors would be cut to 32 bits, and the exact mapper then proved that nothing fits."""
    problem = MappingProblem(load_architecture("eyeriss"), gemm("g", M=2**59 - 55, N=1, K=1))
    with pytest.raises(InputError, match=r"layer g: dims\.M: expected at most 2,147,483,647 points"):
        exact.solve(problem, Budget(10))
