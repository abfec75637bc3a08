"""CP-SAT as the engine: it takes whole coefficients, so logarithms are scaled and rounded."""

from __future__ import annotations

from math import isinf

from ortools.sat.python import cp_model

from solvers.mapping.cosa.linear import EngineAnswer, EngineGoal, IntegerProgram, Row, Terms

ROW_SCALE = 1_000_000
"""Units per bit in constraints: finer than the step between two whole word counts below 2**18."""

LARGEST_COEFFICIENT = 100_000_000
"""The largest whole coefficient of a constraint: one with larger numbers is scaled less, and keeps eight
digits. CP-SAT's presolve multiplies coefficients of rows. With some of 1e10, as tangents of costs had, it
called programs infeasible that have solutions."""

OBJECTIVE_SCALE = 10_000
"""Units per bit in objectives: optima are proven for coefficients rounded to 1e-4 bits."""


class CpSat:
    """One CP-SAT model, solved again for every goal, by one worker so that equal seeds give equal answers."""

    def __init__(self, program: IntegerProgram, seed: int) -> None:
        self._model = cp_model.CpModel()
        self._variables = [self._model.new_int_var(0, upper, "") for upper in program.upper]
        for row in program.rows:
            self.require(row)
        self._solver = cp_model.CpSolver()
        parameters = self._solver.parameters
        parameters.num_workers = 1
        parameters.random_seed = seed % 2**31
        # On programs of a hundred variables a strong relaxation pays, long presolving does not.
        parameters.linearization_level = 2
        parameters.max_presolve_iterations = 1
        parameters.add_cg_cuts = False
        parameters.cp_model_probing_level = 0
        parameters.symmetry_level = 0

    def require(self, row: Row) -> None:
        self._add(self._model, row)

    def minimise(self, goal: EngineGoal, seconds: float) -> EngineAnswer:
        model = self._model.clone() if goal.rows else self._model
        for row in goal.rows:
            self._add(model, row)
        model.clear_hints()  # type: ignore[no-untyped-call]  # no annotations in its library
        for variable, hint in zip(self._variables, goal.start or (), strict=False):
            model.add_hint(variable, hint)
        model.minimize(self._scaled(goal.objective, OBJECTIVE_SCALE))
        self._solver.parameters.max_time_in_seconds = seconds
        status = self._solver.solve(model)
        if status == cp_model.INFEASIBLE:
            return EngineAnswer(None, True)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return EngineAnswer(None, False)
        return EngineAnswer(self._solver.values(self._variables).tolist(), status == cp_model.OPTIMAL)

    def _add(self, model: cp_model.CpModel, row: Row) -> None:
        largest = max((abs(coefficient) for coefficient in row.terms.values()), default=0.0)
        scale = ROW_SCALE if largest * ROW_SCALE <= LARGEST_COEFFICIENT else LARGEST_COEFFICIENT / largest
        low = cp_model.INT_MIN if isinf(row.low) else round(row.low * scale)
        high = cp_model.INT_MAX if isinf(row.high) else round(row.high * scale)
        model.add_linear_constraint(self._scaled(row.terms, scale), low, high)

    def _scaled(self, terms: Terms, scale: float) -> cp_model.LinearExpr:
        indices = [index for index, coefficient in terms.items() if coefficient]
        coefficients = [round(terms[index] * scale) for index in indices]
        return cp_model.LinearExpr.weighted_sum([self._variables[i] for i in indices], coefficients)
