"""The ``search`` block of a study: how designs are proposed."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from costmodel.formats.yaml.file_keys import Keys
from sweep.study.number_keys import Iterations, Seconds, Seed


class SearchKeys(Keys):
    """Keys of all searches."""

    prune_by_bounds: bool = False
    """Discard a design unsolved where an evaluated one dominates its proven lower bounds; same front."""

    size_key: ClassVar[str] = "axes"
    """The key of the study that says how many designs a search looks at."""

    lists: ClassVar[bool] = True
    """Whether the designs are known before any of them is evaluated."""

    def looks_at(self, family: int) -> int:
        """The most designs that it looks at, of a family of ``family`` designs, without the baseline."""
        return family


class Fidelity(Keys):
    """Two fidelities: a cheaper solver maps every design first, and its answers show where the front may be.

    The study's own solver then maps the designs on that front. Of the others it maps those whose proven
    bounds are not dominated by a design that it has mapped. The front is the same as if it had mapped all
    designs.
    """

    solver: str
    """The mapping solver that looks first, of ``archsweep list solvers``."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Its parameters, by their names in its ``Params``."""
    wall_seconds: Seconds = 20.0
    """Seconds on the clock that one solve of it may take."""
    iterations: Iterations | None = None
    """Steps that one solve of it may take, of solvers that count them. Absent: the clock decides."""
    seed: Seed = 0
    """The seed of solvers that draw."""


class ListingKeys(SearchKeys):
    """Keys of the searches whose designs are known beforehand."""

    fidelity: Fidelity | None = None
    """A cheaper solver that looks at every design first; bounds prune then; same front."""


class GridSearch(ListingKeys):
    """Every design of the space."""

    method: Literal["grid"] = "grid"
    """Look at every design."""


class RandomSearch(ListingKeys):
    """Different designs drawn uniformly."""

    method: Literal["random"]
    """Draw designs."""
    samples: Annotated[int, Field(ge=1)]
    """How many designs."""
    seed: Seed = 0
    """The seed of the draws."""

    size_key = "search.samples"

    def looks_at(self, family: int) -> int:
        return min(self.samples, family)


class Plateau(Keys):
    """When a search ends because its last designs added next to nothing to the hypervolume."""

    trials: Annotated[int, Field(ge=1)]
    """How many of the last evaluated designs are looked at."""
    tolerance: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """The fraction of the hypervolume that they may have added together."""


Sampler = Literal["nsga2", "nsga3", "tpe", "qmc", "random"]


class OptunaSearch(SearchKeys):
    """At most ``trials`` different designs, proposed by one of Optuna's samplers from what was found.

    Designs that break a constraint, or that ``prune_by_bounds`` discards, are among the trials and cost no
    solve.
    """

    method: Literal["optuna"]
    """Have Optuna propose designs."""
    trials: Annotated[int, Field(ge=1)]
    """How many designs at most."""
    sampler: Sampler = "nsga2"
    """Which of Optuna's samplers."""
    population: Annotated[int, Field(ge=2, le=100_000)] | None = None
    """Designs of one generation, for nsga2 and nsga3. Absent: 24."""
    seed: Seed = 0
    """The seed of the sampler."""
    wall_seconds: Seconds | None = None
    """Seconds after which no more designs are proposed; a resumed study counts from 0 again."""
    plateau: Plateau | None = None
    """Stop where the last designs added next to nothing."""
    warm_start: bool = False
    """Begin with the designs of the family nearest to Thistle's relaxed optima."""

    size_key = "search.trials"
    lists = False

    def looks_at(self, family: int) -> int:
        return min(self.trials, family)

    @model_validator(mode="after")
    def _population_of_a_genetic_sampler(self) -> OptunaSearch:
        if self.population is not None and not self.sampler.startswith("nsga"):
            raise ValueError("'population' with the samplers nsga2 and nsga3 only")
        return self


Search = Annotated[GridSearch | RandomSearch | OptunaSearch, Field(discriminator="method")]
