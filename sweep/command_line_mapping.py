"""What ``archsweep solve mapping`` does."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from costmodel.architectures import load_architecture
from costmodel.errors import InputError
from costmodel.evaluate import evaluate
from costmodel.frontends.safe_yaml import parse_yaml
from costmodel.frontends.timeloop_export import check_version, mapping_text
from costmodel.frontends.timeloop_reference import mapping_to_json
from costmodel.networks import counting_warnings, load_layer, network_around
from costmodel.technology import energy_inversions
from costmodel.uneven import AnyMapping
from costmodel.workload import Layer
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.mapping.problem import MappingProblem, executed_layer
from solvers.mapping.rules import SpaceRules
from sweep.command_line_words import check_file_to_write
from sweep.mapping_space import load_rules
from sweep.solver_options import solver_params
from sweep.task import space_content, useful_utilization
from sweep.timeloop_space import fan_out_steps, is_timeloop_constraints, kind_names, with_timeloop_constraints

FAMILY = "mapping"
NOTES = Console(stderr=True)


@dataclass(frozen=True)
class SpaceOptions:
    """``--keep``, ``--padding``, ``--constraints`` and ``--uneven``; they go before what the file says."""

    keep: str | None = None
    padding: float | None = None
    constraints: Path | None = None
    uneven: bool | None = None

    def rules(self, architecture: str, layer: Layer, elsewhere: frozenset[str]) -> SpaceRules:
        """The rules for mappings of ``layer``; constraints of Timeloop files are among them.

        What these say of names that are only ``elsewhere``, in other layers, is left out.
        """
        ours, theirs = self.constraints, None
        if ours is not None and is_timeloop_constraints(ours):
            ours, theirs = None, ours
        rules = load_rules(ours) if ours else SpaceRules()
        given = {key: value for key, value in asdict(self).items() if key != "constraints"}
        rules = replace(rules, **{key: value for key, value in given.items() if value is not None})
        return with_timeloop_constraints(rules, architecture, layer, theirs, elsewhere)


@dataclass(frozen=True)
class MappingRequest:
    """``archsweep solve mapping``'s options; ``params`` is JSON, ``overrides`` are of the architecture."""

    architecture: str
    layer: str
    solver: str
    objective: Any
    budget: Budget
    params: str = "{}"
    tolerance: float | None = None
    space: SpaceOptions = field(default_factory=SpaceOptions)
    timeloop: Path | None = None
    timeloop_version: Any = "0.4"
    overrides: Mapping[str, Any] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)

    def problem(self) -> MappingProblem:
        architecture = load_architecture(self.architecture, self.overrides)
        layer = load_layer(self.layer, self.dims)
        around = network_around(self.layer, self.dims)
        for warning in counting_warnings(around) if around else ():
            NOTES.print(f"warning: {warning}", markup=False, highlight=False, soft_wrap=True)
        elsewhere = kind_names(layer, around.layers if around else ())
        rules = self.space.rules(self.architecture, layer, elsewhere)
        try:
            rules.check(architecture, layer)
        except InputError as error:
            where = str(self.space.constraints or "--constraints")
            raise error.at(where, error.where) from None
        return MappingProblem(architecture, layer, self.objective, rules)

    def checked_params(self) -> Any:
        tolerance = {} if self.tolerance is None else {"tolerance": self.tolerance}
        return solver_params(self.solver, FAMILY, self.params, **tolerance)


def changes(values: Iterable[str]) -> dict[str, Any]:
    """``--set KEY=VALUE`` as overrides of an architecture; a value is written as in a study."""
    found = {}
    for text in values:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise InputError("--set", "KEY=VALUE, such as SRAM.size='64 KiB'", text)
        if key.strip() in found:
            raise InputError("--set", "every key once", text, f"{key.strip()} has a value already")
        found[key.strip()] = parse_yaml(value, f"--set {key}")
    return found


def solve_one(request: MappingRequest, as_json: bool) -> None:
    """Solve, evaluate and print; a problem without a mapping ends with status 1 and the reason."""
    check_version(request.timeloop_version)
    check_file_to_write("--timeloop", request.timeloop)
    problem = request.problem()
    for warning in energy_inversions(problem.architecture):
        NOTES.print(f"warning: {warning}", markup=False, highlight=False)
    answer = solved(problem, request)
    if as_json:
        print(json.dumps(answer))
    elif answer["mapping"] is not None:
        _print_answer(answer)
    if answer["mapping"] is None:
        NOTES.print(f"{answer['status']}: {answer['note']}", markup=False)
        raise SystemExit(1)


def solved(problem: MappingProblem, request: MappingRequest) -> dict[str, Any]:
    """The JSON object that ``archsweep solve mapping --json`` prints."""
    solve, params = solver(request.solver, FAMILY).load().solve, request.checked_params()
    outcome = solve(problem, request.budget, params)
    if request.timeloop is not None and outcome.solution is not None:
        _export(problem, outcome.solution, request)
    return {
        "status": str(outcome.status),
        "objective": outcome.objective,
        "bound": outcome.bound,
        "gap": outcome.gap,
        "program_proven": outcome.program_proven,
        "solved_by": None if outcome.solution is None else outcome.solved_by or request.solver,
        "space": space_content(problem, outcome.solution),
        "cpu_seconds": outcome.cpu_seconds,
        "note": outcome.note,
        **_measured(problem, outcome.solution),
    }


def _export(problem: MappingProblem, found: AnyMapping, request: MappingRequest) -> None:
    layer, version = executed_layer(problem, found), request.timeloop_version
    steps = fan_out_steps(request.architecture)
    text = mapping_text(problem.architecture, layer, found, version, steps)
    assert request.timeloop is not None
    try:
        request.timeloop.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError("--timeloop", "a file that can be written", error.strerror or str(error)) from None


def _measured(problem: MappingProblem, found: AnyMapping | None) -> dict[str, Any]:
    if found is None:
        return {"mapping": None, "evaluation": None}
    executed = executed_layer(problem, found)
    evaluation = evaluate(problem.architecture, executed, found)
    useful = {"useful_utilization": useful_utilization(problem, evaluation.cycles)}
    return {
        "mapping": mapping_to_json(problem.architecture, executed, found),
        "evaluation": evaluation.to_json() | useful,
    }


def _print_answer(answer: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None)
    evaluation = answer["evaluation"]
    for key in ("status", "objective", "bound", "gap", "solved_by", "program_proven", "cpu_seconds", "note"):
        if answer[key] not in (None, ""):
            table.add_row(key.replace("_", " "), _shown(answer[key]))
    table.add_row("space", answer["space"]["name"])
    if padded := answer["space"].get("padded"):
        table.add_row("padded to", " ".join(f"{dim}={size}" for dim, size in padded.items()))
    for key in ("energy_pj", "cycles", "edp_pj_cycles", "utilization", "useful_utilization"):
        table.add_row(key.replace("_", " "), _shown(evaluation[key]))
    console = Console()
    console.print(table)
    uneven = "part_of" in answer["mapping"]
    kept = {entry["target"]: entry["keep"] for entry in answer["mapping"]["bypass"] if uneven}
    for block in answer["mapping"]["levels"]:
        if block["type"] == "temporal" and (names := kept.get(block["target"])):
            console.print(f"{'tiles of':>20} {', '.join(names)}", markup=False, highlight=False)
        factors = block["factors"]
        used = " ".join(f"{dim}{factors[dim]}" for dim in reversed(block["permutation"]) if factors[dim] > 1)
        console.print(f"{block['target']:>20} {block['type']:8} {used}", markup=False, highlight=False)


def _shown(value: Any) -> str:
    return f"{value:,.6g}" if isinstance(value, float) else str(value)
