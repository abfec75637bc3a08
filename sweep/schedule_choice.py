"""The ``schedule`` block of a study: how every network is scheduled on the chips of the family."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, field_validator

from costmodel.frontends.file_keys import Keys
from solvers.budget import Budget
from solvers.schedule.objective import Objective


class ScheduleChoice(Keys):
    """Schedule every network with ``seeds`` seeds, ``seed`` the first; the best schedule counts.

    ``batch``: samples of networks that name none; ``objective``: energy, cycles, edp, or a product as e2d;
    ``tiles``: what maps a tile's share of a layer.
    """

    solver: str = "set"
    objective: str = "edp"
    batch: Annotated[int, Field(ge=1)] = 1
    seeds: Annotated[int, Field(ge=1)] = 4
    seed: Annotated[int, Field(ge=0)] = 0
    params: dict[str, Any] = Field(default_factory=dict)
    wall_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False, strict=False)] = 600.0
    iterations: Annotated[int, Field(ge=1)] | None = None

    @field_validator("objective")
    @classmethod
    def _known(cls, objective: str) -> str:
        Objective.named(objective)
        return objective

    @property
    def budgets(self) -> list[Budget]:
        """One for each seed."""
        seeds = range(self.seed, self.seed + self.seeds)
        return [Budget(self.wall_seconds, self.iterations, seed) for seed in seeds]
