"""Does a cut graph compute what the whole graph does? Looked at row by row, by code that did not cut it.

From the facts of each operator (:class:`.Division`) it follows which rows of which channels a row of its
output needs. Every piece must read all of these, from bands that hold them; every band must have its bytes;
the bands of a tensor must hold all of it, and none of it twice unless it is recomputed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from costmodel.scratchpad.cut import Content, CutGraph, CutPiece, Cuts, TensorCut
from costmodel.scratchpad.divisions import Box, Division, InputRead, Span


def cut_violations(cut: CutGraph, cuts: Cuts) -> list[str]:
    """Why the graph is no cut of its whole graph with these ``cuts``; empty when it is one."""
    found = [*_wrong_bands(cut, cuts)]
    made: dict[int, set[Box | None]] = {}
    for number, piece in enumerate(cut.pieces):
        name = cut.graph.operators[number].name
        found += [f"{name}: {reason}" for reason in _wrong_piece(cut, number, piece)]
        made.setdefault(piece.operator, set()).add(piece.made)
    missing = set(range(len(cut.divisible.divisions))) - set(made)
    return found + [
        f"{cut.divisible.whole.operators[number].name}: has no piece" for number in sorted(missing)
    ]


def _wrong_bands(cut: CutGraph, cuts: Cuts) -> Iterator[str]:
    """Bands of other sizes than their elements', and tensors of which a row is missing or twice there."""
    whole, settings = cut.divisible.whole, cut.graph.settings
    boxes: dict[int, list[Box]] = {}
    steps: dict[int, set[int]] = {}
    for piece in cut.pieces:
        if piece.added is not None:
            steps.setdefault(piece.operator, set()).add(piece.added[1])
    for tensor, content in zip(cut.graph.tensors, cut.contents, strict=True):
        elements = _elements(cut, content, steps.get(content.operator, set()))
        size = -(-elements * settings.bits_per_element // 8)
        block = -(-size // settings.alignment_bytes) * settings.alignment_bytes
        if (tensor.traffic_bytes, tensor.block_bytes) != (size, block):
            yield f"{tensor.name}: {tensor.traffic_bytes} bytes of {elements} elements"
        parameters = content.of < 0
        if tensor.given != (parameters or (whole.tensors[content.of].given and not content.summed)):
            yield f"{tensor.name}: arrives without being an input, or does not arrive"
        if tensor.parameters != parameters:
            yield f"{tensor.name}: is no parameter, or one that is not marked"
        if not parameters and not content.summed:
            boxes.setdefault(content.of, []).append(content.box)
    for number, tensor in enumerate(whole.tensors):
        extent, own = cut.divisible.extents[number], boxes.get(number, [])
        if any(box.rows[0] >= box.rows[1] or box.channels[0] >= box.channels[1] for box in own):
            yield f"{tensor.name}: an empty band"
        if cuts.get(tensor.name, TensorCut()).recomputed:
            continue
        held = sum(box.parts for box in own)
        if tensor.given:
            # bands that strides skip do not arrive; the pieces are asked below for all that they need
            right = held <= extent.rows * extent.channels and _apart(own)
        else:
            right = held == extent.rows * extent.channels
            right &= _held(own, (0, extent.rows), (0, extent.channels))
        if not right:
            yield f"{tensor.name}: its bands are not the tensor"


def _elements(cut: CutGraph, content: Content, steps: set[int]) -> int:
    """Elements of what a tensor holds; ``steps``: where the steps of its operator's sums end."""
    box = content.box
    if content.of >= 0:
        rows, channels = box.rows[1] - box.rows[0], box.channels[1] - box.channels[0]
        return cut.divisible.extents[content.of].elements * rows * channels
    division = cut.divisible.divisions[content.operator]
    outputs = box.channels[1] - box.channels[0]
    if not content.summed:
        return (division.weights + division.others) * outputs + division.loose
    # the input's channels of this step: from the end of the step before
    begin = max((end for end in steps if end < content.summed), default=0)
    source = cut.divisible.extents[division.reads[0].tensor].channels
    own = division.weights * (content.summed - begin) * outputs // source
    return own + (0 if begin else division.others * outputs + division.loose)


def _wrong_piece(cut: CutGraph, number: int, piece: CutPiece) -> Iterator[str]:
    divisible, operator = cut.divisible, cut.graph.operators[number]
    whole, division = divisible.whole.operators[piece.operator], divisible.divisions[piece.operator]
    read = [cut.contents[tensor] for tensor in operator.inputs]
    made = [cut.contents[tensor] for tensor in operator.outputs]
    if piece.made is None:
        if operator.parameter_bytes != whole.parameter_bytes:
            yield f"{operator.parameter_bytes} bytes of parameters"
        for tensors, there in ((whole.inputs, read), (whole.outputs, made)):
            for tensor in tensors:
                extent = divisible.extents[tensor]
                boxes = [content.box for content in there if content.of == tensor and not content.summed]
                if not _held(boxes, (0, extent.rows), (0, extent.channels)):
                    yield f"not all of {divisible.whole.tensors[tensor].name}"
        return
    (output,) = whole.outputs
    extent = divisible.extents[output]
    if (piece.made.rows != (0, extent.rows) and not division.rows) or (
        piece.made.channels != (0, extent.channels) and not division.channels
    ):
        yield "cannot be cut so"
    last = divisible.extents[division.reads[0].tensor]
    end = 0 if piece.added is None else piece.added[1]
    done = end == (last.channels if division.sums == "channels" else last.rows)
    if [c.of for c in made] != [output] * len(made) or not _is(made, piece.made):
        yield "makes something else than it says"
    if any(content.summed != (end if piece.added and not done else 0) for content in made):
        yield "a sum that is not finished, or finished too early"
    before = [content for content in read if content.of == output and content.summed]
    if piece.added and piece.added[0] > 0:
        if [(c.box, c.summed) for c in before] != [(piece.made, piece.added[0])]:
            yield "does not go on with the sum so far"
    elif before:
        yield "reads a sum that it does not need"
    for one in division.reads:
        boxes = [c.box for c in read if c.of == one.tensor and not c.summed]
        for rows, channels in _needed(cut, piece, division, one, output):
            if not _held(boxes, rows, channels):
                name = divisible.whole.tensors[one.tensor].name
                yield f"rows {rows} of channels {channels} of {name} missing"
                break
    if operator.parameter_bytes:
        alone = sum(other.operator == piece.operator for other in cut.pieces) == 1
        if operator.parameter_bytes != whole.parameter_bytes or not alone or any(c.of < 0 for c in read):
            yield "parameters that are not those of the whole operator"
    else:
        yield from _wrong_parameters(cut, piece, division, read)


def _wrong_parameters(
    cut: CutGraph, piece: CutPiece, division: Division, read: list[Content]
) -> Iterator[str]:
    own = [content for content in read if content.of < 0]
    assert piece.made is not None
    channel_sum = piece.added if division.sums == "channels" else None
    later = piece.added is not None and piece.added[0] > 0
    weighs = division.weights and not (later and division.sums == "rows")
    needs = weighs or (not later and (division.others or division.loose))
    if not cut.graph.settings.parameters or not needs:
        if own:
            yield "reads parameters that it does not need"
        return
    wanted = (piece.operator, piece.made.channels, channel_sum[1] if channel_sum else 0)
    if [(c.operator, c.box.channels, c.summed) for c in own] != [wanted]:
        yield "reads other parameters than its own"


def _needed(
    cut: CutGraph, piece: CutPiece, division: Division, read: InputRead, output: int
) -> Iterator[tuple[Span, Span]]:
    """Single rows and their channels of an input, by the definition of each output row and channel."""
    source, made = cut.divisible.extents[read.tensor], cut.divisible.extents[output]
    box = piece.made
    assert box is not None
    if read.window is None:
        rows = set(range(source.rows))
    else:
        w = read.window
        rows = {
            row * w.stride - w.before + tap * w.dilation for row in range(*box.rows) for tap in range(w.size)
        } & set(range(source.rows))
    if read.joined_at is not None:
        channels = {channel - read.joined_at for channel in range(*box.channels)}
    else:
        width = source.channels // read.groups
        groups = {channel * read.groups // made.channels for channel in range(*box.channels)}
        channels = {group * width + member for group in groups for member in range(width)}
    channels &= set(range(source.channels))
    if piece.added is not None and division.sums == "rows":
        rows &= set(range(*piece.added))
    if piece.added is not None and division.sums == "channels":
        channels &= set(range(*piece.added))
    if channels:
        for row in sorted(rows):
            yield (row, row + 1), (min(channels), max(channels) + 1)


def _held(boxes: Iterable[Box], rows: Span, channels: Span) -> bool:
    """Whether the boxes together hold all of these rows of these channels."""
    own = list(boxes)
    for row in range(*rows):
        reached = channels[0]
        for first, end in sorted(box.channels for box in own if box.rows[0] <= row < box.rows[1]):
            if first <= reached:
                reached = max(reached, end)
        if reached < channels[1]:
            return False
    return True


def _apart(boxes: list[Box]) -> bool:
    """Whether no row of a channel is in two of the boxes."""
    for number, box in enumerate(boxes):
        for other in boxes[:number]:
            rows = max(box.rows[0], other.rows[0]) < min(box.rows[1], other.rows[1])
            if rows and max(box.channels[0], other.channels[0]) < min(box.channels[1], other.channels[1]):
                return False
    return True


def _is(made: list[Content], box: Box) -> bool:
    """Whether what is made is the box, no more and no less."""
    inside = all(
        box.rows[0] <= c.box.rows[0]
        and c.box.rows[1] <= box.rows[1]
        and box.channels[0] <= c.box.channels[0]
        and c.box.channels[1] <= box.channels[1]
        for c in made
    )
    return inside and _held([c.box for c in made], box.rows, box.channels)
