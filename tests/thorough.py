"""How much random tests try: a part in every run, all of it with ``pytest --thorough``.

What is drawn is seeded, so the part of every run is the same each time. Tests that run with ``--thorough``
only have the mark of that name.
"""

from __future__ import annotations

from typing import Any

import pytest

asked = False
"""Whether this run tries everything; ``tests/conftest.py`` sets it before test files are imported."""


def how_many(usually: int, *, thorough: int) -> int:
    """How many cases a test of this run draws, or finds of some kind at least."""
    return thorough if asked else usually


def also(*values: Any) -> list[Any]:
    """Values of ``parametrize`` that only a thorough run tries; a tuple has one for each of its names."""
    return [
        pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.thorough)
        for value in values
    ]
