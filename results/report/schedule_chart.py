"""What ``report.js`` draws of a schedule: its S-T chart, and how the annealers of all seeds went."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from results.report.html import chart_text
from results.store.schema.rows import ChartLeaf
from results.units import scale_for

MOST_RECTANGLES = 6000
"""Rectangles of one chart that a browser still draws at once; of more, the longest are drawn."""
MOST_POINTS = 200
"""Points of a trajectory that are drawn."""


class ChartRectangle(NamedTuple):
    """A layer's samples [first, end) on tiles [first, end) during cycles [start, end)."""

    layer: str
    samples: tuple[int, int]
    tiles: tuple[int, int]
    cycles: tuple[int, int]


def rectangles(spatial_temporal: Iterable[ChartLeaf] | None) -> Iterator[ChartRectangle]:
    """The rectangles of a row's ``spatial_temporal``, leaf by leaf."""
    for leaf in spatial_temporal or ():
        for turn, start in enumerate(leaf["starts"]):
            yield ChartRectangle(
                f"{leaf['layer']}{_way(leaf)}",
                (turn * leaf["samples"], (turn + 1) * leaf["samples"]),
                (leaf["tiles"][0], leaf["tiles"][1]),
                (start, start + leaf["cycles"]),
            )


def _way(leaf: ChartLeaf) -> str:
    """What a chart says of a leaf's name where it does not run on tiles with pinned or streamed weights."""
    if leaf.get("whole_chip"):
        return " (whole chip, from DRAM)"
    return " (mapped with others)" if leaf.get("fused") else ""


def chart_content(spatial_temporal: Iterable[ChartLeaf] | None) -> dict[str, Any]:
    """The chart as columns, cycles scaled to one unit; layers by their index in ``layers``."""
    every = list(rectangles(spatial_temporal))
    layers = {name: index for index, name in enumerate(dict.fromkeys(r.layer for r in every))}
    shown = sorted(every, key=_cycles, reverse=True)[:MOST_RECTANGLES]
    scale = scale_for("cycles", (float(r.cycles[1]) for r in every))
    return {
        "title": scale.title,
        "layers": [chart_text(name) for name in layers],
        "tiles": max((r.tiles[1] for r in every), default=0),
        "until": scale.number(float(max((r.cycles[1] for r in every), default=0))),
        "layer_of": [layers[r.layer] for r in shown],
        "samples": [[r.samples[0], r.samples[1]] for r in shown],
        "first": [r.tiles[0] for r in shown],
        "wide": [r.tiles[1] - r.tiles[0] for r in shown],
        "start": [scale.number(float(r.cycles[0])) for r in shown],
        "long": [scale.number(float(_cycles(r))) for r in shown],
        "hidden": len(every) - len(shown),
    }


def _cycles(rectangle: ChartRectangle) -> int:
    return rectangle.cycles[1] - rectangle.cycles[0]


def trajectory_content(search: Iterable[Mapping[str, Any]] | None, best: float) -> dict[str, list[Any]]:
    """Objective over ``best`` along the rounds of all phases, one after the other; ``phases`` by name.

    At most MOST_POINTS points, the first and the last of each phase among them.
    """
    rounds, ratios, names = [], [], []
    before = 0
    phases = list(search or ())
    for phase in phases:
        points = phase["trajectory"]
        stride = max(1, -(-len(points) * len(phases) // MOST_POINTS))
        kept = (
            points[::stride]
            if not points or points[-1] in points[::stride]
            else [*points[::stride], points[-1]]
        )
        rounds += [before + at for at, _ in kept]
        ratios += [float(f"{value / best:.6g}") for _, value in kept]
        names += [chart_text(phase["name"])] * len(kept)
        before += phase["rounds"]
    return {"rounds": rounds, "ratios": ratios, "phases": names}


class OperatorCounts(NamedTuple):
    """Trees that one operator made in one phase of a search: ``tried`` of them.

    ``invalid``: the chip cannot run them. ``accepted``: the search went on from them, though they may cost
    more than the tree before; ``better``: they cost less.
    """

    phase: str
    operator: str
    tried: int
    invalid: int
    accepted: int
    better: int


def acceptance(
    searches: Iterable[Iterable[Mapping[str, Any]] | None],
) -> list[OperatorCounts]:
    """What became of each operator's changes in each phase, summed over the seeds."""
    sums: dict[tuple[str, str], list[int]] = {}
    for search in searches:
        for phase in search or ():
            for count in phase["operators"]:
                key = str(phase["name"]), str(count["operator"])
                entry = sums.setdefault(key, [0, 0, 0, 0])
                for index, name in enumerate(("tried", "invalid", "accepted", "better")):
                    entry[index] += count[name]
    return [OperatorCounts(*key, *counts) for key, counts in sums.items()]
