"""One thing that is wrong with a deployment file, and how the checks look up values in the file."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""A machine's own addresses, which no other one reaches."""


@dataclass(frozen=True)
class Finding:
    """One thing to correct; ``key`` is dotted, or empty for the whole file."""

    key: str
    expected: str
    found: object
    remedy: str = ""


def nearest(found: object, known: list[str]) -> str:
    """A remedy: the known name that looks most like what was found; empty when none does."""
    near = get_close_matches(str(found), known, 1)
    return f"Did you mean {near[0]}?" if near else ""


def at(document: Any, key: str) -> Any:
    """The value at a dotted key, None where there is none."""
    for part in key.split("."):
        if isinstance(document, list) and part.isdecimal() and int(part) < len(document):
            document = document[int(part)]
        elif isinstance(document, dict):
            document = document.get(part)
        else:
            return None
    return document
