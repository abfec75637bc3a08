"""The frozen problems of solvers of fused layers: small products on small memories, every objective."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, cast

from costmodel.formats.json.fused_layers_json import group_mapping_to_json
from costmodel.mapping.fused.layers.group import GroupMapping
from solvers.budget import Budget
from solvers.catalogue import Entry
from solvers.fusion.layers.problem import LayerFusionProblem
from solvers.fusion.problem import OBJECTIVES
from solvers.outcome import Outcome
from tests.costmodel.mapping.fused.layers import random_groups
from tests.solvers.golden.problems import ENOUGH, Answer, Case, digest, numbers


def layer_fusion_cases(entry: Entry) -> Iterator[Case]:
    """Chains of two products, a few of three, with and without a residual addition."""
    for number in range(24):
        random = Random(number)
        machine = random_groups.architecture(
            random,
            room=random.randint(8, 24),
            registers=random.randint(3, 6),
            fanout=1 + number % 2,
            rates=number % 3 > 0,
        )
        layers = random_groups.products(random, 3 if number % 8 == 7 else 2, (1, 2, 3))
        group = random_groups.chain(machine, layers, residual=True)
        objective = OBJECTIVES[number % 3]
        problem = LayerFusionProblem(group, cast(Any, objective))

        def whole(outcome: Outcome[GroupMapping], problem: LayerFusionProblem = problem) -> Answer:
            found = outcome.solution
            mapping = None if found is None else digest(group_mapping_to_json(problem.group, found))
            return {**numbers(outcome), "mapping": mapping}

        yield Case(f"{number}, {objective}", problem, Budget(ENOUGH), {}, whole)
