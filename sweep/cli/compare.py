"""What ``archsweep compare`` does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from costmodel.errors import InputError
from results.errors import WrongRowError
from results.explain.runs import RunComparison, compared, union_front
from results.explain.runs_page import write_comparison
from results.front.pareto import check_objectives
from results.report.data import RunData
from results.store.remote.run_folder import is_uri
from results.units import TIMES, digits, percent
from sweep.cli.explain import print_table
from sweep.cli.messages import WorkFailedError
from sweep.run.finished import checked_run
from sweep.run.output import name_of, run_at

FEWEST_RUNS = 2
MOST_LINES = 20
"""Lines of a table in a terminal; --json and the page have more."""


def compare_runs(
    locations: Sequence[str], objectives: Sequence[str], page: Path | None, as_json: bool
) -> None:
    """``archsweep compare``: runs in folders or at URIs, compared by nothing but their rows.

    InputError for fewer than two, for what is no run and for no objective; WorkFailedError where no run has a
    design to compare.
    """
    if len(locations) < FEWEST_RUNS:
        raise InputError("RUN", "two runs or more", ", ".join(locations))
    if len(set(locations)) < len(locations):
        raise InputError("RUN", "different runs", next(iter(Counter(locations).most_common(1)))[0])
    if objectives:
        try:
            check_objectives(objectives)
        except WrongRowError as error:
            raise InputError(
                "--objective", f"objectives of a design. {error.remedy}", error.problem
            ) from None
    with ExitStack() as open_runs:
        runs: dict[str, RunData] = {}
        chosen = tuple(objectives) or None
        for name, location in zip(_names(locations), locations, strict=True):
            path = checked_run(open_runs.enter_context(run_at(location))).path
            runs[name] = RunData.read(path, chosen)
            chosen = chosen or runs[name].objectives
        if not any(run.judged for run in runs.values()):
            raise WorkFailedError(f"no run has a design with all of {', '.join(chosen or ())}")
        comparison = compared(runs)
        on_all = {name: len(designs) for name, designs in union_front(runs).items()}
        if page is not None:
            write_comparison(runs, comparison, page)
    if as_json:
        content = asdict(comparison)
        for run in content["runs"]:
            run["on_front_of_all"] = on_all[run["name"]]
        print(json.dumps(content))
        return
    _print(comparison, on_all)
    if page is not None:
        print(f"page: {page}")


def _names(locations: Sequence[str]) -> list[str]:
    """The last part of each location, or all of it where two would be called the same."""
    short = [name_of(one) if is_uri(one) else Path(one).resolve().name for one in locations]
    return short if len(set(short)) == len(short) else list(locations)


def _print(comparison: RunComparison, on_all: dict[str, int]) -> None:
    rows = [
        (
            run.name,
            f"{run.judged:,}",
            f"{run.front:,}",
            f"{on_all[run.name]:,}",
            f"{run.hypervolume:.6g}",
            percent(run.of_best),
        )
        for run in comparison.runs
    ]
    objectives = ", ".join(comparison.objectives)
    headers = ("run", "judged", "on its front", "on the front of all", "hypervolume", "of all together")
    print_table(f"fronts over {objectives}", headers, rows)
    for pair, count in comparison.compared.items():
        print(f"{pair}: {count} designs in common")
    sides = [
        (
            ", ".join(f"{axis} {text}" for axis, text in one.axes.items()),
            one.runs[0] if one.on_front[0] else one.runs[1],
            one.runs[1] if one.on_front[0] else one.runs[0],
            ", ".join(f"{name} {TIMES}{digits(b / a)}" for name, (a, b) in one.values.items() if a),
        )
        for one in comparison.changed[:MOST_LINES]
    ]
    if sides:
        title = f"designs that changed sides ({len(comparison.changed)})"
        print_table(title, ("design", "on the front of", "not on that of", "second over first"), sides)
    causes = [
        (
            "; ".join(some),
            f"{len(layers):,}",
            _range([x.energy_ratio for x in layers]),
            _range([x.cycles_ratio for x in layers]),
        )
        for some, layers in comparison.by_cause.items()
    ]
    if not causes:
        print("every layer that two runs share costs the same in both")
        return
    print_table(
        "why layers cost something else", ("cause", "layers", "energy", "cycles"), causes[:MOST_LINES]
    )
    layers = [
        (
            " → ".join(one.runs),
            ", ".join(one.axes.values()),
            f"{one.network}/{one.name}",
            f"{TIMES}{digits(one.energy_ratio)}",
            f"{TIMES}{digits(one.cycles_ratio)}",
            "; ".join(one.causes),
        )
        for one in comparison.differences[:MOST_LINES]
    ]
    title = f"the largest of {len(comparison.differences):,} differences"
    print_table(title, ("runs", "design", "layer", "energy", "cycles", "cause"), layers)


def _range(ratios: list[float]) -> str:
    return f"{TIMES}{digits(min(ratios))} to {TIMES}{digits(max(ratios))}"
