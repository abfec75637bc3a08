"""Products with a factor for each head of a row, and states that decay, as state-space scans have them.

The node's attribute ``factors`` says what of its last operand a result needs:

    of_row       (x, factors)               the factor of the result's own row                  ``scale``
    of_all_rows  (x, factors)               those of all rows of its chunk                      ``decay``
    of_column    (x, factors)               one for each number of the state: an outer product  ``outer``
    carried      (added, before?, factors)  those of all rows, multiplied: the state decays     ``carry``

Factors of rows have the shape (samples, rows, heads), as decays are multiplied from token to token. Heads are
equal parts of the result's channels. Where the first operand has fewer heads, neighbouring heads of the
result share one of its. Of several chunks each has a layer, which reads the factors of its own rows.

What is carried over chunks is a recurrence: a ``carry`` for each chunk, which reads the one of the chunk
before. The results are the states with which chunks begin; that behind the last chunk is made as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from costmodel.errors import InputError
from costmodel.schedule.layer_graph.reading.data import Builder
from costmodel.schedule.layer_graph.reading.drafts import EXTERNAL, Draft, Parts, Slice, joined, taken
from costmodel.schedule.layer_graph.reading.layout import Data, full, in_order, known_axes, listed_for_each
from costmodel.workload.digits import Digit, Shape
from costmodel.workload.network import Node, Value
from costmodel.workload.windows import Windows

FACTORS = "factors"
"""The attribute."""
_KINDS = {"of_row": "scale", "of_all_rows": "decay", "of_column": "outer", "carried": "carry"}
"""By what the attribute says, the kind of layer."""


def with_factors(
    builder: Builder, node: Node, operands: Sequence[Data], shapes: Sequence[Shape], made: Value
) -> Data:
    """Add the layers of a node with factors; InputError where operands or rows are others than stated."""
    stated = node.attributes.text(FACTORS, "")
    # a state that comes in is the network's input
    before = list(operands[1:-1]) if stated == "carried" else []
    computed = [data for i, data in enumerate(operands) if not (before and i == 1)]
    if (
        stated not in _KINDS
        or len(computed) != 2
        or len(shapes) != len(operands)
        or any(one.external for one in computed)
        or not all(one.external for one in before)
    ):
        expected = f"two operands that layers compute, and factors {' or '.join(_KINDS)}"
        raise InputError("", expected, f"{len(operands)}, {stated}", key=FACTORS)
    data, factors = (builder.plain(f"{node.name}.{i}", one) for i, one in enumerate(computed))
    if stated == "of_column":
        return _outer(builder, node, (data, factors), made)
    factors = in_order(factors)
    if stated == "carried":
        return _carried(builder, node, (data, factors), made, from_dram=bool(before))
    data = builder.chunks(f"{node.name}.0", data)
    data = in_order(listed_for_each(_for_every_head(data, shapes[0], made.shape)))
    count = _chunks(factors, data, made.shape)
    rows = ((), full("H", factors.h), full("C", factors.k))
    if data.w != 1 or known_axes(factors) != rows or factors.w != 1 or data.k % (count * factors.k):
        raise _unlike(factors, data)
    each = builder.apart(f"{node.name}.1", factors, data.h) if count > 1 else factors.parts
    k, parts = data.k // count, list[Slice]()
    for chunk in range(count):  # a layer for each, as it needs the factors of its own chunk and no others
        draft = Draft(
            f"{node.name}.{chunk}" if count > 1 else node.name,
            _KINDS[stated],
            k,
            taken(data.parts, chunk * k, (chunk + 1) * k),
            data.box,
            groups=factors.k,
            weights=taken(each, chunk * factors.k, (chunk + 1) * factors.k),
            work=len(operands),
        )
        parts += builder.add(draft)
    return replace(data, parts=tuple(parts))


def _unlike(factors: Data, data: Data) -> InputError:
    remedy = "Export the scan with rows of (samples, rows, heads) factors, in chunks of equal length"
    return InputError("", "a factor for each head of each row", f"{factors.shape} for {data.shape}", remedy)


def _chunks(factors: Data, data: Data, made: Shape) -> int:
    """How many chunks of rows lie side by side as channels in ``data``.

    The shape ``made`` is then (samples, chunks, heads, rows of a chunk, width). The last chunk may have more
    rows than there are factors for: they are padding.
    """
    if factors.h == data.h:
        return 1
    count = prod(made[:-3])
    if len(made) != 5 or made[-3] != factors.k or count != -(-factors.h // data.h):
        raise _unlike(factors, data)
    return count


def _outer(builder: Builder, node: Node, operands: tuple[Data, Data], made: Value) -> Data:
    """The layer of an outer product: each channel of one row times the numbers of its group, which become
    rows. ``made`` is (samples, heads, channels of a head, numbers).
    """
    data, factors = (in_order(one) for one in operands)
    last = made.shape[-1]
    if (
        (data.box, factors.box) != ((1, 1), (1, 1))
        or data.k * last != made.elements
        or factors.k % last
        or made.shape[1] % (factors.k // last)
    ):
        expected = "one row of channels, and one of factors for each group of heads"
        raise InputError("", expected, f"{data.shape} and {factors.shape} -> {made.shape}")
    draft = Draft(
        node.name,
        "outer",
        data.k,
        data.parts,
        (1, 1),
        (Windows(last), Windows(1)),
        groups=factors.k,
        weights=factors.parts,
        work=2,
    )
    return Data(builder.add(draft), last, 1, (*known_axes(data)[:-1], full("H", last)))


def _carried(
    builder: Builder, node: Node, operands: tuple[Data, Data], made: Value, *, from_dram: bool
) -> Data:
    """The layers of a recurrence over chunks, or of one step of it; see the head of the module.

    ``made`` is (samples, chunks, heads, channels of a head, numbers of the state), without chunks for one
    step, of which the result is the state behind it. ``from_dram``: a state comes in. Without one, the first
    chunk begins with zeros, which are constants in DRAM.
    """
    data, factors = in_order(operands[0]), operands[1]
    scan = "chunk" in node.attributes
    count, heads = (made.shape[1] if scan else 1), made.shape[-3]
    chunk = node.attributes.number("chunk") if scan else 1
    if (
        factors.k != heads
        or factors.w != 1
        or chunk < 1
        or -(-factors.h // chunk) != count
        or data.box != (made.shape[-1], 1)
        or known_axes(data)[-1] != full("H", data.h)
    ):
        raise _unlike(factors, data)
    k = data.k // count

    def carry(name: str, before: Parts, added: Parts, decays: Parts) -> Parts:
        draft = Draft(name, "carry", k, (*before, *added), data.box, groups=heads, weights=decays, work=3)
        return builder.add(draft)

    outside = (Slice(EXTERNAL, 0, k),)
    if not scan:
        return replace(data, parts=carry(node.name, outside, data.parts, factors.parts))
    start = builder.add(Draft(f"{node.name}.0", "ptp", k, outside, data.box))
    state = start if from_dram else None
    begin = [start]
    for i in range(count):
        added = taken(data.parts, i * k, (i + 1) * k)
        if state is None:  # nothing to decay yet
            state = added
        else:
            rows = Windows(1, min(chunk, factors.h - i * chunk), before=-i * chunk)
            decays = builder.pool(f"{node.name}.decays{i}", factors, rows, Windows(1))
            state = carry(f"{node.name}.{i + 1}", state, added, decays.parts)
        begin.append(state)
    builder.ends += begin.pop()
    return replace(data, parts=joined(part for parts in begin for part in parts))


def _for_every_head(data: Data, shape: Shape, made: Shape) -> Data:
    """The value with the axes of the result, each of its positions repeated where the result's are more."""
    axes = known_axes(data)
    if len(shape) != len(made) or any(many % few for few, many in zip(shape, made, strict=True)):
        raise InputError("", "a result whose axes are multiples of the operand's", f"{shape} -> {made}")
    return replace(
        data,
        axes=tuple(
            (*axis, Digit(many // few, 0, "")) if many > few else axis
            for axis, few, many in zip(axes, shape, made, strict=True)
        ),
    )
