"""A network on one of KAPLA's devices, layer by layer, by every method: sums, and how far from the truth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from costmodel.formats.networks import load_network
from costmodel.hardware.multi_node.template import MultiNode
from costmodel.workload.network import distinct_layers
from kapla_evaluation.cells import Found
from kapla_evaluation.layers import LayerCase, LayerCells, below_floors, total
from solvers.mapping.problem import Objective

NETWORKS = ("alexnet", "mobilenet", "vgg16", "googlenet", "resnet50", "mlp", "lstm")
"""Of the paper's evaluation."""


@dataclass(frozen=True)
class Case:
    """A part of the evaluation: the layers with weights of ``step`` of a network, each for the least
    ``objective`` on ``device``."""

    title: str
    device: MultiNode
    batch: int
    step: str = ""
    objective: Objective = "energy"


@dataclass(frozen=True)
class LayerResult:
    """A layer that stands ``count`` times in its network, and what each method found for it."""

    case: LayerCase
    count: int
    found: dict[str, Found]

    @property
    def proven(self) -> bool:
        return bool(self.found["S"]["proven"])

    @property
    def below_floors(self) -> bool:
        return any(below_floors(self.case, found) for found in self.found.values())


@dataclass(frozen=True)
class NetworkResult:
    """All layers of a network in one case."""

    case: Case
    network: str
    layers: tuple[LayerResult, ...]

    @property
    def proven(self) -> int:
        """How many of the (different) layers have a proven optimum."""
        return sum(layer.proven for layer in self.layers)

    def total(self, method: str, key: str = "objective") -> float | None:
        """The sum over all layers; None if one has no mapping."""
        return self._total(self.layers, method, key)

    def overhead(self, method: str) -> float | None:
        """Of all layers, over the best that any method found for each; None if it has none for one.

        Where an optimum is proven, the best is that. Elsewhere a better one may exist, but none below the
        bound (:meth:`overhead_at_most`).
        """
        sum_of = self.total(method)
        best = 0.0
        for layer in self.layers:
            found = [one["objective"] for one in layer.found.values() if one["objective"] is not None]
            best += layer.count * min(found, default=0.0)
        return None if sum_of is None else sum_of / best - 1

    def overhead_at_most(self, method: str) -> float | None:
        """Of all layers, over what is proven that they take at least."""
        bound = sum(layer.count * layer.found["S"]["bound"] for layer in self.layers)
        sum_of = self.total(method)
        return None if sum_of is None else sum_of / bound - 1

    def seconds(self, method: str) -> float:
        """CPU seconds, of equal layers once."""
        return sum(float(layer.found[method]["cpu_seconds"]) for layer in self.layers)

    def parts_pj(self, method: str) -> list[float] | None:
        """The energy by ``layers.PARTS``."""
        if self.total(method) is None:
            return None
        scaled = ([pj * one.count for pj in one.found[method]["parts_pj"]] for one in self.layers)
        columns = zip(*scaled, strict=True)
        return [sum(column) for column in columns]

    @property
    def drawn_fraction(self) -> float:
        """Mappings that R drew over factorisations of the space, the least of all layers."""
        fractions = (one.found["R"]["evaluations"] / one.case.factorisations for one in self.layers)
        return float(min(fractions))

    def report(self, methods: Sequence[str]) -> dict[str, Any]:
        """For JSON: sums and overheads by method, and the layers that S has not proven."""
        case = self.case
        open_layers = [layer.case.layer.name for layer in self.layers if not layer.proven]
        return {
            "case": case.title,
            "network": self.network,
            "device": case.device.name,
            "batch": case.batch,
            "objective": case.objective,
            "layers": sum(layer.count for layer in self.layers),
            "distinct": len(self.layers),
            "proven": self.proven,
            "not_proven": open_layers,
            "bound": sum(layer.count * layer.found["S"]["bound"] for layer in self.layers),
            "drawn_fraction": self.drawn_fraction if "R" in methods else None,
            "methods": {method: self._of_method(method) for method in methods},
        }

    def _of_method(self, method: str) -> dict[str, Any]:
        return {
            "total": self.total(method),
            "energy_pj": self.total(method, "energy_pj"),
            "cycles": self.total(method, "cycles"),
            "parts_pj": self.parts_pj(method),
            "overhead_best": self.overhead(method),
            "overhead_at_most": self.overhead_at_most(method),
            "cpu_seconds": self.seconds(method),
        }

    @staticmethod
    def _total(layers: Iterable[LayerResult], method: str, key: str = "objective") -> float | None:
        chosen = list(layers)
        return total([layer.found[method] for layer in chosen], [layer.count for layer in chosen], key)


def results(
    case: Case, networks: Sequence[str], methods: Sequence[str], cells: LayerCells
) -> Iterator[NetworkResult]:
    """Network by network, as they come; of each layer the quick methods first."""
    for name in networks:
        layers = distinct_layers(load_network(f"kapla-{name}{case.step}", case.batch).layers)
        mapped = []
        for layer, count in layers:
            one = LayerCase(case.device, layer, case.objective)
            mapped.append(LayerResult(one, count, {method: cells.found(one, method) for method in methods}))
        yield NetworkResult(case, name, tuple(mapped))
