"""The report of a run: one HTML page that needs no network.

``write_report(Path("runs/quickstart"))`` writes ``report.html`` into the run folder and returns its path.
The page is the same for the same rows and lock file: it carries no date of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from results.report.data import RunData
from results.report.html import Markup, ReportSection, element, joined, paragraph
from results.report.page_shell import page_shell
from results.report.sections.how_sure.progress import progress_section
from results.report.sections.how_sure.solves import solves_section
from results.report.sections.what_next.failures import failures_section
from results.report.sections.what_next.next_steps import next_steps_section
from results.report.sections.what_next.run import headline, provenance_section
from results.report.sections.what_next.sensitivity import sensitivity_section
from results.report.sections.which_design.designs import designs_section
from results.report.sections.which_design.front import front_section
from results.report.sections.which_design.parallel import parallel_section
from results.report.sections.why_this_one.chosen import chosen_section
from results.report.sections.why_this_one.fusion import fusion_section
from results.report.sections.why_this_one.importance import importance_section
from results.report.sections.why_this_one.memory import memory_section
from results.report.sections.why_this_one.schedules import schedules_section
from results.report.sections.why_this_one.spending import spending_section
from results.store.parts import write_whole

REPORT_FILE = "report.html"
NEEDS_SCRIPT = "The charts and the details of one design need JavaScript; the other tables do not."

SectionOf = Callable[[RunData], ReportSection | None]

SECTIONS: tuple[SectionOf, ...] = (
    # which design, and how it compares
    front_section,
    designs_section,
    parallel_section,
    # how sure that is
    solves_section,
    progress_section,
    # why this one
    chosen_section,
    spending_section,
    importance_section,
    fusion_section,
    schedules_section,
    memory_section,
    # what would change it, and what to do now
    sensitivity_section,
    next_steps_section,
    failures_section,
    provenance_section,
)


def write_report(run_folder: Path, objectives: tuple[str, ...] | None = None) -> Path:
    """Write ``report.html`` of a run folder, whole or not at all; objectives None: the study's own.

    Raises NotARunError, DamagedFileError, WrongRowError (an unknown objective) or CannotWriteError.
    """
    return write_page(build_page(RunData.read(run_folder, objectives)), run_folder / REPORT_FILE)


def write_schedules_page(run_folder: Path, path: Path) -> Path:
    """Write a page of the run's schedules only to ``path``, whole or not at all; raises as write_report."""
    parts = schedules_section, failures_section, provenance_section
    return write_page(build_page(RunData.read(run_folder), parts), path)


def build_page(run: RunData, parts: Sequence[SectionOf] = SECTIONS) -> str:
    """The whole page of a run."""
    study = run.lock.get("study")
    study = study if isinstance(study, dict) else {}
    sections = [section for build in parts if (section := build(run)) is not None]
    title, description = str(study.get("name") or run.path.name), str(study.get("description") or "")
    return page_of(title, description, headline(run), sections)


def page_of(title: str, description: str, head: Markup, sections: Sequence[ReportSection]) -> str:
    """A page of these sections that needs no network, plotly.js included once."""
    links = (element("a", section.title, href=f"#{section.key}") for section in sections)
    nav = element("nav", *links, aria_label="Sections")
    # as Markup, because a study's description is shown whole
    described = paragraph(Markup(escape(description)), class_="description")
    without = element("noscript", paragraph(NEEDS_SCRIPT, class_="warning"))
    return page_shell(
        "archsweep report",
        title,
        joined([head, without, *(section.html() for section in sections)]),
        introduction=joined([described, nav]),
    )


def write_page(page: str, path: Path) -> Path:
    """Write a page, whole or not at all; CannotWriteError where it cannot be written."""
    write_whole(path, lambda file: file.write_text(page, encoding="utf-8"))
    return path
