"""How a layer may be cut into parts, one a tile."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import isqrt

Parts = tuple[int, int, int, int]
"""Into how many parts K, B, H and W are cut."""

LEAST_UTILIZATION = 0.75
"""Partitions that use less of their tiles are not worth a look (the released program's choice)."""


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


def well_used(
    sizes: tuple[int, int, int, int], cut: Sequence[Parts], least: float = LEAST_UTILIZATION
) -> tuple[Parts, ...]:
    """Those of ``cut`` that leave little idle; if all leave more, the one that leaves the least."""
    used = [utilization(sizes, parts) for parts in cut]
    well = tuple(parts for parts, share in zip(cut, used, strict=True) if share >= least)
    return well or ((cut[used.index(max(used))],) if cut else ())
