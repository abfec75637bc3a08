"""Segments that run band by band: some rows of every layer's outputs at a time, from the first row down.

Sub-batches divide samples only. With one sample, or with samples that do not fit the buffers, a cut may have
*bands* as well: ``T 1/1x4`` runs its children for the first quarter of the rows, then for the second one. A
band of a layer needs what its windows read of a band of its producer, and some rows more, above and below::

    rows of the producer      | band 0          | band 1        | band 2        | band 3    |
    rows that band 1 reads                   [==================]
                                              ^ stay: band 0 of the producer made them

So bands are found from the consumers to their producers. A layer that no other one of the segment reads has
equal bands. The band of a producer ends with the last row that the same band of some consumer reads, so its
first band is larger and its last one smaller. What a later band reads of an earlier one's rows stays in the
buffers of the consumer's tiles: nothing is made or fetched twice. For that a tile has to have all rows of its
channels and columns, so a leaf with bands is cut along K, B and W only.

Bands belong to a whole segment. Cuts below it have one sub-batch, and weights are pinned. A row of outputs
must need only some rows of every tensor that the layer reads. So there are no bands for layers whose weights
another layer makes, nor for softmax, normalisation and transposition, which may need all rows for one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from costmodel.schedule.boxes.partition import part_of
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.layer_graph.layer import IMAGE_AXES, NetworkLayer
from costmodel.schedule.tree.tree import Cut, TreeNode, leaves, rounds_of_segments

Rows = tuple[int, ...]
"""A number of rows for each band."""
ROW_AXIS = IMAGE_AXES[0]
BY_ROWS = ("conv", "groupconv", "pool", "eltwise")
"""Kinds of layers each of whose rows reads some neighbouring rows.

(Kinds are those of ``layer_graph/layer.py``.) An ``fc``, a matrix product, reads all of them; a ``ptp``, a
function of one operand, may be a softmax or a normalisation over rows, and a ``transpose`` exchanges them.
"""


@dataclass(frozen=True)
class LeafBands:
    """The bands of one layer; each of the numbers below is one for every band.

    ``made``: rows of outputs up to the band's end. ``first``, ``end``: the first row of inputs that the band
    reads, and the one behind the last. ``sent``: (number, rows) of each producer that sends over the NoC: the
    rows that this producer has made by the end of each band.
    """

    made: Rows
    first: Rows
    end: Rows
    sent: tuple[tuple[int, Rows], ...] = ()

    @property
    def count(self) -> int:
        return len(self.made)

    @cached_property
    def heights(self) -> Rows:
        """Rows of outputs of each band."""
        return heights_of(self.made)

    @property
    def rows_read(self) -> int:
        """Rows of inputs that all bands together read, and those in between."""
        return self.end[-1] - self.first[0]

    def outputs(self, band: int) -> tuple[int, int]:
        """The rows of outputs of one band."""
        return (self.made[band - 1] if band else 0), self.made[band]

    def arrived(self, producer: int | None) -> Rows:
        """Rows of inputs that have come when a band runs: up to the last one that DRAM was asked for, or that
        the producer has made.
        """
        sent = dict(self.sent).get(producer, self.end) if producer is not None else self.end
        return tuple(min(max(end, self.first[0]), self.end[-1]) for end in sent)

    def coming(self, producer: int | None) -> list[tuple[int, int]]:
        """The rows that come for each band."""
        arrived = self.arrived(producer)
        return list(zip((self.first[0], *arrived), arrived, strict=False))

    def held(self, producer: int | None, again: bool) -> tuple[int, int]:
        """Returns the most rows of inputs that stay in a buffer from band to band, and the most that come.

        For the first band nothing stays, so its rows may lie in the bytes of those that stay later, and only
        what exceeds these counts. Not so with ``again``, where the first band of other samples follows the
        last band, whose rows are still there.
        """
        rows = [end - begin for begin, end in self.coming(producer)]
        stay = max(
            (max(end - first, 0) for end, first in zip(self.arrived(producer), self.first[1:], strict=False)),
            default=0,
        )
        return stay, max([*rows[1:], rows[0] if again else rows[0] - stay])

    def pieces(self, producer: int | None, band: int) -> list[tuple[tuple[int, int], int, int]]:
        """The rows that come for a band, cut where another band begins or ends to read.

        Each piece has the first and the last band that read it. Rows that no window reads count as read by
        the band for which they come.
        """
        begin, end = self.coming(producer)[band]
        inside = {row for row in (*self.first, *self.end) if begin < row < end}
        edges = sorted({begin, *inside, end})
        found = []
        for low, high in itertools.pairwise(edges):
            readers = [
                one
                for one, (first, last) in enumerate(zip(self.first, self.end, strict=True))
                if first <= low and high <= last and one >= band
            ] or [band]
            found.append(((low, high), readers[0], readers[-1]))
        return found


def heights_of(made: Rows) -> Rows:
    """Rows of each band, from the rows up to the end of each."""
    return tuple(end - begin for begin, end in _bands_of(made))


def made_in_bands(segment: Cut, graph: LayerGraph) -> dict[int, Rows]:
    """Rows of outputs up to the end of each band of a segment, for each of its layers by number."""
    return _made(graph, [graph.index[leaf.layer] for leaf in leaves(segment)], segment.bands)


def leaf_bands(
    graph: LayerGraph, segment: TreeNode, sources: Mapping[int, Iterable[int]]
) -> dict[int, LeafBands]:
    """The bands of each layer of a valid segment, by number; empty for a segment without bands.

    ``sources``: for each of its layers those whose outputs it reads over the NoC.
    """
    if not isinstance(segment, Cut) or segment.bands == 1:
        return {}
    found, all_made = {}, made_in_bands(segment, graph)
    for number, made in sorted(all_made.items()):
        windows = [_window(graph.layers[number], *rows) for rows in _bands_of(made)]
        found[number] = LeafBands(
            made,
            tuple(first for first, _ in windows),
            tuple(end for _, end in windows),
            tuple((one, all_made[one]) for one in sorted(sources[number])),
        )
    return found


def band_violations(tree: TreeNode, graph: LayerGraph) -> list[str]:
    """Why the layers of a tree cannot run in its bands; everything else about ``tree`` is valid."""
    _, segments = rounds_of_segments(tree)
    return [reason for segment in segments for reason in segment_band_violations(segment, graph)]


def segment_band_violations(segment: TreeNode, graph: LayerGraph) -> list[str]:
    """The same of one segment."""
    if not isinstance(segment, Cut) or segment.bands == 1:
        return []
    numbers = [graph.index[leaf.layer] for leaf in leaves(segment)]
    name = f"{segment.kind} cut {segment.name[2:]}"
    reasons = [
        f"{name}: {layer.name} has no bands, {why}"
        for layer in map(graph.layers.__getitem__, numbers)
        if (why := whole_map_reason(layer))
    ]
    if reasons:
        return reasons
    for number, made in made_in_bands(segment, graph).items():
        heights = heights_of(made)
        if min(heights) < 1:
            layer = graph.layers[number]
            reasons.append(
                f"{name}: band {heights.index(min(heights))} of the {layer.h} rows of {layer.name} is empty"
            )
    return reasons


def whole_map_reason(layer: NetworkLayer) -> str:
    """Why a layer cannot run band by band, whatever the bands; empty where it can."""
    if layer.weight_producers:
        return "its weights are made by another layer and have no rows"
    if layer.needs_whole_chip:
        return "it runs mapped on the whole chip only"
    if layer.kind not in BY_ROWS:
        return f"a row of its outputs ({layer.kind}) may need all rows of its inputs"
    return ""


def _bands_of(made: Rows) -> Iterable[tuple[int, int]]:
    return zip((0, *made), made, strict=False)


def _made(graph: LayerGraph, layers: Sequence[int], bands: int) -> dict[int, Rows]:
    """Rows of outputs up to the end of each band of these layers, from the last layer to the first."""
    readers: dict[int, list[int]] = {number: [] for number in layers}
    for number in layers:
        for producer in graph.layers[number].producers:
            if producer in readers:
                readers[producer].append(number)
    made: dict[int, Rows] = {}
    for number in sorted(layers, reverse=True):
        rows = graph.layers[number].h
        if not readers[number]:
            made[number] = tuple(part_of(rows, bands, band)[1] for band in range(bands))
            continue
        read = [
            [_window(graph.layers[one], 0, end)[1] if end > 0 else 0 for end in made[one]]
            for one in readers[number]
        ]
        # no consumer may need the last rows; they are made with the last band
        made[number] = (*(min(max(ends), rows) for ends in list(zip(*read, strict=True))[:-1]), rows)
    return made


@lru_cache(maxsize=65536)
def _window(layer: NetworkLayer, begin: int, end: int) -> tuple[int, int]:
    """The rows of inputs that rows ``begin`` to before ``end`` of outputs read: the first, and the one behind
    the last.
    """
    space = layer.space(1)
    tensor = next(one for one in space.tensors if one.role == "inputs")
    axis, length = tensor.axes[ROW_AXIS], space.length(tensor.axes[ROW_AXIS])
    low = {dim: 0 for dim, _ in space.dims} | {"P": begin}
    high = {dim: size - 1 for dim, size in space.dims} | {"P": end - 1}
    last = min(max(axis.at(high) + 1, 0), length)
    return min(max(axis.at(low), 0), last), last
