"""A study from Python: choose where it runs, run it into its folder, read what came back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from clusters.runtime import MemoryLimitError, Runtime, RuntimeSettings, Work
from costmodel.errors import InputError
from results.store.folder import RunFolder, RunWriter
from results.store.known_answers import StoredAnswers
from sweep import PACKAGES
from sweep.blocks.block_work import BlockWork
from sweep.blocks.division import BlockDivision
from sweep.forecast.plan import StudyPlan, plan
from sweep.run.block_run import BlockRun
from sweep.run.first_look import FidelityRun
from sweep.run.folder_owner import check_lock_file, check_rows
from sweep.run.generation_run import GenerationRun
from sweep.run.progress.live_progress import LiveProgress, RunObservers
from sweep.run.progress.observer import RunObserver
from sweep.run.run import StudyRun
from sweep.search.search import design_space, search_of
from sweep.search.trial_journal import journal_in
from sweep.study.lock import lock_content
from sweep.study.study import Study
from sweep.tasks.kinds import answer_task
from sweep.tasks.warm_up import solvers_of, warm_up

GRACE_SECONDS = 120.0
"""How much longer than the solver's own budget a solve may take before its worker is ended.

The first solve of a machine, or of a job's fresh folder, compiles for up to half a minute of CPU time.
"""


@dataclass(frozen=True)
class RuntimeChoice:
    """Where solves run: on the Ray cluster at ``address`` (default: one started here), or in this process."""

    address: str = ""
    workers: int | None = None
    """Processes that solve; None: one for each CPU of the cluster."""
    in_process: bool = False
    memory_limit_mib: int | None = None
    """Address space in MiB that a worker may add to what an idle one maps, the code of the study's solvers
    included. A solve that needs more is a failed row; a limit that leaves solves too little ends the run."""
    sub_drivers: int | None = None
    """Processes that share out work between driver and workers, of studies in blocks; None: by the number of
    workers (:func:`clusters.pace.sub_drivers_for`), none for few."""

    def __post_init__(self) -> None:
        for key in ("workers", "memory_limit_mib"):
            number = getattr(self, key)
            if number is not None and (not isinstance(number, int) or number < 1):
                raise InputError("run", "a whole number of at least 1", number, key=key)
        if self.in_process and self.memory_limit_mib is not None:
            raise InputError(
                "run", "workers, if there is a memory limit", "--in-process", "Leave one of the two out."
            )

        if self.in_process and (self.address or self.workers is not None):
            beside = "--address" if self.address else "--workers"
            raise InputError("run", f"no {beside} with --in-process", "both", "Leave one of the two out.")

    def runtime(self, study: Study, work: Work = answer_task) -> Runtime:
        """A runtime for the study's tasks, or other ``work``; close it, or use it in a ``with`` block."""
        return self.started(work, study.solve_seconds, solvers_of(study))

    def started(self, work: Work, solve_seconds: float, solvers: Sequence[str]) -> Runtime:
        """A runtime whose solves take up to ``solve_seconds`` each, by ``solvers`` of these names."""
        limit = solve_seconds + GRACE_SECONDS
        if self.in_process:
            from clusters.in_process import InProcessRuntime

            return InProcessRuntime(work, RuntimeSettings(wall_limit_seconds=limit))
        from clusters.ray.actors import RayRuntime

        memory = None if self.memory_limit_mib is None else self.memory_limit_mib << 20
        settings = RuntimeSettings(
            workers=self.workers,
            wall_limit_seconds=limit,
            memory_limit_bytes=memory,
            address=self.address,
            packages=PACKAGES,
            prepare=partial(warm_up, tuple(solvers)),
            divide=partial(BlockDivision, work) if isinstance(work, BlockWork) else None,
            sub_drivers=self.sub_drivers,
        )
        return RayRuntime(work, settings)


def run_folder(study: Study, output: Path | None = None) -> Path:
    """Where a study's results go: ``output``, or ``runs/NAME`` below the current folder.

    A Ray job's current folder is a copy that Ray deletes: there it is ``runs/NAME`` of the home folder.
    """
    if output is not None:
        return output
    in_a_copy = any(part.startswith("_ray_pkg_") for part in Path.cwd().parts)
    return (Path.home() if in_a_copy else Path()) / "runs" / study.name


def store_of(folder: Path) -> Path:
    """The folder that a run folder lies in: stored answers are looked up in all run folders there."""
    # the parent of "." and of "a/.." cannot be told from the text
    return folder.parent if folder.name not in ("", "..") else folder.resolve().parent


def run_study(
    study: Study,
    output: Path | None = None,
    runtime: RuntimeChoice = RuntimeChoice(),
    *,
    observer: RunObserver | None = None,
    resume: bool = True,
) -> RunFolder:
    """Run a study to its end and return its folder; with ``resume``, stored answers are used again.

    Raises InputError for wrong input and for a folder that holds the results of a study of another name, and
    ResultsError for a folder that cannot be written; all before any solve. A failed solve raises nothing: its
    row has the error. No Ray cluster is started where the store holds every answer of a grid or random
    search. An Optuna search goes on from its journal in the folder; without ``resume`` it starts anew.
    """
    folder = run_folder(study, output)
    check_lock_file(folder, study.name)
    store = StoredAnswers(store_of(folder)) if resume else None
    observer = observer or RunObserver()
    planned = plan(study, store, observer.counted)
    with RunWriter(folder) as writer:
        # again, for another run may have taken the folder while this one was planned
        check_lock_file(folder, study.name)
        check_rows(folder, study.name)
        writer.write_lock_file(lock_content(study, planned.warnings))
        with LiveProgress(study, folder) as live:
            watching = RunObservers([observer, live])
            watching.planned(planned)
            chosen = runtime if planned.open else RuntimeChoice(in_process=True)
            try:
                run = _run_of(study, planned, writer, watching, store, journal_in(folder, resume))
                with chosen.runtime(study, run.work) as started:
                    run.explore(started)
            except MemoryLimitError as error:
                raise _limit_too_low(error, study) from None
    return RunFolder(folder)


def _run_of(
    study: Study,
    planned: StudyPlan,
    writer: RunWriter,
    observer: RunObserver,
    store: StoredAnswers | None,
    journal: Path,
) -> BlockRun | FidelityRun | GenerationRun | StudyRun:
    """The loop that runs the study; a search that learns keeps its ``journal``."""
    workload = planned.workload
    if planned.table is not None:
        kind = BlockRun if study.fidelity is None else FidelityRun
        return kind(study, planned.table, workload, writer, observer, store)
    search = search_of(study, journal)
    if planned.in_generations:
        return GenerationRun(study, design_space(study), search, workload, writer, observer, store)
    return StudyRun(study, search, writer, observer, store, workload=workload)


def _limit_too_low(error: MemoryLimitError, study: Study) -> InputError:
    """The runtime's error as one about the option ``--memory-limit``; bytes are rounded up to whole MiB."""
    taken, least, limit = (
        -(-size // (1 << 20)) for size in (error.taken_bytes, error.least_bytes, error.limit_bytes)
    )
    return InputError(
        "--memory-limit",
        f"at least {least} MiB",
        f"{limit} MiB",
        f"The code of {' and '.join(solvers_of(study))} takes {taken} MiB of a worker's address space, "
        f"and solves need {least - taken} MiB more",
    )
