"""The first page of the documentation: what its study printed must be what it shows.

    python -m tests.docs.first_page LOG

LOG has what ``archsweep run quickstart`` printed in an empty folder. Its 516 solves take most of a minute, so
that .ci/run solves them once, from the wheel.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.docs.guide_blocks import GUIDES, Block, blocks_of, check_what_is_shown

FIRST_PAGE = GUIDES.parent / "index.md"
INSTALL = "pip install -e .\narchsweep run quickstart\n"


def first_page() -> list[Block]:
    """Its blocks: the commands, and then what they print."""
    return blocks_of(FIRST_PAGE.read_text(encoding="utf-8"))


def check_first_page(log: str) -> None:
    """AssertionError where the page has other commands, or shows what the log does not have."""
    commands, *shown = first_page()
    assert commands == Block("sh", INSTALL)
    assert shown
    check_what_is_shown([commands, *shown], [log, *("" for _ in shown)])


if __name__ == "__main__":
    check_first_page(Path(sys.argv[1]).read_text(encoding="utf-8"))
