"""From the operands of matrix products, of einsums and of attention to their loop nests (layers)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from string import ascii_letters
from typing import Literal

from costmodel.errors import InputError
from costmodel.workload.digits import Digit, Digits, Shape
from costmodel.workload.network import Layer, Role, Tensor, Uncounted, batched_matmul, gemm
from costmodel.workload.views import View, paired, whole


@dataclass(frozen=True)
class Counted:
    """The layers of a node, with its fields ``uncounted`` and ``note``: see
    :class:`costmodel.workload.network.Node`.
    """

    layers: tuple[Layer, ...] = ()
    note: str = ""
    uncounted: Uncounted | None = None


def matmul_of(name: str, a: View, b: View) -> Counted:
    """The layer of ``a @ b`` under NumPy's broadcasting rules, in which a repeated element is one element.

    A batch axis along which only ``a`` moves counts as more rows (M), one along which only ``b`` moves as
    more columns (N). So a product with a 2-D weight matrix is one GEMM over all rows of the batch, and four
    query heads that share a key-value head are one product with four times the rows. Where a batch axis of
    one operand is a multiple of the other's, as in graphs whose repetition of heads was folded away,
    consecutive positions of the longer one share a position of the shorter one.
    """
    rows = a if len(a.shape) > 1 else a.reshaped((1, *a.shape))
    columns = b if len(b.shape) > 1 else b.reshaped((*b.shape, 1))
    if not a.shape or not b.shape or not rows or not columns or rows.shape[-1] != columns.shape[-2]:
        found = f"{a.shape} and {b.shape}"
        raise InputError(f"layer {name}", "shapes (..., M, K) and (..., K, N)", found)
    longest = max(len(rows.axes), len(columns.axes)) - 2
    left: list[Digits] = [()] * (longest - len(rows.axes) + 2) + list(rows.axes[:-2])
    right: list[Digits] = [()] * (longest - len(columns.axes) + 2) + list(columns.axes[:-2])
    loops = Loops()
    for one, two in zip(left, right, strict=True):
        try:
            loops.both(*shared_evenly(one, two), summed=False)
        except ValueError:
            expected = "batch axes that broadcast, or of which one is a multiple of the other"
            raise InputError(f"layer {name}", expected, f"{a.shape} and {b.shape}") from None
    loops.one("A", rows.axes[-2])
    loops.one("B", columns.axes[-1])
    loops.both(rows.axes[-1], columns.axes[-2], summed=True)
    return loops.counted(name, (a, b))


def product_shape(a: Shape, b: Shape) -> Shape | None:
    """The shape that :func:`matmul_of` makes of operands of two axes or more; None where it refuses them."""
    if min(len(a), len(b)) < 2 or not all((*a, *b)) or a[-1] != b[-2]:
        return None
    longest = max(len(a), len(b)) - 2
    left, right = ((1,) * (longest - len(shape) + 2) + shape[:-2] for shape in (a, b))
    if any(max(one, two) % min(one, two) for one, two in zip(left, right, strict=True)):
        return None
    return (*map(max, left, right), a[-2], b[-1])


class Loops:
    """The loops of a product of two operands, A and B, with the result Z.

    What matters of a loop is which of the three tensors it moves along. Loops that move the same tensors
    become one dim of the layer: those that move A and Z, but not B, are the rows M.
    """

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        """How often loops run, by the tensors that they move: {"AZ": 128, "AB": 64} is M = 128, K = 64."""
        self._note = ""

    def one(self, operand: Literal["A", "B"], axis: Digits) -> None:
        """Add an axis of an operand and the output. A digit that repeats the operand moves only Z."""
        for digit in axis:
            self._add(digit.size, (operand if digit.stride else "") + "Z")

    def both(self, a: Digits, b: Digits, *, summed: bool) -> None:
        """Add an axis of both operands, and of the output unless it is ``summed`` over."""
        pairs = paired(a, b)
        if pairs is None:
            self._note = "its operands repeat by numbers that do not divide each other: counted as read whole"
            pairs = [(prod(digit.size for digit in a), True, True)]
        for size, in_a, in_b in pairs:
            moved = "A" * in_a + "B" * in_b + "Z" * (not summed)
            if not moved:  # every dim of a layer moves some tensor: the factors stand for the repeated ones
                self._note = "it sums equal products: its operands are counted as read whole"
                moved = "AB"
            self._add(size, moved)

    def _add(self, size: int, moved: str) -> None:
        self._sizes[moved] = self._sizes.get(moved, 1) * size

    def counted(self, name: str, operands: Sequence[View]) -> Counted:
        """The layer of all loops added, with a note where its operands may repeat more than was followed."""
        lost = next((view.lost for view in operands if view.lost), "")
        sizes = {dim: self._sizes.get(moved, 1) for moved, dim in _DIMS.items()}
        dims = tuple((dim, size) for dim, size in sizes.items() if size > 1 or dim in "MNK")
        if "".join(dim for dim, _ in dims) in ("MNK", "BMNK"):
            return Counted((batched_matmul(name, **{dim: sizes[dim] for dim in "BMNK"}),), self._note or lost)
        moved = {dim: moved for moved, dim in _DIMS.items() if (dim, sizes[dim]) in dims}
        roles: dict[str, Role] = {"A": "inputs", "B": "weights", "Z": "outputs"}
        tensors = tuple(
            Tensor.of_terms(tensor, tuple(((dim, 1),) for dim in moved if tensor in moved[dim]), role)
            for tensor, role in roles.items()
        )
        return Counted((Layer(name, dims, tensors),), self._note or lost)


_DIMS = {"ABZ": "B", "AZ": "M", "BZ": "N", "AB": "K", "A": "J", "B": "L", "Z": "G"}
"""The dims of a product by the tensors that they move.

J, L and G are rare. J is summed over and moves A, while B repeats; L moves B, while A repeats. Along G both
operands repeat, and so the output has equal elements.
"""


def shared_evenly(left: Digits, right: Digits) -> tuple[Digits, Digits]:
    """Two batch axes, the shorter one repeated to the length of the longer one.

    Each of its positions is repeated for as many consecutive positions of the longer axis; an axis of length
    1 for all of them, which is NumPy's broadcasting. Raises ValueError where the longer length is no multiple
    of the shorter.
    """
    lengths = [prod(digit.size for digit in axis) for axis in (left, right)]
    longest = max(lengths)
    if longest % min(lengths):
        raise ValueError(f"{longest} is no multiple of {min(lengths)}")
    one, two = (
        (*axis, Digit(longest // length, 0)) if length < longest else axis
        for axis, length in zip((left, right), lengths, strict=True)
    )
    return one, two


def folded_matmul_of(name: str, a: Shape, b: Shape, output: Shape) -> Layer:
    """The layer of a product whose operands are viewed in another shape on the way, found by counting.

    ``output`` is (..., M, N), where all axes in front are the batch. ``a`` has batch * M * K elements, which
    gives K. ``b`` has K * N elements for each product, or fewer where consecutive products share them: all,
    or a group of query heads. Products that share are one with as many times the rows.
    """
    where = f"layer {name}"
    if len(output) < 2 or not all((*output, *a, *b)) or prod(a) % prod(output[:-1]):
        raise InputError(where, "operands whose elements fit the output", f"{a}, {b} -> {output}")
    batch, m, n = prod(output[:-2]), output[-2], output[-1]
    k = prod(a) // (batch * m)
    together, rest = divmod(batch * k * n, prod(b))
    if rest or not together or batch % together:
        raise InputError(where, "operands whose elements fit the output", f"{a}, {b} -> {output}")
    return batched_matmul(name, B=batch // together, M=together * m, N=n, K=k)


def linear_of(name: str, weights: Shape, output: Shape) -> Layer:
    """A fully connected layer: ``weights`` (outputs, inputs), ``output`` (..., outputs).

    The output may be narrower than the weights, where a slice of a packed projection is computed.
    """
    if len(weights) != 2 or not output or not 1 <= output[-1] <= weights[0]:
        found = f"weights {weights}, output {output}"
        raise InputError(f"layer {name}", "weights (outputs, inputs) and output (..., outputs)", found)
    return gemm(name, M=prod(output[:-1]), N=output[-1], K=weights[1])


def attention_of(name: str, queries: View, keys: View, values: View) -> Counted:
    """The two layers of attention: scores (queries x keys), and weighted values (scores x values).

    All three operands are (batch, heads, rows, width). The query heads may be a multiple of the key-value
    heads, so that consecutive ones share a key-value head; InputError where they are not.
    """
    if queries.shape[1] % keys.shape[1] or keys.shape[1] != values.shape[1]:
        found = f"{queries.shape[1]} heads of queries, {keys.shape[1]} of keys, {values.shape[1]} of values"
        raise InputError(f"layer {name}", "query heads that are a multiple of the key-value heads", found)
    scores = matmul_of(f"{name}.scores", queries, keys.transposed((0, 1, 3, 2)))
    shape = (*queries.shape[:3], keys.shape[2])
    weighted = matmul_of(f"{name}.values", whole(f"{name}.scores", shape), values)
    return Counted(scores.layers + weighted.layers, scores.note or weighted.note)


NO_EINSUM = Uncounted("an einsum with a diagonal, or whose letters do not fit its operands")
"""Why an einsum has no layers where :func:`einsum_of` has none."""


def einsum_of(name: str, equation: str, operands: Sequence[View]) -> Counted | None:
    """The layers of an einsum: one for every product of two operands that sums over a letter of both.

    More than two operands are multiplied from left to right, as PyTorch does without a planner: the first
    two, what they make with the third, and so on. Letters that one operand alone has, and that nothing
    behind it needs, are summed before it is multiplied. A product that sums over nothing is element-wise
    work and has no multiply-accumulates. None for a letter that an operand has twice (a diagonal), for
    letters that do not fit, and for one that has different lengths in two operands, neither of them 1.
    """
    words = _words(equation, [len(view.axes) for view in operands])
    if words is None:
        return None
    *letters, result = words
    lengths: dict[str, set[int]] = {}
    for of_operand, view in zip(letters, operands, strict=True):
        for letter, length in zip(of_operand, view.shape, strict=True):
            lengths.setdefault(letter, {1}).add(length)
    if any(len(found) > 2 for found in lengths.values()):
        return None
    # an axis of length 1 that others broadcast to their own is as if it were not there
    long = {letter for letter, found in lengths.items() if len(found) > 1}
    narrow = [_without_single(*one, long) for one in zip(letters, operands, strict=True)]
    letters, operands = [word for word, _ in narrow], [view for _, view in narrow]
    layers, note = list[Layer](), ""
    left, word = operands[0], letters[0]
    for i, right in enumerate(operands[1:], start=1):
        needed = {*result, *(letter for later in letters[i + 1 :] for letter in later)}
        kept = "".join(dict.fromkeys(x for x in word + letters[i] if x in needed))
        found = _pair(f"{name}.{i}" if len(operands) > 2 else name, (word, letters[i], kept), left, right)
        if found is None:
            return None
        layers += found.layers
        note = note or found.note
        size = dict(zip(word, left.shape, strict=True)) | dict(zip(letters[i], right.shape, strict=True))
        left, word = whole(f"{name}.{i}", tuple(size[letter] for letter in kept)), kept
    return Counted(tuple(layers), note)


def einsum_shape(equation: str, operands: Sequence[Shape]) -> Shape | None:
    """The shape of an einsum's result, where lengths of 1 broadcast; None where the operands do not fit."""
    words = _words(equation, [len(shape) for shape in operands])
    if words is None:
        return None
    *letters, result = words
    lengths: dict[str, int] = {}
    for word, shape in zip(letters, operands, strict=True):
        for letter, length in zip(word, shape, strict=True):
            known = lengths.setdefault(letter, length)
            if 1 not in (known, length) and known != length:
                return None
            lengths[letter] = length if known == 1 else known
    return tuple(lengths[letter] for letter in result)


def _words(equation: str, ranks: Sequence[int]) -> list[str] | None:
    """The letters of every operand, then those of the result; an ellipsis becomes letters, too.

    Without an arrow the result has the letters that are there once, in the order of the alphabet.
    """
    left, arrow, result = equation.replace(" ", "").partition("->")
    words = left.split(",")
    if len(words) != len(ranks):
        return None
    free = [letter for letter in ascii_letters if letter not in equation]
    more = [rank - len(word) + 3 if "..." in word else 0 for word, rank in zip(words, ranks, strict=True)]
    if max(more) > len(free) or min(more) < 0:
        return None
    spread = free[: max(more)]
    if not arrow:
        once = (letter for letter in sorted(set(left) - set(",.")) if left.count(letter) == 1)
        result = ("..." if "..." in left else "") + "".join(once)
    all_words = [
        word.replace("...", "".join(spread[len(spread) - count :]))
        for word, count in zip((*words, result), (*more, max(more)), strict=True)
    ]
    fits = all(len(word) == rank for word, rank in zip(all_words, ranks, strict=False))
    known = set(all_words[-1]) <= {letter for word in all_words[:-1] for letter in word}
    plain = all(len(set(word)) == len(word) and (not word or word.isalpha()) for word in all_words)
    return all_words if fits and known and plain else None


def _pair(name: str, words: tuple[str, str, str], a: View, b: View) -> Counted | None:
    """The layer of a product of two operands; see :func:`einsum_of`."""
    left, right, result = words
    both = set(left) & set(right)
    left, a = _summed(left, a, both | set(result))
    right, b = _summed(right, b, both | set(result))
    of_a, of_b = (dict(zip(word, view.axes, strict=True)) for word, view in ((left, a), (right, b)))
    size_a, size_b = (dict(zip(word, view.shape, strict=True)) for word, view in ((left, a), (right, b)))
    if any(size_a[x] != size_b[x] for x in both):
        return None
    if both <= set(result):
        return Counted()
    loops = Loops()
    for letter in (*of_a, *(of_b.keys() - of_a.keys())):
        if letter in both:
            loops.both(of_a[letter], of_b[letter], summed=letter not in result)
        elif letter in of_a:
            loops.one("A", of_a[letter])
        else:
            loops.one("B", of_b[letter])
    return loops.counted(name, (a, b))


def _without_single(word: str, view: View, long: set[str]) -> tuple[str, View]:
    """The operand without those axes of length 1 whose letters are ``long`` in others."""
    kept = [i for i, length in enumerate(view.shape) if length > 1 or word[i] not in long]
    return "".join(word[i] for i in kept), replace(view, axes=tuple(view.axes[i] for i in kept))


def _summed(word: str, view: View, kept: set[str]) -> tuple[str, View]:
    """The operand after the sums over letters that are not ``kept``: a tensor of its own if there are any."""
    if set(word) <= kept:
        return word, view
    shape = tuple(length for letter, length in zip(word, view.shape, strict=True) if letter in kept)
    return "".join(letter for letter in word if letter in kept), whole(
        f"{view.origin} summed", shape, view.lost
    )
