"""Tangram's segments: the best of all chains, written down by name; alternate loop orders; what is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from released_model import ReleasedModel

from costmodel.errors import InputError
from costmodel.formats.chips import load_chip
from costmodel.formats.json.layer_graph_json import load_graph
from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.replay.replay import replay
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.program.checker import violations as program_violations
from costmodel.schedule.program.writer import write_program
from costmodel.schedule.tree.text import parse_tree
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.budget import Budget
from solvers.divisors import divisors
from solvers.outcome import Status
from solvers.schedule import tangram
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem, violations
from solvers.schedule.tangram import Params
from solvers.schedule.tangram.vertices import Vertices
from solvers.schedule.tiles.cost_table import solved_costs
from solvers.schedule.tiles.layer_parts import TileCostDemand
from solvers.schedule.tiles.mapper import TileMapper
from tests.costmodel.schedule.chip_cases import FormulaCosts, chain, chip, every_kind, layer

POOLED = LayerGraph(
    "pooled",
    (
        layer("first", external_c=4),
        layer("pool", "pool", k=4, producers=(0,)),
        layer("left", producers=(1,)),
        layer("right", producers=(1,)),
        layer("sum", "eltwise", c=8, operands=2, producers=(2, 3)),
    ),
)
CASES = [
    (chain(4), (2, 2), 2, 1 << 20),
    (chain(3), (3, 1), 8, 400),
    (POOLED, (3, 2), 2, 1 << 20),
    (POOLED, (2, 2), 4, 300),
    (LayerGraph("first of every kind", every_kind().layers[:5]), (3, 1), 2, 700),
]
LOOSE = Params(idle=0.6)


def problem_of(case: tuple[LayerGraph, tuple[int, int], int, int], objective: str) -> ScheduleProblem:
    graph, mesh, batch, buffer = case
    model = ChipModel(chip(*mesh, buffer), FormulaCosts(graph))
    return ScheduleProblem(graph, model, batch, Objective.named(objective))


class Space:
    """All chains of a problem, from the description of the solver, with layers by name."""

    def __init__(self, problem: ScheduleProblem, params: Params) -> None:
        self.graph, self.batch, self.params = problem.graph, problem.batch, params
        self.tiles, self.reads = problem.model.tiles, problem.graph.producers
        self.vertices: list[list[str]] = []
        for one in self.graph.layers:
            before = self.vertices[-1][-1] if self.vertices else ""
            if not one.has_weights and self.readers(before) == {one.name}:
                self.vertices[-1].append(one.name)
            else:
                self.vertices.append([one.name])

    def readers(self, name: str) -> set[str]:
        return {other for other, read in self.reads.items() if name in read}

    def sources(self, vertex: Sequence[str]) -> set[str]:
        own = {name for name in vertex if self.graph.layers[self.graph.index[name]].external_c}
        read = {name for one in vertex for name in self.reads[one]} - set(vertex)
        return read | ({"input"} if own else set())

    def is_run(self, run: Sequence[Sequence[str]]) -> bool:
        for at in range(1, len(run)):
            inside = {name for vertex in run[:at] for name in vertex}
            near = self.sources(run[at]) & inside
            also = self.sources(run[at]) & {name for vertex in run[:at] for name in self.sources(vertex)}
            if not (near or also) or len(near) > 1:
                return False
        everything = {name for vertex in run for name in vertex}
        for vertex in run:
            outer = {one for name in vertex for one in self.readers(name)} - set(vertex)
            away = sum(bool(outer & set(other)) for other in self.vertices if not everything & set(other))
            if outer & everything and away > 1:
                return False
        return True

    def is_possible(self, regions: Sequence[Sequence[str]]) -> bool:
        everything = {name for region in regions for name in region}
        for region in regions:
            from_others = []
            for at, name in enumerate(region):
                near = [one for one in self.reads[name] if one in everything and one not in region]
                far = [one for one in self.reads[name] if one not in everything]
                if near and (far or self.graph.layers[self.graph.index[name]].external_c):
                    return False
                from_others += near
                if self.readers(name) & set(region) != set(region[at + 1 : at + 2]):
                    return False
            if len(from_others) > 1:
                return False
        return True

    def is_even(self, regions: Sequence[Sequence[str]]) -> bool:
        work = [sum(self.graph.layers[self.graph.index[one]].operations for one in each) for each in regions]
        ways = product(range(1, self.tiles + 1), repeat=len(work))
        slowest = [
            max(one / tiles for one, tiles in zip(work, way, strict=True))
            for way in ways
            if sum(way) == self.tiles
        ]
        return bool(slowest) and sum(work) / (min(slowest) * self.tiles) >= 1 - self.params.idle

    def region(self, names: Sequence[str], samples: int) -> TreeNode:
        leaves = tuple(Leaf(name, samples) for name in names)
        return leaves[0] if len(leaves) == 1 else Cut("T", samples, 1, leaves)

    def phases(self, run: Sequence[Sequence[str]]) -> Iterator[list[list[Sequence[str]]]]:
        """Pairs of vertices: the first of a pair streams, and the second one buffers."""
        for first_streams in (True, False):
            groups: list[list[Sequence[str]]] = []
            streams = False
            for vertex in run:
                if streams and self.sources(vertex) & set(groups[-1][-1]):
                    groups[-1].append(vertex)
                    streams = False
                else:
                    groups.append([vertex])
                    streams = len(groups) > 1 or first_streams
            yield groups

    def forms(self, run: Sequence[Sequence[str]]) -> Iterator[TreeNode]:
        batch = self.batch
        names = [name for vertex in run for name in vertex]
        if self.is_possible([names]):
            for parts in divisors(batch):
                yield Cut("T", batch, parts, tuple(Leaf(name, batch // parts) for name in names))
        if len(run) == 1 or not self.is_possible(run) or not self.is_even(run):
            return
        for parts in divisors(batch):
            yield Cut("S", batch, parts, tuple(self.region(vertex, batch // parts) for vertex in run))
            samples = batch // parts
            for pieces, groups in product(divisors(samples)[1:], self.phases(run)):
                children = []
                for group in groups:
                    inner = tuple(self.region(vertex, samples // pieces) for vertex in group)
                    pair = Cut("S", samples, pieces, inner)
                    children.append(pair if len(group) > 1 else self.region(group[0], samples))
                if len(children) > 1:
                    yield Cut("S", batch, parts, tuple(children))

    def chains(self, names: list[str]) -> Iterator[list[TreeNode]]:
        if not names:
            yield []
            return
        forms: list[tuple[int, TreeNode]] = [(1, Leaf(names[0], self.batch))]
        forms += [
            (1, Cut("T", self.batch, parts, (Leaf(names[0], self.batch // parts),)))
            for parts in divisors(self.batch)[1:]
        ]
        starts = [vertex[0] for vertex in self.vertices]
        if names[0] in starts:
            first = starts.index(names[0])
            for end in range(first + 1, len(starts) + 1):
                run = self.vertices[first:end]
                count = sum(map(len, run))
                if count > 1 and self.is_run(run):
                    forms += [(count, form) for form in self.forms(run)]
        for count, form in forms:
            for rest in self.chains(names[count:]):
                yield [form, *rest]


@pytest.mark.parametrize(
    ("case", "objective"),
    list(zip((*CASES, CASES[1]), ("edp", "energy", "edp", "cycles", "edp", "edp"), strict=True)),
    ids=lambda one: one if isinstance(one, str) else f"{one[0].name} {one[2]}",
)
def test_the_answer_is_the_best_of_all_chains(
    case: tuple[LayerGraph, tuple[int, int], int, int], objective: str
) -> None:
    problem = problem_of(case, objective)
    found = tangram.solve(problem, Budget(600), LOOSE)
    assert found.solution is not None
    assert violations(problem, found.solution) == []
    evaluator, values = problem.evaluator(), []
    for children in Space(problem, LOOSE).chains(list(problem.graph.producers)):
        try:
            cost = evaluator.evaluate(Cut("T", problem.batch, 1, tuple(children)))
        except NotPossibleError:
            continue
        values.append(problem.objective.value(cost.energy_pj, cost.cycles))
    assert len(values) > 30
    assert found.objective is not None
    assert found.objective == pytest.approx(min(values), rel=1e-12)
    for kept in (1, 3):
        some = tangram.solve(problem, Budget(600), replace(LOOSE, kept=kept))
        assert some.objective is not None
        assert some.objective >= found.objective * (1 - 1e-12)


def bottlenecks() -> ScheduleProblem:
    """Three layers as at the end of ResNet-50's fourth stage, for eight samples on SET's edge platform.

    The second one's maps are large, and the third one's weights are: 2.25 of the chip's 16 MiB.
    """
    wide: dict[str, Any] = {"h": 14, "w": 14}
    strided: dict[str, Any] = {"r": 3, "s": 3, "stride_h": 2, "stride_w": 2, "pad_h": 1, "pad_w": 1}
    graph = LayerGraph(
        "bottlenecks",
        (
            layer("widen", c=256, k=1024, external_c=256, **wide),
            layer("narrow", c=1024, k=512, producers=(0,), **wide),
            layer("halve", c=512, k=512, h=7, w=7, input_h=14, input_w=14, producers=(1,), **strided),
        ),
    )
    on = load_chip("set-edge")
    costs = solved_costs(TileCostDemand(graph, on.tile, on.tiles, 8), TileMapper("nvdla"))
    return ScheduleProblem(graph, ChipModel(on, costs), 8, Objective.named("edp"))


def test_alternate_orders_make_a_pipeline_cheaper_than_any_basic_one() -> None:
    """The first pair streams two samples at a time, and the third layer runs once, with all of its weights.

    A basic pipeline has one number of sub-batches. With few the tiles of the later layers wait; with eight
    the third layer uses its weights for one sample at a time.
    """
    problem = bottlenecks()
    pipelines = Params(temporal=False, idle=1.0)
    found, basic = (
        tangram.solve(problem, Budget(600), replace(pipelines, alternate=alternate))
        for alternate in (True, False)
    )
    assert found.solution is not None
    assert basic.solution is not None
    streamed = Cut("S", 8, 4, (Leaf("widen", 2), Leaf("narrow", 2)))
    assert found.solution.tree == Cut("T", 8, 1, (Cut("S", 8, 1, (streamed, Leaf("halve", 8))),))
    assert found.objective is not None
    assert basic.objective is not None
    assert found.objective < 0.99 * basic.objective
    judge, values = problem.judge(), []
    names = ("widen", "narrow", "halve")
    for parts in divisors(8):
        pipeline = Cut("S", 8, parts, tuple(Leaf(name, 8 // parts) for name in names))
        cost = judge.evaluate(Cut("T", 8, 1, (pipeline,)))
        values.append(cost.energy_pj * cost.cycles)
    assert found.objective < 0.95 * min(values)
    # what is won is there in a replay as well
    evaluation, before = judge.evaluate(found.solution.tree), judge.evaluate(basic.solution.tree)
    assert isinstance(evaluation, ChipEvaluation)
    assert isinstance(before, ChipEvaluation)
    program = write_program(problem.graph, evaluation)
    assert program_violations(program) == []
    run, run_before = replay(program), replay(write_program(problem.graph, before))
    assert run.dram_read_bytes + run.dram_write_bytes == evaluation.dram_bytes
    assert abs(evaluation.cycles / run.cycles - 1) < 0.15
    assert evaluation.energy_pj * run.cycles < before.energy_pj * run_before.cycles


def small_buffers() -> ScheduleProblem:
    """The same three layers, smaller, on tiles whose cost is a formula and whose weights never stream."""
    graph = LayerGraph(
        "maps",
        (
            layer("widen", c=4, k=32, external_c=4),
            layer("narrow", c=32, k=2, producers=(0,)),
            layer("halve", c=2, k=8, producers=(1,)),
        ),
    )
    return ScheduleProblem(graph, ChipModel(chip(3, 1, 1300), FormulaCosts(graph)), 4)


def test_alternate_orders_make_a_segment_fit() -> None:
    """Four samples of the map between the first two layers do not fit the buffers, but one by one they do."""
    problem = small_buffers()
    judge = problem.judge()
    whole = Cut("S", 4, 1, (Leaf("widen", 4), Leaf("narrow", 4), Leaf("halve", 4)))
    streamed = Cut("S", 4, 1, (Cut("S", 4, 4, (Leaf("widen", 1), Leaf("narrow", 1))), Leaf("halve", 4)))
    with pytest.raises(NotPossibleError):
        judge.evaluate(Cut("T", 4, 1, (whole,)))
    judge.evaluate(Cut("T", 4, 1, (streamed,)))


def test_vertices_of_residual_and_inception_blocks() -> None:
    graph = load_layer_graph("set-resnet50")
    vertices = Vertices(graph)
    named = [[graph.layers[number].name for number in vertex] for vertex in vertices.layers]
    assert named[0] == ["conv1", "pool1"]
    # the sum runs with the branch right before it, the other operand comes from another vertex
    assert named[4] == ["conv_2_br", "conv_2_0_res"]
    assert named[1:4] == [["conv_2_0_a"], ["conv_2_0_b"], ["conv_2_0_c"]]
    runs = set(vertices.runs())
    # its source is read by the branch too, so a run from it must hold both or neither of them
    assert (0, 1) in runs
    assert (0, 2) in runs
    # a sum of two operands of one run would wait for both: rule 2
    assert (4, 7) in runs
    assert not any(first <= 4 and end > 7 for first, end in runs)
    inception = load_layer_graph("set-googlenet")
    named = [[inception.layers[at].name for at in vertex] for vertex in Vertices(inception).layers]
    assert ["inception_3b_pool_proj", "pool3"] in named


def test_unequal_regions_are_left_out_and_single_layers_always_stay() -> None:
    graph = LayerGraph("uneven", (layer("small", external_c=4), layer("large", k=16, producers=(0,))))
    problem = problem_of((graph, (2, 1), 4, 1 << 20), "energy")
    # two tiles, and four times the work: 3 of 8 tile-cycles are idle
    texts = []
    for idle in (0.37, 0.38):
        found = tangram.solve(problem, Budget(60), Params(idle=idle, temporal=False))
        assert found.solution is not None
        texts.append(found.solution.text)
    assert "S 4" not in texts[0]
    assert "S 4" in texts[1]


def test_what_ends_it_early_leaves_the_best_chain_so_far() -> None:
    problem = problem_of(CASES[0], "edp")
    whole, cut_short = (tangram.solve(problem, budget) for budget in (Budget(600), Budget(600, 9)))
    assert "not all segments were counted" in cut_short.note
    assert whole.objective is not None
    assert cut_short.objective is not None
    assert cut_short.objective >= whole.objective
    nothing = tangram.solve(problem, Budget(1e-6))
    assert (nothing.status, nothing.solution) == (Status.UNKNOWN, None)


def test_what_fits_in_no_single_round_takes_more() -> None:
    problem = problem_of((chain(3, h=7), (1, 1), 8, 200), "edp")
    found = tangram.solve(problem, Budget())
    assert found.solution is not None
    assert isinstance(found.solution.tree, Cut)
    assert found.solution.tree.subbatches > 1
    assert parse_tree(found.solution.text) == found.solution.tree
    nothing = tangram.solve(problem_of((chain(3, h=7), (1, 1), 8, 40), "edp"), Budget())
    assert "no layer after the other, even sample by sample" in nothing.note


def test_bands_hand_on_rows_of_a_single_sample() -> None:
    graph = chain(2, h=8)
    problem = ScheduleProblem(graph, ChipModel(chip(2, 1, 1 << 20), FormulaCosts(graph)), 1)
    plain, bands = (tangram.solve(problem, Budget(), Params(bands=most)) for most in (1, 4))
    assert plain.objective is not None
    assert bands.objective is not None
    assert bands.solution is not None
    assert bands.objective < plain.objective
    assert violations(problem, bands.solution) == []


@pytest.mark.parametrize("wrong", [{"kept": -1}, {"bands": 0}, {"idle": 1.5}, {"spatial": 1}])
def test_wrong_parameters_are_named(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        Params(**wrong)  # type: ignore[arg-type]


def test_another_model_is_refused() -> None:
    graph = LayerGraph("resnet2", load_graph("resnet").layers[:2])
    problem = ScheduleProblem(graph, ReleasedModel.named("edge"), 4, Objective(1, 1))
    with pytest.raises(InputError, match="the chip model"):
        tangram.solve(problem, Budget())
