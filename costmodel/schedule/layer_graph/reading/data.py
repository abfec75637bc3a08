"""Layers without products: element-wise functions, sums, pooling, copies, transposes, table look-ups.

Every method of :class:`Builder` adds the drafts that it needs and says where the elements of the result lie.
What a reader has to know is the order of channels. A layer may compute its outputs in another order than the
operator states if its inputs are then few whole slices; the result's ``parts`` list them in the stated order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from costmodel.errors import InputError
from costmodel.schedule.layer_graph.reading.drafts import (
    EXTERNAL,
    Draft,
    Parts,
    Slice,
    channels,
    joined,
    listed,
    picked,
    sorted_already,
    taken,
)
from costmodel.schedule.layer_graph.reading.layout import (
    NO_PADDING,
    Data,
    full,
    known_axes,
    reshaped,
    rows_of_channels,
    selected,
    spatial_dims,
)
from costmodel.workload.digits import Digit, Digits, length_of, merged
from costmodel.workload.windows import Windows


class Builder:
    """Collects drafts in topological order; every method returns the outputs of the draft that it adds."""

    def __init__(self) -> None:
        self.drafts: list[Draft] = []
        self.ends: list[Slice] = []
        """Results of the network that no value of it names, such as the state behind a scan."""
        self._chunks: dict[tuple[Parts, int, int], Parts] = {}

    def add(self, draft: Draft) -> Parts:
        """The outputs of the draft, which is added to the list."""
        self.drafts.append(draft)
        return (Slice(len(self.drafts) - 1, 0, draft.k),)

    def whole(self, data: Data) -> tuple[int, Draft] | None:
        """Number and draft whose outputs ``data`` are, all of them in order; None if there is none."""
        if len(data.parts) != 1 or data.external:
            return None
        (part,) = data.parts
        draft = self.drafts[part.draft]
        return (part.draft, draft) if part.k == draft.k and draft.made == data.box else None

    def each_channel(self, parts: Parts, draft_of: Callable[[Parts], Draft], outputs: int = 1) -> Parts:
        """The outputs, in the order of ``parts``, of a draft with ``outputs`` channels for each channel read.

        ``draft_of`` makes the draft from the channels that it reads. They are sorted in the order in which
        other drafts compute them where that makes fewer slices, and so fewer layers cut in parts; also where
        the network's input is among them, which a layer has first. The outputs are then picked in the order
        of ``parts``.
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
        """An element-wise function of one operand. A chain of them is one layer, on what the first one reads.

        A normalisation does not join the activation function before it, which is foldable: that one costs
        nothing where the layer before it does it.
        """
        if data.statistic or (data.external and foldable):
            return data
        if min(data.padding) < 0:
            data = self.plain(name, data)
        found = self.whole(data)
        if found and found[1].pointwise and (foldable or not found[1].foldable):
            before = found[1]
            data, foldable = replace(data, parts=before.inputs), before.foldable

        def draft(parts: Parts) -> Draft:
            return Draft(name, "ptp", data.k, parts, data.box, pointwise=True, foldable=foldable)

        return replace(data, parts=self.each_channel(data.parts, draft))

    def statistic(self, data: Data) -> Data:
        """One number for each row and column, of the channels from which ``data`` follows element by element.

        The variance of x is a mean of (x - mean)^2: it is recorded as a statistic of x, and the layers in
        between are dropped if nothing else reads them.
        """
        found = self.whole(data)
        parts = found[1].inputs if found and found[1].pointwise else data.parts
        return Data(parts, data.h, data.w, statistic=True)

    def combined(self, name: str, operands: Sequence[Data]) -> Data:
        """Arithmetic on operands of one shape, or on one operand and a number for each of its channels.

        Statistics, and operands that follow from another one element by element, are no operands of their
        own: x * sigmoid(x) or (x - mean) / deviation is one element-wise function of x.
        """
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
        """The operands without those that follow element by element from another one among them."""
        found: dict[Parts, Data] = {}
        for data in operands:
            draft = self.whole(data)
            base = draft[1].inputs if draft and draft[1].pointwise and draft[1].foldable else data.parts
            # of x and f(x), f(x): a layer on it computes from x
            if base not in found or base != data.parts:
                found[base] = data
        return list(found.values())

    def _of(self, statistic: Data, operands: Sequence[Data]) -> bool:
        """Whether the statistic is of the operands, or of what they are computed from directly."""
        bases = {part.draft for data in operands for part in data.parts}
        bases |= {part.draft for data in operands if (own := self.whole(data)) for part in own[1].inputs}
        return {part.draft for part in statistic.parts} <= bases

    def _sum(self, name: str, operands: Sequence[Data]) -> Data:
        """The sum of operands that lie alike.

        The channels of all may be reordered in the same way: in the order of the first one's drafts, where
        that makes fewer slices in all. The network's input comes first, as a layer's inputs have it.
        """
        first, *others = sorted(operands, key=lambda data: not data.external)
        k = first.k
        each = [data.parts for data in (first, *others)]
        every = listed(first.parts)
        order = list(range(k))
        if not sorted_already(first.parts):
            by_draft = sorted(order, key=every.__getitem__)
            in_order = [picked(parts, by_draft) for parts in each]
            if sum(map(len, in_order)) < sum(map(len, each)):
                each, order = in_order, by_draft
        inputs = tuple(part for parts in each for part in parts)
        made = self.add(Draft(name, "eltwise", k, inputs, first.box, operands=len(each)))
        return replace(first, parts=picked(made, sorted(range(k), key=order.__getitem__)))

    def _scaled(self, name: str, data: Data, scale: Data) -> Data:
        """Each channel times a number of its own: depthwise, 1 x 1, with activations as weights."""
        k = data.k
        made = self.add(Draft(name, "groupconv", k, data.parts, data.box, groups=k, weights=scale.parts))
        return replace(data, parts=made)

    def pool(self, name: str, data: Data, rows: Windows, columns: Windows) -> Data:
        """A pooling of every channel by a window over rows and one over columns."""

        def draft(parts: Parts) -> Draft:
            return Draft(name, "pool", data.k, parts, data.box, (rows, columns))

        return Data(self.each_channel(data.parts, draft), rows.count, columns.count)

    def plain(self, name: str, data: Data) -> Data:
        """The value as a copy of which padding is a part.

        The copy has the constant rows and columns around it, and lacks those that are cut off.

        The copy is a pooling with windows of one element, of which some lie in the padding.
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
        """An image and the windows that read it, over the rows and over the columns of its box.

        ``windows`` are over its spatial axes. Padding of the image becomes padding of the windows. Where rows
        are cut off (negative padding) and the windows have padding of their own, they would read the rows
        that are cut off instead of constants: a copy without these rows comes before.
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
        """The elements at some indices of some axes; ``chosen`` are (axis, indices).

        Channels, and the first rows or columns, need no layer. Other rows and columns are copied. But where
        they follow one another and ``waits``, they become negative padding instead, and the windows that read
        the value leave the others out.
        """
        cuts: dict[str, tuple[int, Windows]] = {}
        for axis, indices in chosen:
            if chunks_along(data, axis) and len(indices) < length_of(known_axes(data)[axis]):
                data = self.together(f"{name}.rows", data, axis)
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
        """Values one after the other along an axis of rows or columns.

        ``pieces`` are the values with their numbers of rows (columns). Each is copied into a box of all rows,
        in which the rows of the others are padding, and the copies are summed. Constants (None) need no copy.
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
        """A copy of ``data`` as rows (columns) ``start`` to before ``start + count`` of ``total``.

        ``part`` is (start, count, total). All other rows are constants.
        """
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

    # ---- chunks of rows

    def chunks(self, name: str, data: Data) -> Data:
        """The value with the chunks of its rows side by side as channels, where an axis counts chunks.

        A product for each chunk is then one for each group of channels, as for heads. Any other value stays
        as it is.
        """
        axes = known_axes(data)
        inner = [axis[0].size for axis in axes if [digit[1:] for digit in axis] == [(1, "H")]]
        for number, axis in enumerate(axes):
            if len(axis) == 1 and axis[0].dim == "H" and axis[0].stride > 1 and inner == [axis[0].stride]:
                count, rows, _ = axis[0]
                if count * rows != data.h or data.w != 1:
                    break
                moved = list(axes)
                moved[number] = (Digit(count, data.k, "C"),)
                return Data(self.apart(name, self.plain(name, data), rows), rows, 1, tuple(moved))
        return data

    def apart(self, name: str, data: Data, rows: int) -> Parts:
        """The channels of each chunk of ``rows`` rows, chunk by chunk: a copy of each, made once.

        The rows that the last chunk lacks are padding, which no copy reads.
        """
        key = data.parts, data.h, rows
        if key not in self._chunks:
            count = -(-data.h // rows)
            copies = (
                self.pool(f"{name}.chunk{i}", data, Windows(rows, before=-i * rows), Windows(1))
                for i in range(count)
            )
            self._chunks[key] = joined(part for copy in copies for part in copy.parts)
        return self._chunks[key]

    def together(self, name: str, data: Data, axis: int) -> Data:
        """The value with rows along an axis that goes from chunk to chunk, which are channels."""
        lengths = data.sizes
        count = lengths[axis] // data.h
        one = (*lengths[:axis], data.h, *lengths[axis + 1 :])
        apart = reshaped(data, (*lengths[:axis], count, data.h, *lengths[axis + 1 :]))
        pieces = [(reshaped(selected(apart, axis, [i]), one), data.h) for i in range(count)]
        return self.stacked(name, pieces, axis)

    def as_rows(self, data: Data) -> Data:
        """An image as a sequence: its positions, row by row, become rows, and there is one column.

        That can be done to the network's input, and to patches of it (a convolution whose stride is its
        filter): the draft of the patches is replaced by a product of rows, which reads the input as one row
        for each patch. No other draft may read the patches as an image.
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
        if not found or not patches or any(one.size != one.stride for one in found[1].over):
            raise InputError("", "rows, or patches of the network's input", f"{data.h} x {data.w} positions")
        number, draft = found
        if any(part.draft == number for one in self.drafts for part in (*one.inputs, *one.weights)):
            raise InputError("", "patches that nobody else reads as an image", draft.name)
        c = channels(draft.inputs) * prod(one.size for one in draft.over)
        rows = prod(draft.made)
        self.drafts[number] = Draft(draft.name, "conv", draft.k, (Slice(EXTERNAL, 0, c),), (rows, 1))
        return replace(data, h=rows, w=1, axes=axes)

    def looked_up(self, name: str, width: int, rows: int) -> Data:
        """``rows`` rows of a table in DRAM, of ``width`` channels each: a copy of a part of the input."""
        made = self.add(Draft(name, "ptp", width, (Slice(EXTERNAL, 0, width),), (rows, 1)))
        return rows_of_channels(made, rows)

    def transposed(self, name: str, data: Data, heads: int = 1) -> Data:
        """Rows as channels and channels as rows, within each of ``heads`` equal parts of the channels.

        One transposing layer for each head: a transpose exchanges all rows and channels of what it reads.
        """
        if data.w != 1 or data.k % heads:
            raise InputError("", f"rows of channels in {heads} equal parts", data.shape)
        width, parts = data.k // heads, list[Slice]()
        turned = Windows(width), Windows(1)
        for head in range(heads):
            part = taken(data.parts, head * width, (head + 1) * width)
            suffix = f".{head}" if heads > 1 else ""
            draft = Draft(f"{name}{suffix}", "transpose", data.h, part, data.box, turned, order=(1, 0, 2))
            parts += self.add(draft)
        axes = None
        if data.axes is not None:
            axes = tuple(tuple(_turned(f, width, data.h) for f in axis) for axis in data.axes)
        return Data(tuple(parts), width, 1, axes)


def chunks_along(data: Data, axis: int) -> bool:
    """Whether an axis is one of rows that lie in chunks, of which each has channels of its own."""
    dims = [digit.dim for digit in known_axes(data)[axis]]
    rows = known_axes(data)[axis][-1:]
    return len(dims) > 1 and set(dims[:-1]) == {"C"} and rows == (Digit(data.h, 1, "H"),)


def _turned(digit: Digit, width: int, rows: int) -> Digit:
    """The digit once rows and channels are exchanged in each head, of ``width`` channels and ``rows`` rows.

    A digit over rows now moves along channels. One within a head's channels moves along rows. One over heads
    stays a digit of channels, whose step is now as long as the head has rows.
    """
    size, stride, dim = digit
    if dim == "H":
        return Digit(size, stride, "C")
    if dim == "C" and stride % width == 0:
        return Digit(size, stride // width * rows, "C")
    return Digit(size, stride, "H") if dim == "C" else digit


def _evenly(indices: Sequence[int]) -> tuple[int, int] | None:
    """The first of evenly rising indices, and the step between them; None for any others."""
    if not indices:
        return None
    step = indices[1] - indices[0] if len(indices) > 1 else 1
    even = step > 0 and list(indices) == list(range(indices[0], indices[-1] + 1, step))
    return (indices[0], step) if even else None


def _stretched(digit: Digit, lengths: dict[str, tuple[int, int]]) -> Digit:
    """The digit, with the dim's new length if it is one over the whole dim.

    ``lengths``: of each dim the old and the new length.
    """
    was, now = lengths.get(digit.dim, (0, 0))
    return Digit(now, 1, digit.dim) if digit.dim in lengths and digit.size == was else digit


def _along_one_dim(data: Data) -> tuple[Digits, ...] | None:
    """The axes of an image whose positions are numbered row by row as rows; None if they are not known."""
    if data.axes is None:
        return None
    strides = {"H": data.w, "W": 1}
    moved = [
        [Digit(f.size, f.stride * strides[f.dim], "H") if f.dim in strides else f for f in axis]
        for axis in data.axes
    ]
    return tuple(merged(axis) for axis in moved)
