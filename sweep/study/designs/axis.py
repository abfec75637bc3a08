"""One axis of a study: the key that varies, and its values, listed or made one by one from a range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from costmodel.errors import InputError
from costmodel.formats.yaml.quantities import ACCESS_ENERGY, AREA, BANDWIDTH, FREQUENCY, LEAKAGE, SIZE, reader

Choice = Any
"""What a study may write for an axis: a number, a size with its unit, a fan-out ``[x, y]``."""

OF_PHASES = "phases."
"""The beginning of the key of an axis that varies a phase of the requests, such as phases.decode.batch."""

_read_quantity = reader(
    {**SIZE, **BANDWIDTH, **FREQUENCY, **ACCESS_ENERGY, **LEAKAGE, **AREA}, "64 KiB", zero=True
)


@dataclass(frozen=True)
class NumberRange(Sequence[Choice]):
    """A growing sequence of whole ``numbers``, each with the ``unit`` if there is one.

    A value is made when it is asked for, so a range of a hundred million values takes no memory.
    """

    numbers: range
    unit: str = ""

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return NumberRange(self.numbers[index], self.unit)
        return f"{self.numbers[index]} {self.unit}" if self.unit else self.numbers[index]

    def index_of(self, value: Choice) -> int | None:
        """The position of the value that means the same as ``value`` (``1 KiB`` is ``1024 B``), or None."""
        wanted, one = meaning(value), meaning(f"1 {self.unit}" if self.unit else 1)
        if not (isinstance(wanted, tuple) and isinstance(one, tuple) and wanted[1:] == one[1:]):
            return None
        number = wanted[0] / one[0]
        whole = int(number)
        return self.numbers.index(whole) if whole == number and whole in self.numbers else None


@dataclass(frozen=True)
class Axis:
    """One varied key of the architecture file (``SRAM.size``) and the values it takes, each one once."""

    key: str
    choices: Sequence[Choice]

    def __post_init__(self) -> None:
        if not self.choices:
            raise InputError("study", "an axis with at least one value", "none", key=f"axes.{self.key}")

    @property
    def of_phases(self) -> bool:
        """Whether it varies the requests to the hardware, and not the hardware."""
        return self.key.startswith(OF_PHASES)

    @cached_property
    def ordered(self) -> bool:
        """Whether all values have a magnitude, and the magnitudes only rise or only fall.

        Numbers and sizes have a magnitude; that of a fan-out is its product.
        """
        if isinstance(self.choices, NumberRange):
            return True
        sizes = [size for choice in self.choices if (size := _magnitude(choice)) is not None]
        return len(sizes) == len(self.choices) and sizes in (sorted(sizes), sorted(sizes, reverse=True))

    def index_of(self, value: Choice) -> int | None:
        """The position of the choice that means the same as ``value``; None where none does."""
        if isinstance(self.choices, NumberRange):
            return self.choices.index_of(value)
        wanted = meaning(value)
        return next((i for i, choice in enumerate(self.choices) if meaning(choice) == wanted), None)


def meaning(choice: Choice) -> Any:
    """A value that is equal for choices that differ only in how they are written (``1 KiB``, ``1024 B``).

    Numbers and quantities become (value, base unit); lists become tuples of the meanings of their parts;
    anything else stays as it is. Words and bytes stay different, because only a level knows how many bits its
    words have.
    """
    if isinstance(choice, list | tuple):
        return tuple(map(meaning, choice))
    if isinstance(choice, dict):
        return tuple((key, meaning(value)) for key, value in sorted(choice.items(), key=str))
    try:
        quantity = _read_quantity(choice)
    except InputError:
        return choice
    return quantity.value, quantity.unit


def said_twice(choices: Sequence[Choice]) -> tuple[int, int] | None:
    """The positions of two choices that mean the same, the later one first; None where all differ."""
    first: dict[str, int] = {}
    for position, choice in enumerate(choices):
        earlier = first.setdefault(repr(meaning(choice)), position)
        if earlier != position:
            return position, earlier
    return None


def _magnitude(choice: Choice) -> float | None:
    """How large a number, a quantity with its unit or a fan-out is; None for anything else."""
    if isinstance(choice, list | tuple):
        parts = [_magnitude(part) for part in choice]
        return None if None in parts else prod(part for part in parts if part is not None)
    try:
        return _read_quantity(choice).value
    except InputError:
        return None
