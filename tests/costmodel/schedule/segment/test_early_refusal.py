"""T cuts that are refused at the first two children that do not fit, against their full evaluation."""

from __future__ import annotations

from random import Random

import pytest

from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.segment import buffers
from costmodel.schedule.segment.buffers import Held
from costmodel.schedule.tree.tree import TreeNode
from costmodel.schedule.tree.validity import NotPossibleError
from tests.costmodel.schedule.chip_cases import FormulaCosts, chip, every_kind, random_tree

EVALUATED = "costmodel.schedule.segment.segment.held_on_the_way"


def costs_of(trees: list[TreeNode], buffer: int) -> list[tuple[float, int] | None]:
    """Energy and cycles of each tree; None where it does not fit."""
    graph, found = every_kind(), list[tuple[float, int] | None]()
    on = chip(2, 2, buffer)
    evaluator = ChipEvaluator(graph, on, 4, FormulaCosts(graph, slices=(2,)))
    for tree in trees:
        try:
            cost = evaluator.evaluate(tree)
        except NotPossibleError:
            found.append(None)
        else:
            found.append((cost.energy_pj, cost.cycles))
    return found


@pytest.mark.slow
def test_the_same_trees_are_possible_and_cost_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    random, graph, possible = Random(5), every_kind(), 0
    trees = [random_tree(random, graph, 4) for _ in range(300)]
    known, refused = buffers.held_on_the_way, list[bool]()
    for buffer in (120, 160, 200, 250, 300, 400):
        size_bits = chip(2, 2, buffer).tile.buffer.size_bits

        def counted(before: Held, child: Held, size_bits: int = size_bits) -> int:
            most = known(before, child)
            refused.append(most > size_bits)
            return most

        monkeypatch.setattr(EVALUATED, counted)
        soon = costs_of(trees, buffer)
        monkeypatch.setattr(EVALUATED, lambda *held: 0)
        assert soon == costs_of(trees, buffer)
        possible += len([one for one in soon if one])
    assert possible > 50
    assert sum(refused) > 40
