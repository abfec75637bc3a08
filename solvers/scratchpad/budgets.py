"""Budgets by name (Section V-A): MR, MH and MP, or a plain number of bytes."""

from __future__ import annotations

from typing import NamedTuple

from costmodel.errors import InputError
from costmodel.scratchpad.graph import OperatorGraph
from solvers.scratchpad.peak import minimum_peak

NAMES = ("MR", "MH", "MP")


class NamedBudget(NamedTuple):
    """A number of bytes, and a note where a peak it rests on was not proven in time."""

    size_bytes: int
    note: str = ""


def budget_bytes(graph: OperatorGraph, budget: str, wall_seconds: float = 30.0) -> NamedBudget:
    """Bytes of ``budget``: MR is what the hungriest operator needs, MP the least peak footprint of any
    schedule without spills, MH the mean of the two (rounded down), anything else a number of bytes.

    A minimum peak that is not proven within ``wall_seconds`` is the best one found, and the note says so.
    Raises InputError for what is neither a name nor a whole number.
    """
    if budget == "MR":
        return NamedBudget(graph.required_bytes)
    if budget in NAMES:
        found = minimum_peak(graph, wall_seconds)
        size = found.peak_bytes if budget == "MP" else (graph.required_bytes + found.peak_bytes) // 2
        proven = (
            f"the minimum peak is proven to be at least {found.bound_bytes} bytes, {found.peak_bytes} found"
        )
        return NamedBudget(size, "" if found.proven else proven)
    if not budget.isdecimal() or int(budget) < 1:
        raise InputError("budget", f"{', '.join(NAMES)} or a number of bytes, at least 1", budget)
    return NamedBudget(int(budget))
