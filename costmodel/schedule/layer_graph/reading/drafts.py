"""Layers as they are while a network is read: they read ranges of channels of others, not whole layers.

:func:`layer_graph_of` turns them into the layers of a graph, of which every one reads whole layers. It drops
those on which no result depends, and folds activation functions into the layers before them. Where others
read only some of a layer's channels, it cuts the layer in parts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from costmodel.errors import InputError
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.layer_graph.layer import (
    OF_ANY_ROW,
    STATING_WORK,
    WITH_FACTORS,
    WITH_SEVERAL_INPUTS,
    NetworkLayer,
)
from costmodel.workload.windows import Windows

EXTERNAL = -1
"""The number that stands for the network's input where a draft's number is expected."""


@dataclass(frozen=True)
class Slice:
    """Channels ``first`` to before ``end`` of the outputs of the draft number ``draft``."""

    draft: int
    first: int
    end: int

    @property
    def k(self) -> int:
        return self.end - self.first


Parts = tuple[Slice, ...]
"""Slices side by side: the channels of a value, in their order."""


def channels(parts: Iterable[Slice]) -> int:
    """How many channels the parts are together."""
    return sum(part.k for part in parts)


def taken(parts: Parts, first: int, end: int) -> Parts:
    """Channels ``first`` to before ``end`` of the channels of ``parts``."""
    found, start = [], 0
    for part in parts:
        low, high = max(first - start, 0), min(end - start, part.k)
        if low < high:
            found.append(Slice(part.draft, part.first + low, part.first + high))
        start += part.k
    return joined(found)


def joined(parts: Iterable[Slice]) -> Parts:
    """Neighbouring channels of one draft as one slice."""
    return _runs((part.draft, part.first, part.end) for part in parts)


def _runs(pieces: Iterable[tuple[int, int, int]]) -> Parts:
    """Pieces (draft, first, end) as slices; pieces that follow one another in a draft become one slice."""
    found: list[list[int]] = []
    for draft, first, end in pieces:
        if found and found[-1][0] == draft and found[-1][2] == first:
            found[-1][2] = end
        else:
            found.append([draft, first, end])
    return tuple(Slice(*piece) for piece in found)


def listed(parts: Iterable[Slice]) -> list[tuple[int, int]]:
    """Every channel as (draft, number)."""
    return [(part.draft, channel) for part in parts for channel in range(part.first, part.end)]


def picked(parts: Iterable[Slice], chosen: Iterable[int]) -> Parts:
    """The channels ``chosen`` of the channels of ``parts``, in that order."""
    every = listed(parts)
    return _runs((draft, first, first + 1) for draft, first in (every[i] for i in chosen))


def sorted_already(parts: Parts) -> bool:
    """Whether the channels are all different, and in the order in which drafts compute them."""
    return all(
        one.draft < other.draft or (one.draft == other.draft and one.end <= other.first)
        for one, other in pairwise(parts)
    )


def in_any_order(parts: Parts) -> Parts:
    """The same channels, sorted so that they are few slices.

    For a layer with constant weights, which can be stored in the same order at no cost. Where a channel is
    read twice the order stays: sorting would put equal channels next to each other, in many slices.
    """
    if sorted_already(parts):
        return joined(parts)
    every = listed(parts)
    computed = [channel for channel in every if channel[0] != EXTERNAL]
    if len(set(computed)) < len(computed):
        return parts
    return picked(parts, sorted(range(len(every)), key=every.__getitem__))


@dataclass(frozen=True)
class Draft:
    """A layer for one sample, which makes ``k`` channels and reads the channels ``inputs``.

    ``box`` are the rows and columns of what it reads. ``windows`` slide over the rows and over the columns;
    None: one for each row and each column. ``operands``, ``groups`` and ``order`` are those of
    :class:`NetworkLayer`, and ``weights`` the channels of activations that it takes as weights, or as its
    second operand. ``work`` is the number of operations for an output where the kind does not say it.
    ``pointwise``: it is a function of one operand, of the same shape (softmax included). ``foldable``: each
    result follows from one element, so that the layer that computes the operand can do it as well.
    """

    name: str
    kind: str
    k: int
    inputs: Parts
    box: tuple[int, int]
    windows: tuple[Windows, Windows] | None = None
    operands: int = 1
    groups: int = 1
    order: tuple[int, ...] = (0, 1, 2)
    weights: Parts = ()
    work: int = 1
    pointwise: bool = False
    foldable: bool = False

    def __post_init__(self) -> None:
        _ = self.read  # windows that reach nothing are refused here, where the node is known

    @property
    def over(self) -> tuple[Windows, Windows]:
        """The windows over rows, and those over columns."""
        return self.windows or (Windows(self.box[0]), Windows(self.box[1]))

    @property
    def made(self) -> tuple[int, int]:
        """Rows and columns of outputs: one for each window."""
        rows, columns = self.over
        return rows.count, columns.count

    @property
    def read(self) -> tuple[int, int]:
        """Rows and columns of inputs: up to the end of the last window; all, where any may be needed."""
        if self.kind in ("transpose", *OF_ANY_ROW):
            return self.box
        (rows, columns), (height, width) = self.over, self.box
        return rows.reach(height), columns.reach(width)

    def inputs_of(self, first: int, end: int) -> Parts:
        """The input channels from which output channels ``first`` to before ``end`` are computed."""
        if self.kind in ("conv", "fc", "topk"):
            return self.inputs
        if self.kind == "groupconv":
            group_k, group_c = self.k // self.groups, channels(self.inputs) // self.groups
            return taken(self.inputs, first // group_k * group_c, -(-end // group_k) * group_c)
        if self.kind == "transpose":
            return self.inputs
        if (first, end) == (0, self.k):  # as they are, so that experts stay one layer
            return self.inputs
        count = channels(self.inputs) // self.k if self.kind in WITH_SEVERAL_INPUTS else self.operands
        each = (taken(self.inputs, i * self.k + first, i * self.k + end) for i in range(count))
        return tuple(part for parts in each for part in parts)

    def weights_of(self, first: int, end: int) -> Parts:
        """The channels of ``weights`` from which output channels ``first`` to before ``end`` are computed."""
        # the choices of a token are those of all its channels, and factors come whole as well
        return self.weights if self.kind in WITH_FACTORS else taken(self.weights, first, end)


def layer_graph_of(name: str, drafts: list[Draft], results: Iterable[Slice]) -> LayerGraph:
    """The layers on which ``results`` depend.

    Activation functions are folded into the layers before them where possible. A layer of which others read
    only some channels becomes one layer for each such range; these are named ``NAME[0]``, ``NAME[1]``, ...
    """
    kept = _folded(drafts, [part for part in results if part.draft != EXTERNAL])
    cuts = _cuts(name, kept)
    layers: list[NetworkLayer] = []
    numbers: dict[tuple[int, int], int] = {}
    for index, draft in kept.items():
        bounds = sorted({0, draft.k, *cuts[index]})
        for piece, (first, end) in enumerate(pairwise(bounds)):
            suffix = f"[{piece}]" if len(bounds) > 2 else ""
            numbers[index, first] = len(layers)
            layers.append(_layer(draft, suffix, (first, end), numbers))
    return LayerGraph(name, tuple(layers))


def _folded(drafts: list[Draft], results: list[Slice]) -> dict[int, Draft]:
    """The drafts that stay, by number: results depend on them, and they are not folded.

    A draft is folded if it is foldable and its inputs are neither the network's input nor read by another
    draft or as a result. Readers of a folded draft then read the channels that it was folded into.
    """
    kept = _needed(drafts, results)
    reads: dict[int, list[tuple[int, Slice]]] = {index: [] for index in (*kept, EXTERNAL)}
    for index, draft in kept.items():
        for part in (*draft.inputs, *draft.weights):
            reads[part.draft].append((index, part))
    for part in results:
        reads[part.draft].append((len(drafts), part))  # a reader that is no draft
    found: dict[int, Draft] = {}
    folded: dict[int, Parts] = {}
    for index, draft in kept.items():
        read_by_nobody_else = all(_read_by(index, part, reads[part.draft]) for part in draft.inputs)
        draft = replace(draft, inputs=_through(folded, draft.inputs), weights=_through(folded, draft.weights))
        if draft.foldable and read_by_nobody_else:
            folded[index] = draft.inputs
        else:
            found[index] = draft
    return found


def _read_by(index: int, part: Slice, reads: Iterable[tuple[int, Slice]]) -> bool:
    """Whether only the draft ``index`` reads these channels, and they are not the network's input."""
    others = (other for reader, other in reads if reader != index)
    apart = all(other.end <= part.first or part.end <= other.first for other in others)
    return part.draft != EXTERNAL and apart


def _needed(drafts: list[Draft], results: list[Slice]) -> dict[int, Draft]:
    """The drafts on which ``results`` depend, by number."""
    needed = {part.draft for part in results}
    for index in range(len(drafts) - 1, -1, -1):
        if index in needed:
            needed |= {part.draft for part in (*drafts[index].inputs, *drafts[index].weights)}
    return {index: drafts[index] for index in sorted(needed - {EXTERNAL})}


def _through(folded: dict[int, Parts], parts: Parts) -> Parts:
    """Slices of folded activations as the slices of what these were folded into."""
    found: list[Slice] = []
    for part in parts:
        found += taken(folded[part.draft], part.first, part.end) if part.draft in folded else (part,)
    return tuple(found)


def _cuts(name: str, drafts: dict[int, Draft]) -> dict[int, set[int]]:
    """For every draft the channels before which its outputs are cut, so that all reads are of whole parts.

    Drafts are visited from the last one back: a part of a pooling reads only some input channels, so that a
    cut of a draft may cut its producers. Where a cut goes through a group of a convolution, the group is also
    cut off from its neighbours: a layer that computes a part of a group reads all inputs of that group only.
    """
    cuts: dict[int, set[int]] = {index: set() for index in (*drafts, EXTERNAL)}
    for index in reversed(drafts):
        draft = drafts[index]
        if cuts[index] and draft.kind == "transpose":
            expected = "consumers that read all rows of what is transposed"
            raise InputError(f"network {name}", expected, sorted(cuts[index]), key=draft.name)
        if draft.groups > 1 and draft.kind == "groupconv":
            group_k = draft.k // draft.groups
            inside = {cut // group_k * group_k for cut in cuts[index] if cut % group_k}
            cuts[index] |= (inside | {cut + group_k for cut in inside}) - {0, draft.k}
        bounds = sorted({0, draft.k, *cuts[index]})
        for first, end in pairwise(bounds):
            for part in (*draft.inputs_of(first, end), *draft.weights_of(first, end)):
                size = drafts[part.draft].k if part.draft != EXTERNAL else 0
                cuts[part.draft] |= {part.first, part.end} - {0, size}
    return cuts


def _layer(
    draft: Draft, suffix: str, piece: tuple[int, int], numbers: dict[tuple[int, int], int]
) -> NetworkLayer:
    """The layer that computes channels ``piece`` (first, end) of a draft.

    ``numbers``: those of the layers so far, by the draft and the first channel of the part they compute.
    """
    first, end = piece
    inputs, weights = draft.inputs_of(first, end), draft.weights_of(first, end)
    groups = max(draft.groups * (end - first) // draft.k, 1)
    if draft.kind in WITH_FACTORS:
        groups = draft.groups
    (rows, columns), (height, width) = draft.over, draft.read
    external = [part.draft == EXTERNAL for part in inputs]
    if external != sorted(external, reverse=True):
        expected = "the network's input before what layers compute, or apart from it"
        raise InputError(f"layer {draft.name}", expected, "its channels between or behind them")
    return NetworkLayer(
        name=f"{draft.name}{suffix}",
        kind="conv" if draft.kind == "groupconv" and groups == 1 else draft.kind,
        c=channels(inputs),
        k=end - first,
        h=rows.count,
        w=columns.count,
        r=draft.work if draft.kind in STATING_WORK else rows.size,
        s=columns.size,
        stride_h=rows.stride,
        stride_w=columns.stride,
        pad_h=rows.before,
        pad_w=columns.before,
        input_h=height,
        input_w=width,
        operands=draft.operands,
        groups=groups,
        order=draft.order,
        external_c=channels(part for part in inputs if part.draft == EXTERNAL),
        producers=_producers(inputs, numbers),
        weight_producers=_producers(weights, numbers),
    )


def _producers(parts: Parts, numbers: dict[tuple[int, int], int]) -> tuple[int, ...]:
    """The layers that compute exactly the channels of ``parts``, in their order."""
    return tuple(
        number
        for part in parts
        if part.draft != EXTERNAL
        for (draft, first), number in numbers.items()
        if draft == part.draft and part.first <= first < part.end
    )
