"""KAPLA's evaluation of layers: its solver (K), proven optima (S), a random part of the space (R).

    python benchmarks/kapla_paper.py [--full] [--networks NAME ...] [--wall-seconds S] [--probability P]
                                     [--most-draws N] [--segments NAME ...] [--json FILE]

Layers with weights, mapped by themselves for least energy: inference and training at batch 64 on
``kapla-16x16-released``, inference at batch 1 on ``kapla-edge-released``, in the space that the PE array's
mapping leaves (``array_constraints``). A line a network, then one JSON object. Without ``--full`` only MLP,
LSTM and AlexNet.

S is ``exact``: it searches the very space of ``kapla`` and ``random_search`` (all three take the same
:class:`MappingSpace`) and proves its optimum. Overheads are energy over that of S, layers weighted by how
often they stand in the network: "proven" over the layers whose optimum is proven in ``--wall-seconds``, "at
most" over all layers, of the others against the bound proven by then. R draws ``--probability`` times as many
mappings as the space has factorisations, at most ``--most-draws``; loop orders come on top, so it sees less
than that part. Fails if a mapping takes less time than MACs / PEs or less from DRAM than each tensor once.
``--segments``: chip-level networks for k_S and pruning, see ``kapla_schedule.py``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from math import ceil, inf
from pathlib import Path
from typing import Any

import kapla_schedule
from kapla_networks import NETWORKS, touched_words

from costmodel.architectures import load_architecture
from costmodel.evaluate import evaluate
from costmodel.mapping import Mapping
from costmodel.multi_node import MultiNode, array_constraints, load_multi_node
from costmodel.networks import load_network
from costmodel.uneven import AnyMapping
from costmodel.workload import Layer, distinct_layers
from solvers.budget import Budget
from solvers.mapping import exact, kapla, random_search
from solvers.mapping.problem import MappingProblem
from solvers.mapping.rules import LevelRules, SpaceRules
from solvers.mapping.space import MappingSpace
from solvers.outcome import Outcome, Status

SMALL = ("mlp", "lstm", "alexnet")
COSTS = "released"
SEED = 0


@dataclass(frozen=True)
class Case:
    """A part of the paper's evaluation: the layers of ``step`` of every network, on one device."""

    title: str
    device: str
    batch: int
    step: str = ""


CASES = (
    Case("inference", "kapla-edge", 1),
    Case("inference", "kapla-16x16", 64),
    Case("training", "kapla-16x16", 64, ".training"),
)


@dataclass(frozen=True)
class Effort:
    """Seconds of a solve on the wall clock, and how many mappings R draws: see the module."""

    wall_seconds: float
    probability: float
    most_draws: int

    def draws(self, factorisations: int) -> int:
        return max(1, min(ceil(self.probability * factorisations), self.most_draws))


@dataclass(frozen=True)
class Found:
    """One solver's answer to one layer: ``energy_pj`` is infinite if there is none."""

    energy_pj: float
    cpu_seconds: float

    @classmethod
    def of(cls, outcome: Outcome[Any]) -> Found:
        return cls(inf if outcome.objective is None else outcome.objective, outcome.cpu_seconds)


@dataclass(frozen=True)
class LayerResult:
    """A layer that stands ``count`` times in its network; no mapping takes less than ``bound_pj``."""

    layer: str
    count: int
    factorisations: int
    draws: int
    proven: bool
    bound_pj: float
    truth: Found
    solvers: dict[str, Found]
    below_floors: bool


@dataclass(frozen=True)
class NetworkResult:
    """The layers of one network in one case."""

    case: Case
    network: str
    layers: tuple[LayerResult, ...]

    def overhead(self, solver: str) -> float | None:
        """Energy over the proven optima, of the layers that have one; None if none has."""
        proven = [one for one in self.layers if one.proven]
        optimum = sum(one.count * one.truth.energy_pj for one in proven)
        return energy_pj(proven, solver) / optimum - 1 if proven else None

    def overhead_at_most(self, solver: str) -> float:
        """Energy of all layers over what is proven that they take at least."""
        return energy_pj(self.layers, solver) / sum(one.count * one.bound_pj for one in self.layers) - 1

    def seconds(self, solver: str) -> float:
        """CPU seconds, of equal layers once."""
        return sum((one.truth if solver == "S" else one.solvers[solver]).cpu_seconds for one in self.layers)

    @property
    def drawn_share(self) -> float:
        """Mappings that R drew over factorisations of the space, the least of all layers."""
        return min(one.draws / one.factorisations for one in self.layers)

    def report(self) -> dict[str, object]:
        """All of it, for JSON, where what is infinite (no mapping) is None."""
        return {
            **asdict(self),
            "overhead_proven": {name: finite(self.overhead(name)) for name in "KR"},
            "overhead_at_most": {name: finite(self.overhead_at_most(name)) for name in "KR"},
            "cpu_seconds": {name: round(self.seconds(name), 3) for name in "SKR"},
            "drawn_share": self.drawn_share,
        }


def energy_pj(layers: Sequence[LayerResult], solver: str) -> float:
    return sum(one.count * one.solvers[solver].energy_pj for one in layers)


def finite(number: float | None) -> float | None:
    return None if number == inf else number


def problem_of(chip: MultiNode, layer: Layer) -> MappingProblem:
    """Least energy within what the PE array's mapping allows."""
    rules = tuple(LevelRules(**one) for one in array_constraints(chip, layer))
    return MappingProblem(
        load_architecture(f"{chip.name}-{COSTS}"), layer, "energy", SpaceRules(levels=rules)
    )


def measure(problem: MappingProblem, count: int, effort: Effort) -> LayerResult:
    """All three solvers on one layer."""
    space = MappingSpace(problem.architecture, problem.layer, problem.rules)
    size = sum(map(space.count_factorisations, product(*space.keep_sets)))
    draws = effort.draws(size)
    budget = Budget(effort.wall_seconds)
    truth = exact.solve(problem, budget)
    outcomes: dict[str, Outcome[Mapping]] = {
        "K": kapla.solve(problem, budget),
        "R": random_search.solve(
            problem, Budget(effort.wall_seconds, draws, SEED), random_search.Params(victory=draws)
        ),
    }
    return LayerResult(
        problem.layer.name,
        count,
        size,
        draws,
        truth.status is Status.OPTIMAL,
        truth.bound or 0.0,
        Found.of(truth),
        {name: Found.of(outcome) for name, outcome in outcomes.items()},
        any(
            below_floors(problem, mapping)
            for mapping in (truth.solution, *(one.solution for one in outcomes.values()))
        ),
    )


def below_floors(problem: MappingProblem, mapping: AnyMapping | None) -> bool:
    """Whether it takes less time than MACs / PEs, or less from DRAM than each tensor once; None does not."""
    if mapping is None:
        return False
    assert isinstance(mapping, Mapping)  # the rules ask for no uneven one
    found = evaluate(problem.architecture, problem.layer, mapping)
    words = sum(one.reads + one.fills + one.updates for one in found.levels[-1].tensors.values())
    in_time = found.cycles * problem.architecture.mac_units >= problem.layer.macs
    return not in_time or words < touched_words(problem.layer)


def results(networks: Sequence[str], effort: Effort) -> Iterator[NetworkResult]:
    """Every case of every network."""
    for name, case in product(networks, CASES):
        chip = load_multi_node(case.device, COSTS)
        network = load_network(f"kapla-{name}{case.step}", case.batch)
        yield NetworkResult(
            case,
            name,
            tuple(
                measure(problem_of(chip, layer), count, effort)
                for layer, count in distinct_layers(network.layers)
            ),
        )


def show(one: NetworkResult) -> None:
    proven = sum(layer.proven for layer in one.layers)
    title = f"{one.network}, {one.case.title}, {one.case.device}, batch {one.case.batch}"
    numbers = [
        text for name in "KR" for text in (percent(one.overhead(name)), percent(one.overhead_at_most(name)))
    ]
    seconds = [f"{one.seconds(name):9.2f}" for name in "SKR"]
    print(
        f"{title:45} {proven:3}/{len(one.layers):<3}",
        *numbers,
        *seconds,
        f"{one.drawn_share:9.1e}",
        flush=True,
    )


def percent(overhead: float | None) -> str:
    return f"{'none' if overhead is None or overhead == inf else format(overhead, '.2%'):>10}"


def segments(names: list[str]) -> dict[str, object]:
    """k_S, rounds and pruning of chains of segments, batch 8 on SET's edge platform."""
    chosen = argparse.Namespace(platform="edge", objective="energy", beta=100, no_annealing=True)
    return {name: kapla_schedule.measure(name, 8, chosen) for name in names}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="all networks of the paper")
    parser.add_argument("--networks", nargs="*", choices=NETWORKS, default=None)
    parser.add_argument("--wall-seconds", type=float, default=30.0, help="of a layer and solver")
    parser.add_argument("--probability", type=float, default=0.1)
    parser.add_argument("--most-draws", type=int, default=100_000)
    parser.add_argument("--segments", nargs="*", default=[], help="such as set-resnet50")
    parser.add_argument("--json", type=Path, default=None, help="write the JSON object here as well")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    networks = options.networks or (NETWORKS if options.full else SMALL)
    effort = Effort(options.wall_seconds, options.probability, options.most_draws)
    columns = ("K proven", "K at most", "R proven", "R at most")
    print(
        f"{'':45} proven ",
        *(f"{column:>10}" for column in columns),
        *(f"{name + ' CPU s':>9}" for name in "SKR"),
        f"{'R drew':>9}",
    )
    found = []
    for one in results(networks, effort):
        found.append(one)
        show(one)
    reports = [one.report() for one in found]
    text = json.dumps({"effort": asdict(effort), "networks": reports, "segments": segments(options.segments)})
    print(text)
    if options.json:
        options.json.write_text(text)
    return int(any(layer.below_floors for one in found for layer in one.layers))


if __name__ == "__main__":
    sys.exit(main())
