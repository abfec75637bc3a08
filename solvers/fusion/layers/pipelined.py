"""Pipelines of a run: its layers on parts of the array at the same time, bounded and worked out.

A structure whose layers all share the same loops can run as a pipeline, with every division of the array.
What is looked at gets smaller step by step, and nothing is left out: each step replaces what it looks at by
parts that cover it, with bounds that are no lower.

1. *Any division.* Stages together have no more MAC units than the array. So in a turn the slowest one takes
   its share of all multiplications at least, and to fill and drain the pipeline takes more.
2. *One division.* No stage does more in a cycle than its MAC units can.
3. *A choice of hoisted tiles.* The closed forms bound every stage on its part of the array.
4. *A division of capacity.* On levels that stages share, their own tiles are there at once. Each stage is
   first asked about with all that the others do not need in any case. If the best nests do not fit beside
   each other, some stage has to do with less than it uses now: either this one has at most so many words, or
   it has more, and then the others have less.

The exact mapper answers for a stage on the architecture that has its part of the array (``parts.py``). A turn
lasts as long as the slowest stage, and as long as levels that all share need for the words that no nest
avoids. That holds whatever the nests; what nests add to it by moving more words is not in the bound, so there
a gap can remain.

Where nothing leaks, a pipeline takes no less energy than its nests one after the other on the whole array,
which need less capacity. So for energy alone pipelines are looked at only where something leaks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import combinations, pairwise, product
from math import ceil, inf, sqrt

from costmodel.hardware.architecture import Architecture
from costmodel.mapping.fused.layers.array_parts import array_size, divided_level, part_of_array
from costmodel.mapping.fused.layers.evaluate import hoisted_words, layer_cost, stage_works
from costmodel.mapping.fused.layers.group import LayerGroup
from costmodel.mapping.fused.layers.pipelines import PipelineTurns, Working, pipeline_cost
from costmodel.mapping.fused.layers.turns import LayerTurns
from costmodel.mapping.fused.pipeline import MeshAxis, Pipeline
from costmodel.mapping.mapping import Mapping as Nest
from solvers.budget import Deadline
from solvers.fusion.layers.corners import Corner, port_cycles
from solvers.fusion.layers.floors import LayerFloors
from solvers.fusion.layers.options import LayerOptions, NestOption
from solvers.fusion.layers.parts import Parts
from solvers.fusion.layers.questions import PartKey
from solvers.fusion.layers.structures import GroupStructure
from solvers.tolerance import SAME_COST

MOST_ITERATIONS = 1 << 20
"""Shared loops with more iterations are not looked at as pipelines: their turns are listed one by one."""

MOST_DIVISIONS = 24
"""How often capacity is divided, part of a part, before a bound is left as it is."""

Value = Callable[[Corner], float]
"""The objective of everything, at least, if a run has this corner."""

Words = tuple[int, int]
"""Words read and written."""


@dataclass(frozen=True)
class PipelineWay:
    """A pipeline that is worked out: of every stage the option and the nest of every kind of turn."""

    structure: GroupStructure
    layers: tuple[tuple[NestOption, tuple[Nest, ...]], ...]
    energy: float
    cycles: int


class Pipelining:
    """What the pipelines of all runs of a group have in common."""

    def __init__(self, group: LayerGroup, parts: Parts, floors: LayerFloors, deadline: Deadline) -> None:
        """``parts`` and ``floors`` are those of the group on the whole array, whose prices are known."""
        self.group, self.objective, self.prices = group, parts.objective, parts.prices
        self._deadline = deadline
        self._found: dict[tuple[MeshAxis, int], tuple[Parts, LayerOptions]] = {}
        self._divided = divided_level(group.architecture)
        leaking = [level.leakage_pj_per_cycle for level in group.architecture.levels]
        self.sizes: dict[MeshAxis, int] = {axis: array_size(group.architecture, axis) for axis in ("x", "y")}
        self._leaking, self.floors = leaking, floors
        if any(leaking):
            self.floors = LayerFloors(group, self._parts_on(self._without_leakage))

    @property
    def pays(self) -> bool:
        """Whether any pipeline can be better than its nests one after the other."""
        return self._divided is not None and (self.objective != "energy" or any(self._leaking))

    @property
    def solves(self) -> int:
        """How often the exact mapper was asked."""
        return sum(parts.solves for parts, _ in self._found.values())

    @property
    def evaluations(self) -> int:
        """What it counted for that."""
        return sum(parts.evaluations for parts, _ in self._found.values())

    def leakage(self, stages: int) -> float:
        """pJ that so many stages leak in a cycle at least: shared levels once, others in each stage."""
        assert self._divided is not None, "nothing is pipelined where nothing is divided"
        shared, own = self._leaking[self._divided :], self._leaking[: self._divided]
        return sum(shared) + stages * sum(own)

    def on(self, axis: MeshAxis, part: int) -> tuple[Parts, LayerOptions]:
        """The parts of the group's layers on so many columns or rows, and what they can hoist."""
        if (axis, part) not in self._found:
            parts = self._parts_on(part_of_array(self.group.architecture, axis, part))
            self._found[axis, part] = parts, LayerOptions(parts)
        return self._found[axis, part]

    @property
    def _without_leakage(self) -> Architecture:
        levels = tuple(replace(level, leakage_pj_per_cycle=0.0) for level in self.group.architecture.levels)
        return replace(self.group.architecture, levels=levels)

    def _parts_on(self, architecture: Architecture) -> Parts:
        # Insides are not shared: they would have to be proven anew for each part of the array.
        parts = Parts(architecture, self.group.layers, self.objective, self._deadline, share_insides=False)
        parts.prices = self.prices
        parts.forget()
        return parts

    def pipelines_of(self, structure: GroupStructure) -> PipelinedRun | None:
        """The structure's layers as a pipeline, with any division; None if they can be none."""
        shared, count = structure.shared, len(structure.run.group.layers)
        path = shared.paths[0]
        flat = path and all(depth == len(path) for depth in shared.prefix) and shared.paths == (path,) * count
        if not self.pays or not flat or count < 2 or max(self.sizes.values()) < count:
            return None
        if PipelineTurns(structure.turns).iterations > MOST_ITERATIONS:
            return None
        taken = [0] * len(self.group.architecture.levels)
        for name, level in shared.backing.items():
            one = structure.run.group.made[name]
            taken[level] += (one.last - one.producer + 1) * structure.words[name]
        levels = self.group.architecture.levels
        if any(words > level.usable_words for words, level in zip(taken, levels, strict=True)):
            return None
        return PipelinedRun(self, structure)


@dataclass(frozen=True, eq=False)
class _Box:
    """A choice of hoisted tiles, and how many own words of the levels that stages share each has.

    ``low`` and ``high``: between which numbers, by stage and level.
    """

    options: tuple[NestOption, ...]
    low: tuple[tuple[int, ...], ...]
    high: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class _Region:
    """Some of a structure's pipelines, none of which costs less than ``corner``.

    ``pipeline``: the division, None for any. ``box``: None for any choice of hoisted tiles. ``asked``: the
    exact mapper has answered for all of its stages. ``divided``: how often capacity was divided before.
    """

    corner: Corner
    pipeline: Pipeline | None = None
    box: _Box | None = None
    asked: bool = False
    divided: int = 0


class PipelinedRun:
    """All pipelines of one structure: what is still to be looked at, each with a bound."""

    def __init__(self, pipelining: Pipelining, structure: GroupStructure) -> None:
        self._common, self.structure = pipelining, structure
        self._group = structure.run.group
        self._stages = range(len(self._group.layers))
        self._floors = [pipelining.floors.of(structure, number) for number in self._stages]
        self._open = [_Region(self._any_division())]
        self._closed: list[Corner] = []
        self._structures: dict[Pipeline, GroupStructure] = {}

    @property
    def corner(self) -> Corner:
        """What no pipeline of the structure costs less than, looked at or not; infinite if there is none."""
        return reduce(Corner.least, [*(one.corner for one in self._open), *self._closed], self._never)

    def value(self, value: Value) -> float:
        """The least objective of what is still to be looked at; infinite if that is nothing."""
        return min((value(one.corner) for one in self._open), default=inf)

    def step(self, value: Value, limit: float) -> tuple[list[PipelineWay], Corner | None]:
        """Look closer at what may cost least.

        Returns pipelines that were found, and the corner of what was worked out, of which no nest reaches the
        bound. ``limit``: nobody looks for pipelines that cost as much. Raises OutOfTimeError.
        """
        region = min(self._open, key=lambda one: value(one.corner))
        if region.pipeline is None:
            self._replace(region, self._one_division())
        elif region.box is None:
            self._replace(region, self._choices(region.pipeline))
        elif not region.asked:
            self._replace(region, self._ask(region, region.pipeline, region.box, value, limit))
        else:
            return self._work_out(region, region.pipeline, region.box)
        return [], None

    def _replace(self, region: _Region, parts: Iterator[_Region]) -> None:
        # what covers a region costs no less than it, which its own bound may not know
        found = [replace(one, corner=one.corner.most(region.corner)) for one in parts]
        self._open = [one for one in self._open if one is not region]
        self._open += [one for one in found if max(one.corner.energy, one.corner.cycles) < inf]

    # -- bounds --------------------------------------------------------------------------------------

    @property
    def _never(self) -> Corner:
        return Corner(inf, inf, tuple(inf for _ in self._common.prices))

    def _together(self, corners: Sequence[Corner], cycles: float) -> Corner:
        """What a pipeline costs at least, each of whose stages costs its corner, in so many cycles.

        A price on the pipeline's cycles can be divided among its stages, as none takes more cycles by itself
        than the pipeline does. Then each stage costs what is known at its share; what is left of the price
        counts for ``cycles``.
        """
        prices, energy = self._common.prices, sum(corner.energy for corner in corners)
        leaking = self._common.leakage(len(corners)) * cycles
        if self._common.objective == "cycles":
            return Corner(0.0, cycles)
        priced = [leaking + energy + price * cycles for price in prices]
        shares = [((0.0, corner.energy), *zip(prices, corner.priced, strict=True)) for corner in corners]
        for chosen in product(*shares) if prices else ():
            share = sum(one for one, _ in chosen)
            stages = leaking + sum(cost for _, cost in chosen)
            for number, price in enumerate(prices):
                if share <= price:
                    priced[number] = max(priced[number], stages + (price - share) * cycles)
        return Corner(energy + leaking, 0.0 if self._common.objective == "energy" else cycles, tuple(priced))

    def _any_division(self) -> Corner:
        """Whatever part of the array every stage has."""
        units, turns = self._group.architecture.mac_units, self.structure.turns
        works = [sum(kind.turns * kind.part.macs for kind in one.kinds) for one in turns]
        cycles = max(sum(works) / units, *(floor.cycles for floor in self._floors))
        iterations = PipelineTurns(turns).iterations
        if all(len(cut.pieces) == 1 for one in turns for cut in one.cuts):
            # The slowest stage takes all of its turns, and before and after it every other stage has one by
            # itself. With w MACs a turn on u units these sum up to w / u over all stages, which is least if
            # units are divided as the roots of the works are.
            slowest = (iterations - 1) * sum(works) / iterations / units
            each = sum(sqrt(work / iterations) for work in works) ** 2 / units
            cycles = max(cycles, (slowest + each) * (1 - SAME_COST))
        return self._together(self._floors, float(ceil(cycles * (1 - SAME_COST))))

    @cached_property
    def _working(self) -> dict[Working, int]:
        return PipelineTurns(self.structure.turns).working

    def _one_division(self) -> Iterator[_Region]:
        """Every division into columns or rows, each with all MAC units of its stages at work."""
        for axis, size in self._common.sizes.items():
            units = self._group.architecture.mac_units // size
            for parts in _divisions(size, len(self._stages)):
                fastest = [
                    [ceil(kind.part.macs / (part * units)) for kind in one.kinds]
                    for part, one in zip(parts, self.structure.turns, strict=True)
                ]
                cycles = max(self._cycles(fastest, []), *(floor.cycles for floor in self._floors))
                yield _Region(self._together(self._floors, float(cycles)), Pipeline(0, axis, parts))

    def _cycles(
        self, least: Sequence[Sequence[float]], words: Sequence[Mapping[int, Sequence[Words]]]
    ) -> float:
        """The cycles of all turns, if stages need ``least`` by kind and move ``words`` by level and kind."""
        levels, total = self._group.architecture.levels, 0.0
        for working, often in self._working.items():
            busy = [(stage, kind) for stage, kind in enumerate(working) if kind is not None]
            cycles = max((least[stage][kind] for stage, kind in busy), default=0.0)
            if len(busy) > 1 and words:
                for level in words[0]:
                    moved = [words[stage][level][kind] for stage, kind in busy]
                    needed = port_cycles(levels[level], *(sum(one) for one in zip(*moved, strict=True)))
                    cycles = max(cycles, float(needed))
            total += often * cycles
        return total

    def _bounded(self, pipeline: Pipeline, box: _Box) -> Corner:
        """What all nests of a box cost at least, by what is known of their parts now."""
        least, corners = [], []
        for stage, option in enumerate(box.options):
            parts, _ = self._on(pipeline, stage)
            found = [parts.of(key).least for key in self._keys(pipeline, box, stage)]
            if any(max(one.energy, one.cycles) == inf for one in found):
                return self._never
            least.append([one.cycles for one in found])
            total = reduce(
                Corner.__add__, (_times(n, one) for n, one in zip(option.times, found, strict=True))
            )
            extra = option.extra.energy
            priced = tuple(one + extra for one in total.priced)
            corners.append(Corner(total.energy + extra, total.cycles, priced))
        words = [self._least_words(option) for option in box.options]
        cycles = max(
            self._cycles(least, words),
            float(self._all_words(box, words)),
            *(float(option.bandwidth_cycles) for option in box.options),
        )
        return self._together(corners, cycles)

    def _least_words(self, option: NestOption) -> dict[int, list[Words]]:
        """By level that stages share and kind of turn, the words that every nest moves there."""
        one, outermost = option.turns, self._group.outermost
        found: dict[int, list[Words]] = {level: [] for level in (*self._group.holding, outermost)}
        for kind in one.kinds:
            moved = dict.fromkeys(found, (0, 0))
            for tensor in kind.part.tensors:
                if tensor.slides:  # a window may skip words
                    continue
                level, words = one.held.get(tensor.name, outermost), tensor.words(kind.part.sizes)
                read, written = moved[level]
                if tensor.is_output:
                    moved[level] = read, written + words
                else:
                    moved[level] = read + words, written
            for level, both in moved.items():
                found[level].append(both)
        return found

    def _all_words(self, box: _Box, words: Sequence[Mapping[int, Sequence[Words]]]) -> int:
        """Cycles that the levels that stages share need for the words of all turns and of hoisted tiles."""
        levels, most = self._group.architecture.levels, 0
        hoisted = hoisted_words([option.turns for option in box.options])
        for level in words[0]:
            extra = hoisted.get(level)
            read = extra.reads if extra else 0
            written = extra.fills + extra.updates if extra else 0
            for option, of_stage in zip(box.options, words, strict=True):
                for times, (in_, out) in zip(option.times, of_stage[level], strict=True):
                    read, written = read + times * in_, written + times * out
            most = max(most, port_cycles(levels[level], read, written))
        return most

    # -- hoisted tiles and capacity ------------------------------------------------------------------

    def _on(self, pipeline: Pipeline, stage: int) -> tuple[Parts, LayerOptions]:
        return self._common.on(pipeline.axis, pipeline.parts[stage])

    def _as_pipeline(self, pipeline: Pipeline) -> GroupStructure:
        if pipeline not in self._structures:
            shared = replace(self.structure.shared, pipelines=(pipeline,))
            self._structures[pipeline] = replace(self.structure, shared=shared)
        return self._structures[pipeline]

    @cached_property
    def _levels(self) -> tuple[int, ...]:
        """The levels of limited capacity that stages share."""
        levels = self._group.architecture.levels
        return tuple(level for level in self._group.holding if levels[level].usable_words < inf)

    def _choices(self, pipeline: Pipeline) -> Iterator[_Region]:
        """Every choice of hoisted tiles that fits, each stage with the capacity that the others leave it."""
        structure = self._as_pipeline(pipeline)
        options = [self._on(pipeline, stage)[1].of(structure, stage) for stage in self._stages]
        for chosen in product(*options):
            low = tuple(self._least_own(pipeline, stage, option) for stage, option in enumerate(chosen))
            free = tuple(self._free(pipeline, chosen))
            box = self._shrunk(pipeline, _Box(chosen, low, (free,) * len(low)))
            if box is not None:
                yield _Region(self._bounded(pipeline, box), pipeline, box)

    def _free(self, pipeline: Pipeline, options: Sequence[NestOption]) -> list[int]:
        """By level, the words that held tiles leave for the stages' own."""
        levels = self._group.architecture.levels
        free = [int(levels[level].usable_words) for level in self._levels]
        for tile in self._as_pipeline(pipeline).tiles:
            if tile.level in self._levels:
                free[self._levels.index(tile.level)] -= tile.words
        if (outer := self._group.outermost - 1) in self._levels:
            free[self._levels.index(outer)] -= sum(words for one in options for _, words in one.take)
        return free

    def _least_own(self, pipeline: Pipeline, stage: int, option: NestOption) -> tuple[int, ...]:
        """By level, the own words that a stage needs in some kind of turn at least."""
        parts, _ = self._on(pipeline, stage)
        levels = self._group.architecture.levels
        found = []
        for level in self._levels:
            least = 0
            for key, kind in zip(option.parts, option.turns.kinds, strict=True):
                usable = dict(key.capacities).get(level, levels[level].usable_words)
                own = usable - parts.spare(key, level) - _inside(option.turns, kind.part.sizes, level)
                least = max(least, int(own))
            found.append(least)
        return tuple(found)

    def _shrunk(self, pipeline: Pipeline, box: _Box) -> _Box | None:
        """The box with as much for every stage as what the others have at least leaves it; None if empty."""
        free, high = self._free(pipeline, box.options), []
        for stage in self._stages:
            others = [low for number, low in enumerate(box.low) if number != stage]
            most = tuple(
                min(before, words - sum(low[at] for low in others))
                for at, (words, before) in enumerate(zip(free, box.high[stage], strict=True))
            )
            if any(one < least for one, least in zip(most, box.low[stage], strict=True)):
                return None
            high.append(most)
        return replace(box, high=tuple(high))

    def _keys(self, pipeline: Pipeline, box: _Box, stage: int) -> list[PartKey]:
        """The parts of a stage's kinds of turns, with the capacity that it has in the box."""
        levels, option, found = self._group.architecture.levels, box.options[stage], []
        for key, kind in zip(option.parts, option.turns.kinds, strict=True):
            capacities = []
            for level, high in zip(self._levels, box.high[stage], strict=True):
                words = high + _inside(option.turns, kind.part.sizes, level)
                if words < levels[level].usable_words:
                    capacities.append((level, words))
            found.append(replace(key, capacities=tuple(capacities)))
        return found

    # -- nests ---------------------------------------------------------------------------------------

    @property
    def _proving(self) -> tuple[str, ...]:
        """The questions whose answers are in the bound."""
        if self._common.objective == "cycles":
            return ("cycles",)
        if self._common.objective == "energy":
            return ("energy", "cycles")
        return "cycles", "energy"

    def _ask(
        self, region: _Region, pipeline: Pipeline, box: _Box, value: Value, limit: float
    ) -> Iterator[_Region]:
        """The same with what the exact mapper says of every stage, or of as many as rule it out."""
        for question in self._proving:
            for stage in sorted(self._stages, key=lambda one: -self._work(pipeline, one)):
                parts, _ = self._on(pipeline, stage)
                for key in self._keys(pipeline, box, stage):
                    parts.ask(key, (question,))
                corner = self._bounded(pipeline, box)
                if value(corner) >= limit:
                    yield replace(region, corner=corner)
                    return
        if self._common.objective == "edp":
            # the slowest stage's energy and cycles have to be weighed, and those of others to a smaller part
            slowest = max(self._stages, key=lambda one: self._own_cycles(pipeline, box, one))
            for stage in self._stages:
                parts, _ = self._on(pipeline, stage)
                likeliest, lower, *_ = parts.questions
                for key in self._keys(pipeline, box, stage):
                    parts.ask(key, (likeliest, lower) if stage == slowest else (lower,))
        yield replace(region, corner=self._bounded(pipeline, box), asked=True)

    def _work(self, pipeline: Pipeline, stage: int) -> float:
        return self.structure.turns[stage].layer.macs / pipeline.parts[stage]

    def _own_cycles(self, pipeline: Pipeline, box: _Box, stage: int) -> float:
        parts, times = self._on(pipeline, stage)[0], box.options[stage].times
        keys = self._keys(pipeline, box, stage)
        return sum(often * parts.of(key).least.cycles for often, key in zip(times, keys, strict=True))

    def _work_out(
        self, region: _Region, pipeline: Pipeline, box: _Box
    ) -> tuple[list[PipelineWay], Corner | None]:
        """Take the best nests; where they do not fit beside each other, divide the capacity."""
        best = [self._best(pipeline, box, question) for question in self._proving]
        ways = self._ways(pipeline, box, [nests for nests in best if nests is not None])
        for nests in best:
            if nests is None or region.divided >= MOST_DIVISIONS:
                continue
            if (smaller := self._divide(pipeline, box, nests)) is not None:
                bounded = ((one, self._bounded(pipeline, one)) for one in smaller)
                number = region.divided + 1
                self._replace(
                    region, (_Region(corner, pipeline, one, divided=number) for one, corner in bounded)
                )
                return ways, None
        self._open = [one for one in self._open if one is not region]
        self._closed.append(region.corner)
        if self._reaches(ways, region.corner):
            return ways, None
        # nests that move fewer words, or are a compromise of energy and cycles
        for stage in self._stages:
            parts, _ = self._on(pipeline, stage)
            for key in self._keys(pipeline, box, stage):
                parts.ask(key, ("energy", "edp"))
        others = [self._best(pipeline, box, question) for question in ("energy", "edp")]
        ways = self._ways(pipeline, box, [nests for nests in (*best, *others) if nests is not None])
        return ways, None if self._reaches(ways, region.corner) else region.corner

    def _reaches(self, ways: Sequence[PipelineWay], corner: Corner) -> bool:
        """Whether some pipeline costs no more than the bound; of a product nobody asks."""
        if self._common.objective == "edp":
            return False
        of_cycles = self._common.objective == "cycles"
        bound = corner.cycles if of_cycles else corner.energy
        reached = min((float(one.cycles) if of_cycles else one.energy for one in ways), default=inf)
        return reached <= bound * (1 + SAME_COST)

    def _best(self, pipeline: Pipeline, box: _Box, question: str) -> list[tuple[Nest, ...]] | None:
        """By stage the proven best nests of all kinds of turns; None if some is not known."""
        found = []
        for stage in self._stages:
            parts, _ = self._on(pipeline, stage)
            nests = [parts.of(key).best.get(question) for key in self._keys(pipeline, box, stage)]
            known = tuple(nest for nest in nests if nest is not None)
            if len(known) < len(nests):
                return None
            found.append(known)
        return found

    def _uses(self, option: NestOption, nests: Sequence[Nest]) -> list[int]:
        """By level that stages share, the own words of a stage: those of the largest of its turns."""
        return [max(option.turns.own_words(nest, level) for nest in nests) for level in self._levels]

    def _divide(self, pipeline: Pipeline, box: _Box, nests: Sequence[tuple[Nest, ...]]) -> list[_Box] | None:
        """Two boxes that cover this one, without these nests together; None if they fit together."""
        free = self._free(pipeline, box.options)
        uses = [self._uses(option, some) for option, some in zip(box.options, nests, strict=True)]
        for at, words in enumerate(free):
            total = sum(use[at] for use in uses)
            if total <= words:
                continue
            # some stage has less at least than it uses here, as what all have at least fits
            stage = max(self._stages, key=lambda one: uses[one][at] - box.low[one][at])
            most, least = uses[stage][at], box.low[stage][at]
            share = min(most - 1, max(least, words * most // total))
            smaller = _changed(box.high, stage, at, share)
            larger = _changed(box.low, stage, at, share + 1)
            found = (replace(box, high=smaller), replace(box, low=larger))
            return [one for one in (self._shrunk(pipeline, some) for some in found) if one is not None]
        return None

    def _ways(
        self, pipeline: Pipeline, box: _Box, candidates: Sequence[Sequence[tuple[Nest, ...]]]
    ) -> list[PipelineWay]:
        """The pipelines of these nests, those of every stage with those of every other, that fit."""
        structure, free = self._as_pipeline(pipeline), self._free(pipeline, box.options)
        of_stage = [list(dict.fromkeys(some[stage] for some in candidates)) for stage in self._stages]
        works = [
            {nests: stage_works(option.turns, nests) for nests in some}
            for option, some in zip(box.options, of_stage, strict=True)
        ]
        turns = [option.turns for option in box.options]
        hoisted, found = hoisted_words(turns), []
        for chosen in product(*of_stage):
            uses = [self._uses(option, nests) for option, nests in zip(box.options, chosen, strict=True)]
            if any(sum(use[at] for use in uses) > words for at, words in enumerate(free)):
                continue
            asked = [known[nests] for known, nests in zip(works, chosen, strict=True)]
            cost = pipeline_cost(turns, self._working, asked, hoisted)
            stages = (layer_cost(one, *nests).energy_pj for one, nests in zip(turns, chosen, strict=True))
            energy = sum(stages) + sum(cost.leakage_pj)
            layers = tuple(zip(box.options, chosen, strict=True))
            found.append(PipelineWay(structure, layers, energy, cost.cycles))
        return found


def _divisions(size: int, stages: int) -> Iterator[tuple[int, ...]]:
    """Every division of so many columns or rows among stages, none without any and none left over.

    A stage with more of them has the same nests and others, so leaving some over is never better.
    """
    for ends in combinations(range(1, size), stages - 1):
        yield tuple(end - begin for begin, end in pairwise((0, *ends, size)))


def _changed(
    of_stages: tuple[tuple[int, ...], ...], stage: int, at: int, words: int
) -> tuple[tuple[int, ...], ...]:
    """The same with so many words of a level for one stage."""
    mine = list(of_stages[stage])
    mine[at] = words
    return (*of_stages[:stage], tuple(mine), *of_stages[stage + 1 :])


def _inside(turns: LayerTurns, sizes: Mapping[str, int], level: int) -> int:
    """Words of what a level holds for a layer, as far as a part of these sizes touches it."""
    return sum(turns.layer.tensor(name).words(sizes) for name, at in turns.held.items() if at == level)


def _times(turns: int, corner: Corner) -> Corner:
    """So many turns that cost this each."""
    return Corner(turns * corner.energy, turns * corner.cycles, tuple(turns * one for one in corner.priced))
