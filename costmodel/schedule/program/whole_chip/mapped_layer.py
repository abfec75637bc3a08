"""The program of a layer that is mapped on the whole chip: its messages and works, and the code of each tile.

``mapped_plan.py`` plans the order for all tiles alike, with positions that count from a tile's first element.
Here each tile gets its own data. Tiles that need the same elements get them in one message, partial sums of
the same outputs are one message to DRAM, and elements outside of the tensors are cut off.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.hardware.widths import in_bytes
from costmodel.mapping.counts.traffic import StridedLoop
from costmodel.mapping.mapping import Mapping
from costmodel.mapping.nest_text import mapping_of_text
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.layer_graph.sources import Source, sources_of
from costmodel.schedule.mesh.tile_groups import Sides, first_points, placements, tile_groups
from costmodel.schedule.program.part_data import elements, tensor_of
from costmodel.schedule.program.program import Instruction, Message, Moves, Operation, Repeat, Work
from costmodel.schedule.program.segment_messages import Written, reduced_dims
from costmodel.schedule.program.whole_chip.mapped_plan import LoopsAroundBuffer, PlannedPart, planned
from costmodel.schedule.program.whole_chip.nest_numbers import NestNumbers
from costmodel.schedule.tree.tree import Leaf
from costmodel.schedule.tree.validity import NotPossibleError
from costmodel.schedule.whole_chip.cost import WholeChipCost
from costmodel.workload.network import Tensor

Array = NDArray[Any]
Code = tuple[Instruction | Repeat, ...]


class _TileGroup(NamedTuple):
    """The group of each tile by its number, where each group's data begins, and the tiles of each."""

    of_tile: dict[int, int]
    origins: Array
    members: list[tuple[int, ...]]


class InBuffer(NamedTuple):
    """A message in a tile's buffer; ``offset``: bits from the address of its piece to its first bit."""

    message: int
    offset: int


class MappedLayer:
    """Writes the segment ``leaf``, mapped on the whole chip; messages and works are added to ``written``.

    Pieces and parts are those of the plan, and go by their numbers there: a piece is a box of a tensor in the
    buffer, a part some iterations of the loops inside a tile.

    Raises NotPossibleError for an uneven mapping, and for partial sums of another width than the outputs.
    """

    def __init__(
        self, graph: LayerGraph, leaf: Leaf, cost: WholeChipCost, chip: Chip, written: Written
    ) -> None:
        number, mapping = graph.index[leaf.layer], mapping_of_text(cost.mapping)
        if not isinstance(mapping, Mapping):
            raise NotPossibleError(
                f"{leaf.layer}: no program for tiles that end at different loops of one level"
            )
        self._graph, self._layer, self._written = graph, graph.layers[number], written
        self._numbers = NestNumbers(self._layer, leaf.batch)
        self._dims = (
            ("N", leaf.batch),
            ("K", self._layer.k),
            ("P", self._layer.h),
            ("Q", self._layer.w),
            *reduced_dims(self._layer),
        )
        self._sources: dict[str, list[Source]] = defaultdict(list)
        for source in sources_of(graph, number, leaf.batch):
            self._sources[source.tensor].append(source)
        self._nest = self._numbers.padded(mapping.tiles[-1])
        self._first_address = chip.tile.output_stream_bytes
        bits = ElementBits.of(self._layer, chip.tile.widths)
        if bits.partial_sums != bits.outputs:
            raise NotPossibleError(
                f"{leaf.layer}: no program on the whole chip for partial sums of {bits.partial_sums} bits "
                f"and outputs of {bits.outputs}"
            )
        self._bits = tuple(getattr(bits, tensor.role) for tensor in self._nest.tensors)
        stack = LoopsAroundBuffer(self._nest, mapping, self._bits, frozenset(self._fixed()))
        self._plan = planned(stack, chip.tile.free_bits)
        sides = list(placements(mapping, (chip.columns, chip.rows)))[cost.placement]
        position = {at: tile for tile, at in enumerate(chip.positions)}
        points = first_points(list(self._nest.sizes), sides)
        self._begin = {position[x, y]: points[x, y] for x, y in np.ndindex(points.shape[:2])}
        self._of_tensor = [self._groups(tensor, sides, position) for tensor in self._nest.tensors]
        # the tile's cycles are those of all parts together, each of which takes whole cycles
        self._cycles = -(-cost.tile_cycles // (len(self._begin) * len(self._plan.parts)))
        self._batch = leaf.batch
        self._known: dict[tuple[int, int, bool], list[InBuffer]] = {}
        self._works: dict[tuple[int, int], int | None] = {}
        self._known_moves: dict[tuple[str, bool, bool], Moves] = {}

    def _fixed(self) -> Iterator[str]:
        """Dims over which no loop can be written as a repetition (``LoopsAroundBuffer.fixed``).

        Those that the mapping pads: the last iteration has smaller boxes. And those along which a tensor has
        data of several producers, each of which sends messages of its own.
        """
        yield from (dim for dim, size in self._nest.dims if size != self._numbers.nest.sizes[dim])
        for tensor in self._nest.tensors:
            if len(self._sources[tensor.name]) > 1:
                yield from self._numbers.channel_dims(tensor)

    def _groups(self, tensor: Tensor, sides: Sides, position: dict[tuple[int, int], int]) -> _TileGroup:
        found = tile_groups(tensor, sides)
        of_tile = {position[x, y]: int(found.of_tile[x, y]) for x, y in np.ndindex(found.of_tile.shape)}
        members: list[list[int]] = [[] for _ in found.origins]
        for tile in sorted(of_tile):
            members[of_tile[tile]].append(tile)
        return _TileGroup(of_tile, found.origins, [tuple(one) for one in members])

    def tile(self, tile: int) -> Iterator[Instruction | Repeat]:
        """The code of a tile; nothing for one that the mapping does not use."""
        if tile not in self._begin:
            return
        blocks, before, body, times, behind = self._sequence
        coded: dict[int, Code] = {}

        def code(numbers: Sequence[int]) -> Iterator[Instruction | Repeat]:
            for number in numbers:
                if number not in coded:
                    coded[number] = tuple(self._block(tile, *blocks[number]))
                yield from coded[number]

        yield from code(before)
        if body:
            yield Repeat(times, tuple(code(body)))
        yield from code(behind)

    @cached_property
    def _sequence(self) -> tuple[list[tuple[PlannedPart, int]], list[int], list[int], int, list[int]]:
        """The blocks of the plan in their sequence, the longest repetition in it written once.

        Returns (blocks, before, body, times, behind). ``blocks`` are all different ones, each a part and its
        number within one time. The others are their indices: the blocks before the repetition, those of its
        body, how often the body is done, and the blocks behind.
        """
        numbers: dict[tuple[PlannedPart, int], int] = {}
        period = len(self._plan.begin)
        own = [
            numbers.setdefault((part, at % period), len(numbers)) for at, part in enumerate(self._plan.parts)
        ]
        # the longest run in which every block is the one of the time before
        run = longest = end = 0
        for at in range(len(own) - period):
            run = run + 1 if own[at] == own[at + period] else 0
            if run > longest:
                longest, end = run, at + 1
        if longest < period:
            return list(numbers), own, [], 0, []
        first, times = end - longest, longest // period + 1
        body = own[first : first + period]
        return list(numbers), own[:first], body, times, own[first + times * period :]

    def _block(self, tile: int, part: PlannedPart, at: int) -> Iterator[Instruction]:
        """The instructions of a tile in a part, which is number ``at`` of those whose work is written."""
        yield from self._freed(tile, part.freed_before)
        yield from self._taken(tile, part.needed)
        work = self._work(tile, at)
        if work is not None:
            reads = (one.message for piece in part.reads for one in self._data(tile, piece))
            yield Instruction("compute", work=work, reads=tuple(reads))
        for piece in part.stores:
            for held in self._data(tile, piece):
                (stored,) = self._outputs(tile, piece)
                yield Instruction("store", stored.message, reads=(held.message,))
        yield from self._taken(tile, part.ahead)
        yield from self._freed(tile, part.freed)
        yield from self._taken(tile, part.later)

    def _taken(self, tile: int, pieces: Sequence[int]) -> Iterator[Instruction]:
        """Gives pieces their bytes: a hold for outputs that begin at zero, a load for all else."""
        for number in pieces:
            piece = self._plan.pieces[number]
            begun = self._nest.tensors[piece.tensor].is_output and piece.before < 0
            operation: Operation = "hold" if begun else "load"
            for one in self._data(tile, number):
                address = in_bytes(8 * self._first_address + int(self._plan.address[number]) + one.offset)
                yield Instruction(operation, one.message, address)

    def _freed(self, tile: int, pieces: Sequence[int]) -> Iterator[Instruction]:
        """Gives the bytes of pieces back."""
        for number in pieces:
            for one in self._data(tile, number):
                yield Instruction("free", one.message)

    def _data(self, tile: int, number: int) -> list[InBuffer]:
        """The messages of a piece in a tile's buffer; none where all of it is padding.

        For outputs it is the message that stores them, or the one that loads them after they were stored.
        """
        piece = self._plan.pieces[number]
        if self._nest.tensors[piece.tensor].is_output and piece.before < 0:
            return self._outputs(tile, number)
        key = number, self._of_tensor[piece.tensor].of_tile[tile], False
        if key not in self._known:
            self._known[key] = list(self._loaded(tile, number))
        return self._known[key]

    def _loaded(self, tile: int, number: int) -> Iterator[InBuffer]:
        """The messages that load a piece, from all of its sources."""
        piece = self._plan.pieces[number]
        tensor, groups = self._nest.tensors[piece.tensor], self._of_tensor[piece.tensor]
        group = groups.of_tile[tile]
        origin, tiles = groups.origins[group], groups.members[group]
        box = self._numbers.box(tensor, origin + piece.begin, origin + piece.end)
        if box is None:
            return
        around = () if number in self._plan.once else self._plan.around
        if tensor.is_output:
            (before,) = self._outputs(tile, piece.before)
            self._written.partial.add(before.message)
            moves, own = self._moves(tensor, around, False), self._numbers.samples_first(box)
            size = in_bytes(elements(own) * self._bits[piece.tensor])
            message = Message(self._layer.name, own, size, (), tiles, moves, (before.message,))
            yield InBuffer(self._written.message(message), 0)
            return
        offset = 0
        for source in self._sources[tensor.name]:
            part = self._numbers.needed(source, box)
            if part is None:
                continue
            moves = self._moves(tensor, around, source.is_parameter)
            name = tensor_of(self._graph, self._layer, source)
            size_bits = elements(part) * self._bits[piece.tensor]
            message = Message(name, part, in_bytes(size_bits), (), tiles, moves)
            yield InBuffer(self._written.message(message), offset)
            offset += size_bits

    def _moves(self, tensor: Tensor, around: Sequence[StridedLoop], parameter: bool) -> Moves:
        """How boxes of a tensor move: in the rounds of the whole schedule, and in the loops ``around``.

        These are all loops of the plan or none.
        """
        key = tensor.name, bool(around), parameter
        if key not in self._known_moves:
            own = self._numbers.moves(tensor, around, parameter)
            rounds = self._written.batch // self._batch
            if not parameter:
                own = *self._written.moves(self._batch, 4), *own
            elif own and rounds > 1:
                own = (rounds, (0,) * 4), *own
            self._known_moves[key] = own
        return self._known_moves[key]

    def _outputs(self, tile: int, number: int) -> list[InBuffer]:
        """The message that stores a piece of outputs; none where it lies outside of them."""
        piece = self._plan.pieces[number]
        tensor, groups = self._nest.tensors[piece.tensor], self._of_tensor[piece.tensor]
        group = groups.of_tile[tile]
        key = number, group, True
        if key not in self._known:
            self._known[key] = []
            origin = groups.origins[group]
            box = self._numbers.box(tensor, origin + piece.begin, origin + piece.end)
            if box is not None:
                own, moves = self._numbers.samples_first(box), self._moves(tensor, self._plan.around, False)
                message = Message(
                    self._layer.name,
                    own,
                    in_bytes(elements(own) * self._bits[piece.tensor]),
                    groups.members[group],
                    (),
                    moves,
                )
                self._known[key] = [InBuffer(self._written.message(message), 0)]
        return self._known[key]

    @cached_property
    def _point_moves(self) -> Moves:
        """How the points of a work move."""
        around = self._numbers.point_moves(self._plan.around, self._dims)
        return *self._written.moves(self._batch, len(self._dims)), *around

    def _work(self, tile: int, at: int) -> int | None:
        """What a tile computes in a part; None where all of it pads dims."""
        if (tile, at) not in self._works:
            begin = self._begin[tile] + self._plan.begin[at]
            end = begin + self._plan.extent
            box = self._numbers.points(begin.tolist(), end.tolist(), self._dims)
            self._works[tile, at] = None
            if box is not None:
                work = Work(self._layer.name, box, self._cycles, elements(box), moves=self._point_moves)
                self._works[tile, at] = self._written.work(work)
        return self._works[tile, at]
