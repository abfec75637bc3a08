"""What ``archsweep solve codesign`` does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from costmodel.errors import InputError, did_you_mean
from costmodel.formats.architectures import overridden_document
from costmodel.formats.cases.folder import mapping_to_json
from costmodel.formats.networks import load_network
from costmodel.formats.timeloop.chip_files import files_of
from costmodel.workload.counting import counting_warnings, mapped_layers
from results.errors import CannotWriteError
from results.store.parts import write_whole
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.codesign.family import ArchitectureFamily
from solvers.codesign.problem import CodesignProblem, CodesignSolution, evaluated
from solvers.outcome import Outcome
from sweep.cli.messages import WorkFailedError, shown, warn
from sweep.cli.solve.solver_options import stated_params
from sweep.solve.parameters import solver_params
from sweep.tasks.codesign import overrides_of

FAMILY = "codesign"
OWN_FILE = "architecture.yaml"
"""The file of ours: the architecture that was found, for a study or for ``solve mapping``."""


@dataclass(frozen=True)
class CodesignRequest:
    """The command's options; ``params`` is JSON, ``free`` keys LEVEL.size and LEVEL.fanout (none: all)."""

    architecture: str
    network: str
    area_um2: float | None
    objective: Any
    solver: str
    budget: Budget
    params: str = "{}"
    free: tuple[str, ...] = ()
    dims: Mapping[str, int] = field(default_factory=dict)
    timeloop: Path | None = None
    """Folder for the answer as files; None: none are written."""

    def problem(self) -> CodesignProblem:
        family, network = ArchitectureFamily(self.architecture), load_network(self.network, None, self.dims)
        layers = mapped_layers(network)
        for warning in counting_warnings(network):
            warn(warning)
        problem = CodesignProblem.of(family, layers, self.area_um2, self.objective)
        if not self.free:
            return problem
        # which would be answered as if it were there once: a slip, perhaps for another level
        if twice := next((key for key in self.free if self.free.count(key) > 1), None):
            raise InputError("--free", "every key once", f"{twice} again")
        sizes = self._named("size", problem.free_sizes)
        fanouts = self._named("fanout", problem.free_fanouts)
        if unknown := [key for key in self.free if key not in (*sizes.values(), *fanouts.values())]:
            every = self._keys(problem)
            expected, remedy = f"one of {', '.join(every)}", did_you_mean(unknown[0], every)
            raise InputError("--free", expected, unknown[0], remedy)
        return replace(problem, free_sizes=tuple(sizes), free_fanouts=tuple(fanouts))

    def checked_params(self) -> Any:
        return solver_params(self.solver, FAMILY, stated_params(self.solver, FAMILY, self.params))

    def _named(self, quantity: str, levels: tuple[str, ...]) -> dict[str, str]:
        """Those of ``levels`` whose ``quantity`` is named in ``free``, with the key that names it."""
        return {name: key for name in levels if (key := f"{name}.{quantity}") in self.free}

    @staticmethod
    def _keys(problem: CodesignProblem) -> list[str]:
        """What can be free."""
        sizes = [f"{name}.size" for name in problem.free_sizes]
        return [*sizes, *(f"{name}.fanout" for name in problem.free_fanouts)]


def solve_codesign(request: CodesignRequest, as_json: bool) -> None:
    """Solve and print; without an architecture it ends with status 1 and the reason."""
    # first, so that a mistake in them does not wait for a network to be read
    params = request.checked_params()
    if request.timeloop is not None and request.timeloop.exists() and not request.timeloop.is_dir():
        raise InputError("--timeloop", "a folder", f"the file {request.timeloop}", "Name another.")
    problem = request.problem()
    outcome = solver(request.solver).load().solve(problem, request.budget, params)
    answer = described(problem, outcome)
    if request.timeloop is not None and outcome.solution is not None:
        answer["files"] = write_files(request, problem, outcome.solution, request.timeloop)
    if as_json:
        print(json.dumps(answer))
    elif answer["architecture"] is not None:
        _print_answer(answer)
    if answer["architecture"] is None:
        raise WorkFailedError(f"{answer['status']}: {answer['note']}")


def write_files(
    request: CodesignRequest, problem: CodesignProblem, found: CodesignSolution, folder: Path
) -> list[str]:
    """Write the answer into ``folder`` and return the files: our own architecture file, and Timeloop's.

    CannotWriteError for a folder that cannot be made or written.
    """
    base = found.architecture.name
    overrides = dict(problem.family.overrides) | overrides_of(problem, found)
    own = overridden_document(problem.family.source, overrides) | {
        "name": f"{base}-codesign",
        "description": f"{base}, sizes and fan-outs chosen for the {problem.objective} of {request.network}",
    }
    layers = [weighted.layer for weighted in problem.layers]
    texts = files_of(found.architecture, list(zip(layers, found.mappings, strict=True)))
    texts[OWN_FILE] = yaml.safe_dump(own, sort_keys=False, default_flow_style=None, width=100)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWriteError(folder, f"cannot be made: {error}", "Name another folder") from None
    for name, text in texts.items():
        write_whole(folder / name, partial(_write, text))
    return [str(folder / name) for name in sorted(texts)]


def _write(text: str, file: Path) -> None:
    file.write_text(text, encoding="utf-8")


def described(problem: CodesignProblem, outcome: Outcome[CodesignSolution]) -> dict[str, Any]:
    """The JSON object that ``archsweep solve codesign --json`` prints."""
    return {
        "status": str(outcome.status),
        "objective": outcome.objective,
        "bound": outcome.bound,
        "gap": outcome.gap,
        "cpu_seconds": outcome.cpu_seconds,
        "note": outcome.note,
        "allowed_area_um2": problem.area_um2,
        **_described(problem, outcome.solution),
    }


def _described(problem: CodesignProblem, found: CodesignSolution | None) -> dict[str, Any]:
    """The architecture as overrides of its file, the sums, and every layer's mapping."""
    if found is None:
        return {"architecture": None, "layers": []}
    evaluation = evaluated(problem, found)
    return {
        "architecture": {"base": problem.family.source, "overrides": overrides_of(problem, found)},
        "area_um2": found.architecture.area_um2,
        "mac_units": found.architecture.mac_units,
        "energy_pj": evaluation.energy_pj,
        "cycles": evaluation.cycles,
        "edp_pj_cycles": evaluation.edp_pj_cycles,
        "pj_per_mac": evaluation.energy_pj / problem.macs,
        "macs_per_cycle": problem.macs / evaluation.cycles,
        "layers": [
            {
                "layer": weighted.layer.name,
                "occurrences": weighted.occurrences,
                "energy_pj": layer.energy_pj,
                "cycles": layer.cycles,
                "mapping": mapping_to_json(found.architecture, weighted.layer, mapping),
            }
            for weighted, layer, mapping in zip(
                problem.layers, evaluation.layers, found.mappings, strict=True
            )
        ],
    }


def _print_answer(answer: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None)
    for key in ("status", "objective", "bound", "gap", "cpu_seconds", "note", "allowed_area_um2", "area_um2"):
        if answer[key] != "":
            table.add_row(key.replace("_", " "), shown(answer[key]))
    for key, value in answer["architecture"]["overrides"].items():
        table.add_row(key, f"{value}")
    for key in ("energy_pj", "cycles", "edp_pj_cycles", "pj_per_mac", "macs_per_cycle"):
        table.add_row(key.replace("_", " "), shown(answer[key]))
    console = Console()
    console.print(table)
    for file in answer.get("files", ()):
        console.print(file, markup=False, highlight=False)
    for layer in answer["layers"]:
        numbers = f"{layer['energy_pj']:.6g} pJ  {layer['cycles']} cycles"
        console.print(
            f"{layer['layer']:>24} x{layer['occurrences']}  {numbers}", markup=False, highlight=False
        )
