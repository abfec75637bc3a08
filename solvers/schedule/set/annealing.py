"""Simulated annealing of RA trees (SET, section 4.2), in chunks that can be stopped, stored and resumed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import log
from random import Random
from typing import Any

from costmodel.limits import limit_reached
from costmodel.schedule.tree.tree import Node
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.budget import Stopwatch
from solvers.schedule.objective import Objective
from solvers.schedule.problem import Evaluator, OperatorCount, TreeCost
from solvers.schedule.set.operators import Current, Operators

TRAJECTORY_POINTS = 200
"""How many points of a phase's trajectory are kept."""
MOST_DRAWS = 1000
"""A round is lost when so many draws do not apply: the tree may be the only one of its space."""


@dataclass(frozen=True)
class Cooling:
    """T = initial (1 - x) / (1 + speed x) after a share x of the rounds; costs are compared relatively.

    ``jump_at``: after that share the best tree becomes the current one (1: never), as in the released code.
    The parameters that it is made from are checked where users set them.
    """

    initial: float = 0.07
    speed: float = 8.0
    jump_at: float = 0.9

    def temperature(self, share: float) -> float:
        return self.initial * (1 - share) / (1 + self.speed * share)


@dataclass(frozen=True)
class AnnealingProgress:
    """An annealing between two rounds, complete: continued from here it goes on as if it had not stopped.

    ``random_state`` is that of :class:`random.Random`. ``counts`` are in the order of the operators' names.
    """

    tree: Node
    value: float
    best: Node
    best_value: float
    round: int
    random_state: tuple[Any, ...]
    counts: tuple[OperatorCount, ...]
    trajectory: tuple[tuple[int, float], ...] = ()
    cpu_seconds: float = 0.0


@dataclass(frozen=True)
class Annealing:
    """What to anneal with: the operators of a space, evaluator, objective, number of rounds, cooling."""

    operators: Operators
    evaluator: Evaluator
    objective: Objective
    rounds: int
    cooling: Cooling

    def begin(self, tree: Node, random: Random) -> AnnealingProgress:
        """Raises NotPossibleError where the first tree is not possible."""
        value = self.value_of(tree)
        counts = tuple(OperatorCount(name) for name in self.operators.names)
        return AnnealingProgress(tree, value, tree, value, 0, random.getstate(), counts, ((0, value),))

    def value_of(self, tree: Node) -> float:
        cost: TreeCost = self.evaluator.evaluate(tree)
        return self.objective.value(cost.energy_pj, cost.cycles)

    def advance(
        self, progress: AnnealingProgress, until: int, stop: Callable[[], bool] = lambda: False
    ) -> AnnealingProgress:
        """Rounds up to number ``until``, or till ``stop`` says so."""
        return _Run(self, progress).until(min(until, self.rounds), stop)


class _Run:
    """The moving parts of :meth:`Annealing.advance`."""

    def __init__(self, annealing: Annealing, progress: AnnealingProgress) -> None:
        self._annealing, self._start = annealing, progress
        self._current, self._value = Current(progress.tree), progress.value
        self._best, self._best_value = progress.best, progress.best_value
        self._random = Random()
        self._random.setstate(progress.random_state)
        self._counts = {
            count.operator: [count.tried, count.invalid, count.accepted, count.better]
            for count in progress.counts
        }
        self._trajectory = list(progress.trajectory)

    def until(self, end: int, stop: Callable[[], bool]) -> AnnealingProgress:
        watch, annealing, done = Stopwatch(), self._annealing, self._start.round
        jump = round(annealing.cooling.jump_at * annealing.rounds)
        every = max(1, annealing.rounds // TRAJECTORY_POINTS)
        while done < end and not stop():
            if done == jump and done > 0:
                self._current, self._value = Current(self._best), self._best_value
            self._round(annealing.cooling.temperature(done / annealing.rounds))
            done += 1
            if done % every == 0 or done == annealing.rounds:
                self._trajectory.append((done, self._value))
        return replace(
            self._start,
            tree=self._current.tree,
            value=self._value,
            best=self._best,
            best_value=self._best_value,
            round=done,
            random_state=self._random.getstate(),
            counts=tuple(OperatorCount(name, *numbers) for name, numbers in self._counts.items()),
            trajectory=tuple(self._trajectory),
            cpu_seconds=self._start.cpu_seconds + watch.cpu_seconds,
        )

    def _round(self, temperature: float) -> None:
        """One tree that an operator makes, taken or left; draws that do not apply cost nothing."""
        for _ in range(MOST_DRAWS):
            name, tree = self._annealing.operators.draw(self._current, self._random)
            if tree is not None:
                break
        else:
            limit_reached("draws of an operator that applies", MOST_DRAWS, "such rounds change nothing")
            return
        counts = self._counts[name]
        counts[0] += 1
        try:
            value = self._annealing.value_of(tree)
        except NotPossibleError:
            counts[1] += 1
            return
        if value > self._most_accepted(temperature):
            return
        counts[2] += 1
        counts[3] += value < self._value
        self._current, self._value = Current(tree), value
        if value < self._best_value:
            self._best, self._best_value = tree, value

    def _most_accepted(self, temperature: float) -> float:
        """Accepting with probability exp(-increase / T) is accepting below a random limit."""
        return self._value * (1 - temperature * log(1 - self._random.random()))
