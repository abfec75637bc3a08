"""Map one layer on one architecture: the request, and its answer with the cost model's evaluation."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.cases.mapping import any_mapping_from_json, mapping_to_json
from costmodel.formats.networks import load_layer_for, network_around
from costmodel.hardware.architecture import Architecture
from costmodel.hardware.technology import energy_inversions
from costmodel.mapping.evaluate import Evaluation, evaluate
from costmodel.mapping.uneven import AnyMapping
from costmodel.workload.counting import counting_warnings
from costmodel.workload.network import Layer
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.mapping.problem import MappingProblem, Objective, executed_layer
from solvers.mapping.space.rules import KeepRule, SpaceRules
from solvers.outcome import Outcome, Status
from sweep.solve.parameters import check_named_values, solver_params
from sweep.study.hardware_space import with_hardware_constraints
from sweep.study.identity import with_tolerance
from sweep.study.mapping_space import load_rules
from sweep.study.timeloop_space import is_timeloop_constraints, kind_names, with_timeloop_constraints
from sweep.tasks.mapping import space_content, useful_utilization

FAMILY = "mapping"


@dataclass(frozen=True)
class SpaceOptions:
    """Which mappings are allowed.

    ``constraints`` is a YAML file with the keys of a study's mapping block, or a file of Timeloop
    constraints. ``keep``, ``padding`` and ``uneven`` replace what it says; None leaves a value to the file
    or, where there is none, to the defaults of :class:`SpaceRules`.
    """

    keep: KeepRule | None = None
    padding: float | None = None
    constraints: Path | None = None
    uneven: bool | None = None

    def rules(self, architecture: str, layer: Layer, elsewhere: frozenset[str]) -> SpaceRules:
        """The rules for mappings of ``layer``, constraints of architecture and Timeloop files among them.

        ``architecture`` is a name or a file, empty for an architecture that was not read from a file.
        ``elsewhere`` are the dims and tensors of other layers: constraints may name them, and those that do
        are left out.
        """
        ours, theirs = self.constraints, None
        if ours is not None and is_timeloop_constraints(ours):
            ours, theirs = None, ours
        rules = load_rules(ours) if ours else SpaceRules()
        stated = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "constraints"}
        rules = replace(rules, **{key: value for key, value in stated.items() if value is not None})
        # What the user may choose ends here. The two below only narrow it: what Timeloop's files forbid, and
        # what the hardware cannot do, stays forbidden.
        rules = with_timeloop_constraints(rules, architecture, layer, theirs, elsewhere)
        return with_hardware_constraints(rules, architecture, layer)


@dataclass(frozen=True)
class MappingRequest:
    """A layer, an architecture, a solver, and how it is asked.

    ``layer`` and ``architecture`` are values, or what :func:`load_layer` and :func:`load_architecture` take.
    ``dims`` are symbolic lengths of the layer's ONNX file; ``overrides`` replace values of the architecture's
    file. ``tolerance`` is the gap, a fraction of the objective, at which a solver with bounds may stop.
    """

    architecture: Architecture | str
    layer: Layer | str
    solver: str = "exact"
    objective: Objective = "edp"
    budget: Budget = field(default_factory=Budget)
    params: ReadOnlyDict[str, Any] = field(default_factory=dict)
    tolerance: float | None = None
    space: SpaceOptions = field(default_factory=SpaceOptions)
    overrides: ReadOnlyDict[str, Any] = field(default_factory=dict)
    dims: ReadOnlyDict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key in ("params", "overrides", "dims"):
            check_named_values(key, getattr(self, key))
        for key, value, kind in (
            ("overrides", self.architecture, Architecture),
            ("dims", self.layer, Layer),
        ):
            if getattr(self, key) and isinstance(value, kind):
                article = "an" if kind is Architecture else "a"
                expected = f"none with {article} {kind.__name__} that is built already"
                raise InputError(key, expected, dict(getattr(self, key)), "Name its file instead")

    @cached_property
    def problem(self) -> MappingProblem:
        """The problem to solve; InputError for a file, a name or a rule that is wrong."""
        named = self.architecture if isinstance(self.architecture, str) else ""
        architecture = chosen_architecture(self.architecture, self.overrides)
        layer = chosen_layer(self.layer, architecture, self.dims)
        around = None if isinstance(self.layer, Layer) else network_around(self.layer, self.dims)
        rules = self.space.rules(named, layer, kind_names(layer, around.layers if around else ()))
        try:
            rules.check(architecture, layer)
        except InputError as error:  # which names the rule, but not the file that has it
            raise error.at(str(self.space.constraints or "constraints"), error.where) from None
        return MappingProblem(architecture, layer, self.objective, rules)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the reader of the answer has to know: operators not counted, inner levels that cost more."""
        problem = self.problem
        around = None if isinstance(self.layer, Layer) else network_around(self.layer, self.dims)
        return (*(counting_warnings(around) if around else ()), *energy_inversions(problem.architecture))

    @property
    def checked_params(self) -> Any:
        """The solver's Params; InputError for a solver of another family and for unknown parameters."""
        return solver_params(self.solver, FAMILY, with_tolerance(self.params, self.tolerance))

    def solved(self) -> MappingAnswer:
        """The answer; takes as long as the solver does. Raises InputError as ``problem`` does."""
        problem, params = self.problem, self.checked_params
        outcome = solver(self.solver, FAMILY).load().solve(problem, self.budget, params)
        return MappingAnswer(problem, outcome, self.solver)


@dataclass(frozen=True)
class MappingAnswer:
    """What a solver found for one layer on one architecture, with its proof.

    ``problem`` is what was solved: the architecture, the layer, the objective and the rules of the space.
    ``outcome`` is the solver's whole answer; the properties here are its most used parts. All costs are the
    cost model's.
    """

    problem: MappingProblem
    outcome: Outcome[AnyMapping]
    solver: str

    @property
    def status(self) -> Status:
        """``optimal`` (proven), ``feasible``, ``infeasible`` (proven, ``note`` says why) or ``unknown``."""
        return self.outcome.status

    @property
    def mapping(self) -> AnyMapping | None:
        """The loop nest, its levels innermost first; None where none was found."""
        return self.outcome.solution

    @property
    def objective(self) -> float | None:
        """The mapping's cost in what was minimised: pJ, cycles, or pJ times cycles."""
        return self.outcome.objective

    @property
    def bound(self) -> float | None:
        """A proven lower bound on the objective of every mapping of the space, in the same unit."""
        return self.outcome.bound

    @property
    def gap(self) -> float | None:
        """(objective - bound) / objective; 0: proven to be the best mapping, None: unknown."""
        return self.outcome.gap

    @property
    def note(self) -> str:
        """Why there is no mapping, or which limits the solver reached; often empty."""
        return self.outcome.note

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of the solve."""
        return self.outcome.cpu_seconds

    @cached_property
    def executed_layer(self) -> Layer | None:
        """The layer that the mapping runs: the problem's, its dims padded as the mapping has them."""
        return None if self.mapping is None else executed_layer(self.problem, self.mapping)

    @cached_property
    def evaluation(self) -> Evaluation | None:
        """Energy, cycles and accesses of the mapping, level by level; None without a mapping."""
        if self.mapping is None or self.executed_layer is None:
            return None
        return evaluate(self.problem.architecture, self.executed_layer, self.mapping)

    def to_json(self) -> dict[str, Any]:
        """The JSON object that ``archsweep solve mapping --json`` prints."""
        outcome = self.outcome
        return {
            "status": str(outcome.status),
            "objective": outcome.objective,
            "bound": outcome.bound,
            "gap": outcome.gap,
            "program_proven": outcome.program_proven,
            "solved_by": None if outcome.solution is None else outcome.solved_by or self.solver,
            "space": space_content(self.problem, outcome.solution),
            "cpu_seconds": outcome.cpu_seconds,
            "note": outcome.note,
            **self._measured(),
        }

    def _measured(self) -> dict[str, Any]:
        evaluation, executed, mapping = self.evaluation, self.executed_layer, self.mapping
        if evaluation is None or executed is None or mapping is None:
            return {"mapping": None, "evaluation": None}
        useful = {"useful_utilization": useful_utilization(self.problem, evaluation.cycles)}
        return {
            "mapping": mapping_to_json(self.problem.architecture, executed, mapping),
            "evaluation": evaluation.to_json() | useful,
        }


def chosen_architecture(
    asked: Architecture | str, overrides: ReadOnlyDict[str, Any] | None = None
) -> Architecture:
    """``asked`` itself where it is an architecture, else the architecture of that name or file."""
    if isinstance(asked, Architecture):
        return asked
    _check_name("architecture", "an Architecture, the name of one, or a file", asked)
    return load_architecture(asked, overrides)


def chosen_layer(
    asked: Layer | str, architecture: Architecture, dims: ReadOnlyDict[str, int] | None = None
) -> Layer:
    """``asked`` itself where it is a layer, else the layer of that name or file for the architecture."""
    if isinstance(asked, Layer):
        return asked
    _check_name("layer", "a Layer, NETWORK/LAYER, a file of one layer, or a problem in JSON", asked)
    return load_layer_for(architecture, asked, dims)


def _check_name(key: str, expected: str, asked: object) -> None:
    if not isinstance(asked, str):
        raise InputError(key, expected, asked)


def evaluated(
    layer: Layer | str, architecture: Architecture | str, mapping: AnyMapping | ReadOnlyDict[str, Any]
) -> Evaluation:
    """What a mapping costs; ``mapping`` is a value, or JSON as :meth:`MappingAnswer.to_json` writes it."""
    hardware = chosen_architecture(architecture)
    chosen = chosen_layer(layer, hardware)
    if isinstance(mapping, ReadOnlyDict):
        mapping = any_mapping_from_json(hardware, chosen, dict(mapping))
    if not isinstance(mapping, AnyMapping):
        remedy = "An answer's own is answer.mapping, None where none was found"
        raise InputError("mapping", "a mapping, or its JSON", mapping, remedy)
    return evaluate(hardware, chosen, mapping)
