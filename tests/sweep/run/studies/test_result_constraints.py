"""Constraints on results: what breaks one keeps its answers, is on no front, and is counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from costmodel.errors import InputError
from results.front.left_out import BROKEN_BY_BOUNDS, left_out_sentence, outcome
from results.front.pareto import design_frame, front_of, left_out_of
from results.report.data import RunData
from results.report.page import build_page
from results.store.folder import RunFolder
from results.store.schema.rows import DesignRow
from sweep.design.design_row import broken_by_bounds, design_row
from sweep.design.evaluated_front import EvaluatedFront
from sweep.design.workload import workload_of
from sweep.run.progress.run_tally import RunTally
from sweep.run.pruning import BoundsPruning
from sweep.run.session import RuntimeChoice, run_study
from sweep.search.optuna_search import OptunaProposals
from sweep.search.search import design_space, search_of
from sweep.study.designs.design_space import Constraint
from sweep.study.study import Study, load_study
from tests.sweep.conftest import PROBLEM, TINY
from tests.sweep.ended import Command
from tests.sweep.run.studies.test_phases import DECODE, PREFILL, written

HERE = RuntimeChoice(in_process=True)
WriteStudy = Callable[[str], Path]


@pytest.fixture(scope="module")
def unconstrained(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """The tiny study without constraints: what its designs reach."""
    folder = tmp_path_factory.mktemp("free")
    (folder / "problem.yaml").write_text(PROBLEM)
    (folder / "tiny.yaml").write_text(TINY)
    return run_study(load_study(str(folder / "tiny.yaml")), folder / "run", HERE)


def between(run: RunFolder, column: str) -> float:
    """A limit that some designs of the run meet and others do not."""
    values = sorted(set(design_frame(run)[column]))
    return float((values[0] + values[-1]) / 2)


@pytest.mark.slow
def test_what_breaks_a_constraint_is_stored_and_left_out(
    unconstrained: RunFolder, write_study: WriteStudy, command_line: Command, tmp_path: Path
) -> None:
    limit = between(unconstrained, "cycles")
    file = write_study(f"{TINY}constraints: [cycles <= {limit!r}]\n")
    ended = command_line("run", str(file), "--in-process", "-o", str(tmp_path / "run"))
    assert ended.status == 0
    frame, free = design_frame(RunFolder(tmp_path / "run")), design_frame(unconstrained)
    columns = ["energy_pj", "cycles", "status"]
    # the same answers as without the constraint
    assert frame[columns].to_numpy().tolist() == free[columns].to_numpy().tolist()
    beyond = frame["cycles"] > limit
    assert 0 < beyond.sum() < len(frame)
    assert frame["feasible"].tolist() == (~beyond).tolist()
    for _, row in frame[beyond].iterrows():
        assert row["note"] == f"cycles <= {limit:g} (is {row['cycles']:g})"
    names = ["energy_pj", "cycles"]
    assert (
        front_of(frame, names)["design_id"].tolist() == front_of(free[~beyond], names)["design_id"].tolist()
    )
    count = int(beyond.sum())
    are = "is" if count == 1 else "are"
    said = f"{count} of 4 designs {are} left out: cycles <= {limit:g} is broken by {count}"
    assert left_out_of(RunFolder(tmp_path / "run")) == said
    assert f"{4 - count} evaluated, {count} left out, for their answers break a constraint" in ended.err
    assert said in " ".join(ended.out.split())
    shown = command_line("pareto", str(tmp_path / "run"))
    assert said in " ".join(shown.out.split())
    listed = command_line("pareto", str(tmp_path / "run"), "--csv")
    assert said in listed.err
    assert said not in listed.out
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert said.replace("<=", "&lt;=") in page
    assert f"Left out by constraints on results: {count}" in page


@pytest.mark.slow
def test_a_run_with_no_design_left_says_why(
    write_study: WriteStudy, command_line: Command, tmp_path: Path
) -> None:
    file = write_study(f"{TINY}constraints: [watts <= 1e-9, energy_pj <= 1]\n")
    ended = command_line("run", str(file), "--in-process", "-o", str(tmp_path / "run"))
    assert ended.status == 0
    said = "4 of 4 designs are left out: watts <= 1e-09 is broken by 4, energy_pj <= 1 by 4"
    assert said in " ".join(ended.out.split())
    assert said.replace("<=", "&lt;=") in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_what_breaks_a_constraint_discards_no_other_design(
    unconstrained: RunFolder, write_study: WriteStudy, tmp_path: Path
) -> None:
    limit = between(unconstrained, "cycles")
    # the slow designs are the small ones, which without the constraint would dominate by their area
    text = f"{TINY}constraints: [cycles >= {limit!r}]\nobjectives: [cycles, area_um2]\n"
    whole = load_study(str(write_study(text)))
    pruned = load_study(str(write_study(f"{text}search: {{method: grid, prune_by_bounds: true}}\n")))
    runs = [run_study(one, tmp_path / name, HERE) for one, name in ((whole, "whole"), (pruned, "pruned"))]
    names = ["cycles", "area_um2"]
    fronts = [front_of(design_frame(run), names)[names].to_numpy().tolist() for run in runs]
    assert fronts[0]
    assert fronts[0] == fronts[1]


PRUNED = "search: {method: grid, prune_by_bounds: true}\n"


def test_designs_whose_bounds_break_a_constraint_are_not_solved(
    unconstrained: RunFolder, write_study: WriteStudy, tmp_path: Path
) -> None:
    frame = design_frame(unconstrained)
    # between the bounds of designs: some are beyond it whatever their mappings
    bounds = sorted(set(frame["cycles_bound"]))
    limit = float(bounds[0] + bounds[-1]) / 2
    text = f"{TINY}constraints: [cycles <= {limit!r}, tokens_per_second >= 1]\n"
    text = text.replace("networks: [problem.yaml]", "networks: [{network: problem.yaml, tokens: 1}]")
    tally = RunTally()
    whole = run_study(load_study(str(write_study(text))), tmp_path / "whole" / "run", HERE)
    some = load_study(str(write_study(text + PRUNED)))
    pruned = run_study(some, tmp_path / "pruned" / "run", HERE, observer=tally)
    rows = {row["design_id"]: row for row in pruned.read_rows("designs")}
    left = [row for row in rows.values() if outcome(cast(DesignRow, row)) == BROKEN_BY_BOUNDS]
    assert 0 < len(left) < len(rows)
    assert f"{len(left)} not solved, for their bounds break a constraint" in tally.summary
    for row in left:
        assert row["energy_pj"] is None
        assert row["solves"] == 0
        assert row["note"].startswith(f"cycles <= {limit:g} (is at least ")
    task_by_task = BoundsPruning(some, workload := workload_of(some))
    for design in design_space(some).grid():
        made = task_by_task.discard(design, workload.tasks(design))
        found = rows[design_row(some, design)["design_id"]]
        assert (None if made is None else made["note"]) == (found["note"] if found in left else None)
    for row in whole.read_rows("designs"):
        if (found := rows[row["design_id"]]) in left:
            assert row["cycles"] >= found["cycles_bound"] > limit
    names = list(some.objectives)
    fronts = [front_of(design_frame(run), names)["design_id"].tolist() for run in (whole, pruned)]
    assert fronts[0]
    assert fronts[0] == fronts[1]


def test_trials_whose_bounds_break_a_constraint_are_not_solved_and_told_to_the_sampler(
    unconstrained: RunFolder, write_study: WriteStudy, tmp_path: Path
) -> None:
    bounds = sorted(set(design_frame(unconstrained)["cycles_bound"]))
    limit = float(bounds[0] + bounds[-1]) / 2
    search = "search: {method: optuna, sampler: random, trials: 6, seed: 2, prune_by_bounds: true}\n"
    study = load_study(str(write_study(f"{TINY}constraints: [cycles <= {limit!r}]\n{search}")))
    run = run_study(study, tmp_path / "run", HERE)
    rows = run.read_rows("designs")
    left = [row for row in rows if outcome(cast(DesignRow, row)) == BROKEN_BY_BOUNDS]
    assert 0 < len(left) < len(rows)
    solved = {row["design_id"] for row in rows if row["solves"]}
    for row in left:
        assert row["design_id"] not in solved
        assert row["cycles_bound"] > limit
        assert row["note"].startswith(f"cycles <= {limit:g} (is at least ")
    # another session goes on from what is stored: it solves nothing, and its sampler knows each trial
    tally = RunTally()
    run_study(study, tmp_path / "run", HERE, observer=tally)
    assert tally.hits == tally.done
    proposals = search_of(study)
    assert isinstance(proposals, OptunaProposals)
    for _ in rows:
        (design,) = proposals.ask()
        row = next(one for one in rows if one["trial"] == design.trial)
        proposals.tell(cast(DesignRow, row))
        told = proposals._trials()[row["trial"]].constraints
        assert (max(told.values()) > 0) == (not row["feasible"])


@pytest.mark.slow
def test_times_and_rates_of_a_request_are_bounded(command_line: Command, tmp_path: Path) -> None:
    free = RunFolder(tmp_path / "free")
    assert (
        command_line("run", written(tmp_path, PREFILL, DECODE), "--in-process", "-o", str(free.path)).status
        == 0
    )
    frame = design_frame(free)
    seconds = float(frame["time_to_first_token_bound_seconds"].min())
    rate = float(frame["tokens_per_second"].max())
    for limit, said in (
        (f"time_to_first_token_seconds <= {seconds / 1e3:g}", "at least"),
        (f"tokens_per_second >= {rate * 1e3:g}", "at most"),
    ):
        folder = tmp_path / said.replace(" ", "") / "run"
        keys = {"constraints": [limit], "search": {"method": "grid", "prune_by_bounds": True}}
        ended = command_line(
            "run", written(tmp_path, PREFILL, DECODE, **keys), "--in-process", "-o", str(folder)
        )
        assert ended.status == 0
        assert f"{len(frame)} not solved, for their bounds break a constraint" in ended.err
        for row in RunFolder(folder).read_rows("designs"):
            assert f"{limit} (is {said} " in row["note"]
        assert not RunFolder(folder).read_rows("layers")


def test_power_and_lower_limits_are_not_judged_by_lower_bounds() -> None:
    limits = [Constraint.parse(text) for text in ("watts <= 1", "cycles >= 100", "energy_pj <= 5")]
    row: Any = {"watts": 9.0, "cycles": 3, "energy_pj": 7.0}
    assert broken_by_bounds(limits, row) == "energy_pj <= 5 (is at least 7)"
    assert not broken_by_bounds(limits, row | {"energy_pj": 5.0})


def test_only_designs_that_meet_the_constraints_dominate(tiny: Study) -> None:
    front = EvaluatedFront(3)
    row: Any = {"status": "complete", "feasible": False, "energy_pj": 1.0, "cycles": 1, "area_um2": 1.0}
    front.add_row(tiny, row)
    assert front.dominating(np.array([2.0, 2.0, 2.0])) is None
    front.add_row(tiny, row | {"feasible": True})
    assert front.dominating(np.array([2.0, 2.0, 2.0])) is not None


def test_a_sampler_learns_by_how_much_results_break_constraints(write_study: WriteStudy) -> None:
    text = f"{TINY}constraints: [cycles <= 100]\nsearch: {{method: optuna, trials: 4, sampler: tpe}}\n"
    search = search_of(load_study(str(write_study(text))))
    assert isinstance(search, OptunaProposals)
    excesses = []
    for cycles in (50, 150):
        (design,) = search.ask()
        assert design.trial is not None
        row: Any = {"status": "complete", "trial": design.trial, "feasible": cycles <= 100}
        search.tell(row | {"energy_pj": 1.0, "cycles": cycles, "area_um2": 1.0})
        excesses.append(search._trials()[design.trial].constraints["cycles <= 100"])
    assert excesses == [-0.5, 0.5]
    # only what meets the constraints counts where a search asks whether it still finds something
    assert len(search._evaluated) == 1


def test_the_tally_tells_designs_that_are_left_out_from_others() -> None:
    tally = RunTally()
    row: Any = {"status": "complete", "feasible": False, "trial": None}
    tally.designed(row)
    tally.designed(row | {"feasible": True})
    assert dict(tally.designs) == {"left out": 1, "complete": 1}
    tally.judged_again(row | {"feasible": True}, "left out")
    assert dict(+tally.designs) == {"complete": 2}


def test_a_design_that_breaks_two_constraints_counts_with_both() -> None:
    notes = ["watts <= 1 (is 2)", "watts <= 1 (is 3); cycles < 5 (is 5)"]
    said = "2 of 1,800 designs are left out: watts <= 1 is broken by 2, cycles < 5 by 1"
    assert left_out_sentence(notes, 1800) == said
    assert left_out_sentence([], 3) == ""


@pytest.mark.parametrize(
    ("constraint", "said"),
    [
        (
            "time_to_first_token <= 0.5",
            r"study\.yaml: constraints\[0\]: expected 'QUANTITY <= NUMBER' with a quantity among area_um2, .*"
            r"time_to_first_token_seconds.*, found time_to_first_token <= 0\.5\. "
            r"Did you mean time_to_first_token_seconds\?",
        ),
        ("watt <= 10", r"found watt <= 10\. Did you mean watts\?"),
        ("watts <= ten", r"constraints\[0\]: expected 'QUANTITY <= NUMBER'"),
        ("dram_bytes <= 5", r"chip: expected a 'chip', for the constraint dram_bytes <= 5, found none"),
        ("off_chip_bytes <= 5", r"scratchpad: expected a 'scratchpad' block, for the constraint off_chip"),
    ],
)
def test_a_constraint_on_what_no_result_has_is_refused(constraint: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        load_study(written(tmp_path, PREFILL, DECODE, constraints=[constraint]))


@pytest.mark.parametrize(
    ("constraint", "said"),
    [
        ("tokens_per_second >= 5", r"phases: expected 'tokens' of a network, for the constraint tokens_per"),
        (
            "time_per_output_token_seconds <= 1",
            r"phases: expected a decode phase, for the constraint time_per",
        ),
    ],
)
def test_a_constraint_needs_the_phase_that_it_speaks_of(constraint: str, said: str, tmp_path: Path) -> None:
    asked = {"objectives": ["cycles"], "constraints": [constraint]}
    with pytest.raises(InputError, match=said):
        load_study(written(tmp_path, PREFILL, **asked))


def test_constraints_on_results_may_not_exclude_each_other(tmp_path: Path) -> None:
    constraints = ["watts <= 1", "area_um2 <= 5", "watts >= 2"]
    with pytest.raises(InputError, match=r"constraints\[2\]: expected constraints that some number meets"):
        load_study(written(tmp_path, PREFILL, DECODE, constraints=constraints))


@pytest.mark.slow
def test_a_baseline_that_breaks_a_constraint_is_compared_with_and_said_to_be_left_out(
    write_study: WriteStudy, tmp_path: Path
) -> None:
    baseline = "baseline: {SRAM.size: 2 KiB, SRAM.fanout: [2, 2]}\n"
    free = run_study(load_study(str(write_study(TINY + baseline))), tmp_path / "free", HERE)
    slow = design_frame(free).query("baseline")["cycles"].item()
    constrained = f"{TINY}{baseline}constraints: [cycles < {slow}]\n"
    path = run_study(load_study(str(write_study(constrained))), tmp_path / "run", HERE).path
    page = build_page(RunData.read(path))
    assert f"It is left out: cycles &lt; {slow:g} (is {slow:g})." in page
