"""A study of chips: every network scheduled on each design, by as many seeds as the study asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from costmodel.errors import InputError
from costmodel.formats.chips import load_chip
from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.hardware.chip import Chip, Tile
from costmodel.hardware.widths import Widths
from costmodel.schedule.layer_graph.graph import LayerGraph
from results.store.schema.rows import DesignRow, NetworkEntry
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.mapping.space.rules import SpaceRules
from solvers.schedule.fitting import fitted, summed_in_groups, too_large
from solvers.schedule.fused_groups import LONGEST, SECONDS, TOLERANCE, check_groups
from solvers.schedule.known_trees import rank
from solvers.schedule.set.epochs import EpochOf
from solvers.schedule.tiles.layer_parts import TileCostDemand, TilePart
from solvers.schedule.tiles.mapper import check_tile, tile_solver
from sweep.design.design_row import (
    broken_by_bounds,
    broken_constraints,
    complete,
    objectives,
    request_times,
    token_rate,
    whole_cycles,
    without_answer,
)
from sweep.design.schedule_bounds import bounds_before
from sweep.study.designs.design_space import Design
from sweep.study.identity import with_tolerance
from sweep.study.mapping_space import check_rules
from sweep.study.network_choice import NetworkChoice, ServedRequest
from sweep.study.study import Study
from sweep.study.study_names import check_maps_unevenly, complete_params, mapping_params, named_in
from sweep.tasks.chips.schedule import ScheduledNetwork, ScheduleSolve, ScheduleTask, TiledChip
from sweep.tasks.chips.tile_costs import TileCostSource
from sweep.tasks.energy_cycles import EnergyCycles, sum_of
from sweep.tasks.fusion import FusionSolve
from sweep.tasks.kinds import Task
from sweep.tasks.mapping import SolveSettings, bare
from sweep.tasks.summaries import AnswerSummary, ScheduleSummary

FAMILY = "schedule"
GROUP_SOLVER = "fusion_layers"
"""What maps the layers of a segment together."""


@dataclass(frozen=True)
class Scheduler:
    """One of a study's schedulers: a solve for each seed, each in as many parts as there are ``epochs``."""

    solves: tuple[ScheduleSolve, ...]
    epochs: int

    def tasks(
        self, network: ScheduledNetwork, on: TiledChip, demand: TileCostDemand, repeat_blocks: bool
    ) -> list[ScheduleTask]:
        """One task for each seed; where seeds exchange their trees, those of the last epoch.

        The tasks of the epochs before hang below these, as :attr:`ScheduleTask.before`.
        """
        if self.epochs == 1:
            return [
                ScheduleTask(network, on, demand, solve, repeat_blocks=repeat_blocks) for solve in self.solves
            ]
        tasks: list[ScheduleTask] = []
        for number in range(self.epochs):
            tasks = [
                ScheduleTask(network, on, demand, solve, EpochOf(number, self.epochs, seed), tuple(tasks))
                for seed, solve in enumerate(self.solves)
            ]
        return tasks


def schedulers_of(study: Study) -> list[Scheduler]:
    """The study's scheduler and its rivals with complete, checked parameters."""
    assert study.schedule is not None
    objective, found = study.schedule.objective, []
    # number -1 is the study's own scheduler, whose keys stand in the block itself; rivals count from 0
    for number, choice in enumerate(study.schedule.schedulers, -1):
        block = "schedule" if number < 0 else f"schedule.rivals[{number}]"
        params = complete_params(study, block, FAMILY, choice.solver, choice.params)
        if choice.epochs > 1 and not solver(choice.solver, FAMILY).goes_on_from_trees:
            expected = f"1, for {choice.solver} has no searches that can exchange trees"
            raise InputError(study.where, expected, choice.epochs, key=f"{block}.epochs")
        solves = (ScheduleSolve(choice.solver, objective, params, budget) for budget in choice.budgets)
        found.append(Scheduler(tuple(solves), choice.epochs))
    return found


def tile_mapping_settings(study: Study) -> SolveSettings:
    """The solver that maps layers on tiles, and how it is asked.

    InputError for rules on mappings with a solver that does not obey them.
    """
    choice = study.mapping
    with named_in(study, "mapping.solver"):
        family = tile_solver(choice.solver).family
    if family == "tile" and choice.rules != SpaceRules():
        expected = f"no rules on mappings, for {choice.solver} has a dataflow of its own; or a mapping solver"
        raise InputError(study.where, expected, choice.rules.describe(), key="mapping")
    check_maps_unevenly(study)
    params = mapping_params(study)
    return SolveSettings(choice.solver, study.mapping_objective, params, choice.budget, choice.rules)


def fused_groups_of(study: Study) -> FusionSolve | None:
    """How the layers of segments are mapped together; None for a study that offers no groups."""
    assert study.schedule is not None
    if not study.schedule.fused_groups:
        return None
    stated = with_tolerance({}, TOLERANCE)
    params = complete_params(study, "schedule.fused_groups", "layer_fusion", GROUP_SOLVER, stated)
    return FusionSolve(GROUP_SOLVER, study.mapping_objective, LONGEST, params, Budget(SECONDS))


def whole_chip_offered(study: Study) -> bool | None:
    """Whether a layer may have the whole chip, from DRAM; None: where some layer of the network needs it.

    InputError for a solver that cannot map such layers.
    """
    assert study.schedule is not None
    try:
        return study.schedule.offers_whole_chip(study.mapping.solver)
    except InputError as error:
        raise error.at(study.where) from None


def scheduled_on(chip: Chip, graph: LayerGraph, whole_chip: bool | None) -> tuple[LayerGraph, bool]:
    """A network as a chip's schedules have it, and whether its layers may have the whole chip, from DRAM.

    ``whole_chip`` as in :func:`whole_chip_offered`. Without it, layers too large for the tiles are cut into
    smaller ones; with it, they may run from DRAM instead. Sums of too many experts are cut either way.
    """
    graph = summed_in_groups(graph, chip)
    if not whole_chip:
        cut = fitted(graph, chip)
        if whole_chip is not None or not any(too_large(cut, chip)):
            return cut, False
    return graph, True


def _loaded(position: int, study: Study, whole_chip: bool | None) -> ScheduledNetwork:
    """The study's network at ``position``; ``whole_chip`` as in :func:`whole_chip_offered`.

    InputError where they may not and a layer runs in no other way.
    """
    choice = study.networks[position]
    with named_in(study, study.network_key(position), choice.network):
        graph = load_layer_graph(choice.network, choice.dims)
    only_there = next((layer.name for layer in graph.layers if layer.needs_whole_chip), None)
    if only_there and whole_chip is False:
        remedy = "Set schedule.whole_chip, and a mapping solver that maps whole layers"
        expected = f"whole_chip: true, for {only_there} of {choice.shown} runs in no other way"
        raise InputError(study.where, expected, "whole_chip: false", remedy, key="schedule.whole_chip")
    return ScheduledNetwork(choice.shown, graph)


class ScheduleWorkload:
    """The workload of a study of chips: a schedule for each network, scheduler and seed.

    Of each network the best schedule counts.
    """

    def __init__(self, study: Study) -> None:
        assert study.schedule is not None
        self._choice = study.schedule
        self._networks = study.networks
        self._request, self._limits = study.request, study.result_constraints
        self._schedulers = schedulers_of(study)
        self._seeds = sum(len(scheduler.solves) for scheduler in self._schedulers)
        self._mapper = tile_mapping_settings(study)
        self._whole_chip = whole_chip_offered(study)
        self._groups = fused_groups_of(study)
        self._pruning = study.schedule.pruning(study.mapping.solver)
        self._loaded = {
            choice.shown: _loaded(position, study, self._whole_chip)
            for position, choice in enumerate(study.networks)
        }
        for position in range(len(study.networks)):
            self._check_batch(position, study)
        with named_in(study, "chip", study.chip):
            chip = load_chip(str(study.chip))
        self._check_tile(study, chip)
        self._check_rules(study, chip)
        self._scheduled: dict[tuple[str, int, Widths, int], tuple[ScheduledNetwork, bool]] = {}
        self._demands: dict[tuple[str, Tile, int], TileCostDemand] = {}
        self.asked = {"schedules": len(study.networks) * self._seeds}

    def _batch(self, network: NetworkChoice) -> int:
        return self._choice.batch if network.batch is None else network.batch

    def _check_batch(self, position: int, study: Study) -> None:
        """InputError for a batch with which a layer's counts do not fit the 64 bits of their arrays."""
        network = self._networks[position]
        batch, key = self._batch(network), f"{study.network_key(position)}.batch"
        for layer in self._loaded[network.shown].graph.layers:
            if not layer.has_weights:
                continue
            try:
                layer.nest(batch)
            except InputError as error:
                expected = f"a batch of which {layer.name} has {error.expected}"
                stated = "schedule.batch" if network.batch is None else key
                raise InputError(study.where, expected, batch, key=stated) from None

    def _check_tile(self, study: Study, chip: Chip) -> None:
        """InputError for a solver that cannot map layers on the chip's tiles."""
        architecture = self._source(chip).architecture
        with named_in(study, "mapping.solver"):
            check_tile(self._mapper.solver, architecture)

    def _check_rules(self, study: Study, chip: Chip) -> None:
        """InputError for rules on mappings that name a level, dim or tensor that tiles and layers lack."""
        if self._mapper.rules == SpaceRules():
            return
        graphs = (loaded.graph for loaded in self._loaded.values())
        layers = (layer for graph in graphs for layer in graph.layers if layer.has_weights)
        # a layer cut among tiles has the dims of its whole, in a shorter nest
        nests = (TilePart.of_outputs(layer, layer.sizes(1)).layer() for layer in layers)
        check_rules(self._mapper.rules, self._source(chip).architecture, dict.fromkeys(nests), study.where)

    def tasks(self, design: Design) -> list[Task]:
        """One task for each seed, ordered by network, then scheduler, then seed."""
        source, on = self._source(design.chip), dict[bool, TiledChip]()
        if self._groups is not None:
            check_groups(design.chip)
        tasks: list[Task] = []
        for choice in self._networks:
            network, whole_chip = self._network(choice, design.chip)
            if whole_chip not in on:
                on[whole_chip] = TiledChip(design.chip, source, self._pruning, whole_chip, self._groups)
            demand = self._demand(choice, on[whole_chip])
            for scheduler in self._schedulers:
                tasks += scheduler.tasks(network, on[whole_chip], demand, self._repeat_blocks(network))
        return tasks

    def _repeat_blocks(self, network: ScheduledNetwork) -> bool:
        """Whether the block that the network repeats is scheduled once.

        Where a study states that and none repeats, the answer's note says so.
        """
        stated = self._choice.repeat_blocks
        return self._choice.repeats_blocks(len(network.graph.layers)) and (stated or network.repeats)

    def _source(self, chip: Chip) -> TileCostSource:
        architecture = chip.tile.architecture
        if architecture is None:
            raise InputError(chip.name, "an architecture to map layers on", "none", key="tile.architecture")
        return TileCostSource(architecture, self._mapper)

    def _network(self, network: NetworkChoice, chip: Chip) -> tuple[ScheduledNetwork, bool]:
        """The network as the chip's schedules have it, and whether its layers may have the whole chip.

        Designs for which that gives the same network have one value in common, whose content is hashed once.
        """
        loaded, tile = self._loaded[network.shown], chip.tile
        key = network.shown, tile.free_bits, tile.widths, chip.tiles
        if key not in self._scheduled:
            graph, whole_chip = scheduled_on(chip, loaded.graph, self._whole_chip)
            same = loaded if graph is loaded.graph else ScheduledNetwork(loaded.name, graph)
            self._scheduled[key] = same, whole_chip
        return self._scheduled[key]

    def _demand(self, network: NetworkChoice, on: TiledChip) -> TileCostDemand:
        """The tile costs that the network may need on the chip.

        Designs that need the same have one value in common, which lists its tile parts once.
        """
        tile, tiles = replace(on.chip.tile, architecture=bare(on.source.architecture)), on.chip.tiles
        key = network.shown, tile, tiles
        if key not in self._demands:
            batch = self._batch(network)
            graph = self._network(network, on.chip)[0].graph
            self._demands[key] = TileCostDemand(graph, tile, tiles, batch, on.pruning)
        return self._demands[key]

    def obstacle(self, design: Design) -> str:
        """Nothing is known of a chip before a solve."""
        return ""

    def bounds(self, tasks: Sequence[Task]) -> EnergyCycles:
        """Proven lower bounds on energy and cycles of a design with these tasks, whatever tiles cost."""
        schedules = [task for task in tasks if isinstance(task, ScheduleTask)]
        # one task of each network: a bound that holds for one seed holds for all
        one_each = schedules[:: self._seeds]
        found = map(bounds_before, one_each)
        return sum_of(one.times(network.weight) for network, one in zip(self._networks, found, strict=True))

    def broken_by_bounds(self, design: Design, tasks: Sequence[Task]) -> str:
        """Which constraints on results the design breaks, whatever its schedules; those of whole runs."""
        if not self._limits:
            return ""
        bounds = self.bounds(tasks)
        row = objectives(design, bounds.energy_pj, whole_cycles(bounds.cycles), self._request.tokens)
        return broken_by_bounds(self._limits, row | token_rate(row, self._request.tokens))

    def results(self, design: Design, task_ids: Sequence[str], answers: Sequence[AnswerSummary]) -> DesignRow:
        """The columns that follow from the answers to :meth:`tasks`: weighted sums of the best schedules.

        After these answers may come those that cost siblings' trees on this chip, or go on from one, of any
        of the networks. A network has a schedule where one of its seeds, or of the siblings' trees, is one;
        its bounds are the highest of any answer.
        """
        found = [answer for answer in answers if isinstance(answer, ScheduleSummary)]
        seeds, searched = self._seeds, len(self._networks) * self._seeds
        later = list(zip(task_ids[searched:], found[searched:], strict=True))
        networks = [
            _Scheduled(
                choice,
                task_ids[first : first + seeds],
                found[first : first + seeds],
                [(task_id, one) for task_id, one in later if one.layers == found[first].layers],
            )
            for choice, first in zip(self._networks, range(0, searched, seeds), strict=True)
        ]
        row: DesignRow = {"networks": {one.choice.shown: one.row for one in networks}}
        if reasons := [one.reason for one in networks if not one.scheduled]:
            return row | without_answer(reasons)
        row |= _totals(design, networks, self._request)
        return row | broken_constraints(self._limits, row)


@dataclass(frozen=True)
class _Scheduled:
    """One network of a design, and the answers of all seeds of all schedulers for it.

    ``later``: ids of the tasks that costed siblings' trees or went on from one, each with its answer.
    """

    choice: NetworkChoice
    task_ids: Sequence[str]
    answers: Sequence[ScheduleSummary]
    later: Sequence[tuple[str, ScheduleSummary]] = ()

    @cached_property
    def _all(self) -> list[tuple[str, ScheduleSummary]]:
        return [*zip(self.task_ids, self.answers, strict=True), *self.later]

    @cached_property
    def _found(self) -> list[tuple[str, ScheduleSummary]]:
        """The answers with a schedule; a search's own come first."""
        return [(task_id, answer) for task_id, answer in self._all if answer.scheduled]

    @property
    def scheduled(self) -> bool:
        return bool(self._found)

    @cached_property
    def _chosen(self) -> tuple[str, ScheduleSummary]:
        """The best schedule with the id of its task; of equal ones the first."""
        return min(self._found, key=lambda one: rank(one[1].objective, one[1].energy_pj, one[1].cycles))

    @property
    def best(self) -> ScheduleSummary:
        return self._chosen[1]

    @property
    def bounds(self) -> EnergyCycles:
        """The highest bounds on energy and cycles of any answer, at most the best schedule's own.

        Where some answer may have bands of rows, or input channels cut, only those that bound such schedules,
        too; there may be none.
        """
        bounding = [answer for _, answer in self._all]
        if any(answer.bands for answer in bounding):
            reduced = any(answer.reductions for answer in bounding)
            bounding = [one for one in bounding if one.bands and one.reductions >= reduced]
        elif any(answer.reductions for answer in bounding):
            bounding = [answer for answer in bounding if answer.reductions]
        energy = max((answer.energy_bound_pj for answer in bounding), default=0.0)
        cycles = max((answer.cycles_bound for answer in bounding), default=0.0)
        return EnergyCycles(min(energy, self.best.energy_pj), min(cycles, self.best.cycles))

    @property
    def row(self) -> NetworkEntry:
        """The network's entry in the design's row."""
        row: NetworkEntry = {"weight": self.choice.weight, "seeds": list(self.task_ids)}
        if costings := [task_id for task_id, answer in self.later if not answer.refined_from]:
            row |= {"costings": costings}
        if refinements := [task_id for task_id, answer in self.later if answer.refined_from]:
            row |= {"refinements": refinements}
        if self.scheduled:
            row |= {"schedule": self._chosen[0]}
            row |= {"energy_pj": self.best.energy_pj, "cycles": self.best.cycles}
            if self.best.tree_from:
                row |= {"tree_from": self.best.tree_from}
        return row

    @property
    def reason(self) -> tuple[str, str]:
        """(status, sentence) of a network without a schedule; infeasible only where every seed says so."""
        told = next((a for a in self.answers if a.status != "infeasible"), self.answers[0])
        return told.status, f"{self.choice.shown}: {told.status}: {told.remark}"


def _totals(design: Design, networks: Sequence[_Scheduled], request: ServedRequest) -> DesignRow:
    """Weighted sums over the networks, which run one after the other."""
    found = sum_of(
        EnergyCycles(one.best.energy_pj, one.best.cycles).times(one.choice.weight) for one in networks
    )
    least = sum_of(one.bounds.times(one.choice.weight) for one in networks)
    parts: Counter[str] = Counter()
    for one in networks:
        parts.update({name: one.choice.weight * pj for name, pj in one.best.parts_pj})
    row = complete(design, found, least, request.tokens)
    one_run = {one.choice.shown: float(one.best.cycles) for one in networks}
    bounds = {one.choice.shown: one.bounds.cycles for one in networks}
    row |= request_times(design, request, one_run, bounds)
    return row | {
        "energy_by_level_pj": dict(parts),
        "dram_bytes": round(sum(one.choice.weight * one.best.dram_bytes for one in networks)),
        "noc_hop_bytes": round(sum(one.choice.weight * one.best.noc_hop_bytes for one in networks)),
    }
