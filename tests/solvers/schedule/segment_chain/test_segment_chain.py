"""Chains of segments: the best of all, which are counted one by one; edges that a comb keeps; time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any

import pytest
from released_model import ReleasedModel

from costmodel.errors import InputError
from costmodel.formats.chips import load_chip
from costmodel.formats.json.layer_graph_json import load_graph
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.budget import Budget
from solvers.divisors import divisors
from solvers.outcome import Status
from solvers.schedule import segment_chain
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem, violations
from solvers.schedule.segment_chain import Params
from solvers.schedule.segment_chain.forms import comb, necks
from solvers.schedule.tiles.cost_table import solved_costs
from solvers.schedule.tiles.layer_parts import TileCostDemand
from solvers.schedule.tiles.mapper import TileMapper
from tests.costmodel.schedule.chip_cases import FormulaCosts, chain, chip, every_kind, layer

Reads = Mapping[str, Sequence[str]]
"""The names of the layers that each layer reads."""
RESIDUAL = LayerGraph(
    "residual",
    (
        layer("first", external_c=4),
        layer("second", producers=(0,)),
        layer("third", producers=(1,)),
        layer("sum", "eltwise", c=8, operands=2, producers=(0, 2)),
    ),
)
CASES = [
    (chain(4), (2, 2), 2, 1 << 20),
    (chain(4, h=7), (2, 1), 4, 260),
    (RESIDUAL, (2, 2), 2, 1 << 20),
    (LayerGraph("first of every kind", every_kind().layers[:5]), (3, 1), 2, 700),
]


def problem_of(case: tuple[LayerGraph, tuple[int, int], int, int], objective: str) -> ScheduleProblem:
    graph, mesh, batch, buffer = case
    return ScheduleProblem(
        graph, ChipModel(chip(*mesh, buffer), FormulaCosts(graph)), batch, Objective.named(objective)
    )


def nested_cuts(leaves: Sequence[Leaf]) -> TreeNode:
    nested: TreeNode = leaves[-1]
    for leaf in leaves[-2::-1]:
        nested = Cut("T", leaf.batch, 1, (leaf, nested))
    return nested


def nested_blocks(leaves: Sequence[Leaf], reads: Reads) -> TreeNode:
    """Of all ways to cut the layers such that no edge passes over a whole block, the one with most blocks.

    Of equally many the one that begins its blocks earliest.
    """
    if len(leaves) == 1:
        return leaves[0]
    places = {leaf.layer: place for place, leaf in enumerate(leaves)}
    edges = [(places[one], places[other]) for other in places for one in reads[other] if one in places]
    ways = [
        ends
        for count in range(1, len(leaves))
        for ends in combinations(range(1, len(leaves)), count)
        if all(sum(before < end <= after for end in ends) <= 1 for before, after in edges)
    ]
    best = min(ways, key=lambda ends: (-len(ends), ends))
    pieces = [leaves[begin:end] for begin, end in pairwise((0, *best, len(leaves)))]
    return Cut("T", leaves[0].batch, 1, tuple(nested_blocks(piece, reads) for piece in pieces))


def pipelines(
    leaves: Sequence[Leaf], samples: int, work: dict[str, float], nested: Callable[[Sequence[Leaf]], TreeNode]
) -> Iterator[TreeNode]:
    """Of up to four nested runs: each takes layers until all so far have their share of the work."""
    everything = sum(work[leaf.layer] for leaf in leaves)
    for count in range(2, 5):
        combs: list[list[Leaf]] = [[]]
        done = 0.0
        for leaf in leaves:
            combs[-1].append(leaf)
            done += work[leaf.layer]
            if len(combs) < count and done * count >= everything * len(combs):
                combs.append([])
        if len(combs) == count and all(combs) and len(leaves) > count:
            yield Cut("S", samples, samples // leaves[0].batch, tuple(map(nested, combs)))


def cut_up(
    names: list[str], samples: int, work: dict[str, float], reads: Reads, with_blocks: bool
) -> Iterator[list[TreeNode]]:
    """Every chain of the solver's space, written down from its description."""
    if not names:
        yield []
    for count in range(1, len(names) + 1):
        forms: list[TreeNode] = []
        for parts in divisors(samples):
            leaves = tuple(Leaf(name, samples // parts) for name in names[:count])
            if count == 1:
                forms.append(leaves[0] if parts == 1 else Cut("T", samples, parts, leaves))
                continue
            nested = nested_blocks(leaves, reads) if with_blocks else nested_cuts(leaves)
            assert isinstance(nested, Cut)
            forms += [Cut("T", samples, parts, leaves), Cut("S", samples, parts, leaves)]
            wrapped = nested if parts == 1 else Cut("T", samples, parts, (nested,))
            forms.append(replace(nested, batch=samples, subbatches=parts) if with_blocks else wrapped)
            if parts > 1 and with_blocks:
                forms += pipelines(leaves, samples, work, lambda piece: nested_blocks(piece, reads))
            elif parts > 1:
                forms += pipelines(leaves, samples, work, nested_cuts)
        for form in forms:
            for rest in cut_up(names[count:], samples, work, reads, with_blocks):
                yield [form, *rest]


@pytest.mark.slow
@pytest.mark.parametrize("with_blocks", [True, False], ids=["blocks", "combs"])
@pytest.mark.parametrize("objective", ["edp", "energy", "cycles", "e2d", "ed2"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].name)
def test_the_answer_is_the_best_of_all_chains(
    case: tuple[LayerGraph, tuple[int, int], int, int], objective: str, with_blocks: bool
) -> None:
    problem = problem_of(case, objective)
    found = segment_chain.solve(
        problem, Budget(600), Params(joined=False, changes=0, reshapes=0, blocks=with_blocks)
    )
    assert found.status is Status.FEASIBLE
    assert found.solution is not None
    assert violations(problem, found.solution) == []
    assert isinstance(found.solution.tree, Cut)
    rounds = found.solution.tree.subbatches
    judge, names = problem.judge(), [one.name for one in problem.graph.layers]
    work = {one.name: float(one.operations) for one in problem.graph.layers}
    values = []
    for segments in cut_up(names, problem.batch // rounds, work, problem.graph.producers, with_blocks):
        try:
            cost = judge.evaluate(Cut("T", problem.batch, rounds, tuple(segments)))
        except (NotPossibleError, InputError):  # does not fit, or more children side by side than tiles
            continue
        values.append(problem.objective.value(cost.energy_pj, cost.cycles))
    assert len(values) > 20
    assert found.objective == pytest.approx(min(values), rel=1e-9)
    assert found.bound is not None
    assert found.bound <= min(values)


def test_a_comb_keeps_every_edge_on_the_chip() -> None:
    problem = problem_of(CASES[2], "energy")
    evaluator = problem.evaluator()
    assert isinstance(evaluator, ChipEvaluator)
    leaves = [Leaf(one.name, 2) for one in RESIDUAL.layers]
    flat, nested = evaluator.segment(Cut("T", 2, 1, tuple(leaves))), evaluator.segment(comb(leaves))
    # what the first layer makes is read by the last one, two layers later: the flat cut writes and reads it
    made = 2 * RESIDUAL.layers[0].k * RESIDUAL.layers[0].h * RESIDUAL.layers[0].w
    assert flat.dram_bits - nested.dram_bits == 8 * 2 * made


def test_what_fits_in_no_single_round_takes_more() -> None:
    problem = problem_of((chain(3, h=7), (1, 1), 8, 200), "edp")
    found = segment_chain.solve(problem, Budget())
    assert found.solution is not None
    assert isinstance(found.solution.tree, Cut)
    assert violations(problem, found.solution) == []
    assert found.solution.tree.subbatches > 1
    nothing = segment_chain.solve(problem_of((chain(3, h=7), (1, 1), 8, 40), "edp"), Budget())
    assert (nothing.status, nothing.solution) == (Status.UNKNOWN, None)
    assert "no layer after the other, even sample by sample" in nothing.note


def test_what_ends_it_early_leaves_the_best_chain_so_far() -> None:
    problem = problem_of(CASES[0], "edp")
    params = Params(reshapes=0)
    whole, cut_short = (
        segment_chain.solve(problem, budget, params) for budget in (Budget(600), Budget(600, 9))
    )
    assert cut_short.solution is not None
    assert "not all segments were counted" in cut_short.note
    assert whole.objective is not None
    assert cut_short.objective is not None
    assert cut_short.objective >= whole.objective
    assert (cut_short.evaluations, whole.evaluations) == (12, 45)
    nothing = segment_chain.solve(problem, Budget(1e-6))
    assert (nothing.status, nothing.solution) == (Status.UNKNOWN, None)
    assert "the first chain: not done in 1e-06 s" in nothing.note


def test_the_longest_segment_is_a_parameter() -> None:
    problem = problem_of(CASES[0], "edp")
    single = segment_chain.solve(
        problem, Budget(), Params(longest=1, blocks=False, joined=False, changes=0, reshapes=0)
    )
    assert single.solution is not None
    assert isinstance(single.solution.tree, Cut)
    assert len(single.solution.tree.children) == 4
    with pytest.raises(InputError, match="longest"):
        Params(longest=0)


def residual_blocks(count: int) -> LayerGraph:
    """Bottlenecks of 1,024 and 256 channels at 14 x 14, as in ResNet-50's third stage."""
    image: dict[str, Any] = {"h": 14, "w": 14}
    third: dict[str, Any] = {"r": 3, "s": 3, "pad_h": 1, "pad_w": 1}
    layers: list[NetworkLayer] = []
    for first in range(0, 4 * count, 4):
        before: dict[str, Any] = {"producers": (first - 1,)} if first else {"external_c": 1024}
        both = {**before, "producers": (first - 1, first + 2) if first else (first + 2,)}
        layers += [
            layer(f"{first}.narrow", c=1024, k=256, **image, **before),
            layer(f"{first}.middle", c=256, k=256, **image, **third, producers=(first,)),
            layer(f"{first}.wide", c=256, k=1024, **image, producers=(first + 1,)),
            layer(f"{first}.sum", "eltwise", c=2048, k=1024, operands=2, **image, **both),
        ]
    return LayerGraph("residual blocks", tuple(layers))


@pytest.mark.slow
def test_pipelines_of_combs_are_worth_it() -> None:
    """Two residual blocks for eight samples on SET's edge platform take a tenth less E D with them."""
    graph, on = residual_blocks(2), load_chip("set-edge")
    costs = solved_costs(TileCostDemand(graph, on.tile, on.tiles, 8), TileMapper("nvdla"))
    problem = ScheduleProblem(graph, ChipModel(on, costs), 8, Objective.named("edp"))
    with_them, without = (
        segment_chain.solve(
            problem, Budget(600), Params(combs=combs, blocks=False, joined=False, changes=0, reshapes=0)
        )
        for combs in (4, 1)
    )
    assert with_them.solution is not None
    assert isinstance(with_them.solution.tree, Cut)
    assert any(
        isinstance(segment, Cut) and segment.kind == "S" and isinstance(segment.children[0], Cut)
        for segment in with_them.solution.tree.children
    )
    assert with_them.objective is not None
    assert without.objective is not None
    assert with_them.objective < 0.9 * without.objective


@pytest.mark.slow
def test_turns_of_blocks_are_worth_it() -> None:
    """Four residual blocks take about as little E D as combs of as many layers, from fewer counts."""
    graph, on = residual_blocks(4), load_chip("set-edge")
    costs = solved_costs(TileCostDemand(graph, on.tile, on.tiles, 8), TileMapper("nvdla"))
    problem = ScheduleProblem(graph, ChipModel(on, costs), 8, Objective.named("edp"))
    in_blocks, in_combs = (
        segment_chain.solve(problem, Budget(600), params)
        for params in (Params(), Params(longest=16, blocks=False, joined=False, changes=0, reshapes=0))
    )
    assert in_blocks.objective is not None
    assert in_combs.objective is not None
    assert in_blocks.objective < 1.02 * in_combs.objective
    assert in_blocks.evaluations < in_combs.evaluations


def test_another_model_is_refused() -> None:
    graph = LayerGraph("resnet2", load_graph("resnet").layers[:2])
    problem = ScheduleProblem(graph, ReleasedModel.named("edge"), 4, Objective(1, 1))
    with pytest.raises(InputError, match="the chip model"):
        segment_chain.solve(problem, Budget())


@pytest.mark.slow
def test_longer_turns_go_from_neck_to_neck() -> None:
    """Few data cross behind the sums of residual blocks, and behind no other layer between them."""
    graph = residual_blocks(3)
    places = set(necks(graph))
    assert {0, 4, 8, 12} <= places
    # in front of a sum both of its operands cross
    assert not {3, 7, 11} & places
    problem = ScheduleProblem(
        graph, ChipModel(chip(4, 4, 1 << 20), FormulaCosts(graph)), 2, Objective.named("energy")
    )
    found = segment_chain.solve(problem, Budget(), Params(longest=1, joined=False, changes=0, reshapes=0))
    assert found.solution is not None
    assert isinstance(found.solution.tree, Cut)
    # all layers are one segment, which no run of one layer is
    assert len(found.solution.tree.children) == 1
