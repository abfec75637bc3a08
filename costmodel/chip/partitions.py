"""How a layer may be cut into parts, one a tile."""

from __future__ import annotations

from functools import cache
from math import isqrt

Parts = tuple[int, int, int, int]
"""Into how many parts K, B, H and W are cut."""


def utilization(sizes: tuple[int, int, int, int], parts: Parts) -> float:
    """The share of the parts' largest size that is used, over all four dims."""
    share = 1.0
    for size, part in zip(sizes, parts, strict=True):
        share *= size / (-(-size // part) * part)
    return share


@cache
def factorizations(tiles: int) -> tuple[Parts, ...]:
    """All ways to write ``tiles`` as a product of four, by splitting it in two and each half again."""
    return tuple(
        (k, b, h, w) for first, second in _pairs(tiles) for k, b in _pairs(first) for h, w in _pairs(second)
    )


def _pairs(number: int) -> list[tuple[int, int]]:
    """Ordered pairs of factors, from the squarest outwards, the one with 1 in front first of its two."""
    pairs = []
    for factor in range(isqrt(number), 0, -1):
        if number % factor == 0:
            pairs.append((factor, number // factor))
            if factor * factor != number:
                pairs.append((number // factor, factor))
    return pairs
