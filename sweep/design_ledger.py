"""The ledger: which answers the open designs still wait for, and the row of a design once all are there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from costmodel.architectures import load_architecture
from costmodel.errors import InputError
from costmodel.networks import load_network
from costmodel.workload import Layer, distinct_layers
from solvers.catalogue import solver
from solvers.mapping.problem import MappingProblem
from solvers.mapping.space_bounds import space_bounds
from sweep.answers import Answer, MappingAnswer, ScratchpadAnswer
from sweep.mapping_space import check_rules
from sweep.scratchpad_plans import ScratchpadPlans
from sweep.space import Design
from sweep.study import Study
from sweep.task import MappingTask, SolveSettings, canonical_json, checked_params, content_hash
from sweep.timeloop_space import with_timeloop_constraints
from sweep.work import Task

Row = dict[str, Any]


@dataclass(frozen=True)
class Demand:
    """One distinct layer shape of one network, which runs ``count`` times in a run of the network.

    ``network`` is the name that the study shows it under: two batches of one network are two networks.
    """

    network: str
    weight: float
    layer: Layer
    count: int

    @property
    def runs(self) -> float:
        """How often the layer runs in all: its count times the weight of its network."""
        return self.count * self.weight

    @cached_property
    def named(self) -> Layer:
        """The layer under a name that says which network it is of."""
        return replace(self.layer, name=f"{self.network}/{self.layer.name}")


def demands(study: Study) -> tuple[Demand, ...]:
    """The distinct layers of every network of the study; InputError for a network that cannot be used."""
    found: list[Demand] = []
    for choice in study.networks:
        layers = distinct_layers(load_network(choice.network, choice.batch).layers)
        if not layers:
            raise InputError(
                choice.network, "a network with layers that ask for MACs", "none", key="networks"
            )
        found += [Demand(choice.shown, choice.weight, layer, count) for layer, count in layers]
    return tuple(found)


def solve_settings(study: Study) -> SolveSettings:
    """The study's solver with complete, checked parameters."""
    choice = study.mapping
    solver(choice.solver, "mapping")
    params = canonical_json(asdict(checked_params(choice.solver, choice.solver_params)))
    return SolveSettings(choice.solver, choice.objective, params, choice.budget, choice.rules)


def _constrained(settings: SolveSettings, architecture: str, layer: Layer) -> SolveSettings:
    """The settings with the constraints that a Timeloop architecture puts on mappings of ``layer``."""
    rules = with_timeloop_constraints(settings.rules, architecture, layer)
    return settings if rules is settings.rules else replace(settings, rules=rules)


@dataclass
class _Open:
    design: Design
    tasks: tuple[str, ...]
    """Task ids: one a demand in the order of the demands, then those of the scratchpads."""
    missing: set[str]


@dataclass
class DesignLedger:
    """Opens designs, hands out each distinct task once, and closes a design with its last answer."""

    study: Study
    demands: tuple[Demand, ...]
    answers: dict[str, MappingAnswer] = field(default_factory=dict)
    plans: dict[str, ScratchpadAnswer] = field(default_factory=dict)
    _waiting: dict[str, list[_Open]] = field(default_factory=dict)
    _first_need: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        settings = solve_settings(self.study)
        layers = [demand.layer for demand in self.demands]
        check_rules(settings.rules, load_architecture(self.study.architecture), layers)
        self._settings = [_constrained(settings, self.study.architecture, layer) for layer in layers]
        self.scratchpads = ScratchpadPlans.of(self.study)

    def tasks(self, design: Design) -> list[Task]:
        """All that the design needs: :meth:`mapping_tasks`, then a scratchpad task a network.

        None for a design that is infeasible before any solve.
        """
        if not design.feasible or self.obstacle(design):
            return []
        plans = self.scratchpads.tasks(design.architecture) if self.scratchpads else []
        return [*self.mapping_tasks(design), *plans]

    def obstacle(self, design: Design) -> str:
        """Why some network has no plan in the design's scratchpad; empty where it may have one."""
        return self.scratchpads.obstacle(design.architecture) if self.scratchpads else ""

    def knows(self, task_id: str) -> bool:
        """Whether the task is answered."""
        return task_id in self.answers or task_id in self.plans

    def mapping_tasks(self, design: Design) -> list[MappingTask]:
        """One task a demand, in their order; equal shapes of different networks are equal tasks."""
        return [
            MappingTask(design.architecture, demand.named, settings)
            for demand, settings in zip(self.demands, self._settings, strict=True)
        ]

    def open(self, design: Design, tasks: Sequence[Task]) -> tuple[list[Task], Row | None]:
        """Wait for the answers to the design's ``tasks``; returns those that nobody has asked for yet.

        The row is there at once where every answer already is.
        """
        ids = tuple(task.id for task in tasks)
        missing = {task_id for task_id in ids if not self.knows(task_id)}
        if not missing:
            return [], self.row(design, ids)
        new = {task.id: task for task in tasks if task.id in missing and task.id not in self._waiting}
        entry = _Open(design, ids, missing)
        for task_id in missing:
            self._waiting.setdefault(task_id, []).append(entry)
        return list(new.values()), None

    def record(self, task_id: str, answer: Answer) -> list[Row]:
        """Enter an answer; returns the rows of the designs that it completes."""
        if isinstance(answer, MappingAnswer):
            self.answers[task_id] = answer
        else:
            self.plans[task_id] = answer
        complete = []
        for entry in self._waiting.pop(task_id, []):
            entry.missing.discard(task_id)
            if not entry.missing:
                complete.append(self.row(entry.design, entry.tasks))
        return complete

    def row(self, design: Design, task_ids: tuple[str, ...]) -> Row:
        """The ``designs`` row of a design all of whose tasks are answered."""
        of_layers, of_networks = task_ids[: len(self.demands)], task_ids[len(self.demands) :]
        mine = [self.answers[task_id] for task_id in of_layers]
        plans = [self.plans[task_id] for task_id in of_networks]
        row = design_row(self.study, design) | self._effort(task_ids)
        row["networks"] = _by_network(self.demands, of_layers, mine)
        for network, task_id in zip(row["networks"].values(), of_networks, strict=bool(of_networks)):
            network["scratchpad"] = task_id
        bad = [(d, a) for d, a in zip(self.demands, mine, strict=True) if not a.mapped]
        reasons = [(a.status, f"{d.network}/{d.layer.name}: {a.status}: {a.remark}") for d, a in bad]
        if self.scratchpads:
            reasons += self.scratchpads.unplanned(plans)
        if reasons:
            return row | _without_answer(reasons)
        if self.scratchpads:
            row |= self.scratchpads.totals(design.architecture, plans)
        return row | _totals(design, self.demands, mine)

    def _effort(self, task_ids: tuple[str, ...]) -> Row:
        """The columns that count the design's solves, and the CPU time of those it was first to need."""
        distinct = {task_id: self.answers.get(task_id) or self.plans[task_id] for task_id in task_ids}
        first = [task_id for task_id in distinct if task_id not in self._first_need]
        self._first_need.update(first)
        return {
            "solves": len(distinct),
            "cached_solves": sum(answer.cached for answer in distinct.values()),
            "failures": sum(answer.status == "failed" for answer in distinct.values()),
            "cpu_seconds": sum(distinct[t].cpu_seconds for t in first if not distinct[t].cached),
        }


def design_row(study: Study, design: Design) -> Row:
    """The part of a ``designs`` row that is known before any solve; all of it for an infeasible design."""
    architecture = design.architecture
    asked = study.identity
    identity = [architecture.to_json(), asked["networks"], asked["mapping"]]
    if study.scratchpad is not None:
        identity.append(asked["scratchpad"])
    row: Row = {
        "design_id": content_hash(identity),
        "study": study.name,
        "axes": dict(design.values),
        "architecture_name": architecture.name,
        "architecture": architecture.to_json(),
        "area_um2": architecture.area_um2,
        "finished_at": datetime.now(UTC),
        "feasible": design.feasible,
        "trial": design.trial,
        "baseline": design.baseline,
    }
    if not design.feasible:
        row |= {"status": "infeasible", "note": "; ".join(design.broken), "solves": 0}
    return row


def infeasible_row(study: Study, design: Design, note: str) -> Row:
    """The row of a design that provably cannot run a network, known without a solve."""
    found = {"status": "infeasible", "feasible": False, "solves": 0, "note": note}
    return design_row(study, design) | found


def _without_answer(bad: list[tuple[str, str]]) -> Row:
    """Why a design has no objectives, from (status, sentence): failures, or what provably does not fit."""
    reasons = "; ".join(sentence for _, sentence in bad[:3])
    if len(bad) > 3:
        reasons += f"; and {len(bad) - 3} more"
    infeasible = all(status == "infeasible" for status, _ in bad)
    return {
        "status": "infeasible" if infeasible else "failed",
        "feasible": False,
        "note" if infeasible else "error": reasons,
    }


def _totals(design: Design, demands: tuple[Demand, ...], answers: list[MappingAnswer]) -> Row:
    """Sums over all networks: layers one after the other, times their counts and the network's weight."""
    energy, cycles = _sums(demands, [(answer.energy_pj, answer.cycles) for answer in answers])
    bounds = _sums(demands, [(answer.energy_bound_pj, answer.cycles_bound) for answer in answers])
    levels: Counter[str] = Counter()
    for demand, answer in zip(demands, answers, strict=True):
        levels.update({name: demand.runs * pj for name, pj in answer.levels})
    return objectives(design, energy, round(cycles)) | {
        "status": "complete",
        "energy_bound_pj": bounds[0],
        "cycles_bound": bounds[1],
        "energy_gap": (energy - bounds[0]) / energy,
        "cycles_gap": (round(cycles) - bounds[1]) / round(cycles),
        "energy_by_level_pj": dict(levels),
    }


def design_bounds(tasks: Sequence[MappingTask], demands: tuple[Demand, ...]) -> tuple[float, float]:
    """Proven lower bounds on energy_pj and cycles of a design with these tasks, whatever solver answers."""
    found = [space_bounds(problem_of(task)) for task in tasks]
    return _sums(demands, [(bounds.energy_pj, bounds.cycles) for bounds in found])


def problem_of(task: MappingTask) -> MappingProblem:
    return MappingProblem(task.architecture, task.layer, task.settings.objective, task.rules)


def _sums(demands: tuple[Demand, ...], parts: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Energy and cycles of all runs of all layers, added in the order of the demands."""
    energy = cycles = 0.0
    for demand, (energy_pj, layer_cycles) in zip(demands, parts, strict=True):
        energy += demand.runs * energy_pj
        cycles += demand.runs * layer_cycles
    return energy, cycles


def objectives(design: Design, energy_pj: float, cycles: int) -> Row:
    """The columns a study may minimise; each grows with energy and cycles, so bounds give bounds."""
    return {
        "area_um2": design.architecture.area_um2,
        "energy_pj": energy_pj,
        "cycles": cycles,
        "edp_pj_cycles": energy_pj * cycles,
        "latency_seconds": cycles / design.architecture.frequency_hz,
    }


def _by_network(demands: tuple[Demand, ...], task_ids: tuple[str, ...], answers: list[MappingAnswer]) -> Row:
    networks: Row = {}
    for demand, task_id, answer in zip(demands, task_ids, answers, strict=True):
        entry = networks.setdefault(demand.network, {"energy_pj": 0.0, "cycles": 0, "layers": []})
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
