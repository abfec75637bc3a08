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
from costmodel.hardware.multi_node.template import ArrayMapping, EnergyTable, MultiNode

Sides = Annotated[list[AtLeastOne], Field(min_length=2, max_length=2)]


class CostKeys(Keys):
    """One set of ``unit_costs``: energies that one source states together.

    A file may have several, because the paper and the released program disagree. DRAM's bandwidth belongs to
    the set for the same reason.
    """

    source: Sources = Field(default_factory=list)
    """Whose numbers they are."""
    mac: Energy
    """Of one multiply-accumulate."""
    dram: Energy
    """Of a word of DRAM read or written."""
    buffer: Energy
    """Of a word of a node's buffer read or written."""
    bus: Energy
    """Of a word on a node's bus, to one PE."""
    register_: Annotated[Energy, Field(alias="register")]
    """Of a word of a PE's registers read or written. (``register`` is a method of all models already.)"""
    hop: Energy
    """Of a word over one link of the mesh."""
    idle: Leakage
    """Of the whole chip in every cycle."""
    dram_bandwidth: Bandwidth
    """Of all DRAM together."""


class MultiNodeKeys(Keys):
    """A whole multi-node file."""

    name: Annotated[str, Field(min_length=1)]
    """The device's name."""
    description: str = ""
    """What it is, for people."""
    source: Sources = Field(default_factory=list)
    """Where its sizes are from."""
    frequency: Frequency
    """The clock, by which bandwidths and power per second become those per cycle."""
    word_bits: AtLeastOne
    """Bits of every word, of MACs as of all memories: the template knows one width."""
    nodes: Sides
    """Columns and rows of nodes."""
    pe_array: Sides
    """Columns and rows of the PEs in a node."""
    array_mapping: ArrayMapping
    """How a node's array runs a layer."""
    buffer: Size
    """What a node's buffer holds."""
    registers: Size
    """What a PE's registers hold."""
    bus: Bandwidth
    """Of each of a node's three buses."""
    node_forwarding: bool = False
    """Whether nodes take from neighbours what these hold."""
    pe_forwarding: bool = False
    """The same of PEs."""
    node_broadcast: bool = True
    """Whether memory sends a word once to all nodes that need it."""
    pe_broadcast: bool = True
    """The same of a buffer and its PEs."""
    unit_costs: Annotated[dict[LevelName, CostKeys], Field(min_length=1)]
    """Sets of energies by name; whoever loads the file says which one counts."""


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
    """Turns checked keys into a device: bytes become words, and seconds become cycles."""

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
        # Leakage that the file states as a power (mW) was read in pJ per second; the model counts cycles.
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
        """A size in words, or a bandwidth in words per cycle.

        A quantity was read in words or in bits, and a rate per cycle or per second.
        """
        in_bits = quantity.unit.startswith("bits")
        value = float(quantity.value / self.keys.word_bits if in_bits else quantity.value)
        return value / self.keys.frequency.value if quantity.unit.endswith("/s") else value

    def _whole(self, quantity: Quantity, key: str) -> int:
        """A size, or words a cycle, which must be whole: the template counts words, and half of one fits
        nowhere."""
        words = self._words(quantity)
        if words != int(words) or words < 1:
            raise InputError(
                self.where, f"whole words of {self.keys.word_bits} bits", quantity.written, key=key
            )
        return int(words)
