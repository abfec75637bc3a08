"""Counts what a run did, for its progress bar, its last words, and whoever started it from Python."""

from __future__ import annotations

import warnings
from collections import Counter

from results.front.left_out import BROKEN_BY_BOUNDS, LEFT_OUT, outcome
from results.store.schema.rows import AnswerRow, DesignRow
from sweep.blocks.block import BlockTally
from sweep.forecast.plan import StudyPlan
from sweep.run.progress.observer import RunObserver

OUTCOMES = {
    "complete": "evaluated",
    LEFT_OUT: "left out, for their answers break a constraint",
    BROKEN_BY_BOUNDS: "not solved, for their bounds break a constraint",
    "infeasible": "infeasible",
    "dominated": "discarded by their bounds",
    "failed": "failed",
}
"""By the outcome of a design, what the end of a run says of it."""
MOST_REASONS, LONGEST_REASON = 3, 200
"""How many reasons of failed solves the end of a run names, and the most characters of each."""


class RunTally(RunObserver):
    """Counts what became of solves and designs so far.

    ``total``: solves known of. ``done``: those that ended; among them ``hits`` were answered from the store
    and ``failures`` failed, which ``errors`` counts by their reason. ``schedule_cpu_seconds``: CPU time spent
    on whole networks, schedules. ``program_cpu_seconds``: on writing programs of schedules.
    ``layer_cpu_seconds``: on everything else. Answers from the store count in none of them. ``designs``
    counts designs by their outcome, ``trials`` has the Optuna numbers of those with a row.
    """

    def __init__(self) -> None:
        self.hits = self.failures = self.total = self.done = 0
        self.schedule_cpu_seconds = self.program_cpu_seconds = self.layer_cpu_seconds = 0.0
        self.errors: Counter[str] = Counter()
        self.designs: Counter[str] = Counter()
        self.trials: set[int] = set()

    def planned(self, plan: StudyPlan) -> None:
        self.total = plan.distinct

    def asked(self, solves: int) -> None:
        self.total += solves

    def answered(self, row: AnswerRow) -> None:
        self.done += 1
        self.hits += bool(row["cached"])
        if row["status"] == "failed":
            self.failures += 1
            self.errors[str(row["error"])[:LONGEST_REASON]] += 1
        if not row["cached"]:
            spent = row.get("cpu_seconds") or 0.0  # of a solve that could not begin there is none
            if "network" in row:
                self.schedule_cpu_seconds += spent
            elif "schedule_id" in row:
                self.program_cpu_seconds += spent
            else:
                self.layer_cpu_seconds += spent

    def block_done(self, tally: BlockTally) -> None:
        self.done += tally.solves
        self.hits += tally.hits
        self.failures += tally.failures
        self.layer_cpu_seconds += tally.cpu_seconds
        for error, count in tally.errors.items():
            self.errors[error[:LONGEST_REASON]] += count
        self.designs.update(tally.designs)

    def designed(self, row: DesignRow) -> None:
        self.designs[outcome(row)] += 1
        if (number := row["trial"]) is not None:
            self.trials.add(number)

    def judged_again(self, row: DesignRow, before: str) -> None:
        self.designs[before] -= 1
        self.designs[outcome(row)] += 1

    @property
    def summary(self) -> str:
        """What became of the designs, and how many proposals repeated earlier ones, as one sentence."""
        kinds = [
            f"{self.designs[status]} {said}" for status, said in OUTCOMES.items() if self.designs[status]
        ]
        # trials count from 0: a number below the largest that has no design repeated an earlier proposal
        if repeats := max(self.trials, default=-1) + 1 - len(self.trials):
            kinds.append(f"{repeats} proposals repeated earlier ones")
        return f"{self.designs.total()} designs: {', '.join(kinds)}"

    @property
    def failure_summary(self) -> str:
        """How many solves failed, the most frequent reasons, and where all of them are."""
        reasons = [f"{count} times {error}" for error, count in self.errors.most_common(MOST_REASONS)]
        return (
            f"{self.failures} of {self.done} solves failed: {'; '.join(reasons)}. "
            "The report and the rows of the run folder (status failed, column error) have each; "
            "the same command tries them again"
        )


class WarningTally(RunTally):
    """A tally that raises the plan's warnings as Python warnings; for runs without a progress bar."""

    def planned(self, plan: StudyPlan) -> None:
        super().planned(plan)
        for text in plan.warnings:
            warnings.warn(text, stacklevel=2)
