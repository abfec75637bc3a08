"""A study of architectures: layers mapped, one by one or together, and tensors planned, on each design."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.workload.counting import mapped_layers
from costmodel.workload.network import Layer, distinct_layers
from costmodel.workload.stored_bits import StoredBits
from results.store.schema.rows import DesignRow, NetworkEntry
from solvers.catalogue import solver
from solvers.mapping.problem import COUNT_BITS, MappingProblem
from solvers.mapping.space.space_bounds import space_bounds
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
from sweep.design.fused_groups import FusedGroups, GroupOutcome
from sweep.design.scratchpad_plans import ScratchpadPlans
from sweep.study.designs.design_space import Design
from sweep.study.hardware_space import with_hardware_constraints
from sweep.study.mapping_space import check_rules
from sweep.study.network_choice import ServedRequest
from sweep.study.study import Study
from sweep.study.study_names import (
    check_different,
    check_maps_unevenly,
    mapping_params,
    named_in,
    network_of,
)
from sweep.study.timeloop_space import constrained_by_timeloop
from sweep.tasks.energy_cycles import EnergyCycles, least_of
from sweep.tasks.fusion import FusionTask
from sweep.tasks.kinds import Task
from sweep.tasks.mapping import MappingTask, SolveSettings
from sweep.tasks.summaries import AnswerSummary, FusionSummary, MappingSummary, ScratchpadSummary


class Demand(Protocol):
    """What runs ``runs`` times in the design's sums: a layer, or a group of layers."""

    @property
    def network(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def runs(self) -> float: ...


@dataclass(frozen=True)
class LayerDemand:
    """One distinct layer shape of one network, which runs ``count`` times in a run of the network.

    ``network`` is the name under which the study shows the network: two batches of one are two networks.
    """

    network: str
    weight: float
    layer: Layer
    count: int
    variant: int = 0
    """Of which of :attr:`Study.by_batches` it is, by its position."""

    @property
    def runs(self) -> float:
        """How often the layer runs in the design's sums: its count times the weight of its network."""
        return self.count * self.weight

    @cached_property
    def named(self) -> Layer:
        """The layer under a name that says which network it is of."""
        return replace(self.layer, name=f"{self.network}/{self.layer.name}")


@dataclass(frozen=True)
class LayerSolve:
    """One solve that every architecture needs: a named layer, and how it is solved.

    ``asked``: what :meth:`.SolveSettings.asked_of` says of both, the part of the task's id that does not
    depend on the architecture.
    """

    layer: Layer
    settings: SolveSettings
    asked: str


def layer_demands(study: Study) -> tuple[LayerDemand, ...]:
    """The distinct layers of every network of the study; InputError for a network that cannot be used."""
    found: list[LayerDemand] = []
    precise = has_precision(study)
    check_different(study)
    for variant, asked in enumerate(study.by_batches.values()):
        for position, choice in enumerate(asked.networks):
            network = network_of(asked, position)
            with named_in(asked, asked.network_key(position), choice.network):
                layers = distinct_layers(mapped_layers(network))
                if precise:
                    layers = distinct_layers(StoredBits(network).stated())
            found += [
                LayerDemand(choice.shown, choice.weight, layer, count, variant) for layer, count in layers
            ]
    return tuple(found)


def has_precision(study: Study) -> bool:
    """Whether elements have widths of their own on some design of the study."""
    if any(key.split(".")[0] == "precision" for key in study.axes):
        return True
    with named_in(study, "architecture", study.architecture):
        return load_architecture(study.architecture, study.of_all_designs).precision is not None


def mapping_settings(study: Study) -> SolveSettings:
    """The study's solver with complete, checked parameters."""
    choice = study.mapping
    with named_in(study, "mapping.solver"):
        solver(choice.solver, "mapping")
    params = mapping_params(study)
    check_maps_unevenly(study)
    if not study.chip and has_precision(study) and choice.solver not in COUNT_BITS:
        expected = f"a solver that counts bits, for there is a precision: {', '.join(COUNT_BITS)}"
        raise InputError(study.where, expected, choice.solver, key="mapping.solver")
    return SolveSettings(choice.solver, study.mapping_objective, params, choice.budget, choice.rules)


class MappingWorkload:
    """The workload of a study of architectures: a mapping for each demand and a plan for each network."""

    def __init__(self, study: Study, demands: tuple[LayerDemand, ...]) -> None:
        self.demands = demands
        settings = mapping_settings(study)
        layers = [demand.layer for demand in demands]
        with named_in(study, "architecture", study.architecture):
            architecture = load_architecture(study.architecture, study.of_all_designs)
        check_rules(settings.rules, architecture, layers, study.where)
        rules = constrained_by_timeloop(settings.rules, study.architecture, layers)
        # one for each demand: constraints of architectures hold for some kinds of layers only
        constrained = [
            with_hardware_constraints(asked, study.architecture, layer)
            for asked, layer in zip(rules, layers, strict=True)
        ]
        # Before any design is loaded: a constraint that some layer cannot meet is a mistake in a file, and
        # not a failure of every solve.
        for asked, layer in zip(constrained, layers, strict=True):
            try:
                asked.for_layer(layer).check(architecture, layer)
            except InputError as error:
                raise error.at(study.architecture, "constraints") from None
        self._settings = [replace(settings, rules=asked) for asked in constrained]
        self._request, self._limits = study.request, study.result_constraints
        self._groups = FusedGroups.of(study, demands)
        self._check_free(study)
        self._scratchpads = ScratchpadPlans.of(study)
        variants = [demand.variant for demand in demands]  # each variant's demands stand together
        self._variants = {
            batches: slice(bisect_left(variants, number), bisect_right(variants, number))
            for number, batches in enumerate(study.by_batches)
        }
        self._batches = tuple(axis.key for axis in study.batch_axes)
        self.asked = {"layers": sum(demand.count for demand in demands if demand.variant == 0)}
        if self._groups:
            self.asked["fusions"] = len(self._groups.groups)
        if self._scratchpads:
            self.asked["scratchpads"] = len(study.networks)

    def _check_free(self, study: Study) -> None:
        """InputError where a layer that is mapped together with others has constraints: no group has any."""
        for member in self._groups.grouped if self._groups else ():
            layer = self.demands[member].layer
            if levels := self._settings[member].rules.for_layer(layer).levels:
                expected = "an architecture without constraints on mappings, for fused ones are held to none"
                found = f"constraints on {', '.join(level.level for level in levels)} for {layer.name}"
                raise InputError(study.where, expected, found, "Leave fusion out", key="fusion")

    def tasks(self, design: Design) -> list[Task]:
        """One mapping task for each demand, one for each group that is mapped together, then one scratchpad
        task for each network, in their orders.

        Equal shapes and groups of different networks are equal tasks.
        """
        maps = [
            MappingTask(design.architecture, demand.named, settings)
            for demand, settings in zip(self.demands, self._settings, strict=True)
        ]
        together = self._groups.tasks(design.architecture) if self._groups else []
        plans = self._scratchpads.tasks(design.architecture) if self._scratchpads else []
        return [*maps, *together, *plans]

    @cached_property
    def solves(self) -> tuple[LayerSolve, ...]:
        """What is solved on every architecture: the first of the demands that ask for the same, in order."""
        asked = dict.fromkeys(self.asked_of_demands)
        first = [self.asked_of_demands.index(text) for text in asked]
        return tuple(
            LayerSolve(self.demands[n].named, self._settings[n], self.asked_of_demands[n]) for n in first
        )

    @cached_property
    def solve_of_demand(self) -> tuple[int, ...]:
        """For each demand, which of the ``solves`` answers it."""
        asked = [solve.asked for solve in self.solves]
        return tuple(asked.index(text) for text in self.asked_of_demands)

    @cached_property
    def asked_of_demands(self) -> tuple[str, ...]:
        """The part of the task's id that does not depend on the architecture, for each demand."""
        pairs = zip(self.demands, self._settings, strict=True)
        return tuple(settings.asked_of(demand.named) for demand, settings in pairs)

    def _own_demands(self, design: Design) -> slice:
        """Where the design's own demands stand among all: those of its batches."""
        values = dict(design.values)
        return self._variants[tuple(values[key] for key in self._batches)]

    @property
    def varies_batches(self) -> bool:
        """Whether designs of one architecture may be asked for different layers."""
        return len(self._variants) > 1

    @property
    def only_layers(self) -> bool:
        """Whether designs ask for nothing but mappings of layers one by one."""
        return self._groups is None and self._scratchpads is None

    def obstacle(self, design: Design) -> str:
        """Why some network has no plan in the design's scratchpad; empty where none is known to lack one."""
        return self._scratchpads.obstacle(design.architecture) if self._scratchpads else ""

    def bounds(self, tasks: Sequence[Task]) -> EnergyCycles:
        """Proven lower bounds on energy and cycles of a design with these tasks, whatever its batches."""
        problems = [problem_of(task) for task in tasks if isinstance(task, MappingTask)]
        if self._groups is None:
            return _bounds(self.demands, problems)
        layers = _each_bounded(problems)
        together = [task for task in tasks if isinstance(task, FusionTask)]
        demands: list[Demand] = [*self._by_itself(), *self._groups.groups]
        return _sums(demands, [*layers, *self._groups.bounds(together, layers)])

    def _by_itself(self) -> list[LayerDemand]:
        """The demands with the occurrences that are in no group."""
        assert self._groups is not None
        grouped = self._groups.grouped
        return [replace(one, count=one.count - grouped[n]) for n, one in enumerate(self.demands)]

    def sums(self, parts: Sequence[EnergyCycles]) -> EnergyCycles:
        """Energy and cycles of a design from those of one run of each of its :attr:`solves`.

        Where batches vary, the least of each over them: designs of one architecture have all solves in
        common, and what holds for the least holds for all of these designs.
        """
        return _least_sums(self.demands, [parts[number] for number in self.solve_of_demand])

    def broken_by_bounds(self, design: Design, tasks: Sequence[Task]) -> str:
        """Which constraints on results the design breaks, whatever the answers to its :meth:`tasks`."""
        if not self._limits:
            return ""
        problems = [problem_of(task) for task in tasks if isinstance(task, MappingTask)]
        own = self._own_demands(design)
        return self._broken(design, own, _each_bounded(problems)[own])

    def broken_by_least(self, design: Design, parts: Sequence[EnergyCycles]) -> str:
        """As :meth:`broken_by_bounds`, from what one run of each of the :attr:`solves` takes at least."""
        if not self._limits:
            return ""
        own = self._own_demands(design)
        return self._broken(design, own, [parts[number] for number in self.solve_of_demand[own]])

    def _broken(self, design: Design, own: slice, parts: Sequence[EnergyCycles]) -> str:
        demands, request = self.demands[own], self._request
        total = _sums(demands, parts)
        row = objectives(design, total.energy_pj, whole_cycles(total.cycles), request.tokens)
        row |= token_rate(row, request.tokens)
        least = _cycles_by_network(demands, [part.cycles for part in parts])
        return broken_by_bounds(self._limits, row | request_times(design, request, least, least))

    def results(self, design: Design, task_ids: Sequence[str], answers: Sequence[AnswerSummary]) -> DesignRow:
        """The columns that follow from the answers to :meth:`tasks`, those of the design's own batches."""
        mapped = [answer for answer in answers if isinstance(answer, MappingSummary)]
        together = [answer for answer in answers if isinstance(answer, FusionSummary)]
        plans = [answer for answer in answers if isinstance(answer, ScratchpadSummary)]
        own = self._own_demands(design)
        demands, mine = self.demands[own], mapped[own]
        row: DesignRow = {"networks": _by_network(demands, task_ids[own], mine)}
        of_groups, planned = task_ids[len(mapped) :][: len(together)], task_ids[len(mapped) + len(together) :]
        for network, task_id in zip(row["networks"].values(), planned, strict=bool(plans)):
            network["scratchpad"] = task_id
        bad = [(d, a) for d, a in zip(demands, mine, strict=True) if not a.mapped]
        reasons = [(a.status, f"{d.network}/{d.layer.name}: {a.status}: {a.remark}") for d, a in bad]
        reasons += self._groups.failed(together) if self._groups else []
        reasons += self._scratchpads.unplanned(plans) if self._scratchpads else []
        if reasons:
            return row | without_answer(reasons)
        if self._scratchpads:
            row |= self._scratchpads.totals(design.architecture, plans)
        parts = [
            _Part(d, a.cost, a.bounds, dict(a.levels))
            for d, a in zip(self._by_itself() if self._groups else demands, mine, strict=True)
        ]
        if self._groups:
            outcomes = self._groups.outcomes(together, mine)
            _enter_groups(row["networks"], demands, outcomes, of_groups)
            without = [*(part.cost for part in parts), *(one.unfused for one in outcomes)]
            parts += [_Part(one.demand, one.cost, one.bounds, one.levels) for one in outcomes]
            unfused = _sums([part.demand for part in parts], without)
            row |= {"unfused_energy_pj": unfused.energy_pj, "unfused_cycles": whole_cycles(unfused.cycles)}
        row |= _totals(design, parts, self._request)
        return row | broken_constraints(self._limits, row)


@dataclass(frozen=True)
class _Part:
    """A part of a design's sums: what one occurrence costs, proven bounds on that, and the energy by storage
    level (pJ)."""

    demand: Demand
    cost: EnergyCycles
    bounds: EnergyCycles
    levels: dict[str, float]


def _totals(design: Design, parts: Sequence[_Part], request: ServedRequest) -> DesignRow:
    """Sums over all layers, which run one after the other, each times its count and network's weight."""
    demands = [part.demand for part in parts]
    found = _sums(demands, [part.cost for part in parts])
    bounds = _sums(demands, [part.bounds for part in parts])
    levels: Counter[str] = Counter()
    for part in parts:
        levels.update({name: part.demand.runs * pj for name, pj in part.levels.items()})
    row = complete(design, found, bounds, request.tokens)
    one_run = _cycles_by_network(demands, [part.cost.cycles for part in parts])
    least = _cycles_by_network(demands, [part.bounds.cycles for part in parts])
    row |= request_times(design, request, one_run, least)
    return row | {"energy_by_level_pj": dict(levels)}


def _bounds(demands: tuple[LayerDemand, ...], problems: Sequence[MappingProblem]) -> EnergyCycles:
    """Lower bounds on the sums of a design."""
    return _least_sums(demands, _each_bounded(problems))


def _each_bounded(problems: Sequence[MappingProblem]) -> list[EnergyCycles]:
    """Lower bounds on energy and cycles; a problem that several demands have is bounded once."""
    found = {id(problem): space_bounds(problem) for problem in problems}
    parts = [found[id(problem)] for problem in problems]
    return [EnergyCycles(bounds.energy_pj, bounds.cycles) for bounds in parts]


def problem_of(task: MappingTask) -> MappingProblem:
    """The problem that the task has solved."""
    return MappingProblem(task.architecture, task.layer, task.settings.objective, task.rules)


def _sums(demands: Sequence[Demand], parts: Iterable[EnergyCycles]) -> EnergyCycles:
    """Energy and cycles of all runs of all layers, from those of one run of each.

    Values and bounds are added in the same order, the demands', so that rounding keeps bounds below values.
    """
    energy = cycles = 0.0
    for demand, (energy_pj, layer_cycles) in zip(demands, parts, strict=True):
        energy += demand.runs * energy_pj
        cycles += demand.runs * layer_cycles
    return EnergyCycles(energy, cycles)


def _least_sums(demands: tuple[LayerDemand, ...], parts: Sequence[EnergyCycles]) -> EnergyCycles:
    """:func:`_sums` of each variant of the study by itself, and the least energy and cycles of them."""
    if demands[-1].variant == 0:
        return _sums(demands, parts)
    sums, begin = [], 0
    for count in Counter(demand.variant for demand in demands).values():
        sums.append(_sums(demands[begin : begin + count], parts[begin : begin + count]))
        begin += count
    return least_of(sums)


def _cycles_by_network(demands: Sequence[Demand], cycles: Sequence[float]) -> dict[str, float]:
    """Cycles of one run of each network, from those of one run of each of its layers."""
    found: dict[str, float] = {}
    for demand, layer_cycles in zip(demands, cycles, strict=True):
        found[demand.network] = found.get(demand.network, 0.0) + demand.count * layer_cycles
    return found


def _by_network(
    demands: tuple[LayerDemand, ...], task_ids: Sequence[str], answers: list[MappingSummary]
) -> dict[str, NetworkEntry]:
    """The column ``networks``: of each network its sums without its weight, and its distinct layers."""
    networks: dict[str, NetworkEntry] = {}
    for demand, task_id, answer in zip(demands, task_ids, answers, strict=True):
        nothing_yet: NetworkEntry = {"weight": demand.weight, "energy_pj": 0.0, "cycles": 0, "layers": []}
        entry = networks.setdefault(demand.network, nothing_yet)
        entry["energy_pj"] += demand.count * answer.energy_pj
        entry["cycles"] += demand.count * answer.cycles
        entry["layers"].append(
            {
                "name": demand.layer.name,
                "task_id": task_id,
                "count": demand.count,
                "energy_pj": answer.energy_pj,
                "cycles": answer.cycles,
            }
        )
    return networks


def _enter_groups(
    networks: dict[str, NetworkEntry],
    demands: tuple[LayerDemand, ...],
    outcomes: Sequence[GroupOutcome],
    task_ids: Sequence[str],
) -> None:
    """Enter what groups cost in the column ``networks``, whose layers stand there as if none were fused."""
    entries = [layer for network in networks.values() for layer in network["layers"]]
    of_demand = dict(zip(range(len(demands)), entries, strict=True))
    for one, task_id in zip(outcomes, task_ids, strict=True):
        entry, count = networks[one.demand.network], one.demand.count if one.together else 0
        # of single occurrences, so these cycles are whole numbers
        cycles, unfused_cycles = int(one.cost.cycles), int(one.unfused.cycles)
        if count:
            entry["energy_pj"] += count * (one.cost.energy_pj - one.unfused.energy_pj)
            entry["cycles"] += count * (cycles - unfused_cycles)
        for member in one.demand.members:
            of_demand[member]["count"] -= count
        entry.setdefault("fused", []).append(
            {
                "layers": list(one.demand.names),
                "task_id": task_id,
                "count": count,
                "energy_pj": one.cost.energy_pj,
                "cycles": cycles,
                "unfused_energy_pj": one.unfused.energy_pj,
                "unfused_cycles": unfused_cycles,
            }
        )
