"""The tile cost table of the released evaluator: what parts of layers cost on their tiles."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import InputError
from costmodel.published.set_isca2023.hardware import Platform
from costmodel.published.set_isca2023.leaf.partitions import admitted
from costmodel.published.set_isca2023.nvdla_tile.mapper import NvdlaCost, NvdlaMapper, OutputPart
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.leaf.geometry import kernel_space, ranges_of, same_shapes
from costmodel.schedule.leaf.partitions import Parts

Array = NDArray[Any]


@dataclass(frozen=True)
class TableRows:
    """The tile cost table of one layer for one batch and number of tiles: a row for each partition.

    ``parts`` [n, 4]; ``energy_pj`` [n]: all energy on all tiles, without NoC and DRAM; ``shared_pj`` [n]: the
    part of it in global buffers; ``cycles`` [n] of the tile with the largest part; ``tiles`` [n]: its cost.
    Energies contain the batch's fraction of the weights' load, which happens once a run.
    """

    parts: Array
    energy_pj: Array
    shared_pj: Array
    cycles: Array
    tiles: tuple[NvdlaCost, ...]


class TileTables:
    """Tables of one network, platform, batch and objective, made when they are asked for.

    Several evaluators may use the same tables. ``cpu_seconds``: the time that making them took so far. Raises
    InputError for a training step, which the released program cannot count.
    """

    def __init__(self, graph: LayerGraph, platform: Platform, batch: int, exponent: int) -> None:
        if backward := next((layer for layer in graph.layers if layer.part != "forward"), None):
            where = f"network {graph.name}"
            raise InputError(where, "layers of an inference", backward.part, key=backward.name)
        self.graph, self.platform, self.batch, self.exponent = graph, platform, batch, exponent
        self._mapper = NvdlaMapper(platform.tile, exponent)
        self._tables: dict[tuple[int, int, int], TableRows] = {}
        self.spaces = [kernel_space(layer) for layer in graph.layers]
        self.same_as = same_shapes(graph)
        self._ranges = ranges_of(platform.tiles)
        self.cpu_seconds = 0.0

    def rows(self, layer: int, batch: int, tiles: int) -> TableRows:
        key = (self.same_as[layer], batch, tiles)
        if key not in self._tables:
            start = time.process_time()
            self._tables[key] = self._tabulated(layer, batch, tiles)
            self.cpu_seconds += time.process_time() - start
        return self._tables[key]

    def _tabulated(self, number: int, batch: int, tiles: int) -> TableRows:
        """The rows of the partitions that fit: their data in the global buffers, their nests in the PEs.

        Inputs and weights that arrive in a global buffer are written once, outputs that leave are read once
        (``data``). Weights from DRAM are written once a run, so a batch is charged its fraction.
        """
        layer, tile = self.graph.layers[number], self.platform.tile
        rows: list[tuple[Parts, float, float, NvdlaCost]] = []
        for parts in admitted(layer, batch, tiles, self.platform):
            largest_in, bytes_in, largest_w, bytes_w = self._volumes(number, batch, parts)
            if tile.output_stream_bytes + largest_in + largest_w > tile.shared.size_bytes:
                continue
            cost = self._mapper.cost(layer, OutputPart.of(layer, parts, batch))
            if cost is None:
                continue
            load = bytes_w * tile.shared.write_pj_per_byte
            if not layer.weight_producers:
                load /= self.batch // batch
            data = load + layer.k * layer.h * layer.w * batch * tile.shared.read_pj_per_byte
            data += bytes_in * tile.shared.write_pj_per_byte
            rows.append((parts, cost.energy_pj * tiles + data, data, cost))
        return TableRows(
            np.array([row[0] for row in rows], np.int64).reshape(-1, 4),
            np.array([row[1] for row in rows]),
            np.array([row[2] + row[3].shared_pj * tiles for row in rows]),
            np.array([row[3].cycles for row in rows], np.int64),
            tuple(row[3] for row in rows),
        )

    def _volumes(self, number: int, batch: int, parts: Parts) -> tuple[int, int, int, int]:
        """Bytes of inputs on the fullest tile and on all tiles together, then the same of weights."""
        from costmodel.schedule.leaf.kernels.volumes_kernel import volumes

        layer, found = self.graph.layers[number], np.zeros((1, 4), np.int64)
        volumes(self.spaces[number], layer.sizes(batch), np.array([parts]), self._ranges, True, found)
        ((largest_in, bytes_in, largest_w, bytes_w),) = found.tolist()
        return largest_in * layer.operands, bytes_in * layer.operands, largest_w, bytes_w
