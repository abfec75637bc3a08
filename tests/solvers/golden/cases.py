"""The small problems whose answers are frozen, a dozen a solver, and what of an answer is.

Budgets are iterations, never seconds: the wall limit is far beyond what a problem takes, so that an answer is
the same on every machine. What a library of floating-point numbers decides is not frozen to the last bit:

* ``exact``, ``exhaustive``, ``kapla``, ``random_search``: all of the answer. They compute with the cost
  model's own numbers, whose sums have one order.
* ``auto``: status, objective and bound. Whose mapping it is may depend on the clock, by which turns end.
* ``learned_annealing``: all of the answer, without its learned model, whose trees are scikit-learn's.
* ``cosa``, ``thistle``, ``thistle_codesign``: the objective to nine digits. In another version CP-SAT and
  Clarabel may hand over another of several equal or nearly equal optima; the mapping is then another one, and
  what the polish makes of it nearly always costs the same.
* Schedules: all of the answer, the tree as text; annealing draws from Python's generator.
* Scratchpad plans: the bytes and their bound, and the plan where no CP-SAT is asked.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from costmodel.architecture import Architecture
from costmodel.architectures import load_architecture
from costmodel.chip.layers import LayerGraph
from costmodel.chips import load_tile
from costmodel.conventions.set_isca2023 import load_graph, load_platform
from costmodel.conventions.set_isca2023.tile_costs import NvdlaTileCosts, chip_of
from costmodel.evaluate import evaluate
from costmodel.mapping import Mapping
from costmodel.uneven import AnyMapping, UnevenMapping
from costmodel.workload import Layer, batched_matmul, convolution, gemm
from solvers.budget import Budget
from solvers.catalogue import CATALOGUE, Entry, solver
from solvers.codesign.family import ArchitectureFamily
from solvers.codesign.problem import CodesignProblem
from solvers.mapping.problem import OBJECTIVES, MappingProblem
from solvers.mapping.rules import SpaceRules
from solvers.mapping.space import MappingSpace
from solvers.mapping.starts import drawn
from solvers.outcome import Outcome
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem
from solvers.schedule.released_model import ReleasedModel
from solvers.schedule.tile_mapper import TileProblem
from solvers.schedule.tile_shares import Share
from solvers.scratchpad.problem import ScratchpadProblem

sys.path.insert(0, str(Path(__file__).parents[1] / "scratchpad"))

import random_graphs

Answer = dict[str, Any]
"""Plain data: what is frozen of one answer."""

ENOUGH = 600.0
"""Wall seconds that no problem here needs."""

LAYERS = (
    gemm("product", M=12, N=10, K=18),
    batched_matmul("batched", B=4, M=6, N=5, K=8),
    convolution("sliding", K=6, C=4, P=7, Q=6, R=3, S=3),
    convolution("strided", K=8, C=3, P=6, Q=5, R=3, S=1, stride=(2, 1)),
    convolution("depthwise", K=8, C=8, P=6, Q=6, R=3, S=3, groups=8),
)
TINY = (gemm("product", M=4, N=6, K=4), convolution("sliding", K=2, C=2, P=4, Q=2, R=3, S=1))


def shrunk(name: str, words: tuple[int, ...]) -> Architecture:
    """The outer levels of a library architecture with so few words that capacities count."""
    architecture = load_architecture(name)
    levels = architecture.levels[-len(words) - 1 :]
    sized = (replace(level, size_words=size) for level, size in zip(levels, words, strict=False))
    return replace(architecture, levels=(*sized, levels[-1]))


@cache
def architectures() -> tuple[Architecture, ...]:
    return (load_architecture("eyeriss"), shrunk("E_four_level", (8, 60)), shrunk("D_tpu_like", (6, 64)))


@dataclass(frozen=True)
class Case:
    """One problem of one solver."""

    name: str
    problem: Any
    budget: Budget
    params: dict[str, Any]
    frozen: Callable[[Outcome[Any]], Answer]


def digest(value: object) -> str:
    """The beginning of a hash of plain data."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=sorted).encode()).hexdigest()[:16]


def plain(mapping: AnyMapping) -> object:
    """A mapping as plain data, its sets in the order of names."""
    if isinstance(mapping, UnevenMapping):
        return [plain(mapping.nest), list(mapping.places)]
    return [
        [
            [list(map(list, block)) for block in (level.temporal, level.spatial_x, level.spatial_y)],
            sorted(level.keep),
        ]
        for level in mapping.levels
    ]


def whole_mapping(outcome: Outcome[AnyMapping]) -> Answer:
    found = None if outcome.solution is None else digest(plain(outcome.solution))
    return {**numbers(outcome), "mapping": found, "note": outcome.note}


def numbers(outcome: Outcome[Any]) -> Answer:
    return {"status": str(outcome.status), "objective": outcome.objective, "bound": outcome.bound}


def nine_digits(outcome: Outcome[Any]) -> Answer:
    value = None if outcome.objective is None else float(f"{outcome.objective:.9g}")
    return {"found": outcome.solution is not None, "objective": value}


def tree(outcome: Outcome[Any]) -> Answer:
    found = None if outcome.solution is None else digest(outcome.solution.text)
    return {**numbers(outcome), "tree": found}


def whole_plan(outcome: Outcome[Any]) -> Answer:
    found = None if outcome.solution is None else digest(outcome.solution.to_json())
    return {**numbers(outcome), "plan": found}


def share_cost(outcome: Outcome[Any]) -> Answer:
    cost = outcome.solution
    return {**numbers(outcome), "cost": None if cost is None else [cost.energy_pj, cost.cycles]}


ITERATIONS = {"cosa": 6, "thistle": 12, "kapla": 8, "random_search": 2048, "learned_annealing": 256}
PARAMS: dict[str, dict[str, Any]] = {
    "learned_annealing": {"learn": False},
    "thistle": {"prove": False},
}
RULES = {
    "fitting": SpaceRules(),
    "free": SpaceRules("free"),
    "padded": SpaceRules(padding=0.15, padded_dims=("M", "N")),
}


def mapping_cases(entry: Entry) -> Iterator[Case]:
    """Layers on architectures, and a few rules of the space."""
    frozen = {"cosa": nine_digits, "thistle": nine_digits, "auto": numbers}.get(entry.name, whole_mapping)
    budget = Budget(ENOUGH, ITERATIONS.get(entry.name), seed=1)
    params = PARAMS.get(entry.name, {})
    if entry.name == "exhaustive":
        machines: tuple[Architecture, ...] = (
            shrunk("C_two_level", (14,)),
            shrunk("D_tpu_like", (3, 16)),
            shrunk("E_four_level", (8, 30)),
            shrunk("eyeriss", (5, 24)),
        )
        layers: tuple[Layer, ...] = TINY
    else:
        machines, layers = architectures(), LAYERS
    for number, (machine, layer) in enumerate(product(machines, layers)):
        if len(machines) * len(layers) > 10 and number % 3 == 2:
            continue
        objective = OBJECTIVES[number % 3]
        name = f"{layer.name} on {machine.name}, {objective}"
        yield Case(name, MappingProblem(machine, layer, objective), budget, params, frozen)
    for name, rules in RULES.items():
        problem = MappingProblem(machines[-1], layers[0], "energy", rules)
        yield Case(f"{layers[0].name}, {name}", problem, budget, params, frozen)
    if entry.maps_unevenly:
        problem = MappingProblem(machines[-1], TINY[0], "energy", SpaceRules(uneven=True))
        yield Case("uneven", problem, budget, params, frozen)


def first_layers(name: str, count: int) -> LayerGraph:
    return LayerGraph(f"{name}{count}", load_graph(name).layers[:count])


def released(name: str, count: int, batch: int, objective: Objective) -> ScheduleProblem:
    return ScheduleProblem(first_layers(name, count), ReleasedModel.named("edge"), batch, objective)


def on_a_chip(name: str, count: int, batch: int, objective: Objective) -> ScheduleProblem:
    """On four tiles of SET's edge platform."""
    edge = load_platform("edge")
    chip = replace(chip_of(edge, "small"), columns=2, rows=2, stripe=2)
    graph = first_layers(name, count)
    return ScheduleProblem(graph, ChipModel(chip, NvdlaTileCosts(graph, edge.tile)), batch, objective)


def schedule_cases(entry: Entry) -> Iterator[Case]:
    """The first layers of networks; KAPLA's solver on a chip, for it costs no released program's trees."""
    made = on_a_chip if entry.name == "kapla_schedule" else released
    budget = Budget(ENOUGH, None if entry.name == "kapla_schedule" else 60, seed=1)
    networks = (("resnet", 4, 2), ("goog", 5, 4), ("zfnet", 3, 2))
    for (network, count, batch), name in product(networks, ("energy", "cycles", "edp", "e2d")):
        problem = made(network, count, batch, Objective.named(name))
        yield Case(f"{network}, {count} layers, batch {batch}, {name}", problem, budget, {}, tree)


def scratchpad_cases(entry: Entry) -> Iterator[Case]:
    """Random graphs with the least scratchpad and a little more."""
    frozen = whole_plan if entry.name in ("peak", "comparison") else numbers
    for seed in range(6):
        graph = random_graphs.random_graph(seed, 6) if seed % 2 else random_graphs.forked_graph(seed)
        for more in (0, 3):
            problem = ScratchpadProblem(graph, graph.required_bytes + more)
            yield Case(f"{graph.name}, {more} bytes more", problem, Budget(ENOUGH), {}, frozen)


def codesign_cases(entry: Entry) -> Iterator[Case]:
    """A layer or two in two areas for every objective."""
    one, other = gemm("product", M=16, N=12, K=32), convolution("wide", K=8, C=4, P=8, Q=8, R=3, S=3)
    params = {"split_windows": False, "judged": 2, "condensed": 2, "mapping_solver": "exact"}
    for area, layers, objective in product((40_000.0, 60_000.0), ([one], [one, other]), OBJECTIVES):
        problem = CodesignProblem.of(ArchitectureFamily("eyeriss"), layers, area)
        name = f"{len(layers)} layers, {area:g} um2, {objective}"
        yield Case(name, replace(problem, objective=objective), Budget(ENOUGH, 2), params, nine_digits)


def tile_cases(entry: Entry) -> Iterator[Case]:
    """The distinct shares of two networks' layers."""
    tile = load_tile("nvdla")
    for network in ("resnet", "goog"):
        graph = first_layers(network, 4)
        for number, (layer, parts) in enumerate(product(graph.layers[:3], ((1, 1, 1, 1), (2, 1, 2, 1)))):
            objective = OBJECTIVES[number % 3]
            problem = TileProblem(tile, Share.of(layer, parts, 2), objective)
            name = f"{layer.name} of {network} in {parts}, {objective}"
            yield Case(name, problem, Budget(ENOUGH), {}, share_cost)


OF_FAMILY = {
    "mapping": mapping_cases,
    "schedule": schedule_cases,
    "scratchpad": scratchpad_cases,
    "codesign": codesign_cases,
    "tile": tile_cases,
}


def cases(name: str) -> list[Case]:
    """The cases of a solver."""
    entry = solver(name)
    return list(OF_FAMILY[entry.family](entry))


def answers(name: str) -> dict[str, Answer]:
    """What a solver answers now, by the names of its cases."""
    module = solver(name).load()
    return {
        case.name: case.frozen(module.solve(case.problem, case.budget, module.Params(**case.params)))
        for case in cases(name)
    }


def counted() -> dict[str, Answer]:
    """What the cost model counts now for drawn mappings."""
    found = {}
    for machine, layer in product(architectures(), LAYERS):
        for mapping in drawn(MappingSpace(machine, layer), seed=2):
            found[f"{layer.name} on {machine.name}"] = _evaluated(machine, layer, mapping)
    return found


def _evaluated(machine: Architecture, layer: Layer, mapping: Mapping) -> Answer:
    evaluation = evaluate(machine, layer, mapping)
    return {
        "mapping": digest(plain(mapping)),
        "energy_pj": evaluation.energy_pj,
        "cycles": evaluation.cycles,
        "all": digest(evaluation.to_json()),
    }


SOLVERS = [entry.name for entry in CATALOGUE]
