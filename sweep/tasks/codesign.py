"""Co-design tasks: an architecture of a family for some layers, and how a worker answers that."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from costmodel.formats.architectures import architecture_names
from costmodel.formats.cases.folder import mapping_to_json
from costmodel.workload.network import Layer
from results.store.schema.rows import CodesignColumns, CodesignRow
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.codesign.family import ArchitectureFamily
from solvers.codesign.problem import CodesignProblem, CodesignSolution, WeightedLayer, evaluated
from solvers.outcome import Outcome
from sweep import VERSION
from sweep.study.identity import checked_params, content_hash
from sweep.tasks.columns import proof_columns
from sweep.tasks.mapping import (
    VersionMismatchError,
    architecture_id,
    check_versions,
    layer_content,
    solve_columns,
    solve_content,
)


@dataclass(frozen=True, eq=False)
class CodesignTask:
    """Find an architecture for the problem's layers; ``params`` is the solver's complete Params as JSON.

    The family is one of the library's: workers load it by its name, and refuse one that differs. Raises
    ValueError for a family of a file.
    """

    problem: CodesignProblem
    solver: str
    params: str
    budget: Budget

    table = "codesigns"

    def __post_init__(self) -> None:
        if self.problem.family.source not in architecture_names():
            raise ValueError(f"{self.problem.family.source} is no architecture of the library")

    @cached_property
    def content(self) -> dict[str, Any]:
        """What the answer depends on, as plain JSON data: this is what travels to a worker."""
        problem = self.problem
        return {
            "kind": "codesign",
            "archsweep_version": VERSION,
            "source": problem.family.source,
            "overrides": [list(pair) for pair in problem.family.overrides],
            "base_id": architecture_id(problem.family.base),
            "layers": [
                [{**layer_content(weighted.layer), "name": weighted.layer.name}, weighted.occurrences]
                for weighted in problem.layers
            ],
            "area_um2": problem.area_um2,
            "objective": problem.objective,
            "free_sizes": list(problem.free_sizes),
            "free_fanouts": list(problem.free_fanouts),
            **solve_content(self.solver, self.params, self.budget),
        }

    @cached_property
    def id(self) -> str:
        # neither names of layers nor the version of archsweep change an answer; the solver's version does
        layers = [[layer_content(w.layer), w.occurrences] for w in self.problem.layers]
        kept = {
            key: value for key, value in self.content.items() if key not in ("archsweep_version", "layers")
        }
        return content_hash(["codesign", kept, layers])

    @property
    def columns(self) -> CodesignRow:
        """The columns of a ``codesigns`` row that the task decides."""
        content = self.content
        own: CodesignRow = {
            "family": {key: content[key] for key in ("source", "overrides", "free_sizes", "free_fanouts")},
            "base_id": content["base_id"],
            "layer_counts": [
                {"layer": weighted.layer.name, "occurrences": weighted.occurrences}
                for weighted in self.problem.layers
            ],
            "objective_name": self.problem.objective,
            "allowed_area_um2": self.problem.area_um2,
        }
        return own | cast(CodesignRow, solve_columns(content))


def run_codesign_task(content: ReadOnlyDict[str, Any]) -> CodesignColumns:
    """Answer a task from its :attr:`CodesignTask.content`; runs on a worker, returns plain data.

    Raises VersionMismatchError, and whatever the solver raises: the runtime makes that a failed completion.
    """
    check_versions(content)
    problem = problem_of(content)
    # workers of an older checkout may have another file of that name in their library
    if (here := architecture_id(problem.family.base)) != content["base_id"]:
        raise VersionMismatchError(
            f"architecture {content['source']} is {here} here, {content['base_id']} asked"
        )
    params = checked_params(content["solver"], content["params"])
    outcome = solver(content["solver"]).load().solve(problem, Budget(**content["budget"]), params)
    return _columns(problem, outcome)


def problem_of(content: ReadOnlyDict[str, Any]) -> CodesignProblem:
    """The problem that a task's content states."""
    overrides = tuple((key, value) for key, value in content["overrides"])
    layers = tuple(
        WeightedLayer(Layer.from_json({**layer, "dims": dict(layer["dims"])}), count)
        for layer, count in content["layers"]
    )
    return CodesignProblem(
        ArchitectureFamily(content["source"], overrides),
        layers,
        area_um2=content["area_um2"],
        objective=content["objective"],
        free_sizes=tuple(content["free_sizes"]),
        free_fanouts=tuple(content["free_fanouts"]),
    )


def overrides_of(problem: CodesignProblem, found: CodesignSolution) -> dict[str, Any]:
    """What the architecture found changes in the family's file, by the file's keys."""
    levels = {level.name: level for level in found.architecture.levels}
    sizes = {f"{name}.size": f"{levels[name].size_words} words" for name in problem.free_sizes}
    fanouts = {
        f"{name}.fanout": [levels[name].fanout_x, levels[name].fanout_y] for name in problem.free_fanouts
    }
    return sizes | fanouts


def _columns(problem: CodesignProblem, outcome: Outcome[CodesignSolution]) -> CodesignColumns:
    """The columns of a ``codesigns`` row that the solve decides (``results/store/schema/tables.py``)."""
    columns = cast(CodesignColumns, proof_columns(outcome))
    found = outcome.solution
    if found is None:
        return columns
    evaluation = evaluated(problem, found)
    return columns | {
        "overrides": overrides_of(problem, found),
        "area_um2": found.architecture.area_um2,
        "mac_units": found.architecture.mac_units,
        "energy_pj": evaluation.energy_pj,
        "cycles": evaluation.cycles,
        "layers": [
            {
                "energy_pj": layer.energy_pj,
                "cycles": layer.cycles,
                "mapping": mapping_to_json(found.architecture, weighted.layer, mapping),
            }
            for weighted, layer, mapping in zip(
                problem.layers, evaluation.layers, found.mappings, strict=True
            )
        ],
    }
