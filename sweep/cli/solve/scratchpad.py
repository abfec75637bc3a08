"""What ``archsweep solve scratchpad`` does."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.table import Table

from sweep.solve.scratchpad import ScratchpadRequest

NOTES = Console(stderr=True)


def solve_scratchpad(request: ScratchpadRequest, as_json: bool) -> None:
    """Solve and print; a graph without a plan ends with status 1 and the reason."""
    for warning in request.warnings:
        NOTES.print(f"warning: {warning}", markup=False, highlight=False, soft_wrap=True)
    answer = request.solved().to_json()
    if as_json:
        print(json.dumps(answer))
    elif answer["plan"] is not None:
        _print_answer(answer)
    if answer["note"]:
        NOTES.print(f"{answer['status']}: {answer['note']}", markup=False)
    if answer["plan"] is None:
        raise SystemExit(1)


def _print_answer(answer: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None)
    for key in ("status", "objective_bytes", "bound_bytes", "gap", "cpu_seconds", "budget_bytes"):
        value = answer[key]
        table.add_row(key.replace("_", " "), f"{value:,}" if isinstance(value, int) else f"{value}")
    console = Console()
    console.print(table)
    for name, tensor in answer["plan"]["tensors"].items():
        if tensor["retrieved_at"]:
            spilled = "dropped" if tensor["spilled_at"] is None else f"spilled at {tensor['spilled_at']}"
            console.print(f"{name}: {spilled}, back at {tensor['retrieved_at']}", markup=False)
