"""A chain of einsums over levels of memory: what is to be mapped together."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from costmodel.errors import InputError

WHERE = "fusion problem"

AxisTerms = tuple[tuple[str, int], ...]
"""An axis of a tensor: its index is the sum of these dims times these coefficients."""


@dataclass(frozen=True)
class Einsum:
    """One nest: a point of its iteration space reads one word of every operand and updates one of the output.

    ``dims`` has the length of every dim, ``tensors`` the axes of every tensor, operands and output alike.
    """

    name: str
    dims: ReadOnlyDict[str, int]
    tensors: ReadOnlyDict[str, tuple[AxisTerms, ...]]
    output: str

    def __post_init__(self) -> None:
        where = f"{WHERE}: einsum {self.name}"
        if self.output not in self.tensors:
            raise InputError(where, f"one of {', '.join(self.tensors)}", self.output, key="output")
        for tensor, axes in self.tensors.items():
            used = [dim for axis in axes for dim, _ in axis]
            if unknown := [dim for dim in used if dim not in self.dims]:
                expected = f"dims among {', '.join(self.dims)}"
                raise InputError(where, expected, unknown[0], key=f"tensors.{tensor}")
            # Footprints are products over axes, which holds only if axes move apart from one another. A
            # diagonal, the index [i, i], takes i words and would be counted as i * i.
            if len(set(used)) < len(used):
                raise InputError(where, "every dim once in a tensor", used, key=f"tensors.{tensor}")

    @property
    def operands(self) -> tuple[str, ...]:
        """The tensors that are read, without the output."""
        return tuple(name for name in self.tensors if name != self.output)

    @cached_property
    def operations(self) -> int:
        """Points of the iteration space."""
        return prod(self.dims.values())

    def dims_of(self, tensor: str) -> frozenset[str]:
        """The dims that a tensor's index depends on."""
        return frozenset(dim for axis in self.tensors[tensor] for dim, _ in axis)


@dataclass(frozen=True)
class FusedLevel:
    """A memory: words it holds (None: any number), pJ a word, words a cycle (None: no limit)."""

    name: str
    capacity: int | None
    read_pj: float
    write_pj: float
    read_bw: float | None = None
    write_bw: float | None = None


@dataclass(frozen=True)
class Halo:
    """A consumer's dim whose shared loop cuts the producer's ``dim``: the rows that its windows cover.

    ``axis`` is the consumer's axis of the intermediate, such as ``(("p", 1), ("r", 1))``: an iteration over p
    needs rows p to p + r - 1, of which the producer makes those that no earlier iteration of the loop made.
    """

    dim: str
    axis: AxisTerms


@dataclass(frozen=True)
class FusedProblem:
    """A chain: the output of every einsum but the last is an operand of the next one, its *intermediate*.

    ``levels`` go from the inside outwards; the last one holds every tensor that leaves the chip. There is one
    instance of every memory and one operation a cycle. ``halo`` has the windows, by the consumer's dim.
    Raises InputError for a chain that is none.
    """

    einsums: tuple[Einsum, ...]
    levels: tuple[FusedLevel, ...]
    mac_pj: float
    halo: ReadOnlyDict[str, Halo] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.einsums:
            raise InputError(WHERE, "at least one einsum", "none", key="einsums")
        names = [einsum.name for einsum in self.einsums]
        if len(set(names)) < len(names):
            raise InputError(WHERE, "einsums of different names", names, key="einsums")
        if len(self.levels) < 2:
            expected = "at least one level on the chip and the memory outside"
            raise InputError(WHERE, expected, f"{len(self.levels)} levels", key="levels")
        # An intermediate that no level on the chip keeps goes there, whatever its size, so a mapping without
        # shared loops always exists.
        if self.levels[-1].capacity is not None:
            expected = "null for the outermost level, which holds every tensor"
            raise InputError(WHERE, expected, self.levels[-1].capacity, key="levels.capacity")
        self._check_chain()
        for dim, halo in self.halo.items():
            self._check_halo(dim, halo)

    def _check_chain(self) -> None:
        made: set[str] = set()
        for producer, consumer in zip(self.einsums, self.einsums[1:], strict=False):
            tensor = producer.output
            if tensor not in consumer.operands:
                expected = f"{tensor}, the output of {producer.name}, among the operands"
                raise InputError(f"{WHERE}: einsum {consumer.name}", expected, list(consumer.operands))
            _check_axes(producer, consumer, tensor)
            for dim in producer.dims_of(tensor) & consumer.dims_of(tensor):
                if producer.dims[dim] != consumer.dims[dim]:
                    expected = f"{dim}={producer.dims[dim]} as in {producer.name}"
                    found = consumer.dims[dim]
                    raise InputError(f"{WHERE}: einsum {consumer.name}", expected, found, key="dims")
        for position, einsum in enumerate(self.einsums):
            if einsum.output in made or einsum.output in (
                name for other in self.einsums[: position + 1] for name in other.operands
            ):
                expected = "an output that no einsum has made or read before"
                raise InputError(f"{WHERE}: einsum {einsum.name}", expected, einsum.output, key="output")
            # A kept intermediate is given up when its consumer has run: a tree over a chain has no way to say
            # that it stays until a later einsum.
            later = [other for other in self.einsums[position + 2 :] if einsum.output in other.tensors]
            if later:
                expected = f"{einsum.output} to be read by the next einsum only"
                raise InputError(f"{WHERE}: einsum {later[0].name}", expected, einsum.output, key="tensors")
            made.add(einsum.output)

    def _check_halo(self, dim: str, halo: Halo) -> None:
        where, key = WHERE, f"halo.{dim}"
        for position, tensor in enumerate(self.intermediates):
            producer, consumer = self.einsums[position], self.einsums[position + 1]
            if halo.axis in consumer.tensors[tensor] and ((halo.dim, 1),) in producer.tensors[tensor]:
                terms = dict(halo.axis)
                if dim not in terms:
                    raise InputError(where, f"an axis with {dim}", list(halo.axis), key=key)
                rows = 1 + sum(times * (consumer.dims[name] - 1) for name, times in halo.axis)
                if producer.dims[halo.dim] != rows:
                    expected = f"{halo.dim}={rows}, the rows that the windows cover"
                    raise InputError(where, expected, producer.dims[halo.dim], key=key)
                # Rows of several windows are counted as one range, from the first row of the first window to
                # the last row of the last one. With gaps the range would have rows that nobody needs.
                if self.lead(dim) < 0 or any(
                    times != 1 for name, times in halo.axis if name != dim and consumer.dims[name] > 1
                ):
                    expected = "windows without gaps between their rows or between one another"
                    raise InputError(where, expected, list(halo.axis), key=key)
                return
        expected = "the axis of an intermediate, and the dim that is this axis of its producer"
        raise InputError(where, expected, [halo.dim, list(halo.axis)], key=key)

    @cached_property
    def intermediates(self) -> tuple[str, ...]:
        """The tensor between every two neighbours, in the chain's order."""
        return tuple(einsum.output for einsum in self.einsums[:-1])

    @property
    def outermost(self) -> int:
        """The number of the memory that holds every tensor."""
        return len(self.levels) - 1

    def consumer_of_halo(self, dim: str) -> Einsum:
        """The einsum whose windows slide along ``dim``."""
        halo = self.halo[dim]
        return next(
            consumer
            for tensor, consumer in zip(self.intermediates, self.einsums[1:], strict=True)
            if halo.axis in consumer.tensors[tensor]
        )

    def lead(self, dim: str) -> int:
        """Rows that the first window along ``dim`` has beyond its stride, and no later one adds.

        Negative where windows leave rows out between them.
        """
        halo, consumer = self.halo[dim], self.consumer_of_halo(dim)
        window = 1 + sum(times * (consumer.dims[name] - 1) for name, times in halo.axis if name != dim)
        return window - dict(halo.axis)[dim]


def _check_axes(producer: Einsum, consumer: Einsum, tensor: str) -> None:
    """InputError unless both sides index an intermediate alike; the consumer's windows may differ."""
    where, key = f"{WHERE}: einsum {consumer.name}", f"tensors.{tensor}"
    ours, theirs = producer.tensors[tensor], consumer.tensors[tensor]
    if len(ours) != len(theirs):
        raise InputError(where, f"{len(ours)} axes as in {producer.name}", len(theirs), key=key)
    for made, read in zip(ours, theirs, strict=True):
        # Neighbours share a loop by the name of its dim. Where the names differ, a loop that cuts the
        # producer's axis would leave the consumer's whole. Sums of dims are windows and may differ: ``halo``
        # says how they follow the producer's rows.
        if made != read and len(made) == len(read) == 1:
            expected = f"the axis {list(made[0])} as in {producer.name}"
            raise InputError(where, expected, list(read[0]), key=key)
