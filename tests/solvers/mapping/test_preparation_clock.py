"""What a mapping solver prepares for one problem counts against its time."""

from __future__ import annotations

import time
from importlib import import_module

import pytest

from costmodel.formats.architectures import load_architecture
from costmodel.workload.network import gemm
from solvers.budget import Budget
from solvers.mapping.problem import MappingProblem

MODULES = {
    "kapla": "solvers.mapping.kapla.solver",
    "cosa": "solvers.mapping.cosa.solver",
    "thistle": "solvers.mapping.thistle.solver",
    "random_search": "solvers.mapping.random_search",
    "hybrid": "solvers.mapping.hybrid",
    "exhaustive": "solvers.mapping.exhaustive",
    "learned_annealing": "solvers.mapping.learned_annealing.solver",
}
PREPARATION_SECONDS = 0.3


@pytest.mark.parametrize("name", MODULES)
def test_the_space_is_prepared_on_the_clock(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module(MODULES[name])
    looked_for = module.obstacle

    def slow(space: object) -> str:
        time.sleep(PREPARATION_SECONDS)
        reason: str = looked_for(space)
        return reason

    monkeypatch.setattr(module, "obstacle", slow)
    problem = MappingProblem(load_architecture("C_two_level"), gemm("g", M=4, N=4, K=4), "energy")
    outcome = module.solve(problem, Budget(wall_seconds=5.0, iterations=200))
    assert outcome.wall_seconds >= PREPARATION_SECONDS
