"""What a worker does with a schedule task: solve it as far as the costs go that it is told."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from collections.abc import Mapping as ReadOnlyDict
from math import prod
from typing import Any

from costmodel.hardware.chip import Chip
from costmodel.hardware.widths import whole_bytes
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.fused_groups.cost import FusedGroupCost
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.layer_graph.layer import REDUCED_DIM
from costmodel.schedule.segment.node_cost import ENERGY_PARTS, NodeCost
from costmodel.schedule.tree.spatial_temporal import ChartBox
from costmodel.schedule.tree.tree import Leaf
from results.store.schema.rows import ChartLeaf, LeafRow, ScheduleColumns
from solvers.budget import Budget, Stopwatch
from solvers.catalogue import solver
from solvers.outcome import Outcome
from solvers.schedule.chip_model import ChipModel, LastEvaluator, with_bands, with_reductions
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution, phases_as_json
from solvers.schedule.repeated.solver import solve_repeated
from solvers.schedule.set.epochs import EpochOf, solve_epoch
from solvers.schedule.set.search import AnnealingPlan, SearchState
from solvers.schedule.tiles.cost_table import TabledTileCosts, TileCostsNeeded
from solvers.schedule.tiles.layer_parts import Pruning
from sweep.study.identity import checked_params
from sweep.tasks.chips.scheduling_costs import SchedulingCosts
from sweep.tasks.columns import CostRequests, proof_columns
from sweep.tasks.mapping import check_versions

CUT_DIMS = ("K", "N", "P", "Q")
"""The dims that a partition cuts, in its order."""


def run_schedule_task(content: ReadOnlyDict[str, Any]) -> ScheduleColumns | CostRequests:
    """Answer a task from its :meth:`ScheduleTask.payload`; runs on a worker, returns plain data.

    Where the solver needs costs that the payload lacks, the answer is its requests, ``needs``, and the
    seconds spent so far: the driver has the costs solved and sends the task again. A task of an epoch has
    all costs from the start, and its answer also has the ``state`` of its search for the next epoch.
    Raises VersionMismatchError, and whatever the solver raises: the runtime makes that a failed completion.
    """
    check_versions(content)
    watch, budget = Stopwatch(), Budget(**content["budget"])
    problem = problem_of(content, _LAST_TABLE.table(content), _LAST_TABLE.searching)
    params = checked_params(content["solver"], content["params"])
    module = solver(content["solver"]).load()
    if content["epoch"] is None:
        try:
            if content["repeat_blocks"]:
                return answer_columns(problem, solve_repeated(problem, budget, params, module.solve))
            return answer_columns(problem, module.solve(problem, budget, params))
        except TileCostsNeeded as needed:
            return cost_requests(needed, watch)
    states = [SearchState.from_json(state) for state in content["states"]]
    plan = annealing_plan(content, len(problem.graph.layers))
    outcome, state = solve_epoch(problem, budget, plan, EpochOf(**content["epoch"]), states)
    return {**answer_columns(problem, outcome), "state": None if state is None else state.to_json()}


def annealing_plan(content: ReadOnlyDict[str, Any], layers: int) -> AnnealingPlan:
    """The annealings that a payload asks for, whose solver has some, for a network of ``layers`` layers."""
    params = checked_params(content["solver"], content["params"])
    spaces = solver(content["solver"]).load().spaces_of(params)
    return AnnealingPlan(spaces, params, params.rounds(layers), params.deepest)


def cost_requests(needed: TileCostsNeeded, watch: Stopwatch) -> CostRequests:
    """What a worker sends back where costs are missing: which, and the seconds spent so far."""
    needs = [request.numbers for request in needed.requests]
    return {"needs": needs, "cpu_seconds": watch.cpu_seconds, "wall_seconds": watch.wall_seconds}


def problem_of(
    content: ReadOnlyDict[str, Any],
    costs: TabledTileCosts | None = None,
    searching: LastEvaluator | None = None,
) -> ScheduleProblem:
    """The problem in a payload; ``costs``: the table of its costs, None for a new one.

    ``searching``: what earlier searches with this table remember; None: nothing.
    """
    chip, costs = Chip.from_json(content["chip"]), costs or _table(content)
    params = content.get("params") or {}
    objective = Objective.named(content["objective"])
    groups = SchedulingCosts.from_json(content).group_costs(costs.graph, chip, objective)
    model = ChipModel(chip, costs, with_bands(params), with_reductions(params), groups, searching)
    return ScheduleProblem(costs.graph, model, content["batch"], objective)


def _table(content: ReadOnlyDict[str, Any]) -> TabledTileCosts:
    """The costs in a payload, as a table that solves none that it lacks."""
    graph, chip = _graph(content["layers"]), Chip.from_json(content["chip"])
    return SchedulingCosts.from_json(content).table(graph, chip, Pruning(**content["pruning"]))


class _LastTable:
    """The table of the last schedule task of this process, for the next one that has the same costs or more.

    Rows of a table are made when they are first asked for, and a bound asks for all of them: 7,000 for
    GoogLeNet on 16 tiles, which takes longer than a short annealing. Seeds of one study and rivals that
    answer the same question have equal costs, and mostly follow each other on a worker. A solver that lacked
    costs starts over with those that it had, and more; it would count all segments again. A row and a segment
    depend on nothing but their costs, so answers do not depend on what was solved before.

    ``searching``: what searches with this table remember.
    """

    SAME = ("layers", "chip", "pruning")
    """The keys of a payload that are the same for as long as a table is kept."""

    def __init__(self) -> None:
        self._content: ReadOnlyDict[str, Any] = {}
        self._made: TabledTileCosts | None = None
        self.searching = LastEvaluator()

    def table(self, content: ReadOnlyDict[str, Any]) -> TabledTileCosts:
        """The table of a payload's costs: the last one, taught what is new, if the payload has all of its."""
        own = {key: content[key] for key in (*self.SAME, "tile_costs", "whole_chip_costs")}
        if self._made is None or not self._goes_on(own):
            self._made, self.searching = _table(content), LastEvaluator()
        elif own != self._content:
            SchedulingCosts.from_json(content).teach(self._made)
        self._content = own
        return self._made

    def _goes_on(self, own: ReadOnlyDict[str, Any]) -> bool:
        """Whether a payload has the costs of the last one, and perhaps more."""
        last, mapped = self._content, own["whole_chip_costs"]
        if any(own[key] != last[key] for key in self.SAME):
            return False
        if (mapped is None) != (last["whole_chip_costs"] is None):
            return False
        if not set(map(tuple, last["tile_costs"])) <= set(map(tuple, own["tile_costs"])):
            return False
        by_nest = {(layer, batch): cost for layer, batch, cost in mapped or ()}
        nothing = object()
        return all(
            by_nest.get((layer, batch), nothing) == cost
            for layer, batch, cost in last["whole_chip_costs"] or ()
        )


_LAST_TABLE = _LastTable()


def _graph(layers: Iterable[ReadOnlyDict[str, Any]]) -> LayerGraph:
    return LayerGraph("", tuple(map(NetworkLayer.from_json, layers)))


def answer_columns(problem: ScheduleProblem, outcome: Outcome[ScheduleSolution]) -> ScheduleColumns:
    """The columns of a ``schedules`` row that the solve decides (see ``results/store/schema/tables.py``)."""
    columns: ScheduleColumns = {
        **proof_columns(outcome),
        **_bounds(problem),
    }
    return columns if outcome.solution is None else columns | _measured(problem, outcome.solution)


def _bounds(problem: ScheduleProblem) -> ScheduleColumns:
    """Proven bounds on energy and cycles of all schedules of the problem, whatever was minimised."""
    assert isinstance(problem.model, ChipModel)
    # "no time left": the bounds use the costs that the solve tabulated for its own bound, and no more
    bounds = problem.model.bounds(problem.graph, problem.batch, lambda: False)
    return {} if bounds is None else {"energy_bound_pj": bounds.energy_pj, "cycles_bound": bounds.cycles}


def _measured(problem: ScheduleProblem, solution: ScheduleSolution) -> ScheduleColumns:
    """The chip model's costs of the answer, counted anew and not taken from the solver."""
    evaluation = problem.judge().evaluate(solution.tree)
    assert isinstance(evaluation, ChipEvaluation)
    chip, rectangles = evaluation.chip, evaluation.spatial_temporal(problem.graph.producers)
    on_whole_chip = {
        one.node.layer for one in evaluation.segments if one.whole_chip and isinstance(one.node, Leaf)
    }
    groups = {
        layer.layer: one.group for one in evaluation.segments if one.group for layer in one.group.layers
    }
    return {
        "energy_pj": evaluation.energy_pj,
        "cycles": evaluation.cycles,
        "edp_pj_cycles": evaluation.energy_pj * evaluation.cycles,
        "dram_bytes": evaluation.dram_bytes,
        "noc_hop_bytes": round(evaluation.noc_hop_bytes),
        "utilization": 1 - evaluation.bubble_tile_cycles / (chip.tiles * evaluation.cycles),
        "energy_by_part_pj": evaluation.parts_pj,
        "tree": solution.text,
        "spatial_temporal": _by_leaf(rectangles, on_whole_chip, groups.keys()),
        "leaves": [
            _leaf(evaluation, one, groups.get(one.node.layer))
            for one in evaluation.nodes()
            if isinstance(one.node, Leaf)
        ],
        "search": phases_as_json(solution.phases),
    }


def _leaf(evaluation: ChipEvaluation, cost: NodeCost, group: FusedGroupCost | None) -> LeafRow:
    """How a layer runs. Bytes and energies are of the whole batch, cycles of one run of the leaf.

    ``cost`` counts a segment for one of the schedule's rounds, so that its counts are multiplied. ``group``:
    the layers that the leaf is mapped together with, None for most.
    """
    assert isinstance(cost.node, Leaf)
    rounds = evaluation.rounds
    row: LeafRow = {
        "layer": cost.node.layer,
        "samples": cost.node.batch,
        "runs": evaluation.tree.batch // cost.node.batch,
        "tiles": [cost.first_tile, cost.first_tile + cost.tiles],
        "cycles": cost.cycles,
        "tile_cycles": cost.leaf.tile_cycles if cost.leaf else cost.cycles,
        "dram_read_bytes": whole_bytes(rounds * cost.dram_read_bits),
        "dram_write_bytes": whole_bytes(rounds * cost.dram_write_bits),
        "energy_by_part_pj": {
            part: rounds * energy for part, energy in zip(ENERGY_PARTS, cost.parts_pj, strict=True)
        },
    }
    if cost.leaf:
        row["parts"] = dict(zip(CUT_DIMS, cost.leaf.placement.parts, strict=True))
        row["order"] = [CUT_DIMS[axis] for axis in cost.leaf.placement.order]
        if cost.leaf.placement.reduced > 1:
            # parts of the input channels are neighbours whatever the order of the others
            row["parts"][REDUCED_DIM] = cost.leaf.placement.reduced
            row["order"].append(REDUCED_DIM)
        if cost.leaf.slices:
            row["slices"] = cost.leaf.slices
        if cost.leaf.sharing:
            row["sharers"] = cost.leaf.sharing.sharers
        if cost.leaf.bands:
            row["bands"] = list(cost.leaf.bands.heights)
    if group is not None:
        _enter_group(row, group)
    return row


def _enter_group(row: LeafRow, group: FusedGroupCost) -> None:
    """What the row of a leaf says of the group of layers that it is in."""
    names = [one.layer for one in group.layers]
    own = next(one for one in group.layers if one.layer == row["layer"])
    row["tile_cycles"] = own.tile_cycles // prod(parts for _, parts in group.cut)
    row["fused_with"] = [name for name in names if name != row["layer"]]
    row["cut"] = dict(group.cut)
    if row["layer"] == names[0]:
        row["tree"] = group.whole.mapping


def _by_leaf(
    rectangles: Iterable[ChartBox], on_whole_chip: Collection[str], fused: Collection[str]
) -> list[ChartLeaf]:
    """SET's S-T graph, one entry a leaf: its rectangles differ only in their samples and start cycles.

    ``on_whole_chip``: names of the layers that have the whole chip, with their data in DRAM. ``fused``: those
    that are mapped together with others; they take turns for as long as their group runs, and are drawn one
    after the other.
    """
    leaves: dict[str, ChartLeaf] = {}
    for one in sorted(rectangles, key=lambda rectangle: rectangle.first_sample):
        if one.layer not in leaves:
            leaves[one.layer] = {
                "layer": one.layer,
                "samples": one.end_sample - one.first_sample,
                "tiles": [one.first_tile, one.end_tile],
                "cycles": one.end - one.start,
                "starts": [],
            }
            if one.layer in on_whole_chip:
                leaves[one.layer]["whole_chip"] = True
            if one.layer in fused:
                leaves[one.layer]["fused"] = True
        leaves[one.layer]["starts"].append(one.start)
    return list(leaves.values())
