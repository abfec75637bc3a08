"""Schedule tasks with equal costs share a table on a worker: answers are those of tables of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from solvers.schedule import kapla
from solvers.schedule.tiles.mapper import TileMapper, architecture_of
from sweep.design.workload import workload_of
from sweep.search.search import designs
from sweep.study.study import load_study
from sweep.tasks.chips import schedule_answer
from sweep.tasks.chips.schedule import ScheduleTask
from sweep.tasks.chips.schedule_answer import run_schedule_task
from sweep.tasks.chips.scheduling_costs import SchedulingCosts
from tests.sweep.run.studies.test_schedule_study import SKIP, STUDY


@pytest.fixture
def payloads(tmp_path: Path) -> list[dict[str, Any]]:
    """Those of two seeds on each of two chips whose tiles, and so costs, are equal."""
    (tmp_path / "skip.json").write_text(json.dumps(SKIP))
    (tmp_path / "skip.yaml").write_text(STUDY)
    study = load_study(str(tmp_path / "skip.yaml"))
    two = list(designs(study))[:2]
    tasks = [task for design in two for task in workload_of(study).tasks(design)]
    found = []
    for task in tasks:
        assert isinstance(task, ScheduleTask)
        mapper = TileMapper("nvdla", "energy")
        costs = mapper.costs(architecture_of(task.on.chip.tile), task.demand.tile_parts())
        # as it travels: equal, and not the same
        found.append(json.loads(json.dumps(task.payload(SchedulingCosts(costs)))))
    return found


def answer(payload: dict[str, Any]) -> dict[str, Any]:
    """The columns of an answer that no clock decides."""
    columns: dict[str, Any] = dict(run_schedule_task(payload))
    phases = [phase | {"cpu_seconds": 0} for phase in columns.pop("search")]
    return {key: value for key, value in columns.items() if "seconds" not in key} | {"search": phases}


@pytest.mark.slow
def test_seeds_share_a_table_and_find_what_they_find_without(
    payloads: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    table = schedule_answer._table

    def counted(content: Any) -> Any:
        made.append(table(content))
        return made[-1]

    monkeypatch.setattr(schedule_answer, "_table", counted)
    monkeypatch.setattr(schedule_answer, "_LAST_TABLE", schedule_answer._LastTable())
    shared = [answer(payload) for payload in payloads]
    # one for the two seeds of each chip
    assert len(payloads) == 4
    assert len(made) == 2
    for payload, found in zip(payloads, shared, strict=True):
        monkeypatch.setattr(schedule_answer, "_LAST_TABLE", schedule_answer._LastTable())
        assert answer(payload) == found


def test_other_costs_are_another_table(payloads: list[dict[str, Any]]) -> None:
    kept = schedule_answer._LastTable()
    first, again = payloads[:2]
    made = kept.table(first)
    assert kept.table(again) is made
    dearer = again | {"tile_costs": [[*again["tile_costs"][0][:-4], 1e12, 10, True, 0.0]]}
    assert kept.table(dearer) is not made
    assert kept.table(dearer) is kept.table(dearer)
    assert kept.table(first).known == made.known


def test_a_solver_that_starts_over_finds_what_it_finds_with_a_table_of_its_own(
    payloads: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The costs that a round lacked are added to its table, and the next round's searches go on from its."""
    every = payloads[0]["tile_costs"]
    solver = {"solver": "kapla_schedule", "solver_version": kapla.VERSION}
    asked = payloads[0] | solver | {"params": {}, "epoch": None}
    found = []
    for forgetful in (False, True):
        kept = schedule_answer._LastTable()
        monkeypatch.setattr(schedule_answer, "_LAST_TABLE", kept)
        tables, searching = set(), set()
        for count in (len(every) // 3, len(every) // 2, len(every)):
            if forgetful:
                kept = schedule_answer._LastTable()
                monkeypatch.setattr(schedule_answer, "_LAST_TABLE", kept)
            payload = asked | {"tile_costs": every[:count]}
            columns = run_schedule_task(payload)
            assert ("needs" in columns) == (count < len(every))
            tables.add(id(kept.table(payload)))
            searching.add(id(kept.searching))
        assert (len(tables), len(searching)) == ((3, 3) if forgetful else (1, 1))
        found.append({key: value for key, value in columns.items() if "seconds" not in key})
    assert found[0] == found[1]


def test_a_table_forgets_costs_that_the_next_payload_lacks(payloads: list[dict[str, Any]]) -> None:
    """Else an answer would depend on what another task had asked for."""
    kept = schedule_answer._LastTable()
    whole = kept.table(payloads[0])
    fewer = payloads[0] | {"tile_costs": payloads[0]["tile_costs"][:-1]}
    assert kept.table(fewer) is not whole
    assert len(kept.table(fewer).known) == len(whole.known) - 1
