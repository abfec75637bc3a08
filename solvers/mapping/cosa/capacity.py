"""What each level keeps, and linear rows that make the tiles of kept tensors fit its words (Eq. 1 and 2)."""

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
"""With the capacity split "auto" the most tensors whose tiles are bounded by their sum, unless the program is
that of costs: more take long to prove."""

TANGENT_PARTS = {1: 1, 2: 4, 3: 8}
"""Number of tensors -> into how many parts their capacity is split for the first tangents; others: 2."""


@dataclass(frozen=True)
class CapacityLimit:
    """The tiles of ``tensors`` at ``level`` together take at most ``words``."""

    level: int
    name: str
    words: int
    tensors: tuple[Tensor, ...]

    def fits(self, tile: dict[str, int]) -> bool:
        """Whether a tile fits, in whole words."""
        return sum(tensor.words(tile) for tensor in self.tensors) <= self.words


def keep_choices(space: MappingSpace, params: Params) -> Iterator[Keep]:
    """What each level keeps: the first ``params.keep_choices`` combinations over the levels.

    The sets that a level may keep are taken in this order: larger ones first, and of equal ones weights
    before outputs before inputs, as for a register of one word that may hold any tensor. Each combination
    has programs of its own; the polish may go on to other combinations.
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
    """The limits that the programs keep: of whole levels, and of the parts that tensors get of them.

    Where tensors get equal parts, these limits imply that of the whole level, which is left out.
    """
    found: list[CapacityLimit] = []
    for whole in _whole_levels(space.architecture, space.layer, keep):
        limits = list(_limits(whole, params.capacity_fractions.get(whole.name, {})))
        even = _splits_evenly(whole, params)
        found += [whole, *limits] if limits or not even else _even_limits(whole)
    return found


def _splits_evenly(whole: CapacityLimit, params: Params) -> bool:
    """Whether each tensor of a level gets the same words."""
    if params.capacity_split != "auto":
        return params.capacity_split == "even"
    # Where three tensors share a buffer, even parts put the one shot of costs several percent above the
    # optimum.
    return params.surrogate != "cost" and len(whole.tensors) > FEW_TENSORS


def misfit(space: MappingSpace, keep: Keep, params: Params) -> str:
    """The part of a level that one word of each of its tensors exceeds, with its numbers; empty if all fit.

    A whole level holds a word of each tensor of ``keep``: sets that it cannot hold are no choices.
    """
    for whole in _whole_levels(space.architecture, space.layer, keep):
        for buffer in _limits(whole, params.capacity_fractions.get(whole.name, {})):
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


def _limits(whole: CapacityLimit, fractions: ReadOnlyDict[Role, float]) -> Iterator[CapacityLimit]:
    for role, fraction in fractions.items():
        tensors = tuple(tensor for tensor in whole.tensors if tensor.role == role)
        if tensors:
            name = f"{whole.name} ({fraction:g} of {whole.words} words for {role})"
            yield replace(whole, name=name, words=int(fraction * whole.words), tensors=tensors)


def _even_limits(whole: CapacityLimit) -> list[CapacityLimit]:
    words = whole.words // len(whole.tensors)
    return [replace(whole, words=words, tensors=(tensor,)) for tensor in whole.tensors]


def respect_capacity(variables: Variables, buffer: CapacityLimit) -> None:
    r"""Add rows to the program so that the tiles of the limit's tensors fit (section III-C, Eq. 1 and 2).

    The paper gives each tensor a fixed part of the buffer, so that one row a tensor is enough. Let x_v be the
    logarithm of tensor v's tile. ``sum(2**x_v) <= words`` is a convex set, so every tangent to its border is
    a linear row that all fitting tiles meet. The tangent where v has the fraction a_v of the words,
    ``sum(a_v) = 1``, is ``sum(a_v * x_v) <= sum(a_v * log2(a_v * words))``. (The rows have half a word more,
    for what is rounded.) Of two tensors::

        x_2 |___  tangent at a = (1/4, 3/4)
            |    \_
            | fits  \
            |_______|____ x_1

    A few tangents let some overfull tiles through; :meth:`CapacityLimit.fits` finds these and
    :func:`cut_off` makes the tangent that excludes each, which the caller adds to the program.
    """
    tiles = [variables.words(tensor, buffer.level) for tensor in buffer.tensors]
    for fractions in _splits(len(tiles)):
        terms = added(*zip(fractions, tiles, strict=True))
        variables.program.require(terms, high=_tangent(fractions, buffer))


def cut_off(variables: Variables, buffer: CapacityLimit, values: Sequence[int], tile: dict[str, int]) -> Row:
    """The tangent in the direction of an overfull ``tile``: it excludes that one and no fitting tile.

    ``values``: what the program's variables, by number, are where the tile is that one.
    """
    words = [tensor.words(tile) for tensor in buffer.tensors]
    fractions = tuple(count / sum(words) for count in words)
    logs = [variables.words(tensor, buffer.level) for tensor in buffer.tensors]
    terms = added(*zip(fractions, logs, strict=True))
    # Rounded logarithms may leave an overfull tile on the line itself; a little below it is excluded.
    return Row(terms, high=min(_tangent(fractions, buffer), value(terms, values) - 1e-5))


def _splits(tensors: int) -> list[tuple[float, ...]]:
    """Where the first tangents touch: the fractions a_v, in equal steps."""
    parts = TANGENT_PARTS.get(tensors, 2)
    counts = product(range(parts + 1), repeat=tensors)
    return [tuple(n / parts for n in split) for split in counts if sum(split) == parts]


def _tangent(fractions: tuple[float, ...], buffer: CapacityLimit) -> float:
    # Half a word above the limit, so that rounded logarithms of whole words stay on the right side of it.
    return sum(a * log2(a * (buffer.words + 0.5)) for a in fractions if a)
