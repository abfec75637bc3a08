"""Scratchpad plans in a study: each network in the storage level that the study names, and what they move."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from sys import intern
from typing import Any

from costmodel.architecture import Architecture, StorageLevel
from costmodel.architectures import load_architecture
from costmodel.errors import InputError, did_you_mean
from costmodel.networks import load_network
from costmodel.scratchpad import ScratchpadSettings, operator_graph
from costmodel.workload import Network
from solvers.budget import Stopwatch
from solvers.catalogue import solver, solver_names
from solvers.scratchpad.problem import ScratchpadProblem, below_requirement
from sweep.scratchpad_task import PlannedGraph, ScratchpadSolve, ScratchpadTask
from sweep.study import NetworkChoice, ScratchpadChoice, Study
from sweep.task import canonical_json, checked_params

FAMILY = "scratchpad"


@dataclass(frozen=True, slots=True)
class ScratchpadAnswer:
    """What designs need of a ``scratchpads`` row: how it ended, and bytes of off-chip access."""

    status: str
    cached: bool
    remark: str
    cpu_seconds: float
    spilled_bytes: int
    retrieved_bytes: int
    bound_bytes: float

    @classmethod
    def of(cls, row: ReadOnlyDict[str, Any], task: ScratchpadTask) -> ScratchpadAnswer:
        """Bytes are counted from the row's plan; without one they are 0. A missing bound is 0, as is true."""
        traffic = {tensor.name: tensor.traffic_bytes for tensor in task.planned.graph.tensors}
        tensors = (row.get("plan") or {"tensors": {}})["tensors"].items()
        return cls(
            intern(row["status"]),
            bool(row.get("cached")),
            intern(row.get("error") or row.get("note") or ""),
            row.get("cpu_seconds") or 0.0,
            sum(traffic[name] for name, tensor in tensors if tensor["spilled_at"] is not None),
            sum(traffic[name] * len(tensor["retrieved_at"]) for name, tensor in tensors),
            row.get("bound_bytes") or 0.0,
        )

    @property
    def planned(self) -> bool:
        return self.status in ("optimal", "feasible")


@dataclass(frozen=True)
class ScratchpadPlans:
    """One task a network on every design; InputError, when made, for what cannot be planned."""

    study: Study
    choice: ScratchpadChoice

    def __post_init__(self) -> None:
        self._level(load_architecture(self.study.architecture))
        for network in self._networks.values():
            _check_dataflow(network)
        assert self._solve

    @classmethod
    def of(cls, study: Study) -> ScratchpadPlans | None:
        """None for a study that plans no scratchpad."""
        return None if study.scratchpad is None else cls(study, study.scratchpad)

    @cached_property
    def _networks(self) -> dict[str, Network]:
        """By the names that the study shows them under."""
        return {n.shown: load_network(n.network, n.batch) for n in self.study.networks}

    @cached_property
    def _solve(self) -> ScratchpadSolve:
        """The solver with complete, checked parameters."""
        if solver(self.choice.solver).family != FAMILY:
            names = ", ".join(solver_names(FAMILY))
            raise InputError("scratchpad", f"one of {names}", self.choice.solver, key="solver")
        params = asdict(checked_params(self.choice.solver, self.choice.params))
        return ScratchpadSolve(self.choice.solver, canonical_json(params), self.choice.budget)

    @cached_property
    def _graphs(self) -> dict[tuple[str, int], PlannedGraph]:
        """By network and bits of an element, filled as they are needed."""
        return {}

    def _graph(self, choice: NetworkChoice, level: StorageLevel) -> PlannedGraph:
        bits = self.choice.bits_per_element or level.word_bits
        key = (choice.shown, bits)
        if key not in self._graphs:
            graph = operator_graph(self._networks[choice.shown], self._settings(bits))
            self._graphs[key] = PlannedGraph(replace(graph, name=choice.shown))
        return self._graphs[key]

    def _settings(self, bits: int) -> ScratchpadSettings:
        choice = self.choice
        return ScratchpadSettings(
            choice.parameters, choice.inputs_on_host, choice.in_place, bits, choice.alignment_bytes
        )

    def _level(self, architecture: Architecture) -> StorageLevel:
        """The storage level that is the scratchpad: of limited size, and only one of it."""
        names = [level.name for level in architecture.levels]
        if self.choice.level not in names:
            remedy = did_you_mean(self.choice.level, names)
            raise InputError(
                "scratchpad", f"a level among {', '.join(names)}", self.choice.level, remedy, key="level"
            )
        index = architecture.index(self.choice.level)
        level, instances = architecture.levels[index], architecture.instances[index]
        if level.size_words is None or instances > 1:
            found = f"{level.name}, unlimited" if level.size_words is None else f"{instances} of {level.name}"
            raise InputError("scratchpad", "a level of limited size, one of it", found, key="level")
        return level

    def tasks(self, architecture: Architecture) -> list[ScratchpadTask]:
        """One task a network of the study, in their order."""
        level = self._level(architecture)
        size = capacity_bytes(level)
        return [ScratchpadTask(self._graph(n, level), size, self._solve) for n in self.study.networks]

    def too_small(self, architecture: Architecture) -> str:
        """Why the scratchpad holds some network by no plan: MR and the operator that needs it; else ''."""
        for task in self.tasks(architecture):
            problem = ScratchpadProblem(task.planned.graph, task.budget_bytes)
            if refused := below_requirement(problem, Stopwatch()):
                return f"scratchpad of {task.planned.graph.name}: {refused.note}"
        return ""

    def unplanned(self, answers: Sequence[ScratchpadAnswer]) -> list[tuple[str, str]]:
        """(status, sentence) of the networks that have no plan."""
        return [
            (answer.status, f"scratchpad of {network.shown}: {answer.status}: {answer.remark}")
            for network, answer in zip(self.study.networks, answers, strict=True)
            if not answer.planned
        ]

    def totals(self, architecture: Architecture, answers: Sequence[ScratchpadAnswer]) -> dict[str, Any]:
        """The off-chip columns of a ``designs`` row: sums over the networks with their weights.

        A spill writes to the outermost level, a retrieval reads from it: its energies in pJ per byte.
        """
        outermost = architecture.levels[-1]
        write, read = (
            energy * 8 / (outermost.block_size * outermost.word_bits)
            for energy in (outermost.write_energy_pj, outermost.read_energy_pj)
        )
        moved = energy_pj = bound = 0.0
        for network, answer in zip(self.study.networks, answers, strict=True):
            moved += network.weight * (answer.spilled_bytes + answer.retrieved_bytes)
            energy_pj += network.weight * (answer.spilled_bytes * write + answer.retrieved_bytes * read)
            bound += network.weight * answer.bound_bytes
        return {
            "off_chip_bytes": round(moved),
            "off_chip_energy_pj": energy_pj,
            "off_chip_bytes_bound": min(bound, float(round(moved))),
        }


def capacity_bytes(level: StorageLevel) -> int:
    """Whole bytes of a level of limited size."""
    assert level.size_words is not None
    return level.size_words * level.word_bits // 8


def _check_dataflow(network: Network) -> None:
    """Raises InputError for a list of layers, none of which reads what another one made."""
    made = {name for node in network.nodes for name in node.outputs}
    if not any(name in made for node in network.nodes for name in node.inputs):
        raise InputError(
            network.name,
            "a network whose operators pass tensors on, to plan its scratchpad",
            "layers without dataflow",
            "Leave the network or the scratchpad out of the study.",
            key="scratchpad",
        )
