"""Energy and cycles of a design or of a part of it: what it costs, or what it costs at least."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class EnergyCycles(NamedTuple):
    """Energy in pJ, and cycles: whole for one run, perhaps with a fraction for weighted runs and bounds."""

    energy_pj: float
    cycles: float

    def times(self, runs: float) -> EnergyCycles:
        """What so many runs cost."""
        return EnergyCycles(runs * self.energy_pj, runs * self.cycles)


def sum_of(parts: Iterable[EnergyCycles]) -> EnergyCycles:
    """What the parts cost one after the other."""
    listed = tuple(parts)
    return EnergyCycles(sum(one.energy_pj for one in listed), sum(one.cycles for one in listed))


def least_of(some: Iterable[EnergyCycles]) -> EnergyCycles:
    """The least energy and the least cycles of any, which need not be those of the same one."""
    listed = tuple(some)
    return EnergyCycles(min(one.energy_pj for one in listed), min(one.cycles for one in listed))
