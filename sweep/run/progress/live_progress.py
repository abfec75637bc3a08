"""Tells how a run is going while it goes: every second a small file in the run folder.

``archsweep watch`` shows it (:mod:`results.report.live`). An answer costs the run loop a few comparisons
here. A thread of its own writes the file, so that a slow disk never holds up the loop that gives workers
their tasks. The loop's calls and that thread share all fields, under one lock.
"""

from __future__ import annotations

import threading
import time
import warnings
from bisect import insort
from collections import deque
from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from results.errors import CannotWriteError
from results.front.pareto import covers
from results.store.run_progress import FailedSolve, FrontStep, RunProgress, SlowSolve, State
from results.store.schema.rows import AnswerRow, DesignRow
from sweep.blocks.block import BlockTally
from sweep.forecast.plan import StudyPlan
from sweep.run.progress.observer import RunObserver
from sweep.run.progress.run_tally import LONGEST_REASON, RunTally
from sweep.study.study import Study

WRITE_SECONDS, BEAT_SECONDS = 1.0, 10.0
"""How often the file is written where something happened, and where nothing did: whoever reads it can tell a
run whose solves are long from one that was killed."""
RECENT_SECONDS = 60.0
"""Rate and busy workers are those of so many seconds."""
MOST_SLOWEST, MOST_FAILURES = 10, 10
FEWEST_SOLVED = 8
"""Before so many solves are done the first ones, which compile, say nothing of how long the rest takes."""


class LiveProgress(RunTally):
    """Watches the run of ``study`` and writes :class:`.RunProgress` into ``folder`` until the ``with``
    block ends.

    A file that cannot be written ends nothing: the run goes on, with one warning.
    """

    def __init__(self, study: Study, folder: Path) -> None:
        super().__init__()
        self._study, self._folder = study, folder
        self._began, self._start = time.time(), time.monotonic()
        self._planned = 0
        self._workers: dict[str, float] = {}
        """By process and host, when it last answered."""
        self._answers = deque[tuple[float, int]]()
        """When how many solves ended, within the last RECENT_SECONDS."""
        self._slowest: list[SlowSolve] = []
        self._failures = deque[FailedSolve](maxlen=MOST_FAILURES)
        self._steps: list[FrontStep] = []
        self._front: dict[str, tuple[float, ...]] = {}
        self._best: list[float] = []
        self._worst: list[float] = []
        self._guard = threading.Lock()
        self._ending, self._changed = threading.Event(), True
        self._thread = threading.Thread(target=self._write_often, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join()
        self._write("ended" if kind is None else "stopped")

    def planned(self, plan: StudyPlan) -> None:
        with self._guard:
            super().planned(plan)
            self._planned, self._changed = len(plan.designs), True

    def asked(self, solves: int) -> None:
        with self._guard:
            super().asked(solves)

    def answered(self, row: AnswerRow) -> None:
        with self._guard:
            super().answered(row)
            self._changed = True
            if row["status"] == "failed":
                self._failures.append(FailedSolve(_what(row), str(row["error"])[:LONGEST_REASON]))
            if row["cached"]:  # found in the store: that says nothing of the workers' pace
                return
            now = time.monotonic()
            self._answers.append((now, 1))
            if worker := row.get("worker"):
                self._workers[worker] = now
            self._note_slow(row, worker or "")

    def block_done(self, tally: BlockTally) -> None:
        with self._guard:
            super().block_done(tally)
            self._changed, now = True, time.monotonic()
            if solved := tally.solves - tally.hits:
                self._answers.append((now, solved))
            for row in tally.noted:
                worker = row.get("worker") or ""
                self._workers[worker] = now
                self._note_slow(row, worker)
                if row["status"] == "failed":
                    self._failures.append(FailedSolve(_what(row), str(row["error"])[:LONGEST_REASON]))
            for design in tally.judged:
                self._judge(design)

    def designed(self, row: DesignRow) -> None:
        with self._guard:
            super().designed(row)
            self._changed = True
            self._judge(row)

    def judged_again(self, row: DesignRow, before: str) -> None:
        with self._guard:
            super().judged_again(row, before)
            self._changed = True
            self._judge(row)

    def _note_slow(self, row: AnswerRow, worker: str) -> None:
        taken = row.get("wall_seconds") or 0.0
        if len(self._slowest) < MOST_SLOWEST or taken > self._slowest[0].wall_seconds:
            insort(self._slowest, SlowSolve(_what(row), taken, worker), key=attrgetter("wall_seconds"))
            del self._slowest[:-MOST_SLOWEST]  # sorted by seconds, so the quickest goes

    def _judge(self, row: DesignRow) -> None:
        """Enter a design among the steps of the front if no other one is at least as good everywhere."""
        values = [row.get(name) for name in self._study.objectives]
        if not row.get("feasible") or any(not isinstance(value, (int, float)) for value in values):
            return
        point = tuple(float(cast(float, value)) for value in values)
        self._best = [min(pair) for pair in zip(point, self._best or point, strict=True)]
        self._worst = [max(pair) for pair in zip(point, self._worst or point, strict=True)]
        # a design may be judged again, with better answers: its old point is no rival of the new one
        others = {name: other for name, other in self._front.items() if name != row["design_id"]}
        if any(covers(other, point) for other in others.values()):
            return
        self._front = {name: other for name, other in others.items() if not covers(point, other)}
        self._front[row["design_id"]] = point
        seconds = time.monotonic() - self._start
        step = FrontStep(row["design_id"], row["axes"], point, self.designs.total(), round(seconds, 3))
        self._steps.append(step)

    def _write_often(self) -> None:
        written = 0.0
        while not self._ending.wait(WRITE_SECONDS):
            if self._changed or time.monotonic() - written > BEAT_SECONDS:
                self._write("running")
                written = time.monotonic()

    def _write(self, state: State) -> None:
        with self._guard:
            self._changed = False
            progress = self._progress(state)
        try:
            progress.write(self._folder)
        except CannotWriteError as error:
            # the first failure warns and ends the writing; the run goes on
            if not self._ending.is_set():
                self._ending.set()
                warnings.warn(f"nobody can watch this run: {error}", stacklevel=2)

    def _progress(self, state: State) -> RunProgress:
        now = time.monotonic()
        while self._answers and now - self._answers[0][0] > RECENT_SECONDS:
            self._answers.popleft()
        solved, left = self.done - self.hits, max(self.total - self.done, 0)
        return RunProgress(
            study=self._study.name,
            objectives=self._study.objectives,
            state=state,
            began=self._began,
            seen=time.time(),
            planned=self._planned,
            designs=dict(self.designs),
            solves=max(self.total, self.done),
            done=self.done,
            cached=self.hits,
            failed=self.failures,
            cpu_seconds=self.layer_cpu_seconds + self.schedule_cpu_seconds + self.program_cpu_seconds,
            workers=len(self._workers),
            busy=sum(now - last <= RECENT_SECONDS for last in self._workers.values()),
            rate=sum(count for _, count in self._answers) / min(RECENT_SECONDS, max(now - self._start, 1e-3)),
            seconds_left=left * (now - self._start) / solved if solved >= FEWEST_SOLVED else None,
            best=tuple(self._best),
            worst=tuple(self._worst),
            steps=tuple(self._steps),
            slowest=tuple(reversed(self._slowest)),
            failures=tuple(self._failures),
        )


class RunObservers(RunObserver):
    """Several observers of one run, each told everything in turn."""

    def __init__(self, observers: Sequence[RunObserver]) -> None:
        self._observers = tuple(observers)

    def counted(self, done: int, total: int) -> None:
        for one in self._observers:
            one.counted(done, total)

    def planned(self, plan: StudyPlan) -> None:
        for one in self._observers:
            one.planned(plan)

    def answered(self, row: AnswerRow) -> None:
        for one in self._observers:
            one.answered(row)

    def block_done(self, tally: BlockTally) -> None:
        for one in self._observers:
            one.block_done(tally)

    def asked(self, solves: int) -> None:
        for one in self._observers:
            one.asked(solves)

    def designed(self, row: DesignRow) -> None:
        for one in self._observers:
            one.designed(row)

    def judged_again(self, row: DesignRow, before: str) -> None:
        for one in self._observers:
            one.judged_again(row, before)


def _what(row: AnswerRow) -> str:
    """What a row is the answer of, for people: a layer, a network, a graph, or parts of layers."""
    columns: Mapping[str, Any] = row
    named = next((columns[key] for key in ("layer_name", "network", "graph") if columns.get(key)), None)
    if named is None and (parts := columns.get("tile_parts")):
        named = f"{parts} parts of layers"
    return f"{columns.get('solver', '')}: {named or columns.get('task_id', '')}".removeprefix(": ")
