"""Writing a network down operator by operator, as its paper's table does."""

from __future__ import annotations

from dataclasses import dataclass

from costmodel.workload.attributes import Attributes, Plain
from costmodel.workload.convolutions import Window, convolution_of
from costmodel.workload.digits import Shape
from costmodel.workload.network import Layer, Network, Node, Pooling, Value, batched_matmul
from costmodel.workload.products import linear_of


@dataclass(frozen=True)
class Convolution:
    """A square convolution with its batch normalisation and activation folded in.

    ``padding`` None keeps the size at stride 1 (half the kernel); ``activation`` is "" for none.
    """

    channels: int
    kernel: int = 1
    stride: int = 1
    padding: int | None = None
    groups: int = 1
    activation: str = "relu"


@dataclass(frozen=True)
class Pool:
    """A square max-pooling window; ``ceil`` keeps the last, partial window."""

    kernel: int
    stride: int
    padding: int = 0
    ceil: bool = False


class NetworkBuilder:
    """Collects the nodes of a network; every method adds one node and returns the name of its result.

    Operators are called as in operator-graph JSON (ATen's names, ``+`` between fused ones). A node's result
    and its layer have the node's name. Biases and folded normalisation vectors are left out.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes: list[Node] = []
        self._shapes: dict[str, Shape] = {}
        self._inputs: list[str] = []
        self._parameters: list[str] = []

    def input(self, name: str, shape: Shape) -> str:
        """An input of the network, samples first."""
        self._inputs.append(name)
        self._shapes[name] = shape
        return name

    def parameter(self, name: str, shape: Shape) -> str:
        """Weights, or another constant tensor."""
        self._parameters.append(name)
        self._shapes[name] = shape
        return name

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
        inputs = (x, self.parameter(f"{name}.weight", weights))
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

    def average_pool(self, name: str, x: str, size: int = 1) -> str:
        """Adaptive average pooling to ``size`` x ``size``."""
        return self.operator(
            name, "adaptive_avg_pool2d", (x,), (*self.shape(x)[:2], size, size), output_size=size
        )

    def linear(self, name: str, x: str, outputs: int, activation: str = "") -> str:
        """A fully connected layer on the last axis; an image is flattened first."""
        shape = self.shape(x)
        rows, features = (
            (shape[:1], shape[1] * shape[2] * shape[3]) if len(shape) == 4 else (shape[:-1], shape[-1])
        )
        inputs = (x, self.parameter(f"{name}.weight", (outputs, features)))
        layer = linear_of(name, (outputs, features), (*rows, outputs))
        return self.operator(name, _fused("linear", activation), inputs, (*rows, outputs), layer)

    def add(self, name: str, x: str, y: str, activation: str = "") -> str:
        """The sum of two values, in the first one's shape."""
        return self.operator(name, _fused("add", activation), (x, y), self.shape(x))

    def concatenate(self, name: str, branches: tuple[str, ...]) -> str:
        """Concatenation of images along their channels."""
        batch, _, *plane = self.shape(branches[0])
        channels = sum(self.shape(branch)[1] for branch in branches)
        return self.operator(name, "cat", branches, (batch, channels, *plane), dim=1)

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
            *(Value(name, self.shape(name), "input") for name in self._inputs),
            *(Value(name, self.shape(name), "parameter") for name in self._parameters),
            *(Value(name, self.shape(name), "activation" if name in read else "output") for name in made),
        )
        return Network(self._name, tuple(self._nodes), values)


def _fused(operator: str, activation: str) -> str:
    return f"{operator}+{activation}" if activation else operator
