"""The small problems whose answers are frozen, some dozens a solver, and what of an answer is.

Budgets are iterations, never seconds: the wall limit is far beyond what a problem takes, so that an answer is
the same on every machine. What a library of floating-point numbers decides is not frozen to the last bit, and
notes, which are for readers, are not frozen at all:

* ``exact``, ``exhaustive``: all of the answer. They compute with the cost model's own numbers, whose sums
  have one order.
* ``kapla``, ``random_search``, ``hybrid``, ``learned_annealing``: the same, and how many mappings they looked
  at; ``learned_annealing`` without its learned model, whose trees are scikit-learn's.
* ``auto``: status, objective and bound. Whose mapping it is may depend on the clock, by which turns end.
* ``cosa``, ``thistle``, ``thistle_codesign``: the objective to nine digits. In another version CP-SAT and
  Clarabel may hand over another of several equal or nearly equal optima; the mapping is then another one, and
  what the polish makes of it nearly always costs the same.
* Schedules: all of the answer, the tree as text, and the course of the annealing, which draws from Python's
  generator.
* Fused mappings: all of the answer.
* Scratchpad plans: the bytes and their bound, and the plan where no CP-SAT is asked.

What the cost model counts is in ``counts.py``.
"""

from __future__ import annotations

from solvers.catalogue import CATALOGUE, solver
from tests.solvers.golden.fusion_cases import fusion_cases
from tests.solvers.golden.layer_fusion_cases import layer_fusion_cases
from tests.solvers.golden.mapping_cases import mapping_cases
from tests.solvers.golden.problems import Answer, Case
from tests.solvers.golden.schedule_cases import codesign_cases, schedule_cases, tile_cases
from tests.solvers.golden.scratchpad_cases import scratchpad_cases

OF_FAMILY = {
    "mapping": mapping_cases,
    "schedule": schedule_cases,
    "scratchpad": scratchpad_cases,
    "codesign": codesign_cases,
    "tile": tile_cases,
    "fusion": fusion_cases,
    "layer_fusion": layer_fusion_cases,
}
SOLVERS = [entry.name for entry in CATALOGUE]


def cases(name: str) -> list[Case]:
    """The cases of a solver; ValueError for two of one name, of which one would be frozen only."""
    entry = solver(name)
    found = list(OF_FAMILY[entry.family](entry))
    names = [case.name for case in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{entry.name} has more than one case of the names {twice}")
    return found


def answers(name: str, every: int = 1) -> dict[str, Answer]:
    """What a solver answers now, by the names of its cases, or of each ``every``-th of them."""
    module = solver(name).load()
    return {
        case.name: case.frozen(module.solve(case.problem, case.budget, module.Params(**case.params)))
        for case in cases(name)[::every]
    }
