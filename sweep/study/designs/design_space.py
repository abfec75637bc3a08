"""The design space: axes that vary a base architecture, and constraints that a design must meet."""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from math import prod
from random import Random

from costmodel.errors import InputError, NotFoundError, OverrideError, did_you_mean
from costmodel.formats.architectures import load_architecture
from costmodel.formats.yaml.quantities import MOST
from costmodel.hardware.architecture import Architecture, StorageLevel
from costmodel.hardware.chip import Chip
from results.front.left_out import reason
from sweep.study.designs.axis import OF_PHASES, Axis, Choice
from sweep.study.designs.hardware import QUANTITIES, Hardware, Load, area_um2, mapped_on

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
PRICES = {
    "noc.link_bandwidth": ("noc.router_area", "router_area"),
    "dram.bandwidth": ("dram.interface_area", "dram_interface_area"),
    "tile.buffer.size": ("tile.buffer.area", "sram_area"),
    "tile.vector_units": ("tile.vector_area", "vector_area"),
}
"""For axes of a chip that change an area: the keys of chip file and technology that state that area."""
_CONSTRAINT = re.compile(r"\s*(\w+)\s*(<=|>=|<|>)\s*([-+.\deE_]+)\s*")


RESULTS = (
    "energy_pj",
    "cycles",
    "edp_pj_cycles",
    "latency_seconds",
    "watts",
    "seconds_per_token",
    "joules_per_token",
    "tokens_per_second",
    "time_to_first_token_seconds",
    "time_per_output_token_seconds",
    "off_chip_bytes",
    "off_chip_energy_pj",
    "dram_bytes",
    "noc_hop_bytes",
)
"""The columns of a complete design that a study may constrain; they are known only after its solves."""


@dataclass(frozen=True)
class Constraint:
    """``quantity comparison limit``, of one of the QUANTITIES, which need no solve, or RESULTS."""

    quantity: str
    comparison: str
    limit: float

    @classmethod
    def parse(cls, text: str) -> Constraint:
        """The constraint that a study writes; InputError, without a file or key, for any other text."""
        match = _CONSTRAINT.fullmatch(text)
        known = (*QUANTITIES, *RESULTS)
        if match is None or match[1] not in known:
            expected = f"'QUANTITY <= NUMBER' with a quantity among {', '.join(known)} (or >=, <, >)"
            named = first[0] if (first := re.search(r"\w+", text)) else ""
            # Where the quantity is right, the error is in the rest, and no similar quantity is suggested.
            remedy = "" if named in known else did_you_mean(named, known)
            raise InputError("", expected, text, remedy)
        try:
            limit = float(match[3])
        except ValueError:
            raise InputError("", "a number after the comparison", text) from None
        if not abs(limit) <= MOST:
            raise InputError("", f"a number up to {MOST:g} after the comparison", text)
        return cls(match[1], match[2], limit)

    @property
    def of_results(self) -> bool:
        """Whether it is about a result, so that a design is judged by it after its solves."""
        return self.quantity in RESULTS

    def value(self, hardware: Hardware) -> float:
        """The quantity of this hardware; not of a constraint on results."""
        return float(QUANTITIES[self.quantity](hardware))

    def holds(self, hardware: Hardware) -> bool:
        """Whether this hardware meets it; not of a constraint on results."""
        return self.met_by(self.value(hardware))

    def excess(self, hardware: Hardware) -> float:
        """:meth:`excess_of` this hardware's quantity; not of a constraint on results."""
        return self.excess_of(self.value(hardware))

    def met_by(self, value: float) -> bool:
        """Whether a design of this value meets it."""
        return COMPARISONS[self.comparison](value, self.limit)

    def excess_of(self, value: float) -> float:
        """By how much a value exceeds the limit, as a fraction of the limit; 0 or less where it holds."""
        beyond = value - self.limit
        excess = (beyond if self.is_upper else -beyond) / (abs(self.limit) or 1.0)
        # At the limit itself "<" and ">" are broken although nothing is exceeded.
        return min(excess, 0.0) if self.met_by(value) else max(excess, sys.float_info.epsilon)

    def excludes(self, other: Constraint) -> bool:
        """Whether no number meets both: an upper and a lower limit of one quantity, nothing between them."""
        if self.quantity != other.quantity or self.is_upper == other.is_upper:
            return False
        upper, lower = (self, other) if self.is_upper else (other, self)
        if upper.limit == lower.limit:
            return upper.comparison == "<" or lower.comparison == ">"
        return upper.limit < lower.limit

    @property
    def is_upper(self) -> bool:
        return self.comparison.startswith("<")

    def __str__(self) -> str:
        return f"{self.quantity} {self.comparison} {self.limit:g}"


def check_together(constraints: Sequence[Constraint]) -> None:
    """InputError, whose key is ``[position]``, for a constraint that stands twice or contradicts another."""
    for later, constraint in enumerate(constraints):
        for earlier in constraints[:later]:
            if constraint == earlier:
                raise InputError("", "every constraint once", f"{constraint} again", key=f"[{later}]")
            if constraint.excludes(earlier):
                expected, found = "constraints that some number meets", f"{earlier} and {constraint}"
                raise InputError("", expected, found, "Relax one of the two", key=f"[{later}]")


@dataclass(frozen=True)
class Design:
    """One member of the family: the axis values that make it and the hardware they make."""

    values: tuple[tuple[str, Choice], ...]
    hardware: Hardware
    broken: tuple[str, ...] = field(default=())
    """The constraints it does not meet, with its own numbers; such a design costs no solve."""
    trial: int | None = None
    """Optuna's number of the proposal, where a sampler made it."""
    baseline: bool = False
    """Whether it is the design that the study names to compare with."""

    @property
    def feasible(self) -> bool:
        return not self.broken

    @property
    def of_phases(self) -> dict[str, Choice]:
        """Its values on the axes of phases."""
        return {key: value for key, value in self.values if key.startswith(OF_PHASES)}

    @property
    def architecture(self) -> Architecture:
        """The hardware, of a study of architectures."""
        assert isinstance(self.hardware, Architecture)
        return self.hardware

    @property
    def chip(self) -> Chip:
        """The hardware, of a study of chips."""
        assert isinstance(self.hardware, Chip)
        return self.hardware


@dataclass(frozen=True)
class DesignSpace:
    """All combinations of the axes' values on the ``base`` (a library name or a file that ``load`` takes)."""

    base: str
    axes: tuple[Axis, ...]
    constraints: tuple[Constraint, ...] = ()
    """Those on designs; constraints on results are no part of a space."""
    baseline: dict[str, Choice] | None = None
    load: Load = load_architecture
    where: str = "study"
    """The name that errors give to the study of the family."""
    of_all: Mapping[str, Choice] = field(default_factory=dict)
    """Values by key that every design has, beside those of the axes."""

    @property
    def size(self) -> int:
        return prod(len(axis.choices) for axis in self.axes)

    def design(self, indices: Sequence[int], trial: int | None = None) -> Design:
        """The design with the ``indices[i]``-th value of axis i."""
        values = {axis.key: axis.choices[i] for axis, i in zip(self.axes, indices, strict=True)}
        design, baseline = self._made(values), self._baseline
        same = (
            baseline is not None
            and baseline.hardware == design.hardware
            and baseline.of_phases == design.of_phases
        )
        return replace(design, trial=trial, baseline=same)

    def baseline_design(self) -> Design | None:
        """The study's baseline; InputError where it breaks a constraint: there is nothing to compare."""
        if self.baseline is None:
            return None
        design = self._made(self.baseline, "baseline")
        if design.broken:
            raise InputError(
                self.where, "a design that meets the constraints", design.broken[0], key="baseline"
            )
        return replace(design, baseline=True)

    def indices_of_baseline(self) -> tuple[int, ...] | None:
        """Where the family has the baseline; None where it is not a member (or there is none)."""
        return None if self.baseline is None else self._indices_of(self.baseline)

    def indices_of(self, values: Iterable[tuple[str, Choice]]) -> tuple[int, ...]:
        """The indices of a member's values on the axes."""
        indices = self._indices_of(dict(values))
        assert indices is not None, "a design of the family"
        return indices

    def _indices_of(self, values: Mapping[str, Choice]) -> tuple[int, ...] | None:
        indices = [axis.index_of(values[axis.key]) for axis in self.axes]
        inside = tuple(index for index in indices if index is not None)
        return inside if len(inside) == len(indices) else None

    @cached_property
    def _baseline(self) -> Design | None:
        return None if self.baseline is None else self._made(self.baseline, "baseline")

    def _made(self, values: Mapping[str, Choice], block: str = "axes") -> Design:
        """The design with these values, which the ``block`` of the study gives: errors name it."""
        try:
            of_hardware = {key: value for key, value in values.items() if not key.startswith(OF_PHASES)}
            hardware = self.load(self.base, {**self.of_all, **of_hardware})
        except OverrideError as error:
            if error.key in self.of_all and error.key not in values:
                raise error.at(self.where) from None
            raise error.at(self.where, block) from None
        except NotFoundError as error:
            kind = "architecture" if self.load is load_architecture else "chip"
            raise error.at(self.where, kind) from None
        return Design(tuple(values.items()), hardware, self.broken_by(hardware))

    def broken_by(self, hardware: Hardware) -> tuple[str, ...]:
        """The constraints that the hardware does not meet, each with its own number."""
        return tuple(
            reason(str(constraint), constraint.value(hardware))
            for constraint in self.constraints
            if not constraint.holds(hardware)
        )

    def check_values(self) -> None:
        """InputError for a value of an axis that makes no hardware, and for two that make the same.

        Every listed value is tried with the first values of the other axes. Ranges are not tried: they may be
        long, and their numbers differ.
        """
        first = {axis.key: axis.choices[0] for axis in self.axes}
        for axis in self.axes:
            if axis.of_phases:
                continue  # the hardware is the same for all of its values
            made: list[Hardware] = []
            for position, choice in enumerate(axis.choices if isinstance(axis.choices, tuple) else ()):
                hardware = self._made(first | {axis.key: choice}).hardware
                if hardware in made:
                    found = f"{choice!r}, which makes the same as {axis.choices[made.index(hardware)]!r}"
                    key = f"axes.{axis.key}.choices[{position}]"
                    raise InputError(self.where, "values that make different designs", found, key=key)
                made.append(hardware)

    def check_prices(self, objectives: Collection[str]) -> None:
        """InputError for an axis that changes the size of a part whose area nobody has stated.

        Where area is an objective or has a limit, the larger part would be free: every front would be drawn
        through the largest. Only chips are checked: an architecture's levels have areas or have none.
        """
        limited = any(constraint.quantity == "area_um2" for constraint in self.constraints)
        if "area_um2" not in objectives and not limited:
            return
        for axis in self.axes:
            if axis.key not in PRICES or len(axis.choices) < 2:
                continue
            areas = {area_um2(hardware) for hardware in self._ends(axis)}
            if len(areas) == 1:
                own, law = PRICES[axis.key]
                remedy = (
                    f"Give {own} in the chip file, right at one size or bandwidth, or name a technology with "
                    f"{law} there; or leave area_um2 out of the objectives and constraints"
                )
                expected = "an area that it changes, for area_um2 is an objective or has a limit"
                raise InputError(
                    self.where, expected, f"no price in {self.base}", remedy, key=f"axes.{axis.key}"
                )

    def fixed_prices(self) -> Iterator[str]:
        """A warning for every size of an architecture's level that varies while energy or area is fixed.

        A file may state both whatever the size. Then larger levels look free, or smaller ones no better.
        """
        for axis in self.axes:
            name, _, key = axis.key.rpartition(".")
            if key != "size" or len(axis.choices) < 2 or self.load is not load_architecture:
                continue
            small, large = (_level(hardware, name) for hardware in self._ends(axis))
            prices = {"energy": (small.read_energy_pj, large.read_energy_pj)}
            prices["area"] = small.area_um2, large.area_um2
            # a number that nobody stated is 0 at every size
            fixed = [what for what, (a, b) in prices.items() if a == b > 0]
            if fixed:
                do = "does" if len(fixed) == 1 else "do"
                yield (
                    f"{self.base}: {axis.key} varies and the {' and '.join(fixed)} of {name} {do} not: state "
                    "at_size beside the number, or leave it to a technology"
                )

    def _ends(self, axis: Axis) -> list[Hardware]:
        """The hardware with the first and with the last value of an axis, other axes at their first ones."""
        first = {one.key: one.choices[0] for one in self.axes}
        return [self._made(first | {axis.key: axis.choices[end]}).hardware for end in (0, -1)]

    def grid(self) -> Iterator[Design]:
        """Every design, the last axis varying fastest."""
        for indices in product(*(range(len(axis.choices)) for axis in self.axes)):
            yield self.design(indices)

    def indices(self, flat: int) -> tuple[int, ...]:
        """The indices of the ``flat``-th design of the grid."""
        indices = []
        for axis in reversed(self.axes):
            flat, index = divmod(flat, len(axis.choices))
            indices.append(index)
        return tuple(indices[::-1])

    def sample(self, count: int, seed: int) -> Iterator[Design]:
        """``count`` different designs drawn uniformly, or all of a space that is no larger."""
        for flat in self.drawn(count, seed):
            yield self.design(self.indices(flat))

    def drawn(self, count: int, seed: int) -> list[int]:
        """The numbers in the grid of the designs of :meth:`sample`."""
        return _drawn(Random(seed), self.size, min(count, self.size))

    def unseen(self, seen: Collection[tuple[int, ...]], seed: str) -> tuple[int, ...] | None:
        """The indices of a random design that is not among those ``seen``; None where all are."""
        # Of one more different designs than were seen, at least one is new.
        draws = _drawn(Random(seed), self.size, min(self.size, len(seen) + 1))
        return next((point for point in map(self.indices, draws) if point not in seen), None)


def _level(hardware: Hardware, name: str) -> StorageLevel:
    return next(level for level in mapped_on(hardware).levels if level.name == name)


def _drawn(random: Random, size: int, count: int) -> list[int]:
    """``count`` different random numbers below ``size``, drawn without listing all numbers.

    ``random.sample`` draws from a range, whose length has to fit into a machine word. Where the product of
    long axes does not, a number is hardly ever drawn twice, and if it is, it is drawn anew.
    """
    if size <= sys.maxsize:
        return random.sample(range(size), count)
    drawn: dict[int, None] = {}
    while len(drawn) < count:
        drawn[random.randrange(size)] = None
    return list(drawn)
