"""The S-T chart of a schedule as text, for terminals: a line a group of tiles, time from left to right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from string import ascii_letters, digits

from results.report.schedule_chart import ChartRectangle, rectangles
from results.store.schema.rows import ChartLeaf

SYMBOLS = ascii_letters + digits
"""One a layer, in the order of the schedule; more layers begin again."""
IDLE = "."

TileTimes = dict[str, float]
"""For each layer, the tiles that compute it in a column, each times the fraction of the column's time."""


def text_chart(spatial_temporal: Iterable[ChartLeaf], columns: int = 96, lines: int = 24) -> str:
    """At most ``lines`` lines of ``columns`` characters each, then which layer each character stands for.

    A character is the layer that takes most of its tiles and time, IDLE where none computes for half of it.
    """
    found = list(rectangles(spatial_temporal))
    tiles = max(r.tiles[1] for r in found)
    cycles = max(r.cycles[1] for r in found)
    group = -(-tiles // lines)
    symbols = _symbols(found)
    times = _tile_times(found, group, cycles / columns)
    full = {line: min(group, tiles - line * group) for line in range(-(-tiles // group))}
    chart = [
        f"{_tiles(line * group, count):>9} |"
        + "".join(_character(times.get((line, c)), count, symbols) for c in range(columns))
        for line, count in full.items()
    ]
    legend = [f"{symbol} {layer}" for layer, symbol in symbols.items()]
    axis = f"{'tiles':>9}  0 to {cycles:,} cycles; {IDLE} idle"
    return "\n".join([*chart, axis, *_wrapped(legend, columns)])


def _symbols(found: Iterable[ChartRectangle]) -> dict[str, str]:
    order = sorted(found, key=lambda rectangle: rectangle.cycles[0])
    layers = dict.fromkeys(rectangle.layer for rectangle in order)
    return {layer: SYMBOLS[index % len(SYMBOLS)] for index, layer in enumerate(layers)}


def _tile_times(
    found: Iterable[ChartRectangle], group: int, width: float
) -> dict[tuple[int, int], TileTimes]:
    """What runs in each (line, column)."""
    times: dict[tuple[int, int], TileTimes] = defaultdict(lambda: defaultdict(float))
    for rectangle in found:
        start, end = (cycle / width for cycle in rectangle.cycles)
        for line in range(rectangle.tiles[0] // group, (rectangle.tiles[1] - 1) // group + 1):
            within = _overlap(rectangle.tiles, (line * group, (line + 1) * group))
            for column in range(int(start), -int(-end // 1)):
                time = within * _overlap((start, end), (column, column + 1))
                times[line, column][rectangle.layer] += time
    return times


def _overlap(one: tuple[float, float], other: tuple[float, float]) -> float:
    return max(0.0, min(one[1], other[1]) - max(one[0], other[0]))


def _character(times: TileTimes | None, tiles: int, symbols: Mapping[str, str]) -> str:
    if times is None or sum(times.values()) < tiles / 2:
        return IDLE
    return symbols[max(times, key=times.__getitem__)]


def _tiles(first: int, count: int) -> str:
    return f"{first}" if count == 1 else f"{first}-{first + count - 1}"


def _wrapped(entries: Iterable[str], columns: int) -> list[str]:
    lines = [""]
    for entry in entries:
        if lines[-1] and len(lines[-1]) + len(entry) + 3 > columns:
            lines.append("")
        lines[-1] += ("   " if lines[-1] else "") + entry
    return lines
