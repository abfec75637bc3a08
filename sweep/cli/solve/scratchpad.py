"""What ``archsweep solve scratchpad`` does."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.table import Table

from sweep.cli.messages import WorkFailedError, note, shown, warn
from sweep.solve.scratchpad import ScratchpadRequest


def solve_scratchpad(request: ScratchpadRequest, as_json: bool) -> None:
    """Solve and print; a graph without a plan ends with status 1 and the reason."""
    for warning in request.warnings:
        warn(warning)
    answer = request.solved().to_json()
    if as_json:
        print(json.dumps(answer))
    elif answer["plan"] is not None:
        _print_answer(answer)
    said = f"{answer['status']}: {answer['note']}"
    if answer["plan"] is None:
        raise WorkFailedError(said)
    if answer["note"]:
        note(said)


def _print_answer(answer: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None)
    for key in ("status", "objective_bytes", "bound_bytes", "gap", "cpu_seconds", "budget_bytes"):
        table.add_row(key.replace("_", " "), shown(answer[key]))
    console = Console()
    console.print(table)
    for name, tensor in answer["plan"]["tensors"].items():
        if tensor["retrieved_at"]:
            spilled = "dropped" if tensor["spilled_at"] is None else f"spilled at {tensor['spilled_at']}"
            console.print(f"{name}: {spilled}, back at {tensor['retrieved_at']}", markup=False)
