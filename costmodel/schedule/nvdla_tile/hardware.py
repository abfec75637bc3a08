"""The parts of an NVDLA-style tile (section 5.1 of SET), with SET's numbers as defaults."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NvdlaBuffer:
    """A buffer of a tile: its size and what an access costs."""

    size_bytes: int
    read_pj_per_byte: float
    write_pj_per_byte: float


@dataclass(frozen=True)
class NvdlaTile:
    """The tile of the paper's section 5.1: a grid of PEs, each of ``lanes`` vectors of ``vector`` int8 MACs.

    ``activation``, ``weight`` and ``output`` are the buffers of a PE (those for weights: of a lane),
    ``output_shared`` collects outputs, ``shared`` is the global buffer.
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
