"""Mapping tasks: map one layer on one architecture; and what tasks of every kind have in common."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, TypedDict, cast

from costmodel import MODEL_VERSION
from costmodel.errors import InputError
from costmodel.formats.cases.folder import mapping_to_json
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.binding import LevelBinding, level_bindings, time_binding
from costmodel.mapping.evaluate import LevelEvaluation, evaluate
from costmodel.mapping.uneven import AnyMapping
from costmodel.workload.network import Layer
from results.store.schema.rows import AskedColumns, LayerRow, LevelColumn, MappingColumns
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.mapping.problem import (
    MappingProblem,
    Objective,
    executed_layer,
    padded_dims,
)
from solvers.mapping.space.rules import SpaceRules
from solvers.mapping.space.space_bounds import space_bounds
from solvers.outcome import Outcome
from sweep import VERSION
from sweep.study.identity import canonical_json, checked_params, content_hash, text_hash
from sweep.tasks.columns import proof_columns
from sweep.tasks.energy_cycles import EnergyCycles


def solve_content(solver_name: str, params: str, budget: Budget) -> dict[str, Any]:
    """What the answer to a task of any kind depends on besides its problem: which solver, asked how."""
    return {
        "solver": solver_name,
        "solver_version": solver(solver_name).version,
        "model_version": MODEL_VERSION,
        "params": json.loads(params),
        "budget": asdict(budget),
    }


def solve_columns(content: ReadOnlyDict[str, Any]) -> AskedColumns:
    """The columns of a row of any kind that say how it was solved, from :func:`solve_content`."""
    return {
        "solver": content["solver"],
        "solver_version": content["solver_version"],
        "params": {"params": content["params"], "budget": content["budget"]},
        "seed": content["budget"]["seed"],
    }


@dataclass(frozen=True)
class SolveSettings:
    """Which solver answers, for which objective; ``params`` is its complete Params as canonical JSON."""

    solver: str
    objective: Objective
    params: str
    budget: Budget
    rules: SpaceRules = field(default_factory=SpaceRules)

    @cached_property
    def content(self) -> dict[str, Any]:
        return {"objective": self.objective, **solve_content(self.solver, self.params, self.budget)}

    @cached_property
    def _asked(self) -> dict[Layer, str]:
        return {}

    def asked_of(self, layer: Layer) -> str:
        """The part of a task's id that does not depend on the architecture, as canonical JSON.

        It is remembered, because a study has a task of the same layer for each of its designs.
        """
        if layer not in self._asked:
            rules = self.rules.for_layer(layer).to_json()
            self._asked[layer] = canonical_json([_layer_id(layer), self.content, rules])
        return self._asked[layer]


@dataclass(frozen=True)
class MappingTask:
    """Map ``layer`` on ``architecture``.

    Only what the answer depends on counts for :attr:`id`: the shape of the layer, the hardware without names,
    areas and clock (:func:`bare`), the settings, the rules of the space that apply to the layer, and the
    versions of the solver and of the cost model.
    """

    architecture: Architecture
    layer: Layer
    settings: SolveSettings

    table = "layers"

    @property
    def content(self) -> dict[str, Any]:
        """What the answer depends on, as plain JSON data: this is what travels to a worker."""
        return {
            "kind": "mapping",
            "archsweep_version": VERSION,
            "architecture": architecture_content(self.architecture),
            "layer": layer_content(self.layer),
            "rules": self.rules.to_json(),
            **self.settings.content,
        }

    @property
    def rules(self) -> SpaceRules:
        """The settings' rules as far as they speak of this layer."""
        return self.settings.rules.for_layer(self.layer)

    @cached_property
    def id(self) -> str:
        return mapping_id(architecture_id(self.architecture), self.settings.asked_of(self.layer))

    @property
    def columns(self) -> LayerRow:
        """The columns of a ``layers`` row that the task decides."""
        own: LayerRow = {
            "layer_name": self.layer.name,
            "layer_shape": layer_content(self.layer),
            "architecture_id": architecture_id(self.architecture),
            "architecture": architecture_content(self.architecture),
            "objective_name": self.settings.objective,
            "macs": self.layer.macs,
        }
        return own | cast(LayerRow, solve_columns(self.settings.content))


def mapping_id(architecture: str, asked: str) -> str:
    """The id of a task by those of its parts: an :func:`architecture_id`, and what ``asked_of`` says."""
    # The hash of the list ["mapping", architecture, *asked], as canonical JSON: `asked` is a list already, of
    # which the opening bracket is cut off, and a hexadecimal id has no character that JSON would escape.
    return text_hash(f'["mapping","{architecture}",{asked[1:]}')


def bare(architecture: Architecture) -> Architecture:
    """The part of an architecture that a mapping depends on: no name, area or clock frequency."""
    levels = tuple(replace(level, area_um2=0.0) for level in architecture.levels)
    compute = replace(architecture.compute, area_um2=0.0)
    return replace(architecture, name="", levels=levels, compute=compute, frequency_hz=1.0)


@lru_cache(maxsize=256)
def architecture_content(architecture: Architecture) -> dict[str, Any]:
    """The bare architecture as JSON data, shared by all its tasks: not to be changed."""
    data = architecture.to_json()
    for part in (*data["levels"], data["compute"]):
        part["area_um2"] = 0.0
    return data | {"name": "", "frequency_hz": 1.0}


@lru_cache(maxsize=256)
def architecture_id(architecture: Architecture) -> str:
    """The identity of the bare architecture."""
    return content_hash(architecture_content(architecture))


@lru_cache(maxsize=4096)
def layer_content(layer: Layer) -> dict[str, Any]:
    """A layer without its name, shared and not to be changed; the order of the dims is part of it."""
    data = layer.to_json()
    return {"dims": [list(dim) for dim in layer.dims], "tensors": data["tensors"]}


@lru_cache(maxsize=4096)
def _layer_id(layer: Layer) -> str:
    return content_hash(layer_content(layer))


class VersionMismatchError(RuntimeError):
    """A worker's code is not the driver's: its answers would be filed under wrong versions."""


class CodeVersions(TypedDict):
    """The code that answers a task: what :func:`check_versions` compares, by the keys of a task's content."""

    solver: str
    solver_version: str
    archsweep_version: str
    model_version: str


def check_versions(content: ReadOnlyDict[str, Any], solver_version: str = "") -> None:
    """Raises VersionMismatchError where the versions in a task's content are not those of the code here.

    ``solver_version``: that of the code here where the solver is not one of the catalogue.
    """
    name = content["solver"]
    pairs = {
        "archsweep": (content["archsweep_version"], VERSION),
        "cost model": (content["model_version"], MODEL_VERSION),
        f"solver {name}": (content["solver_version"], solver_version or _version_here(content)),
    }
    if wrong := [f"{what} {here} for {asked}" for what, (asked, here) in pairs.items() if asked != here]:
        raise VersionMismatchError(f"a worker has {', '.join(wrong)} of the driver")


def _version_here(content: ReadOnlyDict[str, Any]) -> str:
    """The version that a task's solver has here; VersionMismatchError where it is missing or broken here."""
    try:
        return solver(content["solver"]).version
    except InputError as error:
        asked = f"solver {content['solver']}, version {content['solver_version']}"
        raise VersionMismatchError(
            f"{socket.gethostname()} does not have {asked}: {error}. Install the plug-in there too, or use "
            "`archsweep submit`, which sends it with the study"
        ) from error


def run_mapping_task(content: ReadOnlyDict[str, Any]) -> MappingColumns:
    """Answer a task from its :attr:`MappingTask.content`; runs on a worker, returns plain data.

    Raises VersionMismatchError, and whatever the solver raises: the runtime makes that a failed completion.
    """
    check_versions(content)
    layer = Layer.from_json({**content["layer"], "name": "", "dims": dict(content["layer"]["dims"])})
    architecture, rules = (
        Architecture.from_json(content["architecture"]),
        SpaceRules.from_json(content["rules"]),
    )
    problem = MappingProblem(architecture, layer, content["objective"], rules)
    params = checked_params(content["solver"], content["params"])
    outcome = solver(content["solver"]).load().solve(problem, Budget(**content["budget"]), params)
    return answer_columns(problem, outcome)


def answer_columns(problem: MappingProblem, outcome: Outcome[AnyMapping]) -> MappingColumns:
    """The columns of a ``layers`` row that the solve decides (see ``results/store/schema/tables.py``)."""
    columns: MappingColumns = {
        **proof_columns(outcome),
        **_bounds(problem, outcome),
        "program_proven": outcome.program_proven,
        "solved_by": outcome.solved_by or None,
        "space": space_content(problem, outcome.solution),
    }
    return columns if outcome.solution is None else columns | _measured(problem, outcome.solution)


def _bounds(problem: MappingProblem, outcome: Outcome[AnyMapping]) -> MappingColumns:
    """Proven bounds on energy and cycles of the problem's mappings, whatever was minimised."""
    bounds = space_bounds(problem)
    least = EnergyCycles(bounds.energy_pj, float(bounds.cycles))
    proven = proven_bounds(least, problem.objective, outcome.bound)
    return {"energy_bound_pj": proven.energy_pj, "cycles_bound": proven.cycles}


def proven_bounds(bounds: EnergyCycles, objective: str, of_objective: float | None) -> EnergyCycles:
    """``bounds`` on energy and cycles, with a solver's own on the objective where that is above them."""
    energy, cycles = bounds
    if of_objective is not None and objective == "energy":
        energy = max(energy, of_objective)
    if of_objective is not None and objective == "cycles":
        cycles = max(cycles, of_objective)
    return EnergyCycles(energy, cycles)


def space_content(problem: MappingProblem, solution: AnyMapping | None) -> dict[str, Any]:
    """The mapping space for which status and bound hold: its name, its rules, and the padded dims."""
    content: dict[str, Any] = {"name": problem.rules.describe(), **problem.rules.to_json()}
    if solution is not None and problem.rules.padding:
        content["padded"] = padded_dims(problem, solution)
    return content


def useful_utilization(problem: MappingProblem, cycles: int) -> float:
    """The layer's own MACs per MAC unit and cycle; the extra MACs of padded dims do not count."""
    return problem.layer.macs / problem.architecture.mac_units / cycles


def _measured(problem: MappingProblem, solution: AnyMapping) -> MappingColumns:
    """The cost model's evaluation of the answer, on the layer with its dims padded as the answer has them."""
    executed = executed_layer(problem, solution)
    evaluation = evaluate(problem.architecture, executed, solution)
    energies = {level.name: level.energy_pj for level in evaluation.levels}
    binding = time_binding(problem.architecture, executed, solution, evaluation)
    return {
        "energy_pj": evaluation.energy_pj,
        "cycles": evaluation.cycles,
        "edp_pj_cycles": evaluation.edp_pj_cycles,
        "utilization": evaluation.utilization,
        "useful_utilization": useful_utilization(problem, evaluation.cycles),
        "energy_by_level_pj": energies | {"MAC": evaluation.mac_energy_pj},
        "mapping": mapping_to_json(problem.architecture, executed, solution),
        "compute_cycles": evaluation.compute_cycles,
        "bound_by": binding.cause,
        "cycles_without": binding.without,
        "levels": [
            _level(level, bound)
            for level, bound in zip(
                evaluation.levels,
                level_bindings(problem.architecture, executed, solution, evaluation),
                strict=True,
            )
        ],
    }


def _level(level: LevelEvaluation, bound: LevelBinding) -> LevelColumn:
    """One storage level of the column ``levels``."""
    return {
        "name": level.name,
        "cycles": level.cycles,
        "port": bound.port,
        "words": bound.words,
        "usable_words": bound.usable_words,
        "full": bound.full,
        "energy_pj": level.energy_pj,
        "leakage_pj": level.leakage_pj,
        "tensors": {
            name: {
                "reads": traffic.reads,
                "fills": traffic.fills,
                "updates": traffic.updates,
                "instances": traffic.instances,
                "tile_words": traffic.tile_words,
                "energy_pj": traffic.energy_pj,
            }
            for name, traffic in level.tensors.items()
        },
    }
