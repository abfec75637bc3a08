"""A study on a cluster of two nodes on this machine: the rows of one process, solved on both."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from results.store.folder import RunFolder
from sweep.blocks.block_work import BlockWork
from sweep.run.session import RuntimeChoice, run_study
from sweep.study.study import load_study
from tests.clusters.work_items import Gathered

ROOT = Path(__file__).parents[3]
pytestmark = [pytest.mark.slow, pytest.mark.cluster]

STUDY = """
name: nodes
networks: [problem.yaml]
architecture: eyeriss
axes:
  SRAM.size: {choices: [2 KiB, 4 KiB, 8 KiB, 16 KiB]}
  SRAM.fanout: {choices: [[2, 2], [4, 2], [4, 4]]}
mapping: {solver: random_search, objective: edp, iterations: 400, wall_seconds: 60}
"""
PROBLEM = (Path(__file__).parents[2] / "data" / "problems" / "gemm.yaml").read_text(encoding="utf-8")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Two nodes with one CPU each."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        yield cluster
    finally:
        cluster.shutdown()


def answers(folder: RunFolder) -> tuple[dict[str, float], set[str]]:
    """Objective of each task, and who solved them."""
    rows = folder.read("layers", ["task_id", "objective", "worker"]).to_pylist()
    assert len({row["task_id"] for row in rows}) == len(rows)
    return {row["task_id"]: row["objective"] for row in rows}, {row["worker"] for row in rows}


def test_a_study_on_two_nodes(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "problem.yaml").write_text(PROBLEM)
    (tmp_path / "study.yaml").write_text(STUDY)
    study = load_study(str(tmp_path / "study.yaml"))
    here, (this_process,) = answers(run_study(study, tmp_path / "a" / "here", RuntimeChoice(in_process=True)))
    (tmp_path / "workers").mkdir()
    made = BlockWork.of

    def gathered(*of: Any) -> Gathered:
        return Gathered(made(*of), str(tmp_path / "workers"), 2)

    monkeypatch.setattr(BlockWork, "of", gathered)
    there, workers = answers(
        run_study(study, tmp_path / "b" / "there", RuntimeChoice(address=cluster.address))
    )
    assert there == here
    assert len(here) == 12
    assert len(workers) == 2, "a node of one CPU is one worker"
    assert this_process not in workers
    assert str(os.getpid()) in this_process
