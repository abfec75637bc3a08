"""A page on which a replay of a program can be watched: tiles that compute, messages on their way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from results.report.colors import COLORS, MAC_COLOR
from results.report.html import Figure, ReportSection, chart_text, element, joined, paragraph
from results.report.page import page_of, write_page
from results.units import percent

MESSAGE_COLOR, DRAM_COLOR = "#0d8b9b", "#98a0aa"
IDLE_COLOR = "rgba(152,160,170,0.15)"
WIDE = 0.25
"""Messages that carry at least this fraction of the most that any carries in a frame are drawn wide."""
MOST_NAMED = 24
"""Layers that the legend names; a tile's hover box names every layer."""


@dataclass(frozen=True)
class Line:
    """Bytes that a message moves in one frame, from a tile or from DRAM to a tile or to DRAM.

    ``start`` and ``end``: column and row in the picture; DRAM is at the columns beside the mesh.
    """

    start: tuple[float, float]
    end: tuple[float, float]
    bytes: float
    of_dram: bool


@dataclass(frozen=True)
class Frame:
    """One picture of the animation: an equal part of the replay's cycles, of which ``cycle`` is the first.

    ``layers``: of every tile, the number of the layer that it computes most, -1 for none. ``busy``: of every
    tile, the fraction of the frame in which it computes.
    """

    cycle: float
    layers: Sequence[int]
    busy: Sequence[float]
    lines: Sequence[Line]


@dataclass(frozen=True)
class ReplayShown:
    """A whole replay as the page shows it, one picture after the other.

    ``positions``: column and row of every tile; ``numbers``: what the head of the page says.
    """

    network: str
    positions: Sequence[tuple[int, int]]
    layers: Sequence[str]
    frames: Sequence[Frame]
    numbers: Mapping[str, str]

    @cached_property
    def wide(self) -> float:
        """The bytes in a frame from which a line is drawn wide."""
        return WIDE * max((line.bytes for frame in self.frames for line in frame.lines), default=0.0)


def write_replay_page(path: Path, shown: ReplayShown) -> Path:
    """Write the page, whole or not at all; CannotWriteError where it cannot be written."""
    head = paragraph("; ".join(f"{name} {value}" for name, value in shown.numbers.items()))
    sections = [_mesh_section(shown), _strip_section(shown)]
    title = f"Replay of {shown.network}"
    return write_page(page_of(title, "What every tile does, moment by moment.", head, sections), path)


def layer_color(layer: int) -> str:
    """Colours repeat after the last one; the layer is also in every hover box."""
    colors = (*COLORS, MAC_COLOR)
    return IDLE_COLOR if layer < 0 else colors[layer % len(colors)]


def _mesh_section(shown: ReplayShown) -> ReportSection:
    text = (
        "A square is a tile, in the colour of the layer that it computes for most of the frame, the stronger "
        "the larger the fraction of the frame in which it computes; without colour it is idle. Lines are "
        "messages, grey ones those from and to DRAM, which lies on both sides; wide lines carry much. They "
        "are drawn straight: on the chip, messages go along a row first and then along a column."
    )
    figure = Figure(
        "mesh",
        "The chip, frame by frame",
        [*_frame_traces(shown, shown.frames[0]), *_legend(shown)],
        _mesh_layout(shown),
        height=220 + min(70 * (1 + max(row for _, row in shown.positions)), 640),
        frames=[
            # A frame replaces the traces of messages and tiles, which come first; those of the legend stay as
            # they are.
            {"name": str(number), "data": traces, "traces": list(range(len(traces)))}
            for number, frame in enumerate(shown.frames)
            for traces in (_frame_traces(shown, frame),)
        ],
    )
    panel = element("div", figure.html(), class_="panel")
    return ReportSection("chip", "Moment by moment", joined([paragraph(text), panel]))


def _mesh_layout(shown: ReplayShown) -> dict[str, Any]:
    columns, rows = (1 + max(position[axis] for position in shown.positions) for axis in (0, 1))
    at_once = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}
    playing = at_once | {"fromcurrent": True, "frame": {"duration": 120, "redraw": True}}
    steps = [
        {"label": f"{frame.cycle:,.0f}", "method": "animate", "args": [[str(number)], at_once]}
        for number, frame in enumerate(shown.frames)
    ]
    buttons = [
        {"label": "Play", "method": "animate", "args": [None, playing]},
        {"label": "Pause", "method": "animate", "args": [[None], at_once]},
    ]
    menu = {"type": "buttons", "buttons": buttons, "direction": "left", "showactive": False}
    return {
        # The two columns at the sides are for DRAM. Row 0 is on top, as in the coordinates of the chip.
        "xaxis": {"range": [-1.6, columns + 0.6], "visible": False},
        "yaxis": {"range": [rows - 0.4, -0.6], "visible": False, "scaleanchor": "x"},
        "sliders": [
            {
                "steps": steps,
                "currentvalue": {"prefix": "from cycle ", "font": {"color": DRAM_COLOR}},
                "x": 0,
                "len": 1,
                "y": 0,
            }
            # One label a frame would be hundreds on top of one another; the current one stands above the
            # slider.
            | {"ticklen": 0, "minorticklen": 0, "font": {"color": "rgba(0,0,0,0)"}}
        ],
        "updatemenus": [menu | {"x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"}],
        "legend": {"orientation": "v", "x": 1.02, "y": 1},
        "margin": {"l": 16, "r": 16, "t": 56, "b": 72},
    }


def _frame_traces(shown: ReplayShown, frame: Frame) -> list[dict[str, Any]]:
    """The messages, thin and wide, of tiles and of DRAM; and the tiles above them."""
    # A trace has one width and colour, and every frame must have the same traces in the same order, so
    # messages are in four traces, some of them empty. Those of DRAM come first: messages between tiles are
    # drawn above them.
    lines = [
        _lines(
            [line for line in frame.lines if line.of_dram == of_dram and (line.bytes >= shown.wide) == wide],
            DRAM_COLOR if of_dram else MESSAGE_COLOR,
            4.0 if wide else 1.5,
        )
        for of_dram in (True, False)
        for wide in (False, True)
    ]
    pairs = list(zip(frame.layers, frame.busy, strict=True))
    return [
        *lines,
        {
            "type": "scatter",
            "mode": "markers",
            "x": [column for column, _ in shown.positions],
            "y": [row for _, row in shown.positions],
            "hovertext": [_hover(shown, tile, layer, busy) for tile, (layer, busy) in enumerate(pairs)],
            "hoverinfo": "text",
            "marker": {
                "symbol": "square",
                # In pixels of the screen: they do not shrink with the mesh.
                "size": 34 if len(shown.positions) <= 64 else 18,
                "color": [layer_color(layer) for layer, _ in pairs],
                # From 0.3 on, so that the layer of a tile that is hardly busy can still be told.
                "opacity": [1.0 if layer < 0 else round(0.3 + 0.7 * busy, 2) for layer, busy in pairs],
                "line": {"width": 1, "color": DRAM_COLOR},
            },
            "showlegend": False,
        },
    ]


def _lines(lines: Sequence[Line], color: str, width: float) -> dict[str, Any]:
    ends: tuple[list[float | None], list[float | None]] = ([], [])
    for line in lines:
        for axis, values in enumerate(ends):
            # None ends a line: without it the next message would be joined to this one.
            values += [line.start[axis], line.end[axis], None]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": ends[0],
        "y": ends[1],
        "line": {"color": color, "width": width},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _hover(shown: ReplayShown, tile: int, layer: int, busy: float) -> str:
    does = "idle" if layer < 0 else f"{chart_text(shown.layers[layer])}, {percent(busy)} of the frame"
    column, row = shown.positions[tile]
    return f"<b>Tile {tile}</b> (column {column}, row {row})<br>{does}"


def _legend(shown: ReplayShown) -> list[dict[str, Any]]:
    return [
        {
            "type": "scatter",
            "mode": "markers",
            # A point that is not drawn: squares of the tiles have many colours in one trace, which the legend
            # cannot list, so each colour has an empty trace of its own.
            "x": [None],
            "y": [None],
            "name": chart_text(name),
            "marker": {"symbol": "square", "size": 10, "color": layer_color(layer)},
        }
        for layer, name in enumerate(shown.layers[:MOST_NAMED])
    ]


def _strip_section(shown: ReplayShown) -> ReportSection:
    """The whole run as a picture: tiles upwards, time to the right."""
    text = "Every tile over the whole run, in the colours from above; white where it is idle."
    bands = max(len(shown.layers), 1)
    # Every colour stands at both ends of its band, or else neighbouring layers' colours would blend.
    scale = [[end / bands, layer_color(layer)] for layer in range(bands) for end in (layer, layer + 1)]
    tiles = range(len(shown.positions))
    trace = {
        "type": "heatmap",
        "x": [frame.cycle for frame in shown.frames],
        "y": list(tiles),
        "z": [[layer if layer >= 0 else None for layer in _of_tile(shown, tile)] for tile in tiles],
        # Layer numbers are then in the middle of their bands of colour, where rounding cannot move them.
        "zmin": -0.5,
        "zmax": bands - 0.5,
        "colorscale": scale,
        "showscale": False,
        "hovertext": [
            [_hover(shown, tile, frame.layers[tile], frame.busy[tile]) for frame in shown.frames]
            for tile in tiles
        ],
        "hoverinfo": "text",
    }
    layout = {
        "xaxis": {"title": {"text": "Cycle"}},
        "yaxis": {"title": {"text": "Tile"}, "autorange": "reversed"},
        "margin": {"l": 64, "r": 16, "t": 16, "b": 52},
    }
    figure = Figure("strip", "The layer of every tile over time", [trace], layout, height=380)
    panel = element("div", figure.html(), class_="panel")
    return ReportSection("run", "The whole run", joined([paragraph(text), panel]))


def _of_tile(shown: ReplayShown, tile: int) -> list[int]:
    return [frame.layers[tile] for frame in shown.frames]
