"""Tables of numbers in the chapters say where their numbers are from: a command, BENCHMARKS.md, or a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted((ROOT / "docs").glob("*.md"))
HEADING = re.compile(r"(#+) ")
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e\d+)?(?![\d.])")
MEASURED = re.compile(r"\d\.\d|\d (?:s|%|pJ)\b|\d %|\de\d\d")
PROGRAM = re.compile(r"benchmarks/\w+\.py")
COMMAND = re.compile(r"^    (?:archsweep|python) ", re.MULTILINE)
BENCHMARK = re.compile(r"\(benchmarks\.md#([\w-]+)\)")
SOURCE_FILE = re.compile(r"`(costmodel/[\w/.-]+)`")


def sections(text: str) -> Iterator[tuple[list[str], str]]:
    """Every section with what stands directly below its heading, and the same of the sections around it."""
    around: list[tuple[int, list[str]]] = [(0, [])]
    fenced = False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        if not fenced and (heading := HEADING.match(line)):
            yield around[-1][1], "\n".join(text for _, lines in around for text in lines)
            around = [one for one in around if one[0] < len(heading[1])] + [(len(heading[1]), [])]
        around[-1][1].append(line)
    yield around[-1][1], "\n".join(text for _, lines in around for text in lines)


def is_measured(row: str) -> bool:
    """Whether two cells of a table's row, or all but the first, begin with a number that looks measured."""
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    measured = [cell for cell in cells if NUMBER.match(cell) and MEASURED.search(cell)]
    return len(measured) >= min(2, len(cells) - 1)


def anchors() -> set[str]:
    """The headings of BENCHMARKS.md as links write them."""
    lines = (ROOT / "BENCHMARKS.md").read_text(encoding="utf-8").splitlines()
    titles = [line.lstrip("#").strip().lower() for line in lines if HEADING.match(line)]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def says_where_from(text: str) -> bool:
    """Whether a section names a program of benchmarks/, a command, a row of BENCHMARKS.md or a file that is
    there."""
    files = [*PROGRAM.findall(text), *SOURCE_FILE.findall(text)]
    return (
        bool(COMMAND.search(text))
        or any((ROOT / file).exists() for file in files)
        or any(anchor in anchors() for anchor in BENCHMARK.findall(text))
    )


def unsourced(text: str) -> list[str]:
    """The first row of numbers of each section that does not say where they are from."""
    found = []
    for own, whole in sections(text):
        rows = [line for line in own if line.startswith("|") and is_measured(line)]
        if rows and not says_where_from(whole):
            found.append(rows[0])
    return found


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.name)
def test_tables_of_numbers_say_where_they_are_from(page: Path) -> None:
    assert unsourced(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.name)
def test_programs_that_a_chapter_names_are_there(page: Path) -> None:
    programs = set(PROGRAM.findall(page.read_text(encoding="utf-8")))
    assert [program for program in sorted(programs) if not (ROOT / program).is_file()] == []


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.name)
def test_a_chapter_leads_to_the_measurements_of_its_programs(page: Path) -> None:
    """Numbers of a chapter stay as they were typed, those of BENCHMARKS.md are measured anew: readers find
    both."""
    text = page.read_text(encoding="utf-8")
    rows = set(BENCHMARK.findall(text))
    assert rows - anchors() == set()
    measured = set(PROGRAM.findall((ROOT / "BENCHMARKS.md").read_text(encoding="utf-8")))
    has_tables = any(is_measured(line) for line in text.splitlines() if line.startswith("|"))
    if has_tables and measured & set(PROGRAM.findall(text)):
        assert rows


TABLE = "| solver | gap | time |\n|---|---|---|\n| exact | 1.003 | 0.2 s |\n"


@pytest.mark.parametrize(
    "source",
    [
        "`python benchmarks/exact_quality.py` prints",
        "    archsweep run schedulers",
        "see [packing](benchmarks.md#allocation-alone)",
        "from `costmodel/compiled.py`",
    ],
)
def test_what_counts_as_a_source(source: str) -> None:
    assert unsourced(f"# A\n\n{source}\n\n## B\n\n{TABLE}") == []
    assert unsourced(f"# A\n\n{TABLE}\n## B\n\n{source}\n") == ["| exact | 1.003 | 0.2 s |"]


@pytest.mark.parametrize(
    "nothing", ["`benchmarks/gone.py`", "(benchmarks.md#gone)", "`costmodel/gone.py`", ""]
)
def test_what_is_not_there_is_no_source(nothing: str) -> None:
    assert unsourced(f"# A\n\n{nothing}\n\n{TABLE}") == ["| exact | 1.003 | 0.2 s |"]
