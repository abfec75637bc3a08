"""The parts of an NVDLA-style tile (section 5.1 of SET), with SET's numbers as defaults."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NvdlaBuffer:
    """A buffer of a tile: its capacity, and the energy of reading or writing a byte."""

    size_bytes: int
    read_pj_per_byte: float
    write_pj_per_byte: float


@dataclass(frozen=True)
class NvdlaTile:
    """The tile of SET's section 5.1: ``grid`` x ``grid`` PEs of ``lanes`` lanes of ``vector`` int8 MACs.

    A lane computes one output channel: its MACs multiply ``vector`` input channels and add them up. Every PE
    has a buffer ``activation`` and a buffer ``output`` (partial sums), every lane a buffer ``weight``.
    ``output_shared`` collects the outputs of all PEs; ``shared`` is the global buffer, whose reads are
    limited by ``shared_bytes_per_cycle``. ``output_stream_bytes`` of it are kept free for outputs that leave
    the tile. ``vector_units`` run layers without weights, one operation a cycle each.
    """

    vector: int = 8
    lanes: int = 8
    grid: int = 4
    mac_pj: float = 0.018
    bus_pj_per_byte: float = 0.018
    bus_bytes_per_cycle: int = 16
    vector_units: int = 64
    vector_operation_pj: float = 0.0873
    activation: NvdlaBuffer = NvdlaBuffer(8192, 0.3885, 0.3293)
    weight: NvdlaBuffer = NvdlaBuffer(4096, 0.3053, 0.2471)
    output: NvdlaBuffer = NvdlaBuffer(2048, 0.6416, 0.5672)
    output_shared: NvdlaBuffer = NvdlaBuffer(28672, 0.61185, 0.7919)
    shared: NvdlaBuffer = NvdlaBuffer(1 << 20, 1.0537, 1.8722)
    shared_bytes_per_cycle: int = 256
    output_stream_bytes: int = 10 * 1024

    @property
    def macs(self) -> int:
        return self.grid * self.grid * self.lanes * self.vector
