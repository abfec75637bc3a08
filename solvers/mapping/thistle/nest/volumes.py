"""The expressions of one tiling as arrays. Each is made once and used by all programs of the tiling."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import inf

from costmodel.workload.network import Tensor
from solvers.mapping.thistle.convex.program import Posynomial
from solvers.mapping.thistle.convex.signomial import Signomial
from solvers.mapping.thistle.nest.expressions import Expressions, Order
from solvers.mapping.thistle.nest.tiling import Tiling


class Volumes:
    """Algorithm 1's volumes, footprints and trip counts in the logarithms of a tiling's variables."""

    def __init__(self, tiling: Tiling) -> None:
        self.tiling = tiling
        self.names = [choice.name for choice in tiling.choices]
        self._made: dict[tuple[object, ...], Posynomial] = {}

    def delivered(self, tensor: Tensor, level: int, outside: tuple[Order | None, ...]) -> Posynomial:
        """DV: words into one instance of ``level``; ``outside`` are the orders of the levels outside it."""
        orders = (*((),) * (level + 1), *outside)
        return self._once(
            ("delivered", tensor.name, level, outside),
            lambda: self._expressions.delivered(tensor, level, orders),
        )

    def groups(self, tensor: Tensor, level: int) -> Posynomial:
        """Different tiles of the tensor below one instance of ``level``."""
        return self._once(("groups", tensor.name, level), lambda: self._expressions.groups(tensor, level))

    def instances(self, level: int) -> Posynomial:
        """Instances of ``level`` in use."""
        return self._once(("instances", level), lambda: self._expressions.instances(level))

    @cached_property
    def compute_cycles(self) -> Posynomial:
        """Temporal iterations of all loops."""
        return self._numeric(self._expressions.compute_cycles())

    @cached_property
    def fills(self) -> tuple[Posynomial, ...]:
        """The capacity constraints (Eq. 3): the words of each limited level's kept tiles over its own."""
        found = []
        for index, level in enumerate(self.tiling.space.architecture.levels):
            tiles = [
                self._numeric(self._expressions.footprint(tensor, index))
                for tensor in self.tiling.layer.tensors
                if tensor.name in self.tiling.keep[index]
            ]
            if tiles and level.usable_words < inf:
                found.append(self.total(tiles).scaled(1 / level.usable_words))
        return tuple(found)

    def constant(self, value: float) -> Posynomial:
        """A number as a posynomial in the tiling's variables."""
        return self._numeric(Signomial((((), value),)))

    def total(self, parts: list[Posynomial]) -> Posynomial:
        """The sum of ``parts``."""
        return Posynomial.total(parts, len(self.names))

    @property
    def _expressions(self) -> Expressions:
        return self.tiling.expressions

    def _once(self, key: tuple[object, ...], expression: Callable[[], Signomial]) -> Posynomial:
        if key not in self._made:
            self._made[key] = self._numeric(expression())
        return self._made[key]

    def _numeric(self, expression: Signomial) -> Posynomial:
        return Posynomial.of(expression, self.names)
