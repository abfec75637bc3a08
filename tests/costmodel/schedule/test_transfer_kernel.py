"""Hops of a placed leaf counted in several ways by the compiled code: bounded, as a sum, and link by link.

The loads of links are held against counts element by element in ``test_evaluate.py``. Sums of hops, which a
search sees first, never reach a result: a wrong one would only make it miss the best placement.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from costmodel.compiled import entry
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.layer_graph.sources import ALONE, joined_sources, sources_of
from costmodel.schedule.leaf.geometry import kernel_space, placement_orders
from costmodel.schedule.leaf.kernels.columns_kernel import column_above
from costmodel.schedule.leaf.kernels.leaf_kernel import placed_in_order, prepare
from costmodel.schedule.leaf.kernels.leaf_values import KernelLeaf, PartitionTable, Workspace
from costmodel.schedule.leaf.kernels.links_kernel import load_dram, load_links
from costmodel.schedule.leaf.kernels.nearness_kernel import find_nearness
from costmodel.schedule.leaf.kernels.ranges_kernel import ANY
from costmodel.schedule.leaf.kernels.transfer_kernel import count_hops, tighten
from costmodel.schedule.leaf.kernels.watched_link_kernel import watch, watched_above
from costmodel.schedule.leaf.partitions import factorizations
from costmodel.schedule.leaf.streams import LeafRun, Placement, stream_row, streams_of
from costmodel.schedule.leaf.workspace import workspace_of
from costmodel.schedule.mesh.mesh_kernel import NORTH, SOUTH
from tests.costmodel.schedule.boxes.test_messages import random_graph
from tests.costmodel.schedule.chip_cases import chip

pytestmark = pytest.mark.slow

CHIPS = [chip(4, 3), chip(5, 4, stripe=2), chip(3, 6)]
TILES = 12
"""Of each leaf."""


@entry
def count(
    workspace: Workspace, leaf: KernelLeaf, table: PartitionTable, order: int, found: NDArray[Any]
) -> None:
    """Fill ``found``: the bound of all streams; hops; what all links carry; hops where at most as many are
    asked for as there are, or one less; the tightened bound; the most on a link along a column; and whether
    more than that is on one, or more than one bit less. Of all links along rows: how many are above what they
    carry, or not above one bit less, if they are watched, and how many carry what tiles send.
    """
    find_nearness(workspace, leaf, TILES)
    found[0] = prepare(workspace, leaf, table.parts[0])
    placed = placed_in_order(leaf, table, 0, order)
    found[5] = tighten(workspace, placed_in_order(leaf, table, 0, 0), ANY)
    # the other order fills the tables that all orders of a partition share
    count_hops(workspace, placed_in_order(leaf, table, 0, 0), ANY)
    found[1] = count_hops(workspace, placed, ANY)
    found[3] = count_hops(workspace, placed, found[1])
    found[4] = count_hops(workspace, placed, found[1] - 1)
    load_links(workspace, placed)
    for link in range(workspace.mesh.links.shape[0]):
        found[2] += workspace.mesh.links[link]
        if link % 4 in (NORTH, SOUTH):
            found[6] = max(found[6], workspace.mesh.links[link])
    load_dram(workspace, placed)
    found[7] = column_above(workspace, placed, found[6])
    found[8] = column_above(workspace, placed, found[6] - 1)
    for link in range(workspace.mesh.links.shape[0]):
        if link % 4 in (NORTH, SOUTH):
            continue
        load_links(workspace, placed)
        load = workspace.mesh.links[link]
        watch(workspace, link)
        load_dram(workspace, placed)
        found[9] += watched_above(workspace, placed, load)
        found[10] += load > 0 and not watched_above(workspace, placed, load - 1)
        found[11] += load > workspace.mesh.links[link]


def test_hops_are_what_links_carry_and_no_less_than_their_bound() -> None:
    random, compared, moving, columns, joined, watched = Random(29), 0, 0, 0, 0, 0
    for turn in range(600):
        on, batch = CHIPS[turn % len(CHIPS)], random.randint(1, 4)
        graph = _with_shared_heads(random_graph(random))
        joined += _joins(graph, len(graph.layers) - 1)
        # Of the leaf's two runs the producer may have made both in one of its own.
        theirs = random.choice((batch, 2 * batch))
        producers = {
            number: Placement(theirs, random.randint(0, len(on.positions) - TILES), parts, order)
            for number, layer in enumerate(graph.layers[:-1])
            for parts, order in [_drawn(random, layer, theirs)]
        }
        found = _counted(random, on, graph, batch, producers)
        bound, hops, with_links, enough, less, tight, on_column, *above, of_tiles = found
        assert bound <= tight <= hops == with_links == enough
        assert less > hops - 1
        assert above == [0, 1, 0, 0]
        watched += of_tiles
        columns += on_column > 0
        compared, moving = compared + 1, moving + (hops > 0)
    assert moving > compared / 2
    assert columns > compared / 2
    assert watched > compared
    assert joined > 20


def _joins(graph: LayerGraph, number: int) -> bool:
    """Whether some sources of a layer are sent together."""
    return max(joined_sources(graph, number, sources_of(graph, number, 1))) > ALONE


def _with_shared_heads(graph: LayerGraph) -> LayerGraph:
    """The same, where all groups of the last layer read the weights that a layer makes for one."""
    *others, last = graph.layers
    if not last.weight_producers or last.groups == 1:
        return graph
    heads = replace(others[-1], c=last.group_k, k=last.group_k, external_c=last.group_k)
    last = replace(
        last,
        weight_producers=last.weight_producers * last.groups,
        channels=(*last.channels[:-1], *[(0, last.group_k)] * last.groups),
    )
    return LayerGraph(graph.name, (*others[:-1], heads, last))


def _drawn(
    random: Random, layer: NetworkLayer, batch: int
) -> tuple[tuple[int, int, int, int], tuple[int, ...]]:
    """A partition among all tiles of a leaf, preferably without idle tiles, and an order of its axes."""
    every = factorizations(TILES)
    full = [parts for parts in every if all(a <= b for a, b in zip(parts, layer.sizes(batch), strict=True))]
    return random.choice(full or every), tuple(random.sample(range(4), 4))


def _counted(
    random: Random, on: Any, graph: LayerGraph, batch: int, producers: dict[int, Placement]
) -> list[int]:
    """What :func:`count` finds of the last layer in a random placement."""
    number, layer = len(graph.layers) - 1, graph.layers[-1]
    parts, _ = _drawn(random, layer, batch)
    run = LeafRun(batch, random.randint(0, len(on.positions) - TILES), TILES, 2, True)
    bits = ElementBits(*(random.choice((1, 4, 8, 16)) for _ in range(4)))
    near = {one: place for one, place in producers.items() if random.random() < 0.8}
    rows = [stream_row(graph, stream, run, near, bits) for stream in streams_of(graph, number)]
    leaf = KernelLeaf(
        kernel_space(layer), layer.sizes(batch), run.first_tile, run.runs, np.array(rows, np.int64)
    )
    table = PartitionTable(
        np.array([parts]), np.zeros(1), np.ones(1, np.int64), np.ones(1), *placement_orders()
    )
    cut = sum(int(part > 1) << axis for axis, part in enumerate(parts))
    workspace, found = workspace_of(on, len(rows)), np.zeros(12, np.int64)
    count(workspace, leaf, table, random.randrange(int(table.counts[cut])), found)
    return [int(one) for one in found]
