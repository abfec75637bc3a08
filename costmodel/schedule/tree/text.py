"""RA trees as text, one node a line, indented by a tab for each cut above it.

``T 8/2`` is a T cut of 8 samples into 2 sub-batches; ``conv1 4`` is a leaf, layer conv1 for 4 samples.
``T 8/2x7`` runs each sub-batch in 7 bands of rows. ``conv1 4 C8`` has its input channels cut into 8 parts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from costmodel.errors import InputError
from costmodel.schedule.tree.tree import Cut, CutKind, Leaf, TreeNode

CUT_LINE = re.compile(r"([ST]) (\d+)/(\d+)(?:x(\d+))?")
LEAF_LINE = re.compile(r"(\S.*) (\d+)(?: C(\d+))?")
DEEPEST = 500
"""Deeper trees are refused before recursion fails: a cut of one child changes nothing, so no useful tree of a
network of this many layers is deeper."""


def format_tree(node: TreeNode, depth: int = 0) -> str:
    """The text of a tree, every line ended."""
    tabs = "\t" * depth
    if isinstance(node, Leaf):
        reduced = f" C{node.reduced}" if node.reduced > 1 else ""
        return f"{tabs}{node.layer} {node.batch}{reduced}\n"
    lines = [f"{tabs}{node.name}\n"]
    return "".join(lines + [format_tree(child, depth + 1) for child in node.children])


@dataclass
class _Draft:
    """A line of the text and the lines below its node, while they are read."""

    line: str
    number: int
    children: list[_Draft] = field(default_factory=list)


def parse_tree(text: str, where: str = "RA tree") -> TreeNode:
    """The tree of a text; InputError names the line that is wrong."""
    root: _Draft | None = None
    open_drafts: list[_Draft] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        content = line.lstrip("\t").rstrip()
        depth = len(line) - len(line.lstrip("\t"))
        draft = _Draft(content, number)
        if depth > min(len(open_drafts), DEEPEST) or (root is not None and depth == 0):
            expected = "one root" if depth == 0 else f"at most {min(len(open_drafts), DEEPEST)} tabs"
            raise InputError(f"{where}: line {number}", expected, content if depth == 0 else f"{depth} tabs")
        del open_drafts[depth:]
        if open_drafts:
            open_drafts[-1].children.append(draft)
        else:
            root = draft
        open_drafts.append(draft)
    if root is None:
        raise InputError(where, "a line for the root", "no lines")
    return _node(root, where)


def _node(draft: _Draft, where: str) -> TreeNode:
    """The node of a line with all below it; InputError names the line."""
    line_at = f"{where}: line {draft.number}"
    children = tuple(_node(child, where) for child in draft.children)
    cut, leaf = CUT_LINE.fullmatch(draft.line), LEAF_LINE.fullmatch(draft.line)
    try:
        if cut:
            kind: CutKind = "S" if cut[1] == "S" else "T"
            return Cut(kind, int(cut[2]), int(cut[3]), children, int(cut[4] or 1))
        if leaf and not children:
            return Leaf(leaf[1], int(leaf[2]), int(leaf[3] or 1))
    except InputError as error:
        raise error.at(line_at) from None
    except ValueError:  # thousands of digits
        raise InputError(line_at, "numbers of ordinary length", draft.line) from None
    expected = "a cut such as 'T 8/2'" if children else "a cut such as 'T 8/2' or a leaf such as 'conv1 4'"
    raise InputError(line_at, expected, draft.line)
