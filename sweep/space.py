"""The design space: axes that vary a base architecture, and constraints that a design must meet."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from random import Random
from typing import Any

from costmodel.architecture import Architecture
from costmodel.architectures import load_architecture
from costmodel.errors import InputError

Choice = Any
"""What a study may write for an axis: a number, a size with its unit, a fan-out ``[x, y]``."""


@dataclass(frozen=True)
class Axis:
    """One varied key of the architecture file (``SRAM.size``) and the values it takes."""

    key: str
    choices: tuple[Choice, ...]

    def __post_init__(self) -> None:
        if not self.choices:
            raise InputError("study", "an axis with at least one value", "none", key=f"axes.{self.key}")


COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
QUANTITIES: dict[str, Callable[[Architecture], float]] = {
    "area_um2": lambda architecture: architecture.area_um2,
    "mac_units": lambda architecture: architecture.mac_units,
    "on_chip_bits": lambda architecture: sum(
        instances * (level.size_words or 0) * level.word_bits
        for instances, level in zip(architecture.instances, architecture.levels, strict=True)
    ),
}
_CONSTRAINT = re.compile(r"\s*(\w+)\s*(<=|>=|<|>)\s*([-+.\deE_]+)\s*")


@dataclass(frozen=True)
class Constraint:
    """``quantity comparison limit`` on what is known of a design before any solve."""

    quantity: str
    comparison: str
    limit: float

    @classmethod
    def parse(cls, text: str) -> Constraint:
        match = _CONSTRAINT.fullmatch(text)
        if match is None or match[1] not in QUANTITIES:
            raise InputError(
                "study",
                f"'QUANTITY <= NUMBER' with a quantity among {', '.join(QUANTITIES)} (or >=, <, >)",
                text,
                key="constraints",
            )
        try:
            return cls(match[1], match[2], float(match[3]))
        except ValueError:
            raise InputError("study", "a number after the comparison", match[3], key="constraints") from None

    def value(self, architecture: Architecture) -> float:
        return float(QUANTITIES[self.quantity](architecture))

    def holds(self, architecture: Architecture) -> bool:
        return COMPARISONS[self.comparison](self.value(architecture), self.limit)

    def __str__(self) -> str:
        return f"{self.quantity} {self.comparison} {self.limit:g}"


@dataclass(frozen=True)
class Design:
    """One member of the family: the axis values that make it and the architecture they make."""

    values: tuple[tuple[str, Choice], ...]
    architecture: Architecture
    broken: tuple[str, ...] = field(default=())
    """The constraints it does not meet, with its own numbers; such a design costs no solve."""

    @property
    def feasible(self) -> bool:
        return not self.broken


@dataclass(frozen=True)
class DesignSpace:
    """All combinations of the axes' values on the ``base`` architecture (a library name or a file)."""

    base: str
    axes: tuple[Axis, ...]
    constraints: tuple[Constraint, ...] = ()

    @property
    def size(self) -> int:
        return prod(len(axis.choices) for axis in self.axes)

    def design(self, indices: Sequence[int]) -> Design:
        """The design with the ``indices[i]``-th value of axis i."""
        values = tuple((axis.key, axis.choices[i]) for axis, i in zip(self.axes, indices, strict=True))
        architecture = load_architecture(self.base, dict(values))
        broken = tuple(
            f"{constraint} (is {constraint.value(architecture):g})"
            for constraint in self.constraints
            if not constraint.holds(architecture)
        )
        return Design(values, architecture, broken)

    def grid(self) -> Iterator[Design]:
        """Every design, the last axis varying fastest."""
        for indices in product(*(range(len(axis.choices)) for axis in self.axes)):
            yield self.design(indices)

    def sample(self, count: int, seed: int) -> Iterator[Design]:
        """``count`` different designs drawn uniformly (all of them where the space is not larger)."""
        if count >= self.size:
            yield from self.grid()
            return
        sizes = [len(axis.choices) for axis in self.axes]
        for flat in Random(seed).sample(range(self.size), count):
            indices = []
            for size in reversed(sizes):
                flat, index = divmod(flat, size)
                indices.append(index)
            yield self.design(indices[::-1])
