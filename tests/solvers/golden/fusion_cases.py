"""The frozen problems of fusion solvers: chains of products and attention in two and three levels."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, cast

from costmodel.formats.json.fusion_json import fused_mapping_to_json, problem_from_json
from costmodel.mapping.fused.mapping import FusedMapping
from solvers.budget import Budget
from solvers.catalogue import Entry
from solvers.fusion.problem import OBJECTIVES, FusionProblem
from solvers.outcome import Outcome
from tests.costmodel.mapping.fused import random_fused
from tests.solvers.golden.problems import ENOUGH, Answer, Case, digest, numbers


def fusion_cases(entry: Entry) -> Iterator[Case]:
    """Chains of one to three products, attention with and without heads, every objective."""
    for number in range(36):
        random = Random(number)
        kind = number // 3 % 4
        einsums = (
            random_fused.products(random, kind + 1, (2, 3, 4, 6, 8))
            if kind < 3
            else random_fused.attention(random, (2, 3, 4, 6), heads=number % 2 == 0)
        )
        content = {
            "einsums": einsums,
            "levels": random_fused.levels(random, 2 + number // 12 % 2, room=True),
            "mac_pj": 1,
        }
        objective = OBJECTIVES[number % 3]
        problem = FusionProblem(problem_from_json(content, "frozen"), cast(Any, objective))
        yield Case(f"{number}, {objective}", problem, Budget(ENOUGH), {}, whole_mapping)
    yield Case("with a tolerance", problem, Budget(ENOUGH), {"tolerance": 0.3}, whole_mapping)


def whole_mapping(outcome: Outcome[FusedMapping]) -> Answer:
    """All of an answer."""
    found = outcome.solution
    return {
        **numbers(outcome),
        "mapping": None if found is None else digest(fused_mapping_to_json(found)),
        "evaluations": outcome.evaluations,
    }
