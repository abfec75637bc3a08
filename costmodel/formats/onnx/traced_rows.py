"""Tensors whose length is that of the example which a file was traced with, though it depends on data.

A loop over experts sorts the tokens by expert, cuts the sorted rows where one expert's end, and multiplies
each piece with that expert's weights. How many tokens an expert gets depends on the tokens. Tracing runs the
loop on an example and writes down as constants where it cut: the file then has pieces of fixed, unequal
lengths, which hold for no other input. Nobody may count MACs by them, so each such tensor is found and said
why.

Names of tensors are followed from node to node in the file's order, which is one in which they can run:
searches make *positions* (numbers of rows), gathering by positions makes *picked* rows, and cutting picked
rows at constants makes *pieces*.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import onnx

from costmodel.formats.onnx.constants import Constants
from costmodel.formats.onnx.inference import Inferred

_SEARCHES = frozenset({"ArgMax", "ArgMin", "NonZero", "TopK", "Unique"})
"""Operators that make positions out of values."""
_SAME_ROWS = frozenset({"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
"""Operators behind which picked rows are still picked rows."""
_ON_POSITIONS = _SAME_ROWS | frozenset(
    {
        "Add",
        "Ceil",
        "Concat",
        "Div",
        "Expand",
        "Floor",
        "Gather",
        "Mod",
        "Mul",
        "Slice",
        "Sub",
        "Tile",
        "Where",
    }
)
"""Operators that make positions out of positions."""
_GATHERED = frozenset({"Concat", "ReduceMean", "ReduceSum", "ScatterElements", "ScatterND", "Shape", "Size"})
"""Operators behind which the pieces are one tensor again, whose length no longer depends on data."""


def traced_rows(nodes: Iterable[onnx.NodeProto], found: Inferred) -> dict[str, str]:
    """For each tensor whose number of rows is that of a traced example, a sentence that says why.

    These are pieces that are cut at constants out of rows which were picked by values, if the pieces are of
    unequal length, or if they do not make up the whole: then the file is read at another length than it was
    traced with. So are tensors computed of such a piece, until the pieces are put together. Pieces of equal
    length that make up the whole are taken for a split that the network means.
    """
    nodes = list(nodes)
    pieces = _pieces(nodes, found)
    why: dict[str, str] = {}
    # a cut is (node, piece, rows of the piece, rows of what it is cut from)
    for picker, cuts in pieces.items():
        lengths = [length for _, _, length, _ in cuts]
        whole = {length for _, _, _, length in cuts}
        if len(cuts) > 1 and (len(set(lengths)) > 1 or whole != {sum(lengths)}):
            why |= {made: _sentence(picker, cut) for cut, made, _, _ in cuts}
    for node in nodes if why else ():
        reason = next((why[name] for name in node.input if name in why), "")
        if reason and node.op_type not in _GATHERED:
            why |= {name: why.get(name, reason) for name in node.output if name}
    return why


def _sentence(picker: str, cut: str) -> str:
    return (
        f"how many rows it has depends on data: node {cut} cuts what node {picker} picks by values, at a "
        "position that only the traced example has"
    )


def _pieces(nodes: list[onnx.NodeProto], found: Inferred) -> dict[str, set[tuple[str, str, int, int]]]:
    """By the node that picked rows, the pieces cut of them: (cutting node, piece, its rows, all rows)."""
    positions: set[str] = set()
    picked: dict[str, str] = {}
    pieces: dict[str, set[tuple[str, str, int, int]]] = defaultdict(set)
    for node in nodes:
        read, label = list(node.input), node.name or node.output[0]
        if node.op_type in _SEARCHES:
            # TopK's first output has the values that it found, not where
            positions.update(node.output[1:] if node.op_type == "TopK" else node.output)
        elif node.op_type in ("Gather", "GatherElements", "GatherND") and read[1] in positions:
            picked |= dict.fromkeys(node.output, label)
            if read[0] in positions:  # positions by positions, as of sorted ones, are positions still
                positions.update(node.output)
        elif node.op_type in _ON_POSITIONS and positions.intersection(read):
            positions.update(node.output)
        elif node.op_type in _SAME_ROWS and read[0] in picked:
            picked |= dict.fromkeys(node.output, picked[read[0]])
        elif node.op_type in ("Slice", "Split") and read[0] in picked and _constant(node, found.constants):
            pieces[picked[read[0]]] |= _cut(node, label, found)
    return pieces


def _constant(node: onnx.NodeProto, constants: Constants) -> bool:
    return all(name in constants for name in node.input[1:] if name)


def _cut(node: onnx.NodeProto, label: str, found: Inferred) -> set[tuple[str, str, int, int]]:
    """The pieces along the rows, the first axis; a cut along another axis leaves the rows as they are."""
    whole = found.shapes.get(node.input[0], ())
    made = {name: found.shapes.get(name, ()) for name in node.output if name}
    return {
        (label, name, shape[0], whole[0])
        for name, shape in made.items()
        if whole and shape and shape[0] != whole[0] and shape[1:] == whole[1:]
    }
