"""What no schedule of a layer can do without: bytes, energy and cycles, whatever partition and mapping."""

from __future__ import annotations

from dataclasses import dataclass, replace

from costmodel.hardware.chip import Chip
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from solvers.divisors import divisors


@dataclass(frozen=True)
class LayerFloor:
    """The least that one sample of a layer takes.

    ``inputs``: bytes of them by the producing layer (None: the network's input); ``weights``: bytes, once for
    all samples; ``outputs``: bytes; ``energy_pj`` without weights, NoC and DRAM, ``inside_pj`` of it from the
    tiles' buffers inwards; ``weights_pj``: of bringing the weights into buffers; ``tile_cycles``: cycles by
    tiles; ``repeats``: whether tiles with different outputs K need the same inputs, and others the same
    weights.
    """

    inputs: tuple[tuple[int | None, int], ...]
    weights: int
    outputs: int
    energy_pj: float
    inside_pj: float
    weights_pj: float
    tile_cycles: float
    repeats: bool

    @property
    def input_bytes(self) -> int:
        return sum(count for _, count in self.inputs)

    @staticmethod
    def of(graph: LayerGraph, number: int, chip: Chip) -> LayerFloor:
        """All PEs busy, every byte into a buffer once and out of it once: no partition takes less."""
        layer, tile = graph.layers[number], chip.tile
        inputs = _inputs(graph, layer)
        pinned = layer.has_weights and not layer.weight_producers
        outputs = 0 if layer.part == "update" else layer.k * layer.h * layer.w  # an update's are of a batch
        weights = _weights(layer) if pinned else 0
        operation_pj = tile.mac_pj if layer.has_weights else tile.vector_operation_pj
        rate = tile.macs if layer.has_weights else tile.vector_units
        moved_pj = outputs * tile.buffer.read_pj_per_byte
        moved_pj += sum(count for _, count in inputs) * tile.buffer.write_pj_per_byte
        return LayerFloor(
            inputs=inputs,
            weights=weights,
            outputs=outputs,
            energy_pj=layer.operations * operation_pj + moved_pj,
            inside_pj=layer.operations * operation_pj,
            weights_pj=weights * tile.buffer.write_pj_per_byte,
            tile_cycles=layer.operations / rate,
            repeats=pinned and layer.groups == 1,
        )

    def raised(self, inside_pj: float, tile_cycles: float) -> LayerFloor:
        """The same with what a sample was found to take within a tile, energy and cycles, if that is more."""
        more_pj = max(0.0, inside_pj - self.inside_pj)
        return replace(
            self,
            energy_pj=self.energy_pj + more_pj,
            inside_pj=self.inside_pj + more_pj,
            tile_cycles=max(self.tile_cycles, tile_cycles),
        )

    def held_bytes(self, samples: int, tiles: int) -> int:
        """Bytes of inputs and weights that all tiles together hold at least for so many samples' inputs.

        With K cut into d parts and all else into tiles / d, inputs are there d and weights tiles / d times.
        """
        inputs = samples * self.input_bytes
        if not self.repeats:
            return inputs + self.weights
        return min(parts * inputs + tiles // parts * self.weights for parts in divisors(tiles))


def _inputs(graph: LayerGraph, layer: NetworkLayer) -> tuple[tuple[int | None, int], ...]:
    """Bytes that all windows touch together, by producer."""
    rows = _touched(layer.h, layer.r, layer.stride_h, layer.pad_h, layer.input_h)
    columns = _touched(layer.w, layer.s, layer.stride_w, layer.pad_w, layer.input_w)
    if layer.kind == "transpose" or layer.scatters:
        rows, columns = layer.input_h, layer.input_w
    inputs, weights = graph.reads(layer)
    found: list[tuple[int | None, int]] = []
    if layer.external_c:
        found.append((None, layer.external_c * rows * columns))
    found += [(one.producer, one.channels * rows * columns) for one in inputs]
    of_channel = layer.compulsory_bytes(1).weights // layer.k
    return (*found, *((one.producer, one.channels * of_channel) for one in weights))


def _weights(layer: NetworkLayer) -> int:
    return layer.k * layer.group_c * layer.r * layer.s


def _touched(size: int, window: int, stride: int, padding: int, available: int) -> int:
    """Rows that the windows of ``size`` outputs touch: without padding, and without the holes of strides."""
    rows = (size - 1) * stride + window if window >= stride else size * window
    return max(1, min(available, rows - 2 * padding))
