"""What one layer of a structure can hoist, and what all its turns then cost at least."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import ceil, inf
from typing import NamedTuple

from costmodel.mapping.fused.layers.checker import hoist_violations
from costmodel.mapping.fused.layers.turns import LayerTurns, LoopCut, TurnKind
from costmodel.mapping.fused.mapping import Loops, kept_words
from costmodel.mapping.mapping import Mapping
from solvers.fusion.fronts import Priced
from solvers.fusion.layers.corners import Corner, port_cycles
from solvers.fusion.layers.parts import Parts
from solvers.fusion.layers.questions import PartKey
from solvers.fusion.layers.structures import GroupStructure


class NestOptionKey(NamedTuple):
    """All that the options of a layer depend on: see :class:`NestOption`."""

    position: int
    path: Loops
    cuts: tuple[LoopCut, ...]
    emptied: tuple[int, ...]
    held: tuple[tuple[str, int], ...]
    sources: tuple[tuple[str, int], ...]
    kept: tuple[int, ...]


@dataclass
class NestOption:
    """One choice of hoisted tiles of a layer.

    ``parts`` are those of every kind of turn, with the capacity that backing tiles and its own hoisted tiles
    leave, and ``times`` how often each runs. ``take`` are the words of its hoisted tiles, by depth.
    """

    turns: LayerTurns
    parts: tuple[PartKey, ...]
    times: tuple[int, ...]
    take: tuple[tuple[int, int], ...]
    extra: Corner
    """What is certain beyond the parts' own bounds: hoisted words."""
    bandwidth_cycles: int
    """Cycles that the outermost memory needs for the words that no nest avoids."""
    spare: float
    """The words that hoisted tiles of other layers can take at most, as every part keeps something itself."""
    points: list[Priced] | None = None
    _beside: dict[int, NestOption] = field(default_factory=dict)

    def least(self, parts: Parts) -> Corner:
        """The least cost of all turns that is known now."""
        total = Corner(0.0, 0.0, tuple(0.0 for _ in parts.prices))
        for turns, part in zip(self.times, self.parts, strict=True):
            found = parts.of(part).least
            if found.energy == inf:
                return found
            priced = tuple(turns * one for one in found.priced)
            total = total + Corner(turns * found.energy, turns * found.cycles, priced)
        cycles = max(total.cycles, float(self.bandwidth_cycles))
        if parts.objective == "energy":
            cycles = 0.0
        return Corner(
            total.energy + self.extra.energy,
            cycles,
            tuple(priced + self.extra.energy for priced in total.priced),
        )

    @property
    def parts_by_turns(self) -> list[tuple[int, PartKey]]:
        """The parts with how often each runs, the most frequent first."""
        return sorted(zip(self.times, self.parts, strict=True), key=lambda one: -one[0])

    def tighten(self, parts: Parts, questions: tuple[str, ...], slack: Callable[[], float]) -> None:
        """Ask about part after part, the most frequent first, until ``slack`` is used up.

        ``slack``: how much more all turns may cost, as all is known now, before the option is of no use.
        """
        for turns, part in self.parts_by_turns:
            if (left := slack()) <= 0:
                return
            parts.ask(part, questions, left / turns)

    def ask(self, parts: Parts, questions: tuple[str, ...]) -> list[list[Mapping]]:
        """What the exact mapper answers about every part, and the nests that are known then."""
        return [parts.ask(part, questions).nests for part in self.parts]

    def costs(self, parts: Parts) -> list[Priced]:
        """The undominated costs of the nests that were found."""
        if self.points is None:
            self.points = parts.points(self.turns, self.ask(parts, parts.questions))
        return self.points

    def beside(self, taken: int, level: int) -> NestOption:
        """The option where hoisted tiles of others take so many words of a level, the outermost one of the
        chip."""
        if not taken:
            return self
        if taken not in self._beside:
            self._beside[taken] = self._with_less(taken, level)
        return self._beside[taken]

    def _with_less(self, taken: int, level: int) -> NestOption:
        usable = self.turns.group.architecture.levels[level].usable_words
        parts = []
        for part in self.parts:
            capacities = dict(part.capacities)
            if usable < inf:
                capacities[level] = capacities.get(level, int(usable)) - taken
            parts.append(replace(part, capacities=tuple(sorted(capacities.items()))))
        spare = self.spare - taken
        return replace(self, parts=tuple(parts), spare=spare, points=None, _beside={})


class LayerOptions:
    """The options of the layers of a group, remembered by what they depend on."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self._found: dict[NestOptionKey, list[NestOption]] = {}

    def of(self, structure: GroupStructure, number: int) -> list[NestOption]:
        """The options of the run's layer ``number``; none where held tiles alone do not fit."""
        group, shared = structure.run.group, structure.shared
        bare = structure.turns[number]
        kept = kept_words(structure.tiles, group.outermost, number)
        sources = tuple(
            (group.layers[one.producer].name, shared.backing.get(group.layers[one.producer].name, -1))
            for tensor in bare.layer.tensors
            for one in group.sources(number, tensor.name)
        )
        key = NestOptionKey(
            structure.run.first + number,
            bare.path,
            bare.cuts,
            tuple(shared.emptied_below(number, depth) for depth in range(len(bare.path))),
            tuple(sorted(bare.held.items())),
            sources,
            tuple(kept),
        )
        if key not in self._found:
            hoists = self._hoists(structure, bare)
            options = [one for hoist in hoists if (one := self._option(structure, bare, kept, hoist))]
            self._found[key] = options
        return self._found[key]

    def _hoists(self, structure: GroupStructure, bare: LayerTurns) -> list[dict[str, int]]:
        """Sets of hoisted tensors with their depths, but for tiles that spare no words."""
        group, shared, layer = structure.run.group, structure.shared, bare.layer
        level = group.architecture.levels[-2] if group.outermost - 1 in group.holding else None
        each: list[list[dict[str, int]]] = []
        for tensor in layer.tensors:
            choices: list[dict[str, int]] = [{}]
            # what enters without hoisting: the part's words, in every turn
            fewest = sum(kind.turns * tensor.words(kind.part.sizes) for kind in bare.kinds)
            if level is not None and level.can_keep(tensor) and tensor.name not in bare.held:
                for depth in range(len(bare.path) - 1, -1, -1):
                    hoist = {tensor.name: depth}
                    tried = replace(shared, hoist={layer.name: hoist})
                    tile = replace(bare, shared=tried).hoisted[0]
                    reasons = hoist_violations(group, tried, bare.position, tensor.name, depth)
                    if tile.entering < fewest and not any(reasons):
                        choices.append(hoist)
                        fewest = tile.entering
            each.append(choices)
        return [{name: depth for one in chosen for name, depth in one.items()} for chosen in product(*each)]

    def _option(
        self, structure: GroupStructure, bare: LayerTurns, kept: list[int], hoist: dict[str, int]
    ) -> NestOption | None:
        group = structure.run.group
        shared = replace(structure.shared, hoist={bare.layer.name: hoist} if hoist else {})
        turns = replace(bare, shared=shared)
        used = list(kept)
        for tile in turns.hoisted:
            used[group.outermost - 1] += tile.words
        usable = [level.usable_words for level in group.architecture.levels]
        if any(used[level] > usable[level] for level in group.holding):
            return None
        parts = []
        for kind in bare.kinds:
            capacities = []
            for level in group.holding:
                inside = sum(
                    turns.layer.tensor(name).words(kind.part.sizes)
                    for name, at in turns.held.items()
                    if at == level
                )
                if used[level] and usable[level] < inf:
                    capacities.append((level, int(usable[level]) - used[level] + inside))
            parts.append(
                self.parts.key(
                    structure.run.first + bare.position,
                    kind.part.dims,
                    tuple(sorted(turns.held.items())),
                    tuple(capacities),
                    begun=kind.part.output.begun,
                )
            )
        take = tuple((tile.depth, tile.words) for tile in turns.hoisted)
        extra = Corner(0.0 if self.parts.objective == "cycles" else _certain_pj(turns), 0.0)
        spare = min((self.parts.spare(part, group.outermost - 1) for part in parts), default=inf)
        times = tuple(kind.turns for kind in bare.kinds)
        return NestOption(turns, tuple(parts), times, take, extra, _certain_cycles(turns, bare.kinds), spare)


def _certain_pj(turns: LayerTurns) -> float:
    """pJ of hoisted words."""
    levels, energy = turns.group.architecture.levels, 0.0
    for tile in turns.hoisted:
        tensor = turns.layer.tensor(tile.tensor)
        entering = tile.entering
        if tensor.is_output:
            energy += ceil(entering / levels[-1].block_size) * levels[-1].update_energy_pj
            entering -= tensor.words(turns.layer.sizes)
        energy += ceil(entering / levels[-1].block_size) * levels[-1].read_energy_pj
        energy += ceil(entering / levels[-2].block_size) * levels[-2].write_energy_pj
    return energy


def _certain_cycles(turns: LayerTurns, kinds: Sequence[TurnKind]) -> int:
    """Cycles of the outermost memory for words that every nest moves there; ``kinds`` are those of the turns,
    which hoisted tiles do not change."""
    outer = turns.group.architecture.levels[-1]
    read = written = 0
    for tensor in turns.layer.tensors:
        if tensor.name in turns.held or tensor.slides:
            continue
        for kind in kinds:
            words = tensor.words(kind.part.sizes)
            if tensor.is_output:
                written += kind.turns * words
                read += kind.turns * words * kind.part.output.begun
            else:
                read += kind.turns * words
    for tile in turns.hoisted:
        tensor = turns.layer.tensor(tile.tensor)
        read += tile.entering
        if tensor.is_output:
            written += tile.entering
            read -= tensor.words(turns.layer.sizes)
    return port_cycles(outer, read, written)
