"""Mapping solvers that installed distributions add: found, held to the contract, checked at every answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.workload.network import gemm
from solvers.budget import Budget
from solvers.catalogue import entries, solver, solver_names
from solvers.mapping.problem import MappingProblem
from solvers.outcome import Status
from tests.installed import SOLVER, install, on_path

BUDGET = Budget(wall_seconds=60, iterations=50)


def add(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, module: str) -> None:
    points = {"archsweep.solvers": {name: module}}
    on_path(install(folder, "acme-solvers", points, {f"{module}.py": text}), monkeypatch)


def problem() -> MappingProblem:
    return MappingProblem(load_architecture("eyeriss"), gemm("small", M=4, N=6, K=4))


def test_a_plug_in_is_a_mapping_solver_of_the_catalogue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = solver_names()
    add(tmp_path, monkeypatch, "another", SOLVER, "acme_another")
    assert solver_names() == [*before, "another"]
    assert solver_names("mapping")[-1] == "another"
    assert "another" not in solver_names("schedule")
    entry = solver("another", "mapping")
    assert entries("mapping")[-1] == entry
    assert (entry.origin, entry.version) == ("acme-solvers 1.2", "7 of acme-solvers")
    assert (entry.description, entry.proves_optimality) == ("random search by another name", False)
    assert (solver("exact").origin, solver("exact").version) == ("archsweep", solver("exact").load().VERSION)
    answer = entry.load().solve(problem(), BUDGET, entry.load().Params(samples=3))
    assert answer.status is Status.FEASIBLE
    with pytest.raises(InputError, match=r"Did you mean another\?"):
        solver("anothr")
    with pytest.raises(InputError, match="found another"):
        solver("another", "schedule")


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('VERSION = "7"', "VERSION = 7", "VERSION"),
        ('TITLE = "random search by another name"', "", "TITLE"),
        ("@dataclass(frozen=True)", "@dataclass", "Params"),
        ("samples: int = 100", "samples: int", "Params"),
        ("def solve(problem, budget, params=Params())", "def solve(problem)", "solve"),
        ("def solve(", "def solves(", "solve"),
        ("VERSION =", "PROVES_OPTIMALITY = 1\nVERSION =", "PROVES_OPTIMALITY"),
    ],
)
def test_a_module_that_breaks_the_contract_is_refused(
    old: str, new: str, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert old in SOLVER
    module = f"acme_broken_{(old + new).encode().hex()}"
    text = SOLVER.replace(old, new)
    if key == "Params":
        text = text.replace("params=Params()", "params=None")
    add(tmp_path, monkeypatch, "broken", text, module)
    with pytest.raises(
        InputError, match=rf"of acme-solvers 1\.2 .*: {key}: expected .*uninstall acme-solvers"
    ):
        solver("broken")
    assert solver("cosa").name == "cosa"


def test_a_module_that_cannot_be_imported_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(tmp_path, monkeypatch, "broken", "import no_such_library_of_acme\n", "acme_without_library")
    assert "broken" in solver_names()
    with pytest.raises(InputError, match=r"acme-solvers 1\.2.*No module named 'no_such_library_of_acme'"):
        solver("broken")


def test_names_that_are_taken_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("acme", "bcme"):
        points = {"archsweep.solvers": {"exact": f"{name}_taken", "mine": f"{name}_taken"}}
        install(tmp_path, name, points, {f"{name}_taken.py": SOLVER})
    on_path(tmp_path, monkeypatch)
    with pytest.raises(InputError, match=r"plug-in exact of acme 1\.2 .*not use itself, found exact"):
        solver("exact")
    with pytest.raises(InputError, match=r"plug-in mine .*acme 1\.2 and bcme 1\.2"):
        solver("mine")
    assert solver_names().count("exact") == solver_names().count("mine") == 1


LIES = {
    "objective": (
        "return replace(search(problem, budget, Random()), objective=1.0, bound=None)",
        "the cost model's edp",
    ),
    "optimal": (
        "return replace(search(problem, budget, Random()), status=Status.OPTIMAL, bound=None)",
        "the bound of an optimal answer",
    ),
    "mapping": (
        "other = MappingProblem(problem.architecture, gemm('other', M=2, N=2, K=2), problem.objective)\n"
        "    return search(other, budget, Random())",
        "a valid mapping of the space",
    ),
    "nothing": ("return None", "an Outcome, found NoneType"),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_answer_that_claims_what_is_not_so_is_refused(
    lie: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cost model decides, whoever proposes."""
    body, reason = LIES[lie]
    head = (
        "from dataclasses import replace\nfrom costmodel.workload.network import gemm\n"
        "from solvers.mapping.problem import MappingProblem\nfrom solvers.outcome import Status\n"
    )
    text = head + SOLVER.replace("return search(problem, budget, Random())", body)
    add(tmp_path, monkeypatch, "liar", text, f"acme_liar_{lie}")
    with pytest.raises(InputError, match=rf"of acme-solvers 1\.2 .*: solve: expected {reason}"):
        solver("liar").load().solve(problem(), BUDGET)
