"""Views by their digits against NumPy: the same positions hold the same elements."""

from __future__ import annotations

import random
from math import prod
from typing import Any

import numpy as np
import pytest

from costmodel.workload.digits import Digit
from costmodel.workload.views import View, chained, combined, paired, stacked, whole

Elements = np.ndarray[Any, np.dtype[np.int64]]


def elements(view: View) -> Elements:
    """Which element of its origin a view shows at every position, by adding up its digits."""
    shown = np.array(view.offset)
    for axis in view.axes:
        along = np.zeros(1, dtype=int)
        for digit in axis:
            along = (along[:, None] + np.arange(digit.size) * digit.stride).ravel()
        shown = shown[..., None] + along
    return shown


def numbered(*shape: int) -> Elements:
    return np.arange(prod(shape)).reshape(shape)


def a_shape(rng: random.Random, size: int) -> tuple[int, ...]:
    """Some lengths whose product is ``size``."""
    lengths = []
    while size > 1 and rng.random() < 0.8:
        lengths.append(rng.choice([d for d in range(1, size + 1) if size % d == 0]))
        size //= lengths[-1]
    return (*lengths, size)


def step(rng: random.Random, view: View, data: Elements) -> tuple[View | None, Elements]:
    """One operation on a view and the same one by NumPy."""
    axis = rng.randrange(data.ndim)
    length = data.shape[axis]
    kind = rng.choice(["reshape", "transpose", "expand", "tile", "take", "cut", "chain"])
    if kind == "reshape":
        shape = a_shape(rng, data.size)
        return view.reshaped(shape), data.reshape(shape)
    if kind == "transpose":
        order = rng.sample(range(data.ndim), data.ndim)
        return view.transposed(order), data.transpose(order)
    if kind == "expand":
        shape = rng.choice([(), (2,)]) + tuple(n if n > 1 else rng.choice([1, 4]) for n in data.shape)
        return view.expanded(shape), np.broadcast_to(data, shape)
    if kind == "tile":
        times = [rng.choice([1, 1, 2]) for _ in data.shape]
        return view.tiled(times), np.tile(data, times)
    if kind == "take":
        every = [i // 2 for i in range(2 * length)], [rng.randrange(length) for _ in range(4)]
        positions = rng.choice(every)
        return view.taken(axis, positions), np.take(data, positions, axis)
    if kind == "cut":
        start = rng.randrange(length)
        count = rng.randint(1, length - start)
        return view.cut(axis, start, count), np.take(data, range(start, start + count), axis)
    halves = 2 if length % 2 == 0 else 1
    parts = [view.cut(axis, i * length // halves, length // halves) for i in range(halves)]
    order = [i for i in range(halves) for _ in range(2)]
    pieces = np.split(data, halves, axis)
    whole_again = np.concatenate([pieces[i] for i in order], axis)
    known = [part for part in (parts[i] for i in order) if part]
    return (chained(known, axis) if len(known) == len(order) else None), whole_again


@pytest.mark.slow
def test_random_chains_show_what_numpy_shows() -> None:
    rng, followed, lost = random.Random(1), 0, 0
    for _ in range(3000):
        data = numbered(*(rng.choice([1, 2, 3, 4, 6]) for _ in range(rng.randint(1, 4))))
        view: View | None = whole("x", data.shape)
        while view is not None and data.size < 3000 and rng.random() < 0.85:
            view, data = step(rng, view, data)
            lost += view is None
            if view is not None:
                followed += 1
                assert view.shape == data.shape
                assert (elements(view) == data).all(), view
    assert followed > 8 * lost > 0


@pytest.mark.parametrize(
    ("heads", "digits"),
    [
        ([0, 0, 0, 0, 1, 1, 1, 1], ((2, 64), (4, 0))),
        ([0, 1, 0, 1, 0, 1, 0, 1], ((4, 0), (2, 64))),
        ([0, 0, 1, 1, 0, 0, 1, 1], ((2, 0), (2, 64), (2, 0))),
        ([1, 0], ((2, -64),)),
        ([0, 0, 0], ((3, 0),)),
        ([0], ()),
    ],
)
def test_positions_in_digits(heads: list[int], digits: tuple[tuple[int, int], ...]) -> None:
    view = whole("cache", (2, 64)).taken(0, heads)
    assert view is not None
    assert tuple((digit.size, digit.stride) for digit in view.axes[0]) == digits


@pytest.mark.parametrize("heads", [[0, 1, 1], [0, 0, 1], [0, 2, 1], []])
def test_positions_without_digits(heads: list[int]) -> None:
    assert whole("x", (3, 5)).taken(0, heads) is None


def test_a_reshape_that_splits_no_digit_evenly_is_not_followed() -> None:
    repeated = whole("x", (3, 1)).expanded((3, 4))
    assert repeated.reshaped((4, 3)) is None
    assert whole("x", (3, 4)).reshaped((4, 3)) == whole("x", (4, 3))


def test_what_is_computed_repeats_where_all_operands_do() -> None:
    keys = whole("k", (2, 1, 5)).expanded((2, 4, 5))
    scaled = combined("y", [keys, whole("s", ())], (2, 4, 5))
    assert scaled.axes == ((Digit(2, 5),), (Digit(4, 0),), (Digit(5, 1),))
    per_head = combined("y", [keys, whole("s", (4, 1))], (2, 4, 5))
    assert per_head == whole("y", (2, 4, 5))


def test_a_cache_of_past_and_new_rows_repeats_its_heads() -> None:
    past, new = (
        whole(name, (2, 1, rows, 3)).expanded((2, 4, rows, 3)) for name, rows in (("p", 7), ("n", 1))
    )
    both = stacked("kv", [past, new], 2, (2, 4, 8, 3))
    assert (both.axes, both.lost) == (whole("kv", (2, 1, 8, 3)).expanded((2, 4, 8, 3)).axes, "")
    mixed = stacked("kv", [past, new], 1, (2, 8, 7, 3))
    assert not mixed.repeats
    assert "kv" in mixed.lost


def test_axes_in_common_digits() -> None:
    heads, groups = (Digit(2, 1), Digit(4, 0)), (Digit(4, 0), Digit(2, 1))
    assert paired(heads, (Digit(8, 1),)) == [(2, True, True), (4, False, True)]
    assert paired(heads, groups) == [(2, True, False), (2, False, False), (2, False, True)]
    assert paired((Digit(2, 1), Digit(3, 0)), (Digit(3, 1), Digit(2, 0))) is None
