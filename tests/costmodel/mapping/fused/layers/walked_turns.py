"""Chains of convolutions run element by element: the definitions taken literally, sharing no code with ours.

Reads groups and mappings as data and nothing of what the cost model works out from them. Loops are walked one
iteration after the other. What a producer makes in an iteration are all rows up to the last one that the
windows of the iteration reach, as a set, less what the loop's earlier iterations made; the last one makes
what is left. A layer that makes rows anew makes all that the windows reach: whatever it had of them is
forgotten first. A tile is a set of elements, and every word that moves is counted where it moves. Elements
are (channel, row, column) or, of weights, (in, out, row, column). Rows and columns of an operand are those of
the producer's output, or of its last pooling, so padding has negative ones or lies behind the end; it is
moved like anything else, as Timeloop counts it. So are words that a dilation or a stride passes over.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

Element = tuple[int, ...]
Ranges = dict[str, range]


class BrokenError(Exception):
    """An element is read that was not made or was dropped, or one is made twice."""


Pool = tuple[tuple[int, int, int, int], tuple[int, int, int, int]]
"""A pooling along rows, and along columns: results, rows of a window, rows from one to the next, padding."""


class Walk:
    """``before``: of every layer the padding above its first row and before its first column. ``pools``: of
    every layer the poolings of what it reads, in the order in which they follow one another."""

    def __init__(
        self, group: Any, mapping: Any, before: list[tuple[int, int]], pools: list[list[Pool]]
    ) -> None:
        self.layers, self.shared = group.layers, mapping.shared
        self.names, self.before, self.pools = group.loops, before, pools
        self.top = len(group.architecture.levels) - 1
        self.nests = [
            (nest, *mapping.others.get(layer.name, ()))
            for layer, nest in zip(group.layers, mapping.nests, strict=True)
        ]
        self.counts: Counter[tuple[int, int, str]] = Counter()
        """Words by layer, level and kind of access."""
        self.turns: list[Counter[tuple[int, int, bool]]] = [Counter() for _ in self.layers]
        """By layer, its turns by their numbers of rows and columns, and whether they go on with sums."""
        self.made: list[set[Element]] = [set() for _ in self.layers]
        self.sums: list[Counter[Element]] = [Counter() for _ in self.layers]
        self.live: list[set[Element]] = [set() for _ in self.layers]
        """By producer, what its backing tile has now."""
        self.most = [0] * len(self.layers)
        self.tiles: dict[tuple[int, str], tuple[int, set[Element]]] = {}
        """Hoisted tiles by layer and tensor, each with the depth at which it stands."""
        self.slid: dict[tuple[int, int], set[int]] = {}
        """By layer and loop, the rows (or columns) that this run of the loop has made so far."""

    def run(self) -> None:
        whole = [{dim: range(size) for dim, size in layer.dims} for layer in self.layers]
        self.split(list(range(len(self.layers))), 0, whole)
        for position, layer in enumerate(self.layers):
            every = self.elements(position, layer.output, whole[position])
            if self.made[position] != every:
                raise BrokenError(f"{layer.name} leaves outputs unmade")

    # -- what points touch ---------------------------------------------------------------------------

    def elements(self, position: int, tensor: Any, ranges: Ranges) -> set[Element]:
        """The elements that the points of these ranges touch."""
        above, left = self.before[position] if tensor.role == "inputs" else (0, 0)
        axes = []
        for axis in tensor.axes:
            reached = {0}
            for dim, times, _ in axis.steps:
                reached = {at + times * index for at in reached for index in ranges[dim]}
            named = {dim for dim, _, _ in axis.steps}
            if tensor.role == "inputs":
                reached = {at - (above if "P" in named else left if "Q" in named else 0) for at in reached}
                reached = set(range(min(reached), max(reached) + 1)) if reached else reached
            axes.append((min(named & set("PQRS"), default=""), reached))
        if tensor.role == "outputs":  # columns stand before rows there
            axes[-2:] = axes[:-3:-1]
        return set(product(*(reached for _, reached in axes)))

    def sources(self, reader: int, elements: set[Element]) -> set[Element]:
        """The elements of the producer's output that these of a reader's operand are, or are pooled of.

        Padding is of none. Elements of a row have the same rows as sources, so each axis is followed once.
        """
        rows, columns = (
            {at: self.under(reader, axis, {at}) for at in {one[axis - 2] for one in elements}}
            for axis in (0, 1)
        )
        return {
            (*one[:-2], row, column)
            for one in elements
            for row in rows[one[-2]]
            for column in columns[one[-1]]
        }

    def under(self, reader: int, axis: int, reached: set[int]) -> set[int]:
        """The producer's rows (``axis`` 0) or columns (1) that are under some of a reader's operand."""
        sizes = self.layers[reader - 1].sizes
        lengths = [sizes["PQ"[axis]], *(pool[axis][0] for pool in self.pools[reader])]
        reached = {at for at in reached if 0 <= at < lengths[-1]}
        for pool, length in zip(reversed(self.pools[reader]), reversed(lengths[:-1]), strict=True):
            _, size, stride, before = pool[axis]
            reached = {at * stride - before + tap for at in reached for tap in range(size)}
            reached = {at for at in reached if 0 <= at < length}
        return reached

    # -- the tree ------------------------------------------------------------------------------------

    def branches(self, group: list[int], depth: int) -> list[list[int]]:
        found = [[group[0]]]
        for position in group[1:]:
            if self.shared.prefix[position - 1] > depth:
                found[-1].append(position)
            else:
                found.append([position])
        return found

    def split(self, group: list[int], depth: int, ranges: list[Ranges]) -> None:
        for position in group[:-1]:
            backed = self.layers[position].name in self.shared.backing
            if backed and self.shared.prefix[position] == depth:
                reader = position + 1
                needed = self.elements(reader, self.operand(reader), ranges[reader])
                self.live[position] &= self.sources(reader, needed)
                coming = self.elements(position, self.layers[position].output, ranges[position])
                self.most[position] = max(self.most[position], box(needed), box(self.live[position] | coming))
        branches = self.branches(group, depth)
        for branch in branches:
            if len(branch) == 1 and len(self.shared.paths[branch[0]]) == depth:
                self.turn(branch[0], ranges[branch[0]])
            else:
                self.hoist(branch, depth, ranges)
                self.loop(branch, depth, ranges)
            if len(branches) > 1 or depth == 0:  # whoever is next uses what is inside the branch
                for key, (above, _) in list(self.tiles.items()):
                    if key[0] in branch and above >= depth:
                        del self.tiles[key]

    def hoist(self, branch: list[int], depth: int, ranges: list[Ranges]) -> None:
        """Fill the tiles of weights above the loop at this depth, of layers that make anything below it."""
        for position in branch:
            if not all(ranges[position].values()):
                continue
            for tensor in self.layers[position].tensors:
                if self.shared.hoist.get(self.layers[position].name, {}).get(tensor.name) != depth:
                    continue
                new = self.elements(position, tensor, ranges[position])
                _, old = self.tiles.get((position, tensor.name), (depth, set()))
                self.counts[position, self.top, "reads"] += len(new - old)
                self.counts[position, self.top - 1, "fills"] += len(new - old)
                self.tiles[position, tensor.name] = depth, new

    def operand(self, position: int) -> Any:
        return next(tensor for tensor in self.layers[position].tensors if tensor.role == "inputs")

    def loop(self, branch: list[int], depth: int, ranges: list[Ranges]) -> None:
        name, step = self.shared.paths[branch[0]][depth]
        owners = {p: dim for p in branch for dim, own in self.names[p].items() if own == name}
        for position in branch:
            self.slid[position, depth] = set()
        first = ranges[max(owners)][owners[max(owners)]]
        for start in range(first.start, first.stop, step):
            inner = [dict(one) for one in ranges]
            for position in reversed(branch):
                if position in owners:
                    inner[position][owners[position]] = range(start, start + step)
                    continue
                # windows of the next layer slide along rows or columns of this one
                reader, dim = position + 1, owners[max(owners)]
                at = "PQ".index(dim)
                steps = next(
                    {d: times for d, times, _ in axis.steps}
                    for axis in self.operand(reader).axes
                    if any(d == dim for d, _, _ in axis.steps)
                )
                tap = {"P": "R", "Q": "S"}[dim]
                touched = {
                    steps[dim] * p + steps[tap] * r - self.before[reader][at]
                    for p in inner[reader][dim]
                    for r in range(self.layers[reader].sizes[tap])
                }
                # of a window with gaps, the rows in them too
                touched = set(range(min(touched), max(touched) + 1)) if touched else touched
                under = self.under(reader, at, touched)
                whole = set(range(self.layers[position].sizes[dim]))
                before = self.slid[position, depth]
                rows = whole if start + step == first.stop else set(range(max(under) + 1)) if under else set()
                new = sorted(rows - before)
                if self.anew(position, name):
                    new = sorted({*new, *(range(min(under), max(under) + 1) if under else ())})
                before |= set(new)
                inner[position][dim] = range(new[0], new[-1] + 1) if new else range(0)
                if new and len(new) != len(inner[position][dim]):
                    raise BrokenError("the rows of an iteration are no stretch")
                if self.anew(position, name):
                    self.forget(position, inner[position])
            self.split(branch, depth + 1, inner)

    def anew(self, position: int, loop: str) -> bool:
        return (self.layers[position].name, loop) in self.shared.recompute

    def forget(self, position: int, ranges: Ranges) -> None:
        """Drop what the layer has made in this range: it begins anew."""
        self.live[position] = set()
        for element in self.elements(position, self.layers[position].output, ranges):
            self.sums[position][element] = 0

    # -- a turn --------------------------------------------------------------------------------------

    def turn(self, position: int, ranges: Ranges) -> None:
        if not all(ranges.values()):
            return
        layer, shared = self.layers[position], self.shared
        sums = self.sums[position]
        begun = any(sums[one] for one in self.elements(position, layer.output, ranges))
        self.turns[position][len(ranges["P"]), len(ranges["Q"]), begun] += 1
        if position and self.layers[position - 1].name in shared.backing:
            touched = self.sources(position, self.elements(position, self.operand(position), ranges))
            if not touched <= self.live[position - 1]:
                raise BrokenError(f"{layer.name} reads what is not there")
        sizes = {dim: len(one) for dim, one in ranges.items()}
        # of equal parts the nest of those that begin stands before that of those that go on
        fitting = [
            one for one in self.nests[position] if extents(one) == {k: v for k, v in sizes.items() if v > 1}
        ]
        nest = fitting[begun]
        held = dict.fromkeys(shared.hoist.get(layer.name, {}), self.top - 1)
        if layer.name in shared.backing:
            held[layer.output.name] = shared.backing[layer.name]
        if position and self.layers[position - 1].name in shared.backing:
            held[self.operand(position).name] = shared.backing[self.layers[position - 1].name]
        _Turn(self, position, nest, held).run(ranges)
        new = self.elements(position, layer.output, ranges)
        summed = [dim for dim in layer.sizes if dim not in layer.output.dims]
        complete = all(len(ranges[dim]) == layer.sizes[dim] for dim in summed)
        again = any(self.anew(position, loop) for loop, _ in shared.paths[position])
        if complete and new & self.made[position] and not again:
            raise BrokenError(f"{layer.name} makes outputs twice")
        self.made[position] |= new
        self.live[position] |= new


def extents(nest: Any) -> dict[str, int]:
    """The part that a nest maps."""
    found: Counter[str] = Counter()
    for level in nest.levels:
        for dim, bound in level.temporal:
            found[dim] = max(1, found[dim]) * bound
    return {dim: size for dim, size in found.items() if size > 1}


def box(elements: set[Element]) -> int:
    """Words of the smallest box around elements."""
    if not elements:
        return 0
    words = 1
    for axis in zip(*elements, strict=True):
        words *= max(axis) - min(axis) + 1
    return words


class _Turn:
    """One turn of a layer: its nest, with every tile of its own empty at the beginning."""

    def __init__(self, walk: Walk, position: int, nest: Any, held: dict[str, int]) -> None:
        self.walk, self.position, self.nest, self.held = walk, position, nest, held
        self.layer = walk.layers[position]
        self.tiles: dict[tuple[str, int], set[Element]] = {}
        for tensor in self.layer.tensors:
            for level in range(walk.top):
                inside = level < held.get(tensor.name, walk.top)
                if inside and tensor.name in nest.levels[level].keep:
                    self.tiles[tensor.name, level] = set()

    def outer(self, tensor: str, level: int) -> int:
        """The next level out that has the tensor."""
        end = self.held.get(tensor, self.walk.top)
        return next(at for at in range(level + 1, end + 1) if at == end or (tensor, at) in self.tiles)

    def count(self, level: int, access: str, words: int) -> None:
        self.walk.counts[self.position, level, access] += words

    def run(self, ranges: Ranges) -> None:
        self.level(self.walk.top, ranges)
        for level in range(self.walk.top):
            self.move(level, None)

    def level(self, level: int, ranges: Ranges) -> None:
        """The loops of a level, and below them what is inside."""
        self.loops(level, list(reversed(self.nest.levels[level].temporal)), ranges)

    def loops(self, level: int, loops: list[tuple[str, int]], ranges: Ranges) -> None:
        if not loops:
            if level == 0:
                self.operate(ranges)
                return
            self.move(level - 1, ranges)
            self.level(level - 1, ranges)
            return
        (dim, bound), inner = loops[0], loops[1:]
        step = len(ranges[dim]) // bound
        for number in range(bound):
            start = ranges[dim].start + number * step
            self.loops(level, inner, {**ranges, dim: range(start, start + step)})

    def move(self, level: int, ranges: Ranges | None) -> None:
        """Move the tiles of a level to these points, or empty them; tiles inside give up theirs first."""
        for tensor in self.layer.tensors:
            key = tensor.name, level
            if key not in self.tiles:
                continue
            new = set() if ranges is None else self.walk.elements(self.position, tensor, ranges)
            old, outer = self.tiles[key], self.outer(tensor.name, level)
            if tensor.is_output:
                if old - new:
                    self.leave(tensor.name, level, old - new)
                coming = new - old
                known = {one for one in coming if self.walk.sums[self.position][one]}
                self.count(outer, "reads", len(known))
                self.count(level, "fills", len(known))
            else:
                coming = new - old
                self.count(outer, "reads", len(coming))
                self.count(level, "fills", len(coming))
            self.tiles[key] = new

    def leave(self, tensor: str, level: int, words: set[Element]) -> None:
        for inner in range(level):
            if (tensor, inner) in self.tiles:
                gone = self.tiles[tensor, inner] & words
                if gone:
                    self.count(self.outer(tensor, inner), "updates", len(gone))
                    self.tiles[tensor, inner] = self.tiles[tensor, inner] - gone
        self.count(self.outer(tensor, level), "updates", len(words))

    def operate(self, ranges: Ranges) -> None:
        for tensor in self.layer.tensors:
            (element,) = self.walk.elements(self.position, tensor, ranges)
            level = self.outer(tensor.name, -1)
            if not tensor.is_output:
                self.count(level, "reads", 1)
                continue
            sums = self.walk.sums[self.position]
            self.count(level, "reads", 1 if sums[element] else 0)
            self.count(level, "updates", 1)
            sums[element] += 1
