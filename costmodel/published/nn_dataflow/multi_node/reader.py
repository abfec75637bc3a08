"""Multi-node files: YAML after KAPLA's Fig 4 with named sets of unit costs, read into :class:`MultiNode`.

# The multi-node file

```yaml
name: my-device
description: what it is            # optional, for people
source: where the numbers are from # optional, a text or a list of texts
frequency: 500 MHz
word_bits: 16
nodes: [16, 16]                    # columns, rows
pe_array: [8, 8]                   # columns, rows of a node
array_mapping: row_stationary      # or systolic
buffer: 32 KiB                     # of a node
registers: 64 B                    # of a PE
bus: 8 words/cycle                 # of each of a node's three buses
node_forwarding: true              # nodes take from neighbours what these hold
pe_forwarding: true
node_broadcast: true               # memory sends a word once to all nodes that take it (the default)
pe_broadcast: true
unit_costs:                        # as many sets as there are sources; who loads the file says which
  measured:
    source: whose numbers
    mac: 1 pJ
    dram: 128 pJ                   # per word, as are buffer, bus (to one PE) and register
    buffer: 5.7 pJ
    bus: 1.6 pJ
    register: 0.2 pJ
    hop: 9.76 pJ                   # a word and hop
    idle: 1272 pJ/cycle            # of the whole chip
    dram_bandwidth: 25.6 GB/s
```
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from costmodel.errors import InputError, did_you_mean
from costmodel.formats.yaml.architecture_document import (
    AtLeastOne,
    Bandwidth,
    Energy,
    Frequency,
    Leakage,
    LevelName,
    Size,
    Sources,
)
from costmodel.formats.yaml.file_keys import Keys, check_keys
from costmodel.formats.yaml.quantities import Quantity
from costmodel.published.nn_dataflow.multi_node.template import ArrayMapping, EnergyTable, MultiNode

Sides = Annotated[list[AtLeastOne], Field(min_length=2, max_length=2)]


class CostKeys(Keys):
    """One set of ``unit_costs``."""

    source: Sources = Field(default_factory=list)
    mac: Energy
    dram: Energy
    buffer: Energy
    bus: Energy
    register_: Annotated[Energy, Field(alias="register")]
    hop: Energy
    idle: Leakage
    dram_bandwidth: Bandwidth


class MultiNodeKeys(Keys):
    """A whole multi-node file."""

    name: Annotated[str, Field(min_length=1)]
    description: str = ""
    source: Sources = Field(default_factory=list)
    frequency: Frequency
    word_bits: AtLeastOne
    nodes: Sides
    pe_array: Sides
    array_mapping: ArrayMapping
    buffer: Size
    registers: Size
    bus: Bandwidth
    node_forwarding: bool = False
    pe_forwarding: bool = False
    node_broadcast: bool = True
    pe_broadcast: bool = True
    unit_costs: Annotated[dict[LevelName, CostKeys], Field(min_length=1)]


def multi_node_from_document(document: Any, where: str, costs: str) -> MultiNode:
    """The device of a file's content with the set of unit costs called ``costs``.

    Raises InputError naming the file and the key for what is missing, unknown or impossible.
    """
    keys = check_keys(MultiNodeKeys, document, where)
    if costs not in keys.unit_costs:
        known = list(keys.unit_costs)
        raise InputError(
            where, f"one of {', '.join(known)}", costs, did_you_mean(costs, known), key="unit_costs"
        )
    return _Reader(keys, where).multi_node(costs)


@dataclass(frozen=True)
class _Reader:
    """Checked keys on their way to a device: bytes become words, seconds cycles."""

    keys: MultiNodeKeys
    where: str

    def multi_node(self, costs: str) -> MultiNode:
        keys = self.keys
        try:
            return MultiNode(
                name=keys.name,
                columns=keys.nodes[0],
                rows=keys.nodes[1],
                pe_columns=keys.pe_array[0],
                pe_rows=keys.pe_array[1],
                buffer_words=self._whole(keys.buffer, "buffer"),
                register_words=self._whole(keys.registers, "registers"),
                bus_words_per_cycle=self._whole(keys.bus, "bus"),
                costs=self._costs(costs, keys.unit_costs[costs]),
                array_mapping=keys.array_mapping,
                word_bits=keys.word_bits,
                frequency_hz=float(keys.frequency.value),
                node_forwarding=keys.node_forwarding,
                pe_forwarding=keys.pe_forwarding,
                node_broadcast=keys.node_broadcast,
                pe_broadcast=keys.pe_broadcast,
            )
        except InputError as error:
            raise error if error.where == self.where else error.at(self.where) from None

    def _costs(self, name: str, keys: CostKeys) -> EnergyTable:
        idle = float(keys.idle.value)
        if keys.idle.unit == "pJ/s":
            idle /= self.keys.frequency.value
        return EnergyTable(
            name,
            mac_pj=float(keys.mac.value),
            dram_pj=float(keys.dram.value),
            buffer_pj=float(keys.buffer.value),
            bus_pj=float(keys.bus.value),
            register_pj=float(keys.register_.value),
            hop_pj=float(keys.hop.value),
            idle_pj_per_cycle=idle,
            dram_words_per_cycle=self._words(keys.dram_bandwidth),
        )

    def _words(self, quantity: Quantity) -> float:
        """Words, or words per cycle."""
        in_bits = quantity.unit.startswith("bits")
        value = float(quantity.value / self.keys.word_bits if in_bits else quantity.value)
        return value / self.keys.frequency.value if quantity.unit.endswith("/s") else value

    def _whole(self, quantity: Quantity, key: str) -> int:
        words = self._words(quantity)
        if words != int(words) or words < 1:
            raise InputError(
                self.where, f"whole words of {self.keys.word_bits} bits", quantity.written, key=key
            )
        return int(words)
