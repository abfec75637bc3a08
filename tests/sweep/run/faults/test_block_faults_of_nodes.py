"""Studies in blocks on nodes that come and go in the middle of them: equal rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from clusters.ray.actors import RayRuntime
from clusters.runtime import RuntimeSettings
from results.store.folder import RunFolder, RunWriter
from solvers.mapping.problem import MappingProblem
from sweep import PACKAGES
from sweep.blocks.block import BlockTally
from sweep.blocks.block_work import solve
from sweep.design.mapping_workload import LayerSolve
from sweep.forecast.plan import plan
from sweep.run.block_run import BlockRun
from sweep.run.progress.observer import RunObserver
from sweep.run.session import RuntimeChoice, run_study
from sweep.study.study import Study, load_study
from tests.sweep.run.faults.fault_scenarios import gather
from tests.sweep.run.faults.many_solves import PROBLEM, SOLVES, many_solves

ROOT = Path(__file__).parents[4]
SEED = 77
pytestmark = [pytest.mark.slow, pytest.mark.cluster]


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    (tmp_path / "problem.yaml").write_text(PROBLEM)
    text = many_solves("many").replace("wall_seconds: 20", f"wall_seconds: 600, seed: {SEED}")
    (tmp_path / "many.yaml").write_text(text)
    return load_study(str(tmp_path / "many.yaml"))


def objectives(path: Path) -> dict[str, Any]:
    rows = RunFolder(path).read_rows("layers", ["task_id", "objective"])
    found = {row["task_id"]: row["objective"] for row in rows}
    assert len(found) == len(rows), "no task has two rows"
    return found


def undisturbed(study: Study, folder: Path) -> dict[str, Any]:
    return objectives(run_study(study, folder / "undisturbed" / "many", RuntimeChoice(in_process=True)).path)


@dataclass(frozen=True)
class Gathering:
    """Solves, waits until as many workers have solved something as the ``scene`` expects, and then a while.

    A worker's first solve loads machine code, which can take longer than all that others do meanwhile.
    """

    scene: str
    nap: float

    def __call__(self, problem: MappingProblem, asked: LayerSolve) -> Any:
        answer = solve(problem, asked)
        gather(Path(self.scene))
        time.sleep(self.nap)
        return answer


class Act(RunObserver):
    """Does something once so many solves are answered."""

    def __init__(self, actions: dict[int, Callable[[], Any]]) -> None:
        self.done, self.left = 0, dict(sorted(actions.items()))

    def block_done(self, tally: BlockTally) -> None:
        self.done += tally.solves
        if self.left and self.done >= min(self.left):
            self.left.pop(min(self.left))()


def test_a_node_that_comes_and_goes_again_and_again(many: Study, tmp_path: Path) -> None:
    """Each time it works on blocks of its own and dies in the middle of them; nobody is blamed for it."""
    from ray.cluster_utils import Cluster

    scene, path = tmp_path / "scene", tmp_path / "runs" / "many"
    scene.mkdir()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes: list[Any] = []

    def come() -> None:
        # no solve goes on until a worker of the new node has done one
        (scene / "expected.new").write_text(str(len(list((scene / "workers").iterdir())) + 1))
        (scene / "expected.new").rename(scene / "expected")
        nodes.append(cluster.add_node(num_cpus=1))

    def go() -> None:
        cluster.remove_node(nodes[-1], allow_graceful=False)

    act = Act({20: come, 50: go, 70: come, 100: go, 120: come, 150: go, 170: come, 200: go})
    planned = plan(many)
    assert planned.table is not None
    try:
        with RunWriter(path) as writer:
            run = BlockRun(many, planned.table, planned.workload, writer, act)
            run._seconds_each = 0.2  # as after some blocks: the first have several solves, too
            settings = RuntimeSettings(packages=PACKAGES, address=cluster.address)
            work = replace(run.work, solve=Gathering(str(scene), 0.1))
            with RayRuntime(work, settings) as runtime:
                run.explore(runtime)
    finally:
        cluster.shutdown()
    assert not act.left
    assert objectives(path) == undisturbed(many, tmp_path)
    rows = RunFolder(path).read_rows("layers")
    assert len(rows) == len(RunFolder(path).read_rows("designs")) == SOLVES
    assert "failed" not in {row["status"] for row in rows}
    workers = {row["worker"] for row in rows}
    assert len(workers) > 1, "a node that came got work"
    assert len(list((scene / "workers").iterdir())) == 5, "each time that it came it began some"
