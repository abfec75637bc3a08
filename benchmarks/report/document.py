"""BENCHMARKS.md from records: every number in it is read from one, or from published.yaml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from published import numbers
from record import Record

from report.inputs import taken
from report.suite import SECTIONS, Effort, Entry
from report.table import Table, written

HEAD = """# Benchmarks

Every number below was measured by the command above it, or was published by the source beside it. The whole
file is written by `{command}` from the records of these runs:
change the benchmarks, not the file. CPU seconds are those of a run's own processes (Ray's workers are not
among them), peak memory that of its largest process; wall seconds depend on what else the machine does. What
each column means stands in the first lines of each program (`--help`)."""


def document(
    told: Mapping[str, Record | str], effort: Effort, inputs: Mapping[str, Path], command: str
) -> str:
    """The file's text. ``told``: the record of each entry by name, or why there is none."""
    records = [record for record in told.values() if isinstance(record, Record)]
    lines = [HEAD.format(command=command), "", *_surroundings(records), ""]
    lines += ["## At a glance", "", *_glance(told).markdown(), ""]
    for section, entries in SECTIONS.items():
        lines += [f"## {section}", ""]
        for entry in entries:
            found = told.get(entry.name, "it was not run")
            words = found.arguments if isinstance(found, Record) else None
            lines += _entry(entry, found, taken(entry.arguments(effort), words, inputs))
    return "\n".join(lines).rstrip() + "\n"


def _headline(entry: Entry, told: Record) -> str:
    """ValueError, with the entry's name, for a record that checked nothing."""
    assert entry.headline is not None
    try:
        return entry.headline(told.found)
    except ValueError as error:
        raise ValueError(f"{entry.name}: {error}") from None


def _glance(told: Mapping[str, Record | str]) -> Table:
    """A line a benchmark that has one."""
    rows = [
        (f"[{entry.title}](#{_anchor(entry.title)})", _headline(entry, found))
        for entries in SECTIONS.values()
        for entry in entries
        if entry.headline and isinstance(found := told.get(entry.name), Record)
    ]
    return Table(("benchmark", "result"), tuple(rows))


def _anchor(title: str) -> str:
    """The address of a heading within the page, as GitHub makes it."""
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -_")
    return kept.replace(" ", "-")


def _surroundings(records: Sequence[Record]) -> Iterator[str]:
    """Where and when, once; several lines where the records differ."""
    if not records:
        yield "No benchmark has a record."
        return
    where = [record.surroundings for record in records]
    packages = [", ".join(f"{name} {version}" for name, version in here.packages.items()) for here in where]
    rows = {
        "machine": [here.machine for here in where],
        "system": [here.system for here in where],
        "Python": [here.python for here in where],
        "packages": packages,
        "commit (+: with changes)": [here.commit for here in where],
        "date": [here.date for here in where],
    }
    cells = tuple((name, "; ".join(dict.fromkeys(values))) for name, values in rows.items())
    spent = sum(record.cpu_seconds for record in records) / 60
    yield from Table(("measured", "on"), (*cells, ("CPU minutes of all", spent))).markdown()


def _entry(entry: Entry, told: Record | str, arguments: str) -> Iterator[str]:
    yield from (f"### {entry.title}", "")
    command = f"`python benchmarks/{entry.program}.py{' ' * bool(arguments)}{arguments}`"
    if isinstance(told, str):
        yield from (f"{command}: **no result**, {told}.", "")
        return
    seconds = f"{written(told.cpu_seconds)} CPU s, {written(told.wall_seconds)} wall s"
    yield from (f"{command}: {seconds}, {told.peak_memory_mib} MiB", "")
    if told.status:
        yield from (f"**It ended with status {told.status}: something that has to hold does not.**", "")
    for table in entry.tables(told.found):
        yield from (*table.markdown(), "")
    if published := _published(entry):
        yield from (*published.markdown(), "")


def _published(entry: Entry) -> Table | None:
    """The published numbers to compare with, a line a source."""
    by_source: dict[str, list[str]] = {}
    for key, number in numbers().items():
        if entry.published and key.startswith(entry.published):
            by_source.setdefault(number.source, []).append(f"{number.text} ({number.where})")
    rows = tuple((source, "; ".join(texts)) for source, texts in by_source.items())
    return Table(("published by", "numbers (and where)"), rows) if rows else None
