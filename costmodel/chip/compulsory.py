"""What every schedule of a network moves, whatever else it does."""

from __future__ import annotations

from dataclasses import dataclass

from costmodel.chip.layers import LayerGraph, NetworkLayer


@dataclass(frozen=True)
class Compulsory:
    """Bytes of a whole batch that every schedule moves: between DRAM and tiles, into and out of buffers.

    ``filled`` has every input that is read and every weight in one tile's buffer, ``emptied`` all outputs.
    """

    dram_read: int
    dram_write: int
    filled: int
    emptied: int


def compulsory(graph: LayerGraph, batch: int) -> Compulsory:
    """Compulsory traffic; a schedule may move more because of halos, copies and reloads."""
    used = {number for layer in graph.layers for number in (*layer.producers, *layer.weight_producers)}
    read = written = filled = emptied = 0
    for number, layer in enumerate(graph.layers):
        outputs = batch * layer.k * layer.h * layer.w
        weights = layer.k * layer.group_c * layer.r * layer.s * layer.has_weights
        weights *= batch if layer.weight_producers else 1
        read += batch * touched_inputs(layer, layer.external_c)
        read += 0 if layer.weight_producers else weights
        written += 0 if number in used else outputs
        filled += batch * touched_inputs(layer) + weights
        emptied += outputs
    return Compulsory(read, written, filled, emptied)


def touched_inputs(layer: NetworkLayer, channels: int | None = None) -> int:
    """Bytes of a sample's inputs that are read, of all of its channels or of so many."""
    channels = layer.c if channels is None else channels
    if layer.kind in ("eltwise", "ptp"):
        return channels * layer.h * layer.w
    if layer.kind == "transpose":
        return layer.k * layer.h * layer.w * channels // layer.c
    if layer.scatters:
        return channels * layer.input_h * layer.input_w
    stride_h, stride_w = (1, 1) if layer.kind == "fc" else (layer.stride_h, layer.stride_w)
    rows = _touched(layer.h, layer.r, stride_h, layer.pad_h, layer.input_h)
    columns = _touched(layer.w, layer.s, stride_w, layer.pad_w, layer.input_w)
    return channels * rows * columns


def _touched(outputs: int, window: int, stride: int, pad: int, length: int) -> int:
    """Rows or columns under any window, without padding."""
    under = {out * stride - pad + offset for out in range(outputs) for offset in range(window)}
    return len(under & set(range(length)))
