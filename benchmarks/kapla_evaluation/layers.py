"""One layer on one of KAPLA's devices, mapped by one method: S, R, M or K of the paper's evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import ceil, inf, prod
from typing import Any

from costmodel.hardware.multi_node.derived import architecture, array_constraints
from costmodel.hardware.multi_node.template import MultiNode
from costmodel.mapping.counts.traffic import distinct_sums
from costmodel.mapping.evaluate import Evaluation, evaluate
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import Layer
from kapla_evaluation.cells import CellFile, Found, content_key
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.mapping.problem import MappingProblem, Objective
from solvers.mapping.space.rules import LevelRules, SpaceRules
from solvers.mapping.space.space import MappingSpace
from solvers.outcome import Outcome, Status

METHODS = {"S": "exact", "R": "random_search", "M": "learned_annealing", "K": "kapla"}
"""The paper's letters, and the solvers that stand for them here."""

PARTS = ("MAC", "REGF", "GBUF", "DRAM", "idle")
"""Of the energy; the bus of a node is paid by what it carries, in REGF (to a PE) and GBUF (back)."""

SEED = 0


@dataclass(frozen=True)
class Effort:
    """How much a method may spend on a layer.

    ``wall_seconds`` of S on the clock (a busy machine gives it less). R draws ``probability`` times as many
    mappings as the space has factorisations, at most ``most_draws``. M measures ``batches`` batches of 128.
    """

    wall_seconds: float = 10.0
    probability: float = 0.1
    most_draws: int = 100_000
    batches: int = 32

    def draws(self, factorisations: int) -> int:
        return max(1, min(ceil(self.probability * factorisations), self.most_draws))


@dataclass(frozen=True)
class LayerCase:
    """``layer`` with least ``objective`` on ``device``, within what its PE array's mapping allows."""

    device: MultiNode
    layer: Layer
    objective: Objective = "energy"

    @cached_property
    def problem(self) -> MappingProblem:
        rules = tuple(LevelRules(**one) for one in array_constraints(self.device, self.layer))
        return MappingProblem(architecture(self.device), self.layer, self.objective, SpaceRules(levels=rules))

    @cached_property
    def factorisations(self) -> int:
        space = MappingSpace(self.problem.architecture, self.layer, self.problem.rules)
        return sum(map(space.count_factorisations, product(*space.keep_sets)))

    @property
    def fewest_dram_words(self) -> int:
        """Each tensor once, without what strides skip."""
        return sum(
            prod(
                distinct_sums([(self.layer.sizes[dim], coefficient) for dim, coefficient in axis])
                for axis in tensor.terms
            )
            for tensor in self.layer.tensors
        )


@dataclass(frozen=True)
class LayerCells:
    """Layers mapped once and kept: equal ones are one cell, whatever network or step they are of."""

    file: CellFile
    effort: Effort = field(default_factory=Effort)

    def found(self, case: LayerCase, method: str) -> Found:
        """The method's answer: ``objective`` None without a mapping; else also ``energy_pj`` and its parts,
        ``cycles``, ``dram_words``; always ``proven``, ``bound``, ``cpu_seconds``, ``evaluations``."""
        module = solver(METHODS[method], "mapping").load()
        problem, effort = case.problem, self.effort
        spent = {"R": (effort.probability, effort.most_draws), "M": (effort.batches,)}.get(method)
        # The shape, not the name: equal layers of other networks and steps share a cell. VERSION is in it, so
        # a changed solver fills new ones.
        what = (problem.architecture, problem.layer.shape, problem.objective, problem.rules)
        key = content_key(*what, METHODS[method], module.VERSION, spent)
        title = f"{method} {case.device.name} {case.objective} {case.layer.name}"
        return self.file.get(key, title, lambda: self._solved(case, method), self._enough)

    def _enough(self, found: Found) -> bool:
        """A proof is one whatever time it had; without one S tries again if it has more time."""
        return bool(found["proven"] or found.get("wall_seconds", inf) >= self.effort.wall_seconds)

    def _solved(self, case: LayerCase, method: str) -> Found:
        outcome = getattr(self, f"_{METHODS[method]}")(case)
        found: Found = {
            "objective": outcome.objective,
            "proven": outcome.status is Status.OPTIMAL,
            "bound": outcome.bound or 0.0,
            "cpu_seconds": outcome.cpu_seconds,
            "evaluations": outcome.evaluations,
        }
        if method == "S":
            found["wall_seconds"] = self.effort.wall_seconds
        return found if outcome.solution is None else found | counted(case, outcome.solution)

    def _exact(self, case: LayerCase) -> Outcome[Any]:
        """From K's mapping on: what is not better need not be looked at."""
        module = solver("exact", "mapping").load()
        start = self._kapla(case).solution
        outcome: Outcome[Any] = module.solve(case.problem, Budget(self.effort.wall_seconds), start=start)
        return outcome

    def _kapla(self, case: LayerCase) -> Outcome[Mapping]:
        outcome: Outcome[Mapping] = solver("kapla", "mapping").load().solve(case.problem, Budget())
        return outcome

    def _random_search(self, case: LayerCase) -> Outcome[Mapping]:
        module = solver("random_search", "mapping").load()
        draws = self.effort.draws(case.factorisations)
        outcome: Outcome[Mapping] = module.solve(
            case.problem, Budget(600.0, draws, SEED), module.Params(victory=draws)
        )
        return outcome

    def _learned_annealing(self, case: LayerCase) -> Outcome[Mapping]:
        module = solver("learned_annealing", "mapping").load()
        params = module.Params(batches=self.effort.batches)
        outcome: Outcome[Mapping] = module.solve(case.problem, Budget(600.0, seed=SEED), params)
        return outcome


def counted(case: LayerCase, mapping: Mapping) -> Found:
    """What the cost model says of a mapping, and its energy by component."""
    found = evaluate(case.problem.architecture, case.layer, mapping)
    return {
        "energy_pj": found.energy_pj,
        "cycles": found.cycles,
        "dram_words": sum(one.reads + one.fills + one.updates for one in found.levels[-1].tensors.values()),
        "parts_pj": parts_pj(found),
    }


def parts_pj(found: Evaluation) -> list[float]:
    """The energy by :data:`PARTS`."""
    idle = sum(level.leakage_pj for level in found.levels)
    return [found.mac_energy_pj, *(level.energy_pj - level.leakage_pj for level in found.levels), idle]


def below_floors(case: LayerCase, found: Found) -> bool:
    """Whether it takes less time than MACs / PEs, or less from DRAM than each tensor once."""
    if found["objective"] is None:
        return False
    # Floors that share no code with the cost model's bounds: a count below one of them is a mistake of ours.
    in_time = found["cycles"] * case.device.macs >= case.layer.macs
    return not in_time or found["dram_words"] < case.fewest_dram_words


def total(founds: Sequence[Found], counts: Sequence[int], key: str = "objective") -> float | None:
    """The sum over the layers of a network; None if one has no mapping."""
    values: list[Any] = [found.get(key) for found in founds]
    if None in values:
        return None
    return float(sum(value * count for value, count in zip(values, counts, strict=True)))
