"""Designs discarded by their proven bounds: the front stays the same, and each was rightly discarded."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results.front.pareto import design_frame, front_mask, front_of
from results.store.folder import RunFolder
from sweep.design.design_row import objective_bounds
from sweep.design.evaluated_front import EvaluatedFront
from sweep.design.mapping_workload import MappingWorkload
from sweep.forecast.plan import plan
from sweep.run.group_pruning import GroupPruning
from sweep.run.progress.run_tally import RunTally
from sweep.run.pruning import BoundsPruning
from sweep.run.session import RuntimeChoice, run_study
from sweep.search.search import design_space
from sweep.study.search_choice import GridSearch, OptunaSearch
from sweep.study.study import AxisChoices, Study, load_study

HERE = RuntimeChoice(in_process=True)
FAMILY = """
name: family
networks: [problem.yaml]
architecture: eyeriss
axes:
  SRAM.size: {choices: [2 KiB, 8 KiB, 32 KiB, 512 KiB]}
  RegFile.size: {choices: [8, 64, 512]}
  SRAM.fanout: {choices: [[4, 4], [2, 2]]}
mapping: {solver: random_search, objective: edp, iterations: 3000, wall_seconds: 20}
"""


@pytest.fixture
def family(write_study: Callable[..., Path]) -> Study:
    return load_study(str(write_study(FAMILY)))


def front(folder: RunFolder, study: Study) -> set[str]:
    return set(front_of(design_frame(folder), list(study.objectives))["design_id"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "chosen", [("energy_pj", "cycles", "area_um2"), ("edp_pj_cycles", "area_um2"), ("latency_seconds",)]
)
def test_the_front_of_a_grid_is_the_same_and_takes_fewer_solves(
    family: Study, tmp_path: Path, chosen: tuple[str, ...]
) -> None:
    study = family.model_copy(update={"objectives": chosen})
    pruned = study.model_copy(update={"search": GridSearch(prune_by_bounds=True)})
    everything = run_study(study, tmp_path / "a" / "family", HERE)
    some = run_study(pruned, tmp_path / "b" / "family", HERE)
    assert front(some, pruned) == front(everything, study)
    rows = some.read_rows("designs")
    discarded = [row for row in rows if row["status"] == "dominated"]
    assert discarded
    assert len(rows) == 24
    assert len(some.read_rows("layers")) == 24 - len(discarded)
    solved = {row["design_id"]: row for row in everything.read_rows("designs")}
    for row in discarded:
        assert row["solves"] == 0
        assert row["energy_pj"] is None
        assert row["energy_bound_pj"] <= solved[row["design_id"]]["energy_pj"]
        assert row["cycles_bound"] <= solved[row["design_id"]]["cycles"]
        assert f"{chosen[0]} at least" in row["note"]


@pytest.mark.slow
def test_what_the_store_answers_is_not_discarded(family: Study, tmp_path: Path) -> None:
    run_study(family, tmp_path / "family", HERE)
    pruned = family.model_copy(update={"search": GridSearch(prune_by_bounds=True)})
    rows = run_study(pruned, tmp_path / "family", HERE).read_rows("designs")
    assert {row["status"] for row in rows} == {"complete"}


def test_what_moves_off_the_chip_is_bounded_by_nothing(family: Study) -> None:
    """Bounds on energy and cycles of the layers' mappings say nothing of a scratchpad's plan."""
    names = ("off_chip_bytes", "energy_pj", "off_chip_energy_pj", "latency_seconds")
    study = family.model_copy(update={"objectives": names})
    design = next(design_space(study).grid())
    clock = design.architecture.frequency_hz
    assert objective_bounds(study, design, 5.0, 7.0) == [0.0, 5.0, 0.0, 7 / clock]
    pruning = BoundsPruning(study, MappingWorkload(study, ()))
    row: Any = {"status": "complete", **dict.fromkeys(names, 1.0)}
    pruning.evaluated(row)
    assert pruning.dominating(np.array([0.0, 5.0, 0.0, 7.0])) is None
    pruning.evaluated(row | {names[0]: 0.0, names[2]: 0.0})
    assert pruning.dominating(np.array([0.0, 5.0, 0.0, 7.0])) is not None


Values = st.tuples(st.integers(1, 6), st.integers(1, 6))


@pytest.mark.slow
@given(st.lists(st.tuples(Values, Values), min_size=1, max_size=25))
@settings(max_examples=200, deadline=None)
def test_no_order_of_designs_and_no_bounds_change_the_front(
    drawn: list[tuple[tuple[int, int], tuple[int, int]]],
) -> None:
    """Designs with any objectives, each with some bounds below: those not discarded have the same front."""
    two = Study.model_validate(
        {
            "name": "two",
            "networks": ["alexnet"],
            "architecture": "eyeriss",
            "objectives": ["energy_pj", "cycles"],
        }
    )
    pruning = BoundsPruning(two, MappingWorkload(two, ()))
    values = np.array([value for value, _ in drawn], dtype=float)
    bounds = np.minimum(values, [bound for _, bound in drawn])
    kept = []
    for number, (value, bound) in enumerate(zip(values, bounds, strict=True)):
        if pruning.dominating(bound) is None:
            pruning.evaluated({"status": "complete", "energy_pj": value[0], "cycles": value[1]})
            kept.append(number)
    front_of_kept = {kept[index] for index in np.flatnonzero(front_mask(values[kept]))}
    assert front_of_kept == set(np.flatnonzero(front_mask(values)))


@pytest.mark.parametrize("chosen", [("energy_pj", "latency_seconds"), ("edp_pj_cycles", "area_um2")])
def test_groups_are_discarded_by_the_bounds_of_their_designs_one_by_one(
    family: Study, chosen: tuple[str, ...]
) -> None:
    """By columns as design by design; a group only where every design of it is dominated."""
    axes = family.axes | {"frequency": AxisChoices(choices=("100 MHz", "350 MHz"))}
    study = family.model_copy(update={"objectives": chosen, "axes": axes})
    planned = plan(study)
    assert planned.table is not None
    assert isinstance(planned.workload, MappingWorkload)
    table, singly = planned.table, BoundsPruning(study, planned.workload)
    groups = GroupPruning(study, table, EvaluatedFront(len(chosen)))
    order, begins = table.by_group
    designs = [[table.design(row) for row in order[b:e].tolist()] for b, e in pairwise(begins.tolist())]
    assert {len(group) for group in designs} == {2}
    for number, (first, _) in enumerate(designs):
        groups.bounds[number] = planned.workload.bounds(planned.workload.tasks(first))
    some = designs[len(designs) // 2][1]
    energy_pj, cycles = planned.workload.bounds(planned.workload.tasks(some))
    values = objective_bounds(study, some, energy_pj, cycles)
    row: Any = {"status": "complete"} | dict(zip(chosen, values, strict=True))
    singly.evaluated(row)
    groups.evaluated([row])
    seen = set()
    for number, group in enumerate(designs):
        one_by_one = [singly.discard(design, planned.workload.tasks(design)) for design in group]
        found = groups.dominating(number)
        assert (found is not None) == all(one_by_one)
        seen.add(sum(one is not None for one in one_by_one))
    assert 2 in seen
    assert seen & {0, 1}
    promise = [
        min(np.prod(values) for values in groups._objectives(np.array([n]), order[b:e][:1]))
        for n, (b, e) in enumerate(pairwise(begins.tolist()))
    ]
    assert [promise[n] for n in groups.order()] == sorted(promise)


@pytest.mark.slow
def test_a_run_tells_how_many_designs_it_did_not_solve(family: Study, tmp_path: Path) -> None:
    axes = family.axes | {"frequency": AxisChoices(choices=("100 MHz", "350 MHz"))}
    study = family.model_copy(update={"axes": axes, "search": GridSearch(prune_by_bounds=True)})
    tally = RunTally()
    folder = run_study(study, tmp_path / "family", HERE, observer=tally)
    rows = folder.read_rows("designs")
    discarded = sum(row["status"] == "dominated" for row in rows)
    assert len(rows) == 48
    assert 0 < discarded == tally.designs["dominated"]
    assert tally.done == len(folder.read_rows("layers")) <= (48 - discarded)
    assert f"{discarded} discarded by their bounds" in tally.summary
    before = front(folder, study)
    assert front(run_study(study, tmp_path / "family", HERE), study) == before


@pytest.mark.slow
def test_bounds_prune_generations_and_the_front_stays(family: Study, tmp_path: Path) -> None:
    """Eight designs a generation: what the earlier ones reach discards designs of the later ones."""
    chosen: dict[str, Any] = {"method": "optuna", "trials": 24, "population": 8, "seed": 1}
    study = family.model_copy(update={"objectives": ("edp_pj_cycles", "area_um2")})
    pruned = study.model_copy(update={"search": OptunaSearch(prune_by_bounds=True, **chosen)})
    whole = run_study(study, tmp_path / "a" / "family", HERE)
    some = run_study(pruned, tmp_path / "b" / "family", HERE, observer=(tally := RunTally()))
    assert front(some, pruned) == front(whole, study)
    rows = some.read_rows("designs")
    discarded = [row for row in rows if row["status"] == "dominated"]
    assert len(rows) == 24
    assert 0 < len(discarded) == tally.designs["dominated"]
    assert len(some.read_rows("layers")) == 24 - len(discarded)
    solved = {row["design_id"]: row for row in whole.read_rows("designs")}
    for row in discarded:
        assert row["energy_bound_pj"] <= solved[row["design_id"]]["energy_pj"]
        assert row["trial"] is not None
