"""How a chain of einsums runs: the loops that neighbours share, where intermediates stay, each own nest."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass, field

SharedLoop = tuple[str, int]
"""A loop by its dim and its step: the extent of the dim that one iteration leaves."""

Loops = tuple[SharedLoop, ...]
"""Loops, outermost first."""


@dataclass(frozen=True)
class FusedMapping:
    """A tree of loops over a chain of einsums.

    ``prefix``: of every two neighbours, how many of their outermost loops are the same loops.
    ``paths``: of every einsum its shared loops; those of two neighbours agree in the first ``prefix`` ones.
    Below its last shared loop einsums run one after the other, which is called a *split*.
    ``backing``: of intermediates that stay on the chip, the level that keeps them, directly above the split
    of their pair. Any other intermediate is written to the outermost memory and read there.
    ``own``: of every einsum a list of loops for each level, outermost first. List b stands above the tiles of
    level ``len(levels) - 2 - b``, the last list inside level 0.
    ``hoist``: by einsum and tensor the shared loop above which the tile of the outermost level of the chip is
    kept, while all that share this loop run. Other tiles stand below all shared loops.
    """

    prefix: tuple[int, ...]
    paths: tuple[Loops, ...]
    own: tuple[tuple[Loops, ...], ...]
    backing: ReadOnlyDict[str, int] = field(default_factory=dict)
    hoist: ReadOnlyDict[str, ReadOnlyDict[str, int]] = field(default_factory=dict)

    def sharing(self, einsum: int, loops: int) -> range:
        """The einsums that share at least the ``loops`` outermost loops of this one, itself included."""
        first = last = einsum
        while first > 0 and self.prefix[first - 1] >= loops:
            first -= 1
        while last < len(self.prefix) and self.prefix[last] >= loops:
            last += 1
        return range(first, last + 1)

    def emptied_below(self, einsum: int, depth: int) -> int:
        """How many loops stand above the innermost split whose branch has the place above loop ``depth``.

        Each of their iterations leaves the branch, and with it every tile inside. 0: nothing empties the
        place.
        """
        splits = (
            above
            for above in range(depth, 0, -1)
            if self.sharing(einsum, above + 1) != self.sharing(einsum, above)
        )
        return next(splits, 0)

    def hoisted(self, einsum_name: str) -> ReadOnlyDict[str, int]:
        """The hoisted tensors of an einsum, each with its shared loop."""
        return self.hoist.get(einsum_name, {})
