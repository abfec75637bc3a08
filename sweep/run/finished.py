"""Run a study up to its front and report; read the front, and draw the report, of a run that is finished."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from costmodel.errors import InputError
from results.errors import NotARunError, WrongRowError
from results.front.finished_run import FinishedRun, RunFront
from results.front.pareto import check_objectives, front_table, left_out_of, network_labels
from results.report.data import study_objectives
from results.report.page import write_report
from results.store.folder import RunFolder
from results.store.remote.run_folder import is_uri
from sweep.run.output import brought_home, name_of, run_at, written_to
from sweep.run.progress.run_tally import RunTally
from sweep.run.session import RuntimeChoice, run_study
from sweep.study.study import Study

RUNS = Path("runs")
"""The folder, below the current one, for run folders whose path nobody chose."""


def run_to_report(
    study: Study,
    output: str | None,
    runtime: RuntimeChoice,
    tally: RunTally,
    *,
    resume: bool = True,
) -> FinishedRun:
    """Run a study into ``output``, a folder or a URI (None: ``runs/NAME``), and draw its report there.

    ``tally`` watches the run. Raises what :func:`sweep.run.session.run_study` raises; failed solves raise
    nothing and are counted in the answer.
    """
    with written_to(study, output) as folder:
        run = run_study(study, folder, runtime, observer=tally, resume=resume)
        report = write_report(folder)
        front = _front(run, study.objectives)
        uri = output.partition("?")[0].rstrip("/") if output is not None and is_uri(output) else ""
        return FinishedRun(
            path=output if output is not None and uri else str(folder),
            report=f"{uri}/{report.name}" if uri else str(report),
            objectives=study.objectives,
            front=front.table,
            networks=front.networks,
            summary=tally.summary,
            failed=tally.failures,
            errors=dict(tally.errors),
            left_out=front.left_out,
        )


def front_at(location: str, objectives: Sequence[str] = ()) -> RunFront:
    """The front of the run at ``location``, a folder or a URI, over ``objectives`` (none: the study's own).

    Raises InputError where there is no run, and for an objective that there is not or that the run lacks.
    """
    with run_at(location) as path:
        run = checked_run(path)
        chosen = tuple(objectives) or study_objectives(run.read_lock_file())
        try:
            check_objectives(chosen)
        except WrongRowError as error:
            raise InputError("objectives", f"objectives of a design. {error.remedy}", error.problem) from None
        return _front(run, chosen)


def drawn_report(location: str, copy: Path | None = None) -> Path:
    """Draw the report of the run at ``location``, a folder or a URI, again; returns the path of the page.

    The report of a folder is drawn into it; InputError if a ``copy`` is asked for all the same. A run at a
    URI is first copied to the folder ``copy``, None: ``runs/NAME``. InputError, too, where there is no run.
    """
    if is_uri(location):
        path = brought_home(location, copy or RUNS / name_of(location))
    elif copy is not None:
        raise InputError("output", "none for a run folder, whose report is drawn into it", copy)
    else:
        path = Path(location)
    return write_report(checked_run(path).path)


def checked_run(path: Path) -> RunFolder:
    """The run folder at ``path``; InputError where there is no run."""
    try:
        return RunFolder(path).check()
    except NotARunError as error:
        found = f"a folder that {error.problem}" if path.is_dir() else "no folder"
        raise InputError(str(path), "a run folder", found, error.remedy) from None


def _front(run: RunFolder, objectives: tuple[str, ...]) -> RunFront:
    table = front_table(run, objectives)
    networks = tuple(network_labels(run)) if len(table) else ()
    return RunFront(objectives, table, networks, left_out_of(run))
