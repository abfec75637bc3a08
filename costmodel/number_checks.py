"""Whether a stated value is a number; true and false are none here, although to Python they are."""

from __future__ import annotations

from math import inf
from typing import Any


def is_whole(value: object, least: float, most: float = inf) -> bool:
    """Whether ``value`` is a whole number from ``least`` to ``most``."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def is_number(value: Any, least: float, most: float = inf) -> bool:
    """Whether ``value`` is a finite number from ``least`` to ``most``."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    # by comparisons alone: `isfinite` fails on whole numbers that no float can hold, and a NaN fails them
    return number and least <= value <= most and value < inf
