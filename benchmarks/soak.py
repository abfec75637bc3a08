"""Very many real small solves on two workers of this machine, one of which is killed every so often.

    python benchmarks/soak.py [--solves 1000000] [--minutes 1] [--check 2000] [--keep FOLDER]

``archsweep run`` of a grid with so many distinct solves (one matrix product on a family around Eyeriss,
random search of 40 mappings) goes on while kill -9 ends a worker amid a block every ``--minutes``.
In the end the run has to hold as many answers and designs as are planned, each stored once. ``--check``
designs are drawn at random: each of their tasks has to have a row, and what a solve of it here decides has to
be equal. Exits with status 1 where that is not so, or where nobody was killed.

A solve whose worker died three times is a failed row, as it has to be, and so may be one that was hit so
often by chance. So the same command is given once more at the end, which solves those again;
``failed_at_first`` is how many there were.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import record
from store_growth import DESIGNS_A_SIZE, FAMILY, GEMM

from results.store.folder import RunFolder
from results.store.parts import list_parts, read_part
from results.store.schema.columns import Table
from results.store.schema.tables import ANSWERED, DESIGNS, LAYERS
from sweep.forecast.plan import StudyPlan, plan
from sweep.study.study import load_study
from sweep.tasks.mapping import MappingTask, run_mapping_task

STUDY = f"""name: soak
{FAMILY}mapping: {{solver: random_search, objective: edp, iterations: 40, wall_seconds: 60}}
"""
DECIDED = ("status", "objective", "bound", "energy_pj", "cycles", "mapping")
"""What of a row a solve decides, whoever solved it and when."""
WORKER = "ray::Start.run"
"""What the kernel calls a worker process in the middle of a block."""


@dataclass(frozen=True)
class Soaked:
    """What was asked for, what happened, and what is stored.

    ``doubled``: rows of solves and designs that are stored more than once; ``lost``: of the ``checked``
    solves those without a row, and ``equal`` those that are what a solve here finds.
    """

    planned: int
    stored: int
    doubled: int
    lost: int
    failed: int
    failed_at_first: int
    designs: int
    kills: int
    solved_more_than_once: int
    checked: int
    equal: int
    wall_seconds: float
    cpu_seconds: float
    solves_a_second: float
    driver_peak_mib: float

    @property
    def whole(self) -> bool:
        """Whether every task has one row, each that was looked at the right one, and somebody was killed."""
        bad = self.doubled or self.lost or self.failed or self.equal != self.checked
        return not bad and self.stored == self.designs == self.planned and self.kills > 0


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--solves", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=1.0, help="between two kills")
    parser.add_argument("--check", type=int, default=2000, help="solves that are done again")
    parser.add_argument("--keep", type=Path, help="folder for the study and its run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        found = soaked(options.keep or Path(scratch), options)
    for name, value in asdict(found).items():
        print(f"{name:24}{value:16,.1f}" if isinstance(value, float) else f"{name:24}{value:16,}")
    record.finish(asdict(found) | {"whole": found.whole}, options)
    if not found.whole:
        sys.exit(1)


def soaked(folder: Path, options: Any) -> Soaked:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gemm.yaml").write_text(GEMM, encoding="utf-8")
    study = folder / "soak.yaml"
    sizes = max(1, options.solves // DESIGNS_A_SIZE)
    study.write_text(STUDY.replace("SIZES", str(sizes)), encoding="utf-8")
    planned = plan(load_study(str(study)))
    path = folder / "runs" / "soak"
    started = time.perf_counter()
    kills, peak = run_study(study, path, 60 * options.minutes)
    wall = time.perf_counter() - started
    failed_at_first, doubled = failures(statuses(path)), doubled_rows(path)
    if failed_at_first:
        run_study(study, path, None)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    answered = statuses(path)
    designs = len(RunFolder(path).read("designs", ["design_id"]))
    checked, equal, lost = checks(planned, path, options.check)
    return Soaked(
        planned.distinct,
        sum(answered.values()),
        doubled,
        lost,
        failures(answered),
        failed_at_first,
        designs,
        kills,
        started_again(path),
        checked,
        equal,
        wall,
        used.ru_utime + used.ru_stime,
        planned.distinct / wall,
        peak,
    )


def run_study(study: Path, path: Path, seconds: float | None) -> tuple[int, float]:
    """Run the study; every so many seconds kill a worker. How many were killed, and the driver's MiB."""
    mark = uuid.uuid4().hex
    environment = {**os.environ, "PYTHONPATH": str(record.ROOT), "ARCHSWEEP_SOAK": mark}
    command = [sys.executable, "-m", "archsweep", "run", study.name, "--output", str(path), "--workers", "2"]
    kills, peak, log = 0, 0.0, study.with_suffix(".log")
    with (
        log.open("w", encoding="utf-8") as said,
        subprocess.Popen(command, cwd=study.parent, env=environment, stdout=said, stderr=said) as run,
    ):
        last = time.monotonic()
        while run.poll() is None:
            time.sleep(0.2)
            peak = max(peak, peak_mib(run.pid))
            if seconds is None or time.monotonic() - last < seconds:
                continue
            if workers := [process for process in marked(mark) if name_of(process) == WORKER]:
                os.kill(random.choice(workers), signal.SIGKILL)
                kills, last = kills + 1, time.monotonic()
    # 1 is the status where solves have failed, which are counted
    if run.returncode not in (0, 1):
        raise SystemExit(f"the run ended with {run.returncode}: {log.read_text(encoding='utf-8')[-3000:]}")
    return kills, peak


def marked(mark: str) -> list[int]:
    """The processes that the run has started, directly or not."""
    found, wanted = [], f"ARCHSWEEP_SOAK={mark}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
        except OSError:
            continue
    return found


def name_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def peak_mib(process: int) -> float:
    """The most memory that a process has had; 0 where it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), 0.0)


def failures(answered: Counter[str]) -> int:
    """How many tasks have no answer."""
    return sum(count for status, count in answered.items() if status not in ANSWERED)


def statuses(path: Path) -> Counter[str]:
    """How many tasks have each status."""
    rows = RunFolder(path).read("layers", ["status"])["status"].value_counts().to_pylist()
    return Counter({row["values"]: row["counts"] for row in rows})


def doubled_rows(path: Path) -> int:
    """Rows of solves and designs that some part has and a later one has again."""
    tables: tuple[Table[Any], ...] = (LAYERS, DESIGNS)
    stored = sum(
        len(read_part(table, part, [table.key])) for table in tables for part in list_parts(path / table.name)
    )
    return stored - sum(len(RunFolder(path).read(table.name, [table.key])) for table in tables)


def started_again(path: Path) -> int:
    """Solves that were in a block whose worker was killed."""
    attempts = RunFolder(path).read("layers", ["attempts"])["attempts"].to_numpy()
    return int((attempts > 1).sum())


def checks(planned: StudyPlan, path: Path, count: int) -> tuple[int, int, int]:
    """Of so many random designs: tasks, those whose rows are what a solve here finds, those without."""
    draw, designs = random.Random(11), list(planned.designs)
    tasks: list[MappingTask] = []
    for design in draw.sample(designs, min(count, len(designs))):
        tasks += [task for task in planned.workload.tasks(design) if isinstance(task, MappingTask)]
    rows = RunFolder(path).read_some("layers", {task.id for task in tasks}, ["task_id", *DECIDED])
    stored = {row["task_id"]: LAYERS.decode(row) for row in rows.to_pylist()}
    return len(tasks), sum(_is_equal(task, stored) for task in tasks), sum(t.id not in stored for t in tasks)


def _is_equal(task: MappingTask, stored: Any) -> bool:
    if task.id not in stored:
        return False
    again: Any = run_mapping_task(task.content)
    return all(_plain(again[name]) == _plain(stored[task.id][name]) for name in DECIDED)


def _plain(value: Any) -> Any:
    """As JSON has it: tuples are lists there."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


if __name__ == "__main__":
    main()
