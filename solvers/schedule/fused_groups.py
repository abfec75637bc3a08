"""Costs of groups of layers that are mapped together on every tile: which are offered, and what each costs.

Of each group the likeliest ways to divide it among the tiles are tried. What is left for a tile is mapped by
a solver of fused layers on the tile's levels below DRAM
(:func:`costmodel.hardware.whole_chip.searched_tile_stack`), and what that costs the chip is counted by
:func:`costmodel.schedule.fused_groups.cost.fused_group_cost`. The best by E^n D^m counts, so a group has a
cost for each objective.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property

from costmodel.errors import InputError
from costmodel.hardware.chip import Chip
from costmodel.hardware.whole_chip import searched_tile_stack, tile_stack
from costmodel.mapping.fused.layers.group import GroupMapping, LayerGroup
from costmodel.schedule.fused_groups.cost import FusedGroupCost, fused_group_cost, works_outside
from costmodel.schedule.fused_groups.cuts import CutGroup, GroupCut, coming_words, cuts_of
from costmodel.schedule.fused_groups.members import ChipGroup, candidate_groups, chip_group
from costmodel.schedule.layer_graph.graph import LayerGraph
from solvers.budget import Budget
from solvers.divisors import divisors
from solvers.fusion.layers import solver as fusion_layers
from solvers.fusion.layers.problem import LayerFusionProblem
from solvers.fusion.problem import FusionObjective
from solvers.schedule.objective import Objective

LONGEST = 3
"""The most layers with products of a group."""
TOLERANCE = 0.01
"""The gap at which a part's mapping is good enough: what its solver sees of a chip is less exact."""
SECONDS = 60.0
"""Seconds on the clock that one part may take."""
MOST_CUTS = 2
"""How many ways to divide a group among the tiles are mapped."""

GroupKey = tuple[frozenset[str], int]
"""The names of a group's layers, and the samples that it runs."""


def can_have_groups(chip: Chip) -> bool:
    """Whether fused mappings are counted on the chip's tiles: levels without timing or precision."""
    tile = chip.tile.architecture
    return tile is not None and tile.timing is None and tile.precision is None


def check_groups(chip: Chip) -> None:
    """InputError for a chip whose tiles no fused mapping is counted on."""
    if not can_have_groups(chip):
        expected = "tiles with an architecture, without timing and precision, for fused groups"
        raise InputError(
            f"chip {chip.name}", expected, "others", "Leave fused_groups out", key="fused_groups"
        )


def groups_of(graph: LayerGraph, chip: Chip, batch: int, longest: int = LONGEST) -> list[ChipGroup]:
    """All groups of neighbouring layers that are offered for ``batch`` samples, on one tile's levels."""
    stack = tile_stack(chip)
    assert stack is not None, "checked by check_groups"
    found = (chip_group(graph, numbers, batch, stack) for numbers in candidate_groups(graph, longest))
    return [group for group in found if group is not None]


def names_of(graph: LayerGraph, group: ChipGroup) -> frozenset[str]:
    """The names of a group's layers, by which schedules ask for it."""
    return frozenset(graph.layers[number].name for number in group.numbers)


@dataclass(frozen=True)
class GroupQuestion:
    """A way to divide a group among tiles, and ``asked``: each tile's part on the levels that solvers see."""

    cut: CutGroup
    asked: LayerGroup


def questions_of(chip: Chip, group: ChipGroup, most: int = MOST_CUTS) -> Iterator[GroupQuestion]:
    """The likeliest ways to divide a group among tiles, as questions for a solver of fused layers."""
    for cut in cuts_of(group.group, (chip.columns, chip.rows), most):
        # of the words that tiles take in, those that several need are read once for all of them
        whole = CutGroup(group.group, ())
        share = min(1.0, coming_words(whole) / (cut.tiles * coming_words(cut)))
        stack = searched_tile_stack(chip, cut.tiles, share)
        assert stack is not None, "checked by check_groups"
        yield GroupQuestion(cut, replace(cut.part, architecture=stack))


@dataclass(frozen=True)
class GroupAnswer:
    """How tiles divide a group, and the ``mapping`` of each tile's part; None where a solver found none."""

    cut: GroupCut
    mapping: GroupMapping | None


def best_cost(
    chip: Chip,
    graph: LayerGraph,
    group: ChipGroup,
    answers: Iterable[GroupAnswer],
    objective: Objective,
) -> FusedGroupCost | None:
    """The best cost of a group by the objective, of all answers to its questions; None without any."""
    found = [
        fused_group_cost(chip, graph, group, answer.cut, answer.mapping)
        for answer in answers
        if answer.mapping is not None and works_outside(group, answer.mapping) is None
    ]

    def value(one: FusedGroupCost) -> float:
        energy_pj = one.whole.energy_pj + chip.idle_pj_per_cycle * one.whole.cycles
        return objective.value(energy_pj, one.whole.cycles)

    return min(found, key=value, default=None)


@dataclass(frozen=True)
class FusedGroupCosts:
    """The groups that segments of a schedule may be, and what each costs; others are none.

    ``known``: costs that are there; None for a group without a mapping. ``solve``: finds the cost of a group
    that is not known; its answers are remembered.
    """

    known: Mapping[GroupKey, FusedGroupCost | None]
    solve: Callable[[GroupKey], FusedGroupCost | None] | None = None
    offered: AbstractSet[frozenset[str]] = frozenset()
    """Groups that ``solve`` may be asked for, by the names of their layers."""
    _solved: dict[GroupKey, FusedGroupCost | None] = field(default_factory=dict)

    @cached_property
    def groups(self) -> frozenset[frozenset[str]]:
        """All groups that a segment may be, by the names of their layers."""
        return frozenset(self.offered) | frozenset(names for names, _ in self.known)

    def cost(self, names: frozenset[str], batch: int) -> FusedGroupCost | None:
        """What these layers cost together; None where they are no group, or have no mapping."""
        key = names, batch
        if key in self.known:
            return self.known[key]
        if self.solve is None or names not in self.offered:
            return None
        if key not in self._solved:
            self._solved[key] = self.solve(key)
        return self._solved[key]


@dataclass(frozen=True)
class GroupMapper:
    """How each tile's part of a group is mapped: for which ``objective``, in which ``budget``."""

    objective: FusionObjective
    budget: Budget = field(default_factory=lambda: Budget(SECONDS))
    tolerance: float = TOLERANCE

    def mapping(self, question: GroupQuestion) -> GroupMapping | None:
        """The best mapping that ``fusion_layers`` finds; None where there is none."""
        problem = LayerFusionProblem(question.asked, self.objective, LONGEST)
        return fusion_layers.solve(problem, self.budget, fusion_layers.Params(self.tolerance)).solution


def solved_groups(
    graph: LayerGraph, chip: Chip, batch: int, mapper: GroupMapper, objective: Objective
) -> FusedGroupCosts:
    """The costs of all groups that are offered, solved in this process when a segment first asks.

    InputError for a chip whose tiles no fused mapping is counted on.
    """
    check_groups(chip)
    every = {
        (names_of(graph, group), samples): group
        for samples in divisors(batch)
        for group in groups_of(graph, chip, samples)
    }

    def solve(key: GroupKey) -> FusedGroupCost | None:
        if key not in every:
            return None
        questions = questions_of(chip, every[key])
        answers = (GroupAnswer(one.cut.cut, mapper.mapping(one)) for one in questions)
        return best_cost(chip, graph, every[key], answers, objective)

    return FusedGroupCosts({}, solve, frozenset(names for names, _ in every))
