"""Faults in the middle of a study of 240 solves on a real Ray, each with the numbers of what it cost."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from clusters.ray.session import RaySession
from clusters.runtime import POISONOUS, WALL_LIMIT
from tests.sweep.run.faults import fault_scenarios as faults
from tests.sweep.run.faults.many_solves import SOLVES

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
SETTLED = SOLVES
IN_FLIGHT = 60
"""What two workers hold of 20 ms solves: orphaned, they go on with it for a moment."""
LOST = 1
"""Answers on their way to a busy driver that may end with their worker."""


@pytest.fixture
def scene(tmp_path: Path, local_ray: RaySession) -> faults.Scene:
    return faults.Scene(tmp_path)


@pytest.fixture
def can_mount(tmp_path: Path) -> None:
    place = tmp_path / "mount"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(place)], capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here")
    subprocess.run(["umount", str(place)], check=True)


def test_killed_workers_cost_the_solve_each_was_at(scene: faults.Scene) -> None:
    outcome = faults.killed_workers(scene)
    assert (outcome.rows, outcome.failed, outcome.resumed) == (SETTLED, (), 0)
    assert outcome.repeated <= 3 * (1 + LOST)
    assert outcome.equal


@pytest.mark.thorough
def test_a_segfault_is_poisonous_after_three_strikes_and_the_study_goes_on(scene: faults.Scene) -> None:
    outcome = faults.segfault(scene)
    assert outcome.rows == SETTLED
    assert [error.split(":")[0] for error in outcome.failed] == [POISONOUS] * 2
    assert outcome.repeated <= 2 * 3
    assert outcome.resumed == 2, "a resume tries the failed ones again, and only these"
    assert outcome.equal


@pytest.mark.thorough
def test_a_hanging_solver_is_ended_by_the_wall_limit(scene: faults.Scene) -> None:
    outcome = faults.hang(scene)
    assert outcome.rows == SETTLED
    assert [error.split(":")[0] for error in outcome.failed] == [WALL_LIMIT] * 2
    assert outcome.repeated <= 2 * LOST
    assert outcome.resumed == 2
    assert outcome.equal


@pytest.mark.thorough
def test_a_solver_that_eats_memory_is_a_failed_row(scene: faults.Scene) -> None:
    outcome = faults.memory(scene)
    assert outcome.rows == SETTLED
    assert [error.split(":")[0] for error in outcome.failed] == ["MemoryError"] * 2
    assert (outcome.repeated, outcome.resumed) == (0, 2)
    assert outcome.equal


def test_a_killed_driver_costs_what_its_workers_held(scene: faults.Scene) -> None:
    outcome = faults.killed_driver(scene)
    assert 0 < outcome.rows < SETTLED
    assert (outcome.failed, outcome.repeated) == ((), 0)
    assert outcome.resumed == outcome.lost
    assert outcome.extra <= IN_FLIGHT
    assert outcome.equal


@pytest.mark.thorough
def test_damaged_files_cost_the_rows_they_held(scene: faults.Scene) -> None:
    with pytest.warns(UserWarning, match="set aside"):
        outcome = faults.damaged_files(scene)
    assert 0 < outcome.rows < SETTLED
    assert outcome.resumed == outcome.lost
    assert outcome.equal


def test_a_full_disk_ends_the_run_and_space_resumes_it(scene: faults.Scene, can_mount: None) -> None:
    outcome = faults.full_disk(scene)
    assert 0 < outcome.rows < SETTLED
    assert outcome.resumed == outcome.lost
    assert outcome.extra <= IN_FLIGHT
    assert outcome.equal
