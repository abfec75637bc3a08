"""Every fused mapping of a small group, one by one: what the solver's answers are held against.

Shares the cost model with the solver, and nothing of the search: trees are all lists of loops that the
checker has no reason against, nests are all splits of all dims in all orders.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import combinations, pairwise, permutations, product

from costmodel.mapping.fused.layers.checker import tree_violations
from costmodel.mapping.fused.layers.evaluate import kind_cost, layer_cost
from costmodel.mapping.fused.layers.group import LayerGroup
from costmodel.mapping.fused.layers.turns import LayerTurns, TurnKind, held_tiles, turns_of
from costmodel.mapping.fused.mapping import FusedMapping, Loops, kept_words
from costmodel.mapping.mapping import LevelMapping, Mapping, loops
from costmodel.workload.network import Layer
from solvers.divisors import divisors

Cost = tuple[float, float]
TurnCost = tuple[tuple[float, ...], Mapping]
"""What a turn costs, in every respect that counts, and its nest."""


def least(group: LayerGroup, objective: str, *, recompute: bool = False) -> float | None:
    """The least objective of all fused mappings; None where nothing fits.

    ``recompute``: of those, too, in which layers make rows of windows anew.
    """
    trees = (some for shared in _trees(group) for some in (_anew(group, shared) if recompute else [shared]))
    totals = (total for shared in trees if legal(group, shared) for total in _totals(group, shared))
    values = ({"energy": pj, "cycles": cycles, "edp": pj * cycles}[objective] for pj, cycles in totals)
    return min(values, default=None)


def _trees(group: LayerGroup) -> Iterator[FusedMapping]:
    """Shared loops, backing levels and hoisted tiles of the solver's space, all layers a run if they can."""
    names = sorted({name for one in group.loops for name in one.values()})
    sizes = group.loop_sizes
    lists: list[Loops] = []
    for count in range(3):
        for order in permutations([name for name in names if sizes[name] > 1], count):
            steps = product(*(divisors(sizes[name])[:-1] for name in order))
            lists += [tuple(zip(order, chosen, strict=True)) for chosen in steps]
    for chosen in product(lists, repeat=len(group.layers) - 1):
        if any(a[: len(b)] != b and b[: len(a)] != a for a, b in pairwise(chosen)):
            continue
        around = ((), *chosen, ())
        paths = tuple(max(one, other, key=len) for one, other in pairwise(around))
        bare = FusedMapping(tuple(map(len, chosen)), paths, ())
        if tree_violations(group, bare):
            continue
        makers = [group.layers[one.producer].name for one in group.intermediates]
        for backing in _some(makers, [None, *group.holding]):
            # neighbours that share loops keep what passes between them on the chip
            if any(path and name not in backing for path, name in zip(chosen, makers, strict=True)):
                continue
            for hoist in _hoists(group, paths):
                yield FusedMapping(bare.prefix, bare.paths, (), backing, hoist)


def legal(group: LayerGroup, shared: FusedMapping) -> bool:
    return not tree_violations(group, shared)


def _anew(group: LayerGroup, shared: FusedMapping) -> Iterator[FusedMapping]:
    """The tree with every set of layers and loops in which these make rows anew."""
    pairs = [
        (layer.name, loop)
        for layer, path in zip(group.layers, shared.paths, strict=True)
        for loop, _ in path
        if layer.name in shared.backing
    ]
    for count in range(len(pairs) + 1):
        for some in combinations(pairs, count):
            yield replace(shared, recompute=frozenset(some))


def _some(names: list[str], choices: list[int | None]) -> Iterator[dict[str, int]]:
    for chosen in product(choices, repeat=len(names)):
        yield {name: one for name, one in zip(names, chosen, strict=True) if one is not None}


def _hoists(group: LayerGroup, paths: tuple[Loops, ...]) -> Iterator[dict[str, dict[str, int]]]:
    each = [
        list(_some([tensor.name for tensor in layer.tensors], [None, *range(len(path))]))
        for layer, path in zip(group.layers, paths, strict=True)
    ]
    for chosen in product(*each):
        yield {layer.name: one for layer, one in zip(group.layers, chosen, strict=True) if one}


def _totals(group: LayerGroup, shared: FusedMapping) -> list[Cost]:
    kept = held_tiles(group, shared)
    totals: list[Cost] = [(0.0, 0.0)]
    for one in turns_of(group, shared):
        taken = kept_words(kept, group.outermost, one.position)
        fitting = [
            _undominated(
                [cost for words, costs in _costs(one, kind) if _fits(group, taken, words) for cost in costs]
            )
            for kind in one.kinds
        ]
        whole = (layer_cost(one, *(nest for _, nest in chosen)) for chosen in product(*fitting))
        mine = _front([(cost.energy_pj, float(cost.cycles)) for cost in whole])
        totals = _front([(a + c, b + d) for a, b in totals for c, d in mine])
    return totals


def _fits(group: LayerGroup, taken: list[int], words: tuple[int, ...]) -> bool:
    levels = group.architecture.levels
    return all(
        held + own <= level.usable_words for held, own, level in zip(taken, words, levels, strict=False)
    )


def _front(costs: list[Cost]) -> list[Cost]:
    found: list[Cost] = []
    for cost in sorted(costs):
        if not found or cost[1] < found[-1][1]:
            found.append(cost)
    return found


def _undominated(costs: list[TurnCost]) -> list[TurnCost]:
    """The first of equal costs, and none that another is nowhere above."""
    found: list[TurnCost] = []
    for numbers, nest in sorted(costs, key=lambda one: one[0]):
        if not any(all(a <= b for a, b in zip(known, numbers, strict=True)) for known, _ in found):
            found.append((numbers, nest))
    return found


_KNOWN: dict[object, list[tuple[tuple[int, ...], list[TurnCost]]]] = {}


def _costs(one: LayerTurns, kind: TurnKind) -> list[tuple[tuple[int, ...], list[TurnCost]]]:
    """Of every nest the words of its own tiles by level of the chip, with what a turn costs then.

    What hoisted tiles take of bandwidths adds to what all turns take. So where there are some the words that
    a turn moves at their levels count as well.
    """
    key = id(one.group), one.position, kind, tuple(one.held.items()), bool(one.hoisted)
    if key not in _KNOWN:
        found: dict[tuple[int, ...], list[TurnCost]] = {}
        for nest in _nests(kind.part, one.group, tuple(one.held.items())):
            words = tuple(
                sum(
                    tensor.words(nest.tiles[level])
                    for tensor in kind.part.tensors
                    if tensor.name in nest.levels[level].keep and one.held.get(tensor.name) != level
                )
                for level in range(one.group.outermost)
            )
            cost, counts = kind_cost(one, kind, nest)
            moved: list[float] = []
            if one.hoisted:
                for level in counts[one.group.outermost - 1 :]:
                    moved.append(sum(tensor.reads for tensor in level.values()))
                    moved.append(sum(tensor.fills + tensor.updates for tensor in level.values()))
            found.setdefault(words, []).append(((cost.turn.energy_pj, float(cost.turn.cycles), *moved), nest))
        _KNOWN[key] = [(words, _undominated(costs)) for words, costs in found.items()]
    return _KNOWN[key]


def _nests(part: Layer, group: LayerGroup, held: tuple[tuple[str, int], ...]) -> Iterator[Mapping]:
    levels = group.architecture.levels
    outermost = len(levels) - 1
    limits = {
        dim: min((at for name, at in held if dim in part.tensor(name).dims), default=outermost)
        for dim in part.sizes
    }
    keeps = [
        frozenset(
            tensor.name
            for tensor in part.tensors
            if level == outermost or level <= dict(held).get(tensor.name, outermost)
        )
        for level in range(len(levels))
    ]
    # blocks of loops from the inside: spatial, then temporal, of every level
    blocks = [(level, spatial) for level in range(len(levels)) for spatial in (True, False)]
    for splits in product(*(_splits(size, len(blocks)) for size in part.sizes.values())):
        of = dict(zip(part.sizes, splits, strict=True))
        spread = [1] * len(levels)
        right = True
        for dim, split in of.items():
            for (level, spatial), bound in zip(blocks, split, strict=True):
                right = right and (bound == 1 or level <= limits[dim])
                spread[level] *= bound if spatial else 1
        if not right or any(used > level.fanout_x for used, level in zip(spread, levels, strict=True)):
            continue
        orders = []
        for level in range(len(levels)):
            looping = [dim for dim in of if of[dim][2 * level + 1] > 1]
            orders.append(list(permutations(looping)))
        for chosen in product(*orders):
            yield Mapping(
                tuple(
                    LevelMapping(
                        loops((dim, of[dim][2 * level + 1]) for dim in chosen[level]),
                        loops((dim, of[dim][2 * level]) for dim in of),
                        (),
                        keeps[level],
                    )
                    for level in range(len(levels))
                )
            )


@cache
def _splits(size: int, blocks: int) -> tuple[tuple[int, ...], ...]:
    if blocks == 1:
        return ((size,),)
    return tuple((first, *rest) for first in divisors(size) for rest in _splits(size // first, blocks - 1))
