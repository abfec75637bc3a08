"""One layer as a chip's scheduler sees it: for one sample, with the channels of other layers that it reads.

Its iteration space (:meth:`NetworkLayer.space`) says which elements each of its points touches, padding
included. The dims have a loop nest's letters: N samples, K output channels, P and Q rows and columns of
outputs, C input channels, R and S rows and columns of the window. K counts the channels of all groups, so
that a cut may go through a group; C counts those of one group. Inputs and outputs have the axes channels,
samples, rows and columns:

    kind                   outputs       inputs                           weights
    conv, fc               K  N  P  Q    C             N  P, R  Q, S      K  C  R  S
    groupconv              K  N  P  Q    K // group, C N  P, R  Q, S      K  C  R  S
    pool                   K  N  P  Q    K             N  P, R  Q, S
    eltwise, ptp           K  N  P  Q    K             N  P     Q         (eltwise: a tensor for each operand)
    transpose              K  N  P  Q    the same in another order
    topk                   K  N  P  Q    C             N  P     Q
    dispatch               K  N  P  Q    K             N  R     S         choices: C N R S
    combine                K  N  P  Q    K             N  R     S         choices: C N P Q
    scale                  K  N  P  Q    K             N  P     Q         factors: C N P Q
    decay                  K  N  P  Q    K             N  P     Q         factors: C N R Q
    outer                  K  N  P  Q    K             N  R     S         factors: C N R S
    carry                  K  N  P  Q    K             N  P     Q         factors: C N R S

The last seven have no products; they choose, scale or add rows. Which rows an expert gets, and where its
results belong, is known only at run time: so ``dispatch`` and ``combine`` need all rows R and columns S of
their inputs for any output, and can be cut along channels as any layer. Their second operand, made by the
``weight_producers``, has the place of weights, and all its channels C are needed wherever some are: the
choices of each token, or factors that neighbouring channels share. ``combine`` has one input for each expert.
``outer`` has one row R and one column S of inputs and of factors. So has ``carry`` of factors; its inputs are
the state before and what is added.

A recurrence has a ``carry`` for each step, which reads the one before. No output of a step follows from
another output of it, so a step can be cut along K, N, P and Q as any layer. The steps are layers behind one
another, and no partition goes through their order.

Weights that another layer computes have that layer's axes instead: K, N (each sample has weights of its own),
C, and the points of the filter, R * columns + S. A layer of a training step that scatters, or an update, has
the space of its forward layer, in which the roles of the tensors are exchanged.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from math import prod
from typing import Any, Literal, NamedTuple, get_args

from costmodel.errors import InputError
from costmodel.workload.network import Layer, Role, Tensor, convolution
from costmodel.workload.projection import Projection, Stride

KINDS = (
    *("conv", "fc", "groupconv", "pool", "eltwise", "ptp", "transpose"),
    *("topk", "dispatch", "combine", "scale", "decay", "outer", "carry"),
)
"""Kinds of layers; ``ptp`` is an element-wise function of one operand.

- ``topk`` chooses the K largest of all channels, row by row.
- ``dispatch`` takes, for an expert, P of all rows of its input; ``combine`` adds to each row of its result
  those rows of all experts that were made for it, times a weight.
- ``scale`` multiplies every channel by a factor that it shares with its neighbours; by ``decay`` the factor
  follows from those of all rows, as the decay between tokens in a state-space scan does.
- ``outer`` multiplies a channel's one element by P factors, which makes P rows of it: its factors are the
  rows of all groups of channels, side by side. What a token writes into a state is such a product.
- ``carry`` is one step of a recurrence: the state before, times a factor that neighbouring channels share,
  plus what is added to it.
"""
WITH_FACTORS = ("dispatch", "combine", "scale", "decay", "outer", "carry")
"""Kinds without products that have a second operand in the place of weights, which other layers make."""
WITH_SEVERAL_INPUTS = ("combine", "carry")
"""Kinds that have, besides the second operand, c // k inputs of k channels."""
OF_ANY_ROW = ("dispatch", "combine", "outer")
"""Kinds any output of which needs all rows and columns of the input."""
STATING_WORK = ("topk", *WITH_FACTORS)
"""Kinds that state their operations for an output: their space has all that may be chosen or needed."""
Part = Literal["forward", "error", "update"]
"""What a layer of a training step computes: outputs, errors of inputs or gradients of weights.

All layers of an inference are ``forward``.
"""
Channels = tuple[int, int]
"""Channels of a layer's outputs, from the first to before the second."""
_ROLES: dict[Part, dict[str, Role]] = {
    "forward": {},
    "error": {"Outputs": "inputs", "Inputs": "outputs"},
    "update": {"Outputs": "weights", "Weights": "outputs"},
}
"""By part, the tensors of a forward layer whose role is another in that part, with that role."""


OUTPUT_DIMS = ("K", "N", "P", "Q")
"""The dims that outputs follow, in the order of their axes: channels, samples, rows, columns."""
REDUCED_DIM = "C"
"""The dim of input channels, which products are added over; a cut along it makes partial sums."""
IMAGE_AXES = 2, 3
"""The axes of rows and columns."""


class LayerElements(NamedTuple):
    """Elements of the tensors of a layer for a batch, padding not counted."""

    inputs: int
    weights: int
    outputs: int


class WindowSizes(NamedTuple):
    """Sizes of a layer with windows: channels of all groups, rows and columns of outputs, then of inputs."""

    k: int
    c: int
    p: int
    q: int
    rows: int
    columns: int


@dataclass(frozen=True)
class NetworkLayer:
    """One layer for one sample: ``k`` x ``h`` x ``w`` outputs from ``c`` input channels.

    - ``kind`` is one of :data:`KINDS`; ``r`` x ``s`` is the filter or window, and ``c`` and ``k`` are totals
      of all ``groups``.
    - ``input_h`` and ``input_w`` are the rows and columns of the input, without padding. ``pad_h`` is the
      padding above the first row and ``pad_w`` that left of the first column; the padding below and to the
      right follows. If negative, the first window begins that many rows (columns) inside the input.
    - ``operands`` is the number of inputs of an element-wise layer, whose ``c`` is ``operands`` times ``k``.
    - Of the kinds from ``topk`` on ``r`` is the number of operations for an output: scores that are compared,
      rows that are added on average. The input of ``combine`` has ``k`` channels for each expert. ``groups``
      are the channels of the second operand of :data:`WITH_FACTORS`: choices of a token, or factors.
    - ``order`` says of each output dim (C, H, W) of a transpose which input dim it is.
    - The input channels are ``external_c`` channels of the network's input, then those of ``producers``,
      which are positions in the graph's layers. ``weight_producers`` compute the weights of a product of two
      activations. ``channels`` are those read of each producer, then of each weight producer; empty: all.

    Layers of a training step: an ``error`` computes the errors of its forward layer's inputs from those of
    its outputs. Where it :attr:`scatters`, filter and stride are the forward layer's. An ``update`` has its
    forward layer's numbers, takes the errors of the outputs as weights and computes, once a batch, the
    gradient of the weights, which no other layer reads.
    """

    name: str
    kind: str
    c: int
    k: int
    h: int
    w: int
    r: int
    s: int
    stride_h: int
    stride_w: int
    pad_h: int
    pad_w: int
    input_h: int
    input_w: int
    operands: int = 1
    groups: int = 1
    order: tuple[int, ...] = (0, 1, 2)
    external_c: int = 0
    producers: tuple[int, ...] = ()
    weight_producers: tuple[int, ...] = ()
    part: Part = "forward"
    channels: tuple[Channels, ...] = ()

    def __post_init__(self) -> None:
        if self.part not in get_args(Part):
            raise InputError(f"layer {self.name}", f"one of {get_args(Part)}", self.part, key="part")

    @property
    def has_weights(self) -> bool:
        return self.kind in ("conv", "fc", "groupconv")

    @property
    def input_tensors(self) -> int:
        """How many inputs the layer has, all of which it needs at the same places."""
        return self.c // self.k if self.kind in WITH_SEVERAL_INPUTS else self.operands

    @property
    def factors(self) -> tuple[int, int, int]:
        """Channels, rows and columns of the second operand of :data:`WITH_FACTORS`."""
        if self.kind == "carry":
            return self.groups, 1, 1
        of_inputs = self.kind in ("dispatch", "outer")
        return self.groups, *((self.input_h, self.input_w) if of_inputs else (self.h, self.w))

    @property
    def group_c(self) -> int:
        return self.c // self.groups

    @property
    def group_k(self) -> int:
        return self.k // self.groups

    @property
    def scatters(self) -> bool:
        """Whether each input adds into a window of outputs, where a forward layer reads a window of inputs.

        This is so for the errors of pooling, of strided convolutions, of convolutions whose outputs have
        other rows or columns than their inputs, and of layers that flatten rows and columns. Errors of all
        other layers are computed as forward layers are.
        """
        if self.part != "error" or self.kind not in ("conv", "groupconv", "fc", "pool"):
            return False
        same = (self.h, self.w) == (self.input_h, self.input_w)
        strided = self.kind != "fc" and (self.stride_h, self.stride_w) != (1, 1)
        return self.kind == "pool" or strided or not same

    @property
    def needs_whole_chip(self) -> bool:
        """Whether the layer can only run layer-sequentially: on the whole chip, with all its data in DRAM."""
        return self.part == "update" or self.scatters

    @property
    def operations(self) -> int:
        """MACs of a layer with weights, or element operations, for one sample: the points of its space.

        At a point, an element-wise layer takes in an element of each operand. The kinds that choose rows have
        as many operations as they state, for their space has all rows that may be chosen.
        """
        if self.kind in STATING_WORK:
            return self.k * self.h * self.w * self.r
        points = self.space(1).macs
        return points if self.has_weights else points * self.operands

    @property
    def computed(self) -> tuple[int, int]:
        """How many rows and how many columns of outputs are computed.

        All, but for a layer that scatters: it computes those that some window reaches. The others are zero in
        every training step, so no step has to write them.
        """
        if not self.scatters:
            return self.h, self.w
        space = self.space(1)
        every = {dim: (0, size) for dim, size in space.dims}
        axes = (space.output.axes[axis] for axis in IMAGE_AXES)
        rows, columns = (axis.touched(every, space.length(axis)) for axis in axes)
        return rows, columns

    @property
    def forward_sizes(self) -> WindowSizes:
        """The sizes of the forward layer, whose space and nest a layer that scatters has, too.

        The fields of such a layer are those of the error, in which inputs and outputs have changed places.
        """
        own = WindowSizes(self.k, self.c, self.h, self.w, self.input_h, self.input_w)
        return own if not self.scatters else WindowSizes(own.c, own.k, own.rows, own.columns, own.p, own.q)

    def space(self, batch: int) -> Layer:
        """The iteration space of ``batch`` samples: the table at the head of the module.

        The inputs of an element-wise layer of several operands are ``Inputs0``, ``Inputs1`` and so on. What a
        softmax or normalisation takes from other elements than its own is not in it: these are ``ptp`` here.
        """
        if batch not in self._spaces:
            self._spaces[batch] = _space_of(self, batch)
        return self._spaces[batch]

    def nest(self, batch: int) -> Layer:
        """A layer with weights as a loop nest of Weights, Inputs (padded) and Outputs; else InputError.

        The nest of an update, or of an error that scatters, is the forward layer's: each tensor keeps its
        name and has the role that it plays here. Where a layer that scatters has windows further apart than
        they are long, no window reaches the outputs between them: these stay zero, and the nest leaves them
        out by a shorter stride. With activations as weights each sample has weights of its own: the nest has
        the samples as groups, not as N.
        """
        if batch not in self._nests:
            self._nests[batch] = _nest_of(self, batch)
        return self._nests[batch]

    @cached_property
    def _spaces(self) -> dict[int, Layer]:
        """Spaces by batch, each built once: searches ask for the same ones again and again."""
        return {}

    @cached_property
    def _nests(self) -> dict[int, Layer]:
        """Nests by batch: they are asked for at every look into a table of costs."""
        return {}

    def compulsory_elements(self, batch: int) -> LayerElements:
        """Elements that a batch moves if all its data lies in DRAM and each element moves once."""
        h, w = self.computed
        inputs, outputs = self.input_elements(batch), batch * self.k * h * w
        weights = self.k * self.group_c * self.r * self.s * self.has_weights
        if self.kind in WITH_FACTORS:
            weights = prod(self.factors)
        if self.part == "update":  # the errors of the outputs are its weights, the weights its result
            return LayerElements(inputs, outputs, weights)
        return LayerElements(inputs, weights * (batch if self.weight_producers else 1), outputs)

    @property
    def touched_elements(self) -> int:
        """Elements of the inputs of one sample that the layer touches, each once for each operand."""
        space = self.space(1)
        every = {dim: (0, size) for dim, size in space.dims}
        inputs = (tensor for tensor in space.tensors if tensor.role == "inputs")
        # as boxes: rows that windows jump over are read, too
        return sum(
            prod(
                min(axis.at({dim: end - 1 for dim, (_, end) in every.items()}) + 1, space.length(axis))
                - max(axis.offset, 0)
                for axis in tensor.axes
            )
            for tensor in inputs
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data, without ``part`` and ``channels`` where they have their defaults.

        Identities of tasks are hashes of this data. Left out, the two fields do not change the identity of a
        layer of an inference.
        """
        added = (one for one in fields(self) if one.name in ("part", "channels"))
        unused = {one.name for one in added if getattr(self, one.name) == one.default}
        return {key: value for key, value in asdict(self).items() if key not in unused}

    @classmethod
    def from_json(cls, data: ReadOnlyDict[str, Any]) -> NetworkLayer:
        """The layer of :meth:`to_json`, whose tuples may have become lists."""
        lists = {key: tuple(value) for key, value in data.items() if isinstance(value, list | tuple)}
        if "channels" in lists:
            lists["channels"] = tuple((first, end) for first, end in lists["channels"])
        return cls(**{**data, **lists})

    def sizes(self, batch: int) -> tuple[int, int, int, int]:
        """The dims that a partition cuts, K, B (samples), H and W, with their sizes."""
        return self.k, batch, self.h, self.w

    def input_elements(self, batch: int) -> int:
        """Elements of the inputs of ``batch`` samples, without rows and columns before the first window."""
        rows, columns = self.input_h + min(self.pad_h, 0), self.input_w + min(self.pad_w, 0)
        return self.c * rows * columns * batch

    def normalized_cycles(self, vector: int, lanes: int, macs: int, vector_units: int) -> float:
        """Cycles of one sample on one tile: NPT, the normalised processing time of SET's section 3.3.2.

        A tile does ``macs`` MACs a cycle, on vectors of ``vector`` input channels for ``lanes`` output
        channels, or ``vector_units`` element operations. Input and output channels of a group are rounded up
        to whole vectors and lanes, so that a layer may leave some of them empty; groups smaller than both run
        side by side.
        """
        if not self.has_weights:
            return self.operations / vector_units
        c, k = (-(-size // width) * width for size, width in ((self.group_c, vector), (self.group_k, lanes)))
        operations = c * k * self.r * self.s * self.h * self.w * self.groups
        side_by_side = min(vector // self.group_c, lanes // self.group_k) if self.kind == "groupconv" else 1
        fills = self.group_c < vector and self.group_k < lanes
        return operations / (side_by_side if fills else 1) / macs


def _nest_of(layer: NetworkLayer, batch: int) -> Layer:
    """The nest of a layer; see :meth:`NetworkLayer.nest`."""
    if not layer.has_weights:
        raise InputError(f"layer {layer.name}", "a layer with weights", layer.kind, key="kind")
    sizes, stride = layer.forward_sizes, (layer.stride_h, layer.stride_w)
    if layer.scatters:
        stride = min(layer.stride_h, layer.r), min(layer.stride_w, layer.s)
    times = batch if layer.weight_producers and layer.part != "update" else 1
    nest = convolution(
        layer.name,
        N=batch // times,
        K=sizes.k * times,
        C=sizes.c * times,
        P=sizes.p,
        Q=sizes.q,
        R=layer.r,
        S=layer.s,
        stride=stride,
        groups=layer.groups * times,
    )
    return Layer(layer.name, nest.dims, _with_roles(layer, nest.tensors))


def _with_roles(layer: NetworkLayer, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """The tensors of a forward nest, each with the role that it has in the layer's own part."""
    changed = _ROLES[layer.part] if layer.needs_whole_chip else {}
    return tuple(replace(one, role=changed.get(one.name, one.role)) for one in tensors)


def _space_of(layer: NetworkLayer, batch: int) -> Layer:
    """The space of a layer; see :meth:`NetworkLayer.space`."""
    if layer.kind in ("conv", "fc", "groupconv", "pool"):
        return _window_space(layer, batch)
    sizes = {"K": layer.k, "N": batch, "P": layer.h, "Q": layer.w}
    outputs = _plain(OUTPUT_DIMS)
    if layer.kind in STATING_WORK:
        return _space_with_choices(layer, sizes, outputs)
    if layer.kind == "transpose":
        axes = list(outputs)
        for made, read in zip((0, 2, 3), layer.order, strict=True):
            axes[read + 1 if read else 0] = outputs[made]
        inputs = [Tensor("Inputs", tuple(axes), "inputs")]
    elif layer.operands == 1:
        inputs = [Tensor("Inputs", outputs, "inputs")]
    else:
        inputs = [Tensor(f"Inputs{one}", outputs, "inputs") for one in range(layer.operands)]
    return Layer(layer.name, tuple(sizes.items()), (*inputs, Tensor("Outputs", outputs, "outputs")))


def _space_with_choices(layer: NetworkLayer, sizes: dict[str, int], outputs: tuple[Projection, ...]) -> Layer:
    """The space of a layer that chooses, that moves rows which were chosen, or that scales channels."""
    read, factors = outputs, list[Tensor]()
    if layer.kind == "topk":
        sizes, read = sizes | {"C": layer.c}, _plain("CNPQ")
    else:
        rows = (1, 1) if layer.kind == "carry" else (layer.input_h, layer.input_w)
        sizes = sizes | {"C": layer.groups, "R": rows[0], "S": rows[1]}
        read = _plain("KNRS") if layer.kind in OF_ANY_ROW else outputs
        axes = {"scale": "CNPQ", "combine": "CNPQ", "decay": "CNRQ"}.get(layer.kind, "CNRS")
        factors.append(Tensor("Weights", _plain(axes), "weights"))
    count = layer.input_tensors
    names = ["Inputs"] if count == 1 else [f"Inputs{one}" for one in range(count)]
    inputs = [Tensor(name, read, "inputs") for name in names]
    return Layer(layer.name, tuple(sizes.items()), (*factors, *inputs, Tensor("Outputs", outputs, "outputs")))


def _window_space(layer: NetworkLayer, batch: int) -> Layer:
    """The space of a layer whose windows slide over its inputs."""
    k, c, p, q, rows, columns = layer.forward_sizes
    sizes = {"K": k, "N": batch, "P": p, "Q": q}
    if layer.kind != "pool":
        sizes["C"] = c // layer.groups
    sizes |= {"R": layer.r, "S": layer.s}
    groups = (Stride("K", c // layer.groups, k // layer.groups),) if layer.groups > 1 else ()
    channels = (Stride("K"),) if layer.kind == "pool" else (*groups, Stride("C"))
    inputs = (
        Projection(channels),
        Projection((Stride("N"),)),
        Projection((Stride("P", layer.stride_h), Stride("R")), rows, -layer.pad_h),
        Projection((Stride("Q", layer.stride_w), Stride("S")), columns, -layer.pad_w),
    )
    tensors = [Tensor("Inputs", inputs, "inputs"), Tensor("Outputs", _plain(OUTPUT_DIMS), "outputs")]
    if layer.has_weights:
        tensors.insert(0, Tensor("Weights", _weight_axes(layer), "weights"))
    return Layer(layer.name, tuple(sizes.items()), _with_roles(layer, tensors))


def _weight_axes(layer: NetworkLayer) -> tuple[Projection, ...]:
    """The axes of weights: of parameters, or of activations as the layer that computes them has them."""
    if not layer.weight_producers or layer.part == "update":
        return _plain("KCRS")
    return (*_plain("KNC"), Projection((Stride("R", layer.s), Stride("S"))))


def _plain(dims: Iterable[str]) -> tuple[Projection, ...]:
    """Axes that each follow one dim."""
    return tuple(Projection.of_terms(((dim, 1),)) for dim in dims)


def pointwise(name: str, kind: str, of: NetworkLayer, operands: int = 1) -> NetworkLayer:
    """An element-wise layer whose operands have the shape of the outputs of ``of``."""
    return NetworkLayer(
        name=name,
        kind=kind,
        c=of.k * operands,
        k=of.k,
        h=of.h,
        w=of.w,
        r=1,
        s=1,
        stride_h=1,
        stride_w=1,
        pad_h=0,
        pad_w=0,
        input_h=of.h,
        input_w=of.w,
        operands=operands,
    )
