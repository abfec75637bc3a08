"""Training graphs derived from forward graphs: layers that propagate errors, and layers that update weights.

A product of a forward layer pairs every weight with inputs and outputs. Propagating an error goes through
the same pairs: it reads the outputs' errors and the weights, and adds into the inputs' errors. An update
reads the outputs' errors and the inputs, and adds into the weights. So both are the forward loop nest with
the roles of its tensors exchanged: equal MACs, strides and padding included.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from costmodel.chip.layers import LayerGraph, NetworkLayer
from costmodel.errors import InputError
from costmodel.networks.layer_lists import layer_list
from costmodel.workload import Layer, Network, Role, Tensor, convolution

Part = Literal["forward", "error", "update", "sum"]
"""What a layer of a training graph is for; ``sum`` adds the errors of a tensor that several layers read."""


@dataclass(frozen=True)
class TrainingLayer:
    """One layer of a training graph for one sample.

    ``producers`` are the names of the layers whose results it reads, ``saved`` those of the forward layers
    whose outputs it reads again (from memory; ``input`` is the network's). ``operations`` are MACs or element
    operations; :meth:`nest` is what mapping solvers map, of layers with weights.
    """

    name: str
    part: Part
    forward: NetworkLayer
    producers: tuple[str, ...]
    saved: tuple[str, ...] = ()
    operations: int = 0

    @property
    def has_products(self) -> bool:
        return self.part != "sum" and self.forward.has_weights

    def nest(self, batch: int) -> Layer:
        """The loop nest for a batch; InputError for layers without products.

        Tensors keep their names; the one that is computed has the role of outputs, an update takes the errors
        as its weights.
        """
        if not self.has_products:
            raise InputError(f"layer {self.name}", "a layer with weights", self.forward.kind, key="kind")
        roles: dict[Part, dict[str, Role]] = {
            "forward": {},
            "error": {"Outputs": "inputs", "Inputs": "outputs"},
            "update": {"Outputs": "weights", "Weights": "outputs"},
        }
        nest = forward_nest(self.forward, batch)
        changed = roles[self.part]
        tensors = tuple(Tensor(one.name, one.axes, changed.get(one.name, one.role)) for one in nest.tensors)
        return Layer(self.name, nest.dims, tensors)


@dataclass(frozen=True)
class TrainingGraph:
    """The layers of one training step in topological order: forward, then errors and updates backwards."""

    name: str
    layers: tuple[TrainingLayer, ...]

    def __post_init__(self) -> None:
        seen: set[str] = {"input"}
        for layer in self.layers:
            if missing := [name for name in (*layer.producers, *layer.saved) if name not in seen]:
                where = f"training graph {self.name}"
                raise InputError(where, "producers before their consumers", missing, key=layer.name)
            if layer.name in seen:
                raise InputError(f"training graph {self.name}", "names that are all different", layer.name)
            seen.add(layer.name)

    def of(self, part: Part) -> list[TrainingLayer]:
        """The layers of one part, in order."""
        return [layer for layer in self.layers if layer.part == part]

    @cached_property
    def macs(self) -> int:
        """MACs of one sample, forward and backward."""
        return sum(layer.operations for layer in self.layers if layer.has_products)


def forward_nest(layer: NetworkLayer, batch: int) -> Layer:
    """A chip-level layer with weights as a loop nest, tensors Weights, Inputs (padded) and Outputs."""
    return convolution(
        layer.name,
        N=batch,
        K=layer.k,
        C=layer.c,
        P=layer.h,
        Q=layer.w,
        R=layer.r,
        S=layer.s,
        stride=(layer.stride_h, layer.stride_w),
        groups=layer.groups,
    )


def forward_layers(graph: LayerGraph, batch: int) -> Network:
    """The layers with weights of a layer graph, as a list without dataflow."""
    return layer_list(graph.name, (forward_nest(one, batch) for one in graph.layers if one.has_weights))


def training_layers(graph: LayerGraph, batch: int) -> Network:
    """The layers with weights of its training step: forward, errors and updates."""
    training = training_graph(graph)
    return layer_list(training.name, (one.nest(batch) for one in training.layers if one.has_products))


def training_graph(graph: LayerGraph, input_error: bool = False) -> TrainingGraph:
    """The training step of a forward graph (section II-A); the loss and the optimiser cost nothing.

    With ``input_error`` the error of the network's own input is computed, too, which nobody needs (KAPLA's
    graphs do). Raises InputError for products of two activations, whose operands are not weights to update.
    """
    return _Derivation(graph, input_error).result()


@dataclass
class _Derivation:
    """The backward layers on the way; ``errors``: by tensor, the layers that compute parts of its error."""

    graph: LayerGraph
    input_error: bool
    backward: list[TrainingLayer] = field(default_factory=list)
    errors: dict[str, list[str]] = field(default_factory=dict)

    def result(self) -> TrainingGraph:
        for layer in reversed(self.graph.layers):
            if layer.weight_producers:
                expected = "weights that are parameters"
                raise InputError(
                    f"network {self.graph.name}", expected, "a product of activations", key=layer.name
                )
            self._propagate(layer, self._whole_error(layer))
        forward = (
            TrainingLayer(layer.name, "forward", layer, self._producers(layer), operations=layer.operations)
            for layer in self.graph.layers
        )
        return TrainingGraph(f"{self.graph.name}.training", (*forward, *self.backward))

    def _producers(self, layer: NetworkLayer) -> tuple[str, ...]:
        return tuple(self.graph.layers[i].name for i in layer.producers)

    def _whole_error(self, layer: NetworkLayer) -> tuple[str, ...]:
        """The layer whose result is the error of this one's output; the network's own results get it free."""
        parts = self.errors.get(layer.name, [])
        if len(parts) > 1:
            summed = TrainingLayer(
                f"{layer.name}.error_sum",
                "sum",
                layer,
                tuple(parts),
                operations=layer.k * layer.h * layer.w * len(parts),
            )
            self.backward.append(summed)
            return (summed.name,)
        return tuple(parts) or (layer.name,)

    def _propagate(self, layer: NetworkLayer, error: tuple[str, ...]) -> None:
        """An error layer per operand of an element-wise layer, else one; and the update of weights."""
        operands = self._producers(layer) if layer.kind == "eltwise" else ("",) * self._has_error(layer)
        for operand in operands:
            name = ".".join(part for part in (layer.name, "error", operand) if part)
            each = layer.operations // layer.operands
            self.backward.append(TrainingLayer(name, "error", layer, error, operations=each))
            for source in (operand,) if operand else self._producers(layer):
                self.errors.setdefault(source, []).append(name)
        if layer.has_weights:
            saved = (*self._producers(layer), *["input"] * bool(layer.external_c))
            update = TrainingLayer(
                f"{layer.name}.update", "update", layer, error, saved, operations=layer.operations
            )
            self.backward.append(update)

    def _has_error(self, layer: NetworkLayer) -> bool:
        return bool(layer.producers) or self.input_error
