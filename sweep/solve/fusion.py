"""Map a chain of einsums together: the request, and the mapping with its costs and its proof."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from costmodel.errors import InputError
from costmodel.formats.json.fusion_json import (
    evaluation_to_json,
    fused_mapping_to_json,
    problem_from_json,
    problem_to_json,
)
from costmodel.formats.json.safe_json import load_json, parse_json
from costmodel.mapping.fused.evaluate import FusedEvaluation, evaluate_fused
from costmodel.mapping.fused.mapping import FusedMapping
from costmodel.mapping.fused.problem import FusedProblem
from costmodel.mapping.fused.text import fused_text
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.fusion.problem import FusionObjective, FusionProblem
from solvers.outcome import Outcome
from sweep.solve.parameters import check_named_values, solver_params
from sweep.study.identity import with_tolerance

FAMILY = "fusion"


@dataclass(frozen=True)
class FusionRequest:
    """A chain of einsums, a solver, and how it is asked.

    ``problem`` is a value, the name of a JSON file, or JSON text, which begins with a brace. The object may
    also have the problem under the key ``problem``, as the lines of files of fused mappings do.
    ``tolerance`` is the gap, a fraction of the objective, at which the solver may stop.
    """

    problem: FusedProblem | str
    objective: FusionObjective = "edp"
    solver: str = "fusion_exact"
    budget: Budget = field(default_factory=Budget)
    params: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float | None = None

    def __post_init__(self) -> None:
        check_named_values("params", self.params)

    @cached_property
    def chosen_problem(self) -> FusionProblem:
        """The problem to solve; InputError for a file or a key that is wrong."""
        if isinstance(self.problem, FusedProblem):
            return FusionProblem(self.problem, self.objective)
        inline = self.problem.lstrip().startswith("{")
        where = "--problem" if inline else self.problem
        content = parse_json(self.problem, where) if inline else load_json(self.problem)
        if isinstance(content, dict) and isinstance(content.get("problem"), dict):
            content = content["problem"]
        chain = problem_from_json(content, where)
        try:
            return FusionProblem(chain, self.objective)
        except InputError as error:
            if error.key == "objective":
                raise InputError("--objective", error.expected, error.found) from None
            raise error.at(f"{where}: {error.where}") from None

    def solved(self) -> FusionAnswer:
        """The answer; takes as long as the solver does. Raises InputError as ``chosen_problem`` does."""
        params = solver_params(self.solver, FAMILY, with_tolerance(self.params, self.tolerance))
        problem = self.chosen_problem
        return FusionAnswer(problem, solver(self.solver, FAMILY).load().solve(problem, self.budget, params))


@dataclass(frozen=True)
class FusionAnswer:
    """What a solver found for a chain of einsums, with its proof; all costs are the cost model's."""

    problem: FusionProblem
    outcome: Outcome[FusedMapping]

    @cached_property
    def evaluation(self) -> FusedEvaluation | None:
        """Energy, cycles, counts and the most words that each level holds; None without one."""
        if self.outcome.solution is None:
            return None
        return evaluate_fused(self.problem.chain, self.outcome.solution)

    @property
    def text(self) -> str:
        """The tree of loops for people; empty without a mapping."""
        found = self.outcome.solution
        return "" if found is None else fused_text(self.problem.chain, found)

    def to_json(self) -> dict[str, Any]:
        """The JSON object that ``archsweep solve fusion --json`` prints, and ``archsweep evaluate`` reads."""
        outcome, found = self.outcome, self.evaluation
        measured = {} if found is None else evaluation_to_json(self.problem.chain, found)
        return {
            **proof_to_json(self.problem.objective, outcome),
            "mapping": outcome.solution and fused_mapping_to_json(outcome.solution),
            **{key: measured.get(key) for key in ("energy_pj", "cycles", "peak")},
            "tree": self.text.splitlines(),
            "problem": problem_to_json(self.problem.chain),
        }


def proof_to_json(objective: FusionObjective, outcome: Outcome[Any]) -> dict[str, Any]:
    """What an outcome says beside its mapping."""
    return {
        "status": str(outcome.status),
        "objective_name": objective,
        "objective": outcome.objective,
        "bound": outcome.bound,
        "gap": outcome.gap,
        "cpu_seconds": outcome.cpu_seconds,
        "note": outcome.note,
    }
