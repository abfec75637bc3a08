"""How many layer schemes are counted as nn-dataflow counted them: a table, then one JSON object.

    python benchmarks/kapla_conformance.py REFERENCE

REFERENCE is a file of rows (such as ``tests/data/kapla/layer_schemes.jsonl.gz``), or a folder with
``layer_optima.jsonl.gz``. Equal means accesses per level and tensor, and cycles, exactly, and energy within 1e-9.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from costmodel.conventions.nn_dataflow.cases import evaluated_line, read_schemes

CLOSE = 1e-9


def measure(path: Path) -> dict[str, Any]:
    start = time.process_time()
    rows: Counter[tuple[str, str]] = Counter()
    equal: Counter[tuple[str, str]] = Counter()
    worst, wrong = 0.0, []
    for case in read_schemes(path):
        told, line = case.record, evaluated_line(case)
        group = (told["hw"]["name"], told["dims"]["kind"])
        error = abs(line["energy_j"] - told["energy"]) / told["energy"]
        counts = line["access"] == told["access"] and line["time_cycles"] == told["time_cycles"]
        rows[group] += 1
        equal[group] += counts and error <= CLOSE
        worst = max(worst, error)
        if not counts or error > CLOSE:
            wrong.append(f"{case.where} {case.name}")
    return {
        "rows": rows.total(),
        "equal": equal.total(),
        "worst_energy_error": worst,
        "wrong": wrong,
        "groups": [[*group, equal[group], count] for group, count in sorted(rows.items())],
        "cpu_seconds": round(time.process_time() - start, 2),
    }


def print_table(result: dict[str, Any]) -> None:
    print(f"{'hardware':14} {'kind':14} {'equal':>6} {'rows':>6}")
    for hardware, kind, equal, rows in result["groups"]:
        print(f"{hardware:14} {kind:14} {equal:6} {rows:6}")
    print(f"{'all':29} {result['equal']:6} {result['rows']:6}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("reference", type=Path)
    path = parser.parse_args().reference
    result = measure(path / "layer_optima.jsonl.gz" if path.is_dir() else path)
    print_table(result)
    print(json.dumps(result))
    return int(result["equal"] < result["rows"])


if __name__ == "__main__":
    sys.exit(main())
