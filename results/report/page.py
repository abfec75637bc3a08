"""The report of a run: one HTML page that needs no network.

``write_report(Path("runs/quickstart"))`` writes ``report.html`` into the run folder and returns its path.
The page is the same for the same rows and lock file: it carries no date of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from results.report.data import RunData
from results.report.html import Markup, ReportSection, joined
from results.report.sections.chosen import chosen_section
from results.report.sections.designs import designs_section
from results.report.sections.failures import failures_section
from results.report.sections.front import front_section
from results.report.sections.importance import importance_section
from results.report.sections.memory import memory_section
from results.report.sections.parallel import parallel_section
from results.report.sections.progress import progress_section
from results.report.sections.run import headline, provenance_section
from results.report.sections.schedules import schedules_section
from results.report.sections.solves import solves_section
from results.report.sections.spending import spending_section
from results.store.parts import write_whole

REPORT_FILE = "report.html"

SectionOf = Callable[[RunData], ReportSection | None]

SECTIONS: tuple[SectionOf, ...] = (
    front_section,
    designs_section,
    parallel_section,
    importance_section,
    progress_section,
    spending_section,
    chosen_section,
    schedules_section,
    solves_section,
    memory_section,
    failures_section,
    provenance_section,
)


def write_report(run_folder: Path, objectives: tuple[str, ...] | None = None) -> Path:
    """Write ``report.html`` of a run folder, whole or not at all; objectives None: the study's own.

    Raises NotARunError, DamagedFileError, WrongRowError (an unknown objective) or CannotWriteError.
    """
    page = build_page(RunData.read(run_folder, objectives))
    path = run_folder / REPORT_FILE
    write_whole(path, lambda file: file.write_text(page, encoding="utf-8"))
    return path


def write_schedules_page(run_folder: Path, path: Path) -> Path:
    """Write a page of the run's schedules only to ``path``, whole or not at all; raises as write_report."""
    page = build_page(RunData.read(run_folder), (schedules_section, failures_section, provenance_section))
    write_whole(path, lambda file: file.write_text(page, encoding="utf-8"))
    return path


def build_page(run: RunData, parts: Sequence[SectionOf] = SECTIONS) -> str:
    """The whole page, plotly.js included once."""
    from plotly.offline import get_plotlyjs

    study = run.lock.get("study")
    study = study if isinstance(study, dict) else {}
    sections = [section for build in parts if (section := build(run)) is not None]
    links = [Markup(f'<a href="#{section.key}">{escape(section.title)}</a>') for section in sections]
    return Template(_asset("report.html")).substitute(
        title=escape(str(study.get("name") or run.path.name)),
        description=escape(str(study.get("description") or "")),
        links=joined(links),
        headline=headline(run),
        sections=joined(section.html() for section in sections),
        style=_asset("report.css"),
        plotly=get_plotlyjs(),
        script=_asset("report.js"),
    )


def _asset(name: str) -> str:
    return (files("results.report") / name).read_text(encoding="utf-8")
