"""Timeloop's hybrid mapper: random factorisations, and of each of them all loop orders in turn.

A thread draws how all dims are factored, what is spread in space and which tensors each level keeps. If the
tiles fit, it evaluates all loop orders of this draw, one after the other, and draws again. It ends once so
many valid mappings in a row were no better than its best: Timeloop's *victory condition*. Loops of one
iteration are not permuted, as that changes nothing. This is the mapper that the evaluations of CoSA (500
mappings, 32 threads) and of Thistle compare with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, islice, permutations, product
from math import inf

import numpy as np
from numpy.typing import NDArray

from costmodel.mapping.batch.batch import BatchEvaluator, MappingBatch
from costmodel.mapping.mapping import Mapping
from solvers.budget import Budget, InTime, Stopwatch
from solvers.checks import check_counts
from solvers.mapping.outcomes import answer, infeasible, unknown
from solvers.mapping.problem import MappingProblem, objective_values
from solvers.mapping.space.layouts import over_layouts
from solvers.mapping.space.obstacles import obstacle
from solvers.mapping.space.padding import over_padded_sizes
from solvers.mapping.space.space import MappingSpace
from solvers.mapping.space.space_bounds import space_bound
from solvers.mapping.untimed import improved_by_timed_cycles
from solvers.outcome import Outcome, noting_limits

VERSION = "1"

DRAWN_AT_ONCE = 256
"""Factorisations drawn and checked at a time. Each has random numbers of its own, so how many are drawn at a
time changes no answer."""

SCANNED_AT_ONCE = 512
"""Loop orders evaluated at a time: about as many as a thread with Timeloop's defaults looks at in vain before
it ends, so few are evaluated that nobody looks at."""

THREAD_BLOCKS = 2**32
"""How far apart the first draws of two threads are numbered. A draw's random numbers follow from its number
and the seed, and no thread comes to the draws of the next one."""


@dataclass(frozen=True)
class Params:
    """The settings of one search; the defaults are those that CoSA's evaluation names.

    * ``threads``: independent searches, of which the best counts. They run one after the other here, so a
      solve takes one core, and the same mappings are looked at.
    * ``victory``: a thread ends after so many valid mappings in a row that are no better than its best.
    * ``orders``: the most loop orders to evaluate of each factorisation; 0: all.
    """

    threads: int = 32
    victory: int = 500
    orders: int = 0

    def __post_init__(self) -> None:
        check_counts("hybrid", self, {"threads": 1, "victory": 1, "orders": 0})


@noting_limits
@improved_by_timed_cycles
@over_layouts
@over_padded_sizes
def solve(problem: MappingProblem, budget: Budget, params: Params = Params()) -> Outcome[Mapping]:
    """The best mapping that any thread found.

    ``budget.iterations`` is the most mappings that all threads together look at, each thread an equal part of
    them; a draw that does not fit counts as one. ``evaluations`` says how many there were. The status is
    OPTIMAL only if the objective meets the cost model's lower bound. Loading the compiled code, which a
    process does once, is not on the clock.
    """
    clock = Stopwatch()
    space = MappingSpace(problem.architecture, problem.layer, problem.rules)
    if reason := obstacle(space):
        return infeasible(reason)
    evaluator = BatchEvaluator(problem.architecture, problem.layer)
    loading = Stopwatch()
    evaluator.evaluate(space.sample(range(1), budget.seed, 1))
    clock = clock.without(loading)

    def in_time() -> bool:
        return clock.wall_seconds < budget.wall_seconds

    best: HybridThread | None = None
    evaluations = 0
    # The first thread runs in any case, so that a budget without time gives an answer, too.
    for number, looks in enumerate(_divided(budget.iterations, params.threads)):
        if number and not in_time():
            break
        thread = HybridThread(problem, space, evaluator, params)
        thread.search(number, budget.seed, looks, in_time)
        evaluations += thread.looked_at
        if best is None or thread.lowest < best.lowest:
            best = thread
    bound = space_bound(problem)
    if best is None or best.found is None:
        note = f"none of {evaluations} mappings drawn was valid; nothing shows that there is none"
        return unknown(note, bound, clock, evaluations)
    return answer(problem, best.found, bound, clock, evaluations=evaluations)


def _divided(iterations: int | None, threads: int) -> Iterator[float]:
    """How many mappings each thread may look at, as equal as whole numbers allow; threads with none are left
    out."""
    for number in range(threads):
        if iterations is None:
            yield inf
        elif looks := iterations // threads + (number < iterations % threads):
            yield looks


@dataclass
class HybridThread:
    """One thread of the search, and what it has found.

    ``found``: its best mapping; ``lowest``: the objective of that one. ``looked_at`` counts mappings,
    ``_unbeaten`` the valid ones since the best.
    """

    problem: MappingProblem
    space: MappingSpace
    evaluator: BatchEvaluator
    params: Params
    found: Mapping | None = None
    lowest: float = inf
    looked_at: int = 0
    _unbeaten: int = field(default=0, init=False)

    @property
    def won(self) -> bool:
        """Whether the last ``victory`` valid mappings were no better than the best."""
        return self._unbeaten >= self.params.victory

    def search(self, number: int, seed: int, looks: float, in_time: InTime) -> None:
        """Draw and scan until victory, ``looks`` mappings, or the end of the time.

        ``number`` is the thread's: it says which draws are its own.
        """
        for start in count(number * THREAD_BLOCKS, DRAWN_AT_ONCE):
            drawn = self.space.sample(range(start, start + DRAWN_AT_ONCE), seed, 1)
            fitting = self.evaluator.evaluate(drawn).valid
            for row in range(DRAWN_AT_ONCE):
                if fitting[row]:
                    self._scan(drawn[slice(row, row + 1)], looks, in_time)
                else:
                    self.looked_at += 1
                if self.won or self.looked_at >= looks:
                    return
            if not in_time():
                return

    def _scan(self, row: MappingBatch, looks: float, in_time: InTime) -> None:
        """Look at the loop orders of one factorisation (``row``, a batch of one), one after the other.

        Orders change no tile, so all of them fit.
        """
        orders = loop_orders(self.space, row)
        listed = islice(orders, self.params.orders or None)
        while chunk := list(islice(listed, SCANNED_AT_ONCE)):
            chunk = chunk[: int(min(len(chunk), looks - self.looked_at))]
            if not chunk:
                return
            batch = row[np.zeros(len(chunk), np.int64)]
            batch.permutation[:] = self.space.reordered(np.array(chunk, np.int8))
            self._look_at(batch)
            if self.won or not in_time():
                return

    def _look_at(self, batch: MappingBatch) -> None:
        """Count the mappings one by one, as a thread does that evaluates them so, until ``victory``.

        What was evaluated beyond that is neither counted nor kept: answers do not depend on the chunk's size.
        """
        values = objective_values(self.evaluator.evaluate(batch), self.problem.objective)
        for row, value in enumerate(values.tolist()):
            self.looked_at += 1
            if value < self.lowest:
                self.lowest, self.found, self._unbeaten = value, batch.mapping(row, self.problem.layer), 0
            else:
                self._unbeaten += 1
                if self.won:
                    return


def loop_orders(space: MappingSpace, row: MappingBatch) -> Iterator[tuple[tuple[int, ...], ...]]:
    """All loop orders of one mapping: for every level an order of all dims, as numbers, innermost first.

    Successive orders differ at the innermost level first. Only loops of more than one iteration are permuted:
    that is Timeloop's pruning. The caller puts right what a user's rules forbid, after which two orders may
    be equal; Timeloop evaluates both, and so does this.
    """
    looped: NDArray[np.bool_] = row.temporal[0] > 1
    levels = [
        [(*order, *np.flatnonzero(~there).tolist()) for order in permutations(np.flatnonzero(there).tolist())]
        for there in looped
    ]
    for chosen in product(*reversed(levels)):
        yield chosen[::-1]
