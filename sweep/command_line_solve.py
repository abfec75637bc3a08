"""What ``archsweep solve mapping``, ``evaluate`` and ``list`` do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from costmodel.architectures import architecture_names, load_architecture
from costmodel.errors import InputError
from costmodel.evaluate import evaluate
from costmodel.frontends.timeloop_reference import evaluated_line, mapping_to_json, read_cases
from costmodel.networks import load_layer, load_network, network_names
from costmodel.workload import distinct_layers
from results.schema import schema_markdown
from solvers.budget import Budget
from solvers.catalogue import CATALOGUE, solver
from solvers.mapping.problem import MappingProblem
from sweep.study import load_study, study_names
from sweep.task import checked_params

NOTES = Console(stderr=True)


@dataclass(frozen=True)
class MappingRequest:
    """``archsweep solve mapping``'s options; ``params`` is JSON."""

    architecture: str
    layer: str
    solver: str
    objective: Any
    budget: Budget
    params: str

    def problem(self) -> MappingProblem:
        return MappingProblem(load_architecture(self.architecture), load_layer(self.layer), self.objective)

    def checked_params(self) -> Any:
        try:
            given = json.loads(self.params)
        except ValueError as error:
            raise InputError("--params", "a JSON object", self.params, str(error)) from None
        if not isinstance(given, dict):
            raise InputError("--params", "a JSON object", self.params)
        return checked_params(self.solver, given)


def solve_one(request: MappingRequest, as_json: bool) -> None:
    """Solve, evaluate and print; a problem without a mapping ends with status 1 and the reason."""
    answer = solved(request)
    if as_json:
        print(json.dumps(answer))
    elif answer["mapping"] is not None:
        _print_answer(answer)
    if answer["mapping"] is None:
        NOTES.print(f"{answer['status']}: {answer['note']}", markup=False)
        raise SystemExit(1)


def solved(request: MappingRequest) -> dict[str, Any]:
    """The JSON object that ``archsweep solve mapping --json`` prints."""
    problem = request.problem()
    outcome = solver(request.solver).load().solve(problem, request.budget, request.checked_params())
    found = outcome.solution
    return {
        "status": str(outcome.status),
        "objective": outcome.objective,
        "bound": outcome.bound,
        "gap": outcome.gap,
        "program_proven": outcome.program_proven,
        "cpu_seconds": outcome.cpu_seconds,
        "note": outcome.note,
        "mapping": found and mapping_to_json(problem.architecture, problem.layer, found),
        "evaluation": found and evaluate(problem.architecture, problem.layer, found).to_json(),
    }


def _print_answer(answer: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None)
    evaluation = answer["evaluation"]
    for key in ("status", "objective", "bound", "gap", "program_proven", "cpu_seconds"):
        table.add_row(key.replace("_", " "), _shown(answer[key]))
    for key in ("energy_pj", "cycles", "edp_pj_cycles", "utilization"):
        table.add_row(key.replace("_", " "), _shown(evaluation[key]))
    console = Console()
    console.print(table)
    for block in answer["mapping"]["levels"]:
        loops = [f"{dim}{block['factors'][dim]}" for dim in reversed(block["permutation"])]
        used = " ".join(loop for loop in loops if loop[1:] != "1")
        console.print(f"{block['target']:>20} {block['type']:8} {used}", markup=False, highlight=False)


def _shown(value: Any) -> str:
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def evaluate_cases(path: Path, as_json: bool) -> None:
    """One line a case, in the order of the files."""
    for case in read_cases(path):
        line = evaluated_line(case)
        if as_json:
            print(json.dumps(line), flush=True)
        else:
            print(f"{line['id']}  {line['cycles']} cycles  {line['energy_pj']:.6g} pJ", flush=True)


def listing(what: str) -> list[dict[str, Any]]:
    """The rows of ``archsweep list WHAT``."""
    kinds: dict[str, Callable[[], Iterable[dict[str, Any]]]] = {
        "solvers": _solvers,
        "networks": _networks,
        "architectures": _architectures,
        "studies": _studies,
    }
    if what.startswith("layers/"):
        return list(_layers(what.removeprefix("layers/")))
    if what not in kinds:
        raise InputError("list", f"one of {', '.join(kinds)}, layers/NETWORK or schema", what)
    return list(kinds[what]())


def print_schema() -> None:
    print(schema_markdown())


def _solvers() -> Iterable[dict[str, Any]]:
    for entry in CATALOGUE:
        yield {"name": entry.name, "family": entry.family, "description": entry.description}


def _networks() -> Iterable[dict[str, Any]]:
    for name in network_names():
        network = load_network(name)
        distinct = len(distinct_layers(network.layers))
        yield {"name": name, "layers": len(network.layers), "distinct": distinct, "macs": network.macs}


def _architectures() -> Iterable[dict[str, Any]]:
    for name in architecture_names():
        architecture = load_architecture(name)
        levels = " > ".join(level.name for level in reversed(architecture.levels))
        yield {"name": name, "mac_units": architecture.mac_units, "levels": levels}


def _studies() -> Iterable[dict[str, Any]]:
    for name in study_names():
        yield {"name": name, "description": load_study(name).description}


def _layers(network: str) -> Iterable[dict[str, Any]]:
    for layer, count in distinct_layers(load_network(network).layers):
        sizes = " ".join(f"{dim}={size}" for dim, size in layer.dims)
        yield {"name": f"{network}/{layer.name}", "count": count, "dims": sizes}
