"""Copies of data and tiles that wait while pipelines fill: exact in closed forms, and attacked by trees."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from math import inf
from random import Random

import numpy as np
import pytest

from costmodel.hardware.chip import Chip
from costmodel.schedule.bounds.bounds import least_by_rounds
from costmodel.schedule.bounds.leaves import above, corners_of_sum, in_both, layers_in_line
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.tile_cost import FloorRows, TileRows
from costmodel.schedule.tree.text import parse_tree
from costmodel.schedule.tree.tree import Cut, CutKind, Leaf, TreeNode
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.divisors import divisors
from tests.costmodel.schedule.chip_cases import FormulaCosts, chain, chip, layer
from tests.thorough import how_many


class OnlyCuts(FormulaCosts):
    """Only the partitions into these parts."""

    def __init__(self, graph: LayerGraph, cuts: Sequence[tuple[int, int, int, int]]) -> None:
        super().__init__(graph)
        self.cuts = np.array(cuts)

    def rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        found = super().rows(layer, batch, tiles)
        return found.kept((found.parts[:, None] == self.cuts).all(axis=2).any(axis=1))


@pytest.mark.parametrize(
    "tree", ["T 6/1\n\tS 6/6\n\t\tlayer0 1\n\t\tlayer1 1\n", "S 6/3\n\tlayer0 2\n\tlayer1 2\n"]
)
def test_a_pipeline_takes_what_it_must(tree: str) -> None:
    """By hand: layers that only a single tile can compute, one after the other in a pipeline of two.

    With six sub-batches of a sample seven periods pass for six; of two samples four pass for three.
    """
    graph, on = chain(2), chip(2, 1, dram=10**6, link=10**6)
    batch = parse_tree(tree).batch // next(leaf.child_runs for leaf in _cuts(parse_tree(tree)))

    class OfBatch(OnlyCuts):
        def rows(self, layer: int, samples: int, tiles: int) -> TileRows:
            return super().rows(layer, samples, tiles) if samples == batch else TileRows.of([])

    costs = OfBatch(graph, [(1, 1, 1, 1)])
    found = ChipEvaluator(graph, on, 6, costs).evaluate(parse_tree(tree))
    least = next(one for one in least_by_rounds(graph, on, 6, costs) if one.rounds == 1)
    runs, period = 6 // batch, int(graph.layers[0].operations * batch / 4)
    first_data = found.cycles - (runs + 1) * period
    assert least.segments[-1].work == (runs + 1) * period
    assert first_data in (1, 2, 3)  # the first words, at a million bytes a cycle


def _cuts(node: TreeNode) -> list[Cut]:
    """The S cuts of a tree."""
    if isinstance(node, Leaf):
        return []
    return [*([node] if node.kind == "S" else []), *(cut for one in node.children for cut in _cuts(one))]


@pytest.mark.parametrize("cut", [(2, 1, 1, 1), (1, 2, 1, 1), (1, 1, 2, 1)])
def test_copies_cost_what_they_must(cut: tuple[int, int, int, int]) -> None:
    """Two tiles side by side, both at ports: the energy of one layer is exactly that of the bound.

    With the output channels cut both tiles get all inputs, otherwise both get all weights; what both get
    crosses one link from either port, what one gets half a link in the mean.
    """
    graph, on = LayerGraph("one", (layer("one", c=4, k=2, h=2, w=1, external_c=4),)), chip(2, 1)
    costs = OnlyCuts(graph, [cut])
    found = ChipEvaluator(graph, on, 2, costs).evaluate(parse_tree("one 2"))
    least = next(one for one in least_by_rounds(graph, on, 2, costs) if one.rounds == 1)
    copied = {"inputs": 1 + (cut[0] > 1), "weights": 1 + (cut[0] == 1)}
    inputs, weights = 8 * 2 * 4 * 2, 8 * 4 * 2
    written_pj = on.tile.buffer.write_pj_per_bit
    filled_pj = (copied["inputs"] * inputs + copied["weights"] * weights) * written_pj
    assert least.parts_pj["transfers"] == pytest.approx(filled_pj)
    for part, pj in found.parts_pj.items():
        assert least.parts_pj[part] == pytest.approx(pj), part


def random_pipelines(random: Random, names: Sequence[str], batch: int) -> TreeNode:
    """T and S cuts within one another, over layers in a row."""
    if len(names) == 1:
        return Leaf(names[0], batch)
    kind: CutKind = random.choice(("S", "S", "T"))
    parts = random.choice(divisors(batch))
    count = random.randint(2, min(3, len(names)))
    ends = [0, *sorted(random.sample(range(1, len(names)), count - 1)), len(names)]
    children = tuple(
        random_pipelines(random, names[first:end], batch // parts) for first, end in pairwise(ends)
    )
    return Cut(kind, batch, parts, children)


@pytest.mark.slow
@pytest.mark.parametrize(
    "on", [chip(3, 1, dram=200), chip(2, 2, dram=200), chip(4, 2, dram=400)], ids=lambda on: f"{on.tiles}"
)
def test_nested_pipelines_are_not_below(on: Chip) -> None:
    """Random trees of pipelines within pipelines: neither cycles nor any weighted sum is below a corner's."""
    random, fitting, raised = Random(on.tiles), 0, 0
    for graph, batch in product((chain(5), chain(3)), (4, 8)):
        costs = FormulaCosts(graph)
        least = next(one for one in least_by_rounds(graph, on, batch, costs) if one.rounds == 1)
        raised += len(least.corners) > 1
        evaluator = ChipEvaluator(graph, on, batch, costs)
        names = [one.name for one in graph.layers]
        for _ in range(how_many(60, thorough=150)):
            segment = random_pipelines(random, names, batch)
            try:
                found = evaluator.evaluate(Cut("T", batch, 1, (segment,)))
            except NotPossibleError:
                continue
            fitting += 1
            assert found.cycles >= least.cycles
            for share in (0.01, 0.3, 0.5, 0.7, 0.99):
                by_energy, by_cycles = share / least.energy_pj, (1 - share) / least.cycles
                value = by_energy * found.energy_pj + by_cycles * found.cycles
                assert value >= min(by_energy * one + by_cycles * other for one, other in least.corners)
    assert fitting > how_many(80, thorough=200)
    assert raised


def test_layers_in_line() -> None:
    """In a chain all are; of branches only those in front of them and behind them."""
    assert layers_in_line(chain(4)) == {0, 1, 2, 3}
    layers = (
        layer("first", external_c=4),
        layer("left", producers=(0,)),
        layer("right", producers=(0,)),
        layer("sum", "eltwise", c=8, operands=2, producers=(1, 2)),
        layer("last", producers=(3,)),
    )
    assert layers_in_line(LayerGraph("branches", layers)) == {0, 3, 4}


def test_the_hull_of_a_sum_is_that_of_all_sums() -> None:
    """Against all combinations: no weighted sum of any is below the corners', and each corner is one."""
    random = np.random.default_rng(0)
    layers = []
    for _ in range(4):
        energy, cycles = random.integers(1, 20, (2, 5)).astype(float)
        layers.append((energy, cycles))
    sums = {
        (sum(one[0][way] for one, way in zip(layers, ways, strict=True)),
         sum(one[1][way] for one, way in zip(layers, ways, strict=True)))
        for ways in product(range(5), repeat=4)
    }  # fmt: skip
    corners = corners_of_sum(layers)
    assert set(corners) <= sums
    assert corners[0][0] == min(energy for energy, _ in sums)
    assert corners[-1][1] == min(cycles for _, cycles in sums)
    for share in np.linspace(0.001, 0.999, 50):
        least = min(share * energy + (1 - share) * cycles for energy, cycles in sums)
        assert min(share * energy + (1 - share) * cycles for energy, cycles in corners) == pytest.approx(
            least
        )


def test_what_is_above_a_least_time() -> None:
    corners = [(1.0, 9.0), (2.0, 5.0), (4.0, 1.0)]
    assert above(corners, 0.0) == corners
    assert above(corners, 3.0) == [(1.0, 9.0), (2.0, 5.0), (3.0, 3.0)]
    assert above(corners, 10.0) == [(1.0, 10.0)]


def test_what_is_in_two_regions() -> None:
    """By hand, and against the least time at many energies."""
    one, other = [(1.0, 9.0), (2.0, 5.0), (4.0, 1.0)], [(1.5, 6.0), (5.0, 2.5)]
    assert in_both(one, [(1.5, 0.0)]) == [(1.5, 7.0), (2.0, 5.0), (4.0, 1.0)]
    assert in_both(one, [(3.0, 2.0)]) == [(3.0, 3.0), (3.5, 2.0)]
    assert in_both(one, [(inf, inf)]) == [(inf, inf)]
    found = in_both(one, other)
    assert found == in_both(other, one)
    assert found[0] == (1.5, 7.0)
    assert found[-1] == (5.0, 2.5)

    def least_time(corners: Sequence[tuple[float, float]], energy: float) -> float:
        energies, times = np.array(corners).T
        return float(np.interp(energy, energies, times))

    for energy in np.linspace(1.5, 6.0, 100):
        least = max(least_time(one, energy), least_time(other, energy))
        assert least_time(found, energy) == pytest.approx(least)


def test_groups_of_rows_leave_out_parts_without_an_index() -> None:
    """Two rows in three parts leave one without a row; the least of a group may be of different rows."""
    rows = TileRows.of([((1, 1, 3, 1), 5.0, 7), ((1, 3, 1, 1), 9.0, 2), ((3, 1, 1, 1), 1.0, 1)])
    found = FloorRows.of((4, 6, 2, 1), 3, rows)
    groups = {
        (k, other): (energy, cycles)
        for k, other, energy, cycles in zip(
            found.k_parts.tolist(), found.other_parts.tolist(), found.energy_pj, found.cycles, strict=True
        )
    }
    assert groups == {(1, 2): (5.0, 7.0), (1, 3): (9.0, 2.0), (3, 1): (1.0, 1.0)}
    assert set(found.batch.tolist()) == {6}
