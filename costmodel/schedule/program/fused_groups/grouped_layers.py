"""The program of a group of layers: its messages and works, and the code of each tile.

All tiles run the same steps, each with its own part of the data. A *step* is one compute: an iteration of
DRAM's temporal loops in a turn of a product, or a vector layer behind such a turn. First it is found what
lies in a tile's buffer from which step to which other one, whatever the tile: its *stays* (:class:`Stay`).
Addresses are chosen for these, and then each tile's instructions follow::

    receive, hold, load      what comes for the step
    compute
    send, store              what the step completes
    load                     what the next step needs, where there are bytes for it already
    free                     what no later step needs

An intermediate goes from the tile to itself. Where a vector layer works on what the step before it has made,
and nothing else reads that, it does so in place: only its own outputs have a message. Rows of an intermediate
that are needed for different lengths of time have messages of their own, as in a line buffer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.hardware.widths import in_bytes
from costmodel.mapping.counts.traffic import nest_of
from costmodel.mapping.fused.layers.evaluate import kind_cost
from costmodel.mapping.fused.layers.turns import LayerTurns, turns_of
from costmodel.schedule.fused_groups.cost import FusedGroupCost, cycles_inside
from costmodel.schedule.fused_groups.cuts import CutGroup
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.layer_graph.sources import Source, sources_of
from costmodel.schedule.mesh.tile_groups import Sides, first_points, tile_groups
from costmodel.schedule.program.addresses import Occupancy, addresses
from costmodel.schedule.program.fused_groups.turn_order import Turn, TurnOrder
from costmodel.schedule.program.part_data import common, elements, tensor_of
from costmodel.schedule.program.program import Box, Instruction, Message, Moves, Operation, Repeat, Work
from costmodel.schedule.program.segment_messages import Written, reduced_dims
from costmodel.schedule.program.whole_chip.nest_numbers import NestNumbers
from costmodel.schedule.tree.validity import NotPossibleError
from costmodel.schedule.whole_chip.steps import fetched_boxes

Array = NDArray[Any]
MOST_STEPS = 20_000
"""The most steps that are written, one after the other."""
StayKind = Literal["load", "hold", "kept"]
"""What a stay is for: ``load``, data that the layers read from DRAM; ``hold``, outputs on their way to DRAM,
which may come back to be added to; ``kept``, an intermediate that later layers of the group read."""


class GroupStep(NamedTuple):
    """One compute: in a turn of a product, or of the vector layer of this number behind one.

    ``first``, ``end``: the points of the product's nest, in the order of its dims, from the tile's first.
    ``cycles``: how long it takes.
    """

    turn: Turn
    vector: int | None
    first: tuple[int, ...]
    end: tuple[int, ...]
    cycles: int


@dataclass
class Stay:
    """A box of a tensor that lies in the buffer while steps ``begin`` to ``last`` run.

    ``position``, ``tensor``: the product whose tensor it is, by its position, and which of its tensors. For
    outputs of a vector layer this is the product that it runs behind, and that one's outputs.
    ``first``, ``end``: the box, end excluded. Of ``load`` and ``hold``: in the axes of the product's tensor,
    counted from the tile's first element, thus the same for all tiles. Of ``kept``: in the axes of messages
    (samples, channels, rows, columns), as they are on the first tile; other tiles' are shifted.
    ``begin``, ``last``: steps, by number, the last one included.
    ``made``: of ``kept``, the number of the layer whose outputs these are, and the step that completes them.
    ``before``: of ``hold``, the numbers of the stays in which these outputs were before, if they come back.
    ``reads``: the steps that read it; none for ``hold``.
    """

    position: int
    tensor: int
    first: tuple[int, ...]
    end: tuple[int, ...]
    kind: StayKind
    begin: int
    last: int
    made: tuple[int, int] = (-1, -1)
    before: tuple[int, ...] = ()
    reads: set[int] = field(default_factory=set)


class GroupedLayers:
    """Writes a segment whose layers are mapped together; messages and works are added to ``written``."""

    def __init__(self, graph: LayerGraph, cost: FusedGroupCost, chip: Chip, written: Written) -> None:
        self._graph, self._chip, self._written = graph, chip, written
        self._group, self._cut = cost.group, CutGroup(cost.group.group, cost.cut)
        self._part, self._mapping = self._cut.part, cost.nests
        sides = list(self._cut.placements((chip.columns, chip.rows)))[cost.whole.placement]
        self._turns = turns_of(self._part, self._mapping.shared)
        self._nests = self._mapping.turn_nests(self._part.layers)
        self._products = [
            _Product(graph, number, cost.group.batch, chip, own)
            for number, own in zip(cost.group.products, sides, strict=True)
        ]
        self._steps = self._all_steps()
        self._stays = [*self._outer_stays(), *self._kept()]
        self._ahead: set[tuple[int, int]] = set()
        """Products and tensors, by position and number, whose data comes a step ahead."""
        self._address = self._addresses()
        self._numbers: dict[tuple[int, int], int] = {}
        self._works: dict[tuple[int, int], int | None] = {}

    def tile(self, tile: int) -> Iterator[Instruction | Repeat]:
        """The code of a tile; nothing for one that has no part."""
        if tile not in self._products[0].begin:
            return
        coming, going = defaultdict(list), defaultdict(list)
        for number, stay in enumerate(self._stays):
            coming[self._comes(stay)].append(number)
            going[self._goes(stay)].append(number)
        reading = defaultdict(list)
        for number, stay in enumerate(self._stays):
            for step in stay.reads:
                reading[step].append(number)
        for number in coming[-1]:
            yield from self._taken(tile, number)
        for at in range(len(self._steps)):
            late = [number for number in coming[at] if self._stays[number].begin == at]
            for number in late:
                yield from self._taken(tile, number)
            reads = (self._held(tile, number) for number in reading[at])
            work = self._work(tile, at)
            if work is not None:
                yield Instruction("compute", work=work, reads=tuple(one for one in reads if one is not None))
            for number, stay in enumerate(self._stays):
                if stay.kind == "kept" and stay.made[1] == at:
                    if (message := self._held(tile, number)) is not None:
                        yield Instruction("send", message)
                elif stay.kind == "hold" and stay.last == at:
                    yield from self._left(tile, number)
            for number in coming[at]:
                if number not in late:
                    yield from self._taken(tile, number)
            for number in going[at]:
                if (message := self._held(tile, number)) is not None:
                    yield Instruction("free", message)

    def _comes(self, stay: Stay) -> int:
        """The step with which a stay's bytes are taken: its own, or the one before if data comes ahead."""
        ahead = stay.kind == "load" and (stay.position, stay.tensor) in self._ahead
        return stay.begin - 1 if ahead else stay.begin

    def _goes(self, stay: Stay) -> int:
        """The step after which a stay's bytes are given back; outputs may take the next one to leave."""
        later = stay.kind == "hold" and (stay.position, stay.tensor) in self._ahead
        return stay.last + 1 if later and stay.last + 1 < len(self._steps) else stay.last

    def _taken(self, tile: int, number: int) -> Iterator[Instruction]:
        message = self._held(tile, number)
        if message is None:
            return
        stay = self._stays[number]
        back: Operation = "load" if stay.before else "hold"
        operation: dict[StayKind, Operation] = {"load": "load", "hold": back, "kept": "receive"}
        first = 8 * self._chip.tile.output_stream_bytes + int(self._address[number])
        yield Instruction(operation[stay.kind], message, in_bytes(first))

    def _left(self, tile: int, number: int) -> Iterator[Instruction]:
        """The store of outputs, from the bytes in which they were held."""
        held = self._held(tile, number)
        if held is not None:
            yield Instruction("store", self._stored(tile, number), reads=(held,))

    def _all_steps(self) -> list[GroupStep]:
        """The steps of all turns, in their order."""
        found: list[GroupStep] = []
        for turn in TurnOrder(self._part, self._mapping.shared).turns():
            one, nest = self._turns[turn.position], self._nests[turn.position][turn.kind]
            loops, dims = nest_of(nest).temporal[-1], [dim for dim, _ in one.layer.dims]
            if len(found) + prod(loop.bound for loop in loops) > MOST_STEPS:
                raise NotPossibleError(
                    f"{one.layer.name} and others: more than {MOST_STEPS:,} steps on a tile"
                )
            cost, _ = kind_cost(one, one.kinds[turn.kind], nest)
            begins = np.array([[turn.points[dim][0] for dim in dims]], np.int64)
            for loop in loops:
                by = np.array([loop.inner * (dim == loop.dim) for dim in dims], np.int64)
                begins = (np.arange(loop.bound)[:, None, None] * by + begins[None]).reshape(-1, len(dims))
            size = np.array([nest.tiles[-2].get(dim, 1) for dim in dims], np.int64)
            cycles = -(-cycles_inside(cost.turn) // len(begins))
            for first in begins:
                own = tuple(first.tolist()), tuple((first + size).tolist())
                found.append(GroupStep(turn, None, *own, cycles))
            if self._completes(turn):
                ends = [turn.points[dim] for dim in dims]
                own = tuple(first for first, _ in ends), tuple(end for _, end in ends)
                words = one.layer.output.words({dim: b - a for dim, (a, b) in turn.points.items()})
                for vector in self._chain(turn.position):
                    operations = words * self._graph.layers[vector].operands
                    cycles = -(-operations // self._chip.tile.vector_units)
                    found.append(GroupStep(turn, vector, *own, cycles))
        return found

    def _completes(self, turn: Turn) -> bool:
        """Whether nothing is added any more to what the turn has made."""
        one = self._turns[turn.position]
        return all(
            number == cut.times - 1 or cut.dim in one.layer.output.dims
            for number, cut in zip(turn.iteration, one.cuts, strict=True)
        )

    def _chain(self, position: int) -> list[int]:
        """The vector layers behind a product, in the order in which they run."""
        return [one.number for one in self._group.vectors if one.after == position]

    def _outer_stays(self) -> list[Stay]:
        """What comes from DRAM, and the outputs that go there."""
        found: list[Stay] = []
        for one in self._turns:
            held = {*one.held} - {tile.tensor for tile in one.hoisted}
            for number, tensor in enumerate(one.layer.tensors):
                if tensor.name in held:
                    continue
                hoisted = next((tile for tile in one.hoisted if tile.tensor == tensor.name), None)
                stays = (
                    self._passing(one, number)
                    if hoisted is None
                    else self._hoisted(one, number, hoisted.depth)
                )
                # by output of the tile, the stay in which it was last
                extents = tensor.extents(one.layer.sizes) if tensor.is_output else ()
                last = np.full(extents, -1, np.int64)
                for stay in stays:
                    if tensor.is_output:
                        stay = replace(stay, before=_stays_before(stay, last, found))
                        last[_slices(stay)] = len(found)
                    found.append(stay)
        return found

    def _of_turns(self, position: int) -> Iterator[tuple[Turn, int, int]]:
        """The turns of a product, each with its first step and its last one."""
        own = [
            number
            for number, step in enumerate(self._steps)
            if step.turn.position == position and step.vector is None
        ]
        first = 0
        for at, number in enumerate(own):
            if at + 1 == len(own) or self._steps[own[at + 1]].turn is not self._steps[number].turn:
                yield self._steps[number].turn, own[first], number
                first = at + 1

    def _passing(self, one: LayerTurns, number: int) -> Iterator[Stay]:
        """The stays of a tensor that is brought in, or taken out, in every turn."""
        tensor = one.layer.tensors[number]
        for turn, first_step, last_step in self._of_turns(one.position):
            nest = self._nests[one.position][turn.kind]
            if tensor.name not in nest.levels[-2].keep:
                raise NotPossibleError(
                    f"{one.layer.name}: no program for a mapping whose buffers do not keep the {tensor.name}"
                )
            base = self._origin(one.position, number, [turn.points[dim][0] for dim, _ in one.layer.dims])
            fetched = fetched_boxes(tensor, tensor.extents(nest.tiles[-2]), nest_of(nest).temporal[-1])
            if not fetched.whole.all():
                raise NotPossibleError(f"{one.layer.name}: no program for windows that slide from DRAM")
            until = [*(first_step + step for step in fetched.step[1:].tolist()), last_step + 1]
            for index, end in enumerate(until):
                begin = first_step + int(fetched.step[index])
                yield Stay(
                    one.position,
                    number,
                    tuple((base + fetched.first[index]).tolist()),
                    tuple((base + fetched.end[index]).tolist()),
                    "hold" if tensor.is_output else "load",
                    begin,
                    end - 1,
                    reads=set() if tensor.is_output else set(range(begin, end)),
                )

    def _hoisted(self, one: LayerTurns, number: int, depth: int) -> Iterator[Stay]:
        """The stays of a tensor's tile that is hoisted above shared loop ``depth``."""
        tensor = one.layer.tensors[number]
        moved = self._mapping.shared.emptied_below(one.position, depth)
        for at, cut in enumerate(one.cuts[:depth]):
            if cut.dim in tensor.dims and cut.times > 1:
                moved = max(moved, at + 1)
        # outputs leave turn by turn: a store is of what the compute before it makes
        depth = len(one.cuts) if tensor.is_output else depth
        together: dict[tuple[Any, ...], list[tuple[Turn, int, int]]] = defaultdict(list)
        order = TurnOrder(self._part, self._mapping.shared)
        for turn in self._of_turns(one.position):
            points = order.points(one.position, turn[0].iteration[:depth])
            box = tuple(points[dim] for dim, _ in one.layer.dims if dim in tensor.dims)
            together[turn[0].iteration[:moved], box].append(turn)
        for turns in together.values():
            points = order.points(one.position, turns[0][0].iteration[:depth])
            first = self._origin(one.position, number, [points[dim][0] for dim, _ in one.layer.dims])
            size = np.array(tensor.extents({dim: b - a for dim, (a, b) in points.items()}), np.int64)
            steps = {step for _, begin, last in turns for step in range(begin, last + 1)}
            yield Stay(
                one.position,
                number,
                tuple(first.tolist()),
                tuple((first + size).tolist()),
                "hold" if tensor.is_output else "load",
                turns[0][1],
                turns[-1][2],
                reads=set() if tensor.is_output else steps,
            )

    def _origin(self, position: int, number: int, points: Sequence[int]) -> Array:
        """Where the box of a tensor begins that a turn or step at these first points touches."""
        layer = self._part.layers[position]
        tensor = layer.tensors[number]
        found = np.zeros(len(tensor.axes), np.int64)
        for (dim, _), point in zip(layer.dims, points, strict=True):
            if dim in tensor.steps:
                found += point * np.array(tensor.steps[dim], np.int64)
        return found

    def _kept(self) -> Iterator[Stay]:
        """Intermediates that stay in the buffer for later layers; boxes are those of the first tile."""
        readers = self._reading_steps()
        for position, one in enumerate(self._turns):
            if self._part.layers[position].name not in self._mapping.shared.backing:
                continue
            chain = [self._group.products[position], *self._chain(position)]
            output = next(number for number, tensor in enumerate(one.layer.tensors) if tensor.is_output)
            began: dict[Box, int] = {}
            for number, step in enumerate(self._steps):
                if step.turn.position != position:
                    continue
                box = self._products[position].outputs(step.turn)
                began.setdefault(box, number)
                node = chain[0] if step.vector is None else step.vector
                behind = chain[chain.index(node) + 1 :]
                last_of_turn = number + 1 == len(self._steps) or not (
                    self._steps[number + 1].turn is step.turn and self._steps[number + 1].vector is None
                )
                in_place = bool(behind) and set(readers[node]) == {behind[0]}
                if not last_of_turn or not self._completes(step.turn) or in_place:
                    continue
                yield from self._pieces(position, output, box, began[box], (node, number), readers[node])

    def _reading_steps(self) -> dict[int, dict[int, list[tuple[int, Box]]]]:
        """By layer and layer that reads its outputs, the steps that do, each with what it needs."""
        found: dict[int, dict[int, list[tuple[int, Box]]]] = defaultdict(lambda: defaultdict(list))
        inside = set(self._group.numbers)
        for number, step in enumerate(self._steps):
            product = self._products[step.turn.position]
            if step.vector is not None:
                for producer in self._graph.layers[step.vector].producers:
                    found[producer][step.vector].append((number, product.outputs(step.turn)))
                continue
            for tensor, sources in product.sources.items():
                for source in sources:
                    if source.producer in inside:
                        box = product.needed(source, tensor, step)
                        if box is not None:
                            found[source.producer][product.number].append((number, box))
        return found

    def _pieces(
        self,
        position: int,
        tensor: int,
        box: Box,
        begin: int,
        made: tuple[int, int],
        readers: dict[int, list[tuple[int, Box]]],
    ) -> Iterator[Stay]:
        """The parts of an intermediate's box, cut where rows are needed for different lengths of time."""
        needs = [
            (step, need)
            for steps in readers.values()
            for step, need in steps
            if step > made[1] and common(box, need) is not None
        ]
        first, end = box[2]
        inside = sorted({need[2][0] for _, need in needs if first < need[2][0] < end})
        for low, high in zip((first, *inside), (*inside, end), strict=True):
            part = (*box[:2], (low, high), *box[3:])
            reads = {step for step, need in needs if common(part, need) is not None}
            yield Stay(
                position,
                tensor,
                tuple(a for a, _ in part),
                tuple(b for _, b in part),
                "kept",
                begin,
                max(reads, default=made[1]),
                made,
                reads=reads,
            )

    def _size(self, stay: Stay) -> int:
        """Bits of a stay's box."""
        bits: int = self._products[stay.position].bits[stay.tensor]
        return prod(b - a for a, b in zip(stay.first, stay.end, strict=True)) * bits

    def _addresses(self) -> dict[int, int | float]:
        """The first bit of every stay behind the outputs on their way out.

        Of as many tensors as there are bytes for, the next step's data comes a step ahead, and outputs have
        the time of one more step to leave: of those with the smallest tiles first.
        """
        found = self._placed()
        if found is None:
            names = ", ".join(layer.name for layer in self._part.layers)
            raise NotPossibleError(f"{names}: no addresses were found for their tiles")
        largest: dict[tuple[int, int], int] = defaultdict(int)
        for stay in self._stays:
            if stay.kind != "kept":
                key = stay.position, stay.tensor
                largest[key] = max(largest[key], self._size(stay))
        for key in sorted(largest, key=lambda one: largest[one]):
            self._ahead.add(key)
            more = self._placed()
            if more is None:
                self._ahead.remove(key)
            else:
                found = more
        return found

    def _placed(self) -> dict[int, int | float] | None:
        """The addresses where the tensors of ``_ahead`` come ahead; None where none were found."""
        occupancy = Occupancy({number: self._size(stay) for number, stay in enumerate(self._stays)})
        coming, going = defaultdict(list), defaultdict(list)
        for number, stay in enumerate(self._stays):
            coming[self._comes(stay)].append(number)
            going[self._goes(stay)].append(number)
        for at in range(-1, len(self._steps)):
            # what is there for a step first, then what comes ahead: the order of the instructions
            for number in sorted(coming[at], key=lambda one: (self._stays[one].begin, one)):
                occupancy.arrive(number)
            occupancy.leave(going[at])
        return addresses(occupancy, 0, self._chip.tile.free_bits)

    def _held(self, tile: int, number: int) -> int | None:
        """The message whose data lies there during a stay; None where all of it is padding."""
        stay = self._stays[number]
        product = self._products[stay.position]
        if stay.kind == "hold" and not stay.before:
            return self._stored(tile, number)
        owner = tile if stay.kind == "kept" else product.groups[stay.tensor].of_tile[tile]
        key = number, owner
        if key not in self._numbers:
            message = self._message(product, stay, tile)
            self._numbers[key] = -1 if message is None else self._written.message(message)
        found = self._numbers[key]
        return None if found < 0 else found

    def _message(self, product: _Product, stay: Stay, tile: int) -> Message | None:
        """The message that brings a stay's data to a tile and to all that need the same."""
        moves = self._written.moves(self._group.batch, 4)
        if stay.kind == "kept":
            box = tuple(zip(stay.first, stay.end, strict=True))
            shifted = product.shifted(box, tile)
            name = self._graph.layers[stay.made[0]].name
            size = in_bytes(elements(shifted) * product.bits[stay.tensor])
            return Message(name, shifted, size, (tile,), (tile,), moves)
        members = product.groups[stay.tensor].members[product.groups[stay.tensor].of_tile[tile]]
        tensor = product.nest.tensors[stay.tensor]
        own_box = product.box(stay.tensor, stay.first, stay.end, tile)
        if own_box is None:
            return None
        bits = product.bits[stay.tensor]
        if tensor.is_output:
            before = tuple(self._stored(tile, one) for one in stay.before)
            self._written.partial.update(before)
            own = NestNumbers.samples_first(own_box)
            return Message(
                product.layer.name, own, in_bytes(elements(own) * bits), (), members, moves, before
            )
        (source,) = product.sources[tensor.name]
        part = product.numbers.needed(source, own_box)
        if part is None:
            return None
        name = tensor_of(self._graph, product.layer, source)
        own_moves: Moves = () if source.is_parameter else moves
        return Message(name, part, in_bytes(elements(part) * bits), (), members, own_moves)

    def _stored(self, tile: int, number: int) -> int:
        """The message that stores a stay's outputs."""
        stay = self._stays[number]
        product = self._products[stay.position]
        groups = product.groups[stay.tensor]
        key = -1 - number, groups.of_tile[tile]
        if key not in self._numbers:
            box = product.box(stay.tensor, stay.first, stay.end, tile)
            assert box is not None, "outputs have no padding"
            own, moves = NestNumbers.samples_first(box), self._written.moves(self._group.batch, 4)
            size = in_bytes(elements(own) * product.bits[stay.tensor])
            members = groups.members[groups.of_tile[tile]]
            self._numbers[key] = self._written.message(
                Message(product.layer.name, own, size, members, (), moves)
            )
        return self._numbers[key]

    def _work(self, tile: int, at: int) -> int | None:
        """What a tile computes in a step."""
        if (tile, at) not in self._works:
            step = self._steps[at]
            product = self._products[step.turn.position]
            begin = product.begin[tile]
            box = product.numbers.points(
                (begin + np.array(step.first)).tolist(), (begin + np.array(step.end)).tolist(), product.dims
            )
            layer = product.layer
            if step.vector is not None and box is not None:
                layer = self._graph.layers[step.vector]
                box = (*box[:4], *((0, size) for _, size in reduced_dims(layer)))
            if box is None:
                self._works[tile, at] = None
            else:
                moves = self._written.moves(self._group.batch, len(box))
                work = Work(layer.name, box, step.cycles, elements(box), moves=moves)
                self._works[tile, at] = self._written.work(work)
        return self._works[tile, at]


def _stays_before(stay: Stay, last: Array, stays: Sequence[Stay]) -> tuple[int, ...]:
    """The stays, by number, in which the outputs of a new one were ``last``; none where it begins them.

    NotPossibleError where the messages that stored them have others of these outputs, too, which were stored
    again since: a load can wait for one store of an element only.
    """
    found = [one for one in np.unique(last[_slices(stay)]).tolist() if one >= 0]
    box = tuple(zip(stay.first, stay.end, strict=True))
    others = (tuple(zip(stays[one].first, stays[one].end, strict=True)) for one in found)
    both = sum(elements(shared) for other in others if (shared := common(box, other)) is not None)
    if found and both != elements(box):
        raise NotPossibleError("no program for partial sums that come back in other parts than they left")
    return tuple(found)


def _slices(stay: Stay) -> tuple[slice, ...]:
    return tuple(slice(first, end) for first, end in zip(stay.first, stay.end, strict=True))


class _Groups(NamedTuple):
    """The group of each tile that needs the same of a tensor, where its data begins, and its tiles."""

    of_tile: dict[int, int]
    origins: Array
    members: list[tuple[int, ...]]


class _Product:
    """A product of the group and its parts on the tiles, whose loops over tiles lie on the mesh as ``sides``
    say: the numbers that programs have for its elements and points."""

    def __init__(self, graph: LayerGraph, number: int, batch: int, chip: Chip, sides: Sides) -> None:
        self.number, self.layer = number, graph.layers[number]
        self.numbers = NestNumbers(self.layer, batch)
        self.nest = self.numbers.nest
        bits = ElementBits.of(self.layer, chip.tile.widths)
        if bits.partial_sums != bits.outputs:
            raise NotPossibleError(
                f"{self.layer.name}: no program for partial sums of {bits.partial_sums} bits "
                f"and outputs of {bits.outputs}"
            )
        self.bits = tuple(getattr(bits, tensor.role) for tensor in self.nest.tensors)
        sizes = ("N", batch), ("K", self.layer.k), ("P", self.layer.h), ("Q", self.layer.w)
        self.dims = (*sizes, *reduced_dims(self.layer))
        self.sources: dict[str, list[Source]] = defaultdict(list)
        for source in sources_of(graph, number, batch):
            self.sources[source.tensor].append(source)
        if any(len(own) > 1 for own in self.sources.values()):
            raise NotPossibleError(f"{self.layer.name}: no program for operands of several layers in a group")
        position = {at: tile for tile, at in enumerate(chip.positions)}
        points = first_points(list(self.nest.sizes), sides)
        self.begin = {position[x, y]: points[x, y] for x, y in np.ndindex(points.shape[:2])}
        self.groups = []
        for tensor in self.nest.tensors:
            found = tile_groups(tensor, sides)
            of_tile = {position[x, y]: int(found.of_tile[x, y]) for x, y in np.ndindex(found.of_tile.shape)}
            members: list[list[int]] = [[] for _ in found.origins]
            for tile in sorted(of_tile):
                members[of_tile[tile]].append(tile)
            self.groups.append(_Groups(of_tile, found.origins, [tuple(one) for one in members]))

    def box(self, tensor: int, first: Sequence[int], end: Sequence[int], tile: int) -> Box | None:
        """The elements of a tile, from ``first`` to ``end`` of its own, in the axes of the layer's space."""
        groups = self.groups[tensor]
        origin = groups.origins[groups.of_tile[tile]]
        return self.numbers.box(
            self.nest.tensors[tensor],
            (origin + np.array(first)).tolist(),
            (origin + np.array(end)).tolist(),
        )

    def outputs(self, turn: Turn) -> Box:
        """The outputs that a turn of the first tile makes, as messages have them."""
        ranges = [turn.points[dim] for dim, _ in self.nest.dims]
        box = self.numbers.points([a for a, _ in ranges], [b for _, b in ranges], self.dims)
        assert box is not None
        return box[:4]

    def needed(self, source: Source, tensor: str, step: GroupStep) -> Box | None:
        """What a step of the first tile needs of a source, as messages have it."""
        one = self.nest.tensor(tensor)
        first = np.zeros(len(one.axes), np.int64)
        for dim, point in zip(self.nest.sizes, step.first, strict=True):
            if dim in one.steps:
                first += point * np.array(one.steps[dim], np.int64)
        size = {dim: b - a for dim, a, b in zip(self.nest.sizes, step.first, step.end, strict=True)}
        box = self.numbers.box(one, first.tolist(), (first + np.array(one.extents(size))).tolist())
        return None if box is None else self.numbers.needed(source, box)

    def shifted(self, box: Box, tile: int) -> Box:
        """Outputs of the first tile, moved to those of another one."""
        unit = np.ones(len(self.nest.dims), np.int64)
        at, zero = (
            self.numbers.points(begin.tolist(), (begin + unit).tolist(), self.dims)
            for begin in (self.begin[tile], 0 * unit)
        )
        assert at is not None
        assert zero is not None
        return tuple(
            (first + there[0] - here[0], end + there[0] - here[0])
            for (first, end), there, here in zip(box, at[:4], zero[:4], strict=True)
        )
