"""HiGHS as the engine: the same program in floating point."""

from __future__ import annotations

from math import isinf

import highspy
import numpy as np

from solvers.mapping.cosa.linear import EngineAnswer, EngineGoal, IntegerProgram, Row

TOLERANCE = 1e-7
"""Bits by which a solution may miss a row; the check in whole words finds the tiles that then do not fit."""


class Highs:
    """One HiGHS model on one thread, solved again for every goal."""

    def __init__(self, program: IntegerProgram, seed: int) -> None:
        self._columns = np.arange(len(program.upper), dtype=np.int32)
        self._solver = highspy.Highs()
        for option, setting in (
            ("output_flag", False),
            ("threads", 1),
            ("random_seed", seed % 2**31),
            ("mip_rel_gap", 0.0),
            ("mip_abs_gap", 1e-6),
            ("mip_feasibility_tolerance", TOLERANCE),
            ("primal_feasibility_tolerance", TOLERANCE),
        ):
            self._solver.setOptionValue(option, setting)
        size = len(self._columns)
        self._solver.addVars(size, np.zeros(size), np.array(program.upper, dtype=float))
        integer = np.full(size, highspy.HighsVarType.kInteger)
        self._solver.changeColsIntegrality(size, self._columns, integer)
        for row in program.rows:
            self.require(row)

    def require(self, row: Row) -> None:
        low = -highspy.kHighsInf if isinf(row.low) else row.low
        high = highspy.kHighsInf if isinf(row.high) else row.high
        indices = np.array(list(row.terms), dtype=np.int32)
        coefficients = np.array(list(row.terms.values()), dtype=float)
        self._solver.addRow(low, high, len(indices), indices, coefficients)

    def minimise(self, goal: EngineGoal, seconds: float) -> EngineAnswer:
        before = self._solver.getNumRow()
        for row in goal.rows:
            self.require(row)
        costs = np.zeros(len(self._columns))
        costs[list(goal.objective)] = list(goal.objective.values())
        self._solver.changeColsCost(len(self._columns), self._columns, costs)
        self._solver.setOptionValue("time_limit", self._solver.getRunTime() + seconds)
        self._solver.run()
        answer = self._answer()
        self._solver.deleteRows(len(goal.rows), np.arange(before, before + len(goal.rows), dtype=np.int32))
        return answer

    def _answer(self) -> EngineAnswer:
        status = self._solver.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return EngineAnswer(None, True)
        if self._solver.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            return EngineAnswer(None, False)
        values = [round(x) for x in self._solver.getSolution().col_value]
        return EngineAnswer(values, status == highspy.HighsModelStatus.kOptimal)
