"""Values of a network as channels of layers' outputs, and the layers that need no products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from costmodel.errors import InputError
from costmodel.frontends.layer_graph_drafts import EXTERNAL, Draft, Parts, Slice, channels, joined, taken
from costmodel.workload import Pooling

Two = tuple[int, int]


@dataclass(frozen=True)
class Data:
    """Channels ``parts`` of ``h`` rows and ``w`` columns; a ``statistic`` is a number a position of them."""

    parts: Parts
    h: int
    w: int
    statistic: bool = False

    @property
    def k(self) -> int:
        return channels(self.parts)

    @property
    def elements(self) -> int:
        return self.k * self.h * self.w

    @property
    def external(self) -> bool:
        """Whether it is the network's input, or follows from that by itself."""
        return all(part.draft == EXTERNAL for part in self.parts)

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.k, self.h, self.w

    def cut(self, first: int, end: int) -> Data:
        """Channels ``first`` to before ``end``."""
        return replace(self, parts=taken(self.parts, first, end))


class Builder:
    """Collects drafts in topological order; every method returns what the draft that it adds computes."""

    def __init__(self) -> None:
        self.drafts: list[Draft] = []

    def add(self, draft: Draft) -> Data:
        self.drafts.append(draft)
        return Data((Slice(len(self.drafts) - 1, 0, draft.k),), draft.h, draft.w)

    def whole(self, data: Data) -> tuple[int, Draft] | None:
        """The draft whose outputs ``data`` are, all of them; None where it is not one."""
        if len(data.parts) != 1 or data.external:
            return None
        (part,) = data.parts
        draft = self.drafts[part.draft]
        return (part.draft, draft) if part.k == draft.k and (draft.h, draft.w) == (data.h, data.w) else None

    def pointwise(self, name: str, data: Data, foldable: bool) -> Data:
        """An element-wise function; a chain of them is one layer on what the first one reads.

        But not with activations before a normalisation: those may be done where their input is computed.
        """
        if data.statistic or (data.external and foldable):
            return data
        found = self.whole(data)
        if found and found[1].pointwise and (foldable or not found[1].foldable):
            before = found[1]
            data, foldable = replace(data, parts=before.inputs), before.foldable
        k, h, w = data.shape
        return self.add(Draft(name, "ptp", k, h, w, data.parts, h, w, pointwise=True, foldable=foldable))

    def statistic(self, data: Data) -> Data:
        """A number a position of what ``data`` is computed from element by element."""
        found = self.whole(data)
        parts = found[1].inputs if found and found[1].pointwise else data.parts
        return Data(parts, data.h, data.w, statistic=True)

    def combined(self, name: str, operands: Sequence[Data]) -> Data:
        """Arithmetic on operands of one shape, or on one and a number for each of its channels."""
        distinct = self._distinct([data for data in operands if not data.statistic])
        whole = len(distinct) == len(operands)
        if len(distinct) <= 1:
            if not distinct:
                return operands[0]
            return self.pointwise(name, distinct[0], foldable=not any(data.statistic for data in operands))
        if not whole and any(data.statistic and not self._of(data, distinct) for data in operands):
            raise InputError("", "statistics of the operands themselves", "others")
        largest = max(distinct, key=lambda data: data.elements)
        if all(data.shape == largest.shape for data in distinct):
            return self._sum(name, distinct)
        if len(distinct) == 2:
            smaller = min(distinct, key=lambda data: data.elements)
            if smaller.shape == (largest.k, 1, 1):
                return self._scaled(name, largest, smaller)
        raise InputError("", "operands of one shape", [data.shape for data in distinct])

    def _distinct(self, operands: Sequence[Data]) -> list[Data]:
        """Operands that do not follow from another one element by element."""
        found: dict[Parts, Data] = {}
        for data in operands:
            draft = self.whole(data)
            base = draft[1].inputs if draft and draft[1].pointwise and draft[1].foldable else data.parts
            # of x and f(x), f(x): a layer on it computes from x
            if base not in found or base != data.parts:
                found[base] = data
        return list(found.values())

    def _of(self, statistic: Data, operands: Sequence[Data]) -> bool:
        bases = {part.draft for data in operands for part in data.parts}
        bases |= {part.draft for data in operands if (own := self.whole(data)) for part in own[1].inputs}
        return {part.draft for part in statistic.parts} <= bases

    def _sum(self, name: str, operands: Sequence[Data]) -> Data:
        k, h, w = operands[0].shape
        inputs = tuple(part for data in operands for part in data.parts)
        return self.add(Draft(name, "eltwise", k, h, w, inputs, h, w, operands=len(operands)))

    def _scaled(self, name: str, data: Data, scale: Data) -> Data:
        """A number for each channel: a convolution of every channel with one activation as its weight."""
        k, h, w = data.shape
        return self.add(Draft(name, "groupconv", k, h, w, data.parts, h, w, groups=k, weights=scale.parts))

    def pool(self, name: str, data: Data, window: Pooling | None, size: tuple[int, ...]) -> Data:
        """A pooling to ``size``; without a stated window, by windows that divide the input evenly."""
        if not 1 <= len(size) <= 2:
            raise InputError("", "one or two spatial axes", size)
        h, w = (*size, 1) if len(size) == 1 else size
        if min(h, w) < 1 or (window and min(*window.size, *window.stride) < 1):
            raise InputError("", "windows and outputs of at least 1", (window, size))
        (r, s), (stride_h, stride_w) = _windows(data, (h, w)) if window is None else _plane(window)
        (rows, above), (columns, left) = reach(h, r, stride_h, data.h), reach(w, s, stride_w, data.w)
        sizes = (rows, columns, r, s, stride_h, stride_w, above, left)
        return self.add(Draft(name, "pool", data.k, h, w, data.parts, *sizes))

    def side_by_side(self, operands: Sequence[Data]) -> Data:
        """Channels one after the other."""
        if len({(data.h, data.w) for data in operands}) > 1:
            raise InputError("", "operands of as many rows and columns", [data.shape for data in operands])
        parts = joined(part for data in operands for part in data.parts)
        return replace(operands[0], parts=parts)

    def stacked(self, name: str, pieces: Sequence[tuple[Data | None, int]], shape: tuple[int, ...]) -> Data:
        """Rows one after the other, so many each: copies with room for the others' rows, then their sum.

        Constants are in their place without a layer.
        """
        width, total, start, copies = shape[-1], prod(shape[:-1]), 0, []
        for i, (data, count) in enumerate(pieces):
            if data is not None and (data.k, count) != (width, data.h * data.w):
                if data.elements != width * data.h * data.w:
                    raise InputError("", f"rows of {width} channels", data.shape)
                count = data.h * data.w
            if data is not None:
                rows = self.as_rows(data)
                copies.append(
                    self.add(
                        Draft(f"{name}.{i}", "pool", width, total, 1, rows.parts, rows.h, 1, pad_h=start)
                    )
                )
            start += count
        if start != total:
            raise InputError("", f"{total} rows", start)
        return copies[0] if len(copies) == 1 else self._sum(name, copies)

    def as_rows(self, data: Data) -> Data:
        """An image as a sequence of its positions: only patches of the network's input can be made so."""
        if data.w == 1 or data.external:
            return Data(data.parts, data.h * data.w, 1)
        found = self.whole(data)
        patches = (
            found and found[1].kind == "conv" and all(part.draft == EXTERNAL for part in found[1].inputs)
        )
        if not found or not patches or (found[1].r, found[1].s) != (found[1].stride_h, found[1].stride_w):
            raise InputError("", "rows, or patches of the network's input", f"{data.h} x {data.w} positions")
        number, draft = found
        c = channels(draft.inputs) * draft.r * draft.s
        rows = draft.h * draft.w
        self.drafts[number] = Draft(draft.name, "conv", draft.k, rows, 1, (Slice(EXTERNAL, 0, c),), rows, 1)
        return Data(data.parts, rows, 1)

    def looked_up(self, name: str, width: int, rows: int) -> Data:
        """Rows of a table in DRAM."""
        return self.add(Draft(name, "ptp", width, rows, 1, (Slice(EXTERNAL, 0, width),), rows, 1))

    def transposed(self, name: str, data: Data, heads: int = 1) -> Data:
        """Rows as channels and channels as rows, in each of ``heads`` parts of the channels."""
        if data.w != 1 or data.k % heads:
            raise InputError("", f"rows of channels in {heads} equal parts", data.shape)
        width, parts = data.k // heads, list[Slice]()
        for head in range(heads):
            part = data.cut(head * width, (head + 1) * width).parts
            suffix = f".{head}" if heads > 1 else ""
            draft = Draft(f"{name}{suffix}", "transpose", data.h, width, 1, part, data.h, 1, order=(1, 0, 2))
            parts += self.add(draft).parts
        return Data(tuple(parts), width, 1)


def _windows(data: Data, size: Two) -> tuple[Two, Two]:
    """Size and stride of the windows of adaptive poolings: even ones; uneven ones as long as the longest."""
    stride_h, stride_w = max(data.h // size[0], 1), max(data.w // size[1], 1)
    return (data.h - (size[0] - 1) * stride_h, data.w - (size[1] - 1) * stride_w), (stride_h, stride_w)


def _plane(window: Pooling) -> tuple[Two, Two]:
    """Size and stride of a stated window; one over one axis goes along the rows of a sequence."""
    if not 1 <= len(window.size) == len(window.stride) <= 2:
        raise InputError("", "a window over one or two axes", window)
    (r, s), (stride_h, stride_w) = ((*sizes, 1)[:2] for sizes in (window.size, window.stride))
    return (r, s), (stride_h, stride_w)


def reach(count: int, window: int, stride: int, length: int) -> tuple[int, int]:
    """Of ``length`` rows those that windows read, and the rows of padding before them (half of it)."""
    extent = (count - 1) * stride + window
    before = max(extent - length, 0) // 2
    return min(length, extent - before), before
