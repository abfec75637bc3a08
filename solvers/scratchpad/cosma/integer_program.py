"""COSMA's integer program as the paper prints it (Eqs. 1-12), on CP-SAT: a cross-check on small graphs.

Binaries for each tensor a and timestep t say that it is created (C), preserved from the step before (P),
spilled (S) or retrieved (R); the integers L are addresses::

    C + P + S + R <= 1                                   at most one action                    (Eq. 1)
    P[a, t] <= C + P + R at t - 1                        preserved only if it was there        (Eq. 2)
    S[a, t] <= C + P at t - 1                            spilled only from the scratchpad      (Eq. 3)
    R[a, t] <= sum of S up to t                          retrieved only after a spill          (Eq. 4)
    C[a, t] <= P[b, t] + R[b, t], b an input of a        an operator's inputs are resident     (Eq. 5)
    C[a, t] = C[b, t], a and b siblings                  outputs are made together             (Eq. 6)
    sum of C[a, t] over t = 1                            created once                          (Eq. 7)
    sum of S[a, t] over t <= 1                           spilled once at most                  (Eq. 8)
    L[a, t] + size[a] <= capacity                        addresses within the scratchpad       (Eq. 9)
    L[a, t] + size[a] <= L[b, t] or the reverse          residents do not overlap              (Eq. 10)
    L[a, t] = L[a, t - 1] where P[a, t]                  no move while it stays                (Eq. 11)
    minimise the sum of (S + R) * size                   off-chip bytes                        (Eq. 12)

Three things are added: one operator a timestep (Section III-A); an operator runs only at timesteps that its
ancestors and descendants leave it (Section III-F); a tensor comes back only after a step away, as the cost
model replays it. Network inputs differ: one may be created at the very step that reads it (Eq. 5), and one
that the host keeps is retrieved without a spill (Eq. 4). Eq. 11 is read with P at t, as its prose says.

Every step of this program runs an operator, while plans may also have steps in which none does, where tensors
leave to come back at other addresses (:data:`costmodel.scratchpad.plan.IDLE`). So what Eqs. 9-11 add to the
bytes is proven for the program, not for all plans. Without addresses such steps are of no use: the optimum of
the other equations, with a sum of sizes a timestep in place of Eqs. 9-11, is a bound on every plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from costmodel.errors import InputError
from costmodel.scratchpad.plan import Plan, Residency, TensorPlan
from solvers.budget import Budget, Deadline, OutOfTimeError, Stopwatch
from solvers.checks import check_switches
from solvers.outcome import Outcome, noting_limits
from solvers.scratchpad.masks import GraphMasks, bits
from solvers.scratchpad.problem import ScratchpadProblem, answer, below_requirement, unknown

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    Table = dict[tuple[int, int], cp_model.IntVar]
    """A variable a (tensor, timestep)."""

VERSION = "4"


@dataclass(frozen=True)
class Params:
    """``allocation`` off puts a sum of sizes a timestep in place of Eqs. 9-11: then there is no plan.

    The outcome is UNKNOWN, with a bound that had all of the time.
    """

    allocation: bool = True

    def __post_init__(self) -> None:
        check_switches("cosma_ilp", self, "allocation")


@noting_limits
def solve(problem: ScratchpadProblem, budget: Budget, params: Params = Params()) -> Outcome[Plan]:
    """The program's best solution; ``program_proven``: whether it is the program's optimum.

    The bound, on all plans, is what is proven without addresses, in half of the time. OPTIMAL where the
    solution meets it. INFEASIBLE if ``problem.budget_bytes`` are below MR, the bytes that the hungriest
    operator needs by itself. UNKNOWN if the program has no solution, or if ``budget.wall_seconds`` end before
    there is one.

    Raises InputError for in-place operators, which the paper's program does not have.
    """
    if problem.graph.settings.in_place:
        remedy = "Use cosma, fixed_schedule, divide or peak"
        raise InputError("cosma_ilp", "no in-place operators", True, remedy, key="in_place")
    watch, deadline = Stopwatch(), Deadline(budget.wall_seconds)
    if refused := below_requirement(problem, watch):
        return refused
    bound = 0.0
    try:
        program = _PaperProgram(problem, deadline)
        bound = program.least_bytes(budget.seed, deadline.left / 2 if params.allocation else deadline.left)
        if not params.allocation:
            return unknown("without Eqs. 9-11 there is no plan, only a bound", watch, bound)
        program.allocate()
    except OutOfTimeError as late:
        return unknown(f"writing down the program: {late}", watch, bound)
    return program.outcome(budget.seed, bound, watch)


class _PaperProgram:
    """The program, at first without Eqs. 9-11, which :meth:`allocate` adds.

    Its tensors are the graph's, then each operator's parameters, which are only created.

    Raises OutOfTimeError if it is not written down by the ``deadline``: its rows grow with the cube of the
    operators.
    """

    def __init__(self, problem: ScratchpadProblem, deadline: Deadline) -> None:
        from ortools.sat.python import cp_model

        self.problem, self.graph, self.deadline = problem, problem.graph, deadline
        self.model = cp_model.CpModel()
        self.steps = len(self.graph.operators)
        self.held = [v for v, operator in enumerate(self.graph.operators) if operator.parameter_bytes]
        self.sizes = [tensor.block_bytes for tensor in self.graph.tensors]
        self.sizes += [self.graph.operators[operator].parameter_bytes for operator in self.held]
        self._executions()
        self._actions()
        self._order_of_actions()
        self._dependencies()
        self._sum_of_sizes()
        self.addresses: Table = {}
        self._minimise_bytes()

    def _executions(self) -> None:
        """One operator a timestep (Section III-A), at steps that its relatives leave it (Section III-F)."""
        before, after = _ancestors_and_descendants(GraphMasks.of(self.graph))
        self.runs: Table = {
            (operator, t): self.model.new_bool_var(f"runs{operator},{t}")
            for operator in range(self.steps)
            for t in range(before[operator].bit_count(), self.steps - after[operator].bit_count())
        }
        for part in range(2):  # of the key: an operator has one timestep, a timestep one operator
            groups: dict[int, list[cp_model.IntVar]] = {}
            for key, x in self.runs.items():
                groups.setdefault(key[part], []).append(x)
            for _, group in sorted(groups.items()):
                self.deadline.check()
                self.model.add_exactly_one(group)

    def _actions(self) -> None:
        """C, P, S and R. All outputs and the parameters have their operator's C (Eqs. 6 and 7)."""
        self.created: Table = {}
        for tensor, maker in enumerate(self.graph.producers):
            if maker is None:
                self.deadline.check()
                for t in range(self.steps):
                    self.created[tensor, t] = self.model.new_bool_var(f"C{tensor},{t}")
                self.model.add_exactly_one(self.created[tensor, t] for t in range(self.steps))
            else:
                self.created |= {(tensor, t): x for (v, t), x in self.runs.items() if v == maker}
        for block, operator in enumerate(self.held, len(self.graph.tensors)):
            self.created |= {(block, t): x for (v, t), x in self.runs.items() if v == operator}
        first: dict[int, int] = {}
        for tensor, t in self.created:
            first[tensor] = min(t, first.get(tensor, t))
        later = [
            (tensor, t)
            for tensor, readers in enumerate(self.graph.consumers)
            if readers
            for t in range(first[tensor] + 1, 1 + max(t for v, t in self.runs if v in readers))
        ]
        self.preserved: Table = {key: self.model.new_bool_var(f"P{key}") for key in later}
        self.spilled: Table = {key: self.model.new_bool_var(f"S{key}") for key in later}
        self.retrieved: Table = {key: self.model.new_bool_var(f"R{key}") for key in later}

    def _sum(self, tables: tuple[Table, ...], tensor: int, step: int) -> cp_model.LinearExpr:
        """The sum of a tensor's variables at a timestep, those that are cut away being 0."""
        from ortools.sat.python import cp_model

        terms = [table[tensor, step] for table in tables if (tensor, step) in table]
        return cp_model.LinearExpr.sum([*terms, 0])

    def _order_of_actions(self) -> None:
        """Eqs. 1-4 and 8."""
        c, p, s, r = self.created, self.preserved, self.spilled, self.retrieved
        for tensor, t in p:
            self.deadline.check()
            self.model.add(self._sum((c, p, s, r), tensor, t) <= 1)
            self.model.add(p[tensor, t] <= self._sum((c, p, r), tensor, t - 1))
            self.model.add(s[tensor, t] <= self._sum((c, p), tensor, t - 1))
            self.model.add(r[tensor, t] + self._resident(tensor, t - 1) <= 1)
            if tensor in self.graph.on_host:
                self.model.add(r[tensor, t] <= sum(c[tensor, k] for k in range(t)))
            else:
                self.model.add(r[tensor, t] <= sum(s[tensor, k] for k in range(t) if (tensor, k) in s))
        spills: dict[int, list[cp_model.IntVar]] = {}
        for (tensor, _), x in s.items():
            spills.setdefault(tensor, []).append(x)
        for group in spills.values():
            self.model.add(sum(group) <= 1)

    def _dependencies(self) -> None:
        """Eq. 5; a network input may arrive at the very step."""
        for (operator, t), runs in self.runs.items():
            self.deadline.check()
            for tensor in self.graph.operators[operator].inputs:
                there = (self.preserved, self.retrieved)
                arrives = (self.created,) if self.graph.tensors[tensor].given else ()
                self.model.add(runs <= self._sum((*there, *arrives), tensor, t))

    def _resident(self, tensor: int, step: int) -> cp_model.LinearExpr:
        return self._sum((self.created, self.preserved, self.retrieved), tensor, step)

    def _present(self, step: int) -> list[int]:
        """The tensors that may be resident at a step."""
        return [a for a in range(len(self.sizes)) if (a, step) in self.created or (a, step) in self.preserved]

    def _sum_of_sizes(self) -> None:
        """Residents fit: implied by Eqs. 9 and 10, but the solver's bound comes from these rows."""
        for t in range(self.steps):
            self.deadline.check()
            used = sum(self.sizes[a] * self._resident(a, t) for a in self._present(t))
            self.model.add(used <= self.problem.capacity_bytes)

    def allocate(self) -> None:
        """Eqs. 9-11 in units of the alignment; literals enforce rows in place of the paper's big M."""
        unit = self.graph.settings.alignment_bytes
        capacity = self.problem.capacity_bytes // unit
        sizes = [size // unit for size in self.sizes]
        address = self.addresses
        for t in range(self.steps):
            for a in self._present(t):
                address[a, t] = self.model.new_int_var(0, capacity - sizes[a], f"L{a},{t}")
                if (a, t) in self.preserved and (a, t - 1) in address:
                    self.model.add(address[a, t] == address[a, t - 1]).only_enforce_if(self.preserved[a, t])
            for a, b in combinations(self._present(t), 2):
                self.deadline.check()
                above, below = (self.model.new_bool_var(f"{name}{a},{b},{t}") for name in "ud")
                self.model.add(above + below <= 1)
                self.model.add(above + below >= self._resident(a, t) + self._resident(b, t) - 1)
                self.model.add(address[a, t] + sizes[a] <= address[b, t]).only_enforce_if(below)
                self.model.add(address[b, t] + sizes[b] <= address[a, t]).only_enforce_if(above)

    def _minimise_bytes(self) -> None:
        """Eq. 12."""
        moves = (*self.spilled.items(), *self.retrieved.items())
        self.model.minimize(sum(self.graph.tensors[a].traffic_bytes * x for (a, _), x in moves))

    def least_bytes(self, seed: int, wall_seconds: float) -> float:
        """What every plan moves at least, from the program without Eqs. 9-11."""
        from ortools.sat.python import cp_model

        solver = self._solver(seed, wall_seconds)
        status = solver.solve(self.model)
        assert status != cp_model.INFEASIBLE, "every operator fits by itself"
        return _proven_bytes(solver)

    def outcome(self, seed: int, bound: float, watch: Stopwatch) -> Outcome[Plan]:
        """The answer of the whole program; ``bound`` is on all plans."""
        from ortools.sat.python import cp_model

        solver = self._solver(seed, self.deadline.left)
        status = solver.solve(self.model)
        if status == cp_model.INFEASIBLE:
            note = "Eqs. 1-11 have no solution: every plan has steps in which no operator runs"
            return unknown(note, watch, bound)
        if status == cp_model.UNKNOWN:
            return unknown("time was up before the program had a solution", watch, bound)
        return answer(self.problem, self._plan(solver), bound, watch, proven_bytes=_proven_bytes(solver))

    def _solver(self, seed: int, wall_seconds: float) -> cp_model.CpSolver:
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = seed
        solver.parameters.max_time_in_seconds = max(wall_seconds, 1e-3)
        return solver

    def _plan(self, solver: cp_model.CpSolver) -> Plan:
        times = {t: v for (v, t), x in self.runs.items() if solver.boolean_value(x)}
        operators = self.graph.operators
        unit = self.graph.settings.alignment_bytes
        when = {operator: t for t, operator in times.items()}
        return Plan(
            tuple(operators[times[t]].name for t in range(self.steps)),
            tuple(self._tensor_plan(solver, tensor) for tensor in range(len(self.graph.tensors))),
            tuple(
                (operators[v].name, unit * solver.value(self.addresses[block, when[v]]))
                for block, v in enumerate(self.held, len(self.graph.tensors))
            ),
        )

    def _tensor_plan(self, solver: cp_model.CpSolver, tensor: int) -> TensorPlan:
        """Residencies begin where C or R is 1 and last while P is."""
        unit = self.graph.settings.alignment_bytes
        created, spilled, retrieved = (
            sorted(t for (a, t), x in table.items() if a == tensor and solver.boolean_value(x))
            for table in (self.created, self.spilled, self.retrieved)
        )
        residencies = []
        for start in (*created, *retrieved):
            end = start + 1
            while (tensor, end) in self.preserved and solver.boolean_value(self.preserved[tensor, end]):
                end += 1
            residencies.append(Residency(start, end, unit * solver.value(self.addresses[tensor, start])))
        name = self.graph.tensors[tensor].name
        return TensorPlan(name, tuple(residencies), spilled[0] if spilled else None, tuple(retrieved))


def _proven_bytes(solver: cp_model.CpSolver) -> float:
    return float(max(0, round(solver.best_objective_bound)))


def _ancestors_and_descendants(masks: GraphMasks) -> tuple[list[int], list[int]]:
    """Per operator the bit sets of those that must run before it, and after it."""
    count = len(masks.graph.operators)
    before, after = [0] * count, [0] * count
    for operator in range(count):
        for maker in bits(masks.predecessors[operator]):
            before[operator] |= before[maker] | 1 << maker
    for operator in reversed(range(count)):
        for successor in masks.successors[operator]:
            after[operator] |= after[successor] | 1 << successor
    return before, after
