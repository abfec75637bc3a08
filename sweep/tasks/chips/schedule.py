"""Schedule tasks: schedule a batch of one network on one chip, by one solver with one seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, cast

from costmodel.errors import InputError
from costmodel.hardware.architecture import Architecture
from costmodel.hardware.chip import Chip
from costmodel.hardware.whole_chip import whole_architecture
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.workload.network import Layer
from results.store.schema.rows import ScheduleRow
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.schedule.repeated.blocks import repeated_block
from solvers.schedule.repeated.solver import VERSION as REPEATED_VERSION
from solvers.schedule.set.epochs import EpochOf
from solvers.schedule.tiles.layer_parts import Pruning, TileCostDemand
from sweep import VERSION
from sweep.study.identity import content_hash
from sweep.tasks.chips.scheduling_costs import SchedulingCosts
from sweep.tasks.chips.tile_costs import TileCostSource
from sweep.tasks.fusion import FusionSolve
from sweep.tasks.mapping import MappingTask, architecture_content, solve_columns, solve_content


@dataclass(frozen=True)
class ScheduleSolve:
    """Which solver answers, for which objective; ``params`` is its complete Params as canonical JSON."""

    solver: str
    objective: str
    params: str
    budget: Budget

    @property
    def asks(self) -> bool:
        """Whether the solver asks for costs as it goes; for others the whole table is solved first."""
        return solver(self.solver).asks_for_costs

    @cached_property
    def content(self) -> dict[str, Any]:
        return {"objective": self.objective, **solve_content(self.solver, self.params, self.budget)}


@dataclass(frozen=True, eq=False)
class ScheduledNetwork:
    """A network under the name that the study shows; all its tasks have its content in common."""

    name: str
    graph: LayerGraph

    @cached_property
    def content(self) -> list[dict[str, Any]]:
        """The layers as JSON, not to be changed. Their names are part of it, because trees name layers."""
        return [layer.to_json() for layer in self.graph.layers]

    @cached_property
    def id(self) -> str:
        return content_hash(self.content)

    @cached_property
    def repeats(self) -> bool:
        """Whether the network repeats a block of layers."""
        return repeated_block(self.graph) is not None


COUNT = "fused groups, version 1"
"""How groups are chosen and counted; schedules with other ones are not reused."""
RANKING = "2"
"""Version of the order of partitions by promise: another order changes answers where not all are tried."""


@dataclass(frozen=True, eq=False)
class TiledChip:
    """A chip, what maps layers on its tiles (``source``), and which partitions are tried (``pruning``).

    ``whole_chip``: whether a layer may have the whole chip, with its data in DRAM, mapped by the same solver.
    ``groups``: what maps the layers of a segment together; None where none are.
    """

    chip: Chip
    source: TileCostSource
    pruning: Pruning
    whole_chip: bool = False
    groups: FusionSolve | None = None

    @cached_property
    def content(self) -> dict[str, Any]:
        """What answers depend on, as JSON: no name, clock or areas; the source's id is the tile's inside."""
        chip = self.chip
        bare = replace(
            chip,
            name="",
            frequency_ghz=1.0,
            tile=replace(chip.tile, architecture=None, vector_area_um2=0.0),
            noc=replace(chip.noc, router_area_um2=0.0),
            dram=replace(chip.dram, interface_area_um2=0.0),
        )
        own = {"chip": bare.to_json(), "tile_source": self.source.id, "pruning": self.pruning.content}
        # where all partitions are tried, their order changes no answer
        ranking = {"partitions_ranked_by": RANKING} if self.pruning.most is not None else {}
        groups = {} if self.groups is None else {"fused_groups": [COUNT, self.groups.content]}
        return own | {"whole_chip": self.whole_chip} | ranking | groups

    @cached_property
    def id(self) -> str:
        return content_hash(self.content)

    @cached_property
    def sent(self) -> dict[str, Any]:
        """The content as workers need it: with the tile's architecture, by which partitions are ranked."""
        bare = self.content["chip"]
        tile = bare["tile"] | {"architecture": architecture_content(self.source.architecture)}
        return self.content | {"chip": bare | {"tile": tile}}

    @cached_property
    def whole(self) -> Architecture:
        """The chip as one stack of levels, on which layers that have the whole chip are mapped.

        InputError for tiles without an architecture.
        """
        found = whole_architecture(self.chip)
        if found is None:
            expected = "tiles with an architecture, for layers on the whole chip"
            raise InputError(f"chip {self.chip.name}", expected, "none", key="tile.architecture")
        return found

    def whole_chip_task(self, nest: Layer) -> MappingTask:
        """The task that maps ``nest`` on the whole chip."""
        return MappingTask(self.whole, nest, self.source.settings)


@dataclass(frozen=True, eq=False)
class ScheduleTask:
    """Schedule a batch of a network on a chip; equal contents have equal :attr:`id`.

    ``demand``: the tile costs that trees of this network and batch on this chip may ask for.
    """

    network: ScheduledNetwork
    on: TiledChip
    demand: TileCostDemand
    solve: ScheduleSolve
    epoch: EpochOf | None = None
    before: tuple[ScheduleTask, ...] = ()
    """The tasks of the epoch before, one for each seed, whose best trees are exchanged; none in the first."""
    repeat_blocks: bool = False
    """Whether the block that the network repeats is scheduled once, for all of its copies."""

    table = "schedules"

    @property
    def batch(self) -> int:
        return self.demand.batch

    @cached_property
    def id(self) -> str:
        parts = ["schedule", self.network.id, self.batch, self.on.id, self.solve.content]
        if self.epoch is not None:
            # before the first exchange there are no tasks before: the id does not depend on the other seeds
            parts.append([self.epoch.number, self.epoch.count, [task.id for task in self.before]])
        if self.repeat_blocks:
            parts.append(["repeated blocks", REPEATED_VERSION])
        return content_hash(parts)

    def payload(self, costs: SchedulingCosts, states: Sequence[Any] = ()) -> dict[str, Any]:
        """What a worker is sent, as plain data: what the answer depends on, and the costs of layers.

        ``states``: those of all seeds after the epoch before, none for a first epoch.
        """
        return {
            "kind": "schedule",
            "archsweep_version": VERSION,
            "layers": self.network.content,
            "batch": self.batch,
            **self.on.sent,
            **costs.to_json(),
            **self.solve.content,
            "repeat_blocks": self.repeat_blocks,
            "epoch": self.epoch and asdict(self.epoch),
            "states": list(states),
        }

    @property
    def columns(self) -> ScheduleRow:
        """The columns of a ``schedules`` row that the task decides."""
        settings = self.on.source.settings.content
        mapper = {**settings, "source_id": self.on.source.id, "pruning": self.on.pruning.content}
        mapper |= {} if self.on.groups is None else {"fused_groups": True}
        own: ScheduleRow = {
            "network": self.network.name,
            "network_content": self.network.id,
            "batch": self.batch,
            "chip_id": self.on.id,
            "chip": self.on.content["chip"],
            "tile_mapper": mapper | {"whole_chip": True} if self.on.whole_chip else mapper,
            "objective_name": self.solve.objective,
            "epoch": None if self.epoch is None else self.epoch.number,
        }
        return own | cast(ScheduleRow, solve_columns(self.solve.content))
