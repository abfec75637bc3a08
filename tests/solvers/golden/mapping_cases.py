"""The frozen problems of mapping solvers: layers on architectures, rules, settings of solvers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product
from typing import Any

from costmodel.mapping.uneven import AnyMapping
from solvers.budget import Budget
from solvers.catalogue import Entry
from solvers.mapping.problem import OBJECTIVES, MappingProblem
from solvers.mapping.space.rules import FactorRule, LevelRules, SpaceRules
from solvers.outcome import Outcome
from tests.solvers.golden.problems import (
    ENOUGH,
    LAYERS,
    PRODUCT,
    SLIDING,
    TINY,
    Answer,
    Case,
    architectures,
    digest,
    nine_digits,
    numbers,
    plain,
    shrunk,
    tiny_architectures,
)

ITERATIONS = {
    "cosa": 6,
    "thistle": 12,
    "kapla": 8,
    "random_search": 2048,
    "hybrid": 2048,
    "learned_annealing": 256,
}
PARAMS: dict[str, dict[str, Any]] = {
    "learned_annealing": {"learn": False},
    "thistle": {"prove": False},
}
SETTINGS: dict[str, tuple[dict[str, Any], ...]] = {
    "auto": ({"tolerance": 0.1}, {"tolerance": 0.5}, {"members": ["exact"]}),
    "cosa": (
        {"surrogate": "difference"},
        {"surrogate": "cost"},
        {"surrogate": "cost", "polish": False},
        {"preset": "paper"},
        {"boundaries": "all"},
        {"polish": False},
        {"engine": "highs"},
    ),
    "exact": ({"tolerance": 0.05}, {"tolerance": 0.5}, {"dominance": False}),
    "exhaustive": ({"limit": 50},),
    "kapla": (
        {"filling": "steepest"},
        {"filling": "printed"},
        {"stacking": "steepest"},
        {"stacking": "printed"},
        {"schemes": 1, "alike": 1},
        {"polish": False},
        {"caution": 0.5, "starts": 2},
    ),
    "learned_annealing": (
        {"avoid_invalid": False},
        {"temperature": 1.0, "elite_fraction": 0.1},
        {"patience": 1},
        {"random_fraction": 0.5},
    ),
    "random_search": ({"victory": 20}, {"valid": 5}),
    "hybrid": ({"victory": 20}, {"threads": 2, "orders": 4}),
    "thistle": (
        {"polish": 0},
        {"carry_over": False},
        {"nearest": 1, "candidates": 16},
        {"spread_windows": False},
        {"prune": False},
    ),
}
"""What differs from :data:`PARAMS`, each tried on two problems."""

UNPOLISHED: dict[str, dict[str, Any]] = {
    "cosa": {"polish": False},
    "kapla": {"polish": False},
    "thistle": {"polish": 0},
}
"""What shows the solver's own part of an answer: a polish often comes to the same mapping from elsewhere."""

RULES = {
    "fitting": SpaceRules(),
    "free": SpaceRules("free"),
    "all": SpaceRules("all"),
    "padded": SpaceRules(padding=0.15, padded_dims=("M", "N")),
    "bypass": SpaceRules(levels=(LevelRules("UnifiedBuffer", bypass=("weights",)),)),
    "bounded": SpaceRules(
        levels=(
            LevelRules("UnifiedBuffer", temporal=(FactorRule("K", 2, 6),), spatial=(FactorRule("M", 2, 4),)),
        )
    ),
    "ordered": SpaceRules(
        levels=(LevelRules("UnifiedBuffer", innermost=("N",)), LevelRules("DRAM", outermost=("K",)))
    ),
    "sides": SpaceRules(levels=(LevelRules("UnifiedBuffer", spatial_x=("K",), spatial_y=("N",)),)),
    "impossible": SpaceRules(levels=(LevelRules("UnifiedBuffer", temporal=(FactorRule("K", 5, 5),)),)),
}
"""For a matrix product on ``D_tpu_like``."""


def mapping_cases(entry: Entry) -> Iterator[Case]:
    """Every layer on two architectures, all rules, and the solver's settings."""
    found = whole_mapping if entry.proves_optimality else searched_mapping
    frozen = {"cosa": nine_digits, "thistle": nine_digits, "auto": numbers}.get(entry.name, found)
    budget = Budget(ENOUGH, ITERATIONS.get(entry.name), seed=1)
    params = PARAMS.get(entry.name, {})
    for problem in problems(entry.name):
        name = f"{problem.layer.name} on {problem.architecture.name}, {problem.objective}"
        yield Case(name, problem, budget, params, frozen)
    small = shrunk("D_tpu_like", (3, 16)) if entry.name == "exhaustive" else shrunk("D_tpu_like", (6, 64))
    ruled = TINY[0] if entry.name == "exhaustive" else PRODUCT
    for name, rules in RULES.items():
        yield Case(name, MappingProblem(small, ruled, "energy", rules), budget, params, frozen)
    if entry.maps_unevenly:
        for layer, objective in product(TINY[:3], ("energy", "edp")):
            problem = MappingProblem(small, layer, objective, SpaceRules(uneven=True))
            yield Case(f"uneven {layer.name}, {objective}", problem, budget, params, frozen)
    for problem in islice(problems(entry.name), 0, 40, 4) if entry.name in UNPOLISHED else ():
        name = f"{problem.layer.name} on {problem.architecture.name}, {problem.objective}, not polished"
        yield Case(name, problem, budget, params | UNPOLISHED[entry.name], frozen)
    others = (TINY[0], TINY[1]) if entry.name == "exhaustive" else (PRODUCT, SLIDING)
    for setting, layer in product(SETTINGS[entry.name], others):
        said = ", ".join(f"{key} {value}" for key, value in setting.items())
        yield Case(f"{layer.name}, {said}", MappingProblem(small, layer), budget, params | setting, frozen)


def problems(name: str) -> Iterator[MappingProblem]:
    """Layers on architectures: every layer on two, every architecture with all objectives."""
    if name == "exhaustive":
        for number, (layer, machine) in enumerate(product(TINY, tiny_architectures())):
            yield MappingProblem(machine, layer, OBJECTIVES[(number + number // 4) % 3])
        return
    machines = architectures()
    for number, layer in enumerate(LAYERS):
        for turn in range(2):
            machine = machines[(number + turn * (1 + number // len(machines))) % len(machines)]
            yield MappingProblem(machine, layer, OBJECTIVES[(number + turn) % 3])


def whole_mapping(outcome: Outcome[AnyMapping]) -> Answer:
    """All of the answer but its note, which is for readers."""
    found = None if outcome.solution is None else digest(plain(outcome.solution))
    return {**numbers(outcome), "mapping": found}


def searched_mapping(outcome: Outcome[AnyMapping]) -> Answer:
    """The same and how many mappings were looked at, which for a search is part of what it does."""
    return {**whole_mapping(outcome), "evaluations": outcome.evaluations}
