"""Bounds on transfers to some tiles of a leaf, against all sets of its tiles, one by one."""

from __future__ import annotations

from itertools import combinations, pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from costmodel.compiled import entry
from costmodel.hardware.chip import Chip
from costmodel.schedule.leaf.geometry import kernel_space
from costmodel.schedule.leaf.kernels.leaf_values import KernelLeaf, Workspace
from costmodel.schedule.leaf.kernels.nearness_kernel import find_nearness, least_from_ports, least_hops
from costmodel.schedule.leaf.workspace import workspace_of
from costmodel.schedule.mesh.senders_kernel import add_distances, add_sender, no_senders
from tests.costmodel.schedule.boxes.elements import random_layer
from tests.costmodel.schedule.chip_cases import chip

pytestmark = pytest.mark.slow

CHIPS = [chip(4, 3), chip(3, 4, stripe=2), chip(6, 2), chip(2, 5), chip(1, 4), chip(3, 1)]
Tile = tuple[int, int]
"""A column and a row."""


@entry
def least_of_all(
    workspace: Workspace, leaf: KernelLeaf, bits: NDArray[Any], to_senders: NDArray[Any], found: NDArray[Any]
) -> None:
    """Fill ``found`` [2, n + 1] for a leaf on n tiles: the bounds on hops to each number of them.

    Row 0: of trees from all ports, with a bit of each. Row 1: of trees from all tiles, each with its ``bits``
    [X, Y]. ``to_senders`` [4, X or Y] is work space.
    """
    tiles = found.shape[1] - 1
    find_nearness(workspace, leaf, tiles)
    no_senders(workspace.senders)
    for x in range(bits.shape[0]):
        for y in range(bits.shape[1]):
            add_sender(workspace.senders, x, y, bits[x, y])
    west, east = to_senders[0, : bits.shape[0]], to_senders[1, : bits.shape[0]]
    above, below = to_senders[2, : bits.shape[1]], to_senders[3, : bits.shape[1]]
    total = add_distances(workspace.senders, west, east, above, below)
    for number in range(1, tiles + 1):
        found[0, number] = least_from_ports(workspace, number)
        found[1, number] = least_hops(workspace.nearness, total, west, east, above, below, number)


def test_trees_are_no_smaller_than_their_bound() -> None:
    random, exact, bounds = Random(41), 0, 0
    for turn in range(90):
        on = CHIPS[turn % len(CHIPS)]
        tiles = random.randint(1, min(on.tiles, 8))
        first = random.randint(0, on.tiles - tiles)
        bits = np.array([[random.choice((0, 0, 1, 5)) for _ in range(on.rows)] for _ in range(on.columns)])
        found, workspace = _found(on, first, tiles, bits)
        leaf = on.positions[first : first + tiles]
        senders = [(tile, int(bits[tile])) for tile in on.positions]
        for number in range(1, tiles + 1):
            sets = list(combinations(leaf, number))
            for bound, of in zip(found[:, number], ([(port, 1) for port in on.ports], senders), strict=True):
                least = min(sum(size * _links(tile, reached) for tile, size in of) for reached in sets)
                assert bound <= least
                bounds, exact = bounds + 1, exact + (bound == least)
        nearest = workspace.nearness.nearest
        for tile in on.positions:
            assert nearest[tile] == min(_links(tile, [one]) for one in leaf)
    # The bound is worth its name: a leaf is mostly a rectangle, of which some best set is compact.
    assert exact > bounds / 2


def _found(on: Chip, first: int, tiles: int, bits: NDArray[Any]) -> tuple[NDArray[Any], Any]:
    workspace, found = workspace_of(on, 1), np.zeros((2, tiles + 1), np.int64)
    to_senders = np.zeros((4, max(on.columns, on.rows)), np.int64)
    # Of the leaf only its first tile matters.
    space, no_streams = kernel_space(random_layer(Random(0))), np.zeros((0, 1), np.int64)
    leaf = KernelLeaf(space, (1, 1, 1, 1), first, 1, no_streams)
    least_of_all(workspace, leaf, bits, to_senders, found)
    return found, workspace


def _links(source: Tile, reached: Any) -> int:
    """Links of a tree, step by step: along the source's row, then along the column of each tile."""
    links = set()
    for x, y in reached:
        way = [(column, source[1]) for column in _from_to(source[0], x)]
        way += [(x, row) for row in _from_to(source[1], y)][1:]
        links |= set(pairwise(way))
    return len(links)


def _from_to(first: int, last: int) -> range:
    """All indices from the first to the last, in this order."""
    return range(first, last + 1) if last >= first else range(first, last - 1, -1)
