"""Designs whose answers break a constraint: they keep all that was found of them, and are on no front.

Their rows are ``complete`` and not ``feasible``, and their ``note`` has a reason for each broken constraint.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from results.store.schema.rows import DesignRow

LEFT_OUT = "left out"
"""What counts of designs call them, beside the statuses."""
BROKEN_BY_BOUNDS = "broken by bounds"
"""What counts call designs whose proven bounds alone break a constraint: they were not solved to the end."""
_BETWEEN, _IS = "; ", " (is "


def reason(constraint: str, value: float, how: str = "") -> str:
    """``watts <= 10 (is 12.5)``: one broken constraint, with the design's own number.

    ``how``: "at least " or "at most " before a number that is a bound.
    """
    return f"{constraint}{_IS}{how}{value:g})"


def reasons(broken: Iterable[str]) -> str:
    """The ``note`` of a design with these reasons."""
    return _BETWEEN.join(broken)


def outcome(row: DesignRow) -> str:
    """What became of a design: its status, LEFT_OUT or BROKEN_BY_BOUNDS."""
    # other infeasible designs have no bounds: no solve was looked at
    if row["status"] == "infeasible" and row.get("energy_bound_pj") is not None:
        return BROKEN_BY_BOUNDS
    left_out = row["status"] == "complete" and row.get("feasible") is False
    return LEFT_OUT if left_out else row["status"]


def left_out_sentence(notes: Sequence[str], designs: int) -> str:
    """``2 of 18 designs are left out: watts <= 10 is broken by 2, cycles <= 5 by 1``; empty for no note.

    ``notes``: of the designs that are left out. A design that breaks two constraints counts with both.
    """
    if not notes:
        return ""
    broken = Counter(one.partition(_IS)[0] for note in notes for one in note.split(_BETWEEN))
    (first, most), *others = broken.most_common()
    counts = [f"{first} is broken by {most:,}", *(f"{name} by {count:,}" for name, count in others)]
    are = "is" if len(notes) == 1 else "are"
    return f"{len(notes):,} of {designs:,} designs {are} left out: {', '.join(counts)}"
