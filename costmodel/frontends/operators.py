"""From an operator's tensor shapes to the loop nests (layers) of its multiply-accumulates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from costmodel.errors import InputError
from costmodel.workload import Axis, Layer, Network, Tensor, batched_matmul, convolution, gemm

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Window:
    """How a filter slides: a stride and a dilation per spatial axis (padding shows in the output shape)."""

    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1

    @classmethod
    def of(
        cls, axes: int, stride: Sequence[int] = (), dilation: Sequence[int] = (), groups: int = 1
    ) -> Window:
        """A window over ``axes`` spatial axes; what is left out is 1, a single number holds for all axes."""
        return cls(_spread(stride, axes), _spread(dilation, axes), groups)


def _spread(numbers: Sequence[int], axes: int) -> tuple[int, ...]:
    return tuple(numbers) * axes if len(numbers) == 1 else tuple(numbers) or (1,) * axes


def convolution_of(name: str, inputs: Shape, weights: Shape, output: Shape, window: Window) -> Layer:
    """The layer of a 1-D, 2-D or 3-D convolution.

    ``inputs`` is (N, C, *rows), ``weights`` (K, C / groups, *filter) and ``output`` (N, K, *positions). A
    1-D convolution runs along Q and S (P = R = 1); a 3-D one has two dims more: D, the output depth, and
    T, the filter depth.
    """
    axes = len(weights) - 2
    if not 1 <= axes <= 3 or len(output) != len(weights) or output[1] != weights[0]:
        found = f"weights {weights} and output {output}"
        raise InputError(f"layer {name}", "weights (K, C/groups, *filter) and output (N, K, *out)", found)
    if len(inputs) != len(weights) or inputs[1] != weights[1] * window.groups:
        found = f"input {inputs} with weights {weights} and groups {window.groups}"
        raise InputError(f"layer {name}", "an input (N, C, *rows) with C = groups * weights[1]", found)
    for key, numbers in (("stride", window.stride), ("dilation", window.dilation)):
        if len(numbers) != axes:
            raise InputError(f"layer {name}", f"{axes} whole numbers, one per spatial axis", numbers, key=key)
    size = (1,) * (2 - axes) + output[2:]
    filters = (1,) * (2 - axes) + weights[2:]
    stride = (1,) * (2 - axes) + window.stride
    dilation = (1,) * (2 - axes) + window.dilation
    plane = convolution(
        name,
        N=output[0],
        K=weights[0],
        C=weights[1] * window.groups,
        P=size[-2],
        Q=size[-1],
        R=filters[-2],
        S=filters[-1],
        stride=(stride[-2], stride[-1]),
        dilation=(dilation[-2], dilation[-1]),
        groups=window.groups,
    )
    if axes < 3:
        return plane
    return _deepened(plane, size[0], filters[0], (("T", dilation[0]), ("D", stride[0])))


def _deepened(plane: Layer, positions: int, filter_depth: int, depth: Axis) -> Layer:
    """A 2-D convolution with a depth axis added: dims D (output depth) and T (filter depth)."""
    extra: dict[str, Axis] = {"weights": (("T", 1),), "inputs": depth, "outputs": (("D", 1),)}
    tensors = tuple(Tensor(t.name, (*t.axes, extra[t.role]), t.role) for t in plane.tensors)
    return Layer(plane.name, (("T", filter_depth), ("D", positions), *plane.dims), tensors)


def matmul_of(name: str, a: Shape, b: Shape) -> Layer:
    """The layer of ``a @ b`` under NumPy's broadcasting rules.

    A batch axis that only ``a`` has is rows more (M), one that only ``b`` has is columns more (N): a
    product with a 2-D weight matrix is one GEMM over all rows of the batch.
    """
    rows = a if len(a) > 1 else (1, *a)
    columns = b if len(b) > 1 else (*b, 1)
    if not a or not b or rows[-1] != columns[-2]:
        raise InputError(f"layer {name}", "shapes (..., M, K) and (..., K, N)", f"{a} and {b}")
    longest = max(len(rows), len(columns)) - 2
    batch_a = (1,) * (longest - len(rows) + 2) + rows[:-2]
    batch_b = (1,) * (longest - len(columns) + 2) + columns[:-2]
    both, m, n = 1, rows[-2], columns[-1]
    for left, right in zip(batch_a, batch_b, strict=True):
        if left == right:
            both *= left
        elif right == 1:
            m *= left
        elif left == 1:
            n *= right
        else:
            raise InputError(f"layer {name}", "batch axes that broadcast", f"{a} and {b}")
    return batched_matmul(name, B=both, M=m, N=n, K=rows[-1])


def folded_matmul_of(name: str, a: Shape, b: Shape, output: Shape) -> Layer:
    """The layer of a product whose operands were viewed in another shape on the way, by counting elements.

    ``output`` is (..., M, N). ``a`` has batch * M * K elements; ``b`` has batch * K * N, or K * N when it
    is shared by the batch.
    """
    if len(output) < 2 or not all(output) or prod(a) % prod(output[:-1]):
        raise InputError(f"layer {name}", "operands whose elements fit the output", f"{a}, {b} -> {output}")
    batch, m, n = prod(output[:-2]), output[-2], output[-1]
    k = prod(a) // (batch * m)
    if prod(b) == batch * k * n:
        return batched_matmul(name, B=batch, M=m, N=n, K=k)
    if prod(b) == k * n:
        return gemm(name, M=batch * m, N=n, K=k)
    raise InputError(f"layer {name}", "operands whose elements fit the output", f"{a}, {b} -> {output}")


def linear_of(name: str, weights: Shape, output: Shape) -> Layer:
    """A fully connected layer: ``weights`` (outputs, inputs), ``output`` (..., outputs).

    The output may be narrower than the weights: a slice of a packed projection.
    """
    if len(weights) != 2 or not output or not 1 <= output[-1] <= weights[0]:
        found = f"weights {weights}, output {output}"
        raise InputError(f"layer {name}", "weights (outputs, inputs) and output (..., outputs)", found)
    return gemm(name, M=prod(output[:-1]), N=output[-1], K=weights[1])


def attention_of(name: str, output: Shape, keys: int) -> tuple[Layer, Layer]:
    """Scores (queries x keys) and weighted values; ``output`` is (..., heads, queries, width)."""
    heads, queries, width = prod(output[:-2]), output[-2], output[-1]
    return (
        batched_matmul(f"{name}.scores", B=heads, M=queries, N=keys, K=width),
        batched_matmul(f"{name}.values", B=heads, M=queries, N=width, K=keys),
    )


def einsum_of(name: str, equation: str, a: Shape, b: Shape) -> Layer | None:
    """The layer of a two-operand einsum that is a (batched) matrix product; None for any other."""
    left, arrow, result = equation.replace(" ", "").partition("->")
    letters = left.split(",")
    if not arrow or len(letters) != 2 or (len(letters[0]), len(letters[1])) != (len(a), len(b)):
        return None
    words = (*letters, result)
    if any(len(set(word)) != len(word) or not word.isalpha() for word in words if word):
        return None
    size_a, size_b = dict(zip(letters[0], a, strict=True)), dict(zip(letters[1], b, strict=True))
    shared = size_a.keys() & size_b.keys()
    alone = size_a.keys() ^ size_b.keys()
    # a letter of one operand that the result lacks is a sum of its own, not a product
    if any(size_a[x] != size_b[x] for x in shared) or alone - set(result) or set(result) - {*size_a, *size_b}:
        return None
    return batched_matmul(
        name,
        B=prod(size_a[x] for x in shared if x in result),
        M=prod(size_a[x] for x in size_a.keys() - shared),
        N=prod(size_b[x] for x in size_b.keys() - shared),
        K=prod(size_a[x] for x in shared if x not in result),
    )


def unsupported_operators(network: Network) -> tuple[str, ...]:
    """One sentence per opaque node, naming its operator, for whoever shows warnings."""
    return tuple(
        f"network {network.name}: operator {node.operator} of node {node.name} is kept as an opaque node"
        " (not supported, or its shapes are not known): none of its work is counted"
        for node in network.nodes
        if node.opaque
    )
