"""Small solves, after which a solver's libraries are imported and its machine code is compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from costmodel.formats.architectures import load_architecture
from costmodel.formats.chips import load_chip
from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.formats.networks import load_layer, load_network
from costmodel.formats.tiles import load_tile
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.scratchpad.graph import operator_graph
from costmodel.workload.network import gemm
from solvers.budget import Budget
from solvers.catalogue import Entry, solver, solver_names
from solvers.mapping.problem import MappingProblem
from sweep.study.study import Study

LIMIT = Budget(wall_seconds=60.0, iterations=50)
"""The budget of one small solve: a minute, because the first one compiles."""
PROGRAMS = Budget(wall_seconds=60.0, iterations=2)
"""The same for co-design, whose iterations are geometric programs: two are enough."""


def solvers_of(study: Study) -> tuple[str, ...]:
    """The solvers that the workers of a study run: its own and, of chips, the one that maps layers."""
    return tuple(dict.fromkeys((study.mapping.solver, *study.solvers)))


def with_members(names: Sequence[str]) -> tuple[str, ...]:
    """The solvers ``names``, and those that a portfolio among them asks in turn.

    A small problem is solved before a portfolio has asked them all, so each has to be warmed up on its own.
    """
    every = ((name, *getattr(solver(name).load(), "MEMBERS", ())) for name in names)
    return tuple(dict.fromkeys(member for some in every for member in some))


def warm_up(names: Sequence[str]) -> None:
    """Import the modules of the solvers ``names``, and let each solve small problems of its family.

    The first solve may spend all its time on compiling, so each is done twice. Raises InputError for an
    unknown name, and for a solver whose optional library is not installed.
    """
    for entry in [solver(name) for name in with_members(names)]:
        solve_small = SMALL[entry.family]
        solve_small(entry)
        solve_small(entry)


def every_solver() -> tuple[str, ...]:
    """The names of all solvers by family, in the order of SMALL: each family after those that it calls."""
    return tuple(name for family in SMALL for name in solver_names(family))


def _map(entry: Entry) -> None:
    eyeriss = load_architecture("eyeriss")
    # every solver is soon done with the product; the convolution's larger space needs more functions
    layers = (gemm("product", M=4, N=6, K=4), load_layer("alexnet/conv3"))
    for layer in layers[: 1 if entry.name == "exhaustive" else 2]:
        entry.load().solve(MappingProblem(eyeriss, layer, "edp"), LIMIT)


def _map_tile(entry: Entry) -> None:
    from solvers.schedule.tiles.layer_parts import TilePart
    from solvers.schedule.tiles.mapper import TileMapper

    part = TilePart.of(_chain().layers[0], (2, 1, 2, 1), 2)
    TileMapper(entry.name, "edp").cost(load_tile("nvdla"), part)


def _schedule(entry: Entry) -> None:
    from solvers.schedule.chip_model import ChipModel
    from solvers.schedule.objective import Objective
    from solvers.schedule.problem import ScheduleProblem
    from solvers.schedule.tiles.cost_table import solved_costs
    from solvers.schedule.tiles.layer_parts import Pruning, TileCostDemand
    from solvers.schedule.tiles.mapper import TileMapper

    chip = replace(load_chip("set-edge"), columns=2, rows=2, stripe=2)
    # so few partitions that they are ranked
    demand = TileCostDemand(_chain(), chip.tile, 4, 2, Pruning(most=2))
    model = ChipModel(chip, solved_costs(demand, TileMapper("nvdla")))
    entry.load().solve(ScheduleProblem(demand.graph, model, 2, Objective.named("edp")), LIMIT)


def _plan(entry: Entry) -> None:
    from solvers.scratchpad import packing
    from solvers.scratchpad.problem import ScratchpadProblem

    graph = operator_graph(load_network("alexnet"))
    entry.load().solve(ScratchpadProblem(graph, graph.required_bytes), LIMIT)
    # In so small a graph greedy packing succeeds, and the packing search would not run: run it by itself.
    buffers = tuple(packing.Buffer(name, *times, 1) for name, times in (("a", (0, 2)), ("b", (1, 3))))
    packing.solve(packing.PackingProblem(buffers, 2), LIMIT, packing.Params(greedy=False))


def _fuse(entry: Entry) -> None:
    from costmodel.mapping.fused.problem import Einsum, FusedLevel, FusedProblem
    from solvers.fusion.problem import FusionProblem

    axes = {name: (((first, 1),), ((second, 1),)) for name, first, second in ("Amk", "Bkn", "Cmn")}
    product = Einsum("product", {"m": 4, "n": 2, "k": 2}, axes, "C")
    levels = tuple(FusedLevel(str(size), size, 1.0, 1.0) for size in (4, 16, None))
    entry.load().solve(FusionProblem(FusedProblem((product,), levels, 1.0), "edp"), LIMIT)


def _fuse_layers(entry: Entry) -> None:
    from costmodel.mapping.fused.layers.group import Intermediate, IntermediateRead, LayerGroup
    from solvers.fusion.layers.problem import LayerFusionProblem

    layers = (gemm("first", M=2, N=2, K=2), gemm("second", M=2, N=2, K=2))
    passed = Intermediate(0, (IntermediateRead(1, "A", (("M", "M"), ("N", "K"))),))
    group = LayerGroup(load_architecture("eyeriss"), layers, (passed,))
    entry.load().solve(LayerFusionProblem(group, "edp"), LIMIT)


def _design(entry: Entry) -> None:
    from solvers.codesign.family import ArchitectureFamily
    from solvers.codesign.problem import CodesignProblem

    module = entry.load()
    problem = CodesignProblem.of(ArchitectureFamily("eyeriss"), [gemm("product", M=16, N=12, K=32)], 40_000.0)
    module.solve(problem, PROGRAMS, module.Params(judged=2, condensed=2))


def _chain() -> LayerGraph:
    """The first layers of a network, one after the other."""
    return LayerGraph("beginning", load_layer_graph("alexnet").layers[:3])


SMALL: dict[str, Callable[[Entry], Any]] = {
    "mapping": _map,
    "tile": _map_tile,
    "schedule": _schedule,
    "scratchpad": _plan,
    "fusion": _fuse,
    "layer_fusion": _fuse_layers,
    "codesign": _design,
}
"""The function that solves small problems, by family; families that others call come first."""
