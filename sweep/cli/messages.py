"""What a command says beside its answer, how it shows numbers, and how it ends."""

from __future__ import annotations

import sys
from enum import IntEnum
from typing import Any


class ExitStatus(IntEnum):
    """What a shell or a job learns of a command; 0 is done."""

    WORK_FAILED = 1
    """The input was right, but there is no answer: failed solves, nothing possible, or stopped before."""
    WRONG_INPUT = 2


class WorkFailedError(Exception):
    """A command went to its end without an answer: exit status WORK_FAILED, with this text."""


def note(text: str) -> None:
    """Say something on standard error: standard output has the answer and nothing else."""
    print(text, file=sys.stderr, flush=True)


def warn(text: str) -> None:
    """Say what a reader of the answer should know."""
    note(f"warning: {text}")


def complain(text: object) -> None:
    """Say what is wrong, or what takes long, in archsweep's name: other programs may write there, too."""
    note(f"archsweep: {text}")


def shown(value: Any, digits: int = 6) -> str:
    """A value in a table: a fraction with ``digits`` significant digits, a whole number in full."""
    if isinstance(value, float):
        return f"{value:,.{digits}g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
