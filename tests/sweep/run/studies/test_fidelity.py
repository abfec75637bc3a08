"""Two fidelities: the front is that of mapping every design with the study's own solver, for fewer solves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from costmodel.errors import InputError
from results.front.pareto import design_frame, front_mask, front_of
from results.store.folder import RunFolder, RunWriter
from results.store.known_answers import StoredAnswers
from sweep.blocks.block_work import solve
from sweep.forecast.plan import plan
from sweep.run.first_look import FidelityRun
from sweep.run.progress.run_tally import RunTally
from sweep.run.session import RuntimeChoice, run_study
from sweep.study.lock import study_id
from sweep.study.search_choice import Fidelity, GridSearch
from sweep.study.study import Study, load_study
from tests.sweep.conftest import PROBLEM
from tests.sweep.run.explored import MakeRuntime
from tests.thorough import also

HERE = RuntimeChoice(in_process=True)
FAMILY = """
name: family
networks: [problem.yaml, other.yaml, third.yaml]
architecture: eyeriss
axes:
  SRAM.size: {choices: [1 KiB, 2 KiB, 8 KiB, 32 KiB, 512 KiB]}
  RegFile.size: {choices: [8, 64, 512]}
  SRAM.fanout: {choices: [[4, 4], [2, 2]]}
  frequency: {choices: [100 MHz, 200 MHz]}
mapping: {solver: exact, wall_seconds: 20}
"""
EACH = 3
"""Distinct layers, so that many solves for each architecture."""


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("family")
    (folder / "family.yaml").write_text(FAMILY)
    (folder / "problem.yaml").write_text(PROBLEM)
    (folder / "other.yaml").write_text(PROBLEM.replace("M: 8", "M: 6"))
    (folder / "third.yaml").write_text(PROBLEM.replace("M: 8, N: 12", "M: 3, N: 4"))
    return load_study(str(folder / "family.yaml"))


@pytest.fixture(scope="module")
def everything(family: Study, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run of the family with its own solver; tests read it."""
    return run_study(family, tmp_path_factory.mktemp("everything") / "family", HERE)


@pytest.fixture(scope="module")
def two_runs(family: Study, tmp_path_factory: pytest.TempPathFactory) -> TwoRuns:
    """The family with kapla first, run twice in one folder; tests read it."""
    two, folder = looked_at_first(family), tmp_path_factory.mktemp("two") / "family"
    rows: list[dict[str, int]] = []
    tallies = RunTally(), RunTally()
    for tally in tallies:
        found = run_study(two, folder, HERE, observer=tally)
        rows.append({table: len(found.read_rows(table)) for table in ("layers", "designs")})
    return TwoRuns(two, found, tallies[1], rows)


class TwoRuns(NamedTuple):
    """``second``: what the second run counted; ``rows``: of each table after the first and the second."""

    study: Study
    folder: RunFolder
    second: RunTally
    rows: list[dict[str, int]]


def looked_at_first(study: Study, **fidelity: Any) -> Study:
    """The study with two fidelities; kapla looks first unless told."""
    chosen = Fidelity(**({"solver": "kapla"} | fidelity))
    return study.model_copy(update={"search": GridSearch(fidelity=chosen)})


def front(folder: RunFolder, study: Study) -> dict[str, tuple[float, ...]]:
    """The designs on the front with their objectives."""
    names = list(study.objectives)
    found = front_of(design_frame(folder), names)
    return {row["design_id"]: tuple(row[name] for name in names) for _, row in found.iterrows()}


def layers_of(folder: RunFolder, solver: str) -> dict[str, dict[str, Any]]:
    rows = [row for row in folder.read_rows("layers") if row["solver"] == solver]
    found = {row["task_id"]: row for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "chosen"),
    [
        ("edp", ("energy_pj", "cycles", "area_um2")),
        ("cycles", ("latency_seconds", "area_um2", "energy_pj")),
        *also(("energy", ("energy_pj", "area_um2")), ("edp", ("edp_pj_cycles",))),
    ],
)
def test_the_front_is_the_same_and_takes_fewer_solves(
    family: Study, tmp_path: Path, objective: str, chosen: tuple[str, ...]
) -> None:
    mapping = family.mapping.model_copy(update={"objective": objective})
    study = family.model_copy(update={"objectives": chosen, "mapping": mapping})
    everything = run_study(study, tmp_path / "a" / "family", HERE)
    two = looked_at_first(study)
    some = run_study(two, tmp_path / "b" / "family", HERE)
    assert front(some, two) == front(everything, study)
    rows, solved = some.read_rows("designs"), {r["design_id"]: r for r in everything.read_rows("designs")}
    assert {row["design_id"] for row in rows} == solved.keys()
    assert len(rows) == 60
    discarded = [row for row in rows if row["status"] == "dominated"]
    assert discarded
    # each was rightly left out: its bounds hold, and a design of the front dominates what its solves give
    points = np.array(list(front(everything, study).values()))
    for row in discarded:
        full = solved[row["design_id"]]
        assert row["energy_pj"] is None
        assert row["energy_bound_pj"] <= full["energy_pj"]
        assert row["cycles_bound"] <= full["cycles"]
        assert row["solves"] < EACH
        reached = np.array([full[name] for name in chosen])
        assert not front_mask(np.vstack([points, reached]))[-1]
    # what was solved is what a run of everything has, and as much of it as the designs' rows say
    mine, all_of_it = layers_of(some, "exact"), layers_of(everything, "exact")
    for task_id, row in mine.items():
        assert row["objective"] == all_of_it[task_id]["objective"]
        assert row["status"] == "optimal"
    by_architecture = {row["architecture_id"]: 0 for row in all_of_it.values()}
    assert len(all_of_it) == EACH * len(by_architecture) == EACH * 30
    assert len(mine) < len(all_of_it)
    assert len(layers_of(some, "kapla")) == len(all_of_it)


@pytest.mark.slow
def test_a_first_look_that_misleads_costs_solves_and_no_design_of_the_front(
    family: Study, everything: RunFolder, tmp_path: Path
) -> None:
    """One random mapping a layer says next to nothing; the bounds decide what is left out all the same."""
    wrong = looked_at_first(family, solver="random_search", iterations=1, seed=5)
    some = run_study(wrong, tmp_path / "b" / "family", HERE)
    assert front(some, wrong) == front(everything, family)


@pytest.mark.slow
def test_a_first_look_that_fails_is_said_and_changes_nothing(
    family: Study, everything: RunFolder, tmp_path: Path, in_process: MakeRuntime
) -> None:
    two = looked_at_first(family)

    def failing(problem: Any, asked: Any) -> Any:
        if asked.settings.solver == "kapla":
            raise RuntimeError("no cheap answer")
        return solve(problem, asked)

    (tmp_path / "b").mkdir()
    tally = RunTally()
    planned = plan(two)
    assert planned.table is not None
    with RunWriter(tmp_path / "b" / "family") as writer:
        run = FidelityRun(two, planned.table, planned.workload, writer, tally)
        run.explore(in_process(replace(run.work, solve=failing)))
    folder = RunFolder(tmp_path / "b" / "family")
    assert front(folder, two) == front(everything, family)
    assert tally.failures == EACH * 30
    assert {row["error"] for row in layers_of(folder, "kapla").values()} == {"RuntimeError: no cheap answer"}


@pytest.mark.slow
def test_a_group_is_left_in_the_middle(two_runs: TwoRuns) -> None:
    """What a design's first solves answered is counted instead of their bounds, and its row says so."""
    left = [
        row for row in two_runs.folder.read_rows("designs") if row["status"] == "dominated" and row["solves"]
    ]
    assert left, "the family has designs whose bounds alone do not say enough"
    for row in left:
        assert 0 < row["solves"] < EACH
        assert "an evaluated design has" in row["note"]


@pytest.mark.slow
def test_the_same_command_goes_on_and_solves_nothing_twice(two_runs: TwoRuns, everything: RunFolder) -> None:
    assert two_runs.second.done == two_runs.second.hits
    assert two_runs.rows[0] == two_runs.rows[1]
    assert front(two_runs.folder, two_runs.study) == front(everything, two_runs.study)


def test_the_plan_counts_both_fidelities(family: Study, everything: RunFolder) -> None:
    assert plan(family).distinct == EACH * 30
    two = looked_at_first(family)
    planned = plan(two)
    assert (planned.distinct, planned.open, planned.first_open) == (2 * EACH * 30, 2 * EACH * 30, EACH * 30)
    planned = plan(two, StoredAnswers(everything.path.parent))
    assert (planned.open, planned.first_open) == (EACH * 30, EACH * 30)


def test_studies_without_it_keep_their_identity(family: Study) -> None:
    assert "fidelity" not in family.identity["search"]
    assert study_id(looked_at_first(family)) != study_id(family)
    slower = family.model_copy(
        update={"search": GridSearch(fidelity=Fidelity(solver="kapla", wall_seconds=90))}
    )
    assert slower.solve_seconds == 90
    assert slower.solvers == ["exact", "kapla"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{method: grid, fidelity: {solver: kaplan}}", ["search.fidelity.solver", "kapla"]),
        ("{method: grid, fidelity: {solver: set}}", ["search.fidelity.solver", "found set"]),
        ("{method: grid, fidelity: {solver: kapla, params: {deep: 1}}}", ["search.fidelity.params.deep"]),
        ("{method: grid, fidelity: {}}", ["search.fidelity.solver"]),
        ("{method: optuna, trials: 3, fidelity: {solver: kapla}}", ["search.fidelity"]),
    ],
)
def test_a_wrong_fidelity_names_its_key(write_study: Callable[..., Path], text: str, said: list[str]) -> None:
    path = write_study(FAMILY.replace(", other.yaml, third.yaml", "") + f"search: {text}\n")
    with pytest.raises(InputError) as caught:
        plan(load_study(str(path)))
    for word in said:
        assert word in str(caught.value)


@pytest.mark.parametrize(("name", "of"), [("vit-scratchpad", "with a scratchpad"), ("set-edge", "of chips")])
def test_fidelities_are_of_studies_of_mappings(name: str, of: str) -> None:
    study = load_study(name).model_dump(by_alias=True)
    with pytest.raises(ValueError, match=f"no fidelity in a study {of}"):
        Study.model_validate(study | {"search": {"method": "grid", "fidelity": {"solver": "kapla"}}})


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.thorough
def test_workers_of_a_cluster_find_the_same_front(
    family: Study, everything: RunFolder, tmp_path: Path
) -> None:
    two = looked_at_first(family)
    some = run_study(two, tmp_path / "b" / "family", RuntimeChoice(workers=2))
    assert front(some, two) == front(everything, family)
    assert len(layers_of(some, "exact")) < len(layers_of(everything, "exact"))
