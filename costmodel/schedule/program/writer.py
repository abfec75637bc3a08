"""Writes an evaluated schedule as a program: what every tile does, in order.

A tile runs the steps of a segment one after the other (``timeline.py``). Around each compute it issues
transfers, so that data arrives when ``segment/buffers.py`` says. Inputs from DRAM arrive while the child
before of the cut computes, which may be many steps. Inputs from a producer arrive while that producer
computes::

    receive ...          what producers send for the next child of the cut, or its next sub-batch
    compute              the step
    load ...             inputs from DRAM of what comes after the child that begins with this step: of the
                         next step, if that is a leaf, and its weights if it is the layer's first step
    send, store ...      outputs of the step
    free ...             inputs of the step, and its weights if it is the layer's last step

Where weights are streamed a step is one slice of a run. It loads and frees the weights of a slice; the
inputs of the run come before its first slice and are freed after its last one. Where tiles share weights the
slices come from tiles: a tile loads its share before the layer's first step and frees it after the last one,
and during each step the owner of the next slice passes that on, which the others receive.

Where the input channels of a leaf are cut, the tile that adds partial sums has two computes in a step. The
outputs of the first one go to itself; those of the second one are complete, and leave.

Segments are connected by DRAM only. A tile loads the first data of its next segment while the last step of
the segment before computes, where by the chip model's count its buffer holds both (``tile_code.py``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import TypeVar

import numpy as np

from costmodel.hardware.chip import Chip
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.program.fused_groups.grouped_layers import GroupedLayers
from costmodel.schedule.program.program import Box, Instruction, LayerNest, Message, Program, Repeat
from costmodel.schedule.program.repetition import rolled
from costmodel.schedule.program.segment_messages import (
    EdgeMessages,
    SegmentMessages,
    Written,
    reduced_dims,
)
from costmodel.schedule.program.tile_code import Code, StepMessages, TileSegment, tile_code
from costmodel.schedule.program.timeline import TileStep, asking, begun, steps_of
from costmodel.schedule.program.whole_chip.mapped_layer import MappedLayer
from costmodel.schedule.program.whole_chip.streamed_layer import StreamedLayer
from costmodel.schedule.segment.node_cost import NodeCost
from costmodel.schedule.transitions import fitting_early
from costmodel.schedule.tree.data_flow import DataFlow
from costmodel.schedule.tree.tree import Leaf
from costmodel.schedule.tree.validity import NotPossibleError

T = TypeVar("T")

VERSION = "9"
"""Goes up when the writer writes another program for a schedule than before."""


def _unlimited() -> None:
    """The ``check`` of a writer that may take as long as it takes."""


def write_program(
    graph: LayerGraph, evaluation: ChipEvaluation, check: Callable[[], None] = _unlimited
) -> Program:
    """The program of a schedule of ``graph``.

    ``check`` is called again and again, between tiles, and ends the writing by whatever it raises.
    NotPossibleError where the data of a tile fits its buffer by the sum of bytes but no addresses were found
    for it, and for those mappings of layers on the whole chip that ``mapped_layer.py`` cannot write.
    """
    chip, batch = evaluation.chip, evaluation.tree.batch
    written, flow = Written(batch), DataFlow(evaluation.tree, graph.producers)
    segments: list[list[TileSegment | Code]] = [[] for _ in range(chip.tiles)]
    for number, segment in enumerate(evaluation.segments):
        if segment.whole_chip is not None:
            layer = (
                GroupedLayers(graph, segment.group, chip, written)
                if segment.group is not None
                else _on_whole_chip(graph, segment, chip, written)
            )
            for tile in range(chip.tiles):
                check()
                segments[tile].append(tuple(layer.tile(tile)))
            continue
        messages = SegmentMessages(graph, chip.tile.widths, segment, flow, written)
        of_segment = _SegmentWriter(messages, segment, chip, written)
        early = fitting_early(evaluation.segments[number - 1], segment, chip, graph.producers)
        for tile in range(chip.tiles):
            check()
            segments[tile].append(of_segment.tile(tile, *early[:, tile].tolist()))
    first, end = chip.tile.output_stream_bytes, chip.tile.buffer.size_bytes
    code = []
    for tile, parts in enumerate(segments):
        check()
        try:
            code.append(_in_turn(parts, evaluation.rounds, first, end))
        except NotPossibleError as reason:
            raise NotPossibleError(f"tile {tile}: {reason}") from None
    nests = (
        LayerNest(one.name, (("N", batch), ("K", one.k), ("P", one.h), ("Q", one.w), *reduced_dims(one)))
        for one in graph.layers
    )
    return Program(
        network=graph.name,
        batch=batch,
        chip=chip,
        messages=_waiting(written, check),
        works=tuple(written.works),
        tiles=tuple(code),
        output_stream_bytes=chip.tile.output_stream_bytes,
        layers=tuple(nests),
    )


def _on_whole_chip(
    graph: LayerGraph, segment: NodeCost, chip: Chip, written: Written
) -> MappedLayer | StreamedLayer:
    """The writer of a layer that is mapped on the whole chip, or streamed through it."""
    assert isinstance(segment.node, Leaf)
    assert segment.whole_chip is not None
    if segment.whole_chip.mapping:
        return MappedLayer(graph, segment.node, segment.whole_chip, chip, written)
    return StreamedLayer(graph, segment.node, chip, written)


def _in_turn(parts: Sequence[TileSegment | Code], rounds: int, first: int, end: int | float) -> Code:
    """The code of a tile; nothing of a segment comes early beside a layer on the whole chip."""
    if all(isinstance(part, TileSegment) for part in parts):
        return tile_code([part for part in parts if isinstance(part, TileSegment)], rounds, first, end)
    body: list[Instruction | Repeat] = []
    waiting: list[TileSegment] = []
    for part in (*parts, ()):
        if isinstance(part, TileSegment):
            waiting.append(part)
            continue
        body += [*(tile_code(waiting, 1, first, end) if waiting else ()), *part]
        waiting = []
    return (Repeat(rounds, tuple(body)),) if rounds > 1 and body else tuple(body)


class _SegmentWriter:
    """Writes what each tile does in one segment."""

    def __init__(self, messages: SegmentMessages, cost: NodeCost, chip: Chip, written: Written) -> None:
        self._leaves, self._costs, self._written = messages.leaves, messages.costs, written
        self._cost, self._chip = cost, chip
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

    def tile(self, tile: int, weights: bool, inputs: bool) -> TileSegment:
        """What a tile does; ``weights``, ``inputs``: which data of its first step the tile may load early."""
        numbers: dict[StepMessages, int] = {}
        sequence = [numbers.setdefault(block, len(numbers)) for block in self._blocks(tile)]
        sizes = {
            message: self._written.messages[message].size_bytes
            for block in numbers
            for message in (*block.loads_before, *block.receives, *block.loads)
        }
        early: list[tuple[int, ...]] = []
        step = next(steps_of(self._cost, tile), None)
        if step is not None and (weights or inputs):
            leaf = self._leaves[step.layer]
            staying = () if leaf.streamed else tuple(self._weights(step, tile))
            early = [staying] if staying else []
            early += [tuple(self._fetched(step, tile, True))] if inputs else []
        return TileSegment.of(list(numbers), rolled(sequence), sizes, tuple(early))

    def _blocks(self, tile: int) -> Iterator[StepMessages]:
        steps = list(steps_of(self._cost, tile))
        last = {step.layer: number for number, step in enumerate(steps)}
        used_layers: set[str] = set()
        before: list[int] = []
        fetched: list[list[int]] = [[] for _ in steps]
        taken: list[list[int]] = [[] for _ in steps]  # slices that come from tiles
        passed: list[list[tuple[int, int]]] = [[] for _ in steps]
        used: dict[int, int] = {}  # the last step that reads each message
        for number, (step, begin) in enumerate(
            zip(steps, asking(steps, self._costs, self._chip), strict=True)
        ):
            for message in self._fetched(step, tile, step.layer not in used_layers):
                # messages take turns: its data of the time before has to be freed first
                at = None if begin is None else max(begin, used.get(message, -1) + 1)
                (before if at is None else fetched[at]).append(message)
                used[message] = number
            leaf, at_once = self._leaves[step.layer], begin or 0
            if (slice_ := leaf.taken.get((step.slice, tile))) is not None:
                taken[max(at_once, used.get(slice_, -1) + 1)].append(slice_)
                used[slice_] = number
            if (pass_ := leaf.passed.get((step.slice, tile))) is not None:
                passed[max(at_once, used.get(pass_[0], -1) + 1)].append(pass_)
                used[pass_[0]] = number
            used_layers.add(step.layer)
        for number, step in enumerate(steps):
            leaf = self._leaves[step.layer]
            weights = self._weights(step, tile)
            slice_ = leaf.taken.get((step.slice, tile))
            inputs = _of_run(leaf.reads, step).get(tile, []) + self._received(step, tile)
            freed = self._freed(step, tile) if step.slice == step.slices - 1 else []
            stores = _of_run(leaf.stores, step)
            sums, gathered = leaf.sums.get(tile), tuple(leaf.gathered.get(tile, ()))
            if sums is not None:
                # an owner's step is two: its own partial sums first, and then the sum of all
                yield StepMessages(
                    loads_before=() if number else tuple(before),
                    receives=(
                        *self._arriving(step, steps[number - 1] if number else None, tile),
                        *taken[number],
                        *gathered,
                    ),
                    work=_of_run(leaf.works, step)[tile, step.slice],
                    reads=tuple(weights + inputs),
                    loads=tuple(fetched[number]),
                    sends=(sums,),
                    stores=(),
                    frees=() if gathered else tuple(freed + (weights if last[step.layer] == number else [])),
                    passes=tuple(passed[number]),
                )
                if gathered:
                    yield StepMessages(
                        loads_before=(),
                        receives=(),
                        work=leaf.adding[tile],
                        reads=gathered,
                        loads=(),
                        sends=tuple(self._sent(step, tile)),
                        stores=(stores[tile, step.slice],) if (tile, step.slice) in stores else (),
                        frees=tuple([*freed, *gathered] + (weights if last[step.layer] == number else [])),
                    )
                continue
            yield StepMessages(
                loads_before=() if number else tuple(before),
                receives=(
                    *self._arriving(step, steps[number - 1] if number else None, tile),
                    *taken[number],
                ),
                work=_of_run(leaf.works, step).get((tile, step.slice), -1),
                reads=tuple((weights if slice_ is None else [slice_]) + inputs),
                loads=tuple(fetched[number]),
                sends=tuple(self._sent(step, tile)),
                stores=(stores[tile, step.slice],) if (tile, step.slice) in stores else (),
                frees=(
                    *freed,
                    *([] if slice_ is None else [slice_]),
                    *(weights if leaf.streamed or last[step.layer] == number else []),
                ),
                passes=tuple(passed[number]),
            )

    def _fetched(self, step: TileStep, tile: int, first: bool) -> list[int]:
        """The messages from DRAM for a step; ``first``: of its layer, with pinned weights."""
        weights = self._weights(step, tile) if first or self._leaves[step.layer].streamed else []
        inputs = _of_run(self._leaves[step.layer].loads, step).get(tile, [])
        return weights + (inputs if step.slice == 0 else [])

    def _weights(self, step: TileStep, tile: int) -> list[int]:
        """The parameters that a step reads."""
        weights = self._leaves[step.layer].weights
        return weights[(step.run() * step.slices + step.slice) % len(weights)].get(tile, [])

    def _freed(self, step: TileStep, tile: int) -> list[int]:
        """The inputs that no later run reads."""
        edges = self._to[step.layer]
        received = [one for edge in edges for one in edge.freed.get(_turn_and_run(edge, step, tile), [])]
        return _of_run(self._leaves[step.layer].frees, step).get(tile, []) + received

    def _received(self, step: TileStep, tile: int) -> list[int]:
        """The messages from producers that a step reads."""
        edges = self._to[step.layer]
        return [one for edge in edges for one in edge.read.get(_turn_and_run(edge, step, tile), [])]

    def _sent(self, step: TileStep, tile: int) -> list[int]:
        """The messages that send a step's outputs to consumers."""
        edges = self._from[step.layer]
        return [
            one for edge in edges for one in edge.sent.get((*_turn_and_run(edge, step, tile), step.slice), [])
        ]

    def _arriving(self, step: TileStep, before: TileStep | None, tile: int) -> Iterator[int]:
        """The messages that start to arrive with a step: those of every child of a cut that the tile begins
        with it.

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
                    if one < edge.where.cut.child_runs:
                        # below the segment's own cut there is one run for each of its runs
                        turn = step.run() if edge.of_segment and depth else one
                        yield from edge.arriving.get((turn % edge.turns, tile), ())


def _turn_and_run(edge: EdgeMessages, step: TileStep, tile: int) -> tuple[int, int, int]:
    """Where an edge has the messages of one run of its producer, or its consumer, on a tile."""
    if edge.of_segment:
        return step.run() % edge.turns, 0, tile
    depth = edge.where.depth
    return step.way[depth][0] % edge.turns, step.run(depth + 1), tile


def _of_run(turns: Sequence[T], step: TileStep) -> T:
    """What of a leaf's turns belongs to a step."""
    return turns[step.run() % len(turns)]


def _waiting(written: Written, check: Callable[[], None]) -> tuple[Message, ...]:
    """The messages; those from DRAM with the stores that have some of their elements.

    The samples move in every round, so only the other axes are compared. Messages that load partial sums name
    their stores already.
    """
    numbers: dict[str, list[int]] = defaultdict(list)
    messages = written.messages
    for number, message in enumerate(messages):
        if not message.targets and number not in written.partial:
            numbers[message.tensor].append(number)
    stores = {
        tensor: (np.array(own), np.array([_reach(messages[number])[1:] for number in own]))
        for tensor, own in numbers.items()
    }

    def after(tensor: str, box: Box) -> tuple[int, ...]:
        check()
        own, boxes = stores[tensor]
        reach = np.array(box)
        begins, ends = np.maximum(boxes[:, :, 0], reach[:, 0]), np.minimum(boxes[:, :, 1], reach[:, 1])
        return tuple(own[(begins < ends).all(axis=1)].tolist())

    # a step's load may wait for each of thousands of stores, and many tiles load the same
    known = cache(after)
    return tuple(
        replace(message, after=known(message.tensor, _reach(message)[1:]))
        if not message.sources and not message.after and message.tensor in stores
        else message
        for message in messages
    )


def _reach(message: Message) -> Box:
    """The smallest box around all that a message's box moves over; boxes only move forward."""
    by = [sum((times - 1) * step[axis] for times, step in message.moves) for axis in range(len(message.box))]
    return tuple((first, end + far) for (first, end), far in zip(message.box, by, strict=True))
