"""Plan one network's tensors in one scratchpad: the request, and the plan with its off-chip bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from costmodel.errors import InputError
from costmodel.formats.networks import load_network
from costmodel.scratchpad.cut import CutGraph
from costmodel.scratchpad.divisions import divisible_graph
from costmodel.scratchpad.graph import OperatorGraph, ScratchpadSettings, operator_graph
from costmodel.scratchpad.plan import Plan
from costmodel.workload.counting import size_warnings
from costmodel.workload.network import Network
from solvers.budget import Budget, Stopwatch
from solvers.catalogue import solver
from solvers.outcome import Outcome, Status
from solvers.scratchpad.budgets import budget_bytes
from solvers.scratchpad.cutting.solver import planned
from solvers.scratchpad.problem import ScratchpadProblem, cut_of
from sweep.solve.parameters import check_named_values, solver_params

FAMILY = "scratchpad"


@dataclass(frozen=True)
class ScratchpadRequest:
    """A network, the size of a scratchpad, a solver, and how it is asked.

    ``network`` is a value, or the name of a library network or a file, which ``batch`` and ``dims`` complete.
    ``size`` is the scratchpad's: a number of bytes as text, or MR, MH, MP (:func:`budget_bytes`). ``budget``
    limits the solve. ``bands``: tensors may be cut into bands of rows or channels
    (:mod:`costmodel.scratchpad.cut`).
    """

    network: Network | str
    size: str
    solver: str
    settings: ScratchpadSettings
    budget: Budget
    params: Mapping[str, Any] = field(default_factory=dict)
    batch: int | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    bands: bool = False

    def __post_init__(self) -> None:
        for key in ("params", "dims"):
            check_named_values(key, getattr(self, key))
        if isinstance(self.network, Network) and (self.batch is not None or self.dims):
            key, found = ("batch", self.batch) if self.batch is not None else ("dims", dict(self.dims))
            raise InputError(key, "none with a Network that is built already", found, "Name its file instead")

    @cached_property
    def chosen_network(self) -> Network:
        """The request's network, loaded where it is a name or a file."""
        if isinstance(self.network, Network):
            return self.network
        return load_network(self.network, self.batch, self.dims)

    @cached_property
    def graph(self) -> OperatorGraph:
        """The network as operators and tensors with sizes in bytes: what is planned."""
        return operator_graph(self.chosen_network, self.settings)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the reader of the answer has to know: tensors whose size is not known."""
        return size_warnings(self.chosen_network)

    def solved(self) -> ScratchpadAnswer:
        """The answer; takes as long as the solver does.

        For the sizes MH and MP the minimum peak has to be found first. That takes at most a quarter of the
        budget's seconds more, and counts in ``cpu_seconds``.
        """
        # Both may be wrong, and a mistake is to be said before anything is solved.
        params, graph = solver_params(self.solver, FAMILY, self.params), self.graph
        watch = Stopwatch()
        size = budget_bytes(graph, self.size, self.budget.wall_seconds / 4)
        divisible = divisible_graph(self.chosen_network, self.settings) if self.bands else None
        problem = ScratchpadProblem(graph, size.size_bytes, divisible)
        outcome = planned(problem, self.budget, solver(self.solver).load().solve, params)
        return ScratchpadAnswer(problem, outcome, watch.cpu_seconds, size.note)


@dataclass(frozen=True)
class ScratchpadAnswer:
    """What a solver found for one network and one scratchpad, with its proof.

    ``problem`` holds the operator graph and the scratchpad's size in bytes, ``outcome`` the solver's whole
    answer. ``cpu_seconds`` include finding the size; ``size_note`` says what was not proven about a size that
    was asked for by name.
    """

    problem: ScratchpadProblem
    outcome: Outcome[Plan]
    cpu_seconds: float
    size_note: str = ""

    @property
    def status(self) -> Status:
        """``optimal`` (proven), ``feasible``, ``infeasible`` (proven, ``note`` says why) or ``unknown``."""
        return self.outcome.status

    @property
    def plan(self) -> Plan | None:
        """The order of the operators and the addresses of the tensors; None where none was found."""
        return self.outcome.solution

    @property
    def objective(self) -> int | None:
        """Bytes that the plan spills and retrieves, beyond what every plan moves."""
        return _whole(self.outcome.objective)

    @property
    def bound(self) -> int | None:
        """A proven lower bound on those bytes for every plan."""
        return _whole(self.outcome.bound)

    @property
    def gap(self) -> float | None:
        """(objective - bound) / objective; 0: proven to be the best plan, None: unknown."""
        return self.outcome.gap

    @property
    def cut(self) -> CutGraph | None:
        """The graph that the plan is of, where it has cuts: its pieces, and what they make more than once."""
        return None if self.plan is None else cut_of(self.problem, self.plan)

    @property
    def budget_bytes(self) -> int:
        """The scratchpad's size in bytes."""
        return self.problem.budget_bytes

    @property
    def note(self) -> str:
        """Why there is no plan, or which limits were reached; often empty."""
        return "; ".join(note for note in (self.size_note, self.outcome.note) if note)

    def to_json(self) -> dict[str, Any]:
        """The JSON object that ``archsweep solve scratchpad --json`` prints."""
        cut = self.cut
        again = cut and {
            "recomputed_macs": cut.recomputed_macs,
            "recomputed_elements": cut.recomputed_elements,
        }
        return {
            **(again or {}),
            "status": str(self.status),
            "objective_bytes": self.objective,
            "bound_bytes": self.bound,
            "gap": self.gap,
            "cpu_seconds": self.cpu_seconds,
            "budget_bytes": self.budget_bytes,
            "plan": self.plan and self.plan.to_json(),
            "note": self.note,
        }


def _whole(size_bytes: float | None) -> int | None:
    return None if size_bytes is None else round(size_bytes)
