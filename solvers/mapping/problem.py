"""The mapping problem: the best mapping of one layer on one architecture."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import floor
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from costmodel.errors import InputError
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.timing.walk import has_inner_steps
from costmodel.mapping.uneven import AnyMapping
from costmodel.mapping.uneven import violations as mapping_violations
from costmodel.workload.network import Layer
from solvers.mapping.space.rule_violations import rule_violations
from solvers.mapping.space.rules import SpaceRules

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from costmodel.mapping.batch.batch import BatchEvaluation

Objective = Literal["energy", "cycles", "edp"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)

COUNT_BITS = ("exact", "exhaustive", "random_search", "hybrid")
"""The solvers that count bits where an architecture has a precision; all others refuse it."""


@dataclass(frozen=True)
class MappingProblem:
    """Minimise ``objective`` (energy in pJ, cycles, or their product) of ``layer`` on ``architecture``.

    ``rules`` say which mappings are allowed. Raises InputError for rules that speak of a level, dim or tensor
    that there is not. Also for uneven levels on an architecture with a precision, with timed steps of another
    level than the outermost, or with a timing of processing: for uneven mappings only ``evaluate`` counts
    that, and what a solver proved without it would be no proof.
    """

    architecture: Architecture
    layer: Layer
    objective: Objective = "edp"
    rules: SpaceRules = field(default_factory=SpaceRules)

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise InputError(
                "mapping problem", f"one of {', '.join(OBJECTIVES)}", self.objective, key="objective"
            )
        timing = self.architecture.timing
        if self.rules.uneven and has_inner_steps(self.architecture):
            assert timing is not None
            raise InputError(
                f"architecture {self.architecture.name}",
                "even levels: parts of a layer that are timed one by one have one tile of all tensors",
                "uneven",
                "Solve without uneven levels, or leave out timing in a copy of the tile's file",
                key="timing",
            )
        if self.rules.uneven and timing is not None and timing.processing is not None:
            raise InputError(
                f"architecture {self.architecture.name}",
                "even levels: no solver counts timing: processing: where tensors end at different loops",
                "uneven",
                "Solve without uneven levels",
                key="timing.processing",
            )
        if self.rules.uneven and self.architecture.precision is not None:
            raise InputError(
                f"architecture {self.architecture.name}",
                "even levels: no solver counts uneven ones whose elements have widths of their own",
                "uneven",
                "Solve without uneven levels, or without a precision",
                key="precision",
            )
        self.rules.check(self.architecture, self.layer)

    def largest_size(self, dim: str) -> int:
        """What the dim may at most be padded to."""
        if self.rules.padded_dims is not None and dim not in self.rules.padded_dims:
            return self.layer.sizes[dim]
        # A fraction such as 0.1 is not exact in binary: 10 padded by 0.1 is to be 11.
        return floor(self.layer.sizes[dim] * (1 + self.rules.padding) + 1e-9)


class Totals(Protocol):
    """What evaluations and bounds state: energy in pJ, cycles, and a number for their product."""

    @property
    def energy_pj(self) -> float: ...
    @property
    def cycles(self) -> int: ...
    @property
    def edp_pj_cycles(self) -> float: ...


def objective_of(totals: Totals, objective: Objective) -> float:
    """The number of an evaluation, or of bounds, that ``objective`` names."""
    if objective == "energy":
        return totals.energy_pj
    if objective == "cycles":
        return float(totals.cycles)
    return totals.edp_pj_cycles


def objective_values(evaluation: BatchEvaluation, objective: Objective) -> NDArray[np.float64]:
    """The same for every row of a batch, infinity for rows that are no mapping."""
    import numpy as np

    if objective == "energy":
        return evaluation.energy_pj
    if objective == "cycles":
        return np.where(evaluation.valid, evaluation.cycles, np.inf)
    return evaluation.edp_pj_cycles


def refuse_precision(problem: MappingProblem, solver: str) -> None:
    """InputError where elements have widths of their own, of which ``solver`` knows nothing."""
    if problem.architecture.precision is not None:
        where = f"architecture {problem.architecture.name}"
        expected = f"no precision: {solver} counts words, whatever their bits"
        remedy = f"Ask one of {', '.join(COUNT_BITS)}"
        raise InputError(where, expected, "one", remedy, key="precision")


def executed_layer(problem: MappingProblem, solution: AnyMapping) -> Layer:
    """The layer that ``solution`` runs: the problem's, its dims as large as the mapping's factors make them.

    Only with padding is that another one, and only within it: what lies outside keeps the size it has.
    """
    covered = solution.tiles[-1]
    sizes = {
        dim: made if size < (made := covered.get(dim, 1)) <= problem.largest_size(dim) else size
        for dim, size in problem.layer.dims
    }
    if sizes == problem.layer.sizes:
        return problem.layer
    return replace(problem.layer, dims=tuple(sizes.items()))


def padded_dims(problem: MappingProblem, solution: AnyMapping) -> dict[str, int]:
    """The dims that ``solution`` pads, and to which size."""
    executed = executed_layer(problem, solution)
    return {dim: made for dim, made in executed.dims if made != problem.layer.sizes[dim]}


def violations(problem: MappingProblem, solution: AnyMapping) -> list[str]:
    """Why ``solution`` is not an answer to ``problem``; independent of every solver."""
    layer = executed_layer(problem, solution)
    if reasons := mapping_violations(problem.architecture, layer, solution):
        return reasons
    return list(rule_violations(problem.rules, problem.architecture, layer, solution))
