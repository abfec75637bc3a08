"""Simulated annealing of RA trees (SET, section 4.2).

A round changes the current tree by one operator and keeps the change if the objective falls, or, with a
probability that the temperature sets, even if it rises. An annealing can be stopped after any round, stored
and resumed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import log
from random import Random
from typing import Any

from costmodel.limits import limit_reached
from costmodel.schedule.tree.tree import TreeNode
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.budget import Stopwatch
from solvers.schedule.garbage import garbage_rarely
from solvers.schedule.objective import Objective
from solvers.schedule.problem import Evaluator, OperatorCount, tree_value, value_up_to
from solvers.schedule.set.operators.operators import Current, Operators

TRAJECTORY_POINTS = 200
"""About how many points of an annealing's trajectory are kept, equally far apart."""
MOST_DRAWS = 1000
"""A round changes nothing if this many operators in a row do not apply: the tree may be the only one of its
space."""


@dataclass(frozen=True)
class Cooling:
    """The temperature after a fraction x of the rounds: T = initial (1 - x) / (1 + speed x) (section 4.2).

    T has no unit, because an increase of the objective is compared with the objective itself.

    ``initial``, ``speed``: T0 and alpha of section 4.2. ``begun``: the fraction of the cooling that is left
    out at the beginning, so the first round has the temperature T at x = begun. ``jump_at``: after this
    fraction of the rounds the best tree becomes the current one (1: never), as in the released code. Values
    are not checked here but in ``params.py``, where users set them.
    """

    initial: float = 0.07
    speed: float = 8.0
    jump_at: float = 0.9
    begun: float = 0.0

    def temperature(self, done: float) -> float:
        done = self.begun + (1 - self.begun) * done
        return self.initial * (1 - done) / (1 + self.speed * done)


@dataclass(frozen=True)
class AnnealingProgress:
    """An annealing between two rounds, complete: from here it goes on as if it had never stopped.

    ``tree``, ``value``: the current tree and its objective; ``best``, ``best_value``: the best so far.
    ``round``: how many rounds are done. ``random_state``: the state of :class:`random.Random`. ``counts``:
    for each operator how often it was tried, was invalid (the chip cannot run the tree), accepted, and
    better, in the order of the operators' names.
    ``trajectory``: (round, objective of the current tree) of some rounds.
    """

    tree: TreeNode
    value: float
    best: TreeNode
    best_value: float
    round: int
    random_state: tuple[Any, ...]
    counts: tuple[OperatorCount, ...]
    trajectory: tuple[tuple[int, float], ...] = ()
    cpu_seconds: float = 0.0


@dataclass(frozen=True)
class Annealing:
    """Everything about an annealing that stays the same while it runs."""

    operators: Operators
    evaluator: Evaluator
    objective: Objective
    rounds: int
    cooling: Cooling

    def begin(self, tree: TreeNode, random: Random) -> AnnealingProgress:
        """The state before the first round. Raises NotPossibleError where the chip cannot run ``tree``."""
        value = self.value_of(tree)
        counts = tuple(OperatorCount(name) for name in self.operators.names)
        return AnnealingProgress(tree, value, tree, value, 0, random.getstate(), counts, ((0, value),))

    def value_of(self, tree: TreeNode) -> float:
        """The objective of a tree. Raises NotPossibleError where the chip cannot run it."""
        return tree_value(tree, self.evaluator, self.objective)

    def advance(
        self, progress: AnnealingProgress, until: int, stop: Callable[[], bool] = lambda: False
    ) -> AnnealingProgress:
        """The state after ``until`` rounds in all, or earlier if ``stop`` says so; it is asked each round."""
        return _AnnealingRun(self, progress).until(min(until, self.rounds), stop)


class _AnnealingRun:
    """The variables of :meth:`Annealing.advance`: the progress in a form that rounds can change."""

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
        """Rounds until ``end`` of them are done, and the progress then."""
        with garbage_rarely():
            return self._until(end, stop)

    def _until(self, end: int, stop: Callable[[], bool]) -> AnnealingProgress:
        watch, annealing, done = Stopwatch(), self._annealing, self._start.round
        jump = round(annealing.cooling.jump_at * annealing.rounds)
        every = max(1, annealing.rounds // TRAJECTORY_POINTS)
        while done < end and not stop():
            # jump_at = 1 never comes here, as the last round begins with done = rounds - 1
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
        """One round: the first operator drawn that applies makes a tree, which is accepted or not.

        Operators that do not apply are drawn again within the round, so that every round counts a tree.
        """
        annealing = self._annealing
        for _ in range(MOST_DRAWS):
            name, tree = annealing.operators.draw(self._current, self._random)
            if tree is not None:
                break
        else:
            limit_reached("draws of an operator that applies", MOST_DRAWS, "such rounds change nothing")
            return
        counts = self._counts[name]
        counts[0] += 1
        try:
            value = value_up_to(
                tree, annealing.evaluator, annealing.objective, partial(self._most_accepted, temperature)
            )
        except NotPossibleError:
            counts[1] += 1
            return
        if value is None:
            return
        counts[2] += 1
        counts[3] += value < self._value
        self._current, self._value = Current(tree), value
        if value < self._best_value:
            self._best, self._best_value = tree, value

    def _most_accepted(self, temperature: float) -> float:
        """The largest objective that this round accepts, drawn at random; at least the current one.

        An increase d is accepted with probability exp(-d / (T value)). That is the probability that a uniform
        u in (0, 1] is below it: d < -T value log u. So u is drawn first, and d compared with the right side.
        """
        # random() is in [0, 1), so 1 - random() is never 0, of which there is no logarithm
        return self._value * (1 - temperature * log(1 - self._random.random()))
