"""How ``auto_schedule`` compares with each schedule solver that has as many CPU seconds.

    python benchmarks/schedule_portfolio.py [--pairs NAME ...] [--rivals NAME ...] [--beta 20] [--worse 1.02]

Each pair is a network on a chip of schedule_gaps.py, for E D. ``auto_schedule`` is asked first, with
``--beta`` rounds a layer in each annealing. Then each rival has its CPU seconds. ``kapla_schedule`` and
``segment_chain`` draw nothing and end when they are done. An annealing is first asked with ``--beta``, from
which its pace follows, and then with as many rounds as the rest of the seconds holds; its better answer
counts. Prints E D of every rival over that of ``auto_schedule``: above 1 the portfolio is better.

Ends with status 1 if a rival's E D is less than that of ``auto_schedule`` by more than the factor
``--worse``: searches are random, and with as much time one of them may be lucky.
"""

from __future__ import annotations

from math import prod
from typing import Any

import record
from schedule_gaps import LONG, PAIRS, QUICK

from costmodel.formats.layer_graphs import load_layer_graph
from solvers.budget import Budget, Stopwatch
from solvers.catalogue import solver
from solvers.outcome import Outcome
from solvers.schedule import auto
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution

CHAINS = ("kapla_schedule", "segment_chain")
ANNEALINGS = ("set", "layer_pipeline", "layer_sequential")
RIVALS = (*CHAINS, *ANNEALINGS)
ROW = "{:<18} {:<17} {:>10} {:>7} {:>8} {:>7}"


def solved(name: str, problem: ScheduleProblem, seed: int = 0, **params: Any) -> Outcome[ScheduleSolution]:
    module = solver(name, "schedule").load()
    found: Outcome[ScheduleSolution] = module.solve(problem, Budget(LONG, seed=seed), module.Params(**params))
    return found


def annealed(name: str, problem: ScheduleProblem, beta: float, seconds: float) -> tuple[float, float, float]:
    """The best E D within about so many CPU seconds, those that it took, and the rounds a layer of all."""
    clock = Stopwatch()
    first = solved(name, problem, beta=beta)
    taken = clock.cpu_seconds
    more = beta * max(0.0, seconds - taken) / taken
    values = [first.objective]
    if more >= 1:
        values.append(solved(name, problem, 1, beta=more).objective)
    found = [value for value in values if value is not None]
    return min(found, default=float("inf")), clock.cpu_seconds, beta + (more if more >= 1 else 0)


def compared(name: str, asked: Any) -> list[dict[str, Any]]:
    """A row for ``auto_schedule`` and for each rival on a pair; prints them."""
    pair = PAIRS[name]
    problem = ScheduleProblem(load_layer_graph(pair.network), pair.model, pair.batch, Objective.named("edp"))
    problem.bound()  # fills the table of tile costs, which all share
    clock = Stopwatch()
    outcome = solved(auto.NAME, problem, beta=asked.beta)
    seconds = clock.cpu_seconds
    assert outcome.objective is not None
    rows = [
        {
            "pair": name,
            "solver": auto.NAME,
            "e_d": outcome.objective,
            "over_auto": 1.0,
            "cpu_seconds": seconds,
        }
    ]
    show(rows[-1], outcome.solved_by)
    print(f"  {outcome.note}", flush=True)
    for rival in asked.rivals:
        clock = Stopwatch()
        if rival in CHAINS:
            value = solved(rival, problem).objective
            row = {"e_d": value, "cpu_seconds": clock.cpu_seconds}
            said = ""
        else:
            value, taken, rounds = annealed(rival, problem, asked.beta, seconds)
            row = {"e_d": value, "cpu_seconds": taken}
            said = f"beta {rounds:.0f}"
        over = None if value is None else value / outcome.objective
        rows.append({"pair": name, "solver": rival, "over_auto": over} | row)
        show(rows[-1], said)
    return rows


def show(row: dict[str, Any], said: str) -> None:
    value = "no tree" if row["e_d"] is None else f"{row['e_d']:.4g}"
    over = "" if row["over_auto"] is None else f"{row['over_auto']:.3f}"
    print(ROW.format(row["pair"], row["solver"], value, over, f"{row['cpu_seconds']:.1f}", said), flush=True)


def main() -> int:
    parser = record.parser(__doc__)
    parser.add_argument("--pairs", nargs="+", default=list(QUICK), choices=list(PAIRS))
    parser.add_argument("--rivals", nargs="+", default=list(RIVALS), choices=RIVALS)
    parser.add_argument("--beta", type=float, default=20)
    parser.add_argument("--worse", type=float, default=1.02, help="the factor by which a rival may be better")
    asked = parser.parse_args()
    print(ROW.format("pair", "solver", "E D", "/ auto", "CPU s", ""))
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
