"""The frozen problems of solvers that know several layers: schedules, parts of tiles, co-design."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, replace
from itertools import product
from typing import Any

from released_model import ReleasedModel

from costmodel.formats.chips import load_chip
from costmodel.formats.json.layer_graph_json import load_graph
from costmodel.formats.tiles import load_tile
from costmodel.published.set_isca2023.hardware import load_platform
from costmodel.published.set_isca2023.nvdla_tile_costs import NvdlaTileCosts, chip_of
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.layer_graph.training import training_graph
from costmodel.workload.network import batched_matmul, convolution, gemm
from solvers.budget import Budget
from solvers.catalogue import Entry
from solvers.codesign.family import ArchitectureFamily
from solvers.codesign.problem import CodesignProblem
from solvers.mapping.problem import OBJECTIVES
from solvers.outcome import Outcome
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem
from solvers.schedule.tiles.cost_table import solved_costs
from solvers.schedule.tiles.layer_parts import Pruning, TileCostDemand, TilePart
from solvers.schedule.tiles.mapper import TileMapper, TileProblem
from tests.costmodel.schedule.chip_cases import FormulaCosts, chain, chip, every_kind, layer, strided
from tests.solvers.golden.problems import ENOUGH, Answer, Case, digest, nine_digits, numbers, plain

RELEASED = (("resnet", 4, 2), ("goog", 5, 4), ("zfnet", 3, 2))
MORE_RELEASED = (("alexnet", 4, 3), ("bert", 5, 1), ("lstm", 4, 4), ("ires", 4, 2), ("gpt_decode", 3, 6))
ON_TILES = (("resnet", 4, 2), ("goog", 5, 4), ("zfnet", 3, 2), ("trans_cell", 5, 1), ("pnas", 4, 2))
NAMES = ("energy", "cycles", "edp", "e2d", "ed2")
KAPLA_PARAMS: tuple[dict[str, Any], ...] = (
    {"chains": 1, "rounds": 1},
    {"chains": 0, "pareto": 0.0},
    {"most_layers": 2},
    {"spatial": False},
    {"temporal": False},
    {"grouped": False, "all_passes": True},
    {"prune": False},
    {"probability": 0.5},
)
TANGRAM_PARAMS: tuple[dict[str, Any], ...] = (
    {"kept": 1},
    {"kept": 3},
    {"spatial": False},
    {"temporal": False, "idle": 1.0},
    {"alternate": False},
)


def first_layers(name: str, count: int) -> LayerGraph:
    """The beginning of a network of the paper."""
    return LayerGraph(f"{name}{count}", load_graph(name).layers[:count])


def released(name: str, count: int, batch: int, objective: Objective) -> ScheduleProblem:
    """As the released program counts it."""
    return ScheduleProblem(first_layers(name, count), ReleasedModel.named("edge"), batch, objective)


def on_a_chip(name: str, count: int, batch: int, objective: Objective) -> ScheduleProblem:
    """On four tiles of SET's edge platform."""
    edge = load_platform("edge")
    few = replace(chip_of(edge, "small"), columns=2, rows=2, stripe=2)
    graph = first_layers(name, count)
    return ScheduleProblem(graph, ChipModel(few, NvdlaTileCosts(graph, edge.tile)), batch, objective)


def by_formula(graph: LayerGraph, columns: int, rows: int, batch: int, buffer: int) -> ScheduleProblem:
    """On tiles whose costs are written down as a formula."""
    small = chip(columns, rows, buffer)
    return ScheduleProblem(graph, ChipModel(small, FormulaCosts(graph)), batch)


def with_whole_chip_layers(graph: LayerGraph, batch: int) -> ScheduleProblem:
    """On tiles with an architecture, by a mapping solver; layers may run mapped on the whole chip, some must.

    The nodes take nothing when idle, as they did not when these answers were frozen.
    """
    overrides = {"mesh": [2, 2], "stripe": 2, "tile.leakage": 0}
    of_nodes = load_chip("kapla-16x16-released", overrides)
    demand = TileCostDemand(graph, of_nodes.tile, of_nodes.tiles, batch, Pruning(most=2))
    mapper = TileMapper("random_search", budget=Budget(ENOUGH, 40))
    return ScheduleProblem(graph, ChipModel(of_nodes, solved_costs(demand, mapper, of_nodes)), batch)


def two_products() -> LayerGraph:
    """The second has more weights (256 Ki) than the buffers of four nodes (64 Ki)."""
    first = layer("first", c=16, k=512, external_c=16)
    return LayerGraph("products", (first, layer("second", c=512, k=512, producers=(0,))))


def exhaustive_cases() -> Iterator[Case]:
    """Networks and chips of which all trees are costed in a second."""
    for (network, _, batch), name in product(ON_TILES, NAMES[:4]):
        problem = on_a_chip(network, 3, batch, Objective.named(name))
        yield Case(f"{network} on tiles, 3 layers, batch {batch}, {name}", problem, Budget(ENOUGH), {}, tree)
    few = LayerGraph("first of every kind", every_kind().layers[:4])
    for graph, (columns, rows, batch, buffer) in product(
        (few, chain(4, h=7)), ((2, 2, 1, 1 << 20), (2, 1, 2, 260), (3, 1, 1, 200))
    ):
        problem = by_formula(graph, columns, rows, batch, buffer)
        name = f"{graph.name} of {len(graph.layers)}, {columns} x {rows} tiles of {buffer} bytes"
        yield Case(name, problem, Budget(ENOUGH), {}, tree)
    problem = on_a_chip("resnet", 4, 2, Objective())
    yield Case("resnet, stopped after 60 segments", problem, Budget(ENOUGH, 60), {}, tree)


def schedule_cases(entry: Entry) -> Iterator[Case]:
    """The first layers of networks, released and on chips; solvers of chains cost no released trees."""
    if entry.name == "exhaustive_schedule":
        yield from exhaustive_cases()
        return
    kapla, auto = entry.name == "kapla_schedule", entry.name == "auto_schedule"
    on_chips = kapla or auto or entry.name in ("segment_chain", "tangram")
    own = {"beta": 5, "annealings": 1} if auto else {}
    budget = Budget(ENOUGH, None if on_chips else 60, seed=1)
    for (network, count, batch), name in [] if on_chips else product(RELEASED, NAMES[:4]):
        problem = released(network, count, batch, Objective.named(name))
        yield Case(f"{network}, {count} layers, batch {batch}, {name}", problem, budget, {}, tree)
    for number, (network, count, batch) in enumerate(() if on_chips else MORE_RELEASED):
        problem = released(network, count, batch, Objective.named(NAMES[number]))
        yield Case(f"{network}, {count} layers, batch {batch}, {NAMES[number]}", problem, budget, {}, tree)
    for (network, count, batch), name in product(ON_TILES, NAMES[:4] if on_chips else NAMES[2:4]):
        problem = on_a_chip(network, count, batch, Objective.named(name))
        yield Case(f"{network} on tiles, {count} layers, batch {batch}, {name}", problem, budget, own, tree)
    graphs = (every_kind(), chain(5, h=3, w=5), chain(4, h=7), strided())
    for graph, (columns, rows, batch, buffer) in product(graphs, ((3, 2, 4, 1 << 20), (2, 1, 6, 260))):
        problem = by_formula(graph, columns, rows, batch, buffer)
        name = f"{graph.name} of {len(graph.layers)}, {columns} x {rows} tiles of {buffer} bytes"
        yield Case(name, problem, budget, own, tree)
        if not on_chips:  # long enough for every operator and for a falling temperature to matter
            yield Case(f"{name}, 600 rounds", problem, Budget(ENOUGH, 600, seed=2), {}, tree)
    for graph in (training_graph(chain(2)), two_products()):
        yield Case(
            f"{graph.name} of {len(graph.layers)} layers, some alone",
            with_whole_chip_layers(graph, 2),
            budget,
            own,
            tree,
        )
    for params in {"kapla_schedule": KAPLA_PARAMS, "tangram": TANGRAM_PARAMS}.get(entry.name, ()):
        said = ", ".join(f"{key} {value}" for key, value in params.items())
        yield Case(f"goog, {said}", on_a_chip("goog", 5, 4, Objective()), budget, params, tree)


def tree(outcome: Outcome[Any]) -> Answer:
    """All of the answer, the tree as the hash of its text, and how the search went there."""
    solution = outcome.solution
    if solution is None:
        return {**numbers(outcome), "tree": None}
    phases = [
        [phase.name, phase.rounds, phase.best, phase.trajectory, [astuple(one) for one in phase.operators]]
        for phase in solution.phases
    ]
    return {**numbers(outcome), "tree": digest(solution.text), "phases": digest(phases)}


def codesign_cases(entry: Entry) -> Iterator[Case]:
    """A layer or two in some areas for every objective, and settings of the solver."""
    one, other = gemm("product", M=16, N=12, K=32), convolution("wide", K=8, C=4, P=8, Q=8, R=3, S=3)
    params = {"split_windows": False, "judged": 2, "condensed": 2, "mapping_solver": "exact"}
    family, budget = ArchitectureFamily("eyeriss"), Budget(ENOUGH, 2)
    for area, layers, objective in product((40_000.0, 60_000.0), ([one], [one, other]), OBJECTIVES):
        problem = CodesignProblem.of(family, layers, area)
        name = f"{len(layers)} layers, {area:g} um2, {objective}"
        yield Case(name, replace(problem, objective=objective), budget, params, nine_digits)
    shapes = (
        gemm("vector", M=1, N=24, K=16),
        gemm("primes", M=7, N=13, K=11),
        batched_matmul("batched", B=4, M=6, N=5, K=8),
    )
    for (number, shape), area in product(enumerate(shapes), (20_000.0, 35_000.0, 90_000.0)):
        problem = CodesignProblem.of(family, [shape], area)
        objective = OBJECTIVES[(number + int(area / 5000)) % 3]
        name = f"{shape.name}, {area:g} um2, {objective}"
        yield Case(name, replace(problem, objective=objective), budget, params, nine_digits)
    for setting in ({"rule": "dominant"}, {"powers_of_two": False}, {"neighbours": 1}, {"rounds": 1}):
        said = ", ".join(f"{key} {value}" for key, value in setting.items())
        problem = CodesignProblem.of(family, [one], 40_000.0)
        yield Case(f"product, {said}", problem, budget, params | setting, nine_digits)


def tile_cases(entry: Entry) -> Iterator[Case]:
    """The distinct tile parts of some networks' layers."""
    tile = load_tile("nvdla")
    divisions = ((1, 1, 1, 1), (2, 1, 2, 1), (4, 2, 1, 1))
    for network in ("resnet", "goog", "zfnet", "lstm"):
        graph = first_layers(network, 8)
        weighty = [it for it in graph.layers if it.has_weights][:3]
        for number, (it, parts) in enumerate(product(weighty, divisions)):
            objective = OBJECTIVES[(number + number // 3) % 3]
            problem = TileProblem(tile, TilePart.of(it, parts, 2), objective)
            name = f"{it.name} of {network} in {parts}, {objective}"
            yield Case(name, problem, Budget(ENOUGH), {}, tile_part_cost)


def tile_part_cost(outcome: Outcome[Any]) -> Answer:
    """All of the answer; of the mapping a digest."""
    mapping = outcome.solution
    return {**numbers(outcome), "mapping": None if mapping is None else digest(plain(mapping))}
