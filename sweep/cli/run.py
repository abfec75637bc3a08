"""What ``archsweep run``, ``plan``, ``pareto`` and ``report`` do; notes and progress go to standard error."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from costmodel.errors import InputError
from results.errors import WrongRowError
from results.front.finished_run import RunFront
from results.front.pareto import check_objectives
from results.store.known_answers import StoredAnswers
from results.store.remote.run_folder import is_uri
from results.store.schema.rows import AnswerRow
from sweep.blocks.block import BlockTally
from sweep.cli.compiling import said_of_workers
from sweep.cli.jobs.watch import watching
from sweep.cli.messages import WorkFailedError, note, shown, warn
from sweep.forecast.plan import StudyPlan, plan
from sweep.forecast.prediction import predict
from sweep.run.finished import drawn_report, front_at, run_to_report
from sweep.run.output import name_of, read_from
from sweep.run.progress.live_progress import FEWEST_SOLVED
from sweep.run.progress.run_tally import RunTally
from sweep.run.session import RuntimeChoice, run_folder, store_of
from sweep.study.study import load_study

ASKED = {
    "layers": "layers to map",
    "fusions": "groups of layers to map together",
    "scratchpads": "scratchpads to plan",
    "schedules": "schedules to find",
}
"""What a plan asks for, by the table of the answers."""
LINE_SECONDS = 10.0
"""How often progress is said where no bar can be drawn."""


@dataclass(frozen=True)
class RunOptions:
    output: str | None
    runtime: RuntimeChoice
    resume: bool
    watch: bool = False


class Counting:
    """Says how far the count of a large family is, on standard error, every LINE_SECONDS."""

    def __init__(self) -> None:
        self._said = time.monotonic()

    def counted(self, done: int, total: int) -> None:
        if time.monotonic() - self._said > LINE_SECONDS:
            self._said = time.monotonic()
            note(f"counted {done:,} of {total:,} designs")


class ProgressBar(RunTally):
    """Solves done, cache hits, failures and the time left, on standard error."""

    def __init__(self) -> None:
        super().__init__()
        self._counting = Counting()
        self._start = self._said = time.monotonic()
        self._console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("solves"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[hits]} from the store"),
            TextColumn("{task.fields[failures]} failed"),
            TextColumn("ETA"),
            TimeRemainingColumn(),
            console=self._console,
        )
        self._bar: TaskID = self._progress.add_task("solves", total=None, hits=0, failures=0)

    def counted(self, done: int, total: int) -> None:
        self._counting.counted(done, total)

    def planned(self, plan: StudyPlan) -> None:
        super().planned(plan)
        note(_headline(plan))
        for warning in plan.warnings:
            warn(warning)
        self._progress.update(self._bar, total=self.total)
        self._progress.start()

    def asked(self, solves: int) -> None:
        super().asked(solves)
        self._progress.update(self._bar, total=self.total)

    def answered(self, row: AnswerRow) -> None:
        super().answered(row)
        self._advance(1)

    def block_done(self, tally: BlockTally) -> None:
        super().block_done(tally)
        self._advance(tally.solves)

    def _advance(self, solves: int) -> None:
        self._progress.update(self._bar, advance=solves, hits=self.hits, failures=self.failures)
        if not self._console.is_terminal and time.monotonic() - self._said > LINE_SECONDS:
            self._say_line()

    def _say_line(self) -> None:
        """Where there is no terminal to draw a bar on, as in the log of a job."""
        self._said = time.monotonic()
        said = f"{self.done}/{self.total} solves, {self.hits} from the store, {self.failures} failed"
        if (solved := self.done - self.hits) >= FEWEST_SOLVED:
            left = (self.total - self.done) * (self._said - self._start) / solved
            said += f", about {left:.0f} s left"
        note(said)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


@contextmanager
def terminate_as_interrupt() -> Iterator[None]:
    """SIGTERM ends the run as Ctrl-C does: what is there is flushed, and the run can be resumed."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def run_and_report(name: str, options: RunOptions) -> None:
    """``archsweep run``: plan, solve what is open, write the report, show the best designs."""
    study = load_study(name)
    output = options.output
    follower = watching(output or str(run_folder(study))) if options.watch else nullcontext()
    try:
        with (
            terminate_as_interrupt(),
            ProgressBar() as bar,
            said_of_workers(not options.runtime.in_process),
            follower,
        ):
            run = run_to_report(study, output, options.runtime, bar, resume=options.resume)
    except KeyboardInterrupt:
        raise WorkFailedError(
            "stopped; what was solved is stored, and the same command goes on from there"
        ) from None
    note(run.summary)
    _print_front(
        RunFront(run.objectives, run.front, run.networks, run.left_out), f"{study.name}: Pareto front"
    )
    print(f"report: {run.report}")
    if run.failed:
        raise WorkFailedError(bar.failure_summary)


def _headline(plan: StudyPlan) -> str:
    asked = " and ".join(f"{count} {ASKED[table]}" for table, count in plan.asked.items())
    if plan.cost_solves:
        asked += f", after {plan.cost_solves} solves of what layers cost"
    if plan.asking:
        asked += ", which ask for more solves as they go"
    if plan.at_most:
        return f"at most {len(plan.designs)} designs, {asked}, {plan.open} solves"
    text = (
        f"{len(plan.designs)} designs, {asked}: {plan.distinct} distinct solves, "
        f"{plan.distinct - plan.open} in the store, {plan.open} to solve"
    )
    return f"{text}; {plan.infeasible} designs are infeasible" if plan.infeasible else text


def show_plan(name: str, workers: int, output: str | None, as_json: bool) -> None:
    """``archsweep plan``."""
    study = load_study(name)
    with read_from(study, output) as folder:
        store = StoredAnswers(store_of(folder))
        planned = plan(study, store, Counting().counted)
        prediction = predict(study, planned, store)
    forecast = prediction.on(workers)
    row: dict[str, Any] = {
        "study": study.name,
        "designs": len(planned.designs),
        "infeasible_designs": planned.infeasible,
        **{f"{table.removesuffix('s')}_solves": planned.asked.get(table, 0) for table in ASKED},
        "tile_cost_solves": planned.cost_solves,
        "asking_schedules": planned.asking,
        "predicted_asked_solves": prediction.open - planned.open,
        "schedule_objective": study.schedule and study.schedule.objective,
        "tile_objective": study.schedule and study.mapping_objective,
        "distinct_solves": planned.distinct,
        "open_solves": planned.open,
        "at_most": planned.at_most,
        "warnings": list(planned.warnings),
        "seconds_per_solve": prediction.seconds_per_solve,
        "measured_on": prediction.source,
        "core_hours": prediction.core_hours,
        "workers": workers,
        "wall_seconds": prediction.wall_seconds(workers),
        "sub_drivers": forecast.sub_drivers if forecast else 0,
        "efficiency": forecast.efficiency if forecast else None,
        "bottleneck": forecast.bottleneck if forecast else None,
    }
    if as_json:
        print(json.dumps(row))
        return
    for warning in row.pop("warnings"):
        warn(warning)
    table = Table(show_header=False, box=None)
    for key, value in row.items():
        if value or isinstance(value, float) or key == "open_solves":  # the study has none of what else is 0
            table.add_row(key.replace("_", " "), f"{value:.4g}" if isinstance(value, float) else str(value))
    Console().print(table)


def show_front(run: str, objectives: list[str], csv: bool) -> None:
    """``archsweep pareto``."""
    for option, name in zip(("--x", "--y"), objectives, strict=True):
        try:
            check_objectives([name])
        except WrongRowError as error:
            raise InputError(option, f"an objective of a design. {error.remedy}", name) from None
    if len(set(objectives)) < len(objectives):
        raise InputError("--y", "another objective than --x, for a front has two", objectives[-1])
    front = front_at(run, objectives)
    if csv:
        sys.stdout.write(front.table.to_csv(index=False))
        if front.left_out:
            note(front.left_out)
    else:
        name = name_of(run) if is_uri(run) else Path(run).name
        _print_front(front, f"{name}: Pareto front")


def draw_report(run: str, output: Path | None) -> None:
    """``archsweep report``; what lies at a URI is brought to ``output``, default runs/NAME."""
    try:
        print(drawn_report(run, output))
    except InputError as error:
        raise error.at("--output") if error.where == "output" else error from None


def _print_front(front: RunFront, title: str) -> None:
    table = Table(title=title)
    if front.networks:
        table.caption = Text(f"energy and latency are of {' and '.join(front.networks)}")
    columns = [
        column for column in front.table.columns if column.startswith("axis.") or column in front.objectives
    ]
    for column in columns:
        name = column.removeprefix("axis.").replace(".", "\n.")
        table.add_column(name, justify="right", overflow="fold")
    for _, design in front.table.iterrows():
        table.add_row(*(shown(design[column], 4) for column in columns))
    Console().print(table)
    if front.left_out:
        print(front.left_out)
