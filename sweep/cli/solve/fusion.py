"""What ``archsweep solve fusion`` does."""

from __future__ import annotations

import json

from rich.console import Console
from rich.table import Table

from sweep.cli.messages import WorkFailedError, shown
from sweep.solve.fusion import FusionAnswer, FusionRequest
from sweep.solve.layer_fusion import LayerFusionAnswer, LayerFusionRequest


def solve_fusion(request: FusionRequest | LayerFusionRequest, as_json: bool) -> None:
    """Solve, evaluate and print; a problem without a mapping ends with status 1 and the reason."""
    answer = request.solved()
    if as_json:
        print(json.dumps(answer.to_json()))
    elif answer.outcome.solution is not None:
        _print_answer(answer)
    if answer.outcome.solution is None:
        raise WorkFailedError(f"{answer.outcome.status}: {answer.outcome.note}")


def _print_answer(answer: FusionAnswer | LayerFusionAnswer) -> None:
    content, table = answer.to_json(), Table(show_header=False, box=None)
    for key in ("status", "objective", "bound", "gap", "cpu_seconds", "note", "energy_pj", "cycles"):
        if content[key] not in (None, ""):
            table.add_row(key.replace("_", " "), shown(content[key]))
    console = Console()
    console.print(table)
    console.print(answer.text, markup=False, highlight=False)
