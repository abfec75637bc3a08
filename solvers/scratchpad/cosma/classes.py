"""Classes of operators and tensors that are alike, and what is live when so many of each class have run.

Operators are sorted into classes, and tensors too, such that operators of a class r read equally many
tensors of every class and make as many, and tensors of a class are read by equally many operators of every
class. Heads of an attention are alike in this way; so are the queries of all groups of heads, and their
keys. Tensors of equal sizes are a *kind*, whatever reads them.

:mod:`.twins` finds branches of which two can be exchanged. Classes ask for less: queries of different groups
are alike, though no two of them can be exchanged without their groups.

Which of a class have run is not known, only how many, x(r). Let each operator of r read d tensors of a class
T, and each of these be read by k operators of r. Then x(r) operators of r have made x(r) d reads, at most k
of each tensor. So

- for another operator of r to run, its reads and those before, (x(r) + 1) d, are of at least
  (x(r) + 1) d / k tensors, all of which have been made;
- at most x(r) d / k tensors of T, rounded down, have had all their reads by r, and no more are dead;
- if at most m tensors of T are there, q reads of them were made, and each has p readers, then at most m p - q
  are live, since each of these has a read to come;
- of tensors that arrive at their first read, at least x(r) d / k have arrived, rounded up, and at most q.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from solvers.budget import InTime, always_in_time
from solvers.scratchpad.cosma.moves import State
from solvers.scratchpad.masks import GraphMasks, bits

Counts = tuple[int, ...]
"""How many operators of each class have run."""


class Kind(NamedTuple):
    """Tensors that take ``block`` bytes and move ``traffic``; ``on_host``: the host has copies anyway."""

    block: int
    traffic: int
    on_host: bool

    def price(self, away: int, copies: int, more: int) -> int:
        """Bytes to evict ``more`` tensors besides those away: retrievals, and spills of what has no copy."""
        spilled = 0 if self.on_host else max(0, away + more - copies)
        return self.traffic * (more + spilled)


@dataclass(frozen=True)
class TensorClass:
    """So many tensors (``number``) that are alike, of the kind of that index.

    ``maker`` is the class of the operators that make them, ``made`` each; None: they are ``present`` at the
    beginning, or arrive. ``reading`` has, per class of operators that read them, the tensors that one
    operator reads and the operators that read one tensor; ``reads`` is how many operators read a tensor.
    ``stays``: it is still read when all operators have run.
    """

    number: int
    kind: int
    maker: int | None
    made: int
    present: bool
    reading: dict[int, tuple[int, int]]
    reads: int
    stays: bool

    def there(self, ran: Counts) -> int:
        """At most so many have been made or have arrived."""
        if self.maker is not None:
            return ran[self.maker] * self.made
        return self.number if self.present else min(self.number, self._read(ran))

    def least_live(self, ran: Counts) -> int:
        """At least so many are live."""
        if not self.reading:
            return self.there(ran) if self.stays else 0
        there = self.there(ran)
        if self.maker is None and not self.present:
            there = max(-(-ran[r] * tensors // readers) for r, (tensors, readers) in self.reading.items())
        if self.stays:
            return there
        dead = min(ran[r] * tensors // readers for r, (tensors, readers) in self.reading.items())
        return max(0, there - dead)

    def most_live(self, ran: Counts, arriving: int = 0) -> int:
        """At most so many are live, with so many that arrive now."""
        there = min(self.number, self.there(ran) + arriving)
        if self.stays:
            return there
        return max(0, min(there, there * self.reads - self._read(ran)))

    def removable(self, ran: Counts, inputs: int) -> int:
        """At most so many are away in the step of an operator that reads ``inputs`` of them."""
        arrives = self.maker is None and not self.present
        return max(0, self.most_live(ran, inputs if arrives else 0) - inputs)

    def allows(self, ran: Counts, reader: int) -> bool:
        """Whether enough have been made for another operator of the class ``reader``."""
        tensors, readers = self.reading[reader]
        return self.maker is None or (ran[reader] + 1) * tensors <= self.there(ran) * readers

    def _read(self, ran: Counts) -> int:
        return sum(ran[r] * tensors for r, (tensors, _) in self.reading.items())


@dataclass(frozen=True)
class OperatorClass:
    """``members`` that each read so many tensors (second) of the classes of these indices (first).

    ``step_bytes`` is the least that a step takes besides the tensors that were live before.
    """

    members: tuple[int, ...]
    reads: tuple[tuple[int, int], ...]
    step_bytes: int


@dataclass(frozen=True)
class Classes:
    """The classes of a graph's operators and tensors, and the kinds."""

    operators: tuple[OperatorClass, ...]
    tensors: tuple[TensorClass, ...]
    kinds: tuple[Kind, ...]

    @classmethod
    def of(
        cls,
        masks: GraphMasks,
        state: State,
        operators: int,
        most: float = inf,
        in_time: InTime = always_in_time,
    ) -> Classes | None:
        """Those of ``operators`` (a set), which run from ``state`` on, in which all that is live is resident.

        None where these are more than ``most`` classes of operators, or not found in time.
        """
        alike = _Alike(masks, state, operators)
        if not alike.split(most, in_time):
            return None
        kinds = tuple(dict.fromkeys(look.kind for look in alike.looks.values()))
        of_operators = alike.operators
        tensors = tuple(_tensor_class(alike, of_operators, members, kinds) for members in alike.tensors)
        found = tuple(
            OperatorClass(
                tuple(members), tuple(sorted(alike.read(members[0]).items())), _step_bytes(masks, members[0])
            )
            for members in of_operators
        )
        return cls(found, tensors, kinds)


def _tensor_class(
    alike: _Alike, operators: list[list[int]], members: list[int], kinds: tuple[Kind, ...]
) -> TensorClass:
    first = members[0]
    look, own, maker = alike.looks[first], alike.class_of[first], alike.maker(first)
    readers = alike.readers(first)
    return TensorClass(
        number=len(members),
        kind=kinds.index(look.kind),
        maker=maker,
        made=0 if maker is None else alike.made(operators[maker][0])[own],
        present=look.present,
        reading={
            reader: (alike.read(operators[reader][0])[own], number) for reader, number in readers.items()
        },
        reads=sum(readers.values()),
        stays=look.stays,
    )


class _Look(NamedTuple):
    """What a tensor is by itself; ``present`` at the beginning, and whether it ``stays`` to the end."""

    kind: Kind
    present: bool
    stays: bool


class _Alike:
    """The coarsest classes in which all members read, make and are read alike.

    They begin with what operators and tensors are by themselves, and are split by their neighbours' classes
    for as long as that splits any.
    """

    def __init__(self, masks: GraphMasks, state: State, operators: int) -> None:
        self._nodes = {v: masks.graph.operators[v] for v in bits(operators)}
        touched = {tensor for node in self._nodes.values() for tensor in (*node.inputs, *node.outputs)}
        self._producers = masks.graph.producers
        self._consumers = {t: tuple(bits(masks.readers[t] & operators)) for t in sorted(touched)}
        later = ~(operators | state.executed)
        self.looks = {
            t: _Look(
                Kind(masks.blocks[t], masks.traffic[t], bool(masks.on_host >> t & 1)),
                bool(state.resident >> t & 1),
                bool(masks.readers[t] & later),
            )
            for t in self._consumers
        }
        self._operator_class = _numbered({v: _step_bytes(masks, v) for v in self._nodes})
        self.class_of = _numbered(self.looks)

    @property
    def operators(self) -> list[list[int]]:
        """The members of each class of operators."""
        return _members(self._operator_class)

    @property
    def tensors(self) -> list[list[int]]:
        """The members of each class of tensors."""
        return _members(self.class_of)

    def split(self, most: float, in_time: InTime) -> bool:
        """Split the classes until nothing splits any more; whether that ended in time with at most so many
        classes of operators, which only become more."""
        before = 0
        while (now := len({*self._operator_class.values()}) + len({*self.class_of.values()})) != before:
            if len({*self._operator_class.values()}) > most or not in_time():
                return False
            before = now
            sides = {
                v: (self._operator_class[v], _sorted(self.read(v)), _sorted(self.made(v)))
                for v in self._nodes
            }
            self._operator_class = _numbered(sides)
            looks = {t: (self.class_of[t], self.maker(t), _sorted(self.readers(t))) for t in self._consumers}
            self.class_of = _numbered(looks)
        return True

    def read(self, operator: int) -> Counter[int]:
        """How many tensors of which classes an operator reads."""
        return Counter(self.class_of[tensor] for tensor in self._nodes[operator].inputs)

    def made(self, operator: int) -> Counter[int]:
        """How many tensors of which classes it makes."""
        return Counter(self.class_of[tensor] for tensor in self._nodes[operator].outputs)

    def readers(self, tensor: int) -> Counter[int]:
        """How many operators of which classes read a tensor."""
        return Counter(self._operator_class[v] for v in self._consumers[tensor])

    def maker(self, tensor: int) -> int | None:
        """The class of the operator that makes a tensor, if that is one of those to run."""
        producer = self._producers[tensor]
        return None if producer is None else self._operator_class.get(producer)


def _numbered(looks: Mapping[int, Hashable]) -> dict[int, int]:
    """Members that look alike have the same number; numbers are in the order of their first members."""
    numbers: dict[Hashable, int] = {}
    return {member: numbers.setdefault(look, len(numbers)) for member, look in looks.items()}


def _members(numbers: dict[int, int]) -> list[list[int]]:
    found: dict[int, list[int]] = {}
    for member, number in numbers.items():
        found.setdefault(number, []).append(member)
    return [found[number] for number in range(len(found))]


def _sorted(counts: Counter[int]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(counts.items()))


def _step_bytes(masks: GraphMasks, operator: int) -> int:
    """The least that an operator's step takes besides its inputs: in place it may take less than it makes."""
    return masks.graph.working_bytes(masks.graph.operators[operator]) - masks.bytes_of(masks.inputs[operator])
