"""``archsweep evaluate`` of files of layer schemes, as nn-dataflow counts them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from costmodel.conventions.nn_dataflow.cases import evaluated_line, read_schemes


def evaluate_schemes(paths: Iterable[Path], as_json: bool) -> None:
    """One line a row, in the order of the files; status 1 if one does not fit its buffers."""
    failed = False
    for path in paths:
        for case in read_schemes(path):
            line = evaluated_line(case)
            failed |= "not_possible" in line
            print(json.dumps(line) if as_json else _text(line), flush=True)
    if failed:
        raise SystemExit(1)


def _text(line: dict[str, Any]) -> str:
    name = f"{line['net']}/{line['layer']}"
    if "not_possible" in line:
        return f"{name}  {line['not_possible']}"
    dram = sum(line["access"]["DRAM"].values())
    return f"{name}  {line['time_cycles']} cycles  energy {line['energy_j']:.6g}  {dram:.0f} DRAM words"
