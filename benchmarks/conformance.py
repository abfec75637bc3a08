"""How many of a folder's Timeloop cases the cost model counts equally: a table, then one JSON object.

    python benchmarks/conformance.py tests/data/timeloop [--show-differences]

Equal means every read, fill, update, tile, share, instance count and cycle the same and energies within 1e-9.
Cases are told apart by ``oracle``: "exact" ones must be equal; in the others Timeloop may have used link
transfers that its counters hide (item 13 of costmodel/mapping/counts/traffic.py).
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import record

from costmodel.errors import InputError
from costmodel.formats.cases.folder import read_cases
from costmodel.formats.cases.results import differences, expected_results, oracle_kind
from costmodel.mapping.evaluate import evaluate

KINDS = ("exact", "not_run", "differs")


def measure(folder: Path) -> dict[str, Any]:
    """Counts per architecture and kind, the cases that are not equal, CPU seconds of ``evaluate`` alone."""
    equal: Counter[tuple[str, str]] = Counter()
    unequal: dict[tuple[str, str], list[str]] = {}
    found: dict[str, list[str]] = {}
    seconds = 0.0
    for case in read_cases(folder):
        start = time.process_time()
        evaluation = evaluate(case.architecture, case.layer, case.mapping)
        seconds += time.process_time() - start
        key = case.architecture.name, oracle_kind(case)
        if not (wrong := differences(evaluation, expected_results(case))):
            equal[key] += 1
            continue
        unequal.setdefault(key, []).append(case.id)
        found[case.id] = wrong
    names = sorted({name for name, _ in [*equal, *unequal]})
    total = sum(equal.values()) + len(found)
    return {
        "cases": total,
        "equal": sum(equal.values()),
        "evaluate_cpu_seconds": round(seconds, 3),
        "evaluate_us_per_case": round(1e6 * seconds / max(total, 1), 1),
        "architectures": {
            name: {
                kind: {"equal": equal[name, kind], "not_equal": unequal.get((name, kind), [])}
                for kind in KINDS
            }
            for name in names
        },
        "differences": found,
    }


def print_table(measured: dict[str, Any]) -> None:
    print(f"{'equal / cases':24}" + "".join(f"{kind:>14}" for kind in KINDS))
    for name, kinds in measured["architectures"].items():
        cells = [(kinds[kind]["equal"], len(kinds[kind]["not_equal"])) for kind in KINDS]
        print(f"{name:24}" + "".join(f"{f'{right} / {right + wrong}':>14}" for right, wrong in cells))
    print(f"{measured['equal']} of {measured['cases']} equal, {measured['evaluate_cpu_seconds']} CPU s")


def main() -> int:
    parser = record.parser(__doc__)
    parser.add_argument("folder", type=Path, help="a folder (or file) of cases")
    parser.add_argument("--show-differences", action="store_true", help="list the numbers that differ")
    arguments = parser.parse_args()
    try:
        measured = measure(arguments.folder)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    print_table(measured)
    differing = measured.pop("differences")
    if arguments.show_differences:
        for case, wrong in differing.items():
            print(case, *wrong, sep="\n    ")
    record.finish(measured, arguments)
    return 1 if any(kinds["exact"]["not_equal"] for kinds in measured["architectures"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
