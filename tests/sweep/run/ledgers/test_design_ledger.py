"""Designs wait for their answers, share them, and add them up."""

from dataclasses import replace
from typing import Any

import pytest

from sweep.design.mapping_workload import MappingWorkload, layer_demands
from sweep.run.ledgers.design_ledger import DesignLedger
from sweep.search.search import design_space
from sweep.study.network_choice import NetworkChoice
from sweep.study.study import Study
from sweep.tasks.summaries import MappingSummary


def answer(**changes: Any) -> MappingSummary:
    row: Any = {
        "status": "feasible",
        "energy_pj": 10.0,
        "cycles": 4,
        "energy_bound_pj": 5.0,
        "cycles_bound": 2.0,
        "energy_by_level_pj": {"RegFile": 7.0, "MAC": 3.0},
        "cpu_seconds": 0.5,
    }
    return MappingSummary.of(row | changes)


@pytest.fixture
def resnet(tiny: Study) -> Study:
    twice = (NetworkChoice(network="resnet18"), NetworkChoice(network="resnet18", batch=2, weight=3.0))
    return tiny.model_copy(update={"networks": twice})


def test_totals_are_sums_over_counts_and_weights(resnet: Study) -> None:
    ledger = DesignLedger(resnet, MappingWorkload(resnet, layer_demands(resnet)))
    design = next(design_space(resnet).grid())
    tasks, row = ledger.open(design, ledger.workload.tasks(design))
    assert row is None
    rows = [row for task in tasks for row in ledger.record(task.id, answer())]
    assert len(rows) == 1
    runs = sum(demand.count * demand.weight for demand in layer_demands(resnet))
    assert runs == 21 + 3 * 21
    assert rows[0]["energy_pj"] == pytest.approx(10.0 * runs)
    assert rows[0]["cycles"] == 4 * runs
    assert rows[0]["edp_pj_cycles"] == pytest.approx(40.0 * runs**2)
    assert rows[0]["energy_gap"] == pytest.approx(0.5)
    assert rows[0]["latency_seconds"] == pytest.approx(4 * runs / design.architecture.frequency_hz)
    assert sum((rows[0]["energy_by_level_pj"] or {}).values()) == pytest.approx(rows[0]["energy_pj"])
    assert rows[0]["cpu_seconds"] == pytest.approx(0.5 * len(tasks))
    assert rows[0]["status"] == "complete"
    per_network = rows[0]["networks"]
    assert len(per_network) == 2
    assert sum(entry["cycles"] for entry in per_network.values()) == 4 * 42


def test_equal_tasks_are_asked_for_once(tiny: Study) -> None:
    ledger = DesignLedger(tiny, MappingWorkload(tiny, layer_demands(tiny) + layer_demands(tiny)))
    design = next(design_space(tiny).grid())
    tasks, _ = ledger.open(design, ledger.workload.tasks(design))
    assert len(tasks) == 1
    renamed = replace(design, hardware=replace(design.architecture, name="another name"))
    assert ledger.open(renamed, ledger.workload.tasks(renamed)) == ([], None)
    rows = ledger.record(tasks[0].id, answer())
    assert len(rows) == 2
    assert [row["cpu_seconds"] for row in rows] == [0.5, 0]
    _, row = ledger.open(design, ledger.workload.tasks(design))
    assert row is not None
    assert row["energy_pj"] == 20.0


@pytest.mark.parametrize(
    ("bad", "status", "column"),
    [
        ({"status": "failed", "error": "Boom: no"}, "failed", "error"),
        ({"status": "unknown", "note": "out of time"}, "failed", "error"),
        ({"status": "infeasible", "note": "RegFile: 3 words, 2 usable"}, "infeasible", "note"),
    ],
)
def test_a_design_with_an_unmapped_layer_says_why(tiny: Study, bad: Any, status: str, column: str) -> None:
    ledger = DesignLedger(tiny, MappingWorkload(tiny, layer_demands(tiny)))
    design = next(design_space(tiny).grid())
    tasks, _ = ledger.open(design, ledger.workload.tasks(design))
    (row,) = ledger.record(tasks[0].id, MappingSummary.of(bad))
    assert (row["status"], row["feasible"]) == (status, False)
    assert (bad.get("error") or bad["note"]) in str(dict(row)[column])
    assert "energy_pj" not in row
