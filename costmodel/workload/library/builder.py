"""Writing a network down operator by operator, as its paper's table does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from costmodel.workload.attributes import Attributes, Plain
from costmodel.workload.convolutions import Window, convolution_of
from costmodel.workload.digits import Shape
from costmodel.workload.network import Layer, Network, Node, Pooling, Value, ValueKind, batched_matmul
from costmodel.workload.products import linear_of, matmul_of
from costmodel.workload.views import whole


@dataclass(frozen=True)
class Convolution:
    """A square convolution with its batch normalisation and activation folded in, and perhaps a ``bias``.

    ``padding`` None keeps the size at stride 1 (half the kernel); ``activation`` is "" for none.
    """

    channels: int
    kernel: int = 1
    stride: int = 1
    padding: int | None = None
    groups: int = 1
    activation: str = "relu"
    bias: bool = False


@dataclass(frozen=True)
class Pool:
    """A square max-pooling window; ``ceil`` keeps the last, partial window."""

    kernel: int
    stride: int
    padding: int = 0
    ceil: bool = False


@dataclass(frozen=True)
class Blocks:
    """Weights that are stored in ``bits`` an element, with a scale of ``scale_bits`` for each block.

    A block has ``rows`` x ``columns`` elements of a matrix (outputs, inputs).
    """

    bits: int
    scale_bits: int
    rows: int
    columns: int

    def scales(self, weights: Shape) -> Shape:
        """The shape of the scales of weights (..., outputs, inputs); a block at the edge may be partial."""
        *outer, outputs, inputs = weights
        return (*outer, -(-outputs // self.rows), -(-inputs // self.columns))


SCALES = ".scales"
"""How the names of parameters end that hold the scales of :class:`Blocks`: they are no model parameters."""


class NetworkBuilder:
    """Collects the nodes of a network; every method adds one node and returns the name of its result.

    Operators are called as in operator-graph JSON (ATen's names, ``+`` between fused ones). A node's result
    and its layer have the node's name. Biases and normalisation vectors are left out unless they are asked
    for. ``bits`` are those of an element of every value whose method is given no others; None: not stated.
    ``views_folded`` is the network's.
    """

    def __init__(self, name: str, bits: int | None = None, *, views_folded: bool = True) -> None:
        self._name = name
        self._views_folded = views_folded
        self._bits = bits
        self._own_bits: dict[str, int] = {}
        self._nodes: list[Node] = []
        self._shapes: dict[str, Shape] = {}
        self._inputs: list[str] = []
        self._parameters: list[str] = []

    def input(self, name: str, shape: Shape) -> str:
        """An input of the network, samples first."""
        self._inputs.append(name)
        self._shapes[name] = shape
        return name

    def parameter(self, name: str, shape: Shape, bits: int | None = None) -> str:
        """Weights, or another constant tensor."""
        self._parameters.append(name)
        self._shapes[name] = shape
        if bits is not None:
            self._own_bits[name] = bits
        return name

    def weights(self, name: str, shape: Shape, stored: Blocks | None = None) -> tuple[str, ...]:
        """The weights (..., outputs, inputs) of a node, NAME.weight, and their scales if they have some."""
        if stored is None:
            return (self.parameter(f"{name}.weight", shape),)
        return (
            self.parameter(f"{name}.weight", shape, stored.bits),
            self.parameter(f"{name}{SCALES}", stored.scales(shape), stored.scale_bits),
        )

    def shape(self, value: str) -> Shape:
        """The shape of a value in elements, that of an image (samples, channels, rows, columns)."""
        return self._shapes[value]

    def operator(
        self,
        name: str,
        operator: str,
        inputs: tuple[str, ...],
        shape: Shape,
        layer: Layer | None = None,
        /,
        **attributes: Plain,
    ) -> str:
        """Any operator: ``shape`` is its result's, ``layer`` its multiply-accumulates'.

        ``attributes`` have the operator's own names: ``dim`` of ATen's ``cat``, ``axis`` of ``Concat``.
        """
        layers = (layer,) if layer else ()
        self._nodes.append(Node(name, operator, inputs, (name,), layers, attributes=Attributes(attributes)))
        self._shapes[name] = shape
        return name

    def convolution(self, name: str, x: str, conv: Convolution) -> str:
        """A convolution of an image, with what is fused to it."""
        batch, channels, *plane = self.shape(x)
        padding = conv.kernel // 2 if conv.padding is None else conv.padding
        rows, columns = ((size + 2 * padding - conv.kernel) // conv.stride + 1 for size in plane)
        shape = (batch, conv.channels, rows, columns)
        weights = (conv.channels, channels // conv.groups, conv.kernel, conv.kernel)
        window = Window.of(2, (conv.stride,), (1,), conv.groups)
        layer = convolution_of(name, self.shape(x), weights, shape, window)
        inputs: tuple[str, ...] = (x, self.parameter(f"{name}.weight", weights))
        if conv.bias:
            inputs += (self.parameter(f"{name}.bias", weights[:1]),)
        operator = _fused("conv2d", conv.activation)
        stated = {"stride": conv.stride, "padding": padding, "groups": conv.groups}
        return self.operator(name, operator, inputs, shape, layer, **stated)

    def max_pool(self, name: str, x: str, pool: Pool) -> str:
        """Max pooling of an image."""
        *outer, rows, columns = self.shape(x)
        # as much as makes the division by the stride below round up, where the last window may be partial
        spare = pool.stride - 1 if pool.ceil else 0
        rows, columns = (
            (size + 2 * pool.padding - pool.kernel + spare) // pool.stride + 1 for size in (rows, columns)
        )
        window = Pooling((pool.kernel, pool.kernel), (pool.stride, pool.stride))
        stated = {"kernel_size": pool.kernel, "stride": pool.stride, "padding": pool.padding}
        attributes = Attributes(stated | {"ceil_mode": pool.ceil})
        self._nodes.append(Node(name, "max_pool2d", (x,), (name,), pooling=window, attributes=attributes))
        self._shapes[name] = (*outer, rows, columns)
        return name

    def upsample(self, name: str, x: str) -> str:
        """An image of twice as many rows and columns, each element four times."""
        batch, channels, rows, columns = self.shape(x)
        return self.operator(name, "upsample_nearest2d", (x,), (batch, channels, 2 * rows, 2 * columns))

    def average_pool(self, name: str, x: str, size: int = 1) -> str:
        """Adaptive average pooling to ``size`` x ``size``."""
        return self.operator(
            name, "adaptive_avg_pool2d", (x,), (*self.shape(x)[:2], size, size), output_size=size
        )

    def linear(
        self,
        name: str,
        x: str,
        outputs: int,
        activation: str = "",
        *,
        bias: bool = False,
        stored: Blocks | None = None,
    ) -> str:
        """A fully connected layer on the last axis; an image is flattened first."""
        shape = self.shape(x)
        features = shape[1] * shape[2] * shape[3] if len(shape) == 4 else shape[-1]
        parameters = self.weights(name, (outputs, features), stored)
        if bias:
            parameters += (self.parameter(f"{name}.bias", (outputs,)),)
        return self.linear_with(name, x, parameters, activation)

    def linear_with(self, name: str, x: str, parameters: tuple[str, ...], activation: str = "") -> str:
        """:meth:`linear` with ``parameters`` that there are: weights (outputs, inputs) first."""
        shape, weights = self.shape(x), self.shape(parameters[0])
        made = (*(shape[:1] if len(shape) == 4 else shape[:-1]), weights[0])
        layer = linear_of(name, weights, made)
        return self.operator(name, _fused("linear", activation), (x, *parameters), made, layer)

    def add(self, name: str, x: str, y: str, activation: str = "") -> str:
        """The sum of two values, in the first one's shape."""
        return self.operator(name, _fused("add", activation), (x, y), self.shape(x))

    def concatenate(self, name: str, branches: tuple[str, ...]) -> str:
        """Concatenation of images along their channels."""
        batch, _, *plane = self.shape(branches[0])
        channels = sum(self.shape(branch)[1] for branch in branches)
        return self.operator(name, "cat", branches, (batch, channels, *plane), dim=1)

    def matmul(self, name: str, x: str, y: str, operator: str = "matmul") -> str:
        """The product of two values by NumPy's rules; consecutive heads of ``x`` may share one of ``y``."""
        a, b = self.shape(x), self.shape(y)
        (layer,) = matmul_of(name, whole(x, a), whole(y, b)).layers
        return self.operator(name, operator, (x, y), (*map(max, a[:-2], b[:-2]), a[-2], b[-1]), layer)

    def reshape(self, name: str, x: str, shape: Shape) -> str:
        return self.operator(name, "reshape", (x,), shape, shape=shape)

    def permute(self, name: str, x: str, dims: tuple[int, ...]) -> str:
        return self.operator(name, "permute", (x,), tuple(self.shape(x)[d] for d in dims), dims=dims)

    def pointwise(self, name: str, operator: str, x: str) -> str:
        """A function of one value that keeps its shape: an activation, softmax, rotary embedding."""
        return self.operator(name, operator, (x,), self.shape(x))

    def heads_apart(self, name: str, x: str, heads: int) -> str:
        """The value (batch, tokens, heads * width) as (batch, heads, tokens, width)."""
        batch, tokens, width = self.shape(x)
        apart = self.reshape(f"{name}.heads", x, (batch, tokens, heads, width // heads))
        return self.permute(f"{name}.by_head", apart, (0, 2, 1, 3))

    def heads_together(self, name: str, x: str) -> str:
        """The value (batch, heads, tokens, width) as (batch, tokens, heads * width)."""
        batch, heads, tokens, width = self.shape(x)
        by_token = self.permute(f"{name}.by_token", x, (0, 2, 1, 3))
        return self.reshape(f"{name}.together", by_token, (batch, tokens, heads * width))

    def after_past(self, name: str, x: str, past: int) -> str:
        """The value (batch, tokens, width) behind ``past`` tokens, which are an input NAME.cache."""
        batch, tokens, width = self.shape(x)
        if not past:
            return x
        cache = self.input(f"{name}.cache", (batch, past, width))
        return self.operator(f"{name}.cached", "cat", (cache, x), (batch, past + tokens, width), dim=1)

    def part(self, name: str, x: str, start: int, end: int) -> str:
        """Elements ``start`` to before ``end`` of the last axis."""
        *outer, _ = self.shape(x)
        shape = (*outer, end - start)
        return self.operator(name, "slice", (x,), shape, dim=len(outer), start=start, end=end)

    def parts(self, name: str, x: str, widths: Mapping[str, int]) -> list[str]:
        """The last axis in parts NAME.PART of the ``widths``, one after the other."""
        ends = list(accumulate(widths.values()))
        starts = (0, *ends)
        return [
            self.part(f"{name}.{one}", x, *ends) for one, *ends in zip(widths, starts, ends, strict=False)
        ]

    def rows(self, name: str, x: str, start: int, end: int) -> str:
        """Tokens ``start`` to before ``end`` of a value (batch, tokens, width); all of them need no node."""
        batch, tokens, width = self.shape(x)
        if (start, end) == (0, tokens):
            return x
        return self.operator(name, "slice", (x,), (batch, end - start, width), dim=1, start=start, end=end)

    def last_tokens(self, name: str, x: str, count: int) -> str:
        """The last ``count`` tokens of a value (batch, tokens, width)."""
        tokens = self.shape(x)[1]
        return self.rows(name, x, tokens - count, tokens)

    def normalised(self, name: str, operator: str, x: str, *, bias: bool = False) -> str:
        """A normalisation along the last axis with its vectors: NAME.weight and, with ``bias``, NAME.bias."""
        vectors = ("weight", "bias") if bias else ("weight",)
        read = tuple(self.parameter(f"{name}.{vector}", self.shape(x)[-1:]) for vector in vectors)
        return self.operator(name, operator, (x, *read), self.shape(x))

    def layer_norm(self, name: str, x: str) -> str:
        return self.operator(name, "layer_norm", (x,), self.shape(x), normalized_shape=self.shape(x)[-1:])

    def attention(self, name: str, projections: tuple[str, ...], heads: int) -> str:
        """Multi-head attention over one sequence: a product for the scores, one for the weighted values.

        ``projections`` are queries, keys and values (batch, sequence, width), or one value with the
        three packed (batch, sequence, 3 * width).
        """
        batch, sequence, width = self.shape(projections[0])
        # packed queries, keys and values are one value: three names for it, and a third of its width each
        width = width // 3 if len(projections) == 1 else width
        q, k, v = projections * 3 if len(projections) == 1 else projections
        size = {"B": batch * heads, "M": sequence}
        scores = self.operator(
            f"{name}.scores",
            "matmul+mul+softmax",
            tuple(dict.fromkeys((q, k))),  # a packed value is one input, not two
            (batch, heads, sequence, sequence),
            batched_matmul(f"{name}.scores", **size, N=sequence, K=width // heads),
            transposed=True,
        )
        return self.operator(
            f"{name}.values",
            "matmul",
            (scores, v),
            (batch, sequence, width),
            batched_matmul(f"{name}.values", **size, N=width // heads, K=sequence),
            transposed=False,
        )

    def network(self) -> Network:
        """What was built; results that no node reads are the network's outputs."""
        read = {value for node in self._nodes for value in node.inputs}
        made = [value for node in self._nodes for value in node.outputs]
        values = (
            *(self._value(name, "input") for name in self._inputs),
            *(self._value(name, "parameter") for name in self._parameters),
            *(self._value(name, "activation" if name in read else "output") for name in made),
        )
        return Network(self._name, tuple(self._nodes), values, self._views_folded)

    def _value(self, name: str, kind: ValueKind) -> Value:
        return Value(name, self.shape(name), kind, self._own_bits.get(name, self._bits))


def _fused(operator: str, activation: str) -> str:
    return f"{operator}+{activation}" if activation else operator
