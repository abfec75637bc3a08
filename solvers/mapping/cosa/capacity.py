"""Buffers: what a level keeps, which tensors share its words, and linear rows that make their tiles fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, product
from math import inf, log2, prod

from costmodel.hardware.architecture import Architecture
from costmodel.limits import limit_reached
from costmodel.workload.network import Layer, Role, Tensor
from solvers.mapping.cosa.linear import Row, added, value
from solvers.mapping.cosa.params import Params
from solvers.mapping.cosa.variables import Variables
from solvers.mapping.space.rules import allowed_keeps
from solvers.mapping.space.space import MappingSpace

Keep = tuple[frozenset[str], ...]
"""Per level, the names of the tensors it keeps."""

FEW_TENSORS = 2
"""A sum over more tiles than that is hard to prove: with sharing "auto" each gets an even share instead."""

TANGENT_PARTS = {1: 1, 2: 4, 3: 4}
"""How finely a capacity is split among that many tensors to place the first tangents; more tensors: 2."""


@dataclass(frozen=True)
class CapacityLimit:
    """Tensors that share ``words`` of the storage at ``level``."""

    level: int
    name: str
    words: int
    tensors: tuple[Tensor, ...]

    def fits(self, tile: dict[str, int]) -> bool:
        """Whether a tile fits, in whole words."""
        return sum(tensor.words(tile) for tensor in self.tensors) <= self.words


def keep_choices(space: MappingSpace, params: Params) -> Iterator[Keep]:
    """What each level keeps, for the first ``params.keep_choices`` combinations over the levels.

    A level's choices are those of the space, the largest first, and weights before outputs before inputs: a
    register of one word that can hold any tensor keeps one of them. Each combination has programs of its
    own. The polish goes on to the others.
    """
    everything = frozenset(tensor.name for tensor in space.layer.tensors)
    inner = [
        sorted(allowed_keeps(space.rules, level, space.layer), key=partial(_preference, space.layer))
        for level in space.architecture.levels[:-1]
    ]
    if prod(map(len, inner)) > params.keep_choices:
        effect = "only the first ones have programs, and the polish alone looks at others"
        limit_reached("choices of what levels keep", params.keep_choices, effect)
    yield from islice(product(*inner, [everything]), params.keep_choices)


def _preference(layer: Layer, kept: frozenset[str]) -> tuple[int, list[int]]:
    rank: dict[Role, int] = {"weights": 0, "outputs": 1, "inputs": 2}
    return -len(kept), sorted(rank[layer.tensor(name).role] for name in kept)


def buffers_of(space: MappingSpace, keep: Keep, params: Params) -> list[CapacityLimit]:
    """The buffers whose tiles the programs make fit: whole levels, or the shares of their tensors."""
    found: list[CapacityLimit] = []
    for whole in _whole_levels(space.architecture, space.layer, keep):
        limits = list(_limits(whole, params.shares.get(whole.name, {})))
        even = params.sharing == "even" or (params.sharing == "auto" and len(whole.tensors) > FEW_TENSORS)
        found += [whole, *limits] if limits or not even else _even_shares(whole)
    return found


def misfit(space: MappingSpace, keep: Keep, params: Params) -> str:
    """The first buffer that cannot even hold tiles of one word, with its numbers; empty if there is none."""
    for whole in _whole_levels(space.architecture, space.layer, keep):
        for buffer in (whole, *_limits(whole, params.shares.get(whole.name, {}))):
            if buffer.words < len(buffer.tensors):
                names, needed = ", ".join(t.name for t in buffer.tensors), len(buffer.tensors)
                return (
                    f"{buffer.name}: tiles of one word each of {names} need {needed} words, "
                    f"{buffer.words} are usable"
                )
    return ""


def _whole_levels(architecture: Architecture, layer: Layer, keep: Keep) -> Iterator[CapacityLimit]:
    for index, level in enumerate(architecture.levels):
        tensors = tuple(tensor for tensor in layer.tensors if tensor.name in keep[index])
        if level.usable_words < inf and tensors:
            yield CapacityLimit(index, level.name, int(level.usable_words), tensors)


def _limits(whole: CapacityLimit, shares: ReadOnlyDict[Role, float]) -> Iterator[CapacityLimit]:
    for role, share in shares.items():
        tensors = tuple(tensor for tensor in whole.tensors if tensor.role == role)
        if tensors:
            name = f"{whole.name} (share {share:g} of {whole.words} words for {role})"
            yield replace(whole, name=name, words=int(share * whole.words), tensors=tensors)


def _even_shares(whole: CapacityLimit) -> list[CapacityLimit]:
    words = whole.words // len(whole.tensors)
    return [replace(whole, words=words, tensors=(tensor,)) for tensor in whole.tensors]


def respect_capacity(variables: Variables, buffer: CapacityLimit) -> None:
    """The tiles of a buffer's tensors fit together (paper section III-C, Eq. 1 and 2).

    The paper gives each tensor a fixed share. Without shares sum(2**x_v) <= words, x_v the log of a tile,
    is convex, so each tangent at x_v = log2(a_v * words), sum(a_v) = 1, is a linear row that every
    fitting tile meets: sum(a_v * x_v) <= sum(a_v * log2(a_v * words)). What a finite set of
    tangents lets through is found by :meth:`CapacityLimit.fits` and cut off by :func:`cut_off`.
    """
    tiles = [variables.words(tensor, buffer.level) for tensor in buffer.tensors]
    for share in _splits(len(tiles)):
        terms = added(*zip(share, tiles, strict=True))
        variables.program.require(terms, high=_tangent(share, buffer))


def cut_off(variables: Variables, buffer: CapacityLimit, values: Sequence[int], tile: dict[str, int]) -> Row:
    """The tangent at the overfull ``tile`` of ``values``: every fitting tile is below it, that one is not."""
    words = [tensor.words(tile) for tensor in buffer.tensors]
    share = tuple(count / sum(words) for count in words)
    logs = [variables.words(tensor, buffer.level) for tensor in buffer.tensors]
    terms = added(*zip(share, logs, strict=True))
    # Rounded logarithms may put an overfull tile on the line: one step of the rounding below it is enough.
    return Row(terms, high=min(_tangent(share, buffer), value(terms, values) - 1e-5))


def _splits(tensors: int) -> list[tuple[float, ...]]:
    parts = TANGENT_PARTS.get(tensors, 2)
    counts = product(range(parts + 1), repeat=tensors)
    return [tuple(n / parts for n in split) for split in counts if sum(split) == parts]


def _tangent(share: tuple[float, ...], buffer: CapacityLimit) -> float:
    # Half a word above the limit: between what fits and what does not, safe against rounded logarithms.
    return sum(a * log2(a * (buffer.words + 0.5)) for a in share if a)
