"""How the outputs of a layer may be cut into K x B x H x W parts, one a tile (SET, section 4.2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import isqrt

Parts = tuple[int, int, int, int]
"""Into how many parts K, B, H and W are cut."""

LEAST_UTILIZATION = 0.75
"""Partitions that use their tiles less than this are left out, as in SET's released program."""


def utilization(sizes: tuple[int, int, int, int], parts: Parts) -> float:
    """The fraction of the tiles' work that is useful, from 0 to 1, when each is as busy as the busiest.

    The busiest tile has the largest part in every dim, of ceil(size / parts) indices.
    """
    useful = 1.0
    for size, part in zip(sizes, parts, strict=True):
        useful *= size / (-(-size // part) * part)
    return useful


@cache
def factorizations(tiles: int) -> tuple[Parts, ...]:
    """All ways to write ``tiles`` as a product of four factors: of two, each of which is split again."""
    return tuple(
        (k, b, h, w) for first, second in _pairs(tiles) for k, b in _pairs(first) for h, w in _pairs(second)
    )


def _pairs(number: int) -> list[tuple[int, int]]:
    """Ordered pairs of factors, the most equal first; of a pair and its mirror image the smaller factor
    first.
    """
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
    """The partitions of ``cut`` that use tiles to at least ``least``; the best used one where none does."""
    used = [utilization(sizes, parts) for parts in cut]
    well = tuple(parts for parts, useful in zip(cut, used, strict=True) if useful >= least)
    return well or ((cut[used.index(max(used))],) if cut else ())
