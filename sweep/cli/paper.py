"""What ``archsweep paper`` does: run a paper's studies, print its tables, write them and a page."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sweep.cli.messages import WorkFailedError, note
from sweep.cli.run import terminate_as_interrupt
from sweep.papers.catalogue import figures_of, paper_of
from sweep.papers.paper import Effort
from sweep.papers.reproduction import Reproduced, reproduce
from sweep.run.session import RuntimeChoice

WIDEST = 1000
"""Characters of the widest table that is printed with a line for each row."""


def reproduce_paper(
    name: str, numbers: list[str], effort: Effort, output: Path | None, runtime: RuntimeChoice, as_json: bool
) -> None:
    """``archsweep paper``; WorkFailedError where some layer of some study has no answer."""
    paper = paper_of(name)
    figures = figures_of(paper, numbers)
    folder = output or Path("runs") / f"paper-{name}-{effort}"
    try:
        with terminate_as_interrupt():
            made = reproduce(paper, figures, effort, folder, runtime, note)
    except KeyboardInterrupt:
        raise WorkFailedError(
            "stopped; what was solved is stored, and the same command goes on from there"
        ) from None
    if as_json:
        print(json.dumps({"figures": [_plain(one) for one in made.figures], "page": str(made.page)}))
    else:
        for one in made.figures:
            _print(one)
        print(f"page: {made.page}")
    if made.unanswered:
        raise WorkFailedError(f"{made.unanswered} solves have no answer; the tables leave their layers out")


def _plain(one: Reproduced) -> dict[str, Any]:
    own = {"number": one.figure.number, "title": one.figure.title}
    if one.table is None:
        return own | {"not_reproduced": one.figure.not_reproduced}
    return own | asdict(one.table)


def _print(one: Reproduced) -> None:
    title = f"{one.figure.number}: {one.figure.title}"
    if one.table is None:
        print(f"{title}\nnot reproduced: {one.figure.not_reproduced}\n")
        return
    table = Table(title=Text(title))
    for number, header in enumerate(one.table.headers):
        table.add_column(Text(header), justify="right" if number else "left", no_wrap=True)
    for row in one.table.rows:
        table.add_row(*(value if isinstance(value, str) else f"{value:.4g}" for value in row))
    console = Console()
    # a row stays a line: a table of a dozen columns is of no use in eighty characters
    width = max(console.width, console.measure(table, options=console.options.update(width=WIDEST)).maximum)
    Console(width=width).print(table)
    for remark in one.table.remarks:
        print(remark)
    print()
