"""An operator graph whose tensors are cut into bands of rows or channels.

Every tensor has a :class:`TensorCut`. A band is a tensor of the graph like any other, and each piece of an
operator makes one band, so a plan of the cut graph is replayed and counted as every plan is:

- *Rows and channels.* A piece reads the bands that hold any of what it needs. The rows that two pieces both
  read (the halo) are kept, or retrieved, with the band that they are in; none is made twice.
- *Sums.* A convolution whose input is in bands of channels adds up band after band. The sum so far has the
  size of the output's band, in the width of all elements, and the next one is written over it.
- *Recomputed.* A tensor that one operator reads can have a band for each band of rows of that operator's
  output, with all the rows that it needs. Such bands overlap, and what they have in common is made again:
  nothing of it stays from one piece to the next, for more multiply-accumulates.
- *Parameters*, where the settings have them in the scratchpad. An operator in several pieces has a tensor for
  the parameters of each band of output channels (and of each band of input channels that is added up). The
  host has them: the first load is no access that another plan could save, every further one counts.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from costmodel.errors import InputError
from costmodel.scratchpad.divisions import Box, DivisibleGraph, Division, InputRead, Span, pieces_of
from costmodel.scratchpad.graph import GraphTensor, Operator, OperatorGraph


@dataclass(frozen=True)
class TensorCut:
    """``rows`` x ``channels`` bands; ``recomputed``: rows for each band of rows of its reader's output."""

    rows: int = 1
    channels: int = 1
    recomputed: bool = False


UNCUT = TensorCut()
Cuts = Mapping[str, TensorCut]
"""By the tensors' names; tensors that are not in it stay whole."""


class Content(NamedTuple):
    """What a tensor of a cut graph holds: ``box`` of the tensor ``of``; with ``summed`` a sum so far, of the
    rows or channels of the input up to that one.

    Of parameters ``of`` is -1: ``operator`` is theirs, ``box`` has the output's channels, and ``summed`` the
    input's channels up to the last that they are for.
    """

    of: int
    box: Box
    summed: int = 0
    operator: int = -1


class CutPiece(NamedTuple):
    """What an operator of a cut graph does: ``made`` of the output of ``operator`` (None: it cannot be cut,
    and makes all of all outputs), from the input's rows or channels ``added`` (None: from all that it needs).
    """

    operator: int
    made: Box | None = None
    added: Span | None = None


@dataclass(frozen=True)
class CutGraph:
    """A graph to plan, what each of its tensors holds and each of its operators does."""

    divisible: DivisibleGraph
    graph: OperatorGraph
    contents: tuple[Content, ...]
    pieces: tuple[CutPiece, ...]

    @cached_property
    def macs(self) -> int:
        """Multiply-accumulates of all pieces."""
        return sum(_macs(self.divisible, piece) for piece in self.pieces)

    @cached_property
    def recomputed_macs(self) -> int:
        """Those that are made more than once, without their first time."""
        again = 0
        for operator, rows in self._rows_made_again.items():
            (output,) = self.divisible.whole.operators[operator].outputs
            macs = self.divisible.divisions[operator].macs
            again += macs * rows // self.divisible.extents[output].rows
        return again

    @cached_property
    def recomputed_elements(self) -> int:
        """What operators without multiply-accumulates (pooling, element by element) make again, in elements
        of their outputs."""
        again = 0
        for operator, rows in self._rows_made_again.items():
            (output,) = self.divisible.whole.operators[operator].outputs
            if not self.divisible.divisions[operator].macs:
                extent = self.divisible.extents[output]
                again += rows * extent.channels * extent.elements
        return again

    @cached_property
    def _rows_made_again(self) -> dict[int, int]:
        """By operator of the whole graph the rows of its output that are made more than once, each time but
        the first.

        Only bands of recomputed tensors overlap. Rows that strides skip are in none of them: they are not
        made at all, and do not count against what is made twice.
        """
        rows: dict[int, list[Span]] = {}
        for piece in self.pieces:
            begun = piece.added is None or piece.added[0] == 0
            if begun and piece.made is not None and piece.made.channels[0] == 0:
                rows.setdefault(piece.operator, []).append(piece.made.rows)
        again = {}
        for operator, spans in rows.items():
            every = [row for span in dict.fromkeys(spans) for row in range(*span)]
            again[operator] = len(every) - len(set(every))
        return again


def _macs(divisible: DivisibleGraph, piece: CutPiece) -> int:
    division = divisible.divisions[piece.operator]
    if piece.made is None or not division.macs:
        return division.macs
    (output,) = divisible.whole.operators[piece.operator].outputs
    macs = division.macs * piece.made.parts // divisible.extents[output].whole.parts
    if piece.added is None:
        return macs
    source = divisible.extents[division.reads[0].tensor]
    along = source.channels if division.sums == "channels" else source.rows
    return macs * (piece.added[1] - piece.added[0]) // along


def may_recompute(divisible: DivisibleGraph, tensor: int) -> bool:
    """Whether the tensor can have a band for each band of rows of the one operator that reads it."""
    graph = divisible.whole
    maker, readers = graph.producers[tensor], graph.consumers[tensor]
    if maker is None or len(readers) != 1 or not divisible.divisions[maker].rows:
        return False
    division = divisible.divisions[readers[0]]
    read = next(read for read in division.reads if read.tensor == tensor)
    output = graph.operators[readers[0]].outputs[0]
    if not division.rows or read.window is None:
        return False
    # a row of the reader's that reads nothing but padding has no band to be made
    spans = [read.window.of((row, row + 1)) for row in (0, divisible.extents[output].rows - 1)]
    return all(last > 0 and first < divisible.extents[tensor].rows for first, last in spans)


def cut_graph(divisible: DivisibleGraph, cuts: Cuts, stages: Sequence[int] = ()) -> CutGraph:
    """The graph with its tensors cut so, in an order in which a band goes on as far as it can.

    ``stages``: by operator of the whole graph a number; those of a lower one come first, as far as the graph
    allows. InputError for a cut that its tensor cannot have.
    """
    return _Cutting(divisible, cuts).graph(stages)


def boxes_of(divisible: DivisibleGraph, cuts: Cuts) -> tuple[tuple[Box, ...], ...]:
    """By tensor of the whole graph its bands, by rows and then channels; InputError as :func:`cut_graph`."""
    graph = divisible.whole
    names = {tensor.name: number for number, tensor in enumerate(graph.tensors)}
    if unknown := [name for name in cuts if name not in names]:
        raise InputError(f"cut of {graph.name}", "tensors of the graph", unknown[0])
    found: list[tuple[Box, ...]] = [()] * len(names)
    # A recomputed tensor's bands follow from those of its reader's output, which later operators make.
    behind = [output for operator in reversed(graph.operators) for output in operator.outputs]
    for tensor in dict.fromkeys([*behind, *range(len(names))]):
        cut, own = cuts.get(graph.tensors[tensor].name, UNCUT), divisible.extents[tensor]
        _check(divisible, tensor, cut)
        if cut.recomputed:
            (reader,) = graph.consumers[tensor]
            spans = _recomputed(divisible, tensor, reader, found[graph.operators[reader].outputs[0]])
        else:
            spans = list(pieces_of(own.rows, cut.rows))
        found[tensor] = tuple(
            Box(rows, channels) for rows in spans for channels in pieces_of(own.channels, cut.channels)
        )
    return tuple(found)


def _check(divisible: DivisibleGraph, tensor: int, cut: TensorCut) -> None:
    where, own = f"cut of {divisible.whole.tensors[tensor].name}", divisible.extents[tensor]
    for key, most in (("rows", own.rows), ("channels", own.channels)):
        if not 1 <= getattr(cut, key) <= most:
            raise InputError(where, f"from 1 to {most} bands", getattr(cut, key), key=key)
    if cut.recomputed and (cut.rows > 1 or not may_recompute(divisible, tensor)):
        expected = "no rows of its own, one reader, and rows that can be made apart on both sides"
        raise InputError(where, expected, cut, key="recomputed")


def _recomputed(divisible: DivisibleGraph, tensor: int, reader: int, made: tuple[Box, ...]) -> list[Span]:
    read = next(read for read in divisible.divisions[reader].reads if read.tensor == tensor)
    assert read.window is not None
    rows, spans = divisible.extents[tensor].rows, []
    for span in dict.fromkeys(box.rows for box in made):
        first, end = read.window.of(span)
        spans.append((max(first, 0), min(end, rows)))
    # two bands of the reader may need the very same rows, which they then share
    return list(dict.fromkeys(spans))


def renumbered(operator: Operator, index: Mapping[int, int]) -> Operator:
    """The operator over the same tensors under other numbers."""
    return Operator(
        operator.name,
        tuple(index[t] for t in operator.inputs),
        tuple(index[t] for t in operator.outputs),
        operator.parameter_bytes,
        tuple((index[one], index[two]) for one, two in operator.overwrites),
    )


class _Cutting:
    """One cut graph being built."""

    def __init__(self, divisible: DivisibleGraph, cuts: Cuts) -> None:
        self.divisible, self.cuts = divisible, cuts
        self.whole = divisible.whole
        self.settings = divisible.whole.settings
        self.boxes = boxes_of(divisible, cuts)
        self.tensors: list[GraphTensor] = []
        self.contents: list[Content] = []
        self.operators: list[Operator] = []
        self.pieces: list[CutPiece] = []
        self.bands = [[self._band(t, k) for k in range(len(self.boxes[t]))] for t in range(len(self.boxes))]
        self.spans = [
            (list(dict.fromkeys(b.rows for b in own)), list(dict.fromkeys(b.channels for b in own)))
            for own in self.boxes
        ]
        """By tensor the rows and the channels of its bands, of which each row has all channels in turn."""
        self._parameters: dict[Content, int] = {}

    def graph(self, stages: Sequence[int]) -> CutGraph:
        for number in range(len(self.whole.operators)):
            self._cut(number)
        order = _deepest_first(self.operators, self.pieces, stages or [0] * len(self.whole.operators))
        operators, pieces = [self.operators[i] for i in order], tuple(self.pieces[i] for i in order)
        # strides may skip bands of a network's input: what nothing touches never arrives
        touched = sorted({t for own in operators for t in (*own.inputs, *own.outputs)})
        if len(touched) < len(self.tensors):
            index = {tensor: number for number, tensor in enumerate(touched)}
            operators = [renumbered(own, index) for own in operators]
        tensors = tuple(self.tensors[tensor] for tensor in touched)
        contents = tuple(self.contents[tensor] for tensor in touched)
        graph = OperatorGraph(self.whole.name, tuple(operators), tensors, self.settings)
        return CutGraph(self.divisible, graph, contents, pieces)

    def _band(self, tensor: int, number: int) -> int:
        source, boxes = self.whole.tensors[tensor], self.boxes[tensor]
        if boxes == (self.divisible.extents[tensor].whole,):
            self.tensors.append(source)
            self.contents.append(Content(tensor, boxes[0]))
            return len(self.tensors) - 1
        size = self._bytes(tensor, boxes[number])
        return self._tensor(f"{source.name}#{number}", size, Content(tensor, boxes[number]), source.given)

    def _bytes(self, tensor: int, box: Box) -> int:
        return self.settings.bytes_of(self.divisible.extents[tensor].elements * box.parts)

    def _tensor(
        self, name: str, size: int, content: Content, given: bool = False, parameters: bool = False
    ) -> int:
        self.tensors.append(GraphTensor(name, size, self.settings.padded(size), given, parameters))
        self.contents.append(content)
        return len(self.tensors) - 1

    def _cut(self, number: int) -> None:
        """Add the pieces of an operator of the whole graph."""
        operator, division = self.whole.operators[number], self.divisible.divisions[number]
        parts = self._parts(operator, division)
        summing = self._summing(division)
        if not division.cuttable:
            read = [band for tensor in operator.inputs for band in self.bands[tensor]]
            made = [band for tensor in operator.outputs for band in self.bands[tensor]]
            over = self._overwritten(operator, read, made)
            whole = Operator(operator.name, tuple(read), tuple(made), operator.parameter_bytes, over)
            self._add(whole, CutPiece(number))
            return
        # the parameters of a single piece come and go with it, as those of an operator that is not cut
        apart = len(parts) > 1 or summing
        for index, (box, made) in enumerate(parts):
            name = operator.name if len(parts) == 1 else f"{operator.name}#{index}"
            if summing and len(made) == 1:
                self._sums(name, number, box, made[0])
                continue
            read = [band for one in division.reads for band in self._read(number, one, box)]
            read += self._parameters_of(number, box, None) if apart else []
            held = 0 if apart else operator.parameter_bytes
            over = self._overwritten(operator, read, made)
            self._add(Operator(name, tuple(read), tuple(made), held, over), CutPiece(number, box))

    def _add(self, operator: Operator, piece: CutPiece) -> None:
        self.operators.append(operator)
        self.pieces.append(piece)

    def _parts(self, operator: Operator, division: Division) -> list[tuple[Box, list[int]]]:
        """The boxes of the output that are made apart, each with its bands."""
        output = operator.outputs[0] if len(operator.outputs) == 1 else -1
        if output < 0 or not division.cuttable:
            return []
        whole, found = self.divisible.extents[output].whole, dict[Box, list[int]]()
        for band, box in zip(self.bands[output], self.boxes[output], strict=True):
            apart = Box(
                box.rows if division.rows else whole.rows,
                box.channels if division.channels else whole.channels,
            )
            found.setdefault(apart, []).append(band)
        return list(found.items())

    def _summing(self, division: Division) -> bool:
        """Whether the input of an operator that can add up is cut along that axis."""
        if not division.sums:
            return False
        rows, channels = self.spans[division.reads[0].tensor]
        return len(channels if division.sums == "channels" else rows) > 1

    def _read(self, number: int, read: InputRead, made: Box, along: Span | None = None) -> Iterator[int]:
        """The bands of an input from which a box is made, of one step of a sum those ``along`` its axis."""
        needed = self.divisible.needs(number, read, made)
        if needed is None:
            return
        if along is not None:
            needed = needed._replace(**{self.divisible.divisions[number].sums: along})
        rows, channels = self.spans[read.tensor]
        if self.cuts.get(self.whole.tensors[read.tensor].name, UNCUT).recomputed:
            # bands overlap: the one that is made for these rows, and no other
            in_rows = range(rows.index(needed.rows), rows.index(needed.rows) + 1)
        else:
            in_rows = _meeting(rows, needed.rows)
        for row in in_rows:
            if read.window is not None and not read.window.touches(made.rows, rows[row]):
                continue
            for channel in _meeting(channels, needed.channels):
                yield self.bands[read.tensor][row * len(channels) + channel]

    def _sums(self, name: str, number: int, box: Box, made: int) -> None:
        """A chain: each operator adds a band of the input to the sum so far, and may write over that."""
        division = self.divisible.divisions[number]
        read = division.reads[0]
        rows, channels = self.spans[read.tensor]
        spans = channels if division.sums == "channels" else rows
        before: tuple[int, ...] = ()
        output = self.tensors[made]
        for step, span in enumerate(spans):
            last = step == len(spans) - 1
            summed = made
            if not last:
                content = self.contents[made]._replace(summed=span[1])
                summed = self._tensor(f"{output.name}#sum{step}", output.traffic_bytes, content)
            bands = [*self._read(number, read, box, span), *self._parameters_of(number, box, span)]
            over = tuple((source, summed) for source in before)
            operator = Operator(f"{name}#{step}", (*before, *bands), (summed,), 0, over)
            self._add(operator, CutPiece(number, box, span))
            before = (summed,)

    def _parameters_of(self, number: int, made: Box, added: Span | None) -> list[int]:
        """The tensor of the parameters that a piece needs, where the settings have them in the scratchpad."""
        division = self.divisible.divisions[number]
        if not self.settings.parameters:
            return []
        channels = made.channels
        # bias and normalisation come with the first step of a sum
        first = added is None or added[0] == 0
        each = division.others if first else 0
        weights = division.weights
        if added is not None and division.sums == "channels":
            source = self.divisible.extents[division.reads[0].tensor].channels
            weights = weights * (added[1] - added[0]) // source
        elements = (weights + each) * (channels[1] - channels[0]) + (division.loose if first else 0)
        if not elements:
            return []
        summed = added[1] if added is not None and division.sums == "channels" else 0
        content = Content(-1, Box((0, 0), channels), summed, number)
        if content not in self._parameters:
            name = f"{self.whole.operators[number].name}:parameters#{len(self._parameters)}"
            size = self.settings.bytes_of(elements)
            self._parameters[content] = self._tensor(name, size, content, given=True, parameters=True)
        return [self._parameters[content]]

    def _overwritten(
        self, operator: Operator, read: list[int], made: list[int]
    ) -> tuple[tuple[int, int], ...]:
        """The bands of its inputs that a band of an element-wise operator may be written over."""
        if len(made) != 1:
            return ()
        target = made[0]
        sources = {source for source, _ in operator.overwrites}
        return tuple(
            (band, target)
            for band in read
            if self.contents[band].of in sources
            and (self.contents[band].box == self.contents[target].box or self._both_whole(band, target))
            and self.tensors[band].block_bytes == self.tensors[target].block_bytes
        )

    def _both_whole(self, one: int, two: int) -> bool:
        return all(
            self.contents[band].box == self.divisible.extents[self.contents[band].of].whole
            for band in (one, two)
        )


def _meeting(spans: Sequence[Span], needed: Span) -> range:
    """The positions of those of some spans, one behind the other, that have something of the needed one."""
    first = bisect_right(spans, needed[0], key=lambda span: span[1])
    end = bisect_left(spans, needed[1], key=lambda span: span[0])
    return range(first, end)


def _deepest_first(
    operators: Sequence[Operator], pieces: Sequence[CutPiece], stages: Sequence[int]
) -> list[int]:
    """The pieces in an order in which a band goes through as many operators of its stage as it can.

    It is the graph's default order; solvers look for their own.
    """
    made_by = {t: index for index, operator in enumerate(operators) for t in operator.outputs}
    waits = [sum(t in made_by for t in operator.inputs) for operator in operators]
    readers: dict[int, list[int]] = {}
    for index, operator in enumerate(operators):
        for tensor in operator.inputs:
            if tensor in made_by:
                readers.setdefault(tensor, []).append(index)

    def urgency(index: int) -> tuple[int, int, int]:
        return stages[pieces[index].operator], -pieces[index].operator, index

    ready = [(*urgency(index), index) for index, count in enumerate(waits) if not count]
    heapify(ready)
    order = []
    while ready:
        index = heappop(ready)[-1]
        order.append(index)
        for tensor in operators[index].outputs:
            for reader in readers.get(tensor, ()):
                waits[reader] -= 1
                if not waits[reader]:
                    heappush(ready, (*urgency(reader), reader))
    return order
