"""The mapping problem: the best mapping of one layer on one architecture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from costmodel.architecture import Architecture
from costmodel.errors import InputError
from costmodel.mapping import Mapping
from costmodel.mapping import violations as mapping_violations
from costmodel.workload import Layer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from costmodel.batch import BatchEvaluation
    from costmodel.bounds import Bounds
    from costmodel.evaluate import Evaluation

Objective = Literal["energy", "cycles", "edp"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)


@dataclass(frozen=True)
class MappingProblem:
    """Minimise ``objective`` (energy in pJ, cycles, or their product) of ``layer`` on ``architecture``."""

    architecture: Architecture
    layer: Layer
    objective: Objective = "edp"

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise InputError(
                "mapping problem", f"one of {', '.join(OBJECTIVES)}", self.objective, key="objective"
            )


def objective_of(evaluation: Evaluation, objective: Objective) -> float:
    """The cost model's number that ``objective`` names."""
    if objective == "energy":
        return evaluation.energy_pj
    if objective == "cycles":
        return float(evaluation.cycles)
    return evaluation.edp_pj_cycles


def objective_values(evaluation: BatchEvaluation, objective: Objective) -> NDArray[np.float64]:
    """The same for every row of a batch, infinity for rows that are no mapping."""
    import numpy as np

    if objective == "energy":
        return evaluation.energy_pj
    if objective == "cycles":
        return np.where(evaluation.valid, evaluation.cycles, np.inf)
    return evaluation.edp_pj_cycles


def bound_of(bounds: Bounds, objective: Objective) -> float:
    """The proven lower bound on the number that ``objective`` names."""
    if objective == "energy":
        return bounds.energy_pj
    if objective == "cycles":
        return float(bounds.cycles)
    return bounds.edp_pj_cycles


def violations(problem: MappingProblem, solution: Mapping) -> list[str]:
    """Why ``solution`` is not an answer to ``problem``; independent of every solver."""
    return mapping_violations(problem.architecture, problem.layer, solution)
