"""The listed designs of a study of architectures as columns, so that a hundred thousand take few megabytes.

A design is a choice on every axis. Its architecture has *parts*: each storage level, the MAC units, and the
rest (name, clock, timing, precision), which is one part. The axis ``SRAM.size`` changes the level SRAM and
nothing else; an axis without a level, such as ``frequency``, may change all parts. So a family of many
designs has few different parts. Each part is made once, by loading one design that has it. Areas, and which
designs are equal, are then computed for all designs together from arrays of part numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.hardware.precision import Precision
from costmodel.hardware.timing import Timing
from sweep.study.designs.design_space import COMPARISONS, Constraint, Design, DesignSpace
from sweep.study.search_choice import GridSearch, RandomSearch


class Machine(NamedTuple):
    """The part of an architecture that is neither a level nor the MAC units."""

    name: str
    frequency_hz: float
    timing: Timing | None
    precision: Precision | None


Part = StorageLevel | Compute | Machine
Numbers = NDArray[np.int64]

DESIGNS_AT_ONCE = 1 << 16
"""Designs whose columns are made together."""


class DesignParts:
    """The different parts of a family's architectures, numbered by position.

    Positions are the storage levels, innermost first, then the MAC units, then the :class:`Machine`.
    ``values[p]``: the different parts at position p, by their numbers. ``bare[p]``: for each of these parts
    its *bare* number. Parts that differ only in name, area or clock, which mappings do not see
    (:func:`sweep.tasks.mapping.bare`), have the same one.
    """

    def __init__(self, first: Architecture) -> None:
        self.names = tuple(level.name for level in first.levels)
        self._timed, self._precise = first.timing is not None, first.precision is not None
        self.values: list[list[Part]] = [[] for _ in range(len(first.levels) + 2)]
        self._numbers: list[dict[Part, int]] = [{} for _ in self.values]
        self.bare: list[list[int]] = [[] for _ in self.values]
        self._bare_numbers: list[dict[Part, int]] = [{} for _ in self.values]

    def numbers(self, architecture: Architecture) -> list[int]:
        """The number of each part of an architecture of the family; new parts are entered."""
        machine = Machine(
            architecture.name, architecture.frequency_hz, architecture.timing, architecture.precision
        )
        parts: tuple[Part, ...] = (*architecture.levels, architecture.compute, machine)
        assert len(parts) == len(self.values), "an axis changes levels, and adds none"
        return [self._number(position, part) for position, part in enumerate(parts)]

    def _number(self, position: int, part: Part) -> int:
        known = self._numbers[position]
        if part not in known:
            known[part] = len(known)
            self.values[position].append(part)
            bare = (
                part._replace(name="", frequency_hz=1.0)
                if isinstance(part, Machine)
                else replace(part, area_um2=0.0)
            )
            numbers = self._bare_numbers[position]
            self.bare[position].append(numbers.setdefault(bare, len(numbers)))
        return known[part]

    def architecture(self, numbers: Sequence[int]) -> Architecture:
        """The architecture with these parts."""
        return architecture_of([self.values[position][n] for position, n in enumerate(numbers)])

    def axes_of(self, position: int, keys: Sequence[str]) -> list[int]:
        """The axes, by position among ``keys``, that can change the part at a position."""
        own = self.names[position] if position < len(self.names) else "compute"
        if position == len(self.names) + 1:
            # timing is stated for the machine as its levels are, a precision's law as its MAC units are
            if self._timed or self._precise or any(key.split(".")[0] == "precision" for key in keys):
                return list(range(len(keys)))
            own = ""
        return [n for n, key in enumerate(keys) if "." not in key or key.split(".")[0] == own]


def architecture_of(parts: Sequence[Any]) -> Architecture:
    """The architecture of parts in the order of their positions."""
    *levels, compute, machine = parts
    return Architecture(
        machine.name, tuple(levels), compute, machine.frequency_hz, machine.timing, machine.precision
    )


@dataclass(frozen=True, eq=False)
class DesignTable:
    """Designs by row, with their choices and the parts that these make.

    ``choices`` [designs, axes]: the index of the chosen value; -1 on all axes for a baseline, which is the
    first row. ``parts_of`` [designs, positions]: the number of the part at each position.
    """

    space: DesignSpace
    parts: DesignParts
    choices: Numbers
    parts_of: Numbers
    trials: tuple[int | None, ...] | None = None
    """The number of the proposal of each design, where a sampler proposed them."""

    @staticmethod
    def of(space: DesignSpace, parts: DesignParts, designs: Sequence[Design]) -> DesignTable:
        """The table of these designs; their parts are entered among the known ones."""
        unvaried = [-1] * len(space.axes)
        choices = [unvaried if design.baseline else space.indices_of(design.values) for design in designs]
        return DesignTable(
            space,
            parts,
            np.array(choices, np.int64).reshape(len(designs), len(space.axes)),
            np.array([parts.numbers(design.architecture) for design in designs], np.int64),
            tuple(design.trial for design in designs),
        )

    def __len__(self) -> int:
        return len(self.choices)

    @cached_property
    def feasible(self) -> NDArray[np.bool_]:
        """[designs]: whether each meets all constraints."""
        met = np.ones(len(self), dtype=bool)
        for constraint in self.space.constraints:
            met &= self._holds(constraint)
        return met

    @cached_property
    def groups(self) -> Numbers:
        """[designs]: equal numbers for architectures that mappings cannot tell apart; -1 if not feasible.

        Numbers count from 0 in the order in which designs come.
        """
        return _numbered(self._bare, self.feasible)

    @property
    def group_count(self) -> int:
        return int(self.groups.max(initial=-1)) + 1

    @cached_property
    def _bare(self) -> Numbers:
        bare = [np.array(numbers, np.int64) for numbers in self.parts.bare]
        return np.stack([of[self.parts_of[:, p]] for p, of in enumerate(bare)], axis=1)

    @cached_property
    def by_group(self) -> tuple[Numbers, Numbers]:
        """The rows of all feasible designs, ordered by group, and where each group begins [groups + 1]."""
        order = np.argsort(self.groups, kind="stable")[np.count_nonzero(self.groups < 0) :]
        begins = np.searchsorted(self.groups[order], np.arange(self.group_count + 1))
        return order, begins

    def values(self, row: int) -> tuple[tuple[str, Any], ...]:
        """The key of each axis with the value that the design chose."""
        return values_of(self.space, self.choices[row].tolist())

    def design(self, row: int) -> Design:
        """The design in a row, as :func:`sweep.search.search.designs` lists it."""
        architecture = self.parts.architecture(self.parts_of[row].tolist())
        return Design(
            self.values(row),
            architecture,
            self.space.broken_by(architecture),
            trial=self.trials[row] if self.trials else None,
            baseline=bool((self.choices[row] < 0).any()),
        )

    def one_of_each(self, marks: Callable[[Part], Any]) -> Iterator[Architecture]:
        """One architecture for each different combination of the parts' marks.

        Of the designs with equal marks the last one gives the architecture.
        """
        columns = []
        for position, values in enumerate(self.parts.values):
            seen: dict[Any, int] = {}
            numbers = np.array([seen.setdefault(marks(part), len(seen)) for part in values])
            columns.append(numbers[self.parts_of[:, position]])
        _, back = np.unique(np.stack(columns, axis=1)[::-1], axis=0, return_index=True)
        for row in sorted((len(self) - 1 - back).tolist()):
            yield self.parts.architecture(self.parts_of[row].tolist())

    def _holds(self, constraint: Constraint) -> NDArray[np.bool_]:
        quantity: Callable[[], NDArray[np.float64]] = {
            "area_um2": lambda: self.area_um2,
            "mac_units": lambda: self._instances()[1],
            "on_chip_bits": self._on_chip_bits,
            "tiles": lambda: np.ones(len(self)),
        }[constraint.quantity]
        # The operators take arrays as well as numbers.
        compare: Callable[[Any, float], Any] = COMPARISONS[constraint.comparison]
        return np.asarray(compare(quantity(), constraint.limit), dtype=bool)

    def _column(self, position: int, number: Callable[[Any], float]) -> NDArray[np.float64]:
        """A number of each design's part at a position."""
        of = np.array([float(number(part)) for part in self.parts.values[position]])
        return of[self.parts_of[:, position]]

    def _instances(self) -> tuple[list[NDArray[np.float64]], NDArray[np.float64]]:
        """Instances of each level, innermost first, and of MAC units; whole numbers up to 2^53 are exact."""
        count = np.ones(len(self))
        instances: list[NDArray[np.float64]] = []
        for position in reversed(range(len(self.parts.names))):
            instances.insert(0, count)
            count = count * self._column(position, lambda level: level.fanout)
        return instances, count

    @cached_property
    def frequency_hz(self) -> NDArray[np.float64]:
        """The clock of each design."""
        return self._column(len(self.parts.names) + 1, lambda machine: machine.frequency_hz)

    @cached_property
    def area_um2(self) -> NDArray[np.float64]:
        """As :attr:`Architecture.area_um2`, in the same order of additions: rounding is the same."""
        instances, macs = self._instances()
        area = np.zeros(len(self))
        for position, count in enumerate(instances):
            area = area + count * self._column(position, lambda level: level.area_um2)
        return area + macs * self._column(len(instances), lambda compute: compute.area_um2)

    def _on_chip_bits(self) -> NDArray[np.float64]:
        """As :func:`sweep.study.designs.hardware.on_chip_bits`."""
        bits = np.zeros(len(self))
        instances, _ = self._instances()
        for position, count in enumerate(instances[:-1]):
            words = self._column(
                position, lambda level: inf if level.size_words is None else level.size_words
            )
            bits = bits + count * words * self._column(position, lambda level: level.word_bits)
        return bits


def values_of(space: DesignSpace, choices: Sequence[int]) -> tuple[tuple[str, Any], ...]:
    """The values with these indices on the axes; those of the baseline where the indices are -1."""
    if any(index < 0 for index in choices):
        assert space.baseline is not None
        return tuple(space.baseline.items())
    return tuple((axis.key, axis.choices[index]) for axis, index in zip(space.axes, choices, strict=True))


def _numbered(rows: Numbers, counted: NDArray[np.bool_]) -> Numbers:
    """[rows]: equal numbers for equal rows, from 0 in the order in which they come; -1 where not counted."""
    numbers = np.full(len(rows), -1, dtype=np.int64)
    if counted.any():
        _, first, inverse = np.unique(rows[counted], axis=0, return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        numbers[counted] = rank[inverse.reshape(-1)]
    return numbers


def design_tables(space: DesignSpace, search: GridSearch | RandomSearch) -> Iterator[DesignTable]:
    """Growing tables of the designs that a search lists; each has DESIGNS_AT_ONCE more than the one before.

    The last table has all designs. InputError for a design that cannot be made.
    """
    baseline = space.baseline_design()
    maker: _Maker | None = None
    for choices in _points(space, search):
        if maker is None:
            first = baseline.architecture if baseline else _loaded(space, choices[0])
            maker = _Maker(space, DesignParts(first))
            if baseline is not None:
                maker.begin_with(baseline)
        maker.add(choices)
        yield maker.table()


class _Maker:
    """Makes a table of designs, some at a time."""

    def __init__(self, space: DesignSpace, parts: DesignParts) -> None:
        self._space, self._parts = space, parts
        self._known: list[dict[tuple[int, ...], int]] = [{} for _ in parts.values]
        """By position: the number of the part by the choices on the axes that can change it."""
        keys = [axis.key for axis in space.axes]
        self._axes = [parts.axes_of(position, keys) for position in range(len(parts.values))]
        self._choices: list[Numbers] = []
        self._parts_of: list[Numbers] = []
        self._baseline: list[int] | None = None

    def begin_with(self, baseline: Design) -> None:
        """Make the baseline the first design; :meth:`add` leaves out designs that equal it."""
        self._baseline = self._parts.numbers(baseline.architecture)
        self._choices.append(np.full((1, len(self._space.axes)), -1, dtype=np.int64))
        self._parts_of.append(np.array([self._baseline], dtype=np.int64))

    def add(self, choices: Numbers) -> None:
        """Add designs, given as numbers [designs, axes] of choices; the baseline among them is left out.

        Parts of the hardware depend on few axes each, so each different combination of these is loaded once.
        """
        different = [
            np.unique(choices[:, axes], axis=0, return_index=True, return_inverse=True) for axes in self._axes
        ]
        self._load(choices, different)
        columns = [
            np.array([known[tuple(row)] for row in rows.tolist()])[inverse.reshape(-1)]
            for known, (rows, _, inverse) in zip(self._known, different, strict=True)
        ]
        parts_of = np.stack(columns, axis=1)
        if self._baseline is not None:
            others = (parts_of != np.array(self._baseline)).any(axis=1)
            for position, axis in enumerate(self._space.axes):
                if axis.of_phases:  # what is asked of the same hardware makes another design, too
                    assert self._space.baseline is not None
                    others |= choices[:, position] != axis.index_of(self._space.baseline[axis.key])
            choices, parts_of = choices[others], parts_of[others]
        self._choices.append(choices)
        self._parts_of.append(parts_of)

    def _load(self, choices: Numbers, different: Sequence[tuple[Any, Any, Any]]) -> None:
        """Load designs until every part that these choices make is known; each adds at least one part."""
        for known, (rows, first, _) in zip(self._known, different, strict=True):
            for row, design in zip(rows.tolist(), first.tolist(), strict=True):
                if tuple(row) not in known:
                    self._enter(choices[design])

    def _enter(self, choices: Numbers) -> None:
        numbers = self._parts.numbers(_loaded(self._space, choices))
        for known, axes, number in zip(self._known, self._axes, numbers, strict=True):
            known[tuple(choices[axes].tolist())] = number

    def table(self) -> DesignTable:
        return DesignTable(
            self._space, self._parts, np.concatenate(self._choices), np.concatenate(self._parts_of)
        )


def _loaded(space: DesignSpace, choices: Numbers) -> Architecture:
    return space.design(choices.tolist()).architecture


def _points(space: DesignSpace, search: GridSearch | RandomSearch) -> Iterator[Numbers]:
    """The indices of the designs that a search lists, DESIGNS_AT_ONCE at a time."""
    flats: Sequence[int] = range(space.size)
    total = space.size  # a range of more than 2^63 numbers has no length
    if isinstance(search, RandomSearch):
        flats = space.drawn(search.samples, search.seed)
        total = len(flats)
    for start in range(0, total, DESIGNS_AT_ONCE):
        points = [space.indices(flat) for flat in flats[start : start + DESIGNS_AT_ONCE]]
        yield np.array(points, dtype=np.int64).reshape(len(points), len(space.axes))
