"""Optuna searches: proposals, repeats, constraints, stops, and a journal that a killed run goes on from."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from optuna.search_space import IntersectionSearchSpace

from costmodel.errors import InputError
from results.front.pareto import design_frame, front_of, hypervolume, recent_gain, reference_point
from results.store.folder import RunFolder, RunWriter
from results.store.schema.rows import DesignRow
from sweep.blocks.block import BlockTally
from sweep.forecast.plan import plan
from sweep.run.progress.observer import RunObserver
from sweep.run.session import RuntimeChoice, run_study
from sweep.search.optuna_search import OptunaProposals
from sweep.search.search import design_space, search_of
from sweep.search.trial_journal import NAME
from sweep.study.designs.design_space import Design
from sweep.study.study import Study, load_study
from tests.clusters.processes import line_of

HERE = RuntimeChoice(in_process=True)
SAMPLERS = ("nsga2", "nsga3", "tpe", "qmc", "random")
FAMILY = """
name: family
networks: [problem.yaml]
architecture: eyeriss
axes:
  SRAM.size: {from: 2, to: 64, powers_of_two: true, unit: KiB}
  SRAM.fanout: {choices: [[2, 2], [4, 2], [4, 4], [8, 4]]}
  RegFile.size: {choices: [8, 32, 128, 512]}
search: {method: optuna, trials: 40, population: 8}
mapping: {solver: random_search, objective: edp, iterations: 100, wall_seconds: 20}
"""


@pytest.fixture
def family(write_study: Callable[..., Path]) -> Study:
    return load_study(str(write_study(FAMILY)))


def changed(study: Study, **search: Any) -> Study:
    """The study with other keys of its search; a population only where the sampler has one."""
    keys = study.search.model_dump() | search
    if not keys["sampler"].startswith("nsga"):
        del keys["population"]
    return Study.model_validate(study.model_dump(by_alias=True) | {"search": keys})


def told(design: Design, **columns: Any) -> DesignRow:
    """A row with objectives that follow from the axes: small designs are slow, large ones cost area."""
    architecture = design.architecture
    cycles = 1e6 / architecture.mac_units
    energy = 1e6 / architecture.levels[0].size_words + architecture.levels[1].size_words  # type: ignore[operator]
    row: Any = {"status": "complete", "trial": design.trial, "energy_pj": energy, "cycles": cycles}
    found: DesignRow = row | {"area_um2": architecture.area_um2} | columns
    return found


def search(study: Study, journal: Path | None = None) -> OptunaProposals:
    found = search_of(study, journal)
    assert isinstance(found, OptunaProposals)
    return found


def drive(found: OptunaProposals, at_once: int = 1) -> list[Design]:
    """Ask and tell to the end, ``at_once`` designs open at a time."""
    proposed: list[Design] = []
    waiting: list[Design] = []
    while not found.finished:
        waiting += found.ask()
        if len(waiting) >= at_once or found.finished:
            for design in waiting:
                found.tell(told(design))
            proposed += waiting
            waiting = []
    return proposed


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("at_once", [1, 16])
def test_every_design_is_proposed_once_however_many_are_open(
    family: Study, sampler: str, at_once: int
) -> None:
    found = search(changed(family, sampler=sampler))
    values = [design.values for design in drive(found, at_once)]
    assert len(values) == 40
    assert len({str(value) for value in values}) == 40
    trials = found._trials()
    assert len(trials) == 40 + found.repeats


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_space_is_exhausted_and_then_the_search_ends(family: Study, sampler: str) -> None:
    found = search(changed(family, sampler=sampler, trials=1000))
    assert len({str(design.values) for design in drive(found, 4)}) == design_space(family).size == 96


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_equal_seeds_propose_equally_and_others_do_not(family: Study, sampler: str) -> None:
    once, again, other = (
        [str(design.values) for design in drive(search(changed(family, sampler=sampler, seed=seed)))]
        for seed in (3, 3, 4)
    )
    assert once == again
    assert once != other


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("stop", [0, 13])
def test_a_journal_goes_on_as_if_nothing_had_happened(
    family: Study, tmp_path: Path, sampler: str, stop: int
) -> None:
    """The driver dies with a trial open, in the middle of writing the next record."""
    study = changed(family, sampler=sampler)
    undisturbed = [str(design.values) for design in drive(search(study))]
    first = search(study, tmp_path / NAME)
    for _ in range(stop):
        for design in first.ask():
            first.tell(told(design))
    open_when_killed = first.ask()
    with (tmp_path / NAME).open("ab") as journal:
        journal.write(b'{"op_code": 6, "trial_')
    second = search(study, tmp_path / NAME)
    again = second.ask()
    assert [design.trial for design in again[-1:]] == [design.trial for design in open_when_killed]
    for design in again:
        second.tell(told(design))
    assert [str(design.values) for design in [*again, *drive(second)]] == undisturbed


@pytest.mark.slow
def test_a_study_that_asks_for_something_else_has_trials_of_its_own(family: Study, tmp_path: Path) -> None:
    drive(search(family, tmp_path / NAME))
    more = changed(family, trials=45)
    assert len(drive(search(more, tmp_path / NAME))) == 45, "the first 40 are handed out again"
    assert len(search(more, tmp_path / NAME)._points) == 45
    assert not search(changed(family, seed=9), tmp_path / NAME)._points


@pytest.mark.slow
def test_constraints_are_told_and_broken_ones_steer(family: Study) -> None:
    limited = family.model_copy(update={"constraints": ("mac_units <= 8", "area_um2 > 1e5")})
    found = search(changed(limited, trials=60))
    while not found.finished:
        for design in found.ask():
            found.tell(told(design, status="complete" if design.feasible else "infeasible"))
    designs = {trial.number: trial for trial in found._trials()}
    for trial in designs.values():
        point = tuple(trial.params.values())
        architecture = design_space(limited).design(point).architecture
        assert (trial.constraints["mac_units <= 8"] <= 0) == (architecture.mac_units <= 8)
        assert (trial.constraints["area_um2 > 100000"] <= 0) == (architecture.area_um2 > 1e5)
    best = found._optuna.best_trials
    assert best
    assert all(excess <= 0 for trial in best for excess in trial.constraints.values())


def test_failed_solves_and_unmappable_layers_are_told_apart(family: Study) -> None:
    found = search(family)
    failed, unmapped, fine = (found.ask()[0] for _ in range(3))
    found.tell(told(failed, status="failed"))
    found.tell(told(unmapped, status="infeasible"))
    found.tell(told(fine))
    states = [trial.state.name for trial in found._trials()]
    assert states == ["FAIL", "COMPLETE", "COMPLETE"]
    assert [trial.number for trial in found._optuna.best_trials] == [fine.trial]


def test_a_plateau_ends_the_search(family: Study) -> None:
    found = search(changed(family, trials=96, plateau={"trials": 10, "tolerance": 0.01}))
    rows: Any = map(told, drive(found))
    values = [[float(row[name]) for name in family.objectives] for row in rows]
    assert len(values) < 96
    assert recent_gain(values, 10) <= 0.01
    reference = reference_point(values)
    assert hypervolume(values[:-10], reference) >= 0.99 * hypervolume(values, reference)
    assert all(recent_gain(values[:count], 10) > 0.01 for count in range(11, len(values)))


def test_a_budget_of_seconds_ends_the_proposing(family: Study) -> None:
    found = search(changed(family, wall_seconds=1e-9))
    assert found.finished


@pytest.mark.slow
def test_the_baseline_is_first_inside_the_family_and_outside(family: Study) -> None:
    inside = {"SRAM.size": "8 KiB", "SRAM.fanout": [4, 2], "RegFile.size": 32}
    for baseline, trial in ((inside, 0), (inside | {"SRAM.fanout": [3, 3]}, None)):
        designs = drive(search(family.model_copy(update={"baseline": baseline})))
        assert designs[0].values == tuple(baseline.items())
        assert designs[0].trial == trial
        assert [design.baseline for design in designs] == [True] + [False] * (len(designs) - 1)


def test_axes_without_an_order_are_categories(family: Study) -> None:
    space = design_space(family)
    assert all(axis.ordered for axis in space.axes)
    shuffled = family.model_dump(by_alias=True)
    shuffled["axes"]["RegFile.size"] = {"choices": [128, 8, 512, 32]}
    found = search(Study.model_validate(shuffled))
    assert not design_space(Study.model_validate(shuffled)).axes[2].ordered
    drive(found)
    kinds = {name: type(d).__name__ for name, d in found._trials()[0].distributions.items()}
    assert kinds["RegFile.size"] == "CategoricalDistribution"
    assert kinds["SRAM.size"] == "IntDistribution"


@pytest.mark.parametrize("sampler", ["nsga2", "nsga3", "tpe"])
def test_samplers_are_told_the_space_that_optuna_finds_in_the_trials(family: Study, sampler: str) -> None:
    keys = family.model_dump(by_alias=True)
    keys["axes"] |= {"RegFile.size": {"choices": [128, 8, 32]}, "frequency": {"choices": ["1 GHz"]}}
    found = search(changed(Study.model_validate(keys), sampler=sampler))
    drive(found)
    told = found._optuna.sampler.infer_relative_search_space(found._optuna, found._trials()[0])
    known = IntersectionSearchSpace().calculate(found._optuna)
    assert told == {name: known[name] for name in ("SRAM.size", "SRAM.fanout", "RegFile.size")}
    assert known["frequency"].single()


class Watch(RunObserver):
    def __init__(self) -> None:
        self.solved = 0

    def block_done(self, tally: BlockTally) -> None:
        self.solved += tally.solves - tally.hits


@pytest.mark.slow
def test_a_run_in_this_process_has_a_row_for_every_trial(family: Study, tmp_path: Path) -> None:
    limited = family.model_copy(update={"constraints": ("mac_units <= 16",)})
    study = changed(limited, prune_by_bounds=True)
    watch = Watch()
    folder = run_study(study, tmp_path / "runs" / "family", HERE, observer=watch)
    rows = folder.read_rows("designs")
    statuses = {status: [r for r in rows if r["status"] == status] for status in ("infeasible", "dominated")}
    assert len(rows) == 40
    assert all(statuses.values())
    assert len({row["trial"] for row in rows}) == 40
    assert watch.solved == 40 - sum(map(len, statuses.values())), "these two cost no solve"
    assert all(not row["solves"] for kind in statuses.values() for row in kind)
    again = Watch()
    after = run_study(study, tmp_path / "runs" / "family", HERE, observer=again).read_rows("designs")
    assert again.solved == 0
    assert {(r["trial"], r["design_id"], r["status"]) for r in after} == {
        (r["trial"], r["design_id"], r["status"]) for r in rows
    }


@pytest.mark.slow
def test_the_front_found_is_the_front_of_what_was_looked_at_pruned_or_not(
    family: Study, tmp_path: Path
) -> None:
    """A sampler that proposes regardless of what it is told: the same designs with and without."""
    fronts = []
    for name, prune in (("a", False), ("b", True)):
        study = changed(family, sampler="qmc", trials=60, prune_by_bounds=prune)
        folder = run_study(study, tmp_path / name / "family", HERE)
        fronts.append(set(front_of(design_frame(folder), list(study.objectives))["design_id"]))
    assert fronts[0] == fronts[1]


@pytest.mark.slow
def test_a_plan_says_at_most(family: Study, tmp_path: Path) -> None:
    planned = plan(family, tmp_path)
    assert planned.at_most
    assert planned.asked == {"layers": 40}
    assert (len(planned.designs), planned.distinct, planned.open) == (40, 40, 40)
    folder = run_study(family, tmp_path / "family", HERE)
    assert len(folder.read_rows("layers")) <= planned.distinct
    whole = plan(changed(family, trials=96), tmp_path)
    assert not whole.at_most
    assert whole.distinct == 96


def test_a_population_without_generations_is_refused(family: Study) -> None:
    keys = family.search.model_dump() | {"sampler": "tpe"}
    with pytest.raises(ValueError, match="nsga2 and nsga3 only"):
        Study.model_validate(family.model_dump(by_alias=True) | {"search": keys})


@pytest.mark.parametrize(
    ("baseline", "message"),
    [
        ({"SRAM.size": "8 KiB"}, "baseline.SRAM.fanout: expected a value for each axis"),
        ({"nothing": 1}, "baseline.nothing: expected one of the axes"),
    ],
)
def test_a_baseline_names_every_axis(family: Study, baseline: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Study.model_validate(family.model_dump(by_alias=True) | {"baseline": baseline})


def test_a_baseline_that_breaks_a_constraint_is_refused(family: Study) -> None:
    baseline = {"SRAM.size": "8 KiB", "SRAM.fanout": [4, 2], "RegFile.size": 32}
    with pytest.raises(InputError, match=r"mac_units <= 4 \(is 8\)"):
        plan(family.model_copy(update={"baseline": baseline, "constraints": ("mac_units <= 4",)}))


KILLED = """
import sys
from pathlib import Path
from sweep.run.progress.observer import RunObserver
from sweep.run.session import RuntimeChoice, run_study
from sweep.study.study import load_study

class Held(RunObserver):
    left = 30

    def designed(self, row):
        self.left -= 1
        if self.left == 0:
            print("held", flush=True)
            sys.stdin.read()

run_study(load_study(sys.argv[1]), Path(sys.argv[2]), RuntimeChoice(in_process=True), observer=Held())
"""
"""A driver that goes as far as its thirtieth design, of the fourth generation, and waits to be killed."""


@pytest.mark.slow
def test_kill_9_in_the_middle_then_resume_is_the_undisturbed_study(
    write_study: Callable[..., Path], tmp_path: Path
) -> None:
    path = write_study(FAMILY)
    study, output = load_study(str(path)), tmp_path / "killed" / "family"
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path), str(output)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as driver:
        assert line_of(driver) == "held\n"
        driver.send_signal(signal.SIGKILL)
    assert _trials_told(output) >= 8
    with RunWriter(output):
        pass  # opening takes in the rows that were in no part yet
    solved = RunFolder(output).read("layers", ["task_id"]).num_rows
    watch = Watch()
    resumed = _designs(run_study(study, output, HERE, observer=watch))
    undisturbed = _designs(run_study(study, tmp_path / "calm" / "family", HERE))
    assert resumed == undisturbed
    assert len(resumed) == 40
    assert 0 < solved < 40
    assert watch.solved == 40 - solved, "what was solved before the kill is not solved again"


def _trials_told(folder: Path) -> int:
    """Records that give a trial its values."""
    journal = folder / NAME
    return journal.read_bytes().count(b'"values":[') if journal.is_file() else 0


def _designs(folder: RunFolder) -> set[tuple[Any, ...]]:
    rows = folder.read_rows("designs")
    return {(r["trial"], r["design_id"], r["status"], r["energy_pj"], r["cycles"]) for r in rows}
