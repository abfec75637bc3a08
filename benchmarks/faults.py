"""Faults survived by a study of 240 solves on two workers of this machine: a table, then JSON.

    python benchmarks/faults.py [--only NAME ...]

The scenarios are those of tests/sweep/run/faults/test_faults.py. `extra` counts solves that were begun more
often than once until every task had its answer; `equal` says that the rows are then the undisturbed run's.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import record

from clusters.ray.session import RaySession

ROOT = Path(__file__).parents[1]
COLUMNS = ("fault", "rows", "failed", "repeated", "resumed", "extra", "equal")


def survive(scenarios: Sequence[Callable[[Any], Any]]) -> Iterator[dict[str, Any]]:
    from tests.sweep.run.faults.fault_scenarios import Scene

    for scenario in scenarios:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome = asdict(scenario(Scene(Path(folder))))
        yield outcome | {"failed": len(outcome["failed"])}


def print_row(row: dict[str, Any]) -> None:
    print(f"{row['fault']:<38}", *(f"{row[column]!s:>9}" for column in COLUMNS[1:]))


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--only", nargs="*", help="names of scenarios, such as segfault")
    options = parser.parse_args()
    only = options.only
    os.environ["PYTHONPATH"] = str(ROOT)
    sys.path.insert(0, str(ROOT))
    from tests.sweep.run.faults import fault_scenarios as faults

    rows = []
    for group, local in ((faults.CLUSTER_SCENARIOS, False), (faults.SCENARIOS, True)):
        chosen = [scenario for scenario in group if only is None or scenario.__name__ in only]
        session = RaySession("", faults.WORKERS) if local and chosen else None
        for row in survive(chosen):
            rows.append(row)
            print(".", end="", file=sys.stderr, flush=True)
        if session:
            session.close()
    # last, because Ray itself prints the death of a node
    for row in [{column: column for column in COLUMNS}, *rows]:
        print_row(row)
    record.finish(rows, options)


if __name__ == "__main__":
    main()
