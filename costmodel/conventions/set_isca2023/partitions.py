"""How a layer may be cut into parts, one a tile: what the released evaluator tries, in its order."""

from __future__ import annotations

from functools import cache
from math import isqrt

from costmodel.chip.layers import NetworkLayer
from costmodel.conventions.set_isca2023.hardware import Platform

Parts = tuple[int, int, int, int]
"""Into how many parts K, B, H and W are cut."""


def admitted(layer: NetworkLayer, batch: int, tiles: int, platform: Platform) -> tuple[Parts, ...]:
    """Partitions among ``tiles`` that use them well enough; if none does, the one that uses them best.

    Large inputs must be cut: B x H x W has a least number of parts (not for element-wise layers).
    """
    least = _least_input_parts(layer, batch, tiles, platform)
    cut = [parts for parts in factorizations(tiles) if parts[1] * parts[2] * parts[3] >= least]
    used = [utilization(layer.sizes(batch), parts) for parts in cut]
    enough = platform.least_partition_utilization
    well = tuple(parts for parts, share in zip(cut, used, strict=True) if share >= enough)
    return well or ((cut[used.index(max(used))],) if cut else ())


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


def _least_input_parts(layer: NetworkLayer, batch: int, tiles: int, platform: Platform) -> int:
    if layer.kind not in ("conv", "fc"):
        return 0
    room = platform.tile.shared.size_bytes * tiles * 0.8
    return int(layer.input_bytes(batch) / room + 1)
