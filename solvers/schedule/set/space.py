"""The spaces of RA trees: all of SET's section 3.1, and the narrower ones that its released code searches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from costmodel.errors import InputError, did_you_mean
from costmodel.schedule.tree.data_flow import Producers
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode, depth, has_bands, has_reductions
from costmodel.schedule.tree.validity import violations
from solvers.checks import check_counts

SpaceName = Literal["paper", "released", "layer_sequential", "layer_pipeline"]
SPACES: dict[SpaceName, str] = {
    "paper": "every valid RA tree, also with an S cut as its root, T cuts directly below T cuts, and "
    "sub-batches of any size",
    "released": "what the released code reaches: a root T cut, S and T cuts in turns below its children, "
    "numbers of sub-batches that are powers of two",
    "layer_sequential": "a root T cut whose children are layers and T cuts of layers (section 3.4)",
    "layer_pipeline": "a root T cut whose children are layers and S cuts of layers (section 3.4)",
}


@dataclass(frozen=True)
class TreeSpace:
    """The trees that run ``batch`` samples of a network on ``tiles`` tiles and keep the rule of one space.

    ``producers``: for each layer of the network the layers whose outputs it reads. ``name``: whose rule in
    SPACES. ``deepest``: the most cuts above a leaf; 0: no limit. ``bands``: the most bands of rows of
    a segment; 1: there are none, as in SET.
    """

    producers: Producers
    batch: int
    tiles: int
    name: SpaceName = "paper"
    deepest: int = 0
    bands: int = 1

    def __post_init__(self) -> None:
        if self.name not in SPACES:
            expected = f"one of {', '.join(SPACES)}"
            raise InputError("RA trees", expected, self.name, did_you_mean(self.name, SPACES), key="space")
        check_counts("RA trees", self, {"batch": 1, "tiles": 1, "deepest": 0, "bands": 1})

    def violations(self, tree: TreeNode) -> list[str]:
        """Why ``tree`` is not in this space: invalid, too deep or against the rule; empty if it is in it."""
        reasons = violations(tree, self.producers, self.batch, self.tiles)
        if self.deepest and depth(tree) > self.deepest:
            reasons.append(f"cuts are {depth(tree)} deep, at most {self.deepest} are allowed")
        if self.bands == 1 and has_bands(tree):
            reasons.append("cuts with bands are in none of these spaces")
        elif (most := most_bands(tree)) > self.bands:
            reasons.append(f"a cut has {most} bands, at most {self.bands} are allowed")
        if has_reductions(tree):
            reasons.append("leaves whose input channels are cut are in none of these spaces")
        if self.name != "paper":
            reasons += self._rule_violations(tree)
        return reasons

    def _rule_violations(self, tree: TreeNode) -> list[str]:
        """What is against the rule of a space other than the paper's, as SPACES states it."""
        if isinstance(tree, Leaf) or tree.kind != "T":
            return ["the root is not a T cut"]
        reasons = _single_children(tree)
        if self.name == "released":
            for child in tree.children:
                reasons += _not_alternating(child)
            return reasons + _not_powers(tree)
        kind = "T" if self.name == "layer_sequential" else "S"
        for child in tree.children:
            if isinstance(child, Cut) and child.kind != kind:
                reasons.append(f"{_name(child)} below the root is not a {kind} cut")
            if depth(child) > 1:
                reasons.append(f"{_name(child)} below the root has cuts below it")
        return reasons


def most_bands(node: TreeNode) -> int:
    """The most bands of any cut of a tree."""
    return 1 if isinstance(node, Leaf) else max(node.bands, *map(most_bands, node.children))


def _single_children(node: TreeNode) -> list[str]:
    """The cuts of one child: valid trees may have them, but the searches never make any."""
    if isinstance(node, Leaf):
        return []
    own = [f"{_name(node)} has one child"] if len(node.children) == 1 else []
    return own + [reason for child in node.children for reason in _single_children(child)]


def _not_alternating(node: TreeNode) -> list[str]:
    """The cuts below ``node`` that are of the same kind as their parent."""
    if isinstance(node, Leaf):
        return []
    own = [
        f"{_name(child)} is below another {node.kind} cut"
        for child in node.children
        if isinstance(child, Cut) and child.kind == node.kind
    ]
    return own + [reason for child in node.children for reason in _not_alternating(child)]


def _not_powers(node: TreeNode) -> list[str]:
    """The cuts of which the number of sub-batches is no power of two."""
    if isinstance(node, Leaf):
        return []
    own = [] if node.subbatches.bit_count() == 1 else [f"{_name(node)}: sub-batches are no power of two"]
    return own + [reason for child in node.children for reason in _not_powers(child)]


def _name(node: TreeNode) -> str:
    return f"{node.kind} cut {node.batch}/{node.subbatches}" if isinstance(node, Cut) else node.layer
