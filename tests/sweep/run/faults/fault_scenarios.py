"""Faults in the middle of a study of 240 solves: how each is made, and what the run folder holds afterwards.

Run by test_faults.py and by benchmarks/faults.py. A solver misbehaves through Faulty, whose log counts how
often each task was begun.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from clusters.in_process import InProcessRuntime
from clusters.ray.actors import RayRuntime
from clusters.runtime import RuntimeSettings
from results.errors import CannotWriteError
from results.store.folder import Buffering, RunFolder, RunWriter
from results.store.schema.rows import AnswerRow
from solvers.mapping import random_search  # noqa: F401 - workers import it with this module, ahead of any solve
from sweep.run.progress.observer import RunObserver
from sweep.run.run import StudyRun
from sweep.search.search import designs, search_of
from sweep.study.identity import content_hash
from sweep.study.study import Study, load_study
from sweep.tasks.mapping import MappingTask, run_mapping_task
from tests.clusters.processes import MARK, PATIENCE, left_of, until
from tests.sweep.run.faults.many_solves import PROBLEM, SOLVES, many_solves

WORKERS = 2
PARTS = Buffering(rows=10, seconds=1.0)
"""Small parts, so that a fault finds some on disk; drivers that are killed write those of every run."""


@dataclass(frozen=True)
class Faulty:
    """The work function: logs that it begins, naps, and is in trouble at the tasks it is told of."""

    log: str
    troubles: tuple[tuple[str, str], ...]
    """Content hash of a task and what happens there: segfault, hang, eat."""
    nap: float
    """Seconds that every solve takes at least."""

    def __call__(self, content: dict[str, Any]) -> Any:
        name = content_hash(content)
        with open(self.log, "a", encoding="ascii") as log:
            log.write(f"{name}\n")
        time.sleep(self.nap)
        gather(Path(self.log).parent)
        if trouble := dict(self.troubles).get(name):
            TROUBLES[trouble]()
        return run_mapping_task(content)


def gather(scene: Path) -> None:
    """Wait until as many workers have begun a solve as the scene's file ``expected`` says, if there is one.

    However long a node's workers take to start, there is work left for them.
    """
    begun, expected = scene / "workers", scene / "expected"
    begun.mkdir(exist_ok=True)
    (begun / f"{os.getpid()}").touch()
    deadline = time.monotonic() + PATIENCE
    while expected.exists() and len(list(begun.iterdir())) < int(expected.read_text()):
        if time.monotonic() > deadline:
            raise TimeoutError("no other worker has begun a solve")
        time.sleep(0.05)  # and not until(), which workers cannot import


def eat() -> None:
    eaten = []
    while True:
        eaten.append(bytearray(64 << 20))


TROUBLES: dict[str, Callable[[], Any]] = {
    "segfault": lambda: ctypes.string_at(0),
    # in C, with the interpreter's lock, and without work for a processor that others need
    "hang": lambda: ctypes.PyDLL(None).pause(),
    "eat": eat,
}


@dataclass(frozen=True)
class Outcome:
    """What a fault left: the rows at once and after a resume, and the solves that were begun again."""

    fault: str
    rows: int
    failed: tuple[str, ...]
    """Errors of the failed rows, before the resume."""
    repeated: int
    """Solves begun beyond one for each task, before the resume."""
    resumed: int
    """Solves that the resume began."""
    extra: int
    """Solves begun beyond one for each task, in the end."""
    lost: int
    """Tasks without an answer before the resume."""
    equal: bool
    """Whether every task has one row after the resume, with the undisturbed run's objective."""
    seconds: float


class Act(RunObserver):
    """Does something once when so many tasks are answered."""

    def __init__(self, actions: dict[int, Callable[[AnswerRow], Any]]) -> None:
        self.answers, self.actions = 0, actions

    def answered(self, row: AnswerRow) -> None:
        self.answers += 1
        if action := self.actions.get(self.answers):
            action(row)


def study_in(folder: Path) -> Study:
    (folder / "problem.yaml").write_text(PROBLEM)
    (folder / "faults.yaml").write_text(many_solves("faults"))
    return load_study(str(folder / "faults.yaml"))


def objectives(path: Path) -> dict[str, Any]:
    """Objective by task; raises if one has two rows."""
    rows = RunFolder(path).read_rows("layers", ["task_id", "objective"])
    found = {row["task_id"]: row["objective"] for row in rows}
    assert len(found) == len(rows), "a task has two rows"
    return found


@cache
def undisturbed() -> dict[str, Any]:
    """What every run has to come to: the answers of one in this process that nothing happens to."""
    with tempfile.TemporaryDirectory() as folder:
        study, path = study_in(Path(folder)), Path(folder) / "runs" / "faults"
        with InProcessRuntime(run_mapping_task) as runtime, RunWriter(path) as writer:
            StudyRun(study, search_of(study), writer).explore(runtime)
        return objectives(path)


class Scene:
    """One study in one folder, the answers it has to come to, and the log of what was begun."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.study = study_in(folder)
        self.run_path = folder / "runs" / "faults"
        self.log = folder / "begun"
        self.nap, self.parts = 0.02, PARTS
        self.log.touch()
        self.started = time.monotonic()
        self.expected = undisturbed()

    def hashes(self, count: int) -> list[str]:
        """Content hashes of so many tasks out of the middle."""
        contents: list[str] = []
        with RunWriter(self.folder / "hashes") as writer:
            run = StudyRun(self.study, search_of(self.study), writer)
            for design in itertools.islice(designs(self.study), 100, 100 + count):
                tasks = run.ledger.workload.tasks(design)
                contents += [content_hash(task.content) for task in tasks if isinstance(task, MappingTask)]
        return contents

    def expect_another_worker(self) -> None:
        """Let no solve end until a worker has begun one that has begun none so far."""
        known = len(list((self.folder / "workers").iterdir()))
        written = self.folder / "expected.new"
        written.write_text(str(known + 1))
        written.rename(self.folder / "expected")

    def begun(self) -> Counter[str]:
        return Counter(self.log.read_text(encoding="ascii").split())

    def run(self, troubles: dict[str, str], observer: RunObserver | None = None, **settings: Any) -> None:
        """The study on Ray, into the run folder; what is stored there is used again."""
        work = Faulty(str(self.log), tuple(troubles.items()), self.nap)
        with (
            RunWriter(self.run_path, self.parts) as writer,
            RayRuntime(work, RuntimeSettings(**({"workers": WORKERS} | settings))) as runtime,
        ):
            run = StudyRun(self.study, search_of(self.study), writer, observer, self.run_path.parent)
            run.explore(runtime)

    def outcome(self, fault: str, resume: Callable[[], Any] | None = None) -> Outcome:
        """Take stock, resume with a healthy solver, compare with the undisturbed run."""
        with RunWriter(self.run_path):
            pass  # opening takes in the journal and sets damaged parts aside
        rows = RunFolder(self.run_path).read_rows("layers", ["task_id", "status", "error"])
        failed = tuple(row["error"] for row in rows if row["status"] == "failed")
        before = self.begun()
        (resume or (lambda: self.run({})))()
        return Outcome(
            fault,
            len(rows),
            failed,
            before.total() - len(before),
            self.begun().total() - before.total(),
            self.begun().total() - SOLVES,
            SOLVES - len(rows) + len(failed),
            objectives(self.run_path) == self.expected and len(self.expected) == SOLVES,
            time.monotonic() - self.started,
        )


def killed_workers(scene: Scene) -> Outcome:
    def kill(row: AnswerRow) -> None:
        os.kill(int(str(row["worker"]).rpartition(":")[2]), signal.SIGKILL)

    scene.run({}, Act({60: kill, 120: kill, 180: kill}))
    return scene.outcome("3 workers, kill -9")


def segfault(scene: Scene) -> Outcome:
    scene.run(dict.fromkeys(scene.hashes(2), "segfault"))
    return scene.outcome("a solver that segfaults at 2 tasks")


def hang(scene: Scene) -> Outcome:
    # a worker's first solve loads its machine code, which a busy machine draws out
    scene.run(dict.fromkeys(scene.hashes(2), "hang"), wall_limit_seconds=30.0)
    return scene.outcome("a solver that hangs in C at 2 tasks")


def memory(scene: Scene) -> Outcome:
    scene.run(dict.fromkeys(scene.hashes(2), "eat"), memory_limit_bytes=768 << 20)
    return scene.outcome("a solver that eats memory at 2 tasks")


def killed_driver(scene: Scene) -> Outcome:
    """The driver is a process of its own with its own Ray, whose processes end with it."""
    command, mark = [sys.executable, __file__, str(scene.folder)], uuid.uuid4().hex
    with subprocess.Popen(
        command, env={**os.environ, MARK: mark}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as driver:
        until(lambda: scene.begun().total() >= 100, "100 solves to begin", driver)
        driver.kill()
    until(lambda: not left_of(mark), "the dead driver's workers to end")
    return scene.outcome("the driver, kill -9")


def damaged_files(scene: Scene) -> Outcome:
    """A part cut in half, an unfinished one, a torn lock file: what a lost machine may leave."""
    with suppress(KeyboardInterrupt):
        scene.run({}, Act({150: _stop}))
    part = min((scene.run_path / "layers").glob("*.parquet"))
    part.write_bytes(part.read_bytes()[: part.stat().st_size // 2])
    (scene.run_path / "layers" / ".journal").write_bytes(b'{"task_id": "cut sh')
    (scene.run_path / "study.lock.yaml").write_text("study: {na")
    (scene.run_path / "layers" / ".00000099.parquet.torn").write_bytes(b"PAR1")
    return scene.outcome("a truncated part, torn journal and lock file")


def _stop(row: AnswerRow) -> None:
    raise KeyboardInterrupt


def full_disk(scene: Scene) -> Outcome:
    """The run folder on a file system of 200 KB, which grows before the resume. Needs the right to mount."""
    mount = scene.run_path.parent
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(mount)], check=True)
    try:
        try:
            scene.run({})
        except CannotWriteError as error:
            said = str(error)
        subprocess.run(["mount", "-o", "remount,size=64m", str(mount)], check=True)
        assert "No space left" in said
        return scene.outcome("a full disk")
    finally:
        # lazily: a process of the run that is still ending may have a file open there
        subprocess.run(["umount", "--lazy", str(mount)], check=True)


def nodes_come_and_go(scene: Scene) -> Outcome:
    """One CPU; two join after 30 answers, die after 90; two more join, and are drained after 190.

    Workers hold one solve each: while a node starts, others wait in :func:`gather`, and what they held behind
    that solve would be handed to the new node's workers as well.
    """
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes: list[Any] = []
    scene.nap = 0.1
    one_each = {"workers": None, "address": cluster.address, "target_seconds": scene.nap / 2}

    def add(_: AnswerRow) -> None:
        scene.expect_another_worker()
        nodes.append(cluster.add_node(num_cpus=2))

    act = Act(
        {
            30: add,
            90: lambda _: cluster.remove_node(nodes[0], allow_graceful=False),
            110: add,
            190: lambda _: cluster.remove_node(nodes[1], allow_graceful=True),
        }
    )
    try:
        scene.run({}, act, **one_each)
        workers = {row["worker"] for row in RunFolder(scene.run_path).read_rows("layers", ["worker"])}
        assert len(workers) > 1, "nodes that joined got work"
        return scene.outcome("2 nodes join, one dies, one drains", lambda: scene.run({}, **one_each))
    finally:
        cluster.shutdown()


def killed_head(scene: Scene) -> Outcome:
    """The driver of a cluster that lost its head ends by itself; another cluster resumes."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    command = [sys.executable, __file__, str(scene.folder), cluster.address]
    try:
        impatient = {**os.environ, "RAY_gcs_rpc_server_reconnect_timeout_s": "5"}
        with subprocess.Popen(
            command, env=impatient, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as driver:
            until(lambda: scene.begun().total() >= 100, "100 solves to begin", driver)
            assert cluster.head_node is not None
            cluster.remove_node(cluster.head_node, allow_graceful=False)
            status = driver.wait(PATIENCE)
        assert status != 0
    finally:
        cluster.shutdown()
    return scene.outcome("the head, kill -9")


SCENARIOS: tuple[Callable[[Scene], Outcome], ...] = (
    killed_workers,
    segfault,
    hang,
    memory,
    killed_driver,
    damaged_files,
    full_disk,
)
"""On a local Ray of two workers, which the process is connected to."""

CLUSTER_SCENARIOS: tuple[Callable[[Scene], Outcome], ...] = (nodes_come_and_go, killed_head)
"""These start clusters of their own; the process must not be connected to one."""


def drive(folder: Path, address: str = "") -> None:
    """The driver that loses its life or its head: the study in a folder that holds its scene."""
    scene = object.__new__(Scene)
    scene.study, scene.nap = load_study(str(folder / "faults.yaml")), 0.02
    scene.parts = Buffering()
    scene.run_path, scene.log = folder / "runs" / "faults", folder / "begun"
    scene.run({}, address=address)


if __name__ == "__main__":
    drive(Path(sys.argv[1]), *sys.argv[2:])
