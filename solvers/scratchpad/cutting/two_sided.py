"""Plans of a cut graph in one order, with addresses: an arena that keeps long and short residencies apart.

A cut graph has thousands of bands, and a stream through many layers fills the scratchpad to the last bytes.
In the smallest gap that holds it, a sum that lives for a step comes to lie between halos that stay for
hundreds, and leaves a hole that fits nothing else. So a band that is read for the last time many steps
later goes to the lowest free address, and any other one to the highest::

    | halo | halo | halo | halo |    free    | sum | row |
       read much later -->               <-- read soon

What is far differs from cut to cut, and so does what had better leave where no gap is large enough, so
several plans are made, and the one that moves the fewest bytes counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from costmodel.scratchpad.plan import Plan
from solvers.budget import InTime
from solvers.scratchpad.comparison import ArenaRun
from solvers.scratchpad.packed import cheaper
from solvers.scratchpad.problem import ScratchpadProblem, objective_of
from solvers.scratchpad.replacement import Schedule

ARENAS = tuple(product((300, 100, 30, 50, 8, 15), (True, False)))
"""Steps from which on a last read is far, and whether prices decide what leaves."""
FIRST_ARENAS = ARENAS[:1]


def two_sided_plans(
    problem: ScratchpadProblem,
    schedule: Schedule,
    target: float,
    in_time: InTime,
    arenas: Sequence[tuple[int, bool]] = ARENAS,
) -> Plan | None:
    """The best plan found; the search ends with one that moves no more than ``target`` bytes."""
    best = None
    for far, by_price in arenas:
        run = _TwoSided(problem, schedule, far, by_price)
        if not all(in_time() and run.step(operator) for operator in schedule.order):
            continue
        best = cheaper(problem, best, run.plan())
        if best is not None and objective_of(problem, best) <= target:
            break
    return best


class _TwoSided(ArenaRun):
    """``far``: steps; ``by_price``: those neighbours leave that cost the least, a band read later less."""

    def __init__(self, problem: ScratchpadProblem, schedule: Schedule, far: int, by_price: bool) -> None:
        super().__init__(problem, schedule, "belady")
        self.far, self.by_price = far, by_price

    def allocate(self, name: str, size: int) -> bool:
        gaps = [hole for hole in self.arena.holes({}) if hole.end - hole.start >= size]
        if not gaps:
            return False
        # parameters are no tensor, and stay for one step
        last = self.uses[self.index[name]][-1] if name in self.index else self.executed
        if last - self.executed >= self.far:
            address = min(hole.start for hole in gaps)
        else:
            address = max(hole.end for hole in gaps) - size
        self.arena.blocks[name] = address, size
        return True

    def victims(self, size: int, pinned: set[str]) -> tuple[str, ...]:
        if not self.by_price:
            return super().victims(size, pinned)
        prices = {
            name: self.price(name) / max(1, self.next_use(name) - self.executed)
            for name in self.arena.blocks
            if name not in pinned
        }
        return self.cheapest_run(size, prices)
