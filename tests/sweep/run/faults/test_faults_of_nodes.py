"""Nodes and heads that come and go in the middle of a study, on clusters of several raylets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sweep.run.faults import fault_scenarios as faults
from tests.sweep.run.faults.many_solves import SOLVES

ROOT = Path(__file__).parents[4]
pytestmark = [pytest.mark.slow, pytest.mark.cluster]


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> faults.Scene:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return faults.Scene(tmp_path)


@pytest.mark.thorough
def test_nodes_that_join_get_work_and_those_that_go_lose_none(scene: faults.Scene) -> None:
    outcome = faults.nodes_come_and_go(scene)
    assert (outcome.rows, outcome.failed, outcome.resumed) == (SOLVES, (), 0)
    assert outcome.repeated <= 4, "what two workers of each of two nodes were at"
    assert outcome.equal


def test_a_dead_head_ends_the_driver_and_another_cluster_resumes(scene: faults.Scene) -> None:
    outcome = faults.killed_head(scene)
    assert outcome.rows > 0
    assert outcome.failed == ()
    assert outcome.resumed == outcome.lost
    assert outcome.extra <= 60
    assert outcome.equal
