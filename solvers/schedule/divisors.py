"""Into how many equal parts samples or tiles can fall: sub-batches, passes, and cuts of K."""

from __future__ import annotations

from functools import cache


@cache
def divisors(number: int) -> tuple[int, ...]:
    """All divisors, ascending; searches ask for those of few numbers again and again."""
    return tuple(parts for parts in range(1, number + 1) if number % parts == 0)
