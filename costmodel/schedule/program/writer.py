"""Writes an evaluated schedule as a program: what every tile does, in order.

A tile runs the steps of a segment one after the other (``timeline.py``). Around each compute it issues its
transfers so that data arrives when ``buffers.py`` says: inputs from DRAM while the child before of the cut
computes, which may be many steps, those of a producer while that computes::

    receive ...          what producers send for the next child of the cut, or its next sub-batch
    compute              the step
    load ...             inputs from DRAM of what comes after the child that begins with this step: of the
                         next step, if that is a leaf, and its weights if it is the layer's first step
    send, store ...      outputs of the step
    free ...             inputs of the step, and its weights if it is the layer's last step

Segments are connected by DRAM only: a segment begins with empty buffers, as the chip model counts them. With
``across_segments`` a tile fetches what its next segment begins with while the last step of the one before
computes, as far as the buffer has free bytes: the chip model charges no time for these first fetches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.program.addresses import Occupancy, addresses
from costmodel.schedule.program.part_data import common
from costmodel.schedule.program.program import (
    Instruction,
    LayerNest,
    Message,
    Program,
    Repeat,
    counted,
)
from costmodel.schedule.program.repetition import Repeated, Rolled, rolled, walked
from costmodel.schedule.program.segment_messages import (
    EdgeMessages,
    SegmentMessages,
    Written,
    reduced_dims,
)
from costmodel.schedule.program.timeline import TileStep, begun, fetching, steps_of
from costmodel.schedule.segment import NodeCost
from costmodel.schedule.tree.segment_flow import SegmentFlow, Wiring
from costmodel.schedule.tree.tree import leaves
from costmodel.schedule.tree.validity import NotPossibleError

VERSION = "2"
"""Goes up when the writer writes another program for a schedule than before."""

Code = tuple[Instruction | Repeat, ...]


class _Block(NamedTuple):
    """What a tile does for one step: numbers of messages and of a work, -1 for a tile without a part."""

    loads_before: tuple[int, ...]
    receives: tuple[int, ...]
    work: int
    reads: tuple[int, ...]
    loads: tuple[int, ...]
    sends: tuple[int, ...]
    stores: tuple[int, ...]
    frees: tuple[int, ...]


def write_program(graph: LayerGraph, evaluation: ChipEvaluation, *, across_segments: bool = False) -> Program:
    """The program of a schedule of ``graph``; ``across_segments``: fetch ahead for the next segment.

    NotPossibleError for a layer mapped on the whole chip, and where the data of a tile fits its buffer by
    the sum of bytes but no addresses were found for it.
    """
    chip, batch = evaluation.chip, evaluation.tree.batch
    written, wiring = Written(batch), Wiring.of(graph.producers)
    code: list[list[Instruction | Repeat]] = [[] for _ in range(chip.tiles)]
    first, end = chip.tile.output_stream_bytes, chip.tile.buffer.size_bytes
    for segment in evaluation.segments:
        if segment.whole_chip is not None:
            name = next(leaves(segment.node)).layer
            raise NotPossibleError(f"{name}: no program yet for a layer mapped on the whole chip")
    for number, segment in enumerate(evaluation.segments):
        flow = SegmentFlow(segment.node, wiring)
        of_segment = _SegmentWriter(SegmentMessages(graph, segment, flow, written), segment, written)
        for tile in range(chip.tiles):
            own = list(of_segment.tile(tile, first, end))
            if across_segments:
                # every other segment fills its buffers from their end, which leaves the other end free
                own = _mirrored(own, written.messages, first + end) if number % 2 else own
                own = _fetched_ahead(code[tile], own, written.messages)
            code[tile] += own
    if evaluation.rounds > 1:
        code = [[Repeat(evaluation.rounds, tuple(body))] if body else [] for body in code]
    nests = (
        LayerNest(one.name, (("N", batch), ("K", one.k), ("P", one.h), ("Q", one.w), *reduced_dims(one)))
        for one in graph.layers
    )
    return Program(
        network=graph.name,
        batch=batch,
        chip=chip,
        messages=_waiting(written.messages),
        works=tuple(written.works),
        tiles=tuple(tuple(body) for body in code),
        output_stream_bytes=chip.tile.output_stream_bytes,
        layers=tuple(nests),
    )


class _SegmentWriter:
    """Writes what each tile does in one segment."""

    def __init__(self, messages: SegmentMessages, cost: NodeCost, written: Written) -> None:
        self._leaves, self._cost, self._written = messages.leaves, cost, written
        self._from: dict[str, list[EdgeMessages]] = defaultdict(list)
        self._to: dict[str, list[EdgeMessages]] = defaultdict(list)
        self._during: dict[tuple[int, ...], list[EdgeMessages]] = defaultdict(list)
        for edge in messages.edges:
            self._from[edge.producer].append(edge)
            self._to[edge.consumer].append(edge)
            where = edge.where
            # a T cut's child gets its data while the child before it runs
            child = where.after if where.cut.kind == "S" else where.before
            self._during[*where.ranks, child].append(edge)

    def tile(self, tile: int, first: int, end: int) -> Iterator[Instruction | Repeat]:
        """The code of a tile, whose buffer has the addresses from ``first`` to before ``end``."""
        numbers: dict[_Block, int] = {}
        sequence = [numbers.setdefault(block, len(numbers)) for block in self._blocks(tile)]
        blocks, items = list(numbers), rolled(sequence)
        occupancy = self._occupancy(blocks, items)
        at = addresses(occupancy, first, end)
        if at is None:
            raise NotPossibleError(
                f"tile {tile}: no addresses were found for messages of at most {occupancy.peak:,} bytes at a "
                f"time in the {end - first:,} bytes of its buffer behind the outputs on their way out"
            )
        return _coded(items, [tuple(_instructions(block, at)) for block in blocks])

    def _blocks(self, tile: int) -> Iterator[_Block]:
        steps = list(steps_of(self._cost, tile))
        last = {step.layer: number for number, step in enumerate(steps)}
        used_layers: set[str] = set()
        before: list[int] = []
        fetched: list[list[int]] = [[] for _ in steps]
        used: dict[int, int] = {}  # the last step that reads each message
        for number, (step, begin) in enumerate(zip(steps, fetching(steps), strict=True)):
            for message in self._fetched(step, tile, step.layer not in used_layers):
                # messages take turns: its data of the time before has to be freed first
                at = None if begin is None else max(begin, used.get(message, -1) + 1)
                (before if at is None else fetched[at]).append(message)
                used[message] = number
            used_layers.add(step.layer)
        for number, step in enumerate(steps):
            leaf = self._leaves[step.layer]
            weights = leaf.weights.get(tile, [])
            inputs = self._fetched(step, tile, False) + self._received(step, tile)
            yield _Block(
                loads_before=() if number else tuple(before),
                receives=tuple(self._arriving(step, steps[number - 1] if number else None, tile)),
                work=leaf.works.get(tile, -1),
                reads=tuple(weights + inputs),
                loads=tuple(fetched[number]),
                sends=tuple(self._sent(step, tile)),
                stores=(leaf.stores[tile],) if tile in leaf.stores else (),
                frees=tuple(inputs + (weights if last[step.layer] == number else [])),
            )

    def _fetched(self, step: TileStep, tile: int, first: bool) -> list[int]:
        """What has to come from DRAM for a step; ``first``: of its layer, with the weights."""
        leaf = self._leaves[step.layer]
        inputs = leaf.loads[step.run() % len(leaf.loads)].get(tile, [])
        return (leaf.weights.get(tile, []) if first else []) + inputs

    def _received(self, step: TileStep, tile: int) -> list[int]:
        """What a step reads that producers sent."""
        edges = self._to[step.layer]
        return [one for edge in edges for one in edge.read.get(_turn_and_run(edge, step, tile), [])]

    def _sent(self, step: TileStep, tile: int) -> list[int]:
        """What of a step's outputs is sent to consumers."""
        edges = self._from[step.layer]
        return [one for edge in edges for one in edge.sent.get(_turn_and_run(edge, step, tile), [])]

    def _arriving(self, step: TileStep, before: TileStep | None, tile: int) -> Iterator[int]:
        """What starts to arrive with a step: for every child of a cut that the tile begins with it.

        In an S cut that is the data of the child's next sub-batch, and of its first one when it begins.
        """
        for depth, subbatch in begun(step, before):
            ranks = [rank for _, rank in step.way[: depth + 1]]
            for edge in self._during.get(tuple(ranks), ()):
                if edge.where.cut.kind == "T":
                    coming: tuple[int, ...] = (subbatch,)
                else:
                    coming = (0, 1) if subbatch == 0 else (subbatch + 1,)
                for one in coming:
                    if one < edge.where.cut.subbatches:
                        yield from edge.arriving.get((one % edge.turns, tile), ())

    def _occupancy(self, blocks: Sequence[_Block], items: Rolled) -> Occupancy:
        """What the buffer holds; the third time of a repetition is as the second."""
        sizes = {
            message: self._written.messages[message].size_bytes
            for block in blocks
            for message in (*block.loads_before, *block.receives, *block.loads)
        }
        occupancy = Occupancy(sizes)
        for number in walked(items):
            block = blocks[number]
            for message in (*block.loads_before, *block.receives, *block.loads):
                occupancy.arrive(message)
            occupancy.leave(block.frees)
        return occupancy


def _turn_and_run(edge: EdgeMessages, step: TileStep, tile: int) -> tuple[int, int, int]:
    """Where an edge has the messages of one run of its producer, or its consumer, on a tile."""
    depth = edge.where.depth
    return step.way[depth][0] % edge.turns, step.run(depth + 1), tile


def _instructions(block: _Block, at: dict[int, int]) -> Iterator[Instruction]:
    for message in block.loads_before:
        yield Instruction("load", message, at[message])
    for message in block.receives:
        yield Instruction("receive", message, at[message])
    if block.work >= 0:
        yield Instruction("compute", work=block.work, reads=block.reads)
    for message in block.loads:
        yield Instruction("load", message, at[message])
    for message in block.sends:
        yield Instruction("send", message)
    for message in block.stores:
        yield Instruction("store", message)
    for message in block.frees:
        yield Instruction("free", message)


def _coded(items: Rolled, blocks: Sequence[Code]) -> Iterator[Instruction | Repeat]:
    for item in items:
        if isinstance(item, Repeated):
            yield Repeat(item.times, tuple(_coded(item.body, blocks)))
        else:
            yield from blocks[item]


def _mirrored(
    code: Sequence[Instruction | Repeat], messages: Sequence[Message], ends: int
) -> list[Instruction | Repeat]:
    """The code with all data as far from the buffer's end as it was from its start; ``ends``: their sum."""
    found: list[Instruction | Repeat] = []
    for item in code:
        if isinstance(item, Repeat):
            found.append(Repeat(item.times, tuple(_mirrored(item.body, messages, ends))))
        elif item.address >= 0:
            found.append(replace(item, address=ends - item.address - messages[item.message].size_bytes))
        else:
            found.append(item)
    return found


def _fetched_ahead(
    before: list[Instruction | Repeat], code: list[Instruction | Repeat], messages: Sequence[Message]
) -> list[Instruction | Repeat]:
    """Moves the loads at the start of ``code`` behind the last compute of the segment ``before`` it.

    Only those move whose bytes are free then: at its end a segment frees all that it holds, so what is in the
    buffer with its last compute is what comes to be freed after that. Returns the rest of ``code``.
    """
    while before and isinstance(last := before[-1], Repeat):
        before.pop()
        before += [Repeat(last.times - 1, last.body)] if last.times > 1 else []
        before += last.body
    at = len(before)
    held: set[int] = set()
    while at and isinstance(item := before[at - 1], Instruction) and item.operation != "compute":
        held |= {item.message} if item.operation == "free" else set()
        at -= 1
    if not at or isinstance(before[at - 1], Repeat):  # no compute to fetch during
        return code
    taken = {}
    for item, _ in counted(before):
        if item.message in held and item.address >= 0:
            taken[item.message] = item.address, item.address + messages[item.message].size_bytes
    ahead: list[Instruction | Repeat] = []
    rest: list[Instruction | Repeat] = []
    for number, item in enumerate(code):
        if isinstance(item, Repeat) or item.operation != "load":
            rest += code[number:]
            break
        stop = item.address + messages[item.message].size_bytes
        free = all(stop <= begin or end <= item.address for begin, end in taken.values())
        (ahead if free else rest).append(item)
    before[at:at] = ahead
    return rest


def _waiting(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages; those from DRAM with the stores that have some of their elements.

    The samples move, so only the other axes are compared.
    """
    stores: dict[str, list[int]] = defaultdict(list)
    for number, message in enumerate(messages):
        if not message.targets:
            stores[message.tensor].append(number)
    found = []
    for message in messages:
        if not message.sources and message.tensor in stores:
            after = (
                number
                for number in stores[message.tensor]
                if common(message.box[1:], messages[number].box[1:]) is not None
            )
            message = replace(message, after=tuple(after))
        found.append(message)
    return tuple(found)
