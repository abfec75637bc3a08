"""How ``auto_schedule`` compares with each schedule solver that has as many CPU seconds.

    python benchmarks/schedule_portfolio.py [--pairs NAME ...] [--rivals NAME ...] [--beta 20] [--worse 1.02]

Each pair is a network on a chip of schedule_gaps.py, for E D. ``auto_schedule`` is asked first, with
``--beta`` rounds a layer in each annealing. Then each rival has its CPU seconds. ``kapla_schedule`` and
``segment_chain`` draw nothing and end when they are done. An annealing is first asked with ``--beta``, from
which its pace follows, and then with as many rounds as the rest of the seconds holds; its better answer
counts. Prints E D of every rival over that of ``auto_schedule``: above 1 the portfolio is better. The best
tree of each is written as a program and replayed event by event: ``replay`` has E D over that of
``auto_schedule`` with the cycles of both replays, ``model`` the chip model's cycles over the replay's.

Ends with status 1 if a rival's E D is less than that of ``auto_schedule`` by more than the factor
``--worse``: searches are random, and with as much time one of them may be lucky.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import record
from schedule_gaps import LONG, PAIRS, QUICK

from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.replay.replay import replay
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.program.writer import write_program
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.budget import Budget, Stopwatch
from solvers.catalogue import solver
from solvers.outcome import Outcome
from solvers.schedule import auto
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution

CHAINS = ("kapla_schedule", "segment_chain")
ANNEALINGS = ("set", "layer_pipeline", "layer_sequential")
RIVALS = (*CHAINS, *ANNEALINGS)
ROW = "{:<18} {:<17} {:>10} {:>7} {:>8} {:>7} {:>7} {:>7}"


@dataclass(frozen=True)
class Found:
    """The best answer of a solver within its time: CPU seconds, and the rounds a layer of annealings."""

    outcome: Outcome[ScheduleSolution]
    cpu_seconds: float
    rounds: float | None = None

    @property
    def e_d(self) -> float | None:
        return self.outcome.objective


def solved(name: str, problem: ScheduleProblem, seed: int = 0, **params: Any) -> Outcome[ScheduleSolution]:
    module = solver(name, "schedule").load()
    found: Outcome[ScheduleSolution] = module.solve(problem, Budget(LONG, seed=seed), module.Params(**params))
    return found


def whole(name: str, problem: ScheduleProblem, **params: Any) -> Found:
    """The answer of a solver that ends when it is done."""
    clock = Stopwatch()
    outcome = solved(name, problem, **params)
    return Found(outcome, clock.cpu_seconds)


def annealed(name: str, problem: ScheduleProblem, beta: float, seconds: float) -> Found:
    """The best answer within about so many CPU seconds, of a first annealing and one in the time left."""
    clock = Stopwatch()
    first = solved(name, problem, beta=beta)
    taken = clock.cpu_seconds
    more = beta * max(0.0, seconds - taken) / taken
    outcomes = [first]
    if more >= 1:
        outcomes.append(solved(name, problem, 1, beta=more))
    best = min(outcomes, key=lambda one: float("inf") if one.objective is None else one.objective)
    return Found(best, clock.cpu_seconds, beta + (more if more >= 1 else 0))


def replayed_cycles(problem: ScheduleProblem, outcome: Outcome[ScheduleSolution]) -> tuple[int, int] | None:
    """Cycles of an answer as its program is replayed, and by the chip model; None without a program."""
    if outcome.solution is None:
        return None
    counted = problem.judge().evaluate(outcome.solution.tree)
    assert isinstance(counted, ChipEvaluation)
    try:
        program = write_program(problem.graph, counted)
    except NotPossibleError:
        return None
    return replay(program).cycles, counted.cycles


def compared(name: str, asked: Any) -> list[dict[str, Any]]:
    """A row for ``auto_schedule`` and for each rival on a pair; prints them."""
    pair = PAIRS[name]
    problem = ScheduleProblem(load_layer_graph(pair.network), pair.model, pair.batch, Objective.named("edp"))
    problem.bound()  # fills the table of tile costs, which all share
    best = whole(auto.NAME, problem, beta=asked.beta)
    assert best.e_d is not None
    rows = [row_of(name, auto.NAME, problem, best)]
    rows[0] |= {"over_auto": 1.0, "replayed_over_auto": 1.0 if "replayed_e_d" in rows[0] else None}
    show(rows[0], best.outcome.solved_by or "")
    print(f"  {best.outcome.note}", flush=True)
    for rival in asked.rivals:
        if rival in CHAINS:
            found = whole(rival, problem)
        else:
            found = annealed(rival, problem, asked.beta, best.cpu_seconds)
        row = row_of(name, rival, problem, found)
        row["over_auto"] = None if found.e_d is None else found.e_d / best.e_d
        both = "replayed_e_d" in row and "replayed_e_d" in rows[0]
        row["replayed_over_auto"] = row["replayed_e_d"] / rows[0]["replayed_e_d"] if both else None
        rows.append(row)
        show(row, "" if found.rounds is None else f"beta {found.rounds:.0f}")
    return rows


def row_of(pair: str, name: str, problem: ScheduleProblem, found: Found) -> dict[str, Any]:
    """What is kept of an answer: E D, seconds, and what the replay of its program finds."""
    row: dict[str, Any] = {"pair": pair, "solver": name, "e_d": found.e_d, "cpu_seconds": found.cpu_seconds}
    if found.rounds is not None:
        row["rounds"] = found.rounds
    solution = found.outcome.solution
    if solution is not None:
        row |= {"energy_pj": solution.energy_pj, "cycles": solution.cycles, "tree": solution.text}
    cycles = replayed_cycles(problem, found.outcome)
    if cycles and solution is not None:
        replayed, counted = cycles
        row |= {
            "replayed_cycles": replayed,
            "replayed_e_d": solution.energy_pj * replayed,
            "model_over_replay": counted / replayed,
        }
    return row


def show(row: dict[str, Any], said: str) -> None:
    value = "no tree" if row["e_d"] is None else f"{row['e_d']:.4g}"
    numbers = [row["over_auto"], row["replayed_over_auto"], row.get("model_over_replay")]
    over, replayed, model = ("" if one is None else f"{one:.3f}" for one in numbers)
    seconds = f"{row['cpu_seconds']:.1f}"
    print(ROW.format(row["pair"], row["solver"], value, over, seconds, replayed, model, said), flush=True)


def main() -> int:
    parser = record.parser(__doc__)
    parser.add_argument("--pairs", nargs="+", default=list(QUICK), choices=list(PAIRS))
    parser.add_argument("--rivals", nargs="+", default=list(RIVALS), choices=RIVALS)
    parser.add_argument("--beta", type=float, default=20)
    parser.add_argument("--worse", type=float, default=1.02, help="the factor by which a rival may be better")
    asked = parser.parse_args()
    print(ROW.format("pair", "solver", "E D", "/ auto", "CPU s", "replay", "model", ""))
    rows = [row for name in asked.pairs for row in compared(name, asked)]
    means = {}
    for rival in asked.rivals:
        over = [row["over_auto"] for row in rows if row["solver"] == rival and row["over_auto"]]
        if over:
            means[rival] = prod(over) ** (1 / len(over))
            print(f"{rival}: {means[rival]:.3f} of {auto.NAME}, geometric mean of {len(over)} pairs")
    record.finish({"means": means, "rows": rows}, asked)
    return int(any(row["over_auto"] is not None and row["over_auto"] < 1 / asked.worse for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
