"""Word-hops between memory at the corners of the mesh and the nodes that a layer is divided among.

A word that crosses one link is one word-hop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from costmodel.published.nn_dataflow.layers import LayerShape, Words
from costmodel.published.nn_dataflow.partition import (
    BATP,
    INPP,
    OFMP,
    OUTP,
    PARALLEL,
    NodeRanges,
    Partition,
    Range,
    Sides,
    ith_range,
    piece,
    words,
)

CORNERS = (2, 2)
"""Memory stands at the four corners of the mesh (the tool's type 2D)."""


@dataclass(frozen=True)
class Layout:
    """How a feature map lies in the memories at the corners of a mesh of ``nodes``.

    ``shape``: batch, channels, rows and columns. ``partition``: divides it among two rows and two columns of
    corners.
    """

    partition: Partition
    shape: tuple[int, int, int, int]
    nodes: Sides

    def parts(self) -> Iterable[tuple[tuple[Range, ...], Sides]]:
        """For each corner the ranges that it holds, and its row and column in the mesh."""
        batch, channels, rows, columns = self.shape
        sizes = self.partition.sizes
        for index in self.partition.indices():
            ranges = (
                ith_range(batch, self.partition.number(BATP, index), self.partition.parts(BATP)),
                ith_range(channels, self.partition.number(OUTP, index), self.partition.parts(OUTP)),
                ith_range(rows, index[OFMP][0], sizes[OFMP][0]),
                ith_range(columns, index[OFMP][1], sizes[OFMP][1]),
            )
            row, column = self.partition.position(index)
            yield ranges, (row * (self.nodes[0] - 1), column * (self.nodes[1] - 1))

    def hops_to(self, wanted: tuple[Range, ...], positions: Sequence[Sides], forward: bool) -> int:
        """Word-hops that bring the box ``wanted`` to the nodes at ``positions``.

        Each node gets its own copy from the corner; with ``forward`` a tree of nodes passes one copy on.
        """
        total = 0
        for held, corner in self.parts():
            common = tuple((max(a[0], b[0]), min(a[1], b[1])) for a, b in zip(held, wanted, strict=True))
            if count := words(common):
                tree = (
                    tree_hops([corner], positions)
                    if forward
                    else sum(distance(corner, at) for at in positions)
                )
                total += count * tree
        return total


def corner_layout(partition: Partition, shape: tuple[int, int, int, int]) -> Layout:
    """The layout of the outputs of a layer with that partition: the partition shrunk to the corners.

    Corners are given out on each side, first to the parts of the kind at the bottom of the order, then up.
    Corners that remain divide the batch. Parts in input channels (INPP) do not divide outputs.
    """
    kept = [partition.sizes[kind] if kind != INPP else (1, 1) for kind in range(len(PARALLEL))]
    sizes = [[1, 1] for _ in PARALLEL]
    for side in (0, 1):
        free_corners = CORNERS[side]
        for kind in reversed(partition.order):
            sizes[kind][side] = min(free_corners, kept[kind][side])
            free_corners //= sizes[kind][side]
        # The sizes have to multiply to all corners, as each corner holds a part.
        sizes[BATP][side] *= free_corners
    corners = tuple((rows, columns) for rows, columns in sizes)
    return Layout(Partition(partition.order, corners), shape, partition.nodes)


def unit_hops(
    layer: LayerShape,
    batch: int,
    partition: Partition,
    inputs: Layout,
    outputs: Layout,
    forward: bool = False,
) -> Words:
    """Word-hops for each tensor to bring it to its nodes once; for outputs, to bring them back.

    Filters come from the nearest corner. Nodes that divide input channels (INPP) make partial sums of the
    same outputs and send them to the middle one of them, which alone talks to memory. Fetches of outputs
    count both reads and writes, but partial sums go one way only: so they count half here. With ``forward``
    nodes pass words on along a tree.
    """
    pieces = [
        (piece(layer, batch, partition, index), partition.position(index)) for index in partition.indices()
    ]
    # With more nodes than indices some have no part, and nothing is sent to them.
    working = [(one, at) for one, at in pieces if words(one.outputs) and words(one.inputs)]
    filters = _filter_hops(layer, working, _corners(partition.nodes), forward) if layer.has_filters else 0
    from_inputs = sum(
        inputs.hops_to(wanted, positions, forward)
        for wanted, positions in _grouped((one.inputs, at) for one, at in working).items()
    )
    to_outputs = sum(
        _output_hops(outputs, made, positions, forward)
        for made, positions in _grouped((one.outputs, at) for one, at in working).items()
    )
    return filters, from_inputs, to_outputs


def _filter_hops(
    layer: LayerShape, working: list[tuple[NodeRanges, Sides]], corners: list[Sides], forward: bool
) -> int:
    """Word-hops of the filters from the nearest corner to each node, or along trees from all corners."""
    total = 0
    for channels, positions in _grouped(((one.inputs[1], one.outputs[1]), at) for one, at in working).items():
        nearest = sum(min(distance(corner, at) for corner in corners) for at in positions)
        total += words(channels) * (tree_hops(corners, positions) if forward else nearest)
    return total * layer.window_h * layer.window_w


def _output_hops(layout: Layout, made: tuple[Range, ...], positions: list[Sides], forward: bool) -> int:
    """Word-hops of the outputs ``made``, of which every node at ``positions`` has partial sums.

    With ``forward`` it is the mean of reading them to the node that is cheapest to reach, and of a tree that
    joins all nodes to memory.
    """
    if forward:
        read = min(layout.hops_to(made, [position], forward=False) for position in positions)
        return ceil((read + layout.hops_to(made, positions, forward=True)) / 2)
    # The tool's choice: the middle one in the order of the nodes, whatever the distances are.
    middle = positions[len(positions) // 2]
    sent = sum(
        ceil(words(made) * distance(position, middle) / 2) for position in positions if position != middle
    )
    return layout.hops_to(made, [middle], forward=False) + sent


def _grouped(pairs: Iterable[tuple[tuple[Range, ...], Sides]]) -> dict[tuple[Range, ...], list[Sides]]:
    """For each distinct box the positions of the nodes that need it, in the order of the nodes."""
    groups: dict[tuple[Range, ...], list[Sides]] = {}
    for ranges, position in pairs:
        groups.setdefault(ranges, []).append(position)
    return groups


def _corners(nodes: Sides) -> list[Sides]:
    """The distinct corners of the mesh; a mesh of one row or column has two, a single node one."""
    return sorted({(row, column) for row in (0, nodes[0] - 1) for column in (0, nodes[1] - 1)})


def distance(one: Sides, other: Sides) -> int:
    """Hops between two positions in the mesh, along rows and columns."""
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


def tree_hops(sources: Iterable[Sides], positions: Iterable[Sides]) -> int:
    """Hops of a greedy tree from ``sources`` to all ``positions``.

    In every step the position nearest to any that has the data gets it from there, and can pass it on.
    """
    have, lack, hops = set(sources), set(positions), 0
    while lack:
        length, position = min((distance(source, position), position) for source in have for position in lack)
        lack.remove(position)
        have.add(position)
        hops += length
    return hops
