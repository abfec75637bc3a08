"""Fusion tasks: map a group of layers together on one architecture, and how a worker answers that."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from typing import Any, cast

from costmodel.formats.json.fused_layers_json import (
    group_evaluation_to_json,
    group_from_json,
    group_mapping_to_json,
    group_to_json,
)
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.fused.layers.evaluate import evaluate_group
from costmodel.mapping.fused.layers.group import GroupMapping, LayerGroup
from costmodel.mapping.fused.layers.text import group_text
from costmodel.mapping.fused.layers.turns import turns_of
from results.store.schema.rows import FusionColumns, FusionRow
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.fusion.layers.floors import group_bounds
from solvers.fusion.layers.problem import LayerFusionProblem
from solvers.fusion.problem import FusionObjective
from solvers.outcome import Outcome
from sweep import VERSION
from sweep.study.identity import canonical_json, checked_params, text_hash
from sweep.tasks.columns import proof_columns
from sweep.tasks.energy_cycles import EnergyCycles
from sweep.tasks.mapping import (
    architecture_content,
    architecture_id,
    check_versions,
    proven_bounds,
    solve_columns,
    solve_content,
)


@dataclass(frozen=True)
class FusionSolve:
    """Which solver answers, for which objective; ``params`` is its complete Params as canonical JSON.

    ``longest``: how many layers may share loops or keep tensors for one another. ``recompute``: whether they
    may make rows of windows anew. ``pipelined``: whether they may run at the same time on parts of the array.
    """

    solver: str
    objective: FusionObjective
    longest: int
    params: str
    budget: Budget
    recompute: bool = False
    pipelined: bool = False

    @cached_property
    def content(self) -> dict[str, Any]:
        return {
            "objective": self.objective,
            "longest": self.longest,
            # without it the text, and with it the hash of a task, is what it always was
            **({"recompute": True} if self.recompute else {}),
            **({"pipelined": True} if self.pipelined else {}),
            **solve_content(self.solver, self.params, self.budget),
        }


@dataclass(frozen=True, eq=False)
class FusedLayers:
    """Layers that are mapped together, on whatever architecture; what the id needs of them is made once.

    Names of layers are for people: the layers of :attr:`content` have them without the dotted beginning that
    all have in common, so that equal blocks of a network look alike, and the id depends on none.
    """

    group: LayerGroup
    solve: FusionSolve

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the layers, without the dotted beginning that all have in common."""
        return without_common_beginning([layer.name for layer in self.group.layers])

    @cached_property
    def content(self) -> dict[str, Any]:
        """The group as plain JSON data, not to be changed."""
        layers = zip(self.group.layers, self.names, strict=True)
        named = tuple(replace(layer, name=name) for layer, name in layers)
        return group_to_json(replace(self.group, layers=named))

    @cached_property
    def asked(self) -> str:
        """The part of a task's id that does not depend on the architecture, as canonical JSON."""
        # Equal blocks of a network differ in the names of their layers only, and are to be solved once.
        nameless = [
            {key: value for key, value in layer.items() if key != "name"} for layer in self.content["layers"]
        ]
        return canonical_json([{**self.content, "layers": nameless}, self.solve.content])

    def on(self, architecture: Architecture) -> LayerGroup:
        """The group on this architecture."""
        return replace(self.group, architecture=architecture)


@dataclass(frozen=True, eq=False)
class FusionTask:
    """Map ``fused`` together on ``architecture``; :attr:`id` is that of all equal groups."""

    architecture: Architecture
    fused: FusedLayers
    name: str = ""
    """Of a network and the layers, for people."""

    table = "fusions"

    @property
    def solve(self) -> FusionSolve:
        return self.fused.solve

    @property
    def content(self) -> dict[str, Any]:
        """What the answer depends on, as plain JSON data that travels to a worker; names for its tree."""
        return {
            "kind": "fusion",
            "archsweep_version": VERSION,
            "architecture": architecture_content(self.architecture),
            "group": self.fused.content,
            **self.solve.content,
        }

    @cached_property
    def id(self) -> str:
        # canonical JSON put together from parts: a study has the same groups on thousands of architectures
        return text_hash(f'["fusion","{architecture_id(self.architecture)}",{self.fused.asked}]')

    @property
    def columns(self) -> FusionRow:
        """The columns of a ``fusions`` row that the task decides."""
        own: FusionRow = {
            "group_name": self.name,
            "layer_names": list(self.fused.names),
            "layer_group": self.fused.content,
            "longest": self.solve.longest,
            "recompute": self.solve.recompute,
            "pipelined": self.solve.pipelined,
            "architecture_id": architecture_id(self.architecture),
            "architecture": architecture_content(self.architecture),
            "objective_name": self.solve.objective,
        }
        return own | cast(FusionRow, solve_columns(self.solve.content))


def without_common_beginning(names: Sequence[str]) -> tuple[str, ...]:
    """Dotted names without the parts that all begin with; of each at least the last part is left."""
    parts = [name.split(".") for name in names]
    alike = takewhile(lambda column: len(set(column)) == 1, zip(*parts, strict=False))
    common = min(sum(1 for _ in alike), *(len(some) - 1 for some in parts))
    return tuple(".".join(some[common:]) for some in parts)


def run_fusion_task(content: ReadOnlyDict[str, Any]) -> FusionColumns:
    """Answer a task from its :attr:`FusionTask.content`; runs on a worker, returns plain data.

    Raises VersionMismatchError, and whatever the solver raises: the runtime makes that a failed completion.
    """
    check_versions(content)
    group = group_from_json(Architecture.from_json(content["architecture"]), content["group"])
    allowed = [bool(content.get(option, False)) for option in ("recompute", "pipelined")]
    problem = LayerFusionProblem(group, content["objective"], content["longest"], *allowed)
    params = checked_params(content["solver"], content["params"])
    outcome = solver(content["solver"]).load().solve(problem, Budget(**content["budget"]), params)
    return _columns(problem, outcome)


def _columns(problem: LayerFusionProblem, outcome: Outcome[GroupMapping]) -> FusionColumns:
    """The columns of a ``fusions`` row that the solve decides (see ``results/store/schema/tables.py``)."""
    least = EnergyCycles(*group_bounds(problem.group, pipelined=problem.pipelined))
    proven = proven_bounds(least, problem.objective, outcome.bound)
    bounds: FusionColumns = {"energy_bound_pj": proven.energy_pj, "cycles_bound": proven.cycles}
    columns = cast(FusionColumns, proof_columns(outcome)) | bounds
    return columns if outcome.solution is None else columns | _measured(problem.group, outcome.solution)


def _measured(group: LayerGroup, solution: GroupMapping) -> FusionColumns:
    """What the cost model says of the mapping, which its checker has seen; ValueError where that objects."""
    found, levels = evaluate_group(group, solution), group.architecture.levels
    of_levels = {level.name: pj for level, pj in zip(levels, found.levels_pj, strict=True)}
    shared = solution.shared
    # of all turns: layers that make rows anew multiply more often than the layer has points
    made = sum(kind.turns * kind.part.macs for one in turns_of(group, shared) for kind in one.kinds)
    macs = made * group.architecture.compute.energy_pj
    return {
        "energy_pj": found.energy_pj,
        "cycles": found.cycles,
        "edp_pj_cycles": found.edp_pj_cycles,
        "energy_by_level_pj": of_levels | {"MAC": macs},
        "together": any(shared.prefix) or bool(shared.backing),
        "mapping": group_mapping_to_json(group, solution),
        "tree": group_text(group, solution),
        "by_layer": group_evaluation_to_json(group, solution, found),
    }
