"""The solves behind COSMA's Figures 3 and 4, every approach in every setting."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from costmodel.formats.json.fused_graph import fused_graph
from costmodel.formats.json.graph_json import network_of_graph
from costmodel.formats.json.safe_json import load_json
from costmodel.formats.networks import load_network
from costmodel.scratchpad.graph import ScratchpadSettings, operator_graph
from costmodel.scratchpad.plan import Plan
from costmodel.workload.network import Network
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.outcome import Outcome
from solvers.scratchpad.budgets import NAMES, budget_bytes
from solvers.scratchpad.problem import ScratchpadProblem
from sweep.papers.cosma_cases import HEURISTICS, SCHEMES, Approach, ApproachAnswer, CosmaCase


def network_of(folder: Path, name: str, *, raw: bool) -> Network | None:
    """A network's operator graph from a folder; None if there is no file of it.

    Fused graphs are NAME.json.gz, or made of NAME.raw.json.gz, with an operator for every ATen operation.
    """
    of_operations = folder / f"{name}.raw.json.gz"
    fused = folder / f"{name}.json.gz"
    if raw or (of_operations.is_file() and not fused.is_file()):
        if not of_operations.is_file():
            return None
        graph = load_json(of_operations)
        return network_of_graph(graph if raw else fused_graph(graph))
    return load_network(fused) if fused.is_file() else None


def settings_of(
    name: str, network: Network, *, parameters: bool
) -> Iterator[tuple[CosmaCase, ScratchpadProblem]]:
    """A network's three budgets (Section V-A)."""
    graph = operator_graph(network, ScratchpadSettings(parameters=parameters))
    for level in NAMES:
        budget = budget_bytes(graph, level, wall_seconds=60.0)
        setting = f"{level}p" if parameters else level
        case = CosmaCase(name, setting, len(graph.operators), budget.size_bytes, budget.note)
        yield case, ScratchpadProblem(graph, budget.size_bytes)


def found_by(approach: Approach, problem: ScratchpadProblem, budget: Budget) -> ApproachAnswer:
    """What an approach answers, with the CPU seconds that it took."""
    module = solver(approach[0]).load()
    outcome: Outcome[Plan] = module.solve(problem, budget, module.Params(**approach[1]))
    moved = None if outcome.objective is None else round(outcome.objective)
    return ApproachAnswer(moved, outcome.bound, str(outcome.status), round(outcome.cpu_seconds, 3))


def solve_all(
    case: CosmaCase, problem: ScratchpadProblem, budget: Budget, heuristics: Iterable[str] = ()
) -> CosmaCase:
    """The case with the answers of cosma, the heuristics and the four schemes."""
    cosma: dict[str, Approach] = {"cosma": ("cosma", {})}
    approaches = cosma | {name: HEURISTICS[name] for name in heuristics} | SCHEMES
    for name, approach in approaches.items():
        case.found[name] = found_by(approach, problem, budget)
    print(".", end="", file=sys.stderr, flush=True)
    return case


def figure_3(networks: Mapping[str, Network], budget: Budget) -> list[CosmaCase]:
    return [
        solve_all(case, problem, budget)
        for name, network in networks.items()
        for parameters in (False, True)
        for case, problem in settings_of(name, network, parameters=parameters)
    ]


def figure_4(networks: Mapping[str, Network], budget: Budget) -> list[CosmaCase]:
    return [
        solve_all(case, problem, budget, HEURISTICS)
        for name, network in networks.items()
        for case, problem in settings_of(name, network, parameters=False)
    ]
