"""Groups of layers that a study maps together: their tasks, and what that is worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from costmodel.errors import InputError, did_you_mean
from costmodel.formats.architectures import load_architecture
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.fused.layers.links import group_of
from costmodel.workload.network import Layer
from solvers.fusion.layers.floors import group_bounds
from solvers.fusion.problem import value
from sweep.study.fusion_choice import FusionChoice
from sweep.study.study import Study
from sweep.study.study_names import complete_params, network_of
from sweep.tasks.energy_cycles import EnergyCycles, least_of, sum_of
from sweep.tasks.fusion import FusedLayers, FusionSolve, FusionTask
from sweep.tasks.summaries import FusionSummary, MappingSummary

FAMILY = "layer_fusion"


class GroupMember(Protocol):
    """A distinct layer of a network, as the workload of mappings has it."""

    @property
    def network(self) -> str: ...
    @property
    def layer(self) -> Layer: ...


@dataclass(frozen=True)
class GroupDemand:
    """One distinct group of one network, which occurs ``count`` times in a run of the network.

    ``members`` are the positions of its layers among the workload's demands, ``names`` those of the layers of
    its first occurrence.
    """

    network: str
    weight: float
    fused: FusedLayers
    names: tuple[str, ...]
    members: tuple[int, ...]
    count: int

    @property
    def runs(self) -> float:
        """How often the group runs in the design's sums: its count times the weight of its network."""
        return self.count * self.weight


@dataclass(frozen=True)
class FusedGroups:
    """The groups of all networks of a study."""

    groups: tuple[GroupDemand, ...]

    @classmethod
    def of(cls, study: Study, demands: Sequence[GroupMember]) -> FusedGroups | None:
        """None for a study that maps no layers together; InputError for what it names and cannot have."""
        choice = study.fusion
        if choice is None:
            return None
        architecture = _architecture(study)
        params = complete_params(study, "fusion", FAMILY, choice.solver, choice.solver_params)
        solve = FusionSolve(
            choice.solver,
            study.mapping_objective,
            choice.longest,
            params,
            choice.budget,
            choice.recompute,
            choice.pipelined,
        )
        # Tasks are made once for equal groups of a network (``asked`` is equal), as they are for equal
        # layers.
        position = {(one.network, one.layer.shape): number for number, one in enumerate(demands)}
        groups: list[GroupDemand] = []
        met: set[int] = set()
        for number, named in enumerate(study.networks):
            network = network_of(study, number)
            layers = {layer.name: layer for layer in network.layers}
            count: Counter[str] = Counter()
            first: dict[str, tuple[FusedLayers, tuple[str, ...]]] = {}
            for names, stated in choice.segments_of(network):
                met |= set() if stated is None else {stated}
                # reading a group off the network knows no file: its errors get the study's name and key here
                try:
                    group = group_of(
                        architecture,
                        network,
                        names,
                        cut_rows=choice.cut_rows,
                        windows=choice.windows,
                        columns=choice.columns,
                    )
                except InputError as error:
                    key = "fusion" if stated is None else f"fusion.segments[{stated}]"
                    raise InputError(
                        study.where, error.expected, error.found, error.remedy, key=key
                    ) from None
                fused = FusedLayers(group, solve)
                first.setdefault(fused.asked, (fused, names))
                count[fused.asked] += 1
            for asked, (fused, names) in first.items():
                members = tuple(position[named.shown, layers[name].shape] for name in names)
                groups.append(GroupDemand(named.shown, named.weight, fused, names, members, count[asked]))
        _check_met(study, choice, met)
        return cls(tuple(groups))

    @cached_property
    def grouped(self) -> Counter[int]:
        """How many occurrences of each demand, by its position, are in groups."""
        found: Counter[int] = Counter()
        for group in self.groups:
            for member in group.members:
                found[member] += group.count
        return found

    def tasks(self, architecture: Architecture) -> list[FusionTask]:
        """One task for each group, in their order; equal groups of different networks are equal tasks."""
        return [
            FusionTask(architecture, group.fused, f"{group.network}/{', '.join(group.names)}")
            for group in self.groups
        ]

    def failed(self, answers: Sequence[FusionSummary]) -> list[tuple[str, str]]:
        """(status, sentence) of the groups whose solve failed. A group without an answer is none of them: its
        layers run one by one."""
        return [
            (answer.status, f"{group.network}/{', '.join(group.names)}: {answer.status}: {answer.remark}")
            for group, answer in zip(self.groups, answers, strict=True)
            if answer.status == "failed"
        ]

    def outcomes(
        self, answers: Sequence[FusionSummary], layers: Sequence[MappingSummary]
    ) -> list[GroupOutcome]:
        """What becomes of each group; ``layers`` are the answers to all demands."""
        return [
            GroupOutcome(group, answer, tuple(layers[member] for member in group.members))
            for group, answer in zip(self.groups, answers, strict=True)
        ]

    def bounds(self, tasks: Sequence[FusionTask], layers: Sequence[EnergyCycles]) -> list[EnergyCycles]:
        """Lower bounds on energy and cycles of each group, together or one by one.

        ``layers``: those of all demands, one by one.
        """
        return [
            _bounds_of_either(
                EnergyCycles(
                    *group_bounds(group.fused.on(task.architecture), pipelined=task.solve.pipelined)
                ),
                [layers[member] for member in group.members],
            )
            for group, task in zip(self.groups, tasks, strict=True)
        ]


@dataclass(frozen=True)
class GroupOutcome:
    """A group, the answer to its task, and the answers of its layers one by one."""

    demand: GroupDemand
    answer: FusionSummary
    layers: tuple[MappingSummary, ...]

    @cached_property
    def unfused(self) -> EnergyCycles:
        """What the layers cost one by one."""
        return sum_of(layer.cost for layer in self.layers)

    @cached_property
    def together(self) -> bool:
        """Whether the layers are mapped together: only where something is shared, and that is better."""
        if not (self.answer.mapped and self.answer.together):
            return False
        objective = self.demand.fused.solve.objective
        # Layers one by one have a solver each, and budgets of their own, so they may turn out to be better.
        return value(objective, *self.answer.cost) < value(objective, *self.unfused)

    @property
    def cost(self) -> EnergyCycles:
        """What the better of both costs."""
        return self.answer.cost if self.together else self.unfused

    @property
    def bounds(self) -> EnergyCycles:
        """Proven lower bounds on energy and cycles, together or one by one."""
        return _bounds_of_either(self.answer.bounds, [layer.bounds for layer in self.layers])

    @property
    def levels(self) -> dict[str, float]:
        """The energy by storage level, in pJ."""
        if self.together:
            return dict(self.answer.levels)
        found: Counter[str] = Counter()
        for layer in self.layers:
            found.update(dict(layer.levels))
        return dict(found)


def _bounds_of_either(together: EnergyCycles, layers: Sequence[EnergyCycles]) -> EnergyCycles:
    """Lower bounds on energy and cycles of a group that is mapped together or layer by layer."""
    # what is mapped the better way costs no less than the lower of both bounds
    return least_of((together, sum_of(layers)))


def _architecture(study: Study) -> Architecture:
    """The architecture that all designs vary; InputError for one that fused mappings are not counted on."""
    if any(key.split(".")[0] == "precision" for key in study.axes):
        expected = "no precision beside fusion: what is held on the chip is counted in words"
        raise InputError(study.where, expected, "an axis of it", "Leave one of them out", key="fusion")
    return load_architecture(study.architecture, study.of_all_designs)


def _check_met(study: Study, choice: FusionChoice, met: set[int]) -> None:
    """InputError for a stated list of names of which no network has layers."""
    if isinstance(choice.segments, str):
        return
    for number, stated in enumerate(choice.segments):
        if number not in met:
            known = [layer.name for n in range(len(study.networks)) for layer in network_of(study, n).layers]
            wrong = next((name for name in stated if "*" not in name and name not in known), stated[0])
            raise InputError(
                study.where,
                "names of layers of one network",
                wrong,
                did_you_mean(wrong, known),
                key=f"fusion.segments[{number}]",
            )
