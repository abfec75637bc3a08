"""A small solve with a solver, after which its libraries are imported and its machine code is compiled."""

from __future__ import annotations

from collections.abc import Sequence

from costmodel.architectures import load_architecture
from costmodel.networks import load_layer
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.mapping.problem import MappingProblem
from sweep.study import Study

LIMIT = Budget(wall_seconds=20.0, iterations=50)


def solvers_of(study: Study) -> tuple[str, ...]:
    """The solvers that the workers of a study run: its own and, of chips, the one that maps layers."""
    return tuple(dict.fromkeys((study.mapping.solver, *study.solvers)))


def warm_up(names: Sequence[str]) -> None:
    """Import the modules of the solvers ``names``, and let those that map a layer map a small one."""
    for name in names:
        entry = solver(name)
        module = entry.load()
        if entry.family == "mapping":
            problem = MappingProblem(load_architecture("eyeriss"), load_layer("alexnet/conv3"), "edp")
            module.solve(problem, LIMIT)
