"""Mappings a second on one core: ``batch.py``, ``evaluate`` and random draws; a table, then one JSON object.

    python benchmarks/batch_throughput.py [--rows 20000] [--repeat 5]

Only valid mappings are timed (an invalid row costs less). CPU seconds, the best of the repetitions. First
calls: seconds of a fresh process from the import to the first answer, without and with machine code on disk.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

import numpy as np
import record

from costmodel.formats.architectures import load_architecture
from costmodel.mapping.batch.batch import BatchEvaluator, MappingBatch
from costmodel.mapping.evaluate import evaluate
from costmodel.workload.network import Layer, convolution, gemm
from solvers.mapping.space.space import MappingSpace

ARCHITECTURES = ("C_two_level", "eyeriss", "E_four_level", "simba")
TIMED = ("gemmini", "eyeriss-v1")
"""Machines with timing: their rows also say how fast the same batch is counted without it."""
LAYERS = (
    convolution("conv 3x3, 64 x 56 x 56", K=64, C=64, P=56, Q=56, R=3, S=3),
    convolution("conv 7x7 stride 2", K=64, C=3, P=112, Q=112, R=7, S=7, stride=(2, 2)),
    gemm("gemm 512 x 512 x 512", M=512, N=512, K=512),
)
FIRST_CALL = """
import time
start = time.perf_counter()
from costmodel.formats.architectures import load_architecture
from costmodel.mapping.batch.batch import BatchEvaluator, MappingBatch
from costmodel.workload.network import gemm
architecture, layer = load_architecture("C_two_level"), gemm("g", M=4, N=4, K=4)
evaluator = BatchEvaluator(architecture, layer)
evaluator.evaluate(MappingBatch.empty(1, architecture, layer))
print(time.perf_counter() - start)
"""


def best_seconds(work: Callable[[], object], repeat: int) -> float:
    """CPU seconds of the fastest of ``repeat`` runs."""
    seconds = []
    for _ in range(repeat):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


def valid_rows(space: MappingSpace, evaluator: BatchEvaluator, count: int) -> MappingBatch:
    """``count`` random valid mappings: what was drawn, repeated if it is not enough."""
    # four times as many are drawn, as many of them do not fit; a block has 256 rows
    batch = space.sample(range(4 * count // 256 + 1), seed=0)
    valid = np.flatnonzero(evaluator.evaluate(batch).valid)
    return batch[np.resize(valid, count)]


def measure(name: str, layer: Layer, rows: int, repeat: int) -> dict[str, Any]:
    architecture = load_architecture(name)
    space, evaluator = MappingSpace(architecture, layer), BatchEvaluator(architecture, layer)
    batch = valid_rows(space, evaluator, rows)
    few = [batch.mapping(row, layer) for row in range(min(200, rows))]
    drawn = range(rows // 256 + 1)
    return {
        "architecture": name,
        "levels": len(architecture.levels),
        "layer": layer.name,
        "temporal_loops": round(float((batch.temporal > 1).sum(axis=(1, 2)).mean()), 1),
        "valid_of_drawn": round(float(evaluator.evaluate(space.sample(drawn, seed=1)).valid.mean()), 3),
        "batch_per_second": round(rows / best_seconds(lambda: evaluator.evaluate(batch), repeat)),
        "drawn_per_second": round(256 * len(drawn) / best_seconds(lambda: space.sample(drawn, 0), repeat)),
        "evaluate_per_second": round(
            len(few) / best_seconds(lambda: [evaluate(architecture, layer, m) for m in few], repeat)
        ),
    }


def timed(name: str, layer: Layer, rows: int, repeat: int) -> dict[str, Any]:
    """The same mappings with and without the machine's timing, in turns, the best of each."""
    architecture = load_architecture(name)
    machines = (architecture, replace(architecture, timing=None))
    evaluators = [BatchEvaluator(machine, layer) for machine in machines]
    batch = valid_rows(MappingSpace(architecture, layer), evaluators[0], rows)
    # in turns, so that a machine that slows down for a while slows both
    seconds = [inf, inf]
    for _ in range(repeat):
        for number, evaluator in enumerate(evaluators):
            seconds[number] = min(seconds[number], best_seconds(partial(evaluator.evaluate, batch), 1))
    return {
        "architecture": name,
        "layer": layer.name,
        "timed_per_second": round(rows / seconds[0]),
        "untimed_per_second": round(rows / seconds[1]),
        "ratio": round(seconds[1] / seconds[0], 3),
    }


def first_calls() -> dict[str, float]:
    """Seconds to a first answer without and with machine code on disk."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}
        command = [sys.executable, "-c", FIRST_CALL]
        runs = [
            subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            for _ in range(2)
        ]
    cold, warm = (round(float(run.stdout), 2) for run in runs)
    return {"compiling_seconds": cold, "loading_seconds": warm}


def print_table(results: list[dict[str, Any]]) -> None:
    columns = (
        "batch_per_second",
        "drawn_per_second",
        "evaluate_per_second",
        "valid_of_drawn",
        "temporal_loops",
    )
    print(f"{'architecture':14} {'layer':24}" + "".join(f"{column:>21}" for column in columns))
    for row in results:
        cells = "".join(f"{row[column]:>21,}" for column in columns)
        print(f"{row['architecture']:14} {row['layer']:24}{cells}")


def print_timed(results: list[dict[str, Any]]) -> None:
    print(f"\n{'with timing':14} {'layer':24}{'timed a second':>18}{'without timing':>18}{'ratio':>8}")
    for row in results:
        counted = f"{row['timed_per_second']:>18,}{row['untimed_per_second']:>18,}"
        print(f"{row['architecture']:14} {row['layer']:24}{counted}{row['ratio']:>8.2f}")


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--rows", type=int, default=20_000, help="mappings per measurement")
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    results = [measure(name, layer, given.rows, given.repeat) for name in ARCHITECTURES for layer in LAYERS]
    machines = [timed(name, layer, given.rows, given.repeat) for name in TIMED for layer in LAYERS]
    calls = first_calls()
    print_table(results)
    print_timed(machines)
    print(f"first call: {calls['compiling_seconds']} s compiling, {calls['loading_seconds']} s from disk")
    record.finish({"mappings": results, "timed": machines, "first_call": calls}, given)


if __name__ == "__main__":
    main()
