"""The solvers by name: what each can do, and the module that does it, imported when it is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from costmodel.errors import InputError, did_you_mean
from solvers.mapping.problem import OBJECTIVES


@dataclass(frozen=True)
class Entry:
    """One solver; its ``module`` has ``VERSION``, ``Params`` and ``solve(problem, budget, params)``."""

    name: str
    family: str
    module: str
    objectives: tuple[str, ...]
    proves_optimality: bool
    description: str

    def load(self) -> Any:
        """The solver's module."""
        return import_module(self.module)


CATALOGUE: tuple[Entry, ...] = (
    Entry(
        "cosa",
        "mapping",
        "solvers.mapping.cosa",
        OBJECTIVES,
        False,
        "CoSA's mixed-integer program, one for every reuse pattern, re-evaluated and polished",
    ),
    Entry(
        "exact",
        "mapping",
        "solvers.mapping.exact",
        OBJECTIVES,
        True,
        "branch and bound over all mappings of the space: the best one, proven",
    ),
    Entry(
        "random_search",
        "mapping",
        "solvers.mapping.random_search",
        OBJECTIVES,
        False,
        "Timeloop's random-pruned search: uniform factorisations until nothing better turns up",
    ),
    Entry(
        "exhaustive",
        "mapping",
        "solvers.mapping.exhaustive",
        OBJECTIVES,
        True,
        "every mapping of a small space, for checking the others",
    ),
)


def solver_names(family: str | None = None) -> list[str]:
    """The names of a family's solvers, or of all, in the catalogue's order."""
    return [entry.name for entry in CATALOGUE if family in (None, entry.family)]


def solver(name: str) -> Entry:
    """The entry of that name; InputError with near names if there is none."""
    for entry in CATALOGUE:
        if entry.name == name:
            return entry
    names = solver_names()
    raise InputError("solver", f"one of {', '.join(names)}", name, did_you_mean(name, names))
