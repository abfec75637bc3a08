"""Where layers next to each other pay as a pipeline on KAPLA's 16 x 16 nodes, and where not, by cause.

Two or three layers of a network, each of which reads the one before and no other, are a network of their own.
Of the ways to run them those are costed whose least E D (:mod:`solvers.schedule.kapla.estimates.estimate`) is
below the best of its form that was found before, at most MOST_COSTED that are possible. The forms are::

    alone           each layer a segment of its own: on tiles or mapped on the whole chip, in sub-batches
    turns           one segment, the layers in turn on all tiles, in sub-batches
    turns in bands  the same, each sample in bands of rows
    pipeline        one segment, each layer on tiles of its own, in sub-batches
    pipe in bands   the same, each sample in bands of rows

Weights are pinned or streamed without bands, as costs less, and pinned with bands; where the command allows
it tiles may share them in either form. The best of each form is
written as a program and replayed, unless that would take minutes (MOST_RUNS) or
no addresses are found in buffers that are nearly full.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import inf
from typing import Any

from costmodel.formats.chips import load_chip
from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.hardware.chip import Chip
from costmodel.replay.replay import replay
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.program.writer import write_program
from costmodel.schedule.tree.tree import Cut, leaves
from costmodel.schedule.tree.validity import NotPossibleError
from kapla_evaluation.cells import CellFile, Found, content_key
from kapla_evaluation.layers import METHODS
from kapla_evaluation.schedules import CHIP
from kapla_evaluation.tables import Table
from solvers.budget import Stopwatch
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.kapla import Params
from solvers.schedule.kapla.estimates.estimate import Estimates
from solvers.schedule.kapla.estimates.floors import LayerFloor
from solvers.schedule.kapla.regions import Regions
from solvers.schedule.kapla.segments import Scheme, Slicing
from solvers.schedule.kapla.solver import VERSION
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem
from solvers.schedule.tiles.cost_table import TabledTileCosts
from solvers.schedule.tiles.layer_parts import Pruning, TilePart
from solvers.schedule.tiles.mapper import TileMapper, TilePartCost, architecture_of, tile_solver
from solvers.schedule.whole_chip_costs import WholeChipCosts

FORMS = ("alone", "turns", "turns in bands", "pipeline", "pipe in bands")
BATCHES = (1, 64)
LENGTHS = (2, 3)
MOST_BANDS = 112
MOST_COSTED = 8
"""How many possible schemes of a form are costed at most, those of least estimates first."""
MOST_RUNS = 20_000
"""Replays of more runs of leaves on tiles are left out, and of layers mapped on the whole chip."""


@dataclass(frozen=True)
class PipelineRun:
    """What was asked for: ``networks``, and at most how many ``cases`` of neighbouring layers of each.

    ``share_weights``: tiles that need the same weights may share them.
    """

    networks: Sequence[str]
    cases: int
    partitions: int
    file: CellFile
    share_weights: bool = False


@dataclass(frozen=True)
class PipelineCase:
    """``length`` layers of a network from number ``first`` on, for ``batch`` samples, as ``graph``."""

    network: str
    first: int
    length: int
    batch: int
    graph: LayerGraph = field(compare=False)

    @property
    def name(self) -> str:
        return " ".join(layer.name for layer in self.graph.layers)


def cases_of(network: str, lengths: Iterable[int], most: int) -> Iterator[tuple[int, LayerGraph]]:
    """The neighbouring layers of different shapes that are cases, by the number of their first layer.

    Of more than ``most`` of a length those that are spread most evenly over the network.
    """
    layers = load_layer_graph(f"kapla-{network}").layers
    for length in lengths:
        found: dict[Any, tuple[int, LayerGraph]] = {}
        for first in range(len(layers) - length + 1):
            chosen = layers[first : first + length]
            inside = all(
                set(layer.producers) == {first + place - 1} and not layer.external_c
                for place, layer in enumerate(chosen)
                if place
            )
            # a fully connected layer has one row: its pipelines are those of samples
            if not inside or any(layer.weight_producers for layer in chosen):
                continue
            cut = tuple(_alone(layer, place) for place, layer in enumerate(chosen))
            shape = tuple(replace(layer, name="") for layer in cut)
            found.setdefault(shape, (first, LayerGraph("", cut)))
        every = list(found.values())
        step = max(len(every) / most, 1.0)
        yield from (every[int(number * step)] for number in range(min(most, len(every))))


def _alone(layer: Any, place: int) -> Any:
    """The layer as number ``place`` of a network of its own."""
    if place == 0:
        return replace(layer, producers=(), channels=(), external_c=layer.c)
    return replace(layer, producers=(place - 1,))


class Costs:
    """Costs of parts on tiles of all cases, each solved once."""

    def __init__(self, chip: Chip, partitions: int, share_weights: bool = False) -> None:
        self.chip, self.pruning = chip, Pruning(most=partitions, share_weights=share_weights)
        self.mapper = TileMapper(METHODS["K"])
        self._known: dict[TilePart, TilePartCost | None] = {}
        self.seconds = 0.0

    def table(self, graph: LayerGraph) -> TabledTileCosts:
        on_chip = WholeChipCosts(self.chip, {}, partial(self.mapper.whole_chip_cost, self.chip))
        return TabledTileCosts(graph, self.chip.tile, {}, self._solve, self.pruning, on_chip)

    def _solve(self, parts: Iterable[TilePart]) -> dict[TilePart, TilePartCost | None]:
        watch, wanted = Stopwatch(), list(parts)
        new = [part for part in wanted if part not in self._known]
        self._known.update(self.mapper.costs(architecture_of(self.chip.tile), new))
        self.seconds += watch.cpu_seconds
        return {part: self._known[part] for part in wanted}


@dataclass(frozen=True)
class FormOfCase:
    """All schemes of a case, costed form by form."""

    case: PipelineCase
    costs: Costs

    @cached_property
    def problem(self) -> ScheduleProblem:
        model = ChipModel(self.costs.chip, self.costs.table(self.case.graph), bands=True)
        return ScheduleProblem(self.case.graph, model, self.case.batch, Objective.named("edp"))

    @cached_property
    def slicing(self) -> Slicing:
        return Slicing(self.problem, Params(bands=MOST_BANDS, grouped=False))

    @cached_property
    def estimates(self) -> Estimates:
        table = self.costs_table
        normalized = [table.normalized_cycles(number) for number in range(self.case.length)]
        floors = [
            LayerFloor.of(self.case.graph, number, self.costs.chip) for number in range(self.case.length)
        ]
        regions = Regions(self.slicing, normalized.__getitem__)
        return Estimates(self.slicing, self.costs.chip, floors, regions, table.shares_weights)

    @property
    def costs_table(self) -> TabledTileCosts:
        assert isinstance(self.problem.model, ChipModel)
        assert isinstance(self.problem.model.tile_costs, TabledTileCosts)
        return self.problem.model.tile_costs

    @cached_property
    def evaluator(self) -> ChipEvaluator:
        found = self.problem.evaluator()
        assert isinstance(found, ChipEvaluator)
        return found

    def schemes(self, form: str) -> list[Scheme]:
        """The schemes of a form with all layers; of "alone" those of each layer."""
        kind = "pipeline" if form.startswith("pipe") else "turns"
        return [
            Scheme(segment, division)
            for segment in self.slicing.segments()
            if segment.kind == kind and len(segment) == (1 if form == "alone" else self.case.length)
            for division in self.slicing.divisions(segment)
            if (division.bands > 1) == form.endswith("bands")
        ]

    def found(self, form: str) -> Found:
        """The best of a form; how many schemes there are, may fit, were costed and are possible."""
        every = self.schemes(form)
        fitting = [one for one in every if self.estimates.may_fit(one) and self.slicing.has_rows(one)]
        counts = {"schemes": len(every), "fitting": len(fitting), "costed": 0, "possible": 0}
        if form == "alone":
            trees = [self._best_of(fitting, number, counts) for number in range(self.case.length)]
            best = None if None in trees else self.slicing.tree([one for one in trees if one])
        else:
            one = self._best_of(fitting, None, counts)
            best = None if one is None else self.slicing.tree([one])
        found: Found = {**counts, "fullest": min(map(self.estimates.fullness, every), default=None)}
        if best is None:
            return found
        counted = self.problem.judge().evaluate(best)
        assert isinstance(counted, ChipEvaluation)
        return found | self._measured(counted)

    def _best_of(
        self, schemes: Sequence[Scheme], number: int | None, counts: dict[str, int]
    ) -> Scheme | None:
        """The scheme of least E D, of layer ``number`` where there is one; None where none is possible."""
        least = {
            one: estimate.cost
            for one in schemes
            if number is None or one.segment.first == number
            for _, estimate in self.estimates.least(one.segment, [one.division])
        }
        best, value, counted = None, inf, 0
        # layers mapped on the whole chip have no estimate, so these are costed first, whatever theirs are
        for one in sorted(
            least, key=lambda it: (len(it.segment) > 1 or it.division != (1, 1), _value(least[it]))
        ):
            if _value(least[one]) >= value or counted == MOST_COSTED:
                continue
            counts["costed"] += 1
            try:
                tree = self.slicing.node(one)
                cost = self.evaluator.segment(tree)
            except NotPossibleError:
                continue
            counts["possible"], counted = counts["possible"] + 1, counted + 1
            idle = self.costs.chip.idle_pj_per_cycle * cost.cycles
            if (found := (sum(cost.parts_pj) + idle) * cost.cycles) < value:
                best, value = one, found
        return best

    def _measured(self, counted: ChipEvaluation) -> Found:
        assert isinstance(counted.tree, Cut)
        segments = counted.tree.children
        runs = self.costs.chip.tiles * sum(
            self.case.batch // leaf.batch * (segment.bands if isinstance(segment, Cut) else 1)
            for segment in segments
            for leaf in leaves(segment)
        )
        found: Found = {
            "energy_pj": counted.energy_pj,
            "cycles": counted.cycles,
            "parts_pj": dict(counted.parts_pj),
            "dram_bytes": counted.dram_bytes,
            "segments": [one.name if isinstance(one, Cut) else "alone" for one in segments],
            "replayed": None,
        }
        if runs <= MOST_RUNS and not any(one.whole_chip for one in counted.segments):
            # buffers that are nearly full may have no addresses for all that they hold
            with suppress(NotPossibleError):
                found["replayed"] = replay(write_program(self.case.graph, counted)).cycles
        return found


def _value(cost: Any) -> float:
    return float(cost.energy_pj * cost.cycles)


def pipelines(run: PipelineRun) -> dict[str, Any]:
    """A line a case: E D of each form over the best of layers alone, and what its energy and time are."""
    chip = load_chip(CHIP)
    costs = Costs(chip, run.partitions, run.share_weights)
    heads = ("layers", "batch", *FORMS[1:], "best", "E", "D", "dram", "noc", "replay")
    table, rows = Table(f"E D of forms over layers alone, on {CHIP}", heads, 34), []
    for network in run.networks:
        for first, graph in cases_of(network, LENGTHS, run.cases):
            for batch in BATCHES:
                case = PipelineCase(network, first, len(graph.layers), batch, graph)
                rows.append(_row(run, case, costs))
                table.line(_line(case, rows[-1]["forms"]))
    return {"pipelines": rows}


def _row(run: PipelineRun, case: PipelineCase, costs: Costs) -> dict[str, Any]:
    key = content_key(
        costs.chip,
        case.graph.layers,
        case.batch,
        costs.pruning,
        costs.mapper,
        VERSION,
        MOST_BANDS,
        tile_solver(costs.mapper.solver).version,
    )

    def solved() -> Found:
        watch, before = Stopwatch(), costs.seconds
        forms = FormOfCase(case, costs)
        found = {form: forms.found(form) for form in FORMS}
        return {"forms": found, "cpu_seconds": watch.cpu_seconds, "on_tiles": costs.seconds - before}

    title = f"pipeline {case.network} {case.name} {case.batch}"
    return {"network": case.network, "layers": case.name, "batch": case.batch} | run.file.get(
        key, title, solved
    )


def _line(case: PipelineCase, forms: Mapping[str, Found]) -> list[str]:
    alone = forms["alone"]
    title = f"{case.network} {case.name}"[:34]
    if "cycles" not in alone:
        return [title, str(case.batch), *("-" for _ in FORMS[1:]), "not alone", *("-" for _ in range(5))]
    over = {form: _over(found, alone) for form, found in forms.items() if form != "alone"}
    best = min(over, key=lambda form: over[form] or inf)
    found = forms[best]
    cells = [title, str(case.batch), *(_ratio(one) for one in over.values())]
    if over[best] is None:
        return [*cells, "none", *("-" for _ in range(5))]
    energy, cycles = found["energy_pj"] / alone["energy_pj"], found["cycles"] / alone["cycles"]
    parts = [found["parts_pj"][part] / alone["parts_pj"][part] for part in ("dram", "noc")]
    both = found["replayed"], alone["replayed"]
    replayed = both[0] / both[1] if None not in both else None
    return [*cells, best, *map(_ratio, (energy, cycles, *parts, replayed))]


def _over(found: Found, alone: Found) -> float | None:
    if "cycles" not in found:
        return None
    return float(found["energy_pj"] * found["cycles"] / (alone["energy_pj"] * alone["cycles"]))


def _ratio(one: float | None) -> str:
    return "-" if one is None else f"{one:.3f}"
