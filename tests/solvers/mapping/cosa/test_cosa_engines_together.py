"""highspy and ortools in one process: highspy 1.15 would break it, whichever is imported first."""

import subprocess
import sys

import pytest

SOLVE = """
import {first}
import {second}
from ortools.sat.python import cp_model
model = cp_model.CpModel()
x = model.new_int_var(0, 9, "x")
model.maximize(x)
solver = cp_model.CpSolver()
assert solver.solve(model) == cp_model.OPTIMAL and solver.objective_value == 9
highs = highspy.Highs()
highs.silent()
y = highs.addVariable(lb=0, ub=9)
highs.maximize(y)
assert highs.getInfo().objective_function_value == 9
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "order", [("highspy", "ortools.sat.python.cp_model"), ("ortools.sat.python.cp_model", "highspy")]
)
def test_both_import_orders_work(order: tuple[str, str]) -> None:
    code = SOLVE.format(first=order[0], second=order[1])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
