"""The catalogue: names, families, lazy modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from costmodel.errors import InputError
from solvers.catalogue import CATALOGUE, solver, solver_names
from solvers.mapping.problem import OBJECTIVES
from solvers.schedule.objective import OBJECTIVES as SCHEDULE_OBJECTIVES
from solvers.scratchpad.problem import OBJECTIVES as SCRATCHPAD_OBJECTIVES

ROOT = Path(__file__).parents[2]


def test_names_are_in_order_and_once() -> None:
    assert {"cosa", "exact", "random_search", "exhaustive"} <= set(solver_names("mapping"))
    assert solver_names() == [entry.name for entry in CATALOGUE]
    assert len(set(solver_names())) == len(CATALOGUE)
    assert solver_names("no such family") == []


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.name)
def test_entries_are_found_and_described(entry: object) -> None:
    found = solver(entry.name)  # type: ignore[attr-defined]
    assert found is entry
    assert found.description
    assert set(found.objectives) <= {*OBJECTIVES, *SCHEDULE_OBJECTIVES, *SCRATCHPAD_OBJECTIVES}
    assert callable(found.load().solve)
    assert found.load() is sys.modules[found.module]


@pytest.mark.parametrize(
    ("name", "near"), [("cossa", "cosa"), ("random-search", "random_search"), ("Exhaustive", "exhaustive")]
)
def test_an_unknown_name_suggests_a_near_one(name: str, near: str) -> None:
    with pytest.raises(InputError, match=f"found {name}\\. Did you mean {near}\\?"):
        solver(name)


def test_an_unknown_name_lists_the_solvers() -> None:
    with pytest.raises(InputError, match=r"one of auto, cosa, .*, exhaustive, .*, found quantum$"):
        solver("quantum")


def test_the_catalogue_imports_no_solver() -> None:
    """The command line lists the solvers: it must not wait for numba and the integer programming engines."""
    program = (
        "import sys, solvers.catalogue as c; c.solver('cosa'); c.solver_names(); "
        "print([m for m in sys.modules if m.split('.')[0] in ('numba', 'ortools', 'highspy', 'numpy') "
        "or m.startswith(('solvers.mapping.cosa', 'solvers.mapping.random', 'solvers.mapping.exh'))])"
    )
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert run.stdout.strip() == "[]", run.stderr
