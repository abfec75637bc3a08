"""Products with a factor for each head of a row, as state-space scans have them.

The node's attribute ``factors`` says that its second operand, of shape (samples, rows, heads), has a factor
for each head of each row, and what of it a result needs: the factor of its own row (``of_row``), or those of
all rows (``of_all_rows``), as decays are multiplied from token to token. Heads are equal parts of the
result's channels. Where the first operand has fewer heads, neighbouring heads of the result share one of its.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from costmodel.errors import InputError
from costmodel.schedule.layer_graph.reading.data import Builder
from costmodel.schedule.layer_graph.reading.drafts import Draft
from costmodel.schedule.layer_graph.reading.layout import Data, full, in_order, known_axes, listed_for_each
from costmodel.workload.digits import Digit, Shape
from costmodel.workload.network import Node, Value

FACTORS = "factors"
"""The attribute."""
_KINDS = {"of_row": "scale", "of_all_rows": "decay"}
"""By what the attribute says, the kind of layer."""


def with_factors(
    builder: Builder, node: Node, operands: Sequence[Data], shapes: Sequence[Shape], made: Value
) -> Data:
    """Add the layer of a product with factors; InputError where operands or rows are others than stated."""
    stated = node.attributes.text(FACTORS, "")
    if (
        stated not in _KINDS
        or len(operands) != 2
        or len(shapes) != 2
        or any(one.external for one in operands)
    ):
        expected = f"two operands that layers compute, and factors {' or '.join(_KINDS)}"
        raise InputError("", expected, f"{len(operands)}, {stated}", key=FACTORS)
    data, factors = (builder.plain(f"{node.name}.{i}", one) for i, one in enumerate(operands))
    factors = in_order(factors)
    data = in_order(listed_for_each(_for_every_head(data, shapes[0], made.shape)))
    rows = ((), full("H", data.h), full("C", factors.k))
    if factors.box != data.box or data.w != 1 or known_axes(factors) != rows or data.k % factors.k:
        found = f"{factors.shape} for {data.shape}"
        remedy = "A scan in several chunks has no schedule yet: state at most as many tokens as a chunk has"
        raise InputError("", "a factor for each head of each row", found, remedy)
    draft = Draft(
        node.name,
        _KINDS[stated],
        data.k,
        data.parts,
        data.box,
        groups=factors.k,
        weights=factors.parts,
        work=len(operands),
    )
    return replace(data, parts=builder.add(draft))


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
