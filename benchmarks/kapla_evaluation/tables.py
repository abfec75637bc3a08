"""Tables on the terminal, a line at a time: what has been measured shows at once."""

from __future__ import annotations

from collections.abc import Sequence


def percent(ratio: float | None) -> str:
    """An overhead; "none" where there is no answer to speak of."""
    return "none" if ratio is None else f"{ratio:.2%}"


def number(value: float | None, digits: int = 2) -> str:
    return "none" if value is None else f"{value:,.{digits}f}"


class Table:
    """Columns by their heads; the first is flush left and ``first`` characters wide."""

    def __init__(self, title: str, heads: Sequence[str], first: int = 12) -> None:
        self._widths = [first, *(max(9, len(head)) for head in heads[1:])]
        print(f"\n{title}")
        self.line(heads)

    def line(self, cells: Sequence[str]) -> None:
        head, *rest = zip(cells, self._widths, strict=True)
        print(f"{head[0]:{head[1]}}", *(f"{cell:>{width}}" for cell, width in rest), flush=True)
