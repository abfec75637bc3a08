"""How an ``archsweep`` command ended, as the fixture ``command_line`` tells it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Ended(NamedTuple):
    """Exit status, what went to standard output, what went to standard error."""

    status: int
    out: str
    err: str


Command = Callable[..., Ended]
"""``archsweep`` with these words."""
