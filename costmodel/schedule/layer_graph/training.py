"""Training graphs derived from forward graphs: layers that propagate errors, and layers that update weights.

Every MAC of a forward layer multiplies an input with a weight and adds to an output. Propagating an error
goes through the same triples: the error of the output times the weight adds to the error of the input. So
does an update: the error of the output times the input adds to the gradient of the weight. Both are therefore
the forward loop nest with the roles of its tensors exchanged, with the same MACs, strides and padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from costmodel.errors import InputError
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer, Read
from costmodel.schedule.layer_graph.layer import pointwise


def training_graph(graph: LayerGraph, input_error: bool = False) -> LayerGraph:
    """The training step of a forward graph (section II-A): its layers, then errors backwards, then updates.

    The loss and the optimiser cost nothing. Updates read forward outputs and errors from DRAM, and come after
    all errors, so that the errors can form a pipeline. Where several layers read a tensor, an element-wise
    layer sums their errors of it; concatenations and their slices cost nothing. With ``input_error`` the
    error of the network's own input is computed, too: no update needs it, but KAPLA's graphs have it. Raises
    InputError for products of two activations, whose operands are not weights to update.
    """
    for layer in graph.layers:
        if layer.weight_producers:
            where, expected = f"network {graph.name}", "weights that are parameters"
            raise InputError(where, expected, "a product of activations", key=layer.name)
        if layer.kind == "topk":
            where, expected = f"network {graph.name}", "layers with a gradient"
            raise InputError(where, expected, "a choice of the largest", key=layer.name)
        if layer.part != "forward":
            raise InputError(f"network {graph.name}", "forward layers", layer.part, key=layer.name)
    return _Derivation(graph, input_error).result()


@dataclass
class _Derivation:
    """The derivation of a training graph, which visits the forward layers from the last to the first.

    ``errors`` and ``updates`` are the layers so far. ``parts`` has, by the number of a forward layer, the
    errors of its output that its consumers computed; their sum is its error.
    """

    graph: LayerGraph
    input_error: bool
    errors: list[NetworkLayer] = field(default_factory=list)
    updates: list[NetworkLayer] = field(default_factory=list)
    parts: dict[int, list[Read]] = field(default_factory=dict)

    def result(self) -> LayerGraph:
        for number in reversed(range(len(self.graph.layers))):
            layer = self.graph.layers[number]
            # The error of the network's own input has no reader, so a first layer gets one only if that is
            # asked for.
            needed = bool(layer.producers) or self.input_error
            if needed or layer.has_weights:
                error = self._whole_error(number)
                if needed:
                    self._propagate(layer, error)
                if layer.has_weights:
                    self.updates.append(self._update(layer, error))
        layers = (*self.graph.layers, *self.errors, *self.updates)
        return LayerGraph(f"{self.graph.name}.training", layers)

    def _whole_error(self, number: int) -> Read:
        """The error of a layer's output, summed over its consumers.

        A layer without consumers is a result of the network: the loss writes the error where the output was.
        """
        layer, parts = self.graph.layers[number], self.parts.get(number, [])
        if not parts:
            return Read(number, 0, layer.k)
        if len(parts) == 1:
            return parts[0]
        summed = _pointwise(f"{layer.name}.error_sum", "eltwise", layer, len(parts))
        return self._add(self._reading(summed, parts))

    def _add(self, error: NetworkLayer) -> Read:
        """Add a layer that computes an error, and return a read of its whole output."""
        self.errors.append(error)
        return Read(len(self.graph.layers) + len(self.errors) - 1, 0, error.k)

    def _propagate(self, layer: NetworkLayer, error: Read) -> None:
        """Add what computes the errors of a layer's inputs from the error of its output.

        One layer computes them for all producers, each of which has its own channels of the result. An
        element-wise layer has one layer for each producer instead.
        """
        if layer.kind == "eltwise":
            for producer, first in self._firsts(layer):
                self._propagate_operand(layer, error, producer, first % layer.k)
            return
        sources = [self.graph.layers[producer] for producer in layer.producers]
        # Outputs of several producers may differ in size. Their errors are computed by one layer, and so in
        # the largest of these sizes.
        sizes = [(one.h, one.w) for one in sources] or [(layer.input_h, layer.input_w)]
        rows, columns = map(max, zip(*sizes, strict=True))
        whole = self._add(self._reading(_error(layer, (rows, columns)), [error]))
        for producer, first in self._firsts(layer):
            part = Read(whole.producer, first, first + self.graph.layers[producer].k)
            self.parts.setdefault(producer, []).append(part)

    def _propagate_operand(self, layer: NetworkLayer, error: Read, producer: int, first: int) -> None:
        """Add the error of one producer of an element-wise layer, whose channels of it begin at ``first``."""
        operand = self.graph.layers[producer]
        if first + operand.k > layer.k:
            where, expected = f"network {self.graph.name}", f"producers of at most {layer.k} channels"
            raise InputError(where, expected, operand.k, key=layer.name)
        part = Read(error.producer, error.first + first, error.first + first + operand.k)
        computed = _pointwise(f"{layer.name}.error.{operand.name}", "ptp", operand)
        self.parts.setdefault(producer, []).append(self._add(self._reading(computed, [part])))

    def _update(self, layer: NetworkLayer, error: Read) -> NetworkLayer:
        """The update of a layer's weights, from the layer's inputs and the error of its output."""
        # An update has the forward layer's nest. The error of the output takes the position of its weights:
        # the operand that is not the input.
        saved = [Read(producer, 0, self.graph.layers[producer].k) for producer in layer.producers]
        return self._reading(replace(layer, name=f"{layer.name}.update", part="update"), saved, [error])

    def _firsts(self, layer: NetworkLayer) -> Iterator[tuple[int, int]]:
        """Each producer of a layer, with the first of its channels among the layer's input channels."""
        first = layer.external_c
        for producer in layer.producers:
            yield producer, first
            first += self.graph.layers[producer].k

    def _reading(
        self, layer: NetworkLayer, inputs: Sequence[Read], weights: Sequence[Read] = ()
    ) -> NetworkLayer:
        """The layer with these reads, whose producers are forward layers or errors found so far."""
        layers, reads = (*self.graph.layers, *self.errors), (*inputs, *weights)
        whole = all(read == Read(read.producer, 0, layers[read.producer].k) for read in reads)
        return replace(
            layer,
            producers=tuple(read.producer for read in inputs),
            weight_producers=tuple(read.producer for read in weights),
            channels=() if whole else tuple((read.first, read.end) for read in reads),
        )


def _error(layer: NetworkLayer, size: tuple[int, int]) -> NetworkLayer:
    """The layer that computes the errors of the inputs of ``layer``, which have ``size`` rows and columns.

    With stride 1 and as many outputs as inputs it is a convolution, too, with its filters reversed along rows
    and columns. So the padding before its first row is what the forward layer has behind its last one.
    """
    backward = replace(
        layer,
        name=f"{layer.name}.error",
        part="error",
        c=layer.k,
        k=layer.c,
        h=size[0],
        w=size[1],
        input_h=layer.h,
        input_w=layer.w,
        order=tuple(layer.order.index(dim) for dim in range(3)),
        external_c=0,
    )
    if not layer.has_weights or backward.scatters:
        return backward
    # Of the R - 1 rows by which the filter overlaps with padding, ``pad_h`` are before the first input row
    # and the rest is behind the last one; reversed, that rest comes first.
    return replace(backward, pad_h=layer.r - 1 - layer.pad_h, pad_w=layer.s - 1 - layer.pad_w)


def _pointwise(name: str, kind: str, of: NetworkLayer, operands: int = 1) -> NetworkLayer:
    """An element-wise error layer whose operands have the shape of the outputs of ``of``."""
    return replace(pointwise(name, kind, of, operands), part="error")
