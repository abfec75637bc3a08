"""HTML by construction safe: whatever is not ``Markup`` is escaped when it enters an element."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from json import dumps
from typing import Any

LONGEST_TEXT = 2000
"""Longer texts from data (a solver's whole traceback) are cut; the Parquet row has them in full."""


class Markup(str):
    """HTML to insert as it is."""


def element(tag: str, *children: object, **attributes: object) -> Markup:
    """``<tag attributes>children</tag>``; ``class_`` is class, ``data_x`` is data-x, None is left out."""
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{tag}{written}>{joined(children)}</{tag}>")


def joined(children: Iterable[object]) -> Markup:
    """The children one after the other, text escaped."""
    return Markup(
        "".join(child if isinstance(child, Markup) else escape(cut(str(child))) for child in children)
    )


def cut(text: str, longest: int = LONGEST_TEXT) -> str:
    """The text, or its beginning with the number of characters left out."""
    return text if len(text) <= longest else f"{text[:longest]} … ({len(text) - longest} characters more)"


def chart_text(value: object) -> str:
    """Text for a chart: plotly reads a few tags and entities in labels and hover boxes, so none may pass."""
    return escape(cut(str(value), 200), quote=False).replace("\n", " ")


def script_json(content: object) -> Markup:
    """JSON that cannot end its script element: no ``<``, ``>``, ``&`` and only ASCII."""
    text = dumps(content, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


@dataclass(frozen=True)
class Cell:
    """A table cell. ``sort``: the number that orders its column. ``number``: whether it stands right."""

    content: object
    sort: float | None = None
    number: bool = False

    def html(self) -> Markup:
        kind = "number" if self.number else None
        return element("td", self.content, class_=kind, data_sort=self.sort)


def number_cell(text: str, value: float | None) -> Cell:
    """A cell that shows ``text`` and is sorted by ``value``."""
    return Cell(text, value, number=True)


def table(headers: Sequence[object], rows: Iterable[Sequence[Cell | object]], caption: str) -> Markup:
    """A table in a frame that scrolls sideways; ``caption`` says what it shows."""
    body = [
        element("tr", *(cell.html() if isinstance(cell, Cell) else element("td", cell) for cell in row))
        for row in rows
    ]
    return _framed(headers, element("tbody", *body), caption)


def live_table(key: str, headers: Sequence[object], caption: str) -> Markup:
    """As ``table``, its rows to be filled in by ``report.js`` when the reader has chosen something."""
    return _framed(headers, element("tbody", id=key), caption)


def _framed(headers: Sequence[object], body: Markup, caption: str) -> Markup:
    head = element("thead", element("tr", *(element("th", header, scope="col") for header in headers)))
    inner = element("table", element("caption", caption), head, body)
    return element("div", inner, class_="scroll", tabindex=0, role="region", aria_label=caption)


def paragraph(*children: object, class_: str | None = None) -> Markup:
    return element("p", *children, class_=class_)


@dataclass(frozen=True)
class Figure:
    """A plotly figure: ``traces``, ``layout``, ``frames`` as plotly.js takes them, texts by chart_text."""

    key: str
    description: str
    traces: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]
    height: int = 420
    frames: Sequence[Mapping[str, Any]] = ()
    """Of an animation: what each frame changes in the traces."""

    def html(self) -> Markup:
        """The element that ``report.js`` draws the figure in, and the figure's data."""
        frame = element(
            "div",
            class_="figure",
            id=self.key,
            data_figure=f"{self.key}-data",
            role="img",
            aria_label=self.description,
            style=f"height:{self.height}px",
        )
        content = {"data": self.traces, "layout": self.layout}
        if self.frames:
            content["frames"] = self.frames
        return joined([frame, embedded(f"{self.key}-data", content)])


def embedded(key: str, content: object) -> Markup:
    """Data for ``report.js`` under the id ``key``."""
    return element("script", script_json(content), type="application/json", id=key)


@dataclass(frozen=True)
class ReportSection:
    """A part of the page under one heading."""

    key: str
    title: str
    content: Markup

    def html(self) -> Markup:
        heading = element("h2", self.title, id=f"{self.key}-title")
        return element("section", heading, self.content, id=self.key, aria_labelledby=f"{self.key}-title")
