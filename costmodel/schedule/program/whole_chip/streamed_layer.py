"""The program of a layer without products that is streamed through the tiles, its data in DRAM.

A *plane* is one channel of one sample. Each tile has some of a layer's planes (``streamed_layer_cost``) and
computes them in *turns*, a few planes in each. The buffer has the inputs of two turns: one is computed while
the next arrives. Where those of two planes do not fit, a turn is some rows of one plane. Input rows that the
next turn reads, too, stay in the buffer, so that they are loaded once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from costmodel.hardware.chip import Chip
from costmodel.hardware.widths import in_bytes
from costmodel.schedule.boxes.images import image
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.layer_graph.sources import sources_of
from costmodel.schedule.program.addresses import Occupancy, addresses
from costmodel.schedule.program.part_data import elements, tensor_of
from costmodel.schedule.program.program import Box, Instruction, Message, Moves, Repeat, Work
from costmodel.schedule.program.segment_messages import Written, reduced_dims
from costmodel.schedule.program.whole_chip.nest_numbers import NestNumbers
from costmodel.schedule.tree.tree import Leaf
from costmodel.schedule.tree.validity import NotPossibleError
from costmodel.schedule.whole_chip.cost import TURNS, planes_of_tiles


class StreamedLayer:
    """Writes the segment ``leaf``, streamed through the tiles of a chip."""

    def __init__(self, graph: LayerGraph, leaf: Leaf, chip: Chip, written: Written) -> None:
        number = graph.index[leaf.layer]
        self._graph, self._layer, self._batch = graph, graph.layers[number], leaf.batch
        self._chip, self._written = chip, written
        self._space = self._layer.space(leaf.batch)
        self._sources = sources_of(graph, number, leaf.batch)
        self._ends = planes_of_tiles(chip, self._layer, leaf.batch)
        self._first, self._end = chip.tile.output_stream_bytes, chip.tile.buffer.size_bytes
        self._bits = ElementBits.of(self._layer, chip.tile.widths)
        self._capacity = chip.tile.free_bits

    def tile(self, tile: int) -> Iterator[Instruction | Repeat]:
        """The instructions of a tile. Loaded data lies behind the bytes that outputs are streamed through."""
        turns = list(self._turns(int(self._ends[tile]), int(self._ends[tile + 1])))
        loads: list[list[int]] = []
        kept: list[list[int]] = []
        for turn, outputs in enumerate(turns):
            later = turns[turn + 1] if turn + 1 < len(turns) else None
            fresh, stay = self._loads(tile, turns[turn - 1] if turn else None, outputs, later)
            loads.append(fresh + stay)
            kept.append(stay)
        sizes = {one: self._written.messages[one].size_bytes for own in loads for one in own}
        # Loading the next turn's inputs behind this turn's compute hides their time, but needs addresses for
        # both turns at once. Where none are found, each turn loads its own when it begins.
        for ahead in (True, False):
            blocks = list(self._ordered(loads, kept, ahead))
            occupancy = Occupancy(sizes)
            for taken, _, after, freed in blocks:
                for one in taken:
                    occupancy.arrive(one)
                for one in after:
                    occupancy.arrive(one)
                occupancy.leave(freed)
            at = addresses(occupancy, self._first, self._end)
            if at is not None:
                break
        else:
            raise NotPossibleError(
                f"{self._layer.name}: no addresses were found for the rows under its windows"
            )
        for (taken, reads, after, freed), outputs in zip(blocks, turns, strict=True):
            yield from (Instruction("load", one, at[one]) for one in taken)
            yield Instruction("compute", work=self._work(outputs), reads=tuple(reads))
            yield from (Instruction("load", one, at[one]) for one in after)
            yield Instruction("store", self._stored(tile, outputs))
            yield from (Instruction("free", one) for one in freed)

    def _ordered(
        self, loads: list[list[int]], kept: list[list[int]], ahead: bool
    ) -> Iterator[tuple[list[int], list[int], list[int], list[int]]]:
        """For each turn four lists of messages: loaded before it, read by it, loaded for the next, freed.

        ``ahead``: whether a turn loads for the next one. Without it every turn loads its own, and the third
        list is empty.
        """
        for turn, own in enumerate(loads):
            before = kept[turn - 1] if turn else []
            more = loads[turn + 1] if turn + 1 < len(loads) else []
            first = own if turn == 0 or not ahead else []
            reads = before + own
            stay = set(kept[turn])
            yield first, reads, more if ahead else [], [one for one in reads if one not in stay]

    def _turns(self, first: int, end: int) -> Iterator[Box]:
        """Boxes (samples, channels, rows, columns) of planes ``first`` to before ``end``, turn by turn."""
        layer = self._layer
        rows = layer.h
        plane = max(self._needed_bits(((0, 1), (0, 1), (0, layer.h), (0, layer.w))), 1)
        most = self._capacity // (2 * plane)
        if most < 1:
            while (
                rows > 1 and 2 * self._needed_bits(((0, 1), (0, 1), (0, rows), (0, layer.w))) > self._capacity
            ):
                rows = -(-rows // 2)
        step = max(min(most, -(-(end - first) // TURNS)), 1)
        for begin in range(first, end, step):
            for samples, channels in _boxes(begin, min(begin + step, end), layer.k):
                for row in range(0, layer.h, rows):
                    yield samples, channels, (row, min(row + rows, layer.h)), (0, layer.w)

    def _needed_bits(self, outputs: Box) -> int:
        """Bits of inputs that a box of outputs needs."""
        return self._bits.inputs * sum(elements(box) for _, box in self._needed(outputs))

    def _needed(self, outputs: Box) -> Iterator[tuple[str, Box]]:
        """The tensors, and their elements, that a box of outputs needs."""
        samples, channels, rows, columns = outputs
        of_dim = {"N": samples, "K": channels, "P": rows, "Q": columns}
        points = np.array([of_dim.get(dim, (0, size)) for dim, size in self._space.dims], np.int64)
        for source in self._sources:
            touched = image(self._space, self._space.tensor(source.tensor), points[None])
            (part,) = source.needed(touched).tolist()
            box = tuple((first, end) for first, end in part)
            if all(first < end for first, end in box):
                yield tensor_of(self._graph, self._layer, source), NestNumbers.samples_first(box)

    def _loads(
        self, tile: int, before: Box | None, outputs: Box, later: Box | None
    ) -> tuple[list[int], list[int]]:
        """The messages that a turn loads: data that only it reads, and data that the turn ``later`` reads,
        too.

        The two are apart because the second stays in the buffer. Data that the turn ``before`` has loaded is
        in neither.
        """
        fresh: list[int] = []
        stay: list[int] = []
        old = _rows_of(self._needed(before)) if before and _next_rows(before, outputs) else {}
        new = _rows_of(self._needed(later)) if later and _next_rows(outputs, later) else {}
        for number, (name, box) in enumerate(self._needed(outputs)):
            samples, channels, (first, end), columns = box
            begin = max(first, old.get(number, (0, 0))[1])
            cut = min(max(new.get(number, (end, end))[0], begin), end)
            for low, high, to in ((begin, cut, fresh), (cut, end, stay)):
                if low < high:
                    part = samples, channels, (low, high), columns
                    moves = self._moves()
                    to.append(
                        self._written.message(
                            Message(
                                name, part, in_bytes(elements(part) * self._bits.inputs), (), (tile,), moves
                            )
                        )
                    )
        return fresh, stay

    def _stored(self, tile: int, outputs: Box) -> int:
        moves = self._moves()
        return self._written.message(
            Message(
                self._layer.name,
                outputs,
                in_bytes(elements(outputs) * self._bits.outputs),
                (tile,),
                (),
                moves,
            )
        )

    def _moves(self) -> Moves:
        return self._written.moves(self._batch, 4)

    def _work(self, outputs: Box) -> int:
        inside = tuple((0, size) for _, size in reduced_dims(self._layer))
        box = (*outputs, *inside)
        cycles = -(-elements(box) // self._chip.tile.vector_units)
        moves = self._written.moves(self._batch, len(box))
        return self._written.work(Work(self._layer.name, box, cycles, elements(box), moves=moves))


def _boxes(first: int, end: int, channels: int) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Planes ``first`` to before ``end`` as (samples, channels): parts of samples, and whole ones."""
    while first < end:
        sample, channel = divmod(first, channels)
        if channel or end - first < channels:
            stop = min(channels, channel + end - first)
            yield (sample, sample + 1), (channel, stop)
            first += stop - channel
        else:
            samples = (end - first) // channels
            yield (sample, sample + samples), (0, channels)
            first += samples * channels


def _next_rows(before: Box, after: Box) -> bool:
    """Whether ``after`` are the rows below ``before``, of the same planes."""
    return before[:2] == after[:2] and before[2][1] == after[2][0]


def _rows_of(needed: Iterator[tuple[str, Box]]) -> dict[int, tuple[int, int]]:
    """The rows of each needed box by its number."""
    return {number: box[2] for number, (_, box) in enumerate(needed)}
