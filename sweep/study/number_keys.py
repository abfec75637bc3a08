"""Numbers that several blocks of a study have, each with the bounds of the value that is made of it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from solvers.budget import MOST_ITERATIONS, MOST_SECONDS, MOST_SEED

Seconds = Annotated[float, Field(gt=0, le=MOST_SECONDS)]
Iterations = Annotated[int, Field(ge=1, le=MOST_ITERATIONS)]
Seed = Annotated[int, Field(ge=0, le=MOST_SEED)]
