"""Reuse patterns: classes of loop orders of one level, in place of the paper's binaries for loop ranks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

from costmodel.mapping.mapping import Loop
from costmodel.workload.network import Layer


@dataclass(frozen=True)
class Pattern:
    """A class of loop orders of one level that all save the same transfers.

    ``stationary`` are tensor names, the longest-staying first. ``free`` has for each tensor, by its name, the
    dims whose loops cause no transfer of it, because they stand innermost and the tensor does not have them.
    """

    stationary: tuple[str, ...]
    free: tuple[tuple[str, frozenset[str]], ...]

    def free_dims(self, tensor: str) -> frozenset[str]:
        """The dims whose loops cause no transfer of the tensor."""
        return dict(self.free)[tensor]

    def ordered(self, loops: tuple[Loop, ...]) -> tuple[Loop, ...]:
        """``loops`` in an order of this class, innermost first; ties keep the order they came in."""

        def depth(loop: Loop) -> int:
            return -sum(loop[0] in dims for _, dims in self.free)

        return tuple(sorted(loops, key=depth))


def reuse_patterns(layer: Layer) -> tuple[Pattern, ...]:
    """The patterns that no other pattern dominates, for the dims of ``layer`` that are larger than 1.

    The innermost loops of a level alone decide which tensors stay where they are: an order saves tensor v the
    transfers over dim d if d and all loops inside it are irrelevant to v. (Eq. 9 and 10 say so with a binary
    Y for every rank.) Take any list of tensors v1, v2, ... by priority. The order that puts the dims
    irrelevant to v1 ... vk inside those irrelevant to v1 ... v(k - 1) only saves v1 the most, then v2 the
    most of what is left, and so on. So the orders of all such lists include a best one for every program.
    """
    names = [tensor.name for tensor in layer.tensors]
    dims = frozenset(dim for dim, size in layer.dims if size > 1)
    irrelevant = {tensor.name: dims - tensor.dims for tensor in layer.tensors}
    patterns = [_pattern(order, names, irrelevant) for order in permutations(names)]
    distinct = {pattern.free: pattern for pattern in reversed(patterns)}
    kept = [p for p in distinct.values() if not any(_dominates(q, p) for q in distinct.values())]
    return tuple(sorted(kept, key=patterns.index))


def _pattern(order: tuple[str, ...], names: list[str], irrelevant: dict[str, frozenset[str]]) -> Pattern:
    free: dict[str, frozenset[str]] = {}
    inner = frozenset[str]().union(*irrelevant.values())
    for name in order:
        inner &= irrelevant[name]
        free[name] = inner
    return Pattern(
        tuple(name for name in order if free[name]), tuple((name, free[name]) for name in sorted(names))
    )


def _dominates(better: Pattern, worse: Pattern) -> bool:
    """Whether ``better`` saves every tensor at least the dims that ``worse`` does, and some tensor more."""
    pairs = list(zip(better.free, worse.free, strict=True))
    return better.free != worse.free and all(more >= less for (_, more), (_, less) in pairs)
