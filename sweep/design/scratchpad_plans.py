"""Scratchpad plans in a study: each network's in the storage level that it names, and their traffic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from costmodel.errors import InputError, did_you_mean
from costmodel.formats.architectures import load_architecture
from costmodel.hardware.architecture import Architecture, StorageLevel
from costmodel.scratchpad.divisions import divisible_graph
from costmodel.scratchpad.graph import ScratchpadSettings, operator_graph
from costmodel.workload.network import Network
from results.store.schema.rows import DesignRow
from solvers.budget import Stopwatch
from solvers.scratchpad.problem import ScratchpadProblem, below_requirement
from sweep.study.network_choice import NetworkChoice
from sweep.study.study import ScratchpadChoice, Study
from sweep.study.study_names import complete_params, network_of
from sweep.tasks.scratchpad import PlannedGraph, ScratchpadSolve, ScratchpadTask
from sweep.tasks.summaries import ScratchpadSummary

FAMILY = "scratchpad"


@dataclass(frozen=True)
class ScratchpadPlans:
    """One task for each network of the study on every design."""

    networks: tuple[NetworkChoice, ...]
    choice: ScratchpadChoice
    loaded: dict[str, Network]
    """The networks by the names under which the study shows them."""
    solve: ScratchpadSolve
    where: str
    """What errors call the study."""

    @classmethod
    def of(cls, study: Study) -> ScratchpadPlans | None:
        """None for a study that plans no scratchpad; InputError for what it names and cannot have."""
        choice = study.scratchpad
        if choice is None:
            return None
        _check_level(study, choice.level)
        loaded = {n.shown: network_of(study, position) for position, n in enumerate(study.networks)}
        for position, network in enumerate(loaded.values()):
            _check_dataflow(study, position, network)
        params = complete_params(study, "scratchpad", FAMILY, choice.solver, choice.params)
        solve = ScratchpadSolve(choice.solver, params, choice.budget)
        return cls(study.networks, choice, loaded, solve, study.where)

    @cached_property
    def _graphs(self) -> dict[tuple[str, int], PlannedGraph]:
        """Operator graphs by network and bits of an element, made as they are needed."""
        return {}

    def _graph(self, choice: NetworkChoice, level: StorageLevel) -> PlannedGraph:
        bits = self.choice.bits_per_element or level.word_bits
        key = (choice.shown, bits)
        if key not in self._graphs:
            try:
                network, settings = self.loaded[choice.shown], self._settings(bits)
                graph = replace(operator_graph(network, settings), name=choice.shown)
                divisible = divisible_graph(network, settings) if self.choice.bands else None
            except InputError as error:
                raise error.at(self.where, "scratchpad") from None
            if divisible is not None:
                divisible = replace(divisible, whole=graph)
            self._graphs[key] = PlannedGraph(graph, divisible)
        return self._graphs[key]

    def _settings(self, bits: int) -> ScratchpadSettings:
        choice = self.choice
        return ScratchpadSettings(
            choice.parameters, choice.inputs_on_host, choice.in_place, bits, choice.alignment_bytes
        )

    def _level(self, architecture: Architecture) -> StorageLevel:
        return architecture.levels[architecture.index(self.choice.level)]

    def tasks(self, architecture: Architecture) -> list[ScratchpadTask]:
        """One task for each network of the study, in their order; for designs without an :meth:`obstacle`."""
        level = self._level(architecture)
        size = capacity_bytes(level)
        return [ScratchpadTask(self._graph(n, level), size, self.solve) for n in self.networks]

    def obstacle(self, architecture: Architecture) -> str:
        """Why some network has no plan on this design, as far as that is known before any solve; else empty.

        The level has several instances or no limit, so it is no scratchpad; or it is smaller than MR, what
        the network's largest operator needs. The reason names that operator.
        """
        index = architecture.index(self.choice.level)
        level, instances = architecture.levels[index], architecture.instances[index]
        if instances > 1:
            return f"scratchpad: there are {instances} of {level.name}, each with a part of the tensors"
        if level.size_words is None:
            return f"scratchpad: {level.name} is of unlimited size"
        for network in self.networks:
            planned = self._graph(network, level)
            problem = ScratchpadProblem(planned.graph, capacity_bytes(level), planned.divisible)
            if refused := below_requirement(problem, Stopwatch()):
                return f"scratchpad of {network.shown}: {refused.note}"
        return ""

    def unplanned(self, answers: Sequence[ScratchpadSummary]) -> list[tuple[str, str]]:
        """(status, sentence) of the networks that have no plan."""
        return [
            (answer.status, f"scratchpad of {network.shown}: {answer.status}: {answer.remark}")
            for network, answer in zip(self.networks, answers, strict=True)
            if not answer.planned
        ]

    def totals(self, architecture: Architecture, answers: Sequence[ScratchpadSummary]) -> DesignRow:
        """The off-chip columns of a ``designs`` row: weighted sums over the networks.

        A spill writes to the outermost level, a retrieval reads from it. Every byte that the bound counts
        is one or the other, and so costs at least the cheaper of the two.
        """
        # the column of bytes is rounded, and so is its bound where that lowers it
        write_pj, read_pj = off_chip_pj_per_byte(architecture.levels[-1])
        moved = energy_pj = bound = 0.0
        for network, answer in zip(self.networks, answers, strict=True):
            moved += network.weight * (answer.spilled_bytes + answer.retrieved_bytes)
            energy_pj += network.weight * (answer.spilled_bytes * write_pj + answer.retrieved_bytes * read_pj)
            bound += network.weight * answer.bound_bytes
        return {
            "off_chip_bytes": round(moved),
            "off_chip_bytes_bound": min(bound, float(round(bound))),
            "off_chip_energy_pj": energy_pj,
            "off_chip_energy_bound_pj": min(bound * min(write_pj, read_pj), energy_pj),
        }


def off_chip_pj_per_byte(level: StorageLevel) -> tuple[float, float]:
    """pJ for writing a byte to the level and for reading one, where each access moves a full block."""
    block_bytes = level.block_size * level.word_bits / 8
    return level.write_energy_pj / block_bytes, level.read_energy_pj / block_bytes


def capacity_bytes(level: StorageLevel) -> int:
    """Whole bytes of a level of limited size."""
    assert level.size_words is not None
    return level.size_words * level.word_bits // 8


def _check_level(study: Study, level: str) -> None:
    architecture = load_architecture(study.architecture, study.of_all_designs)
    if architecture.precision is not None or any(key.split(".")[0] == "precision" for key in study.axes):
        remedy = "Leave one of the two out: a plan has bits_per_element of its own"
        raise InputError(study.where, "no precision beside a scratchpad", "one", remedy, key="scratchpad")
    names = [known.name for known in architecture.levels[:-1]]
    if level not in names:
        remedy = did_you_mean(level, names)
        expected = f"a level within the outermost one: {', '.join(names)}"
        raise InputError(study.where, expected, level, remedy, key="scratchpad.level")


def _check_dataflow(study: Study, position: int, network: Network) -> None:
    """Raises InputError for a list of layers, none of which reads what another one made."""
    made = {name for node in network.nodes for name in node.outputs}
    if not any(name in made for node in network.nodes for name in node.inputs):
        raise InputError(
            study.where,
            "a network whose operators pass tensors on, to plan its scratchpad",
            f"{network.name}, a list of layers without dataflow",
            "Leave the network or the scratchpad out of the study.",
            key="scratchpad",
        )
