"""Choices of hoisted tiles for all layers of a structure, which have to fit on the chip beside one another.

By itself every layer would hoist whatever spares it most words. Together these tiles often do not fit: what
one layer hoists above a shared loop takes capacity from all layers below that loop. So a structure is bounded
by the least sum over choices that fit, each layer with the capacity that the others leave it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf

from costmodel.mapping.fused.mapping import FusedMapping
from solvers.fusion.layers.corners import Corner
from solvers.fusion.layers.options import NestOption
from solvers.fusion.layers.parts import Parts


class Choices:
    """The choices of one option for every layer below the shared loops of ``shared``.

    ``options``: those of every layer. ``level``: the outermost one of the chip, which keeps hoisted tiles.
    """

    def __init__(
        self, shared: FusedMapping, options: Sequence[Sequence[NestOption]], level: int, parts: Parts
    ) -> None:
        self._shared, self._options, self._level, self._parts = shared, options, level, parts
        self._corners: dict[int, Corner] = {}
        """The least costs of options by their identity, as they were known at ``_asked``."""
        self._asked = -1

    def fits(self, chosen: Sequence[NestOption]) -> bool:
        """Whether the first so many layers can have these options, whatever their nests."""
        taken = self._taken(chosen)
        return all(words <= option.spare for option, words in zip(chosen, taken, strict=False))

    def beside(self, chosen: Sequence[NestOption]) -> list[NestOption]:
        """A choice for all layers, each with the capacity that the tiles of others leave it."""
        taken = self._taken(chosen)
        return [option.beside(words, self._level) for option, words in zip(chosen, taken, strict=True)]

    def _taken(self, chosen: Sequence[NestOption]) -> list[int]:
        others = [()] * (len(self._options) - len(chosen))
        return self._shared.taken_by_others([*(option.take for option in chosen), *others])

    def least(self) -> Corner:
        """The least of each cost over all choices that fit, as is known now; infinite if none does."""
        objective, numbers = self._parts.objective, range(len(self._parts.prices))
        return Corner(
            0.0 if objective == "cycles" else self._least(lambda corner: corner.energy)[0],
            0.0 if objective == "energy" else self._least(lambda corner: corner.cycles)[0],
            tuple(self._least(partial(_priced, number=number))[0] for number in numbers),
        )

    def cheapest(self) -> list[NestOption]:
        """The choice on which the bound rests: the one that has to be better than it seems, if any is.

        Of a product it is the choice that is least at the likeliest price. Empty if no choice fits.
        """
        likeliest, objective = self._parts.likeliest if self._parts.prices else 0, self._parts.objective
        costs: dict[str, Callable[[Corner], float]] = {
            "energy": lambda corner: corner.energy,
            "cycles": lambda corner: corner.cycles,
            "edp": partial(_priced, number=likeliest),
        }
        return self._least(costs[objective])[1]

    def _corner(self, option: NestOption) -> Corner:
        if id(option) not in self._corners:
            self._corners[id(option)] = option.least(self._parts)
        return self._corners[id(option)]

    def _least(self, cost: Callable[[Corner], float]) -> tuple[float, list[NestOption]]:
        """The least sum of a cost over choices that fit, and the choice, empty if none does: by branch and
        bound."""
        if self._asked != self._parts.asked:
            self._corners, self._asked = {}, self._parts.asked
        ordered = [
            sorted(((cost(self._corner(one)), one) for one in some), key=lambda one: one[0])
            for some in self._options
        ]
        rest = [0.0]
        for some in reversed(ordered):
            rest.append(rest[-1] + some[0][0])
        rest.reverse()
        best, found = inf, list[NestOption]()
        chosen: list[NestOption] = []

        def choose(total: float) -> None:
            nonlocal best, found
            if len(chosen) == len(ordered):
                beside = self.beside(chosen)
                value = sum(cost(self._corner(option)) for option in beside)
                if value < best:
                    best, found = value, beside
                return
            for least, option in ordered[len(chosen)]:
                if total + least + rest[len(chosen) + 1] >= best:
                    return
                chosen.append(option)
                if self.fits(chosen):
                    choose(total + least)
                chosen.pop()

        choose(0.0)
        return best, found


def _priced(corner: Corner, number: int) -> float:
    """The least energy with the price of this number on every cycle."""
    return corner.priced[number]
