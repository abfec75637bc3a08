"""Architectures: a stack of storage levels over an array of MAC units. Frozen, checked when built."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass, replace
from functools import cached_property
from math import floor, inf, prod
from typing import Any

from costmodel.errors import InputError
from costmodel.hardware.precision import Precision
from costmodel.hardware.timing import Layouts, Timing
from costmodel.number_checks import is_number, is_whole
from costmodel.workload.network import Role, Tensor

ALL_ROLES: tuple[Role, ...] = ("weights", "inputs", "outputs")

LARGEST, SMALLEST = 2**53, 1e-12
"""The range of numbers that are not 0: no real chip is outside, and products with counts stay finite."""


@dataclass(frozen=True)
class StorageLevel:
    """One level of the memory hierarchy; every number is per instance.

    ``size_words`` is in words of ``word_bits``. Energies are in pJ per access, and an access moves one block
    of ``block_size`` words. Bandwidths are in words per cycle. A size or bandwidth of None is unlimited.
    ``update_energy_pj`` is that of outputs written from inside. With a ``multiple_buffering`` of n, only 1/n
    of the size holds the tiles in use: the rest is filled meanwhile. ``fanout_x`` by ``fanout_y`` instances
    of the next inner level (or MAC units) hang below each instance. ``keeps`` are the roles of the tensors
    that the level can hold.
    """

    name: str
    size_words: int | None
    word_bits: int
    read_energy_pj: float
    write_energy_pj: float
    update_energy_pj: float
    block_size: int = 1
    leakage_pj_per_cycle: float = 0.0
    read_bandwidth: float | None = None
    write_bandwidth: float | None = None
    shared_bandwidth: float | None = None
    multiple_buffering: float = 1.0
    fanout_x: int = 1
    fanout_y: int = 1
    keeps: tuple[Role, ...] = ALL_ROLES
    area_um2: float = 0.0

    def __post_init__(self) -> None:
        where = f"storage level {self.name}"
        for key in ("word_bits", "block_size", "fanout_x", "fanout_y"):
            _check(where, key, getattr(self, key), "a whole number of at least 1", whole=True, least=1)
        if self.size_words is not None:
            _check(where, "size_words", self.size_words, "at least one word", whole=True, least=1)
        for key in (
            "read_energy_pj",
            "write_energy_pj",
            "update_energy_pj",
            "leakage_pj_per_cycle",
            "area_um2",
        ):
            _check(where, key, getattr(self, key), "a number of at least 0")
        for key in ("read_bandwidth", "write_bandwidth", "shared_bandwidth"):
            if (bandwidth := getattr(self, key)) is not None:
                _check(where, key, bandwidth, "more than 0 words per cycle", above=True)
        _check(where, "multiple_buffering", self.multiple_buffering, "at least 1", least=1)
        if not self.keeps or not set(self.keeps) <= set(ALL_ROLES) or len(set(self.keeps)) < len(self.keeps):
            raise InputError(where, f"some of {ALL_ROLES}, each once", self.keeps, key="keeps")

    @property
    def usable_words(self) -> float:
        """Words that the tiles in use may take together: the size divided by the multiple buffering."""
        return inf if self.size_words is None else floor(self.size_words / self.multiple_buffering)

    @property
    def fanout(self) -> int:
        """Instances of the next inner level, or MAC units, below each instance."""
        return self.fanout_x * self.fanout_y

    def can_keep(self, tensor: Tensor) -> bool:
        """Whether the level can hold a tensor of this role."""
        return tensor.role in self.keeps


@dataclass(frozen=True)
class Compute:
    """The MAC units: energy per multiply-accumulate in pJ, area of one in um2."""

    name: str
    word_bits: int
    energy_pj: float
    area_um2: float = 0.0

    def __post_init__(self) -> None:
        where = f"compute {self.name}"
        _check(where, "word_bits", self.word_bits, "a whole number of at least 1", whole=True, least=1)
        for key in ("energy_pj", "area_um2"):
            _check(where, key, getattr(self, key), "a number of at least 0")


@dataclass(frozen=True)
class Architecture:
    """Storage ``levels`` INNERMOST FIRST (level 0 feeds the MAC units), the last one unlimited (DRAM).

    Below each instance of level ``i`` hang ``levels[i].fanout`` instances of level ``i - 1``; below each of
    level 0, as many MAC units.
    """

    name: str
    levels: tuple[StorageLevel, ...]
    compute: Compute
    frequency_hz: float = 1e9
    timing: Timing | None = None
    """What cycles it pays beyond its bandwidths; None: cycles are those of Timeloop's model."""
    precision: Precision | None = None
    """Bits of the elements of tensors; None: an element is a word of every level and an operand of a MAC."""

    def __post_init__(self) -> None:
        where = f"architecture {self.name}"
        if not self.levels:
            raise InputError(where, "at least one storage level", "none", key="levels")
        names = [level.name for level in self.levels]
        if len(set(names)) != len(names):
            raise InputError(where, "level names that are all different", names, key="levels")
        if self.levels[-1].size_words is not None or self.levels[-1].keeps != ALL_ROLES:
            raise InputError(
                where,
                "an outermost level that is unlimited and keeps every tensor",
                self.levels[-1].name,
                "Add a DRAM level without a size outside it",
                key="levels",
            )
        _check(where, "frequency_hz", self.frequency_hz, "more than 0", above=True)
        if self.precision is not None and self.timing is not None:
            remedy = "Leave out one of the two"
            expected = "no timing beside a precision: steps and transfers are timed in words"
            raise InputError(where, expected, "both", remedy, key="precision")

    @cached_property
    def instances(self) -> tuple[int, ...]:
        """Instances of every level in the hardware, innermost first."""
        return tuple(prod(outer.fanout for outer in self.levels[i + 1 :]) for i in range(len(self.levels)))

    def innermost_keeping(self, tensor: Tensor) -> int:
        """The innermost level, by its number, that can hold a tensor of this role."""
        return next(index for index, level in enumerate(self.levels) if level.can_keep(tensor))

    @cached_property
    def mac_units(self) -> int:
        """MAC units of the whole hardware."""
        return prod(level.fanout for level in self.levels)

    @cached_property
    def area_um2(self) -> float:
        """Area of all instances of levels and of all MAC units; a level without an area counts 0, as DRAM."""
        storage = sum(n * level.area_um2 for n, level in zip(self.instances, self.levels, strict=True))
        return storage + self.mac_units * self.compute.area_um2

    def in_layouts(self, layouts: Layouts) -> Architecture:
        """The machine whose tensors lie in memory as a mapping says that has these layouts.

        A machine without timing, or without a choice of layouts, is returned as it is."""
        if self.timing is None or not (layouts or self.timing.permitted_layouts):
            return self
        return replace(self, timing=self.timing.fixed(layouts))

    def index(self, level_name: str) -> int:
        """The number of a level, 0 the innermost; InputError for a name that no level has."""
        for index, level in enumerate(self.levels):
            if level.name == level_name:
                return index
        names = [level.name for level in self.levels]
        raise InputError(f"architecture {self.name}", f"a level among {names}", level_name)

    def to_json(self) -> dict[str, Any]:
        """Plain data, levels innermost first, in the fields' units; :meth:`from_json` reads it back."""
        # not by `asdict`, which copies deeply and is slow: studies do this for every design
        levels = [_plain(level) | {"keeps": list(level.keeps)} for level in self.levels]
        plain = _plain(self) | {"levels": levels, "compute": _plain(self.compute)}
        # not as null: stored answers are found by the hash of this, and those of machines without stay found
        del plain["timing"], plain["precision"]
        if self.timing is not None:
            plain["timing"] = self.timing.to_json()
        if self.precision is not None:
            plain["precision"] = self.precision.to_json()
        return plain

    @classmethod
    def from_json(cls, data: ReadOnlyDict[str, Any]) -> Architecture:
        """The architecture of :meth:`to_json`; InputError for numbers that no hardware has."""
        levels = tuple(StorageLevel(**{**level, "keeps": tuple(level["keeps"])}) for level in data["levels"])
        timing = Timing.from_json(data["timing"]) if "timing" in data else None
        precision = Precision.from_json(data["precision"]) if "precision" in data else None
        return cls(data["name"], levels, Compute(**data["compute"]), data["frequency_hz"], timing, precision)


def _plain(value: StorageLevel | Compute | Architecture) -> dict[str, Any]:
    """The value's fields by name, in their order, not copied."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def _check(
    where: str,
    key: str,
    value: Any,
    expected: str,
    *,
    whole: bool = False,
    least: int = 0,
    above: bool = False,
) -> None:
    """InputError unless ``value`` is a number of at least ``least``, and neither tiny nor huge.

    ``whole``: it has to be a whole number. ``above``: it has to be more than ``least``. Tiny and huge are
    numbers below SMALLEST, but for 0, and above LARGEST.
    """
    right = is_whole(value, least) if whole else is_number(value, least)
    if not right or (above and value == least):
        raise InputError(where, expected, value, key=key)
    if value > LARGEST or 0 < value < SMALLEST:
        raise InputError(where, f"0 or between {SMALLEST} and 2^53", value, key=key)
