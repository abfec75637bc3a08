"""The layers that need no products, and how the channels that layers read are put in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from costmodel.errors import InputError
from costmodel.schedule.layer_graph.drafts import (
    EXTERNAL,
    Draft,
    Parts,
    Slice,
    channels,
    listed,
    picked,
    sorted_already,
    taken,
)
from costmodel.schedule.layer_graph.layout import (
    NO_PADDING,
    Data,
    full,
    known_axes,
    rows_of_channels,
    selected,
    spatial_dims,
)
from costmodel.schedule.layer_graph.windows import Windows
from costmodel.workload.digits import Digit, Digits, merged


class Builder:
    """Collects drafts in topological order; every method returns what the draft that it adds computes."""

    def __init__(self) -> None:
        self.drafts: list[Draft] = []

    def add(self, draft: Draft) -> Parts:
        """The outputs of the draft, which becomes a layer."""
        self.drafts.append(draft)
        return (Slice(len(self.drafts) - 1, 0, draft.k),)

    def whole(self, data: Data) -> tuple[int, Draft] | None:
        """The draft whose outputs ``data`` are, all of them; None where it is not one."""
        if len(data.parts) != 1 or data.external:
            return None
        (part,) = data.parts
        draft = self.drafts[part.draft]
        return (part.draft, draft) if part.k == draft.k and (draft.h, draft.w) == (data.h, data.w) else None

    def each_channel(self, parts: Parts, draft_of: Callable[[Parts], Draft], outputs: int = 1) -> Parts:
        """The outputs of a draft that computes ``outputs`` channels from every one of ``parts``.

        It may as well compute them in the order in which others compute its inputs, which keeps these whole;
        who reads its outputs then reads them in the order of ``parts``.
        """
        if sorted_already(parts):
            return self.add(draft_of(parts))
        every = listed(parts)
        order = sorted(range(len(every)), key=every.__getitem__)
        sorted_parts = picked(parts, order)
        if len(sorted_parts) >= len(parts) and every[order[0]][0] != EXTERNAL:
            return self.add(draft_of(parts))
        position = {channel: number for number, channel in enumerate(order)}
        chosen = [position[i] * outputs + j for i in range(len(every)) for j in range(outputs)]
        return picked(self.add(draft_of(sorted_parts)), chosen)

    def pointwise(self, name: str, data: Data, foldable: bool) -> Data:
        """An element-wise function; a chain of them is one layer on what the first one reads.

        But not with activations before a normalisation: those may be done where their input is computed.
        """
        if data.statistic or (data.external and foldable):
            return data
        if min(data.padding) < 0:
            data = self.plain(name, data)
        found = self.whole(data)
        if found and found[1].pointwise and (foldable or not found[1].foldable):
            before = found[1]
            data, foldable = replace(data, parts=before.inputs), before.foldable
        k, h, w = data.shape

        def draft(parts: Parts) -> Draft:
            return Draft(name, "ptp", k, h, w, parts, h, w, pointwise=True, foldable=foldable)

        return replace(data, parts=self.each_channel(data.parts, draft))

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
        """Operands that lie alike: their channels may all be taken in the order of the first one's."""
        first, *others = sorted(operands, key=lambda data: not data.external)
        k, h, w = first.shape
        each = [data.parts for data in (first, *others)]
        every = listed(first.parts)
        order = list(range(k))
        if not sorted_already(first.parts):
            by_draft = sorted(order, key=every.__getitem__)
            in_order = [picked(parts, by_draft) for parts in each]
            if sum(map(len, in_order)) < sum(map(len, each)):
                each, order = in_order, by_draft
        inputs = tuple(part for parts in each for part in parts)
        made = self.add(Draft(name, "eltwise", k, h, w, inputs, h, w, operands=len(each)))
        return replace(first, parts=picked(made, sorted(range(k), key=order.__getitem__)))

    def _scaled(self, name: str, data: Data, scale: Data) -> Data:
        """A number for each channel: a convolution of every channel with one activation as its weight."""
        k, h, w = data.shape
        made = self.add(Draft(name, "groupconv", k, h, w, data.parts, h, w, groups=k, weights=scale.parts))
        return replace(data, parts=made)

    def pool(self, name: str, data: Data, rows: Windows, columns: Windows) -> Data:
        """A pooling of every channel by a window over rows and one over columns."""
        h, w = rows.count, columns.count
        (input_h, above), (input_w, left) = rows.reach(data.h), columns.reach(data.w)
        window = (rows.size, columns.size, rows.stride, columns.stride, above, left)

        def draft(parts: Parts) -> Draft:
            return Draft(name, "pool", data.k, h, w, parts, input_h, input_w, *window)

        return Data(self.each_channel(data.parts, draft), h, w)

    def plain(self, name: str, data: Data) -> Data:
        """The value with the constants around it as rows and columns of its own, and without those that are
        cut off: through a copy.
        """
        if not any(data.padding):
            return data
        above, below, left, right = data.padding
        rows = Windows(data.h + above + below, before=above)
        columns = Windows(data.w + left + right, before=left)
        copy = self.pool(f"{name}.padded", replace(data, padding=NO_PADDING), rows, columns)
        longer = {"H": (data.h, copy.h), "W": (data.w, copy.w)}
        axes = tuple(tuple(_stretched(digit, longer) for digit in axis) for axis in known_axes(data))
        return replace(copy, axes=tuple(map(merged, axes)))

    def under(self, name: str, data: Data, windows: Sequence[Windows]) -> tuple[Data, Windows, Windows]:
        """An image as windows over its spatial axes read it, and these as windows over its rows and columns.

        Padding that waits for them is theirs. Rows that were cut off stay out of their reach: where the
        windows reach over the edges themselves, a copy without these rows comes before.
        """
        lengths = data.sizes[2:]
        within = all(one.before <= 0 and one.extent <= n for one, n in zip(windows, lengths, strict=True))
        if min(data.padding) < 0 and not within:
            data = self.plain(name, data)
        by_dim = dict(zip(spatial_dims(data), windows, strict=True))
        rows, columns = (by_dim.get(dim, Windows(1)) for dim in ("H", "W"))
        above, _, left, _ = data.padding
        moved = replace(rows, before=rows.before + above), replace(columns, before=columns.before + left)
        return replace(data, padding=NO_PADDING), *moved

    def part(
        self, name: str, data: Data, chosen: Sequence[tuple[int, Sequence[int]]], waits: bool = False
    ) -> Data:
        """The elements at some indices of some axes.

        Rows and columns that are not the first come through a copy; or, if they follow one another and the
        value ``waits``, whoever reads it leaves the others out.
        """
        cuts: dict[str, tuple[int, Windows]] = {}
        for axis, indices in chosen:
            steps = known_axes(data)[axis]
            even = _evenly(indices)
            if (
                steps not in ((Digit(data.h, 1, "H"),), (Digit(data.w, 1, "W"),))
                or even is None
                or (even == (0, 1) and not waits)
            ):
                data = selected(data, axis, indices)
            else:
                cuts[steps[0].dim] = axis, Windows(len(indices), stride=even[1], before=-even[0])
        if not cuts:
            return data
        if waits and all(cut.stride == 1 for _, cut in cuts.values()):
            above, below, left, right = data.padding
            if "H" in cuts:
                cut = cuts["H"][1]
                above, below = cut.before, cut.count - cut.before - data.h
            if "W" in cuts:
                cut = cuts["W"][1]
                left, right = cut.before, cut.count - cut.before - data.w
            return replace(data, padding=(above, below, left, right))
        rows, columns = (cuts.get(dim, (0, Windows(size)))[1] for dim, size in (("H", data.h), ("W", data.w)))
        copy = self.pool(name, data, rows, columns)
        axes = list(known_axes(data))
        for dim, (axis, cut) in cuts.items():
            axes[axis] = full("H" if dim == "H" else "W", cut.count)
        return replace(copy, axes=tuple(axes))

    def stacked(self, name: str, pieces: Sequence[tuple[Data | None, int]], axis: int) -> Data:
        """Rows or columns one after the other along an axis, so many each: copies in which the
        others' rows are empty, then their sum. Constants (None) need no layer.
        """
        start, copies = 0, list[Data]()
        total = sum(count for _, count in pieces)
        dims = {f.dim for data, _ in pieces if data for f in known_axes(data)[axis]}
        if len(dims) != 1:
            raise InputError("", "operands side by side along rows, or along columns", sorted(dims))
        for i, (data, count) in enumerate(pieces):
            if data is not None:
                copies.append(self._copied(f"{name}.{i}", data, axis, (start, count, total), dims == {"H"}))
            start += count
        if any(copy.axes != copies[0].axes or copy.shape != copies[0].shape for copy in copies):
            raise InputError("", "operands whose other axes lie alike", [copy.shape for copy in copies])
        return copies[0] if len(copies) == 1 else self._sum(name, copies)

    def _copied(self, name: str, data: Data, axis: int, part: tuple[int, int, int], along_rows: bool) -> Data:
        """``count`` rows (columns) from ``start`` on among ``total``, all others constant."""
        start, count, total = part
        steps = known_axes(data)[axis]
        if steps not in ((), (Digit(count, 1, "H" if along_rows else "W"),)) or (
            (data.h if along_rows else data.w) != count
        ):
            raise InputError("", f"{count} rows or columns along one axis", data.shape)
        longer = Windows(total, before=start)
        rows, columns = (longer, Windows(data.w)) if along_rows else (Windows(data.h), longer)
        axes = list(known_axes(data))
        axes[axis] = (Digit(total, 1, "H" if along_rows else "W"),)
        return replace(self.pool(name, data, rows, columns), axes=tuple(axes))

    def as_rows(self, data: Data) -> Data:
        """An image as a sequence of its positions: only patches of the network's input can be made so.

        No other layer may read the patches as rows and columns.
        """
        if data.w == 1:
            return data
        axes = _along_one_dim(data)
        if data.external:
            return replace(data, h=data.h * data.w, w=1, axes=axes)
        found = self.whole(data)
        patches = (
            found and found[1].kind == "conv" and all(part.draft == EXTERNAL for part in found[1].inputs)
        )
        if not found or not patches or (found[1].r, found[1].s) != (found[1].stride_h, found[1].stride_w):
            raise InputError("", "rows, or patches of the network's input", f"{data.h} x {data.w} positions")
        number, draft = found
        if any(part.draft == number for one in self.drafts for part in (*one.inputs, *one.weights)):
            raise InputError("", "patches that nobody else reads as an image", draft.name)
        c = channels(draft.inputs) * draft.r * draft.s
        rows = draft.h * draft.w
        self.drafts[number] = Draft(draft.name, "conv", draft.k, rows, 1, (Slice(EXTERNAL, 0, c),), rows, 1)
        return replace(data, h=rows, w=1, axes=axes)

    def looked_up(self, name: str, width: int, rows: int) -> Data:
        """Rows of a table in DRAM."""
        made = self.add(Draft(name, "ptp", width, rows, 1, (Slice(EXTERNAL, 0, width),), rows, 1))
        return rows_of_channels(made, rows)

    def transposed(self, name: str, data: Data, heads: int = 1) -> Data:
        """Rows as channels and channels as rows, in each of ``heads`` parts of the channels."""
        if data.w != 1 or data.k % heads:
            raise InputError("", f"rows of channels in {heads} equal parts", data.shape)
        width, parts = data.k // heads, list[Slice]()
        for head in range(heads):
            part = taken(data.parts, head * width, (head + 1) * width)
            suffix = f".{head}" if heads > 1 else ""
            draft = Draft(f"{name}{suffix}", "transpose", data.h, width, 1, part, data.h, 1, order=(1, 0, 2))
            parts += self.add(draft)
        axes = None
        if data.axes is not None:
            axes = tuple(tuple(_turned(f, width, data.h) for f in axis) for axis in data.axes)
        return Data(tuple(parts), width, 1, axes)


def _turned(digit: Digit, width: int, rows: int) -> Digit:
    """Where a digit leads once the channels of a head and the rows are exchanged."""
    size, stride, dim = digit
    if dim == "H":
        return Digit(size, stride, "C")
    if dim == "C" and stride % width == 0:
        return Digit(size, stride // width * rows, "C")
    return Digit(size, stride, "H") if dim == "C" else digit


def _evenly(indices: Sequence[int]) -> tuple[int, int] | None:
    """First index and step of indices that rise evenly; None for others."""
    if not indices:
        return None
    step = indices[1] - indices[0] if len(indices) > 1 else 1
    even = step > 0 and list(indices) == list(range(indices[0], indices[-1] + 1, step))
    return (indices[0], step) if even else None


def _stretched(digit: Digit, lengths: dict[str, tuple[int, int]]) -> Digit:
    """A digit over a whole dim as one over the dim's new length."""
    was, now = lengths.get(digit.dim, (0, 0))
    return Digit(now, 1, digit.dim) if digit.dim in lengths and digit.size == was else digit


def _along_one_dim(data: Data) -> tuple[Digits, ...] | None:
    """The axes once the columns of a row follow one another as rows."""
    if data.axes is None:
        return None
    strides = {"H": data.w, "W": 1}
    moved = [
        [Digit(f.size, f.stride * strides[f.dim], "H") if f.dim in strides else f for f in axis]
        for axis in data.axes
    ]
    return tuple(merged(axis) for axis in moved)
