"""What ``archsweep solve scratchpad`` does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from costmodel.networks import load_network, size_warnings
from costmodel.scratchpad import OperatorGraph, ScratchpadSettings, operator_graph
from solvers.budget import Budget, Stopwatch
from solvers.catalogue import solver
from solvers.scratchpad.budgets import budget_bytes
from solvers.scratchpad.problem import ScratchpadProblem
from sweep.solver_options import solver_params

NOTES = Console(stderr=True)
FAMILY = "scratchpad"


@dataclass(frozen=True)
class ScratchpadRequest:
    """The command's options; ``graph`` is a library network or a file, ``params`` JSON."""

    graph: str
    budget: str
    solver: str
    settings: ScratchpadSettings
    limit: Budget
    params: str = "{}"
    batch: int | None = None
    dims: Mapping[str, int] = field(default_factory=dict)

    def operator_graph(self) -> OperatorGraph:
        network = load_network(self.graph, self.batch, self.dims)
        for warning in size_warnings(network):
            NOTES.print(f"warning: {warning}", markup=False, highlight=False, soft_wrap=True)
        return operator_graph(network, self.settings)

    def checked_params(self) -> Any:
        return solver_params(self.solver, FAMILY, self.params)


def solve_scratchpad(request: ScratchpadRequest, as_json: bool) -> None:
    """Solve and print; a graph without a plan ends with status 1 and the reason."""
    answer = solved(request)
    if as_json:
        print(json.dumps(answer))
    elif answer["plan"] is not None:
        _print_answer(answer)
    if answer["note"]:
        NOTES.print(f"{answer['status']}: {answer['note']}", markup=False)
    if answer["plan"] is None:
        raise SystemExit(1)


def solved(request: ScratchpadRequest) -> dict[str, Any]:
    """The JSON object that ``archsweep solve scratchpad --json`` prints.

    ``cpu_seconds`` has the budget's own search in it (MH and MP ask for the minimum peak).
    """
    params = request.checked_params()
    graph = request.operator_graph()
    watch = Stopwatch()
    budget = budget_bytes(graph, request.budget, request.limit.wall_seconds / 4)
    problem = ScratchpadProblem(graph, budget.size_bytes)
    outcome = solver(request.solver).load().solve(problem, request.limit, params)
    return {
        "status": str(outcome.status),
        "objective_bytes": _whole(outcome.objective),
        "bound_bytes": _whole(outcome.bound),
        "gap": outcome.gap,
        "cpu_seconds": watch.cpu_seconds,
        "budget_bytes": problem.budget_bytes,
        "plan": outcome.solution and outcome.solution.to_json(),
        "note": "; ".join(note for note in (budget.note, outcome.note) if note),
    }


def _whole(size_bytes: float | None) -> int | None:
    return None if size_bytes is None else round(size_bytes)


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
