"""Fused mappings run element by element: the definitions taken literally, sharing no code with ours.

It reads problems and mappings as plain JSON objects. A tile is a set of elements. Loops are walked one
iteration after the other; every word that moves is counted where it moves.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import product
from typing import Any

Element = tuple[int, ...]
Ranges = dict[str, range]


class BrokenError(Exception):
    """An element is read before it is complete, made twice, or needed after it was dropped."""


class Tile:
    """Elements of one tensor at one level; ``changed`` are those that the next level does not know yet."""

    def __init__(self, tensor: str, level: int, einsum: str) -> None:
        self.tensor, self.level, self.einsum = tensor, level, einsum
        self.held: set[Element] = set()
        self.changed: set[Element] = set()


class Walk:
    def __init__(self, problem: dict[str, Any], mapping: dict[str, Any]) -> None:
        self.einsums, self.halo = problem["einsums"], problem.get("halo", {})
        self.levels, self.mapping = problem["levels"], mapping
        self.top = len(self.levels) - 1
        self.counts: Counter[tuple[str, int, str, str]] = Counter()
        self.most = [[0] * len(self.levels) for _ in self.einsums]
        """By einsum and level the most words held while it runs."""
        self.received: Counter[tuple[str, Element]] = Counter()
        self.dropped: set[tuple[str, Element]] = set()
        self.backing = {t: Tile(t, level, "") for t, level in mapping["backing"].items()}
        self.tiles: list[dict[tuple[str, int], Tile]] = []
        for one in self.einsums:
            tiles = {}
            for tensor in one["tensors"]:
                for level in range(mapping["backing"].get(tensor, self.top)):
                    tiles[tensor, level] = Tile(tensor, level, one["name"])
            self.tiles.append(tiles)

    def run(self) -> None:
        ranges = [{d: range(n) for d, n in one["dims"].items()} for one in self.einsums]
        for position, one in enumerate(self.einsums):
            for dim, _ in self.mapping["paths"][position]:
                if dim not in one["dims"]:
                    ranges[position][dim] = range(self.size(dim))
        self.split(list(range(len(self.einsums))), 0, ranges)

    def size(self, dim: str) -> int:
        return next(int(one["dims"][dim]) for one in self.einsums if dim in one["dims"])

    # -- the tree ------------------------------------------------------------------------------------

    def groups(self, group: list[int], depth: int) -> list[list[int]]:
        found = [[group[0]]]
        for position in group[1:]:
            if self.mapping["prefix"][position - 1] > depth:
                found[-1].append(position)
            else:
                found.append([position])
        return found

    def split(self, group: list[int], depth: int, ranges: list[Ranges]) -> None:
        for position in group[:-1]:
            tensor = self.einsums[position]["output"]
            if tensor in self.backing and self.mapping["prefix"][position] == depth:
                needed = self.touched(position + 1, tensor, ranges[position + 1])
                tile = self.backing[tensor]
                self.dropped |= {(tensor, element) for element in tile.held - needed}
                tile.held = needed
        found = self.groups(group, depth)
        for branch in found:
            if len(branch) == 1 and len(self.mapping["paths"][branch[0]]) == depth:
                self.nest(branch[0], 0, 0, dict(ranges[branch[0]]))
            else:
                self.loop(branch, depth, ranges)
            if len(found) > 1 or depth == 0:
                for position in branch:
                    self.empty(position, depth)

    def loop(self, branch: list[int], depth: int, ranges: list[Ranges]) -> None:
        for position in branch:
            for tensor, above in self.mapping["hoist"].get(self.name(position), {}).items():
                if above == depth:
                    self.move(position, tensor, self.top - 1, ranges[position])
        dim, step = self.mapping["paths"][branch[0]][depth]
        owner = next((p for p in reversed(branch) if dim in ranges[p]), branch[0])
        whole = ranges[owner].get(dim, range(1))
        made: dict[int, set[int]] = defaultdict(set)
        for start in range(whole.start, whole.stop, step):
            inner = [dict(one) for one in ranges]
            for position in branch:
                inner[position][dim] = range(start, min(start + step, whole.stop))
                if dim in self.halo and dim not in self.einsums[position]["dims"]:
                    rows = self.window(dim, inner[position][dim]) - made[position]
                    kept = rows & set(ranges[position][self.halo[dim]["dim"]])
                    made[position] |= rows
                    inner[position][self.halo[dim]["dim"]] = range(min(kept), max(kept) + 1)
                    assert len(kept) == max(kept) + 1 - min(kept)
            self.split(branch, depth + 1, inner)

    def window(self, dim: str, span: range) -> set[int]:
        """The rows that iterations over ``span`` of a consumer's dim need, all other dims whole."""
        terms = self.halo[dim]["axis"]
        spans = [span if name == dim else range(self.size(name)) for name, _ in terms]
        return {sum(i * c for i, (_, c) in zip(point, terms, strict=True)) for point in product(*spans)}

    def nest(self, position: int, block: int, number: int, ranges: Ranges) -> None:
        lists = self.mapping["own"][position]
        if number < len(lists[block]):
            dim, step = lists[block][number]
            whole = ranges[dim]
            for start in range(whole.start, whole.stop, step):
                inner = {**ranges, dim: range(start, min(start + step, whole.stop))}
                self.nest(position, block, number + 1, inner)
            return
        level = self.top - 1 - block
        if level >= 0:
            for tensor in self.einsums[position]["tensors"]:
                if (tensor, level) in self.tiles[position] and not self.hoisted(position, tensor, level):
                    self.move(position, tensor, level, ranges)
            self.nest(position, block + 1, 0, ranges)
            return
        self.measure(position)
        self.operate(position, ranges)

    # -- tiles ---------------------------------------------------------------------------------------

    def name(self, position: int) -> str:
        return str(self.einsums[position]["name"])

    def hoisted(self, position: int, tensor: str, level: int) -> bool:
        return level == self.top - 1 and tensor in self.mapping["hoist"].get(self.name(position), {})

    def touched(self, position: int, tensor: str, ranges: Ranges) -> set[Element]:
        axes = self.einsums[position]["tensors"][tensor]
        sides = [
            {
                sum(i * c for i, (_, c) in zip(point, axis, strict=True))
                for point in product(*(ranges[d] for d, _ in axis))
            }
            for axis in axes
        ]
        return set(product(*sides))

    def count(self, position: int, level: int, tensor: str, what: str, words: int = 1) -> None:
        self.counts[self.name(position), level, tensor, what] += words

    def move(self, position: int, tensor: str, level: int, ranges: Ranges) -> None:
        tile, needed = self.tiles[position][tensor, level], self.touched(position, tensor, ranges)
        self.leave(position, tile, tile.held - needed)
        for element in needed - tile.held:
            self.enter(position, tile, element)

    def enter(self, position: int, tile: Tile, element: Element) -> None:
        tile.held.add(element)
        made_here = tile.tensor == self.einsums[position]["output"]
        if made_here and not self.received[tile.tensor, element]:
            return
        self.count(position, tile.level + 1, tile.tensor, "reads")
        self.count(position, tile.level, tile.tensor, "fills")
        if not made_here:
            self.check_read(position, tile.tensor, tile.level + 1, element)

    def leave(self, position: int, tile: Tile, leaving: set[Element]) -> None:
        if not leaving:
            return
        inner = self.tiles[position].get((tile.tensor, tile.level - 1))
        if inner is not None:
            self.leave(position, inner, inner.held & leaving)
        outer = self.tiles[position].get((tile.tensor, tile.level + 1))
        for element in leaving & tile.changed:
            self.count(position, tile.level + 1, tile.tensor, "updates")
            if outer is not None:
                assert element in outer.held
                outer.changed.add(element)
            elif tile.tensor in self.backing and element not in self.backing[tile.tensor].held:
                raise BrokenError(f"{tile.tensor}{element} has no place")
        tile.held -= leaving
        tile.changed -= leaving

    def empty(self, position: int, depth: int) -> None:
        """Give up all tiles inside a branch of the split below ``depth`` loops, inner memories first."""
        hoist = self.mapping["hoist"].get(self.name(position), {})
        for (tensor, level), tile in sorted(self.tiles[position].items(), key=lambda item: item[0][1]):
            if not self.hoisted(position, tensor, level) or hoist[tensor] >= depth:
                self.leave(position, tile, set(tile.held))

    def operate(self, position: int, ranges: Ranges) -> None:
        one = self.einsums[position]
        self.counts[self.name(position), -1, "-", "macs"] += 1
        for tensor in one["tensors"]:
            (element,) = self.touched(position, tensor, ranges)
            tile = self.tiles[position].get((tensor, 0)) or self.backing[tensor]
            if element not in tile.held:
                raise BrokenError(f"{tensor}{element} is not there")
            if tensor != one["output"]:
                self.count(position, 0, tensor, "reads")
                if (tensor, 0) not in self.tiles[position]:
                    self.check_read(position, tensor, 0, element)
                continue
            if self.received[tensor, element]:
                self.count(position, 0, tensor, "reads")
            self.count(position, 0, tensor, "updates")
            tile.changed.add(element)
            self.received[tensor, element] += 1
            if self.received[tensor, element] > self.contributions(position):
                raise BrokenError(f"{tensor}{element} is computed again")

    def contributions(self, position: int) -> int:
        one, total = self.einsums[position], 1
        used = {d for axis in one["tensors"][one["output"]] for d, _ in axis}
        for dim, size in one["dims"].items():
            total *= 1 if dim in used else size
        return total

    def check_read(self, position: int, tensor: str, level: int, element: Element) -> None:
        """An intermediate has to be complete, and where it is backed, in the backing tile."""
        makers = [p for p, one in enumerate(self.einsums) if one["output"] == tensor]
        if makers and self.received[tensor, element] != self.contributions(makers[0]):
            raise BrokenError(f"{tensor}{element} is read before it is complete")
        if tensor in self.backing and self.backing[tensor].level == level:
            if (tensor, element) in self.dropped:
                raise BrokenError(f"{tensor}{element} is needed after it was dropped")
            assert element in self.backing[tensor].held

    # -- room ----------------------------------------------------------------------------------------

    def measure(self, position: int) -> None:
        used = [0] * len(self.levels)
        for other, tiles in enumerate(self.tiles):
            for (tensor, level), tile in tiles.items():
                if other == position or self.hoisted(other, tensor, level):
                    used[level] += len(tile.held)
        for producer, one in enumerate(self.einsums):
            tensor = one["output"]
            if tensor not in self.backing:
                continue
            branches = self.groups(
                [p for p in range(len(self.einsums)) if self.together(p, producer)],
                self.mapping["prefix"][producer],
            )
            if any(position in branch and {producer, producer + 1} & set(branch) for branch in branches):
                used[self.backing[tensor].level] += len(self.backing[tensor].held)
        self.most[position] = [max(two) for two in zip(self.most[position], used, strict=True)]

    # -- what it cost --------------------------------------------------------------------------------

    def found(self, name: str) -> dict[str, Any]:
        """The counts of an einsum in the form of the reference."""
        found: dict[str, Any] = {}
        for (einsum, level, tensor, what), words in self.counts.items():
            if einsum == name and words:
                at = found.setdefault("mac" if level < 0 else str(level), {})
                at.setdefault(tensor, {})[what] = words
        return found

    def cost(self, position: int, mac_pj: float) -> tuple[float, int]:
        """pJ and cycles of an einsum."""
        words: Counter[tuple[int, str]] = Counter()
        for (einsum, level, _, what), count in self.counts.items():
            if einsum == self.name(position):
                words[level, "reads" if what == "reads" else "writes"] += count
        operations = words[-1, "writes"]
        energy, cycles = operations * mac_pj, operations
        for number, level in enumerate(self.levels):
            reads, writes = words[number, "reads"], words[number, "writes"]
            energy += reads * level["read_pj"] + writes * level["write_pj"]
            cycles = max(cycles, _ceil(reads, level["read_bw"]), _ceil(writes, level["write_bw"]))
        return energy, cycles

    def together(self, position: int, producer: int) -> bool:
        """Whether an einsum is below the loops that a producer and its consumer share."""
        between = self.mapping["prefix"][min(position, producer) : max(position, producer)]
        return all(shared >= self.mapping["prefix"][producer] for shared in between)


def walked(problem: dict[str, Any], mapping: dict[str, Any]) -> dict[str, Any]:
    """Counts, peak, energy and cycles in the form of the reference; BrokenError for what cannot run."""
    walk = Walk(problem, mapping)
    walk.run()
    costs = [walk.cost(position, problem["mac_pj"]) for position in range(len(problem["einsums"]))]
    return {
        "counts": {one["name"]: walk.found(one["name"]) for one in problem["einsums"]},
        "peak": [max(column) for column in zip(*walk.most, strict=True)],
        "energy_pj": sum(energy for energy, _ in costs),
        "cycles": sum(cycles for _, cycles in costs),
    }


def _ceil(words: int, rate: float | None) -> int:
    return 0 if rate is None else int(-(-words // rate))
