"""The colours of the charts: one thing has one colour on every page."""

from __future__ import annotations

FRONT_COLOR, DOMINATED_COLOR, BASELINE_COLOR = "#0d8b9b", "#98a0aa", "#d55e00"

COLORS = ("#0072b2", "#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#b8a800", "#7a6fbe")
"""Of levels, layers and solvers, in their order: neighbours also differ for readers who see fewer colours."""
MAC_COLOR = "#8a8f98"


def level_color(index: int, name: str) -> str:
    """The colour of a storage level by its number, or grey for the MAC units."""
    return MAC_COLOR if name == "MAC" else COLORS[index % len(COLORS)]
