"""How a chain of einsums runs: the loops that neighbours share, where intermediates stay, each own nest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass, field, replace
from typing import Self

from costmodel.mapping.fused.pipeline import Pipeline

SharedLoop = tuple[str, int]
"""A loop by its dim and its step: the extent of the dim that one iteration leaves."""

Loops = tuple[SharedLoop, ...]
"""Loops, outermost first."""

MadeAnew = tuple[str, str]
"""A layer, and a loop over windows in whose iterations it makes all rows anew, by their names."""


@dataclass(frozen=True)
class FusedMapping:
    """A tree of loops over a chain of einsums.

    Two products Y = X A and Z = Y B can share the loop over the rows m of Y. An iteration leaves 16 rows::

        for m by 16                  prefix (1,), paths ((("m", 16),), (("m", 16),))
            keep 16 rows of Y        backing {"Y": 0}
            own loops of Y = X A     own[0]
            own loops of Z = Y B     own[1]

    ``prefix``: for every two neighbours, how many of their outermost loops they share.

    ``paths``: for every einsum its shared loops; two neighbours have the same first ``prefix`` ones. Below
    the last loop that they share, einsums run one after the other: that point is called a *split*.

    ``backing``: for intermediates that stay on the chip, the level that keeps them, directly above the split
    of their pair. Any other intermediate is written to the outermost memory and read there.

    ``own``: for every einsum a list of loops (dim, step) for each level, outermost first. List b stands above
    the tiles of level ``len(levels) - 2 - b``, the last list inside level 0. No tensor bypasses a level: it
    has a tile at every level inside the one that it is taken from.

    ``hoist``: by einsum and tensor, the shared loop (0 is the outermost one) above which a tile of the tensor
    is kept in the outermost level of the chip while all that share this loop run. Other tiles stand below all
    shared loops.

    ``recompute``: pairs of a layer's name and a loop over windows. The layer makes the rows (or columns) of
    every iteration of this loop anew, those that earlier iterations made already among them. Others leave
    what windows have in common in a line buffer. Only layers on an architecture can; see
    :mod:`costmodel.mapping.fused.layers.sliding`.

    ``pipelines``: layers that run at the same time on parts of the array, in the order of the layers. All
    others run one after the other on all of it. Only layers on an architecture can; see
    :mod:`costmodel.mapping.fused.layers.pipelines`.
    """

    prefix: tuple[int, ...]
    paths: tuple[Loops, ...]
    own: tuple[tuple[Loops, ...], ...]
    backing: ReadOnlyDict[str, int] = field(default_factory=dict)
    hoist: ReadOnlyDict[str, ReadOnlyDict[str, int]] = field(default_factory=dict)
    recompute: frozenset[MadeAnew] = frozenset()
    pipelines: tuple[Pipeline, ...] = ()

    def sharing(self, einsum: int, loops: int) -> range:
        """The einsums that share at least the ``loops`` outermost loops of this one, itself included."""
        first = last = einsum
        while first > 0 and self.prefix[first - 1] >= loops:
            first -= 1
        while last < len(self.prefix) and self.prefix[last] >= loops:
            last += 1
        return range(first, last + 1)

    def last_below(self, einsum: int, depth: int) -> int:
        """The last einsum below loop ``depth`` of this one."""
        return self.sharing(einsum, depth + 1).stop - 1

    def emptied_below(self, einsum: int, depth: int) -> int:
        """How many loops refill a tile that stands above this einsum's shared loop ``depth``.

        A tile is thrown away whenever the branch that it stands in ends and another one runs. So it is filled
        anew in every iteration of the loops above the innermost split that it stands below: their number is
        the result. 0: it stands above all splits, and only loops that move it bring words.
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

    def taken_by_others(self, hoists: Sequence[Iterable[tuple[int, int]]]) -> list[int]:
        """The words that tiles hoisted for others take while each einsum runs.

        ``hoists``: for every einsum its tiles, each as the shared loop above which it stands, and its words.
        """
        taken = [0] * len(self.paths)
        for einsum, tiles in enumerate(hoists):
            for depth, words in tiles:
                for other in self.sharing(einsum, depth + 1):
                    if other != einsum:  # its own tiles are counted in its own footprint
                        taken[other] += words
        return taken

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self:
        """The mappings of successive parts of a chain, with no shared loop between them, as one."""
        prefix: list[int] = []
        paths: list[Loops] = []
        own: list[tuple[Loops, ...]] = []
        backing: dict[str, int] = {}
        hoist: dict[str, ReadOnlyDict[str, int]] = {}
        recompute: frozenset[MadeAnew] = frozenset()
        pipelines: list[Pipeline] = []
        for part in parts:
            pipelines += [replace(one, first=len(paths) + one.first) for one in part.pipelines]
            prefix += [*([0] if paths else []), *part.prefix]
            paths += part.paths
            own += part.own
            backing |= part.backing
            hoist |= part.hoist
            recompute |= part.recompute
        return cls(tuple(prefix), tuple(paths), tuple(own), backing, hoist, recompute, tuple(pipelines))

    def wrong_length(self, einsums: int, own: int) -> str:
        """The list that is not as long as so many einsums need, ``own`` of them with own loops; or empty."""
        for name, found, expected in (
            ("prefix", self.prefix, einsums - 1),
            ("paths", self.paths, einsums),
            ("own", self.own, own),
        ):
            if len(found) != expected:
                return f"{name} has {len(found)} entries, {expected} are needed"
        return ""

    def sharing_violations(self, names: Sequence[str]) -> Iterator[str]:
        """Where neighbours disagree on the loops that they share, or a path has loops that nobody shares.

        ``names`` are those of the einsums; the lists have the right lengths.
        """
        for pair, shared in enumerate(self.prefix):
            both = f"{names[pair]} and {names[pair + 1]}"
            ours, theirs = self.paths[pair], self.paths[pair + 1]
            if not 0 <= shared <= min(len(ours), len(theirs)):
                yield f"{both} share {shared} loops, their paths have {len(ours)} and {len(theirs)}"
            elif ours[:shared] != theirs[:shared]:
                yield f"{both} share {shared} loops, but their paths differ within them"
        reach = (0, *self.prefix, 0)
        for position, name in enumerate(names):
            most, has = max(reach[position], reach[position + 1]), len(self.paths[position])
            if has > most:
                yield f"the path of {name} has {has} loops, it shares {most} with a neighbour"


@dataclass(frozen=True)
class KeptTile:
    """``words`` of a tensor that a level keeps while the einsums ``during`` run, above shared loop ``above``.

    ``position``: the number of the einsum that makes the tensor, or for which the tile is hoisted.
    ``copies``: how many of the tile are there at once, in a pipeline whose stages are at different
    iterations; ``words`` are those of all.
    """

    position: int
    tensor: str
    level: int
    words: int
    above: int
    during: range
    hoisted: bool
    copies: int = 1


def kept_words(tiles: Iterable[KeptTile], levels: int, position: int) -> list[int]:
    """Words that kept tiles take of each of so many levels while one einsum runs, innermost first."""
    row = [0] * levels
    for tile in tiles:
        if position in tile.during:
            row[tile.level] += tile.words
    return row
