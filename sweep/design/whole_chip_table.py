"""What layers cost when each has the whole chip: which mappings have to be solved, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from costmodel.formats.cases.mapping import mapping_from_json
from costmodel.hardware.architecture import Architecture
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.graph import NetworkLayer
from costmodel.schedule.whole_chip.cost import WholeChipCost, whole_chip_cost
from costmodel.schedule.whole_chip.padding import padded_inputs
from costmodel.workload.network import Tensor
from results.store.known_answers import StoredAnswers
from results.store.schema.rows import LayerRow
from results.store.schema.tables import LAYERS
from solvers.schedule.tiles.mapper import with_sizes_of
from sweep.tasks.chips.schedule import TiledChip
from sweep.tasks.mapping import MappingTask, architecture_id


@dataclass
class WholeChipTable:
    """Mappings of layers on whole chips by task, from the store and from this run; each is solved once.

    Chips with the same stack of levels have their mappings in common. What a mapping costs is counted for
    each chip, because its mesh decides how far the data travel.
    ``store`` has the run folders whose mappings are reused; None solves everything.
    """

    store: StoredAnswers | None = None
    _found: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    """By id of the task, the mapping as JSON; None where the solver found none."""
    _looked_up: set[str] = field(default_factory=set)
    """Ids of the architectures for whose mappings the store was searched."""
    _costs: dict[tuple[str, str, Tensor | None, ElementBits], WholeChipCost | None] = field(
        default_factory=dict
    )
    """By the ids of chip and task, the input tensor as far as it is no padding, and the bits of elements."""

    def open_tasks(self, tasks: Iterable[MappingTask]) -> list[MappingTask]:
        """The ``tasks`` whose answers are not known yet, each once."""
        distinct = {task.id: task for task in tasks}
        for architecture in dict.fromkeys(task.architecture for task in distinct.values()):
            self._look_up(architecture)
        return [task for task in distinct.values() if task.id not in self._found]

    def record(self, task: MappingTask, row: LayerRow) -> None:
        """Enter the row of a task. One that failed stays open, and is solved again when it is asked for."""
        if row["status"] != "failed":
            self._found[task.id] = row.get("mapping")

    def cost(self, on: TiledChip, task: MappingTask, layer: NetworkLayer) -> WholeChipCost | None:
        """What a layer costs on the chip by the mapping of its loop nest; None where none was found.

        Tasks know loop nests; the ``layer`` says what of its inputs is no padding, and which of its tensors
        are parameters. KeyError where the task is still open.
        """
        padded, bits = padded_inputs(layer), ElementBits.of(layer, on.chip.tile.widths)
        key, nest = (on.id, task.id, padded, bits), task.layer
        if key not in self._costs:
            found = self._found[task.id]
            mapping = None if found is None else mapping_from_json(task.architecture, nest, found, "mapping")
            if mapping is None:
                self._costs[key] = None
            else:
                executed = with_sizes_of(mapping, nest)
                self._costs[key] = whole_chip_cost(on.chip, executed, mapping, padded, bits)
        return self._costs[key]

    def _look_up(self, architecture: Architecture) -> None:
        """Enter all stored mappings on ``architecture``, whatever their layers; reads the store once."""
        identity = architecture_id(architecture)
        if self.store is None or identity in self._looked_up:
            return
        self._looked_up.add(identity)
        rows = self.store.matching(LAYERS, "architecture_id", [identity], ("task_id", "mapping"))
        for row in rows:
            self._found.setdefault(row["task_id"], row["mapping"])
