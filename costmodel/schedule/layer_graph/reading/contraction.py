"""Products as layers, where it is known what every axis of both operands is.

A product is written as an einsum is: a letter for every axis of both operands and of the result. Which of the
three have a letter says what its axis does, as in attention scores ``ahqd x ahkd -> ahqk``:

    letters  in                       the axis is
    batch    left, right and result   a batch axis: a group of a grouped convolution (a, h)
    summed   left and right           summed over: input channels (d)
    kept     left and result          kept: rows and columns of the layer (q)
    new      right and result         new: output channels (k)

The layer is a 1 x 1 convolution, grouped where there are batch letters. The summed and the batch axes of its
input must be among the channels and the kept ones among the rows; where the operand lies the other way round,
a transposing layer comes before. The right operand is constant weights or activations; of activations, each
channel holds the weights of one output and each row those of one input channel.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import NamedTuple

from costmodel.errors import InputError
from costmodel.schedule.layer_graph.reading.data import Builder
from costmodel.schedule.layer_graph.reading.drafts import EXTERNAL, Draft, Parts, Slice, in_any_order, picked
from costmodel.schedule.layer_graph.reading.layout import (
    Data,
    known_axes,
    listed_for_each,
    with_order,
)
from costmodel.workload.digits import Digit, Digits, Shape, offsets
from costmodel.workload.windows import Windows


class Operand(NamedTuple):
    """One operand: a letter for every axis, its shape, and where its elements lie (None: constant weights).

    An axis of length 1 along which NumPy would broadcast it to the other operand has the letter ``.``.
    """

    letters: str
    shape: Shape
    data: Data | None

    def lengths(self) -> dict[str, int]:
        return dict(zip(self.letters, self.shape, strict=True))


class Activations(NamedTuple):
    """An operand that is not constant: a layer computes it, or it is the network's input."""

    letters: str
    shape: Shape
    data: Data

    def lengths(self) -> dict[str, int]:
        return dict(zip(self.letters, self.shape, strict=True))


def letters_of_matmul(a: Shape, b: Shape) -> tuple[str, str, str]:
    """Letters for both operands and the result of ``a @ b``, whose shapes broadcast as NumPy's do.

    Batch axes are a, b, c and so on, the rows of ``a`` m, what is summed over k, the columns of ``b`` n. An
    operand that is a vector lacks m or n, and so does the result.
    """
    rows = a if len(a) > 1 else (1, *a)
    columns = b if len(b) > 1 else (*b, 1)
    outer = max(len(rows), len(columns)) - 2
    if outer > len("abcdefghij"):
        raise InputError("", "at most ten batch axes", f"{a} and {b}")
    left, right, out = "", "", ""
    for i in range(outer):
        place_a, place_b = i - outer + len(rows) - 2, i - outer + len(columns) - 2
        x = rows[place_a] if place_a >= 0 else 1
        y = columns[place_b] if place_b >= 0 else 1
        letter = chr(ord("a") + i)
        left += (letter if x >= y else ".") if place_a >= 0 else ""
        right += (letter if y >= x else ".") if place_b >= 0 else ""
        out += letter
    left, right = left + ("mk" if len(a) > 1 else "k"), right + ("kn" if len(b) > 1 else "k")
    return left, right, out + ("m" if len(a) > 1 else "") + ("n" if len(b) > 1 else "")


def contraction(builder: Builder, name: str, operands: tuple[Operand, Operand], out: str) -> Data:
    """Add the layer of a product; ``out`` has the letters of the result, which is returned.

    One operand may be constant weights. Of two activations, the right one becomes the weights. InputError
    where no layer computes the product from its operands as they lie.
    """
    left, right = operands
    if left.data is None:
        left, right = right, left
    if left.data is None:
        raise InputError("", "an operand that is not constant", "two constants")
    lengths = left.lengths()
    if any(
        lengths.get(letter, length) != length for letter, length in right.lengths().items() if letter != "."
    ):
        raise InputError("", "one length for each axis that both operands have", (left.shape, right.shape))
    if left.data.repeats:
        raise InputError("", "activations each of which is multiplied once", "repeated ones (Expand)")
    read = Activations(left.letters, left.shape, builder.plain(f"{name}.left", left.data))
    if right.data is None:
        return _with_constants(builder, name, (read, right), out)
    taken = Activations(right.letters, right.shape, builder.plain(f"{name}.right", right.data))
    return _with_activations(builder, name, (read, taken), out)


class _Letters(NamedTuple):
    """The letters of a product by the tensors that have them: the table above."""

    batch: str
    summed: str
    kept: str
    new: str


def _letters(left: Activations, right: Operand | Activations, out: str) -> _Letters:
    """Every letter by its meaning, in the order of the operand that has it (the left one if both have)."""
    both = [letter for letter in left.letters if letter in right.letters and letter != "."]
    return _Letters(
        "".join(letter for letter in both if letter in out),
        "".join(letter for letter in both if letter not in out),
        "".join(letter for letter in left.letters if letter not in right.letters and letter != "."),
        "".join(letter for letter in right.letters if letter not in left.letters and letter != "."),
    )


def _axes(operand: Activations, letters: str) -> list[Digits]:
    """The axes of these letters, in their order; the three functions below ask for their digits."""
    axes = dict(zip(operand.letters, known_axes(operand.data), strict=True))
    return [axes[letter] for letter in letters]


def _digits(operand: Activations, letters: str) -> list[Digit]:
    return [digit for axis in _axes(operand, letters) for digit in axis]


def _channels(operand: Activations, letters: str) -> list[Digit]:
    return [digit for digit in _digits(operand, letters) if digit.dim == "C"]


def _dims(operand: Activations, letters: str) -> set[str]:
    return {digit.dim for digit in _digits(operand, letters)}


def _ordered(operand: Activations, letters: str) -> Activations:
    """The operand with its channels in the order of ``letters``, those of all other letters after them."""
    rest = "".join(letter for letter in operand.letters if letter not in letters and letter != ".")
    return operand._replace(data=with_order(operand.data, _channels(operand, letters + rest)))


def _turned(builder: Builder, name: str, operand: Activations, batch: str) -> Activations:
    """The operand with rows and channels exchanged within each head, through transposing layers.

    The channels of ``batch`` are the heads: one layer for each of them.
    """
    operand = _ordered(operand, batch)  # the channels of a head must be next to each other
    heads = prod(digit.size for digit in _channels(operand, batch))
    return operand._replace(data=builder.transposed(name, operand.data, heads))


def _with_constants(builder: Builder, name: str, operands: tuple[Activations, Operand], out: str) -> Data:
    """The layer of activations with constant weights: ``fc``, ``conv`` or ``groupconv``.

    The weights may be stored in any order of input channels, which costs nothing. So a layer of one group
    reads its channels in the order in which they are computed (:func:`in_any_order`), in few slices.
    """
    left, right = operands
    letters = _letters(left, right, out)
    if left.data.external:
        left = _input_as(left, letters)
    # a sum over rows with the channels kept, as where tokens are mixed: rows and channels change roles first
    if _dims(left, letters.summed) == {"H"} and _dims(left, letters.kept) == {"C"}:
        left = _turned(builder, f"{name}.transposed", left, letters.batch)
    left = _ordered(left, letters.batch + letters.summed)
    data = left.data
    summed, lengths = _dims(left, letters.summed), right.lengths()
    k = prod(lengths[letter] for letter in letters.new)
    groups = prod(lengths[letter] for letter in letters.batch)
    flat = len(summed - {"C"}) and not _digits(left, letters.kept + letters.batch)
    if flat:  # a sum over rows and columns too, of which none stay: the filter is as large as the image
        parts = in_any_order(data.parts)
        made = builder.add(Draft(name, "fc", k, parts, data.box, (Windows(1, data.h), Windows(1, data.w))))
        return _result(left, letters, out, Data(made, 1, 1), lengths)
    if summed - {"C"} or _dims(left, letters.kept) & {"C"} or _dims(left, letters.batch) - {"C"}:
        found = f"{left.letters} x {right.letters} -> {out} of {data.shape}"
        raise InputError("", "a sum over all channels, of a head or of the whole operand", found)
    if groups > 1:  # the weights belong to groups, so that channels must stay in the order of the groups
        draft = Draft(name, "groupconv", groups * k, data.parts, data.box, groups=groups)
    else:
        kind = "fc" if data.h * data.w == 1 else "conv"
        draft = Draft(name, kind, k, in_any_order(data.parts), data.box)
    return _result(left, letters, out, Data(builder.add(draft), data.h, data.w), lengths)


def _input_as(operand: Activations, letters: _Letters) -> Activations:
    """The network's input laid out as the product needs it, which we may choose: no file says how it lies.

    Batch and summed letters become channels, kept letters rows, each in the letters' order (row-major).
    """
    lengths = operand.lengths()
    rows = prod(lengths[letter] for letter in letters.kept)
    k = prod(lengths[letter] for letter in letters.batch + letters.summed)
    inner = {"C": k, "H": rows}  # what lies within one step of the next letter, by dim
    axes = dict[str, Digits]()
    for letter in letters.batch + letters.summed + letters.kept:
        dim = "H" if letter in letters.kept else "C"
        inner[dim] //= lengths[letter]
        axes[letter] = (Digit(lengths[letter], inner[dim], dim),) if lengths[letter] > 1 else ()  # type: ignore[arg-type]
    found = tuple(axes.get(letter, ()) for letter in operand.letters)
    return operand._replace(data=Data((Slice(EXTERNAL, 0, k),), rows, 1, found))


def _result(left: Activations, letters: _Letters, out: str, made: Data, lengths: dict[str, int]) -> Data:
    """``made`` seen along the axes of the result, whose letters ``out`` are.

    The kept axes lie as they do in ``left``; batch and new letters are the output channels, row-major.
    ``lengths`` are those of the right operand's letters.
    """
    k = prod(lengths[letter] for letter in letters.new)
    axes = dict(zip(letters.kept, _axes(left, letters.kept), strict=True))
    inner = k * prod(lengths[letter] for letter in letters.batch)
    for letter in letters.batch + letters.new:
        inner //= lengths[letter]
        axes[letter] = (Digit(lengths[letter], inner, "C"),) if lengths[letter] > 1 else ()
    return replace(made, axes=tuple(axes[letter] for letter in out))


def _with_activations(
    builder: Builder, name: str, operands: tuple[Activations, Activations], out: str
) -> Data:
    """The layer of two activations: each sample has weights of its own, which another layer computes."""
    left, right = operands
    if _reads_one_row(left, right, out):
        left, right = right._replace(data=listed_for_each(right.data)), left
    if _sums_rows(left, right, out):
        left, right = _with_rows_turned(builder, name, (left, right), out)
    right = _for_every_head(left, right)
    letters = _letters(left, right, out)
    if left.data.external:
        left = _input_as(left, letters)
    if right.data.external:
        raise InputError("", "activations that a layer computes as weights", "the network's input")
    if "H" in _dims(left, letters.summed) and _dims(left, letters.kept) <= {"C"} and left.data.w == 1:
        left = _turned(builder, f"{name}.left", left, letters.batch)
    # the dims of the box that each kind of letter may step through
    fits = (letters.summed, {"C"}), (letters.batch, {"C"}), (letters.kept, {"H", "W"})
    if any(_dims(left, some) - dims for some, dims in fits):
        found = f"{left.letters} of {left.data.shape}"
        raise InputError("", f"rows {letters.kept} of channels {letters.batch}{letters.summed}", found)
    left = _ordered(left, letters.batch + letters.summed)
    data = left.data
    lengths = right.lengths()
    groups = prod(lengths[letter] for letter in letters.batch)
    k = groups * prod(lengths[letter] for letter in letters.new)
    weights = _weights(builder, name, right, letters)
    kind = "groupconv" if groups > 1 else "conv"
    draft = Draft(name, kind, k, data.parts, data.box, groups=groups, weights=weights)
    return _result(left, letters, out, Data(builder.add(draft), *data.box), lengths)


def _sums_rows(left: Activations, right: Activations, out: str) -> bool:
    """Whether a product sums over the rows of its left operand and keeps one axis of its channels.

    So do K^T V of linear attention, and the states of a scan. Of several such axes of channels the others are
    heads of the left operand alone.
    """
    letters = _letters(left, right, out)
    kept = [letter for letter in letters.kept if _digits(left, letter)]
    return (
        len(kept) == 1
        and (_dims(left, kept[0]), _dims(left, letters.summed)) == ({"C"}, {"H"})
        and left.data.w == 1
        and not left.data.external
    )


def _reads_one_row(left: Activations, right: Activations, out: str) -> bool:
    """Whether the right operand is one row for each head, of what the left one has as rows.

    The left one, a state, is then the weights as it lies: its rows are the inputs, its channels the outputs.
    """
    letters = _letters(left, right, out)
    return (
        _sums_rows(left, right, out)
        and not _digits(right, letters.new)
        and _dims(right, letters.summed) == {"C"}
        and right.data.box == (1, 1)
        and not right.data.external
    )


def _with_rows_turned(
    builder: Builder, name: str, operands: tuple[Activations, Activations], out: str
) -> tuple[Activations, Activations]:
    """The operands with rows and channels of the left one exchanged: those of the one with fewer heads.

    The other operand is then the right one. Channels that several heads share are listed for each of them.
    """
    left, right = operands
    batch = _letters(left, right, out).batch
    heads = [prod(digit.size for digit in _channels(one, batch)) for one in operands]
    if heads[1] < heads[0] and _sums_rows(right, left, out):
        left, right = right, left
    left = _turned(builder, f"{name}.left", left, batch)
    return left._replace(data=listed_for_each(left.data)), right


def _for_every_head(left: Activations, right: Activations) -> Activations:
    """The right operand with an axis for every head that only the left one has: the same elements for each.

    Heads are channels of the left operand, and kept letters must be rows. So a head that only the left
    operand has cannot be a kept letter. The axis added here does not move (stride 0), and makes it a batch
    letter.
    """
    for letter, axis in zip(left.letters, known_axes(left.data), strict=True):
        if letter != "." and letter not in right.letters and axis and {one.dim for one in axis} == {"C"}:
            times = prod(one.size for one in axis)
            axes = (*known_axes(right.data), (Digit(times, 0, ""),))
            data = replace(right.data, axes=axes)
            right = Activations(right.letters + letter, (*right.shape, times), data)
            assert right.data is not None
    return right


def _weights(builder: Builder, name: str, right: Activations, letters: _Letters) -> Parts:
    """The channels that are read as weights, in the order of heads, then of the outputs of a head.

    A channel holds the weights of one output, a row those of one input of the head. Where several heads share
    weights (Expand), their channels are listed again for each.
    """
    right = right._replace(data=builder.as_rows(right.data))
    if _dims(right, letters.batch + letters.summed) <= {"C", ""} and _dims(right, letters.new) <= {"H"}:
        right = _turned(builder, f"{name}.transposed", right, letters.batch)
    data = right.data
    dims = (letters.batch, {"C", ""}), (letters.new, {"C"}), (letters.summed, {"H"})
    if any(_dims(right, some) - allowed for some, allowed in dims):
        expected = f"rows {letters.summed} of channels {letters.batch}{letters.new}, or the other way round"
        raise InputError("", expected, f"{right.letters} of {data.shape}")
    return picked(data.parts, offsets(_digits(right, letters.batch + letters.new)))
