"""Workloads: a Layer is a loop nest over tensors with affine projections, a Network a DAG of operators."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any, Literal, get_args

from costmodel.errors import InputError
from costmodel.number_checks import is_whole
from costmodel.workload.attributes import NO_ATTRIBUTES, Attributes
from costmodel.workload.operators import OperatorKind, kinds_of
from costmodel.workload.projection import Axis, Projection, Stride

Role = Literal["weights", "inputs", "outputs"]

MOST_COUNTED = 2**60
"""The most MACs of a layer, and words of a tensor.

The counts of a mapping are small multiples of these and must fit in 64 bits.
"""

MOST_BITS = 1024
"""The most bits of an element: more is a slip of the pen."""


@dataclass(frozen=True)
class Tensor:
    """A tensor of a layer: which of its elements a point of the loop nest touches (Timeloop's data space).

    ``axes`` are affine projections: an axis with the steps 2 * P and 1 * R is indexed by ``2 * p + r``. No
    dim indexes two axes. By ``role`` a storage level may be restricted to weights, inputs or outputs; the
    tensor with the role ``outputs`` is read and written, because partial sums come back.

    ``begun``, of outputs: there are partial sums of all elements before the layer starts, and it adds to
    them. So the first visit of an element reads its sum, where other layers begin at zero. Of a layer that
    is computed part after part along a summed dim, all parts but the first are such layers.
    """

    name: str
    axes: tuple[Projection, ...]
    role: Role
    begun: bool = False

    @classmethod
    def of_terms(cls, name: str, axes: Iterable[Axis], role: Role) -> Tensor:
        """A tensor without padding, by the (dim, coefficient) terms of each axis."""
        return cls(name, tuple(Projection.of_terms(axis) for axis in axes), role)

    def __post_init__(self) -> None:
        where = f"tensor {self.name}"
        if self.role not in get_args(Role):
            raise InputError(where, f"one of {get_args(Role)}", self.role, key="role")
        used = [step for axis in self.axes for step in axis.steps]
        for dim, coefficient, divisor in used:
            for number in (coefficient, divisor):
                if not isinstance(number, int) or number < 1:
                    expected = "a positive whole coefficient (stride or dilation) and divisor (of groups)"
                    raise InputError(where, expected, number, key=dim)
        if self.begun and not self.is_output:
            raise InputError(where, "no partial sums: only outputs have some", self.begun, key="begun")
        if len({step[0] for step in used}) != len(used):
            raise InputError(where, "every dim in one axis, once", [step.dim for step in used], key="axes")

    @cached_property
    def dims(self) -> frozenset[str]:
        """The layer dims that the tensor depends on (its relevant dims)."""
        return frozenset(step.dim for axis in self.axes for step in axis.steps)

    @cached_property
    def terms(self) -> tuple[Axis, ...]:
        """The (dim, coefficient) terms of every axis, all that the counters of mappings look at.

        They count padding as words, as Timeloop does. InputError for a divisor, which they do not know: a
        nest that is mapped has a dim over its groups instead.
        """
        for dim, _, divisor in (step for axis in self.axes for step in axis.steps):
            if divisor != 1:
                raise InputError(f"tensor {self.name}", "a dim over groups, and no divisor", divisor, key=dim)
        return tuple(tuple((dim, coefficient) for dim, coefficient, _ in axis.steps) for axis in self.axes)

    @cached_property
    def steps(self) -> dict[str, tuple[int, ...]]:
        """By relevant dim: how many words one step of the dim moves along each axis."""
        return {
            dim: tuple(coefficient if number == own else 0 for number in range(len(self.axes)))
            for own, axis in enumerate(self.terms)
            for dim, coefficient in axis
        }

    @cached_property
    def slides(self) -> bool:
        """Whether an axis sums several dims, so that neighbouring tiles can overlap (a window's halo)."""
        return any(len(axis.steps) > 1 for axis in self.axes)

    @property
    def is_output(self) -> bool:
        return self.role == "outputs"

    def extents(self, tile: ReadOnlyDict[str, int]) -> tuple[int, ...]:
        """Length in words of each axis of a tile, whose dims ``d`` run over ``tile[d]`` points (1 if absent).

        It is that of the bounding box: the sum of coefficient * (points - 1) over the axis's dims, plus 1.
        """
        return tuple([axis.extent(tile) for axis in self.axes])

    def words(self, tile: ReadOnlyDict[str, int]) -> int:
        """Words in the bounding box of a tile; words that strides and dilations skip are counted, too."""
        return prod(self.extents(tile))


@dataclass(frozen=True)
class Layer:
    """One operator as a perfect loop nest: ``dims`` are (name, size) pairs, and every point is one operation.

    For a convolution or product that is one MAC; for a layer of vector units, one element of each operand. Of
    a product, dims on which the outputs do not depend are summed over.

    ``bits``, ``caches`` and ``scales`` are for architectures whose elements have widths of their own, and
    empty elsewhere. ``bits``: of an element, by tensor, as the network's file states them. ``caches``: the
    tensors that have the role of weights and are no parameters. ``scales``: of tensors with ``bits``, how
    many bits of scale so many elements share, as (tensor, bits, elements).

    Two layers of equal :attr:`shape` are the same problem for a mapping solver, whatever their names: compare
    that, not the layers.
    """

    name: str
    dims: tuple[tuple[str, int], ...]
    tensors: tuple[Tensor, ...]
    bits: tuple[tuple[str, int], ...] = ()
    caches: tuple[str, ...] = ()
    scales: tuple[tuple[str, int, int], ...] = ()

    def __post_init__(self) -> None:
        where = f"layer {self.name}"
        for dim, size in self.dims:
            if not is_whole(size, 1):
                raise InputError(where, "a whole size of at least 1", size, key=dim)
        names = [dim for dim, _ in self.dims]
        if len(set(names)) != len(names):
            raise InputError(where, "every dim once", names)
        tensors = [tensor.name for tensor in self.tensors]
        if sum(tensor.is_output for tensor in self.tensors) != 1:
            raise InputError(where, "exactly one output tensor", tensors)
        if len(set(tensors)) != len(tensors):
            raise InputError(where, "every tensor's name once", tensors)
        for tensor in self.tensors:
            if unknown := tensor.dims - set(names):
                raise InputError(where, f"dims among {names}", sorted(unknown), key=tensor.name)
        for name, bits in self.bits:
            if name not in tensors or not is_whole(bits, 1, MOST_BITS):
                raise InputError(
                    where, f"whole bits, from 1 to {MOST_BITS:,}, of its tensors", bits, key=name
                )
        if unknown_caches := set(self.caches) - set(tensors):
            raise InputError(where, f"caches among {tensors}", sorted(unknown_caches), key="caches")
        for name, bits, elements in self.scales:
            if name not in dict(self.bits) or not is_whole(bits, 1, MOST_BITS) or not is_whole(elements, 1):
                expected = f"from 1 to {MOST_BITS:,} bits of scale for elements of a tensor with bits"
                raise InputError(where, expected, (bits, elements), key=name)
        counts = {"MACs": self.macs} | {f"words of {t.name}": t.words(self.sizes) for t in self.tensors}
        for key, count in counts.items():
            if count > MOST_COUNTED:
                raise InputError(where, f"at most {MOST_COUNTED:,} (64-bit counts)", count, key=key)

    @cached_property
    def sizes(self) -> dict[str, int]:
        return dict(self.dims)

    @cached_property
    def index(self) -> dict[str, int]:
        """By dim, its position in ``dims`` and in boxes of points."""
        return {dim: number for number, (dim, _) in enumerate(self.dims)}

    @cached_property
    def macs(self) -> int:
        return prod(size for _, size in self.dims)

    @cached_property
    def summed(self) -> frozenset[str]:
        """The dims that are summed over."""
        return frozenset(self.sizes) - self.output.dims

    def length(self, axis: Projection) -> int:
        """Elements along an axis of one of the layer's tensors, without padding."""
        return axis.extent(self.sizes) if axis.length is None else axis.length

    @property
    def shape(self) -> tuple[object, ...]:
        """What makes two layers the same problem: everything but the name."""
        stated = (self.scales,) if self.scales else ()
        return self.dims, self.tensors, self.bits, self.caches, *stated

    @cached_property
    def continued(self) -> Layer:
        """The same layer, but that it adds to partial sums which are there already."""
        tensors = (replace(tensor, begun=tensor.is_output) for tensor in self.tensors)
        return replace(self, tensors=tuple(tensors))

    @cached_property
    def output(self) -> Tensor:
        return next(tensor for tensor in self.tensors if tensor.is_output)

    def tensor(self, name: str) -> Tensor:
        """The tensor of that name; InputError if there is none."""
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        raise InputError(f"layer {self.name}", f"a tensor among {[t.name for t in self.tensors]}", name)

    def to_json(self) -> dict[str, Any]:
        """Plain data, from which :meth:`from_json` makes an equal layer."""
        tensors: list[dict[str, Any]] = [
            {"name": t.name, "role": t.role, "axes": [_axis_json(axis) for axis in t.axes]}
            for t in self.tensors
        ]
        # where nothing is stated no key is written: stored answers are found by the hash of this
        for tensor in tensors:
            if (bits := dict(self.bits).get(tensor["name"])) is not None:
                tensor["bits"] = bits
            if shared := next((one[1:] for one in self.scales if one[0] == tensor["name"]), ()):
                tensor["scale"] = list(shared)
            if tensor["name"] in self.caches:
                tensor["cache"] = True
            if self.tensor(tensor["name"]).begun:
                tensor["begun"] = True
        return {"name": self.name, "dims": dict(self.dims), "tensors": tensors}

    @classmethod
    def from_json(cls, data: ReadOnlyDict[str, Any]) -> Layer:
        """The layer of :meth:`to_json`; InputError for what is no layer."""
        tensors = tuple(
            Tensor(t["name"], tuple(_axis_of(axis) for axis in t["axes"]), t["role"], bool(t.get("begun")))
            for t in data["tensors"]
        )
        bits = tuple((t["name"], t["bits"]) for t in data["tensors"] if "bits" in t)
        caches = tuple(t["name"] for t in data["tensors"] if t.get("cache"))
        scales = tuple((t["name"], *t["scale"]) for t in data["tensors"] if "scale" in t)
        return cls(data["name"], tuple(data["dims"].items()), tensors, bits, caches, scales)


def _axis_json(axis: Projection) -> Any:
    """A projection as plain data: its terms; with what else it has, where it has more."""
    steps = [list(step if step.divisor != 1 else step[:2]) for step in axis.steps]
    plain = axis.length is None and not axis.offset
    return steps if plain else {"steps": steps, "length": axis.length, "offset": axis.offset}


def _axis_of(data: Any) -> Projection:
    """The projection of :func:`_axis_json`."""
    more = data if isinstance(data, dict) else {"steps": data, "length": None, "offset": 0}
    return Projection(tuple(Stride(*step) for step in more["steps"]), more["length"], more["offset"])


def _axes(*axes: str | Axis) -> tuple[Axis, ...]:
    return tuple(((axis, 1),) if isinstance(axis, str) else axis for axis in axes)


def _sizes(**sizes: int) -> tuple[tuple[str, int], ...]:
    return tuple(sizes.items())


def convolution(
    name: str,
    *,
    N: int = 1,  # noqa: N803 - the field's names of the dims
    K: int,  # noqa: N803
    C: int,  # noqa: N803
    P: int,  # noqa: N803
    Q: int,  # noqa: N803
    R: int,  # noqa: N803
    S: int,  # noqa: N803
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
) -> Layer:
    """A convolution of N samples: K output channels of P x Q from C input channels, filters R x S.

    ``stride`` and ``dilation`` are those along rows (P, R), then along columns (Q, S). The input includes its
    padding: it has ``(P-1)*stride + (R-1)*dilation + 1`` rows. The arguments K and C are totals. A layer of
    several ``groups`` has a dim G over the groups, and its dims K and C are those of one group. A depthwise
    convolution (one input and one output channel a group) has C as its only channel dim.
    """
    for value, key in (
        (groups, "groups"),
        *((s, "stride") for s in stride),
        *((d, "dilation") for d in dilation),
    ):
        if not isinstance(value, int) or value < 1:
            raise InputError(f"layer {name}", "a whole number of at least 1", value, key=key)
    if K % groups or C % groups:
        raise InputError(f"layer {name}", f"groups that divide K={K} and C={C}", groups, key="groups")
    rows: Axis = (("R", dilation[0]), ("P", stride[0]))
    columns: Axis = (("S", dilation[1]), ("Q", stride[1]))
    if groups > 1 and groups == K == C:
        return Layer(
            name,
            _sizes(R=R, S=S, P=P, Q=Q, C=C, N=N),
            (
                Tensor.of_terms("Weights", _axes("C", "R", "S"), "weights"),
                Tensor.of_terms("Inputs", _axes("N", "C", rows, columns), "inputs"),
                Tensor.of_terms("Outputs", _axes("N", "C", "Q", "P"), "outputs"),
            ),
        )
    group = ("G",) if groups > 1 else ()
    return Layer(
        name,
        _sizes(R=R, S=S, P=P, Q=Q, C=C // groups, K=K // groups, N=N, **({"G": groups} if group else {})),
        (
            Tensor.of_terms("Weights", _axes(*group, "C", "K", "R", "S"), "weights"),
            Tensor.of_terms("Inputs", _axes("N", *group, "C", rows, columns), "inputs"),
            Tensor.of_terms("Outputs", _axes("N", *group, "K", "Q", "P"), "outputs"),
        ),
    )


def sized_convolution(name: str, sizes: ReadOnlyDict[str, int], stride: tuple[int, int] = (1, 1)) -> Layer:
    """:func:`convolution` without groups and dilation, of ``sizes`` for all of N, K, C, P, Q, R and S."""
    N, K, C, P, Q, R, S = (sizes[dim] for dim in "NKCPQRS")  # noqa: N806 - the field's names of the dims
    return convolution(name, N=N, K=K, C=C, P=P, Q=Q, R=R, S=S, stride=stride)


def gemm(name: str, *, M: int, N: int, K: int) -> Layer:  # noqa: N803
    """Z[M, N] = A[M, K] * B[N, K]; a fully connected layer has its batch in M and its outputs in N."""
    return Layer(
        name,
        _sizes(M=M, N=N, K=K),
        (
            Tensor.of_terms("A", _axes("M", "K"), "inputs"),
            Tensor.of_terms("B", _axes("N", "K"), "weights"),
            Tensor.of_terms("Z", _axes("M", "N"), "outputs"),
        ),
    )


def batched_matmul(name: str, *, B: int, M: int, N: int, K: int) -> Layer:  # noqa: N803
    """Z[B, M, N] = A[B, M, K] * B[B, N, K]: attention scores and values, one product per batch and head."""
    if B == 1:  # layers are told apart by their dims, and equal work is solved once
        return gemm(name, M=M, N=N, K=K)
    return Layer(
        name,
        _sizes(B=B, M=M, N=N, K=K),
        (
            Tensor.of_terms("A", _axes("B", "M", "K"), "inputs"),
            Tensor.of_terms("B", _axes("B", "N", "K"), "weights"),
            Tensor.of_terms("Z", _axes("B", "M", "N"), "outputs"),
        ),
    )


ValueKind = Literal["input", "activation", "parameter", "output"]


@dataclass(frozen=True)
class Value:
    """A tensor that flows between the nodes of a network; ``shape`` in elements.

    ``bits`` are those of one element, None where the file does not state them.
    """

    name: str
    shape: tuple[int, ...]
    kind: ValueKind
    bits: int | None = None

    @property
    def elements(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True)
class Pooling:
    """The window of a pooling: its size, and how far it moves, along every spatial axis."""

    size: tuple[int, ...]
    stride: tuple[int, ...]


@dataclass(frozen=True)
class Uncounted:
    """Why some or all multiply-accumulates of a node are in none of its layers.

    ``why``: a sentence without a full stop. ``macs``: how many are missing where the shapes tell, else None.
    ``error``: set where shapes or attributes contradict each other. :attr:`Network.layers` raises it, so that
    nobody maps such a network; its tensors can be planned all the same.
    """

    why: str
    macs: int | None = None
    error: InputError | None = None


@dataclass(frozen=True)
class Node:
    """An operator of a network, and the values that it reads and writes.

    - ``operator`` is its name in the file (``conv2d+relu``, ``Conv``), for messages. ``kinds`` are its rows
      in the table of operators, one for each operator fused in it; left out, they follow from ``operator``,
      read as PyTorch's names.
    - ``inputs`` are in the operator's order; a value that it reads twice is there twice.
    - ``layers`` are the loop nests of its multiply-accumulates: one for most, two for fused attention
      (scores, weighted values), none for element-wise operators, pooling, concatenation and normalisation.
    - ``pooling`` is its window, where the file states one. ``attributes`` are all that the file states.
    - ``uncounted`` says which work is missing in ``layers``, and why; None: none is. ``note`` says what is
      uncertain about the words that ``layers`` read; empty: nothing.
    """

    name: str
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    layers: tuple[Layer, ...] = ()
    pooling: Pooling | None = None
    attributes: Attributes = NO_ATTRIBUTES
    uncounted: Uncounted | None = None
    note: str = ""
    kinds: tuple[OperatorKind, ...] = ()

    def __post_init__(self) -> None:
        if not self.kinds:
            object.__setattr__(self, "kinds", kinds_of(self.operator))

    @property
    def kind(self) -> OperatorKind:
        """The first of :attr:`kinds`: what the operator is without what is fused to it."""
        return self.kinds[0]

    @property
    def opaque(self) -> bool:
        """Whether the operator may do work that no layer counts."""
        return self.uncounted is not None


@dataclass(frozen=True)
class Network:
    """A DAG of nodes in topological order, over named values. Checked when built.

    ``views_folded``: whether views (reshape, transpose, slice) may be missing between a value and the nodes
    that read it. Exporters of operator graphs in JSON leave them out; ONNX files have all of them.
    """

    name: str
    nodes: tuple[Node, ...]
    values: tuple[Value, ...] = field(default=())
    views_folded: bool = True

    def __post_init__(self) -> None:
        where = f"network {self.name}"
        known = {value.name: value for value in self.values}
        if len(known) != len(self.values):
            raise InputError(where, "value names that are all different", "a name twice")
        ready = {value.name for value in self.values if value.kind in ("input", "parameter")}
        for node in self.nodes:
            for name in (*node.inputs, *node.outputs):
                if name not in known:
                    raise InputError(where, "values that the network declares", name, key=node.name)
            if missing := [name for name in node.inputs if name not in ready]:
                raise InputError(
                    where,
                    "nodes in topological order (every input made before it is read)",
                    missing,
                    key=node.name,
                )
            # also a node's output that is an input or a parameter: no node may write those
            if again := [name for name in node.outputs if name in ready]:
                raise InputError(where, "every value made once", again, key=node.name)
            ready.update(node.outputs)

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """Every layer that asks for MACs, in execution order.

        Raises InputError naming the first node whose shapes contradict each other; a network with such a
        node can be read, and its tensors planned, all the same.
        """
        for node in self.nodes:
            if node.uncounted and node.uncounted.error:
                raise node.uncounted.error
        return tuple(layer for node in self.nodes for layer in node.layers)

    @property
    def macs(self) -> int:
        return sum(layer.macs for layer in self.layers)

    def value(self, name: str) -> Value:
        """The value of that name; InputError if there is none."""
        for value in self.values:
            if value.name == name:
                return value
        raise InputError(f"network {self.name}", "the name of a value", name)


def distinct_layers(layers: Iterable[Layer]) -> list[tuple[Layer, int]]:
    """One layer of each shape, in order of first appearance, with the number of layers of that shape."""
    first: dict[object, Layer] = {}
    count: dict[object, int] = {}
    for layer in layers:
        first.setdefault(layer.shape, layer)
        count[layer.shape] = count.get(layer.shape, 0) + 1
    return [(layer, count[shape]) for shape, layer in first.items()]
