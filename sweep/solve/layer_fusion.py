"""Map layers of a network together on an architecture: the request, and the mapping with costs and proof."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.json.fused_layers_json import group_evaluation_to_json, group_mapping_to_json
from costmodel.formats.networks import load_network
from costmodel.mapping.fused.layers.evaluate import GroupEvaluation, evaluate_group
from costmodel.mapping.fused.layers.group import GroupMapping, LayerGroup
from costmodel.mapping.fused.layers.links import group_of
from costmodel.mapping.fused.layers.text import group_text
from costmodel.workload.network import Network
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.fusion.layers.problem import LayerFusionProblem
from solvers.fusion.problem import FusionObjective
from solvers.outcome import Outcome
from sweep.solve.fusion import proof_to_json
from sweep.solve.parameters import check_named_values, solver_params
from sweep.study.identity import with_tolerance

FAMILY = "layer_fusion"


@dataclass(frozen=True)
class LayerFusionRequest:
    """Layers of a network, an architecture, a solver, and how it is asked.

    ``network`` is a value or what :func:`load_network` takes; ``layers`` are names of its layers in the order
    in which they run. ``longest``: how many layers may share loops or keep tensors for one another.
    ``cut_rows``: whether loops may cut an axis that is normalised between two layers, as softmax can be
    computed in parts. ``windows``: whether loops over rows may pass through the windows of convolutions to
    the layers before them, and ``columns``: whether those over columns may, too. ``recompute``: whether rows
    that windows have in common may be made anew where they cannot stay. ``pipelined``: whether layers that
    share all of their loops may run at the same time on parts of the array. ``overrides`` replace values of
    the architecture's file.
    """

    architecture: str
    network: Network | str
    layers: tuple[str, ...]
    objective: FusionObjective = "edp"
    solver: str = "fusion_layers"
    budget: Budget = field(default_factory=Budget)
    params: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float | None = None
    longest: int = 3
    cut_rows: bool = False
    windows: bool = True
    recompute: bool = False
    columns: bool = False
    pipelined: bool = False
    overrides: Mapping[str, Any] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key in ("params", "overrides", "dims"):
            check_named_values(key, getattr(self, key))

    @cached_property
    def chosen_problem(self) -> LayerFusionProblem:
        """The problem to solve; InputError for whatever is wrong with it."""
        network = self.network
        if isinstance(network, str):
            network = load_network(network, None, self.dims or None)
        architecture = load_architecture(self.architecture, self.overrides or None)
        group = group_of(
            architecture,
            network,
            self.layers,
            cut_rows=self.cut_rows,
            windows=self.windows,
            columns=self.columns,
        )
        try:
            return LayerFusionProblem(group, self.objective, self.longest, self.recompute, self.pipelined)
        except InputError as error:
            raise InputError(f"--{error.key}", error.expected, error.found) from None

    def solved(self) -> LayerFusionAnswer:
        """The answer; takes as long as the solver does."""
        params = solver_params(self.solver, FAMILY, with_tolerance(self.params, self.tolerance))
        problem = self.chosen_problem
        return LayerFusionAnswer(
            problem, solver(self.solver, FAMILY).load().solve(problem, self.budget, params)
        )


@dataclass(frozen=True)
class LayerFusionAnswer:
    """What a solver found for a group of layers, with its proof; all costs are the cost model's."""

    problem: LayerFusionProblem
    outcome: Outcome[GroupMapping]

    @property
    def group(self) -> LayerGroup:
        return self.problem.group

    @cached_property
    def evaluation(self) -> GroupEvaluation | None:
        """Energy, cycles and the most words that each level holds; None without one."""
        if self.outcome.solution is None:
            return None
        return evaluate_group(self.group, self.outcome.solution)

    @property
    def text(self) -> str:
        """The tree of loops for people; empty without a mapping."""
        found = self.outcome.solution
        return "" if found is None else group_text(self.group, found)

    def to_json(self) -> dict[str, Any]:
        """The JSON object that ``archsweep solve fusion --architecture ... --json`` prints."""
        outcome, found, solution = self.outcome, self.evaluation, self.outcome.solution
        mapping, measured = None, {}
        if found is not None and solution is not None:
            mapping = group_mapping_to_json(self.group, solution)
            measured = group_evaluation_to_json(self.group, solution, found)
        return {
            **proof_to_json(self.problem.objective, outcome),
            "mapping": mapping,
            **{key: measured.get(key) for key in ("energy_pj", "cycles", "peak", "layers")},
            **({"pipelines": measured["pipelines"]} if "pipelines" in measured else {}),
            "tree": self.text.splitlines(),
            "architecture": self.group.architecture.name,
        }
