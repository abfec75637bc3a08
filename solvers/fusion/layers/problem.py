"""The question: the fused mapping of a group of layers that costs least on an architecture."""

from __future__ import annotations

from dataclasses import dataclass

from costmodel.errors import InputError
from costmodel.mapping.fused.layers.checker import violations as group_violations
from costmodel.mapping.fused.layers.evaluate import evaluate_group
from costmodel.mapping.fused.layers.group import GroupMapping, LayerGroup
from costmodel.number_checks import is_whole
from solvers.fusion.problem import OBJECTIVES, FusionObjective, value


@dataclass(frozen=True)
class LayerFusionProblem:
    """Minimise ``objective`` over the fused mappings of a group.

    The space: runs of at most ``longest`` layers share loops and keep intermediates, of which some pass over
    every border inside the run; between runs all goes to the outermost memory. Every loop name stands at most
    once among a layer's shared loops, with more than one iteration and a step that divides. Where the group
    has windows, a loop over their dim may pass through them to the layers before; with ``recompute`` layers
    make rows anew where a loop inside leaves no line buffer. Two neighbours that share loops keep what passes
    between them on the chip, unless others need it, too. Nests are even mappings with perfect factors.

    With ``pipelined`` the layers of a run that all share the same loops may also be the stages of a pipeline,
    on any columns or any rows of the array that the architecture divides
    (:mod:`costmodel.mapping.fused.layers.pipelines`).

    Raises InputError for an objective that there is not, and for ``longest`` below 1.
    """

    group: LayerGroup
    objective: FusionObjective
    longest: int = 3
    recompute: bool = False
    pipelined: bool = False

    def __post_init__(self) -> None:
        where = "layer fusion problem"
        if self.objective not in OBJECTIVES:
            raise InputError(where, f"one of {', '.join(OBJECTIVES)}", self.objective, key="objective")
        if not is_whole(self.longest, 1):
            raise InputError(where, "a whole number of at least 1", self.longest, key="longest")


def objective_of(problem: LayerFusionProblem, mapping: GroupMapping) -> float:
    """The cost model's value of a mapping; ValueError for one that has violations."""
    found = evaluate_group(problem.group, mapping)
    return value(problem.objective, found.energy_pj, float(found.cycles))


def violations(problem: LayerFusionProblem, mapping: GroupMapping) -> list[str]:
    """Why ``mapping`` is not an answer to ``problem``; independent of every solver."""
    return group_violations(problem.group, mapping)
