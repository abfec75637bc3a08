"""All messages of a segment: what DRAM and its leaves send to which tiles.

A range of data that several tiles need is one message to all of them. The elements that a consumer's range
and the outputs of a producer's part have in common are one message, too, as the intersection of two boxes is
a box.

Messages are written once for as many runs as possible; the boxes move along the samples from one time to the
next. As the next sub-batch arrives while the one before is in use, neighbouring sub-batches have messages of
their own: they take turns, ``turns`` of them, where ``turns`` divides the number of sub-batches.

In a segment with bands every band has messages of its own. The rows that come for a band are cut where other
bands begin or end to read, so that a tile frees each row after the last band that reads it::

    rows that come for band 0   |=============|====|
    read by band                |      0      | 0 1|
    rows that come for band 1                      |========|====|
    read by band                                   |   1    | 1 2|
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, product
from typing import NamedTuple

import numpy as np

from costmodel.hardware.widths import Widths, in_bytes
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.layer_graph.sources import ALONE, Source, joined_sources, sources_of
from costmodel.schedule.program.part_data import PlacedPart, PlacedParts, along, common, elements, tensor_of
from costmodel.schedule.program.program import Box, Interval, Message, Moves, Work
from costmodel.schedule.program.timeline import Meeting, meeting, ways_of
from costmodel.schedule.row_bands import LeafBands, leaf_bands
from costmodel.schedule.segment.node_cost import NodeCost
from costmodel.schedule.tree.data_flow import DataFlow
from costmodel.schedule.tree.tree import Leaf

OfTiles = dict[int, list[int]]
"""Numbers of messages by tile."""


@dataclass
class Written:
    """The messages and works of a program so far, and the whole batch.

    ``partial``: messages that store partial sums, to which more is added later.
    """

    batch: int
    messages: list[Message] = field(default_factory=list)
    works: list[Work] = field(default_factory=list)
    partial: set[int] = field(default_factory=set)

    def message(self, message: Message) -> int:
        """Adds a message; its number."""
        self.messages.append(message)
        return len(self.messages) - 1

    def work(self, work: Work) -> int:
        """Adds a work; its number."""
        self.works.append(work)
        return len(self.works) - 1

    def moves(self, samples: int, axes: int) -> Moves:
        """How a box moves that comes once every so many ``samples``; they are its first axis."""
        times = self.batch // samples
        return ((times, (samples, *[0] * (axes - 1))),) if times > 1 else ()


@dataclass(frozen=True)
class LeafMessages:
    """The works of a leaf on each tile, and its messages from and to DRAM.

    A tuple has what takes turns: run n of the leaf takes entry n modulo its length.

    - ``works`` [bands], one entry without bands: by (tile, slice) the compute of each tile that has a part;
      slice 0 is the part where weights are neither streamed nor shared.
    - ``weights`` [steps]: the messages of parameters by tile; a step is a slice of a run. One entry where
      they are pinned or shared, which are loaded once. ``streamed``: they come for every step.
    - ``loads`` [turns]: inputs from DRAM that come for a run, by tile; ``reads`` and ``frees`` [turns]: those
      that the run reads, and those that no later run reads.
    - ``stores`` [bands], one entry without bands: by (tile, slice) the outputs to DRAM.

    Where tiles share the weights, ``weights`` [1] are their shares. ``taken`` are the slices that come from
    other tiles, by slice and tile; ``passed`` by slice and owner what it passes on, with its share.

    Where the input channels are cut, ``sums`` are the partial sums that each tile sends to the tile which
    adds them, by the sender; ``gathered`` those that come to a tile, and ``adding`` its compute.
    """

    layer: NetworkLayer
    works: tuple[dict[tuple[int, int], int], ...]
    weights: tuple[OfTiles, ...]
    streamed: bool
    loads: tuple[OfTiles, ...]
    reads: tuple[OfTiles, ...]
    frees: tuple[OfTiles, ...]
    stores: tuple[dict[tuple[int, int], int], ...]
    taken: dict[tuple[int, int], int] = field(default_factory=dict)
    passed: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    sums: dict[int, int] = field(default_factory=dict)
    gathered: dict[int, list[int]] = field(default_factory=dict)
    adding: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class EdgeMessages:
    """The messages from ``producer`` to ``consumer`` in one sub-batch of the lowest cut above both.

    By their keys: ``sent`` (turn, run of the producer within its child of the cut, tile, slice); ``read`` and
    ``freed`` (turn, run of the consumer within its child, tile), where those that are freed are read by no
    later run; ``arriving`` (turn, tile), all that a tile gets for one run of the child.

    ``of_segment``: the segment has bands; the turns are those of all its runs, and each child has one run.
    """

    producer: str
    consumer: str
    where: Meeting
    turns: int
    of_segment: bool = False
    sent: dict[tuple[int, int, int, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    read: dict[tuple[int, int, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    freed: dict[tuple[int, int, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    arriving: dict[tuple[int, int], list[int]] = field(default_factory=lambda: defaultdict(list))


class _SharedWeights(NamedTuple):
    """The messages of weights that tiles share; see :class:`LeafMessages`."""

    shares: OfTiles
    taken: dict[tuple[int, int], int]
    passed: dict[tuple[int, int], tuple[int, int]]


class SegmentMessages:
    """The messages of one segment on tiles, which are added to ``written``.

    ``leaves``: by name of the layer, :class:`LeafMessages`, and ``costs`` what each costs; ``edges``: an
    :class:`EdgeMessages` for each edge within the segment. ``flow``: of the whole tree. ``widths``: bits of
    elements. Messages from DRAM name no stores yet: see :func:`.writer.write_program`.
    """

    def __init__(
        self, graph: LayerGraph, widths: Widths, cost: NodeCost, flow: DataFlow, written: Written
    ) -> None:
        self._graph, self._widths, self._written, self._flow = graph, widths, written, flow
        self._batch = cost.node.batch
        self.costs = {leaf.node.layer: leaf for leaf in _leaves(cost) if isinstance(leaf.node, Leaf)}
        self._sources = {
            graph.index[name]: {graph.index[one] for one in flow.sources[name]} for name in self.costs
        }
        self._bands = leaf_bands(graph, cost.node, self._sources)
        self._ways = ways_of(cost)
        self._placed = {name: self._parts_of(name) for name in self.costs}
        self.edges: list[EdgeMessages] = []
        self.leaves = {name: self._leaf(name) for name in self.costs}

    def _parts_of(self, name: str) -> PlacedParts:
        leaf = self.costs[name].leaf
        assert leaf is not None
        return PlacedParts(self._layer(name), leaf.placement, max(leaf.slices, 1))

    def _bits(self, name: str) -> ElementBits:
        return ElementBits.of(self._layer(name), self._widths)

    def _layer(self, name: str) -> NetworkLayer:
        return self._graph.layers[self._graph.index[name]]

    def _leaf(self, name: str) -> LeafMessages:
        """A leaf's works and what it exchanges with DRAM; adds the edges from its producers."""
        layer, number, bits = self._layer(name), self._graph.index[name], self._bits(name)
        if number in self._bands:
            return self._leaf_in_bands(name, self._bands[number])
        batch = self.costs[name].node.batch
        turns = taking_turns(self._batch // batch)
        loads: tuple[OfTiles, ...] = tuple(defaultdict(list) for _ in range(turns))
        cost = self.costs[name].leaf
        assert cost is not None
        # of a run in one slice the weights are still in use when those of the next run arrive
        steps = turns if cost.slices == 1 else max(cost.slices, 1)
        streamed = cost.slices > 0 and cost.sharing is None
        shared: _SharedWeights | None = None
        weights: tuple[OfTiles, ...] = tuple(defaultdict(list) for _ in range(steps))
        for source, ranges in self._read(number, batch):
            if source.producer is not None and source.producer in self._sources[number]:
                self._edge(self._graph.layers[source.producer].name, name, ranges)
            elif source.is_parameter and cost.sharing is not None:
                shared = self._shared(name, source, cost.sharing.sharers)
            elif source.is_parameter:
                for step in range(steps):
                    of_step = self._placed[name].reading(source, step % cost.slices if cost.slices else None)
                    tensor = tensor_of(self._graph, layer, source)
                    self._load(weights[step], tensor, of_step, (), bits.weights)
            else:
                moves = self._written.moves(turns * batch, 4)
                for turn in range(turns):
                    of_turn = {along(box, 0, turn * batch): tiles for box, tiles in ranges.items()}
                    tensor = tensor_of(self._graph, layer, source)
                    self._load(loads[turn], tensor, of_turn, moves, bits.inputs)
        stores = {}
        if name in self._flow.written:
            moves = self._written.moves(batch, 4)
            for part in self._placed[name].parts:
                box = part.outputs
                to_dram = Message(name, box, in_bytes(elements(box) * bits.outputs), (part.tile,), (), moves)
                stores[part.tile, part.slice] = self._written.message(to_dram)
        sums, gathered, adding = self._gathering(name)
        return LeafMessages(
            layer,
            (self._works(name),),
            weights if shared is None else (shared.shares,),
            streamed,
            loads,
            loads,
            loads,
            (stores,),
            {} if shared is None else shared.taken,
            {} if shared is None else shared.passed,
            sums,
            gathered,
            adding,
        )

    def _read(self, number: int, batch: int) -> Iterator[tuple[Source, dict[Box, list[int]]]]:
        """The sources of a layer with what tiles read of each; joined ones are one source to all their tiles.

        A tile that needs a box for several heads gets it once.
        """
        placed = self._placed[self._graph.layers[number].name]
        sources = sources_of(self._graph, number, batch)
        joined = joined_sources(self._graph, number, sources)
        for at, source in enumerate(sources):
            if joined[at] in (ALONE, at):
                ranges = placed.reading(source)
                for other in (other for other in range(at + 1, len(sources)) if joined[other] == at):
                    for box, tiles in placed.reading(sources[other]).items():
                        ranges[box] = sorted({*ranges.get(box, ()), *tiles})
                yield source, ranges

    def _shared(self, name: str, source: Source, sharers: int) -> _SharedWeights:
        """The weights of a leaf whose tiles share them (:mod:`costmodel.schedule.leaf.sharing`)."""
        placed, bits = self._placed[name], self._bits(name).weights
        tensor = tensor_of(self._graph, self._layer(name), source)
        found = _SharedWeights(defaultdict(list), {}, {})
        each = placed.slices // sharers
        for share in range(sharers):
            slices = range(share * each, (share + 1) * each)
            # The slices of a share are one box for all tiles that need the same weights.
            ends = [placed.reading(source, number) for number in (slices[0], slices[-1])]
            last = {tuple(tiles): box for box, tiles in ends[1].items()}
            for box, tiles in ends[0].items():
                whole = ((box[0][0], last[tuple(tiles)][0][1]), *box[1:])
                owners = tiles[share::sharers]
                self._load(found.shares, tensor, {whole: owners}, (), bits)
            for number in slices:
                for box, tiles in placed.reading(source, number).items():
                    for first in range(0, len(tiles), sharers):
                        group = tiles[first : first + sharers]
                        owner = group.pop(share)
                        size = in_bytes(elements(box) * bits)
                        message = self._written.message(Message(tensor, box, size, (owner,), tuple(group)))
                        found.passed[number, owner] = message, found.shares[owner][0]
                        found.taken.update({(number, tile): message for tile in group})
        return found

    def _gathering(self, name: str) -> tuple[dict[int, int], dict[int, list[int]], dict[int, int]]:
        """The partial sums of a leaf whose input channels are cut, and the works that add them.

        They come once a run, and are gone before the next one.
        """
        sums: dict[int, int] = {}
        gathered: dict[int, list[int]] = defaultdict(list)
        adding: dict[int, int] = {}
        leaf, batch, layer = self.costs[name].leaf, self.costs[name].node.batch, self._layer(name)
        assert leaf is not None
        if leaf.gathering is None:
            return sums, gathered, adding
        for part in self._placed[name].computing:
            assert part.owner is not None
            size = in_bytes(elements(part.outputs) * self._bits(name).partial_sums)
            ends, moves = ((part.tile,), (part.owner,)), self._written.moves(batch, 4)
            message = Message(name, part.outputs, size, *ends, moves, partial=True)
            sums[part.tile] = self._written.message(message)
            gathered[part.owner].append(sums[part.tile])
        for part in self._placed[name].parts:
            box = (*part.outputs, *((0, size) for _, size in reduced_dims(layer)))
            operations = len(gathered[part.tile]) * elements(part.outputs)
            work = Work(
                name,
                box,
                leaf.gathering.cycles,
                operations,
                moves=self._written.moves(batch, len(box)),
                adds=True,
            )
            adding[part.tile] = self._written.work(work)
        return sums, gathered, adding

    def _leaf_in_bands(self, name: str, bands: LeafBands) -> LeafMessages:
        """The same for a leaf of a segment with bands: a turn for each band of some sub-batches."""
        layer, number, bits = self._layer(name), self._graph.index[name], self._bits(name)
        batch, placed, leaf = self.costs[name].node.batch, self._placed[name], self.costs[name].leaf
        assert leaf is not None
        groups = taking_turns(self._batch // batch)
        turns = range(groups * bands.count)
        loads, reads, frees = (tuple(defaultdict[int, list[int]](list) for _ in turns) for _ in range(3))
        weights: OfTiles = defaultdict(list)
        taken: dict[tuple[int, int], int] = {}
        passed: dict[tuple[int, int], tuple[int, int]] = {}
        for source, ranges in self._read(number, batch):
            tensor = tensor_of(self._graph, layer, source)
            if source.is_parameter and leaf.sharing is not None:
                weights, taken, passed = self._shared(name, source, leaf.sharing.sharers)
            elif source.is_parameter:
                self._load(weights, tensor, ranges, (), bits.weights)
            elif source.producer is not None and source.producer in self._sources[number]:
                self._edge_in_bands(self._graph.layers[source.producer].name, name, ranges, bands, groups)
            else:
                moves = self._written.moves(groups * batch, 4)
                for turn in turns:
                    group, band = divmod(turn, bands.count)
                    for rows, first, last in bands.pieces(source.producer, band):
                        of_piece = {
                            along(_of_rows(box, rows), 0, group * batch): tiles
                            for box, tiles in ranges.items()
                        }
                        come: OfTiles = defaultdict(list)
                        self._load(come, tensor, of_piece, moves, bits.inputs)
                        _add(loads[turn], come)
                        for one in range(first, last + 1):
                            _add(reads[group * bands.count + one], come)
                        _add(frees[group * bands.count + last], come)
        moves = self._written.moves(batch, 4)
        works: list[dict[tuple[int, int], int]] = []
        stores: list[dict[tuple[int, int], int]] = []
        for band in range(bands.count):
            cycles = leaf.band_cycles[band] // max(leaf.slices, 1)
            works.append(self._works(name, bands.outputs(band), cycles))
            stores.append({})
            for part in placed.parts if name in self._flow.written else ():
                box = _of_rows(part.outputs, bands.outputs(band))
                to_dram = Message(name, box, in_bytes(elements(box) * bits.outputs), (part.tile,), (), moves)
                stores[-1][part.tile, part.slice] = self._written.message(to_dram)
        return LeafMessages(
            layer, tuple(works), (weights,), False, loads, reads, frees, tuple(stores), taken, passed
        )

    def _edge_in_bands(
        self, producer: str, consumer: str, ranges: dict[Box, list[int]], bands: LeafBands, groups: int
    ) -> None:
        """The messages of an edge for every band of ``groups`` sub-batches."""
        turns, number = groups * bands.count, self._graph.index[producer]
        edge = EdgeMessages(producer, consumer, meeting(self._ways, producer, consumer), turns, True)
        self.edges.append(edge)
        batch, bits = self.costs[consumer].node.batch, self._bits(producer).outputs
        moves = self._written.moves(groups * batch, 4)
        shared = [
            (part, both, tiles)
            for box, tiles in ranges.items()
            for part in self._placed[producer].parts
            if (both := common(box, part.outputs)) is not None
        ]
        for turn in range(turns):
            group, band = divmod(turn, bands.count)
            for rows, first, last in bands.pieces(number, band):
                for part, both, tiles in shared:
                    box = along(_of_rows(both, rows), 0, group * batch)
                    size = in_bytes(elements(box) * bits)
                    message = self._written.message(
                        Message(producer, box, size, (part.tile,), tuple(tiles), moves)
                    )
                    edge.sent[turn, 0, part.tile, part.slice].append(message)
                    for tile in tiles:
                        edge.arriving[turn, tile].append(message)
                        edge.freed[group * bands.count + last, 0, tile].append(message)
                        for one in range(first, last + 1):
                            edge.read[group * bands.count + one, 0, tile].append(message)

    def _works(
        self, name: str, rows: Interval | None = None, cycles: int | None = None
    ) -> dict[tuple[int, int], int]:
        """The works of a leaf, or of those ``rows`` of its outputs that take so many ``cycles``."""
        layer, cost = self._layer(name), self.costs[name]
        assert cost.leaf is not None
        if cycles is None:
            adding = 0 if cost.leaf.gathering is None else cost.leaf.gathering.cycles
            cycles = (cost.leaf.tile_cycles - adding) // max(cost.leaf.slices, 1)
        found = {}
        for part in self._placed[name].computing:
            outputs = part.outputs if rows is None else _of_rows(part.outputs, rows)
            inner = [(0, size) for _, size in reduced_dims(layer)]
            if part.channels is not None:
                inner[0] = part.channels
            box = (*outputs, *inner)
            moves = self._written.moves(cost.node.batch, len(box))
            work = Work(name, box, cycles, elements(box), moves=moves)
            found[part.tile, part.slice] = self._written.work(work)
        return found

    def _load(self, to: OfTiles, tensor: str, ranges: dict[Box, list[int]], moves: Moves, bits: int) -> None:
        """Messages from DRAM of elements of so many ``bits``."""
        for box, tiles in ranges.items():
            number = self._written.message(
                Message(tensor, box, in_bytes(elements(box) * bits), (), tuple(tiles), moves)
            )
            for tile in tiles:
                to[tile].append(number)

    def _edge(self, producer: str, consumer: str, ranges: dict[Box, list[int]]) -> None:
        """The messages of an edge; the samples of a range are those of the consumer's first run."""
        where = meeting(self._ways, producer, consumer)
        turns = taking_turns(where.cut.subbatches) if where.cut.kind == "S" else 1
        edge = EdgeMessages(producer, consumer, where, turns)
        self.edges.append(edge)
        batch = where.cut.batch // where.cut.subbatches
        made, needed = self.costs[producer].node.batch, self.costs[consumer].node.batch
        runs = list(product(range(batch // made), range(batch // needed)))
        moves = self._written.moves(turns * batch, 4)
        parts = self._placed[producer].parts
        outputs = np.array([part.outputs for part in parts], np.int64).reshape(-1, 4, 2)
        firsts, ends = outputs[..., 0], outputs[..., 1]
        for box, tiles in ranges.items():
            first, end = np.array(box, np.int64).T
            # The axes but samples decide which parts have anything of the range: of hundreds mostly a few.
            # All at once, for one by one these comparisons took most of the time of writing a program.
            shared = (np.maximum(firsts, first) < np.minimum(ends, end))[:, 1:].all(axis=1)
            for number in np.flatnonzero(shared).tolist():
                self._edge_of_part(edge, parts[number], (box, tiles), runs, (made, needed, batch), moves)

    def _edge_of_part(
        self,
        edge: EdgeMessages,
        part: PlacedPart,
        needed_range: tuple[Box, list[int]],
        runs: Sequence[tuple[int, int]],
        samples: tuple[int, int, int],
        moves: Moves,
    ) -> None:
        """What one part of the producer sends of a range, in all runs.

        ``samples``: of a run of the producer, of one of the consumer, and of the cut where they meet.
        """
        (box, tiles), (made, needed, batch) = needed_range, samples
        for making, needing in runs:
            both = common(along(box, 0, needing * needed), along(part.outputs, 0, making * made))
            if both is None:
                continue
            for turn in range(edge.turns):
                self._sent(edge, turn, (making, needing), along(both, 0, turn * batch), part, tiles, moves)

    def _sent(
        self,
        edge: EdgeMessages,
        turn: int,
        runs: tuple[int, int],
        box: Box,
        part: PlacedPart,
        targets: Sequence[int],
        moves: Moves,
    ) -> None:
        """One message of an edge, for all tiles that take part; ``runs`` of producer and consumer."""
        size = in_bytes(elements(box) * self._bits(edge.producer).outputs)
        message = Message(edge.producer, box, size, (part.tile,), tuple(targets), moves)
        number = self._written.message(message)
        edge.sent[turn, runs[0], part.tile, part.slice].append(number)
        for tile in targets:
            edge.read[turn, runs[1], tile].append(number)
            edge.freed[turn, runs[1], tile].append(number)
            edge.arriving[turn, tile].append(number)


def _of_rows(box: Box, rows: Interval) -> Box:
    """The box with other rows."""
    return (*box[:2], rows, *box[3:])


def _add(to: OfTiles, more: OfTiles) -> None:
    for tile, messages in more.items():
        to[tile] += messages


def reduced_dims(layer: NetworkLayer) -> tuple[tuple[str, int], ...]:
    """The dims of a nest that its outputs do not have: inputs of a group (or operands), and the window."""
    return ("C", layer.group_c if layer.has_weights else layer.operands), ("R", layer.r), ("S", layer.s)


def taking_turns(times: int) -> int:
    """The fewest messages, two or more, that can take turns in so many times: the smallest prime factor.

    It is 1 for a single time.
    """
    return next((turns for turns in count(2) if times % turns == 0), 1) if times > 1 else 1


def _leaves(cost: NodeCost) -> Iterator[NodeCost]:
    if not cost.children:
        yield cost
    for child in cost.children:
        yield from _leaves(child)
