"""The study file: networks, a family of architectures, solver, objectives and search, checked by pydantic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from costmodel.errors import InputError, NotFoundError, did_you_mean
from costmodel.formats.operator_networks import TRAINING
from costmodel.formats.timeloop.files import each_file
from costmodel.formats.yaml.architecture_document import PrecisionKeys
from costmodel.formats.yaml.file_keys import Keys, check_keys
from costmodel.formats.yaml.safe_yaml import load_yaml, names_a_file
from solvers.budget import Budget
from solvers.mapping.problem import Objective as MappingObjective
from sweep.study.designs.axis import Axis, NumberRange, said_twice
from sweep.study.designs.design_space import Constraint, check_together
from sweep.study.fusion_choice import FusionChoice, SegmentRule, checked_segments
from sweep.study.identity import with_tolerance
from sweep.study.mapping_space import SpaceKeys
from sweep.study.network_choice import (
    NetworkChoice,
    PhaseRuns,
    RequestPhase,
    ServedRequest,
    batch_key,
)
from sweep.study.number_keys import Iterations, Seconds, Seed
from sweep.study.schedule_choice import TILE_LOT, ScheduleChoice
from sweep.study.search_choice import Fidelity, GridSearch, OptunaSearch, Sampler, Search

MOST_EXACT = 2**53
"""The largest number up to which a float holds every whole number."""

MOST_DESIGNS = 1_000_000
"""Designs that one run looks at: planning a million takes minutes, and their answers gigabytes of memory."""

MOST_BATCHES = 64
"""Combinations of the batches of phases: the layers of each are solved on every architecture."""

DesignObjective = Literal[
    "energy_pj",
    "cycles",
    "edp_pj_cycles",
    "latency_seconds",
    "seconds_per_token",
    "joules_per_token",
    "time_to_first_token_seconds",
    "time_per_output_token_seconds",
    "area_um2",
    "off_chip_bytes",
    "off_chip_energy_pj",
    "dram_bytes",
    "noc_hop_bytes",
]


NetworkList = Annotated[list[str | NetworkChoice], Field(min_length=1)]
"""How networks stand in the JSON Schema of study files: by name, or with keys."""


Networks = Annotated[tuple[NetworkChoice, ...], Field(min_length=1, strict=False, validate_default=True)]
"""The networks of a study once it is read; the default is validated, for phases become networks there."""

Fusion = SegmentRule | Literal["none"] | list[list[str]] | FusionChoice
"""How ``fusion`` stands in the JSON Schema of study files: a rule, lists of names of layers, or keys."""

A_TOKEN = ("seconds_per_token", "joules_per_token", "tokens_per_second")
"""What is counted over the tokens that the networks make."""


NOT_MINIMISED = {
    "tokens_per_second": "Write seconds_per_token, its reciprocal, which has the same front",
    "watts": "Limit it: constraints: [watts <= 10]",
}
"""Results that are no objectives, and what to write in their place: the slowest design takes least power."""


class AxisChoices(Keys):
    """The values of one axis: ``choices``, or the numbers ``from`` .. ``to``, stepped or doubled.

    Numbers end at 2**53, the last that every float can tell from its neighbours.
    """

    choices: tuple[Any, ...] | None = Field(default=None, strict=False)
    """The values, each as the architecture or chip file would write it."""
    start: int | None = Field(default=None, alias="from", ge=1, le=MOST_EXACT)
    """The first number of a range."""
    to: int | None = Field(default=None, ge=1, le=MOST_EXACT)
    """The upper limit of the range."""
    step: int | None = Field(default=None, ge=1, le=MOST_EXACT)
    """What is added from one number of the range to the next."""
    powers_of_two: bool = False
    """Whether each number of the range is twice the one before; such a range has no step."""
    unit: str = ""
    """The unit of the numbers of a range, as in 64 KiB."""

    @model_validator(mode="after")
    def _one_form(self) -> AxisChoices:
        is_range = self.start is not None and self.to is not None
        if (self.choices is not None) == is_range or (self.choices is not None and self._range_keys):
            raise ValueError("either 'choices' or a range with 'from' and 'to'")
        if is_range and (self.step is not None) == self.powers_of_two:
            raise ValueError("a range with either 'step' or 'powers_of_two: true'")
        if not self.values():
            raise ValueError("at least one value")
        return self

    @property
    def _range_keys(self) -> bool:
        return any((self.start, self.to, self.step, self.powers_of_two, self.unit))

    @field_validator("choices")
    @classmethod
    def _each_once(cls, choices: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
        if choices is not None and (twice := said_twice(choices)):
            later, earlier = twice
            found = f"{choices[later]!r}, which is {choices[earlier]!r} again"
            raise InputError("", "every value of an axis once", found, "Remove one", key=f"[{later}]")
        return choices

    def values(self) -> Sequence[Any]:
        """The values in their order; those of a stepped range are made as they are asked for."""
        if self.choices is not None:
            return self.choices
        assert self.start is not None
        assert self.to is not None
        if self.step:
            return NumberRange(range(self.start, self.to + 1, self.step), self.unit)
        # a range begins at 1 or above and ends at 2**53, so 64 doublings are always enough
        doubled = [self.start << k for k in range(64) if self.start << k <= self.to]
        return tuple(f"{number} {self.unit}" for number in doubled) if self.unit else tuple(doubled)


class MappingChoice(SpaceKeys):
    """How every layer is mapped: a mapping solver, its parameters, objective, space and budget."""

    solver: str = "exact"
    """A mapping solver of ``archsweep list solvers``."""
    objective: MappingObjective | None = None
    """What a mapping minimises.

    Absent: edp; in a study of chips what is nearest to the schedule's objective.
    """
    params: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the solver, by their names in its ``Params``."""
    tolerance: Annotated[float, Field(ge=0, lt=1)] | None = None
    """The gap at which a solver that proves bounds may stop, as a fraction of the objective."""
    wall_seconds: Seconds = 60.0
    """Seconds on the clock that one solve may take."""
    iterations: Iterations | None = None
    """Steps that one solve may take, of solvers that count them. Absent: the clock decides."""
    seed: Seed = 0
    """The seed of solvers that draw."""

    @property
    def budget(self) -> Budget:
        return Budget(self.wall_seconds, self.iterations, self.seed)

    @property
    def solver_params(self) -> dict[str, Any]:
        """The parameters for the solver, the tolerance among them if there is one."""
        return with_tolerance(self.params, self.tolerance)


class ScratchpadChoice(Keys):
    """Plan every network's tensors in the storage level ``level``, whose size is the scratchpad of a design.

    A plan says in which order the operators run, which tensors leave the scratchpad for a while, and where
    each lies.
    """

    level: str
    """The storage level of the architecture whose size is the scratchpad's."""
    parameters: bool = False
    """Whether parameters (weights) are brought in too: one block, while their operator runs."""
    inputs_on_host: bool = False
    """Whether the host holds the network's inputs, so that dropping one costs nothing."""
    in_place: bool = False
    """Whether an element-wise operator may write its output over an input that nothing reads later."""
    bands: bool = False
    """Whether tensors may be cut into bands of rows or channels: to fit, and to move fewer bytes."""
    bits_per_element: Annotated[int, Field(ge=1)] | None = None
    """Bits of an element of a tensor. Absent: a word of the level."""
    alignment_bytes: Annotated[int, Field(ge=1)] = 1
    """Addresses and sizes are multiples of this."""
    solver: str = "cosma"
    """A scratchpad solver of ``archsweep list solvers``."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the solver, by their names in its ``Params``."""
    wall_seconds: Seconds = 60.0
    """Seconds on the clock that one plan may take."""
    seed: Seed = 0
    """The seed of solvers that draw."""

    @property
    def budget(self) -> Budget:
        return Budget(self.wall_seconds, seed=self.seed)


class Study(Keys):
    """A study: networks, a family of architectures or of chips, and how its designs are found and judged."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    """The study's name, and by default that of its run folder."""
    description: str = ""
    """What it asks, for people."""
    phases: Annotated[tuple[RequestPhase, ...], Field(min_length=1, strict=False)] | None = None
    """The phases of a request that every design serves. Either these or ``networks``."""
    networks: Networks = ()
    """The networks that every design runs, each a name or an entry with keys. Either these or ``phases``."""
    architecture: str = ""
    """What the axes vary: a library architecture or a file. Either this or ``chip``."""
    chip: str = ""
    """What the axes vary: a library chip or a file. Needs ``schedule``."""
    axes: dict[str, AxisChoices] = Field(default_factory=dict)
    """What differs between designs, by keys of the architecture or chip file such as SRAM.size.

    phases.NAME.batch varies how many requests share the runs of a phase.
    """
    baseline: dict[str, Any] | None = None
    """A value for every axis: the design to compare with, solved first; it need not be one of the family."""
    constraints: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """What a design must meet to be on the front.

    Before anything is solved for it: area_um2 <= 3e6, and others of designs. By its results: watts <= 10.
    """
    objectives: Annotated[tuple[DesignObjective, ...], Field(min_length=1, strict=False)] = (
        "energy_pj",
        "cycles",
        "area_um2",
    )
    """What the Pareto front is drawn over; all are minimised."""
    search: Search = GridSearch()
    """How designs are proposed."""
    mapping: MappingChoice = MappingChoice()
    """How every layer is mapped; in a study of chips what a tile computes."""
    fusion: FusionChoice | None = None
    """Which layers are mapped together: none, attention, automatic, lists of names of layers, or keys."""
    scratchpad: ScratchpadChoice | None = None
    """Plan every network's tensors in one storage level."""
    precision: PrecisionKeys | None = None
    """The bits of elements on every design, in place of what the architecture's file says of them."""
    schedule: ScheduleChoice | None = None
    """How every network is scheduled on a chip."""

    # no key of the study: the same study is the same from whatever file it is read
    _file: str = PrivateAttr(default="")

    @property
    def where(self) -> str:
        """What errors call the study: its file where it was read from one, else its name."""
        return self._file or f"study {self.name}"

    @property
    def of_all_designs(self) -> dict[str, Any]:
        """Values by key that replace those of the hardware's file in every design."""
        return {} if self.precision is None else {"precision": self.precision.model_dump(exclude_none=True)}

    def read_from(self, file: str) -> Study:
        """This study, which errors will call by its file."""
        self._file = file
        return self

    @field_validator("phases")
    @classmethod
    def _named_apart(cls, phases: tuple[RequestPhase, ...] | None) -> tuple[RequestPhase, ...] | None:
        names = [phase.name for phase in phases or ()]
        for position, name in enumerate(names):
            if name in names[:position]:
                key = f"[{position}].name"
                raise InputError("", "phases of different names", f"{name} again", key=key)
        return phases

    @field_validator("networks", mode="before", json_schema_input_type=NetworkList)
    @classmethod
    def _names(cls, networks: Any, info: ValidationInfo) -> Any:
        phases = info.data.get("phases")
        if phases and networks:
            remedy = "State each network as a phase: {name: ..., network: ...}"
            raise InputError("", "either 'networks' or 'phases'", "both", remedy)
        if phases:
            return [runs for phase in phases for runs in phase.runs()]
        if not networks and networks != [] and "phases" in info.data:
            raise InputError("", "'networks' or 'phases'", "neither", "Add the key networks")
        if isinstance(networks, list | tuple):
            return [{"network": entry} if isinstance(entry, str) else entry for entry in networks]
        return networks

    @field_validator("networks")
    @classmethod
    def _shown_apart(cls, networks: tuple[NetworkChoice, ...]) -> tuple[NetworkChoice, ...]:
        shown = [network.shown for network in networks]
        for position, name in enumerate(shown):
            if name in shown[:position]:
                expected = "every network once at each batch and dims, under different file names"
                raise InputError("", expected, f"{name} again", "Use 'weight'", key=f"[{position}]")
        return networks

    @field_validator("fusion", mode="before", json_schema_input_type=Fusion | None)
    @classmethod
    def _rule_of_segments(cls, fusion: Any) -> Any:
        if fusion in (None, "none"):
            return None
        return fusion if isinstance(fusion, dict | FusionChoice) else {"segments": checked_segments(fusion)}

    @field_validator("search", mode="before")
    @classmethod
    def _no_sampler_as_method(cls, search: Any) -> Any:
        # pydantic would say that the name is no method; that it is a sampler of one is what helps
        method = search.get("method") if isinstance(search, dict) else None
        if method in get_args(Sampler) and method != "random":
            remedy = f"Write {{method: optuna, sampler: {method}, trials: N}}"
            raise InputError("", "'grid', 'random' or 'optuna'", method, remedy, key="method")
        return search

    @field_validator("constraints")
    @classmethod
    def _parsable(cls, constraints: tuple[str, ...]) -> tuple[str, ...]:
        parsed = []
        for position, text in enumerate(constraints):
            try:
                parsed.append(Constraint.parse(text))
            except InputError as error:
                raise error.at("", f"[{position}]") from None
        check_together(parsed)
        return constraints

    @field_validator("objectives", mode="before")
    @classmethod
    def _minimised(cls, objectives: Any) -> Any:
        for position, name in enumerate(objectives if isinstance(objectives, list | tuple) else ()):
            if isinstance(name, str) and name in NOT_MINIMISED:
                key, remedy = f"[{position}]", NOT_MINIMISED[name]
                raise InputError("", "objectives that a design minimises", name, remedy, key=key)
        return objectives

    @field_validator("objectives")
    @classmethod
    def _different(cls, objectives: tuple[str, ...]) -> tuple[str, ...]:
        for position, name in enumerate(objectives):
            if name in objectives[:position]:
                raise InputError("", "every objective once", f"{name} again", key=f"[{position}]")
        return objectives

    @model_validator(mode="after")
    def _tokens_to_judge_by(self) -> Study:
        for name in self.objectives:
            self._check_counted(name, f"the objective {name}")
        for constraint in self.result_constraints:
            self._check_counted(constraint.quantity, f"the constraint {constraint}")
        return self

    def _check_counted(self, quantity: str, asked: str) -> None:
        """InputError where the study does not say what a ``quantity`` of requests or tokens counts.

        ``asked``: what asks for it.
        """
        request, key = self.request, "networks" if self.phases is None else "phases"
        if quantity in A_TOKEN and request.tokens is None:
            expected = f"'tokens' of a network, for {asked}"
            remedy = "Say 'tokens: 1' of the network that is a decoding step, or 'role: decode' of a phase"
            raise InputError("", expected, "none", remedy, key=key)
        roles = {
            "time_to_first_token_seconds": ("prefill", request.first_token),
            "time_per_output_token_seconds": ("decode", request.output_token),
        }
        role, runs = roles.get(quantity, ("", {"": 1.0}))
        if not runs:
            remedy = f"Say 'role: {role}' of a phase: phases: [{{name: {role}, role: {role}, network: ...}}]"
            raise InputError("", f"a {role} phase, for {asked}", "none", remedy, key=key)

    @model_validator(mode="after")
    def _axes_of_phases(self) -> Study:
        """InputError for axes of phases' batches that no phase has, or that such a study cannot vary."""
        known = [batch_key(phase.name) for phase in self.phases or ()]
        for axis in self.batch_axes:
            key, values = f"axes.{axis.key}", axis.choices
            if axis.key not in known:
                expected = f"the batch of a phase: {', '.join(known) or 'there is none'}"
                raise InputError("", expected, axis.key, did_you_mean(axis.key, known), key=key)
            if wrong := [value for value in values if type(value) is not int or value < 1]:
                raise InputError("", "whole batches of at least 1", wrong[0], key=key)
            if (most := prod(len(axis.choices) for axis in self.batch_axes)) > MOST_BATCHES:
                expected = f"at most {MOST_BATCHES} batches, together with those of other phases"
                raise InputError("", expected, most, "Take powers_of_two", key=key)
            if self.chip or self.scratchpad or self.fusion:
                of = "of chips" if self.chip else f"with a {'scratchpad' if self.scratchpad else 'fusion'}"
                remedy = f"State one batch: phases: [{{name: {axis.key.split('.')[1]}, batch: N, ...}}]"
                raise InputError("", f"no axis of phases in a study {of}", axis.key, remedy, key=key)
            value = (self.baseline or {}).get(axis.key, values[0])
            if value not in values:
                expected = f"a batch of the axis: {', '.join(map(str, values))}"
                raise InputError("", expected, value, key=f"baseline.{axis.key}")
        return self

    @model_validator(mode="after")
    def _architecture_or_chip(self) -> Study:
        if bool(self.architecture) == bool(self.chip):
            found = "both" if self.chip else "neither"
            raise InputError("", "either 'architecture' or 'chip'", found, key="architecture")
        if bool(self.chip) != (self.schedule is not None):
            expected = "a 'schedule' block, for chips" if self.chip else "no 'schedule' without a 'chip'"
            raise InputError("", expected, "none" if self.chip else "one", key="schedule")
        if self.chip and self.scratchpad:
            raise InputError("", "no 'scratchpad' in a study of chips", "one", key="scratchpad")
        if self.chip and self.precision:
            remedy = "Say word_bits, weight_bits and partial_sum_bits in the chip's file"
            raise InputError("", "no 'precision' in a study of chips", "one", remedy, key="precision")
        if self.chip and getattr(self.search, "warm_start", False):
            raise InputError("", "no warm start in a study of chips", "one", key="search.warm_start")
        return self

    @model_validator(mode="after")
    def _fidelity_of_mappings_alone(self) -> Study:
        if self.fidelity is not None and (self.chip or self.scratchpad):
            of = "of chips" if self.chip else "with a scratchpad"
            # nothing cheaper plans or schedules, and bounds of mappings say nothing of bytes that are spilled
            raise InputError("", f"no fidelity in a study {of}", "one", "Leave it out", key="search.fidelity")
        return self

    @model_validator(mode="after")
    def _fusion_of_mappings_alone(self) -> Study:
        """Blocks that a fused mapping has no part in: what is held on the chip is not planned by another."""
        if self.fusion is None:
            return self
        others = {"chip": self.chip, "scratchpad": self.scratchpad, "search.fidelity": self.fidelity}
        for key, block in others.items():
            if block:
                raise InputError("", f"no {key} beside fusion", "both", "Leave one of them out", key=key)
        if self.mapping.constraints:
            expected = "no constraints beside fusion, whose mappings are held to none"
            raise InputError("", expected, "some", "Leave them out", key="mapping.constraints")
        return self

    @model_validator(mode="after")
    def _baseline_on_the_axes(self) -> Study:
        # without a baseline the axes are compared with themselves, and nothing is wrong
        given = self.baseline if self.baseline is not None else self.axes
        axes = ", ".join(self.axes) or "there is none"
        for key in given:
            if key not in self.axes:
                remedy = did_you_mean(key, self.axes)
                raise InputError("", f"one of the axes: {axes}", key, remedy, key=f"baseline.{key}")
        for key in self.axes:
            if key not in given:
                remedy = f"Add the key {key}"
                raise InputError(
                    "", f"a value for each axis: {axes}", "nothing", remedy, key=f"baseline.{key}"
                )
        return self

    @model_validator(mode="after")
    def _off_chip_of_a_scratchpad(self) -> Study:
        asked = {one.quantity: f"the constraint {one}" for one in self.result_constraints}
        asked |= {str(name): f"the objective {name}" for name in self.objectives}
        off_chip = [name for name in asked if name.startswith("off_chip")]
        of_chips = [name for name in asked if name in ("dram_bytes", "noc_hop_bytes")]
        if of_chips and not self.chip:
            raise InputError("", f"a 'chip', for {asked[of_chips[0]]}", "none", key="chip")
        if off_chip and self.scratchpad is None:
            raise InputError(
                "",
                f"a 'scratchpad' block, for {asked[off_chip[0]]}",
                "none",
                "Name its level: scratchpad: {level: SRAM}",
                key="scratchpad",
            )
        return self

    @model_validator(mode="after")
    def _not_too_many_designs(self) -> Study:
        if (asked := self.looks_at) > MOST_DESIGNS:
            sizes = {axis.key: len(axis.choices) for axis in self.axis_values()}
            large = sorted(sizes, key=sizes.__getitem__, reverse=True)[:3]
            found = f"{asked:,} ({', '.join(f'{key}: {sizes[key]:,} values' for key in large)})"
            raise InputError(
                "",
                f"at most {MOST_DESIGNS:,} designs to look at",
                found,
                "Take larger steps or powers_of_two, or fewer samples or trials: search: {method: optuna, "
                "trials: N} and {method: random, samples: N} take a family of any size",
                key=self.search.size_key,
            )
        return self

    @property
    def all_constraints(self) -> tuple[Constraint, ...]:
        """The constraints, read."""
        return tuple(map(Constraint.parse, self.constraints))

    @property
    def result_constraints(self) -> tuple[Constraint, ...]:
        """Those that a design's answers must meet."""
        return tuple(one for one in self.all_constraints if one.of_results)

    @property
    def looks_at(self) -> int:
        """How many designs of the family the search looks at, at most."""
        return self.search.looks_at(prod(len(axis.choices) for axis in self.axis_values()))

    @property
    def solve_seconds(self) -> float:
        """The most wall seconds that the solver of any task may take; of tile costs a lot is one task."""
        blocks = (self.mapping, self.fusion, self.scratchpad, self.schedule, self.fidelity)
        longest = max(block.wall_seconds for block in blocks if block is not None)
        return max(longest, TILE_LOT * self.mapping.wall_seconds) if self.chip else longest

    @property
    def mapping_objective(self) -> MappingObjective:
        """What layers are mapped for: as stated; else EDP, and on tiles what the schedules are made for."""
        if self.mapping.objective is not None:
            return self.mapping.objective
        return "edp" if self.schedule is None else self.schedule.tile_objective

    @property
    def base(self) -> str:
        """The architecture or chip that the axes vary: a library name or a file."""
        return self.architecture or self.chip

    @property
    def solvers(self) -> list[str]:
        """The names of the solvers whose answers are asked for; of chips the schedulers."""
        if self.schedule is not None:
            return [scheduler.solver for scheduler in self.schedule.schedulers]
        blocks = (self.mapping, self.fusion, self.scratchpad, self.fidelity)
        return [block.solver for block in blocks if block is not None]

    @property
    def fidelity(self) -> Fidelity | None:
        """The cheaper solver that looks at every design first; None where there is none."""
        return None if isinstance(self.search, OptunaSearch) else self.search.fidelity

    @property
    def first_look(self) -> Study | None:
        """The same study with the cheaper solver of its search's ``fidelity``; None where it has none."""
        if (first := self.fidelity) is None:
            return None
        asked = first.model_dump() | {"objective": self.mapping_objective, "tolerance": None}
        update = {"mapping": self.mapping.model_copy(update=asked), "search": GridSearch()}
        return self.model_copy(update=update)

    def axis_values(self) -> tuple[Axis, ...]:
        return tuple(Axis(key, axis.values()) for key, axis in self.axes.items())

    @property
    def identity(self) -> dict[str, Any]:
        """The study as plain data with files by their names: the same study wherever its files lie."""
        networks, phases = self.renamed_networks(_name)
        architecture = each_file(self.architecture, _name) if self.architecture else ""
        chip = Path(self.chip).name
        hardware = {"architecture": architecture, "chip": chip}
        by_name = self.model_copy(update={"networks": networks, "phases": phases, **hardware})
        data = by_name.model_dump(mode="json", by_alias=True)
        # studies that do not use what is newer keep the identity that they had
        if self.fidelity is None:
            data["search"].pop("fidelity", None)
        for network in data["networks"]:
            if network["tokens"] is None:
                network.pop("tokens")
        if self.scratchpad is not None and not self.scratchpad.bands:
            data["scratchpad"].pop("bands")
        if self.precision is None:
            data.pop("precision")
        if self.fusion is None:
            data.pop("fusion")
        if self.phases is None:
            data.pop("phases")
        # stated or by default: a study that writes the default down is the same study
        data["mapping"]["objective"] = self.mapping_objective
        return data

    @property
    def request(self) -> ServedRequest:
        """The tokens of a request, and what it waits for."""
        return ServedRequest.of(self.networks)

    @property
    def tokens(self) -> float | None:
        """Tokens that all runs of all networks make, their weights counted; None where no network says."""
        return self.request.tokens

    def network_key(self, position: int) -> str:
        """The key of the study that states the network at ``position``."""
        network = self.networks[position]
        return network.key if isinstance(network, PhaseRuns) else f"networks[{position}]"

    @property
    def batch_axes(self) -> tuple[Axis, ...]:
        """The axes that vary the batch of a phase."""
        return tuple(axis for axis in self.axis_values() if axis.of_phases)

    @property
    def by_batches(self) -> dict[tuple[int, ...], Study]:
        """The study with each combination of the values of its :attr:`batch_axes`, by these values.

        Just itself, by (), where there is no such axis.
        """
        found = {}
        for batches in product(*(axis.choices for axis in self.batch_axes)):
            chosen = dict(zip((axis.key for axis in self.batch_axes), batches, strict=True))
            phases = tuple(
                phase.model_copy(update={"batch": chosen.get(batch_key(phase.name), phase.batch)})
                for phase in self.phases or ()
            )
            networks = tuple(runs for phase in phases for runs in phase.runs())
            found[batches] = self.model_copy(update={"phases": phases, "networks": networks})
        return found if self.batch_axes else {(): self}

    def renamed_networks(
        self, renamed: Callable[[str], str]
    ) -> tuple[tuple[NetworkChoice, ...], tuple[RequestPhase, ...] | None]:
        """The networks and the phases with other names of their networks."""
        networks = tuple(n.model_copy(update={"network": renamed(n.network)}) for n in self.networks)
        if self.phases is None:
            return networks, None
        return networks, tuple(p.model_copy(update={"network": renamed(p.network)}) for p in self.phases)


def _name(file: str) -> str:
    return Path(file).name


def study_names() -> list[str]:
    """The built-in studies."""
    return sorted(f.name.removesuffix(".yaml") for f in _library().iterdir() if f.name.endswith(".yaml"))


def _library() -> Any:
    return files("sweep.studies")


def study_path(name_or_path: str) -> Path:
    """Where a study's file is: a built-in study's name or a path."""
    if name_or_path in study_names():
        return Path(str(_library() / f"{name_or_path}.yaml"))
    path = Path(name_or_path)
    if not names_a_file(path):
        raise NotFoundError(
            "study",
            f"a study file, or a built-in study ({', '.join(study_names())})",
            name_or_path,
            did_you_mean(name_or_path, study_names()),
        )
    return path


def load_study(name_or_path: str) -> Study:
    """Read and check a study; file paths inside it are taken relative to the file's own folder."""
    path = study_path(name_or_path)
    return _resolved(check_keys(Study, load_yaml(path), str(path)), path.parent).read_from(str(path))


def study_of(document: Mapping[str, Any]) -> Study:
    """Check a study that is stated in Python, with the keys and plain values of a study file.

    File paths inside it are taken relative to the current folder. Raises InputError that names the key.
    """
    return _resolved(check_keys(Study, dict(document), "study"), Path())


def file_and_rest(name: str) -> tuple[str, str]:
    """A name split into its file and what may follow that: a member, ``#NAME``, or ``.training``."""
    file, hash_, member = name.partition("#")
    step = TRAINING if file.endswith(TRAINING) else ""
    return file.removesuffix(step), f"{step}{hash_}{member}"


def _resolved(study: Study, folder: Path) -> Study:
    """The study with relative file names made absolute where such a file stands beside the study."""

    def beside(name: str) -> str:
        file, rest = file_and_rest(name)
        return f"{folder.resolve() / file}{rest}" if names_a_file(folder / file) else name

    networks, phases = study.renamed_networks(beside)
    hardware = {
        "architecture": each_file(study.architecture, beside, folder) if study.architecture else "",
        "chip": beside(study.chip) if study.chip else "",
    }
    return study.model_copy(update={"networks": networks, "phases": phases, **hardware})
