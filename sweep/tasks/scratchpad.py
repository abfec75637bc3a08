"""Scratchpad tasks: plan one operator graph in a scratchpad of given size, and how a worker answers that."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, cast

from costmodel.scratchpad.divisions import DivisibleGraph, Division, Extent, InputRead, RowWindow
from costmodel.scratchpad.graph import GraphTensor, Operator, OperatorGraph, ScratchpadSettings
from costmodel.scratchpad.plan import Plan
from results.store.schema.rows import ScratchpadColumns, ScratchpadRow
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.outcome import Outcome
from solvers.scratchpad.cutting.solver import VERSION as CUTTING_VERSION
from solvers.scratchpad.cutting.solver import planned as planned_by
from solvers.scratchpad.problem import ScratchpadProblem, cut_of
from sweep import VERSION
from sweep.study.identity import checked_params, content_hash
from sweep.tasks.mapping import VersionMismatchError, check_versions, solve_columns, solve_content


@dataclass(frozen=True)
class ScratchpadSolve:
    """Which solver answers; ``params`` is its complete Params as canonical JSON."""

    solver: str
    params: str
    budget: Budget

    @cached_property
    def content(self) -> dict[str, Any]:
        return solve_content(self.solver, self.params, self.budget)


@dataclass(frozen=True, eq=False)
class PlannedGraph:
    """An operator graph; its content, without its name, and the hash of that are made once for all tasks.

    ``divisible``: what of it a plan may cut; None: nothing.
    """

    graph: OperatorGraph
    divisible: DivisibleGraph | None = None

    @cached_property
    def content(self) -> dict[str, Any]:
        """Operators, tensors and settings as plain JSON data, not to be changed.

        With what may be cut, where anything may: of other graphs the content stays what it was, for stored
        answers are found by its hash.
        """
        data = asdict(self.graph)
        for tensor in data["tensors"]:
            del tensor["parameters"]  # only bands of a cut graph are parts of parameters
        content = {key: data[key] for key in ("operators", "tensors", "settings")}
        if self.divisible is not None:
            cuts = asdict(replace(self.divisible, whole=self.graph))
            content["extents"], content["divisions"] = cuts["extents"], cuts["divisions"]
            content["cutting_version"] = CUTTING_VERSION
        return content

    @cached_property
    def id(self) -> str:
        return content_hash(self.content)

    @cached_property
    def block_bytes(self) -> dict[str, int]:
        return {tensor.name: tensor.block_bytes for tensor in self.graph.tensors}

    @cached_property
    def parameter_bytes(self) -> dict[str, int]:
        return {op.name: op.parameter_bytes for op in self.graph.operators if op.parameter_bytes}


@dataclass(frozen=True, eq=False)
class ScratchpadTask:
    """Plan ``planned`` in a scratchpad of ``budget_bytes``; equal contents have equal :attr:`id`."""

    planned: PlannedGraph
    budget_bytes: int
    solve: ScratchpadSolve

    table = "scratchpads"

    @property
    def content(self) -> dict[str, Any]:
        """What the answer depends on, as plain JSON data: this is what travels to a worker."""
        return {
            "kind": "scratchpad",
            "archsweep_version": VERSION,
            "graph": self.planned.content,
            "budget_bytes": self.budget_bytes,
            **self.solve.content,
        }

    @cached_property
    def id(self) -> str:
        return content_hash(["scratchpad", self.planned.id, self.budget_bytes, self.solve.content])

    @property
    def columns(self) -> ScratchpadRow:
        """The columns of a ``scratchpads`` row that the task decides."""
        own: ScratchpadRow = {
            "graph": self.planned.graph.name,
            "graph_content": self.planned.id,
            "setting": self.planned.content["settings"],
            "budget_bytes": self.budget_bytes,
            "block_bytes": self.planned.block_bytes,
            "parameter_bytes": self.planned.parameter_bytes,
        }
        return own | cast(ScratchpadRow, solve_columns(self.solve.content))


def run_scratchpad_task(content: ReadOnlyDict[str, Any]) -> ScratchpadColumns:
    """Answer a task from its :attr:`ScratchpadTask.content`; runs on a worker, returns plain data.

    Raises VersionMismatchError, and whatever the solver raises: the runtime makes that a failed completion.
    """
    check_versions(content)
    graph = _graph(content["graph"])
    problem = ScratchpadProblem(graph, content["budget_bytes"], _divisible(graph, content["graph"]))
    params = checked_params(content["solver"], content["params"])
    solve = solver(content["solver"]).load().solve
    return _columns(problem, planned_by(problem, Budget(**content["budget"]), solve, params))


def _graph(content: ReadOnlyDict[str, Any]) -> OperatorGraph:
    operators = tuple(
        Operator(
            operator["name"],
            tuple(operator["inputs"]),
            tuple(operator["outputs"]),
            operator["parameter_bytes"],
            tuple((source, target) for source, target in operator["overwrites"]),
        )
        for operator in content["operators"]
    )
    tensors = tuple(GraphTensor(**tensor) for tensor in content["tensors"])
    return OperatorGraph("", operators, tensors, ScratchpadSettings(**content["settings"]))


def _divisible(graph: OperatorGraph, content: ReadOnlyDict[str, Any]) -> DivisibleGraph | None:
    """What of the graph may be cut; None where its content says nothing of it."""
    if "divisions" not in content:
        return None
    found = content["cutting_version"]
    if found != CUTTING_VERSION:
        raise VersionMismatchError(f"cuts of graphs: version {CUTTING_VERSION} here, {found} asked for")
    divisions = tuple(
        Division(**{**division, "reads": tuple(_read(read) for read in division["reads"])})
        for division in content["divisions"]
    )
    return DivisibleGraph(graph, tuple(Extent(**extent) for extent in content["extents"]), divisions)


def _read(data: ReadOnlyDict[str, Any]) -> InputRead:
    window = None if data["window"] is None else RowWindow(**data["window"])
    return InputRead(data["tensor"], window, data["groups"], data["joined_at"])


def _plan(problem: ScratchpadProblem, plan: Plan) -> dict[str, Any]:
    """The plan as plain data; with the bytes of its tensors where they are other ones than the task's."""
    cut = cut_of(problem, plan)
    if cut is None:
        return plan.to_json()
    tensors = cut.graph.tensors
    return {
        **plan.to_json(),
        "block_bytes": {tensor.name: tensor.block_bytes for tensor in tensors},
        "traffic_bytes": {tensor.name: tensor.traffic_bytes for tensor in tensors},
        "recomputed_macs": cut.recomputed_macs,
        "recomputed_elements": cut.recomputed_elements,
    }


def _columns(problem: ScratchpadProblem, outcome: Outcome[Plan]) -> ScratchpadColumns:
    """The columns of a ``scratchpads`` row that the solve decides (``results/store/schema/tables.py``)."""
    return {
        "status": str(outcome.status),
        "objective_bytes": None if outcome.objective is None else round(outcome.objective),
        "bound_bytes": outcome.bound,
        "gap": outcome.gap,
        "plan": None if outcome.solution is None else _plan(problem, outcome.solution),
        "cpu_seconds": outcome.cpu_seconds,
        "wall_seconds": outcome.wall_seconds,
        "note": outcome.note or None,
    }
