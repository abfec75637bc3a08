"""The compiled loops over partitions, against the same in plain Python, one partition after the other."""

from __future__ import annotations

from math import ceil, prod
from random import Random

import numpy as np
import pytest

from costmodel.schedule.leaf.partitions import factorizations
from solvers.schedule.tiles.partition_kernel import FittingBits, fewest_slices, take_turns


def first_named(keys: list[list[tuple[float, float]]], most: int) -> list[int]:
    """The rows that rankings name, in turn: each has all rows in its own order."""
    orders = [sorted(range(len(ranking)), key=lambda row: (*ranking[row], row)) for ranking in keys]
    named = [row for ranked in zip(*orders, strict=True) for row in ranked]
    return list(dict.fromkeys(named))[:most]


def test_rankings_take_turns_in_naming_rows() -> None:
    random, shorter = Random(1), 0
    for case in range(200):
        rows, most = random.randint(1, 12), random.randint(1, 12)
        # few different numbers, so that many rows are equal in one or both
        keys = [[(random.randint(0, 3) / 2, random.randint(0, 2) / 2) for _ in range(rows)] for _ in range(4)]
        order = np.zeros(min(most, rows), np.int64)
        numbers = np.array(keys, float).transpose(0, 2, 1).copy()
        assert take_turns(numbers, np.zeros(4, np.int64), order) == len(order)
        assert order.tolist() == first_named(keys, most), case
        shorter += most < rows
    assert 50 < shorter < 150


def test_slices_are_the_fewest_that_fit() -> None:
    random, several, none, smaller = Random(2), 0, 0, 0
    for _ in range(60):
        sizes = random.randint(1, 40), random.randint(1, 8), random.randint(1, 9), random.randint(1, 9)
        parts = np.array(factorizations(random.choice((1, 4, 6, 12, 16))))
        inputs = np.array([random.randint(1, 300) for _ in parts])
        of_channel, free, runs = random.randint(1, 60), random.randint(200, 900), random.randint(1, 2)
        slices, used = np.zeros(len(parts), np.int64), np.zeros(len(parts))
        of_slices = random.choice((free, free // 4, free // 16))
        fewest_slices(parts, sizes, inputs, of_channel, FittingBits(free, of_slices), runs, slices, used)
        for row, cut in enumerate(parts.tolist()):
            found, fitting = [], []
            for count in (1, 2, 4, 8, 16, 32, 64):
                # a slice of its own for each channel is the most, and a part has at least one channel
                if count * cut[0] <= sizes[0]:
                    # one slice is all there is; of several another one arrives meanwhile
                    at_once = runs if count == 1 else runs + 1
                    there = at_once * of_channel * ceil(sizes[0] / (count * cut[0]))
                    fits = runs * inputs[row] + there <= free
                    fitting = [count] if fits else []
                    found += [count] if fits and there <= of_slices else []
            # where no slices are small enough, the smallest that there can be are taken, if they fit
            smaller += not found and bool(fitting)
            found = found or fitting
            assert slices[row] == (found[0] if found else 0)
            if found:
                pieces = [cut[0] * found[0], *cut[1:]]
                largest = [ceil(size / piece) for size, piece in zip(sizes, pieces, strict=True)]
                expected = prod(sizes) / (prod(largest) * prod(pieces))
                assert used[row] == pytest.approx(expected, rel=1e-12)
            several, none = several + (slices[row] > 1), none + (slices[row] == 0)
    assert several > 100
    assert none > 100
    assert smaller > 20
