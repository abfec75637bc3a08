"""Writes the program of a layer's mapping on a mesh of PEs; :class:`.PeMesh` has the mesh.

Everything that works by itself is a *unit* with code of its own. Each tensor has units that fetch it, so
that one tensor's data comes while another's is in use::

    weights, inputs   DRAM -> loader -> sender ====> receiver -> PE
    outputs           PE -> forwarder ====> collector -> storer -> DRAM
    partial sums      DRAM -> loader -> sender ====> receiver -> PE

``====>`` crosses the mesh: one message for all PEs that need the same words (multicast), and one message for
all PEs that add to the same outputs, whose sums meet on the way (reduction). All else is handed over between
units at one position of the mesh and takes no time. Loader, sender, collector and storer are the global
buffer's. Weights or inputs that bypass it stream from DRAM to the receivers; outputs and partial sums that do
pass through these units step by step.

A unit takes the next data only when it has handed over what it has. So there is one tile in use and one on
its way at each level, which is double buffering as the cost model supposes it. Partial sums that come back
wait until the outputs of the tile before were taken in (PEs') or stored (DRAM's): the unit that takes them in
says so to the one that brings them.

Code follows the steps of the loops outside the PEs (``odometer.py``). What a unit does in a step depends on
two things. ``loop``, the loop that advances (-1 in the first step), says which tensors move. ``fresh`` says
whether the step comes to outputs to which nothing was added before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import prod

from costmodel.errors import InputError
from costmodel.hardware.architecture import Architecture
from costmodel.hardware.pe_mesh import RECEIVING_SIDE, SENDING_SIDE, pe_mesh
from costmodel.hardware.widths import in_bytes
from costmodel.mapping.counts.traffic import nest_of
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import Mapping
from costmodel.schedule.pe_mesh.moves import TensorMoves, moves_of
from costmodel.schedule.pe_mesh.odometer import Code, Step, code_of
from costmodel.schedule.program.program import Instruction, LayerNest, Message, Operation, Program, Work
from costmodel.workload.network import Layer

LINK_BYTES_PER_CYCLE = 8
"""Simba's flits, and CoSA's: 64 bits a cycle."""
UNLIMITED = 1 << 20
"""Bytes a cycle of a DRAM without a bandwidth: more than any tile has."""
NOTHING, STEP = 0, 1
"""Works: one that only waits, and one step of a PE."""
Position = tuple[int, int]
"""Column and row on the mesh: PEs begin at (1, 1), as the global buffer's units are at its sides."""
_Group = tuple[Position, ...]
"""PEs that get the same words in one message, or whose outputs are added up in one."""


def check_machine(architecture: Architecture, layer: Layer) -> None:
    """InputError where mappings of the layer on this architecture have no such program.

    The level below the outermost one is the global buffer, and its fan-out the mesh of PEs.
    """
    where = f"program of {layer.name} on {architecture.name}"
    if len(architecture.levels) < 3:
        expected = "DRAM, a global buffer whose fan-out is the mesh of PEs, and levels inside the PEs"
        raise InputError(where, expected, f"{len(architecture.levels)} levels")
    for key in ("timing", "precision"):
        if getattr(architecture, key) is not None:
            raise InputError(where, f"an architecture without {key}: the program counts words", key)
    if architecture.levels[-1].fanout > 1:
        dram = architecture.levels[-1]
        raise InputError(where, "one global buffer", f"{dram.fanout} below {dram.name}")
    for tensor in layer.tensors:
        steps = [step for of_dim in tensor.steps.values() for step in of_dim]
        if tensor.is_output and (tensor.slides or max(steps, default=1) > 1):
            raise InputError(where, "outputs that neither overlap nor have holes", tensor.name)
    _dram_rates(architecture)


def _dram_rates(architecture: Architecture) -> tuple[int, int | None]:
    """DRAM's bytes a cycle of reads and of writes; None: both share the first."""
    dram = architecture.levels[-1]
    if dram.shared_bandwidth is None:
        return _bytes(architecture, dram.read_bandwidth), _bytes(architecture, dram.write_bandwidth)
    for rate in (dram.read_bandwidth, dram.write_bandwidth):
        if rate is not None and rate < dram.shared_bandwidth:
            where = f"program on {architecture.name}"
            expected = f"no bandwidth of {dram.name}'s reads or writes below the one they share"
            raise InputError(where, expected, rate)
    return _bytes(architecture, dram.shared_bandwidth), None


def _bytes(architecture: Architecture, words: float | None) -> int:
    """So many words of DRAM a cycle, in bytes."""
    if words is None:
        return UNLIMITED
    dram = architecture.levels[-1]
    found = words * dram.word_bits / 8
    if found != int(found) or found < 1:
        where, expected = f"program on {architecture.name}", "a whole number of bytes a cycle"
        raise InputError(where, expected, found, key=f"{dram.name}'s bandwidth")
    return int(found)


@dataclass(frozen=True)
class MeshLayer:
    """A mapping of a layer on an architecture; InputError for what has no program, see
    :func:`check_machine`."""

    architecture: Architecture
    layer: Layer
    mapping: Mapping

    def __post_init__(self) -> None:
        check_machine(self.architecture, self.layer)
        if not isinstance(self.mapping, Mapping):
            where = f"program of {self.layer.name} on {self.architecture.name}"
            raise InputError(where, "a mapping whose levels keep all tensors alike", "an uneven one")

    @cached_property
    def bounds(self) -> tuple[int, ...]:
        """Of the loops over steps, innermost first."""
        return tuple(loop.bound for block in nest_of(self.mapping).temporal[-2:] for loop in block)

    @cached_property
    def moves(self) -> tuple[TensorMoves, ...]:
        bits = [level.word_bits for level in self.architecture.levels]
        return tuple(moves_of(tensor, self.mapping, bits) for tensor in self.layer.tensors)

    @property
    def pes(self) -> list[Position]:
        """(column, row) of the PEs in use."""
        return sorted(pe for group in self.moves[0].groups for pe in group)

    @property
    def step_cycles(self) -> int:
        """Cycles of one step of a PE: those of its MACs, or of a level inside it whose bandwidth is less."""
        found = evaluate(self.architecture, self.layer, self.mapping)
        inside = [level.cycles for level in found.levels[:-2]]
        return -(-max(found.compute_cycles, *inside) // prod(self.bounds))


def mesh_program(
    architecture: Architecture,
    layer: Layer,
    mapping: Mapping,
    link_bytes_per_cycle: int = LINK_BYTES_PER_CYCLE,
) -> Program:
    """The program of a mapping without violations; each link of the mesh carries so many bytes a cycle.

    Raises InputError for what has no such program, see :func:`check_machine`.
    """
    return _Writer(MeshLayer(architecture, layer, mapping)).program(link_bytes_per_cycle)


class _Writer:
    """A program while it is written. Units are added one by one; a unit's number is that of its tile.

    ``positions``: of the units. ``code``: by unit. ``numbers``: of the messages that there are; equal
    messages of different steps are one.
    """

    def __init__(self, of: MeshLayer) -> None:
        self.of = of
        self.positions: list[Position] = []
        self.code: dict[int, Code] = {}
        self.messages: list[Message] = []
        self.numbers: dict[Message, int] = {}
        self.addresses: dict[int, dict[int, int]] = {}
        """For each unit and message its address, in bits."""
        self.filled: dict[int, int] = {}
        """Bits of each unit that have addresses."""
        self.pe = {pe: self.unit((pe[0] + 1, pe[1] + 1)) for pe in of.pes}

    def program(self, link_bytes_per_cycle: int) -> Program:
        of = self.of
        (outputs,) = (one for one in of.moves if one.tensor.is_output)
        # ``taken``: what brings a PE the data of a step: all operands, and partial sums if any come back.
        receivers = {one.tensor.name: _Incoming(self, one) for one in of.moves if not one.tensor.is_output}
        taken = list(receivers.values())
        sums = _PartialSums(self, outputs)
        if sums.wanted:
            taken.append(sums)
        outgoing = _Outgoing(self, outputs, sums)
        for one in taken:
            one.write()
        outgoing.write()
        # A PE hands over outputs when the loops come to others, and before it takes anything for these.
        for pe, number in self.pe.items():

            def step(loop: int, fresh: bool, pe: Position = pe, number: int = number) -> Code:
                found: list[Instruction] = []
                if loop >= 0 and outputs.to_pe.words(loop):
                    found.append(Instruction("send", outgoing.from_pe(pe)))
                data = [message for one in taken if (message := one.at_pe(pe, loop, fresh)) >= 0]
                found += [self.take(number, message) for message in data]
                found.append(Instruction("compute", work=STEP, reads=tuple(data)))
                return (*found, *(Instruction("free", message) for message in data))

            last = (Instruction("send", outgoing.from_pe(pe)),)
            self.code[number] = self.steps(step, outputs, last)
        buffer = max(self.filled.values()) // 8 + 1
        mesh = pe_mesh(
            f"{of.architecture.name} mesh",
            (of.architecture.levels[-2].fanout_x + 1, of.architecture.levels[-2].fanout_y + 1),
            tuple(self.positions),
            link_bytes_per_cycle,
            _dram_rates(of.architecture),
            buffer,
        )
        # All steps of all PEs are alike: a work is a number of MACs, and its box only names the layer.
        dims = of.layer.dims
        box = tuple((0, size) for _, size in dims)
        macs = of.layer.macs // (prod(of.bounds) * len(self.pe))
        works = (Work(of.layer.name, box, 0, 0), Work(of.layer.name, box, of.step_cycles, macs))
        tiles = tuple(self.code[number] for number in range(len(self.positions)))
        nests = (LayerNest(of.layer.name, dims),)
        return Program(of.layer.name, 1, mesh, tuple(self.messages), works, tiles, 0, nests)

    def unit(self, position: Position) -> int:
        """A new unit at (column, row)."""
        self.positions.append(position)
        return len(self.positions) - 1

    def steps(self, step: Step, moves: TensorMoves, last: Code = ()) -> Code:
        """The code of a unit that does ``step`` in every step, and then what comes ``last``."""
        return code_of(self.of.bounds, moves.begins_anew, step, last)

    def message(self, name: str, bits: int, sources: tuple[int, ...], targets: tuple[int, ...]) -> int:
        """The number of a message of so many bits."""
        message = Message(name, ((0, bits),), in_bytes(bits), sources, targets)
        if message not in self.numbers:
            self.numbers[message] = len(self.messages)
            self.messages.append(message)
        return self.numbers[message]

    def take(self, unit: int, message: int) -> Instruction:
        """The load or receive of a message: without sources it comes from DRAM.

        Each message of a unit has an address of its own, at which it comes again and again.
        """
        addresses = self.addresses.setdefault(unit, {})
        if message not in addresses:
            addresses[message] = self.filled.get(unit, 0)
            self.filled[unit] = addresses[message] + int(8 * self.messages[message].size_bytes)
        operation: Operation = "receive" if self.messages[message].sources else "load"
        return Instruction(operation, message, in_bytes(addresses[message]))

    def taken(self, unit: int, messages: tuple[int, ...], then: Code = ()) -> Code:
        """Take messages, wait until they are there, do what comes ``then``, and give the bytes back."""
        return (
            *(self.take(unit, message) for message in messages),
            Instruction("compute", work=NOTHING, reads=messages),
            *then,
            *(Instruction("free", message) for message in messages),
        )


HANDED_OVER = Instruction("compute", work=NOTHING)
"""Waits until what was sent or stored has left."""


class _Incoming:
    """The units that bring a tensor to the PEs, with the messages between them."""

    def __init__(self, writer: _Writer, moves: TensorMoves) -> None:
        self.writer, self.moves, self.name = writer, moves, moves.tensor.name
        if not self.wanted:
            return
        if not self.streams:
            self.loader, self.sender = writer.unit(SENDING_SIDE), writer.unit(SENDING_SIDE)
        self.receivers = {pe: writer.unit((pe[0] + 1, pe[1] + 1)) for group in moves.groups for pe in group}

    @property
    def wanted(self) -> bool:
        return True

    @property
    def streams(self) -> bool:
        """Whether PEs get the data from DRAM; its words have to be as wide at DRAM as on the mesh."""
        moves = self.moves
        same = moves.pe_bits == moves.dram_bits
        return moves.to_buffer is None and not moves.tensor.is_output and same

    def to_pe(self, loop: int, fresh: bool) -> int:
        """Words that a PE gets when ``loop`` advances."""
        return self.moves.to_pe.words(loop)

    def from_dram(self, loop: int, fresh: bool) -> int:
        """Words that DRAM sends when ``loop`` advances."""
        return self.moves.from_dram.words(loop)

    def at_pe(self, pe: Position, loop: int, fresh: bool) -> int:
        """The message with which a PE gets its words when ``loop`` advances; -1: none comes."""
        words, own = self.to_pe(loop, fresh), self.receivers[pe]
        if not words:
            return -1
        bits = words * self.moves.pe_bits
        return self.writer.message(self.name, bits, (own,), (self.writer.pe[pe],))

    def write(self) -> None:
        """The code of all units but the PEs."""
        units = () if self.streams else ((self.loader, self._load), (self.sender, self._send))
        for number, code in units:
            # what left with the last step but one, and with the last one
            self.writer.code[number] = self.writer.steps(code, self.moves, 2 * self._said(number))
        for group in self.moves.groups:
            for pe in group:

                def step(loop: int, fresh: bool, pe: Position = pe, group: _Group = group) -> Code:
                    return self._receive(pe, group, loop, fresh)

                self.writer.code[self.receivers[pe]] = self.writer.steps(step, self.moves)

    def _load(self, loop: int, fresh: bool) -> Code:
        """The loader's step: take a tile from DRAM once the sender has the one before, and hand it over."""
        words = self.from_dram(loop, fresh)
        if not words:
            return ()
        bits = words * self.moves.dram_bits
        loaded = self.writer.message(self.name, bits, (), (self.loader,))
        handed = Instruction("send", self._handed(loop, fresh))
        return HANDED_OVER, *self.writer.taken(self.loader, (loaded,), (handed,))

    def _handed(self, loop: int, fresh: bool) -> int:
        bits = self.from_dram(loop, fresh) * self.moves.dram_bits
        return self.writer.message(self.name, bits, (self.loader,), (self.sender,))

    def _send(self, loop: int, fresh: bool) -> Code:
        """The sender's step: take a tile if a new one comes, and send PEs their parts of the one it has."""
        sent: list[Instruction] = []
        if self.to_pe(loop, fresh):
            sent = [Instruction("send", self._sent(group, loop, fresh)) for group in self.moves.groups]
        if self.from_dram(loop, fresh):
            handed = (self._handed(loop, fresh),)
            return HANDED_OVER, *self.writer.taken(self.sender, handed, tuple(sent))
        return (HANDED_OVER, *sent) if sent else ()

    def _sent(self, group: _Group, loop: int, fresh: bool) -> int:
        bits = self.to_pe(loop, fresh) * self.moves.pe_bits
        targets = tuple(self.receivers[pe] for pe in group)
        return self.writer.message(self.name, bits, () if self.streams else (self.sender,), targets)

    def _receive(self, pe: Position, group: _Group, loop: int, fresh: bool) -> Code:
        """The receiver's step: take what is sent to its PE's group, and hand it to the PE."""
        if not self.to_pe(loop, fresh):
            return ()
        handed = Instruction("send", self.at_pe(pe, loop, fresh))
        sent = (self._sent(group, loop, fresh),)
        return HANDED_OVER, *self.writer.taken(self.receivers[pe], sent, (handed,))

    def _said(self, unit: int) -> Code:
        """What a unit does to hear of outputs that left; nothing, for data that never left."""
        return ()


class _PartialSums(_Incoming):
    """The units that bring partial sums back to the PEs.

    When outputs leave the PEs, the sender waits until those that left before have been taken in, and the
    loader until those that left the buffer before are in DRAM. The message that says so comes once more than
    outputs leave: once at the beginning, when there is nothing to wait for. ``collector``, ``storer``:
    the units that say so.
    """

    collector = storer = -1

    @property
    def wanted(self) -> bool:
        return self._comes_back(self.to_pe)

    @property
    def after_taken_in(self) -> bool:
        """Whether the global buffer brings sums back that PEs sent it."""
        return self.wanted and self.moves.to_buffer is not None

    @property
    def after_stored(self) -> bool:
        """Whether DRAM brings sums back."""
        return self.wanted and self._comes_back(self.from_dram)

    def _comes_back(self, words: Callable[[int, bool], int]) -> bool:
        """Whether any step brings words. Only the kinds of steps that occur are asked."""
        # A step to new outputs advances a loop that begins them anew; a step to old ones advances any loop,
        # if that loop or one outside does not begin anew.
        anew = self.moves.begins_anew
        steps = [(-1, True), *((loop, True) for loop, new in enumerate(anew) if new)]
        steps += [(loop, False) for loop in range(len(anew)) if not all(anew[loop:])]
        return any(words(loop, fresh) for loop, fresh in steps)

    def to_pe(self, loop: int, fresh: bool) -> int:
        return self.moves.to_pe.brought_back(loop, fresh)

    def from_dram(self, loop: int, fresh: bool) -> int:
        return self.moves.from_dram.brought_back(loop, fresh)

    def taken_in(self, collector: int) -> int:
        """The message that outputs were taken in."""
        return self.writer.message("outputs taken in", 1, (collector,), (self.sender,))

    def stored(self, storer: int) -> int:
        """The message that outputs were stored."""
        return self.writer.message("outputs stored", 1, (storer,), (self.loader,))

    def _load(self, loop: int, fresh: bool) -> Code:
        wait: Code = ()
        if self.after_stored and loop >= 0 and self.moves.from_dram.words(loop):
            wait = self._said(self.loader)
        return *wait, *super()._load(loop, fresh)

    def _send(self, loop: int, fresh: bool) -> Code:
        wait: Code = ()
        if self.after_taken_in and loop >= 0 and self.moves.to_pe.words(loop):
            wait = self._said(self.sender)
        return *wait, *super()._send(loop, fresh)

    def _said(self, unit: int) -> Code:
        if unit == self.sender and self.after_taken_in:
            return self.writer.taken(unit, (self.taken_in(self.collector),))
        if unit == self.loader and self.after_stored:
            return self.writer.taken(unit, (self.stored(self.storer),))
        return ()


class _Outgoing:
    """The units that take outputs from the PEs to the global buffer and to DRAM."""

    def __init__(self, writer: _Writer, moves: TensorMoves, sums: _PartialSums) -> None:
        self.writer, self.moves, self.sums, self.name = writer, moves, sums, moves.tensor.name
        self.forwarders = {pe: writer.unit((pe[0] + 1, pe[1] + 1)) for group in moves.groups for pe in group}
        self.collector, self.storer = writer.unit(RECEIVING_SIDE), writer.unit(RECEIVING_SIDE)
        sums.collector, sums.storer = self.collector, self.storer

    def from_pe(self, pe: Position) -> int:
        """The message with which a PE hands over outputs."""
        bits = self.moves.to_pe.first * self.moves.pe_bits
        return self.writer.message(self.name, bits, (self.writer.pe[pe],), (self.forwarders[pe],))

    def write(self) -> None:
        """The code of all units but the PEs; what a step brings leaves when the next one comes."""
        for group in self.moves.groups:
            for pe in group:
                own, sent = self.forwarders[pe], Instruction("send", self._sent(group))
                once = (HANDED_OVER, *self.writer.taken(own, (self.from_pe(pe),), (sent,)))
                self._at_leaving(own, once, once, ())
        taken_in: Code = ()
        if self.sums.after_taken_in:
            taken_in = (Instruction("send", self.sums.taken_in(self.collector)),)
        arriving = tuple(self._sent(group) for group in self.moves.groups)
        collected = self.writer.taken(self.collector, arriving, taken_in)
        first = (HANDED_OVER, *taken_in) if taken_in else ()
        handed = (HANDED_OVER, Instruction("send", self._handed))
        self._at_leaving(self.collector, collected, (*collected, *handed), first)
        done: Code = ()
        if self.sums.after_stored:
            done = (Instruction("send", self.sums.stored(self.storer)),)
        stored = (
            *self.writer.taken(self.storer, (self._handed,), (Instruction("store", self._stored),)),
            HANDED_OVER,
            *done,
        )
        first = (HANDED_OVER, *done) if done else ()
        self._at_leaving(self.storer, (), stored, first)

    def _at_leaving(self, unit: int, from_pes: Code, from_buffer: Code, first: Code) -> None:
        """Code of a unit: ``first``, and what it does when outputs leave the PEs, or the buffer as well."""

        def step(loop: int, fresh: bool) -> Code:
            if loop < 0:
                return first
            if self.moves.from_dram.words(loop):
                return from_buffer
            return from_pes if self.moves.to_pe.words(loop) else ()

        self.writer.code[unit] = self.writer.steps(step, self.moves, from_buffer)

    def _sent(self, group: _Group) -> int:
        bits = self.moves.to_pe.first * self.moves.pe_bits
        sources = tuple(self.forwarders[pe] for pe in group)
        return self.writer.message(self.name, bits, sources, (self.collector,))

    @property
    def _handed(self) -> int:
        bits = self.moves.from_dram.first * self.moves.dram_bits
        return self.writer.message(self.name, bits, (self.collector,), (self.storer,))

    @property
    def _stored(self) -> int:
        bits = self.moves.from_dram.first * self.moves.dram_bits
        return self.writer.message(self.name, bits, (self.storer,), ())
