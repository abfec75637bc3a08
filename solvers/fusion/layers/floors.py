"""A first bound on a structure, by arithmetic: the words between the outermost memory and the chip.

Structures are many, and a bound by the closed forms of the cost model takes milliseconds for each part that
is new. Most structures need none of that: their shared loops bring so many words in again that they are
never looked at. Here a layer costs what the closed forms say of the whole layer, or what its inside costs if
that is more (``insides.py``), which is known once for every choice of held tensors. Beyond that every other
tensor costs the words that the structure makes it move again:

- unless it is hoisted, its part's words in every turn;
- hoisted above a shared loop, its tile's words for every iteration of the loops outside up to the last one
  that moves it, if the tile fits by itself.

The least of these is taken for each tensor, whatever is hoisted for others. Of outputs each word beyond the
first time is read again as well, as its sum goes on. Only tensors count that every nest keeps inside the
outermost memory: of others the closed forms count each access there already.
"""

from __future__ import annotations

from functools import reduce
from itertools import product
from math import ceil, inf
from typing import NamedTuple

from costmodel.hardware.architecture import StorageLevel
from costmodel.mapping.bounds.bounds import touched_words
from costmodel.mapping.fused.layers.group import LayerGroup
from costmodel.mapping.fused.layers.turns import LoopCut, iterations
from costmodel.workload.network import Layer, Tensor
from solvers.budget import Deadline
from solvers.fusion.layers.corners import Corner, compulsory, port_cycles
from solvers.fusion.layers.parts import Parts
from solvers.fusion.layers.questions import PartKey
from solvers.fusion.layers.structures import GroupStructure, Run


def least_of_any(group: LayerGroup, parts: Parts) -> Corner:
    """A bound without any structure: every layer as if its intermediates cost no way to DRAM.

    The closed forms add up words, operations and cycles that no way of cutting a layer avoids. ``parts`` are
    those of the group.
    """
    total = Corner(0.0, 0.0, tuple(0.0 for _ in parts.prices))
    for position, layer in enumerate(group.layers):
        # every tensor that is an intermediate at every level that can hold it, or at none
        choices: list[list[tuple[tuple[str, int], ...]]] = []
        for tensor in layer.tensors:
            if group.sources(position, tensor.name):
                levels = [
                    level for level in group.holding if group.architecture.levels[level].can_keep(tensor)
                ]
                choices.append([(), *(((tensor.name, level),) for level in levels)])
        corners = []
        for chosen in product(*choices):
            held = tuple(sorted(one for some in chosen for one in some))
            key = parts.key(position, layer.dims, held)
            corners.append(parts.unequal_form(key) if group.slides[position] else parts.closed_form(key))
        total = total + reduce(Corner.least, corners)
    return total


def group_bounds(group: LayerGroup, *, pipelined: bool = False) -> tuple[float, float]:
    """Proven lower bounds on energy (pJ) and cycles of all fused mappings of a group, without any search.

    They hold for the layers one after the other, too, in the space of
    :class:`~solvers.fusion.layers.problem.LayerFusionProblem`. ``pipelined``: layers may also run at the same
    time. Then neither their cycles add up nor what levels that they share leak meanwhile.
    """
    parts = Parts(group.architecture, group.layers, "edp", Deadline(inf))
    closed, least = least_of_any(group, parts), compulsory(group, pipelined=pipelined)
    if not pipelined:
        return max(closed.energy, least.energy), max(closed.cycles, least.cycles)
    leaks = any(level.leakage_pj_per_cycle for level in group.architecture.levels)
    return least.energy if leaks else max(closed.energy, least.energy), least.cycles


class _Moved(NamedTuple):
    """What a tensor moves at the outermost memory beyond its first time, at least: pJ, and words each way."""

    energy: float
    read: int
    written: int


class _FloorKey(NamedTuple):
    """All that the floor of a layer depends on; ``taken``: words of its backing tiles in the outermost level
    of the chip."""

    position: int
    cuts: tuple[LoopCut, ...]
    held: tuple[tuple[str, int], ...]
    taken: int


class LayerFloors:
    """The floors of the layers of ``group``, remembered by what they depend on."""

    def __init__(self, group: LayerGroup, parts: Parts) -> None:
        self._group, self._parts = group, parts
        self._found: dict[_FloorKey, Corner] = {}
        self._kept: dict[PartKey, frozenset[str]] = {}
        self._sources: dict[tuple[int, int, int], list[tuple[str, str]]] = {}

    def of(self, structure: GroupStructure, number: int) -> Corner:
        """What the run's layer ``number`` costs at least, in all its turns."""
        run, backing = structure.run, structure.shared.backing
        held, taken = {}, 0
        for tensor, producer in self._passed(run, number):
            if (level := backing.get(producer)) is not None:
                held[tensor] = level
                taken += structure.words[producer] * (level == self._group.outermost - 1)
        cuts = structure.turns[number].cuts
        key = _FloorKey(run.first + number, cuts, tuple(sorted(held.items())), taken)
        if key not in self._found:
            self._found[key] = self._floor(key)
        return self._found[key]

    def _passed(self, run: Run, number: int) -> list[tuple[str, str]]:
        """The tensors of a layer that are intermediates of its run, each with a producer of it."""
        key = run.first, run.last, number
        if key not in self._sources:
            self._sources[key] = [
                (tensor.name, run.group.layers[one.producer].name)
                for tensor in run.group.layers[number].tensors
                for one in run.group.sources(number, tensor.name)
            ]
        return self._sources[key]

    def _floor(self, key: _FloorKey) -> Corner:
        layer, outer = self._group.layers[key.position], self._group.architecture.levels[-1]
        whole = self._parts.key(key.position, layer.dims, key.held)
        if whole not in self._kept:
            self._kept[whole] = self._parts.kept_inside(whole)
        unequal = [cut for cut in key.cuts if cut.longest * cut.times != layer.sizes[cut.dim]]
        least = self._parts.unequal_form(whole) if unequal else self._parts.closed_form(whole)
        held, prices = dict(key.held), self._parts.prices
        moved = {
            tensor: self._moved(key, layer, tensor) for tensor in layer.tensors if tensor.name not in held
        }
        # a window may skip words
        read = sum(words.read for tensor, words in moved.items() if not tensor.slides)
        written = sum(words.written for tensor, words in moved.items() if not tensor.slides)
        cycles = least.cycles
        if self._parts.objective != "energy":
            cycles = max(cycles, float(port_cycles(outer, read, written)))
        if self._parts.objective == "cycles":
            return Corner(least.energy, cycles)
        energy = least.energy + sum(
            words.energy for tensor, words in moved.items() if tensor.name in self._kept[whole]
        )
        floor = Corner(energy, cycles, tuple(energy + price * cycles for price in prices))
        if not self._parts.share_insides or (passing := self._parts.insides.passing(whole)) is None:
            return floor
        turns = [(left, times) for left, times, _ in iterations(layer.sizes, unequal, ())]
        inside = self._parts.insides.of_turns(whole, turns)
        again = sum(words.energy for tensor, words in moved.items() if tensor.name in passing)
        return floor.most(Corner(inside.energy + again, 0.0, tuple(one + again for one in inside.priced)))

    def _moved(self, key: _FloorKey, layer: Layer, tensor: Tensor) -> _Moved:
        """The least of what the tensor moves, hoisted or not."""
        outer, cuts = self._group.architecture.levels[-1], key.cuts
        first = touched_words(tensor, layer.sizes)
        turns = [
            _Turns(touched_words(tensor, left), times, times - begun)
            for left, times, begun in iterations(layer.sizes, cuts, tensor.dims)
        ]
        found = [_movement(tensor, outer, first, turns)]
        capacity = self._capacity(key, tensor)
        for depth in range(len(cuts)):
            sizes = layer.sizes | {cut.dim: cut.longest for cut in cuts[:depth]}
            if touched_words(tensor, sizes) <= capacity:
                last = max((n + 1 for n in range(depth) if cuts[n].dim in tensor.dims), default=0)
                entering = sum(
                    times * touched_words(tensor, left)
                    for left, times, _ in iterations(layer.sizes, cuts[:last], tensor.dims)
                )
                # all is written at once, and what is written beyond the first time was read before
                found.append(
                    _movement(tensor, outer, first, [_Turns(entering, 1, 1)], again=entering - first)
                )
        return _Moved(*(min(values) for values in zip(*found, strict=True)))

    def _capacity(self, key: _FloorKey, tensor: Tensor) -> float:
        """The most words that a hoisted tile of the tensor can have."""
        number = self._group.outermost - 1
        level = self._group.architecture.levels[number]
        if number not in self._group.holding or not level.can_keep(tensor):
            return -inf
        return level.usable_words - key.taken


class _Turns(NamedTuple):
    """Turns that move so many words each, some of which go on with sums."""

    words: int
    turns: int
    continued: int


def _movement(
    tensor: Tensor, outer: StorageLevel, first: int, turns: list[_Turns], again: int | None = None
) -> _Moved:
    """What turns move beyond the ``first`` words, which are moved once in any case.

    ``again``: the words that turns that go on read before they write; None: all that they write.
    """
    block = outer.block_size
    accesses = sum(one.turns * ceil(one.words / block) for one in turns) - ceil(first / block)
    moved = sum(one.turns * one.words for one in turns)
    if not tensor.is_output:
        return _Moved(accesses * outer.read_energy_pj, moved, 0)
    sums = [(one.continued, one.words if again is None else again) for one in turns]
    # a block may be read for a word that another turn wrote, so only whole ones count
    blocks = sum(continued * (words // block) for continued, words in sums)
    read = sum(continued * words for continued, words in sums)
    return _Moved(accesses * outer.update_energy_pj + blocks * outer.read_energy_pj, read, moved)
