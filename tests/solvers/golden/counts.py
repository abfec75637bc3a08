"""What the cost model counts for decisions drawn at random: frozen with ``MODEL_VERSION``.

The decisions are drawn by Python's generator in the helpers of the tests, not by a solver, so that only
another count can change what is frozen. They are frozen beside their counts: where a decision is another
one, the drawing has changed and not the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import astuple, replace
from itertools import islice
from random import Random

from costmodel.formats.json.layer_graph_json import load_graph
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.batch.batch import BatchEvaluator, MappingBatch
from costmodel.mapping.bounds.bounds import lower_bounds
from costmodel.mapping.bounds.sharing import allocations
from costmodel.mapping.evaluate import Evaluation, evaluate
from costmodel.mapping.mapping import Mapping
from costmodel.mapping.uneven import UnevenMapping, split
from costmodel.mapping.uneven import violations as mapping_violations
from costmodel.published.set_isca2023.evaluator import TreeEvaluator
from costmodel.published.set_isca2023.hardware import load_platform
from costmodel.published.set_isca2023.tile_tables import TileTables
from costmodel.schedule.bounds.bounds import lower_bounds as chip_bounds
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.segment.node_cost import NodeCost
from costmodel.schedule.tree.text import format_tree
from costmodel.schedule.tree.tree import TreeNode
from costmodel.schedule.tree.validity import NotPossibleError
from costmodel.scratchpad.graph import OperatorGraph, ScratchpadSettings
from costmodel.scratchpad.plan import IDLE, Plan, Residency, TensorPlan, off_chip_bytes, violations
from costmodel.workload.network import Layer
from tests.costmodel.schedule import chip_cases
from tests.solvers.golden.problems import (
    LAYERS,
    TINY,
    Answer,
    architectures,
    digest,
    plain,
    tiny_architectures,
)
from tests.solvers.golden.scratchpad_cases import SETTINGS
from tests.solvers.golden.scratchpad_cases import plain as plain_plan
from tests.solvers.scratchpad.random_graphs import forked_graph, random_graph

DRAWS = 400
"""Mappings that are drawn of a layer for those few that fit."""


def counted() -> dict[str, Answer]:
    """What the cost model counts now, by what it is and of what."""
    return {
        **of_mappings(),
        **of_uneven_mappings(),
        **of_layers(),
        **of_schedules(),
        **of_released_schedules(),
        **of_plans(),
    }


def drawn(machine: Architecture, layer: Layer, most: int) -> Iterator[Mapping]:
    """At most so many mappings with any bypass."""
    random = Random(f"{layer.name} on {machine.name}")
    tries = (chip_cases.random_mapping(random, machine, layer) for _ in range(DRAWS))
    return islice((mapping for mapping in tries if mapping is not None), most)


def of_mappings() -> dict[str, Answer]:
    """Every layer on three architectures; the batch kernel counts them, too."""
    found: dict[str, Answer] = {}
    machines = architectures()
    for number, layer in enumerate(LAYERS):
        for machine in (machines[(number + turn) % len(machines)] for turn in (0, 2, 4)):
            for draw, mapping in enumerate(drawn(machine, layer, 2)):
                batch = MappingBatch.of([mapping], machine, layer)
                alike = BatchEvaluator(machine, layer).evaluate(batch)
                found[f"mapping {draw} of {layer.name} on {machine.name}"] = {
                    **evaluated(mapping, evaluate(machine, layer, mapping)),
                    "batch": [float(alike.energy_pj[0]), int(alike.cycles[0])],
                }
    return found


def of_uneven_mappings() -> dict[str, Answer]:
    """Levels of up to three parts, and tensors kept in a part of each level at random."""
    found: dict[str, Answer] = {}
    for layer in (*TINY, *LAYERS[:4]):
        for machine in (*tiny_architectures(), *architectures()[2:4]):
            places = tuple(
                level for level in range(len(machine.levels)) for _ in range(3 if level == 0 else 2)
            )[:-1]
            random = Random(f"uneven {layer.name} on {machine.name}")
            for nest in drawn(split(machine, places), layer, 40):
                mapping = UnevenMapping(kept_once(nest, layer, places, random), places)
                if not mapping_violations(machine, layer, mapping):
                    evaluation = evaluate(machine, layer, mapping)
                    found[f"uneven {layer.name} on {machine.name}"] = evaluated(mapping, evaluation)
                    break
    return found


def kept_once(nest: Mapping, layer: Layer, places: tuple[int, ...], random: Random) -> Mapping:
    """The nest with every tensor kept in one part of every level."""
    kept: list[set[str]] = [set() for _ in places]
    for tensor in layer.tensors:
        for level in sorted(set(places)):
            parts = [part for part, its_level in enumerate(places) if its_level == level]
            kept[random.choice(parts)].add(tensor.name)
    placed = zip(nest.levels, kept, strict=True)
    return Mapping(tuple(replace(part, keep=frozenset(names)) for part, names in placed))


def evaluated(mapping: Mapping | UnevenMapping, evaluation: Evaluation) -> Answer:
    """Energy and cycles, and a digest of every count."""
    levels = [
        [
            [level.cycles, level.leakage_pj, level.energy_pj],
            [[name, *astuple(counts)] for name, counts in sorted(level.tensors.items())],
        ]
        for level in evaluation.levels
    ]
    totals = [evaluation.compute_cycles, evaluation.macs, evaluation.mac_energy_pj, evaluation.utilization]
    return {
        "mapping": digest(plain(mapping)),
        "energy_pj": evaluation.energy_pj,
        "cycles": evaluation.cycles,
        "all": digest([totals, levels]),
    }


def of_layers() -> dict[str, Answer]:
    """Lower bounds, and how the fan-outs can share words, padded and not."""
    found: dict[str, Answer] = {}
    for layer in LAYERS:
        for machine in architectures():
            bounds = lower_bounds(machine, layer)
            ways = [allocations(machine, layer, any_factor=any_factor) for any_factor in (False, True)]
            found[f"bounds of {layer.name} on {machine.name}"] = {
                "bounds": [bounds.energy_pj, bounds.cycles, bounds.edp_pj_cycles],
                "sharing": digest([sorted(way.reshape(len(way), -1).tolist()) for way in ways]),
            }
    return found


def of_schedules() -> dict[str, Answer]:
    """Random trees on small chips, their layers by a formula, or on the whole chip by random mappings."""
    found: dict[str, Answer] = {}
    chips = (
        chip_cases.chip(3, 2),
        chip_cases.chip(2, 2, 300, stream=4, link=2),
        chip_cases.chip(4, 1, 1 << 12, dram=1),
        chip_cases.chip(3, 1, 220, stream=60),
    )
    graphs = (
        chip_cases.every_kind(),
        chip_cases.read_in_part(),
        chip_cases.cut_off(),
        chip_cases.chain(5),
        chip_cases.strided(),
    )
    for graph in graphs:
        for on in chips:
            costs = chip_cases.FormulaCosts(graph)
            bounds = chip_bounds(graph, on, 4, costs)
            name = f"{graph.name} on {on.columns} x {on.rows} tiles"
            found[f"bounds of {name}"] = {"bounds": [bounds.energy_pj, bounds.cycles]}
            evaluator = ChipEvaluator(graph, on, 4, costs)
            found |= trees_of(name, graph, evaluator, chip_cases.random_tree)
        whole = chip_cases.mapped_chip(2, 2, 1 << 10)
        mapped = chip_cases.MappedCosts(graph, whole, Random(graph.name))
        name = f"{graph.name}, some alone"
        found |= trees_of(name, graph, ChipEvaluator(graph, whole, 4, mapped), chip_cases.random_segments)
    return found


def trees_of(
    name: str,
    graph: LayerGraph,
    evaluator: ChipEvaluator,
    draw: Callable[[Random, LayerGraph, int], TreeNode],
) -> dict[str, Answer]:
    """Three random trees for four samples that the chip can run."""
    random = Random(name)
    found: dict[str, Answer] = {}
    for _ in range(60):
        tree = draw(random, graph, 4)
        try:
            evaluation = evaluator.evaluate(tree)
        except NotPossibleError:
            continue
        found[f"tree {len(found)} of {name}"] = schedule(tree, evaluation)
        if len(found) == 3:
            break
    return found


def schedule(tree: TreeNode, evaluation: ChipEvaluation) -> Answer:
    """Energy and cycles, and a digest of every count of every node."""
    return {
        "tree": digest(format_tree(tree)),
        "energy_pj": evaluation.energy_pj,
        "cycles": evaluation.cycles,
        "all": digest(
            [
                list(evaluation.parts_pj.values()),
                [evaluation.dram_read_bytes, evaluation.dram_write_bytes, evaluation.noc_hop_bytes],
                evaluation.bubble_tile_cycles,
                [node(cost) for cost in evaluation.nodes()],
            ]
        ),
    }


def node(cost: NodeCost) -> object:
    links = (cost.links // 8).tolist()  # in bytes, of elements that are bytes
    return [cost.cycles, list(cost.parts_pj), cost.tiles, cost.first_tile, cost.busy, links]


def of_released_schedules() -> dict[str, Answer]:
    """Random trees of the beginnings of networks as the released program counts them."""
    found: dict[str, Answer] = {}
    platform = load_platform("edge")
    for network, count in (("resnet", 5), ("goog", 6), ("bert", 5), ("lstm", 6)):
        graph = LayerGraph(network, load_graph(network).layers[:count])
        evaluator = TreeEvaluator(TileTables(graph, platform, 2, 1))
        random = Random(network)
        for _ in range(40):
            tree = chip_cases.random_tree(random, graph, 2)
            try:
                cost = evaluator.evaluate(tree)
            except NotPossibleError:
                continue
            found[f"released tree of {network}"] = {
                "tree": digest(format_tree(tree)),
                "energy_pj": cost.energy_pj,
                "cycles": cost.cycles,
            }
            break
    return found


def of_plans() -> dict[str, Answer]:
    """Plans that keep every tensor as long as it is needed, and the same broken at random.

    What is frozen of the reasons against a plan is how many there are: their words are for readers.
    """
    found: dict[str, Answer] = {}
    for which, settings in enumerate((ScratchpadSettings(), *SETTINGS)):
        for seed in range(6):
            graph = random_graph(seed, 7, settings) if seed % 2 else forked_graph(seed, settings)
            random = Random(seed)
            for number in range(3):
                plan = resident(graph)
                for _ in range(number):
                    plan = broken(plan, random)
                name = f"plan {number} of {graph.name}, setting {which}"
                found[name] = {
                    "plan": digest(plain_plan(plan)),
                    "bytes": off_chip_bytes(graph, plan),
                    "reasons": [
                        len(violations(graph, plan, size))
                        for size in (graph.total_bytes, graph.required_bytes)
                    ],
                }
    return found


def resident(graph: OperatorGraph) -> Plan:
    """The default order; blocks one behind another, each for as long as its tensor is needed."""
    last, address, tensors = len(graph.operators), 0, []
    for index, tensor in enumerate(graph.tensors):
        uses = [
            step
            for step, operator in enumerate(graph.operators)
            if index in (*operator.inputs, *operator.outputs)
        ]
        first = 0 if tensor.given else uses[0]
        end = uses[-1] + 1 if any(index in operator.inputs for operator in graph.operators) else last
        tensors.append(TensorPlan(tensor.name, (Residency(first, end, address),)))
        address += tensor.block_bytes
    parameters = [(one.name, address) for one in graph.operators if one.parameter_bytes]
    return Plan(tuple(one.name for one in graph.operators), tuple(tensors), tuple(parameters))


def broken(plan: Plan, random: Random) -> Plan:
    """The plan with one tensor spilled for a step, cut in two, moved, early or late, or with an idle step."""
    chosen = random.randrange(len(plan.tensors))
    tensor = plan.tensors[chosen]
    stay = tensor.residencies[-1]
    middle = (stay.start + stay.end) // 2
    changes = (
        replace(tensor, residencies=(*tensor.residencies[:-1], replace(stay, address=stay.address + 1))),
        replace(tensor, residencies=(*tensor.residencies[:-1], replace(stay, end=stay.end + 1))),
        replace(tensor, residencies=(*tensor.residencies[:-1], replace(stay, start=stay.start + 1))),
        replace(
            tensor,
            residencies=(
                *tensor.residencies[:-1],
                replace(stay, end=middle),
                Residency(middle + 1, stay.end, stay.address),
            ),
            spilled=middle,
            retrieved=(*tensor.retrieved, middle + 1),
        ),
        replace(
            tensor,
            residencies=(
                *tensor.residencies[:-1],
                replace(stay, end=middle),
                Residency(middle, stay.end, stay.address),
            ),
        ),
    )
    if random.random() < 0.1:
        return replace(plan, order=(*plan.order, IDLE))
    tensors = (*plan.tensors[:chosen], random.choice(changes), *plan.tensors[chosen + 1 :])
    return replace(plan, tensors=tensors)
