"""The frozen problems of scratchpad solvers: random graphs, and the beginnings of networks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from costmodel.formats.networks import load_network
from costmodel.scratchpad.graph import OperatorGraph, ScratchpadSettings, operator_graph
from costmodel.scratchpad.plan import Plan
from solvers.budget import Budget
from solvers.catalogue import Entry
from solvers.outcome import Outcome
from solvers.scratchpad.problem import ScratchpadProblem
from tests.solvers.golden.problems import ENOUGH, Answer, Case, digest, numbers
from tests.solvers.scratchpad.random_graphs import forked_graph, random_graph

SETTINGS = (
    ScratchpadSettings(parameters=True),
    ScratchpadSettings(inputs_on_host=True),
    ScratchpadSettings(in_place=True),
    ScratchpadSettings(parameters=True, alignment_bytes=4, bits_per_element=16),
)
PARAMS: dict[str, tuple[dict[str, Any], ...]] = {
    "cosma": ({"divide": False}, {"estimate": False, "safe_moves": False}),
    "cosma_ilp": ({"allocation": False},),
    "comparison": ({"order": "minimum_peak"}, {"replacement": "greedy"}),
    "divide": ({"segment": 4, "rounds": 2}, {"segment_states": 20}),
    "fixed_schedule": ({"order": "minimum_peak"},),
    "peak": ({"safe_moves": False},),
}
"""What differs from the defaults, each tried on two problems."""


@cache
def network(name: str, settings: ScratchpadSettings) -> OperatorGraph:
    return operator_graph(load_network(name), settings)


def scratchpad_cases(entry: Entry) -> Iterator[Case]:
    """Random graphs and networks in the least scratchpad, a little more, and too little."""
    frozen = whole_plan if entry.name in ("peak", "comparison") else numbers
    for problem in problems(entry.name):
        more = problem.budget_bytes - problem.graph.required_bytes
        name = f"{problem.graph.name}, {said(problem.graph.settings)}, {more} bytes more"
        yield Case(name, problem, Budget(ENOUGH), {}, frozen)
    for params in PARAMS[entry.name]:
        for graph in (random_graph(9, 7), forked_graph(8)):
            name = f"{graph.name}, " + ", ".join(f"{key} {value}" for key, value in params.items())
            problem = ScratchpadProblem(graph, graph.required_bytes)
            yield Case(name, problem, Budget(ENOUGH), params, frozen)


def problems(name: str) -> Iterator[ScratchpadProblem]:
    for seed in range(6):
        graph = random_graph(seed, 6) if seed % 2 else forked_graph(seed)
        for more in (0, 3):
            yield ScratchpadProblem(graph, graph.required_bytes + more)
    for number, settings in enumerate(SETTINGS):
        if settings.in_place and name == "cosma_ilp":
            continue  # the paper's program has none
        for seed in (10 + number, 20 + number):
            graph = random_graph(seed, 7, settings) if seed % 2 else forked_graph(seed, settings)
            yield ScratchpadProblem(graph, graph.required_bytes)
            yield ScratchpadProblem(graph, graph.required_bytes + 4)
    yield ScratchpadProblem(graph, graph.required_bytes - 1)
    if name != "cosma_ilp":  # far too large for it
        for seed in range(30, 38):
            graph = random_graph(seed, 14)
            yield ScratchpadProblem(graph, graph.required_bytes + seed % 3)
        for network_name in ("alexnet", "resnet18"):
            whole = network(network_name, ScratchpadSettings(parameters=True))
            yield ScratchpadProblem(whole, whole.required_bytes)
            yield ScratchpadProblem(whole, whole.required_bytes * 11 // 10)


def said(settings: ScratchpadSettings) -> str:
    """The settings that are not the default."""
    default = vars(ScratchpadSettings())
    changed = [f"{key} {value}" for key, value in vars(settings).items() if value != default[key]]
    return ", ".join(changed) or "plain"


def whole_plan(outcome: Outcome[Plan]) -> Answer:
    """All of the answer."""
    return {**numbers(outcome), "plan": None if outcome.solution is None else digest(plain(outcome.solution))}


def plain(plan: Plan) -> object:
    """A plan as lists."""
    tensors = [
        [
            tensor.tensor,
            [[stay.start, stay.end, stay.address] for stay in tensor.residencies],
            tensor.spilled,
            list(tensor.retrieved),
        ]
        for tensor in plan.tensors
    ]
    return [list(plan.order), tensors, [list(pair) for pair in plan.parameter_addresses]]
