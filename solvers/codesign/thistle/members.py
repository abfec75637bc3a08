"""From a relaxed optimum to architectures that can be built (section IV): whole sizes and fan-outs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import floor, inf, log2, prod

from costmodel.hardware.architecture import Architecture
from costmodel.mapping.mapping import Mapping
from solvers.codesign.problem import CodesignProblem
from solvers.codesign.thistle.hardware import FANOUT, SIZE, HardwareVariables
from solvers.codesign.thistle.layer_programs import RelaxedOptimum
from solvers.codesign.thistle.params import Params
from solvers.codesign.thistle.program import CodesignProgram


@dataclass(frozen=True)
class Member:
    """An architecture with whole numbers: sizes (words) and fan-outs (instances) by level name.

    ``relaxed_objective`` is what the layers cost on it with the relaxed optimum's loop orders and real trip
    counts, infinite if these do not fit, or the time was up before that was known."""

    sizes_words: dict[str, int]
    fanouts: dict[str, int]
    relaxed_objective: float


@dataclass(frozen=True)
class Members:
    """The whole architectures near a relaxed optimum of ``problem`` (section IV)."""

    problem: CodesignProblem
    relaxed: RelaxedOptimum
    params: Params

    def ranked(self, seconds_left: Callable[[], float] = lambda: inf) -> list[Member]:
        """All candidates that fit the area, the least relaxed objective first: one for each choice of sizes.

        Fan-outs are as large as the area left by the sizes allows. Instances that no mapping uses cost
        nothing here, and are removed at the end (:func:`trimmed`).

        Each candidate has a program over all layers, and there can be thousands. Once ``seconds_left()`` is
        not above 0 no further candidate is ranked; the first are those whose sizes are the nearest to the
        relaxed ones. The first that fits the area always is one, its objective infinite if no time is left.
        """
        found: list[Member] = []
        for sizes in self._sizes():
            left = seconds_left()
            if found and left <= 0:
                break
            if (fanouts := self._fanouts(sizes)) is not None:
                objective = self._relaxed_objective(sizes, fanouts, left) if left > 0 else inf
                found.append(Member(sizes, fanouts, objective))
        return sorted(found, key=lambda member: member.relaxed_objective)

    def _sizes(self) -> Iterator[dict[str, int]]:
        choices = [self._near(words) for words in self.relaxed.sizes_words.values()]
        for chosen in product(*choices):
            yield dict(zip(self.relaxed.sizes_words, chosen, strict=True))

    def _near(self, words: float) -> list[int]:
        """The ``neighbours`` powers of two whose quotient with ``words`` is nearest to 1; or just
        ``words``."""
        if not self.params.powers_of_two:
            return [max(1, round(words))]
        # Up to 2**41 words, more than any memory on a chip.
        powers = sorted(range(42), key=lambda power: abs(power - log2(words)))
        return [2**power for power in powers[: self.params.neighbours]]

    def _fanouts(self, sizes: dict[str, int]) -> dict[str, int] | None:
        """The fan-outs beside these sizes, or None if even fan-outs of 1 exceed the area.

        The relaxed fan-outs are all scaled down by one factor until they fit, which keeps their proportions.
        Then each in turn is made as large as it can be."""
        fraction, fanouts = 1.0, self._scaled(1.0)
        while not self._fits(sizes, fanouts):
            if set(fanouts.values()) <= {1}:
                return None
            fraction *= 0.95
            fanouts = self._scaled(fraction)
        for name in fanouts:
            fanouts[name] = self._largest(sizes, fanouts, name)
        return fanouts

    def _scaled(self, fraction: float) -> dict[str, int]:
        return {name: max(1, floor(fraction * value + 1e-6)) for name, value in self.relaxed.fanouts.items()}

    def _largest(self, sizes: dict[str, int], fanouts: dict[str, int], name: str) -> int:
        """The largest whole fan-out of a level that fits the area beside the others.

        The area is linear in one fan-out, so one instance more tells how many fit. No layer has work for more
        instances than it has MACs, which is the limit where an instance takes no area."""
        here = fanouts[name]
        area = self._area(sizes, fanouts)
        each = self._area(sizes, fanouts | {name: here + 1}) - area
        most = max(weighted.layer.macs for weighted in self.problem.layers)
        return most if each <= 0 else min(most, here + floor((self.problem.area_um2 - area) / each + 1e-9))

    def _fits(self, sizes: dict[str, int], fanouts: dict[str, int]) -> bool:
        return self._area(sizes, fanouts) <= self.problem.area_um2

    def _area(self, sizes: dict[str, int], fanouts: dict[str, int]) -> float:
        return self._hardware.area.at(_point(sizes, fanouts))

    def _relaxed_objective(self, sizes: dict[str, int], fanouts: dict[str, int], seconds: float) -> float:
        counts = (weighted.occurrences for weighted in self.problem.layers)
        layers = tuple(zip(self.relaxed.costs, counts, strict=True))
        program = CodesignProgram(self._hardware, self.problem.area_um2, self.problem.objective, layers)
        found = program.solve(0, _point(sizes, fanouts), seconds)
        return inf if found is None else found.objective

    @cached_property
    def _hardware(self) -> HardwareVariables:
        return self.relaxed.costs[0].hardware


def _point(sizes: ReadOnlyDict[str, int], fanouts: ReadOnlyDict[str, int]) -> dict[str, float]:
    return {SIZE + name: float(words) for name, words in sizes.items()} | {
        FANOUT + name: float(fanout) for name, fanout in fanouts.items()
    }


def trimmed(
    problem: CodesignProblem, architecture: Architecture, mappings: Sequence[Mapping]
) -> Architecture:
    """``architecture`` with every free fan-out reduced to the largest that one of the ``mappings`` uses."""
    sizes = {
        level.name: level.size_words
        for level in architecture.levels
        if level.name in problem.free_sizes and level.size_words is not None
    }
    used = {
        name: max(_spatial(mapping, architecture.index(name)) for mapping in mappings)
        for name in problem.free_fanouts
    }
    return problem.member(sizes, used)


def _spatial(mapping: Mapping, level: int) -> int:
    return prod(bound for _, bound in mapping.levels[level].spatial)
