"""What a growing store costs a study: trials beside few and many parts, and a run again of stored designs.

    python benchmarks/store_growth.py [--trials 200] [--parts 300 1500] [--rounds 3] [--designs 20000]

1. `archsweep run` of an Optuna search of so many trials, in one process, beside earlier runs with so many
   parts of 20 rows, five parts a run folder. None of them answers any of its solves. CPU seconds of the
   command over those beside an empty store in the same round, the median of so many rounds: at most
   MOST_RATIO. One round differs from the next by a tenth.
2. A grid of so many designs, a solve each, is run once with made-up answers, and again: planning, look-ups
   and rows, for nothing is left to solve. CPU seconds of 100,000 such designs: at most MOST_SECONDS. The
   report of these is timed apart, without a limit.

Exits with status 1 where a limit is not kept.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

import record
from store import layer_row

from clusters.in_process import InProcessRuntime
from clusters.runtime import RuntimeSettings
from results.report.page import write_report
from results.store.folder import RunWriter
from results.store.parts import to_arrow, write_part
from results.store.schema.tables import LAYERS
from sweep.run.run import StudyRun
from sweep.run.session import RuntimeChoice, run_study
from sweep.search.search import search_of
from sweep.study.lock import lock_content
from sweep.study.study import load_study
from sweep.tasks.mapping import run_mapping_task

MOST_RATIO = 1.3
"""pyarrow takes 0.23 ms to open a part of a few rows and to read the index's four columns. So 1,500 parts add
a tenth to a command of 3 CPU seconds before anything is done with them: with 1.2 chance decided."""
MOST_SECONDS = 60.0
SCALE = 100_000
"""Designs that MOST_SECONDS are for."""
ROWS_A_PART, PARTS_A_RUN = 20, 5
DESIGNS_A_SIZE = 200
"""Designs of the family with one size of SRAM."""
FAMILY = """networks: [gemm.yaml]
architecture: eyeriss
axes:
  SRAM.size: {from: 1, to: SIZES, step: 1, unit: KiB}
  RegFile.size: {from: 16, to: 320, step: 16, unit: B}
  SRAM.fanout:
    choices: [[2, 2], [4, 2], [2, 4], [4, 4], [8, 4], [4, 8], [8, 8], [16, 4], [4, 16], [16, 16]]
"""
"""A study of any number of designs without its name, search and solver; SIZES: how many sizes of SRAM."""
STUDY = f"""name: growth
{FAMILY}search: SEARCH
mapping: {{solver: random_search, objective: edp, iterations: 400, wall_seconds: 20}}
"""
GEMM = (record.ROOT / "tests" / "data" / "problems" / "gemm.yaml").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Measured:
    """CPU seconds, and what is compared with ``limit``; both None where nothing has to hold."""

    what: str
    cpu_seconds: float
    compared: float | None = None
    limit: float | None = None

    @property
    def kept(self) -> bool:
        return self.compared is None or self.limit is None or self.compared <= self.limit


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--parts", type=int, nargs="+", default=[300, 1500])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--designs", type=int, default=20_000)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for row in chain(
            trials_beside(folder, options.trials, options.parts, options.rounds),
            run_again(folder, options.designs),
        ):
            rows.append(row)
            limit = "" if row.limit is None else f"{row.compared:8.2f} of at most {row.limit:g}"
            print(f"{row.what:52} {row.cpu_seconds:8.2f} CPU s {limit}", flush=True)
    record.finish([asdict(row) | {"kept": row.kept} for row in rows], options)
    if not all(row.kept for row in rows):
        sys.exit(1)


def study_file(folder: Path, search: str, sizes: int) -> Path:
    """The study, in a folder of its own."""
    folder.mkdir(parents=True)
    (folder / "gemm.yaml").write_text(GEMM, encoding="utf-8")
    path = folder / "growth.yaml"
    path.write_text(STUDY.replace("SEARCH", search).replace("SIZES", str(sizes)), encoding="utf-8")
    return path


def trials_beside(scratch: Path, trials: int, parts: list[int], rounds: int) -> Iterator[Measured]:
    """The command beside no part and beside more, each in a store of its own, a round after the other."""
    studies = {}
    for count in (0, *parts):
        folder = scratch / f"beside{count}"
        studies[count] = study_file(folder, f"{{method: optuna, trials: {trials}}}", 100)
        for number in range(count):
            write_old_part(folder / "runs", number)
    run_command(studies[0])  # the first one may compile
    spent = [{count: run_command(study) for count, study in studies.items()} for _ in range(rounds)]
    yield Measured(f"{trials} trials beside an empty store", median(one[0] for one in spent))
    for count in parts:
        ratio = median(one[count] / one[0] for one in spent)
        seconds = median(one[count] for one in spent)
        yield Measured(f"{trials} trials beside {count:,} parts", seconds, ratio, MOST_RATIO)


def run_command(study: Path) -> float:
    """CPU seconds of the study's run into a folder that is new."""
    output = study.parent / "runs" / "growth"
    command = [sys.executable, "-m", "archsweep", "run", study.name, "--in-process", "--output", str(output)]
    environment = {**os.environ, "PYTHONPATH": str(record.ROOT)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=study.parent, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    shutil.rmtree(output)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def write_old_part(store: Path, number: int) -> None:
    """A part of an earlier run, whose answers are to other tasks."""
    run, index = divmod(number, PARTS_A_RUN)
    folder = store / f"earlier{run}" / "layers"
    folder.mkdir(parents=True, exist_ok=True)
    # Other tasks' answers: the store has to find out that it does not have what is asked.
    first = number * ROWS_A_PART
    rows = [LAYERS.encode(layer_row(first + row)) for row in range(ROWS_A_PART)]
    write_part(to_arrow(LAYERS, rows), folder / f"{index + 1:08d}.parquet")


def run_again(scratch: Path, designs: int) -> Iterator[Measured]:
    study = load_study(str(study_file(scratch / "again", "{method: grid}", designs // DESIGNS_A_SIZE)))
    folder = scratch / "again" / "runs" / study.name
    answer: dict[str, Any] = {}

    def made_up(content: Any) -> dict[str, Any]:
        """The first task's answer, for all."""
        if not answer:
            answer.update(run_mapping_task(content))
        return answer

    def first() -> None:
        with RunWriter(folder) as writer, InProcessRuntime(made_up, RuntimeSettings()) as runtime:
            writer.write_lock_file(lock_content(study))
            StudyRun(study, search_of(study), writer).explore(runtime)

    yield Measured(f"{designs:,} designs with made-up answers", spent_by(first))
    again = spent_by(lambda: run_study(study, folder, RuntimeChoice(in_process=True)))
    yield Measured(f"the same again, of {SCALE:,}", again, again * SCALE / designs, MOST_SECONDS)
    yield Measured(f"report of {designs:,} designs", spent_by(lambda: write_report(folder)))


def spent_by(work: Callable[[], object]) -> float:
    """CPU seconds of this process, all threads."""
    before = time.process_time()
    work()
    return time.process_time() - before


if __name__ == "__main__":
    main()
