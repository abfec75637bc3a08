"""The ``schedule`` block of a study: how every network is scheduled on the chips of the family."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, ValidationInfo, field_validator, model_validator

from costmodel.errors import InputError
from costmodel.formats.yaml.file_keys import Keys
from solvers.budget import MOST_SEED, Budget
from solvers.catalogue import CATALOGUE, solver
from solvers.mapping.problem import Objective as TileObjective
from solvers.schedule.objective import Objective
from solvers.schedule.tiles.layer_parts import FEW_PARTITIONS, Pruning
from sweep.study.number_keys import Iterations, Seconds, Seed

TILE_LOT = 32
"""Tile parts that a mapping solver maps in one task: enough for seconds of work and for few rows."""
MOST_LAYERS_AT_ONCE = 1_000
"""Networks with more layers that repeat a block have it scheduled once, unless a study says otherwise.

A search over all layers takes as many times longer as there are copies, and most of its steps change one."""
MOST_SEEDS = 10_000
"""The most seeds of one scheduler, and the most epochs: each makes a task for every network and chip."""
ASKING = [entry.name for entry in CATALOGUE if entry.asks_for_costs]
"""Solvers that ask for tile costs while they run; with them layers may have the whole chip by default."""
WITHOUT_DRAWS = [entry.name for entry in CATALOGUE if entry.family == "schedule" and not entry.draws]
"""Solvers that ignore the seed."""


class SchedulerChoice(Keys):
    """A scheduler that schedules every network once for each of its seeds; the best schedule counts."""

    solver: str = "set"
    """A schedule solver of ``archsweep list solvers``."""
    seeds: Annotated[int, Field(ge=1, le=MOST_SEEDS)] = 4
    """How many seeds; 1 for a solver with which every seed gives the same answer."""
    seed: Seed = 0
    """The first seed; the others follow it."""
    epochs: Annotated[int, Field(ge=1, le=MOST_SEEDS)] = 1
    """Parts of the search, between which seeds exchange their best trees; with 1 they do not."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the solver, by their names in its ``Params``."""
    wall_seconds: Seconds = 600.0
    """Seconds on the clock that one seed may take."""
    iterations: Iterations | None = None
    """Steps that one seed may take. Absent: the solver's own number."""

    @model_validator(mode="before")
    @classmethod
    def _default_seeds(cls, keys: Any) -> Any:
        # This runs before the keys are read, because the default of one depends on another. A number in the
        # file replaces the default.
        chosen = keys.get("solver") if isinstance(keys, dict) else None
        return {"seeds": 1, **keys} if chosen in WITHOUT_DRAWS else keys

    @field_validator("seeds")
    @classmethod
    def _seeds_that_differ(cls, seeds: int, read: ValidationInfo) -> int:
        chosen = read.data.get("solver")
        if seeds > 1 and chosen in WITHOUT_DRAWS:
            raise InputError("", f"1, for every seed gives the same answer with {chosen}", seeds)
        return seeds

    @model_validator(mode="after")
    def _last_seed(self) -> SchedulerChoice:
        if (last := self.seed + self.seeds - 1) > MOST_SEED:
            raise InputError("", f"a last seed, seed + seeds - 1, of at most {MOST_SEED}", last, key="seed")
        return self

    @property
    def budgets(self) -> list[Budget]:
        """One for each seed."""
        seeds = range(self.seed, self.seed + self.seeds)
        return [Budget(self.wall_seconds, self.iterations, seed) for seed in seeds]


class ScheduleChoice(SchedulerChoice):
    """A scheduler, what it minimises, and rivals that answer the same question; the best schedule counts.

    What a tile computes is mapped as the study's ``mapping`` block says.
    """

    objective: str = "edp"
    """What a schedule minimises: energy, cycles, edp, or a product of powers such as e2d."""
    batch: Annotated[int, Field(ge=1)] = 1
    """Samples that run together, of networks that name no batch."""
    least_utilization: Annotated[float, Field(ge=0, le=1)] = Pruning.least_utilization
    """A partition of a layer is tried if it uses its tiles to at least this fraction of their time."""
    most_partitions: Annotated[int, Field(ge=1)] | None = Pruning.most
    """How many partitions of a layer are tried. Absent: all, or 8 where each asks a mapping solver."""
    share_weights: bool = False
    """Whether tiles that need the same weights may hold a part of them each, and pass it on."""
    fused_groups: bool = False
    """Whether the layers of a segment may be mapped together: each tile computes its part of all of them, and
    what passes between them stays in its buffer.

    ``fusion_layers`` maps the parts, a minute each at most.
    """
    whole_chip: bool | None = None
    """Whether a layer may have the whole chip, its data in DRAM, mapped on the chip as one stack of levels.

    Absent: if a mapping solver maps the tiles, and the scheduler asks for costs or some layer of the network
    fits no tiles in any other way.
    """
    repeat_blocks: bool | None = None
    """Whether a block of layers that the network repeats is scheduled once, and so for all of its copies.

    Absent: if the network has more than 1,000 layers, some of which repeat, and seeds exchange no trees.
    """
    programs: bool = True
    """Whether the program of every best schedule is written: what each tile does, in order.

    Programs of layers on the whole chip are long: writing one may take longer than finding its schedule. It
    has as many wall seconds; a program that is not written in them is said, and tried again by the next run.
    """
    sibling_trees: bool = True
    """Whether every tree found for one chip is costed on the study's other chips; the best one counts."""
    refinement: Annotated[float, Field(ge=0, le=1)] = 0.25
    """The fraction of its rounds with which a search goes on from a better tree of another chip or a rival.

    0: none goes on. Every seed of ``set`` goes on from that tree, and what it finds is costed on the other
    chips, too.
    """
    rivals: Annotated[tuple[SchedulerChoice, ...], Field(strict=False)] = ()
    """Further schedulers for the same question, each at most once."""

    @field_validator("objective")
    @classmethod
    def _known(cls, objective: str) -> str:
        Objective.named(objective)
        return objective

    @model_validator(mode="after")
    def _refines_what_is_costed(self) -> ScheduleChoice:
        # The default is above 0, too. Only a number that the file states is refused.
        if "refinement" in self.model_fields_set and self.refinement and not self.sibling_trees:
            expected = "0 where sibling_trees is false, for then no tree of another chip is looked at"
            raise InputError("", expected, self.refinement, key="refinement")
        return self

    @model_validator(mode="after")
    def _no_exchange_of_parts(self) -> ScheduleChoice:
        if self.repeat_blocks and any(one.epochs > 1 for one in self.schedulers):
            expected = "false where epochs is above 1, for seeds exchange trees of the whole network"
            raise InputError("", expected, self.repeat_blocks, key="repeat_blocks")
        return self

    @model_validator(mode="after")
    def _each_once(self) -> ScheduleChoice:
        if len(set(names := [one.solver for one in self.schedulers])) < len(names):
            raise InputError("", "every solver once", ", ".join(names), key="rivals")
        return self

    @property
    def schedulers(self) -> tuple[SchedulerChoice, ...]:
        """The solver and its rivals."""
        return (self, *self.rivals)

    @property
    def tile_objective(self) -> TileObjective:
        """What mappings on tiles minimise, unless stated: the nearest to the schedule's objective."""
        return Objective.named(self.objective).of_tiles

    def pruning(self, mapper: str) -> Pruning:
        """Which partitions are tried; by default few where schedulers ask ``mapper`` for mappings."""
        most, asking = self.most_partitions, all(one.solver in ASKING for one in self.schedulers)
        if most is None and asking and solver(mapper).family == "mapping":
            most = FEW_PARTITIONS
        return Pruning(self.least_utilization, most, self.share_weights)

    def repeats_blocks(self, layers: int) -> bool:
        """Whether blocks that a network of ``layers`` layers repeats are scheduled once."""
        if self.repeat_blocks is not None:
            return self.repeat_blocks
        return layers > MOST_LAYERS_AT_ONCE and all(one.epochs == 1 for one in self.schedulers)

    def offers_whole_chip(self, mapper: str) -> bool | None:
        """Whether a layer may have the whole chip, mapped by ``mapper``; None: where some layer needs it.

        InputError where the study states it, and ``mapper`` maps only the parts of layers on tiles.
        """
        maps_layers = solver(mapper).family == "mapping"
        if self.whole_chip and not maps_layers:
            expected = "a mapping solver, for layers on the whole chip"
            remedy = "Name one, or leave `whole_chip` out"
            raise InputError("", expected, mapper, remedy, key="schedule.whole_chip")
        if self.whole_chip is not None:
            return self.whole_chip
        if not maps_layers:
            return False
        return True if any(one.solver in ASKING for one in self.schedulers) else None
