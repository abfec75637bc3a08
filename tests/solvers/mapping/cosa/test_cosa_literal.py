"""The paper's own program, binaries with permutation ranks, has the optimum of the counting program.

A binary x[factor, place] for every single prime factor; at the level above the network and at DRAM the
temporal places are ranks that hold one factor each (innermost first), and binaries Y[tensor, rank] say if a
loop at or inside the rank moves the tensor (Eq. 9). Traffic counts rank z for a tensor if Y is 1 there
(Eq. 10); the product of x and Y is linearised by one more binary.

Tiles in Util and Traf are the paper's, without halos: of an axis whose window slides, the longer dim alone.
Whether tiles fit is decided in whole words, with the ``(P - 1) * stride + (R - 1) * dilation + 1`` rows of an
input: the tile of a dim is multiplied up factor by factor, and no logarithm is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import log2
from typing import Any

import pytest
from ortools.sat.python import cp_model

from costmodel.formats.architectures import load_architecture
from costmodel.hardware.architecture import ALL_ROLES, Architecture, Compute, StorageLevel
from costmodel.workload.network import Layer, Role, Tensor, batched_matmul, convolution, gemm
from costmodel.workload.projection import Axis
from solvers.mapping.cosa import Params
from solvers.mapping.cosa.capacity import Keep, keep_choices
from solvers.mapping.cosa.cp_sat import CpSat
from solvers.mapping.cosa.linear import value
from solvers.mapping.cosa.objectives import network_level
from solvers.mapping.cosa.params import Boundaries, CapacitySplit, Permutation, Surrogate
from solvers.mapping.cosa.patterns import Pattern
from solvers.mapping.cosa.program import CosaProgram
from solvers.mapping.space.space import MappingSpace

SCALE = 1_000_000
PARAMS = Params(compute_weight=3.0, utilisation_weight=0.0, traffic_weight=1.0, capacity_split="even")

Place = tuple[int, str]
"""A level and "temporal", "x", "y", or "rank 0", "rank 1", ..."""


def prime_factors(number: int) -> list[int]:
    factors, prime = [], 2
    while number > 1:
        while number % prime == 0:
            factors.append(prime)
            number //= prime
        prime += 1
    return factors


def bits(number: float) -> int:
    return round(log2(number) * SCALE)


class Literal:
    """CoSA as printed, for one architecture, layer and choice of kept tensors.

    ``halos``: whether tiles have to fit with their halos; the paper's tiles have none.
    """

    def __init__(
        self, architecture: Architecture, layer: Layer, keep: Keep, split: CapacitySplit, halos: bool = True
    ) -> None:
        self.architecture, self.layer, self.keep = architecture, layer, keep
        self.split, self.halos = split, halos
        self.model = cp_model.CpModel()
        self.dram = len(architecture.levels) - 1
        self.ranked = {network_level(architecture), self.dram}
        factors = [(dim, prime) for dim, size in layer.dims for prime in prime_factors(size)]
        self.factors = list(enumerate(factors))
        self.x: dict[tuple[int, Place], Any] = {
            (number, place): self.model.new_bool_var("")
            for number, _ in self.factors
            for place in self.places
        }
        self.place_factors()
        self.fit_fanouts()
        self.fit_buffers()

    @property
    def ranks(self) -> list[str]:
        return [f"rank {z}" for z in range(sum(len(prime_factors(size)) for _, size in self.layer.dims))]

    def temporal(self, level: int) -> list[Place]:
        return [(level, kind) for kind in (self.ranks if level in self.ranked else ["temporal"])]

    @property
    def places(self) -> list[Place]:
        levels = range(self.dram + 1)
        return [place for level in levels for place in [*self.temporal(level), (level, "x"), (level, "y")]]

    def log(self, dims: Any, places: list[Place]) -> Any:
        return sum(
            bits(prime) * self.x[number, place]
            for number, (dim, prime) in self.factors
            if dim in dims
            for place in places
        )

    def place_factors(self) -> None:
        for number, _ in self.factors:
            self.model.add_exactly_one(self.x[number, place] for place in self.places)
        for place in self.places:
            if place[1].startswith("rank"):
                self.model.add_at_most_one(self.x[number, place] for number, _ in self.factors)

    def fit_fanouts(self) -> None:
        for index, level in enumerate(self.architecture.levels):
            for kind, room in (("x", level.fanout_x), ("y", level.fanout_y)):
                self.model.add(self.log(self.layer.sizes, [(index, kind)]) <= bits(room + 0.5))
            for (one, (dim, _)), (two, (other, _)) in product(self.factors, repeat=2):
                if dim == other:
                    self.model.add_implication(self.x[one, (index, "x")], ~self.x[two, (index, "y")])

    def fit_buffers(self) -> None:
        # Without halos and gaps a tile is a product of bounds, and its logarithm decides as well, in far less
        # time: whole words are within a share where they are below half a word more.
        terms = [axis for tensor in self.layer.tensors for axis in tensor.terms]
        plain = not any(
            sum(self.layer.sizes[dim] > 1 for dim, _ in axis) > 1
            or any(words > 1 and self.layer.sizes[dim] > 1 for dim, words in axis)
            for axis in terms
        )
        for index, level in enumerate(self.architecture.levels[:-1]):
            if plain and self.split == "even":
                kept = [tensor for tensor in self.layer.tensors if tensor.name in self.keep[index]]
                for tensor in kept:
                    share = int(level.usable_words) // len(kept)
                    self.model.add(self.tile(tensor, index) <= bits(share + 0.5))
                continue
            words, usable = self.words(index), int(level.usable_words)
            if self.split == "free":
                self.model.add(sum(words) <= usable)
            for one in words if self.split == "even" else ():
                self.model.add(one <= usable // len(words))

    def words(self, level: int) -> list[Any]:
        """The words of each kept tensor's tile, as whole numbers."""
        bounds = {dim: self.bound(dim, level) for dim in self.layer.sizes}
        kept = [tensor for tensor in self.layer.tensors if tensor.name in self.keep[level]]
        return [self.multiplied([self.extent(axis, bounds) for axis in tensor.terms]) for tensor in kept]

    def extent(self, axis: Axis, bounds: dict[str, Any]) -> Any:
        """The words along one axis: of an input, the rows that its outputs' windows cover together."""
        if not self.halos:
            return bounds[self.longer(axis)[0]]
        return 1 + sum(words * (bounds[dim] - 1) for dim, words in axis)

    def bound(self, dim: str, level: int) -> Any:
        """The iterations of ``dim`` within a tile of ``level``: 1, times each factor that stands inside."""
        within = [place for place in self.places if place[0] <= level]
        bound: Any = 1
        for number, (of, prime) in self.factors:
            if of == dim:
                inside = self.model.new_bool_var("")
                self.model.add(inside == sum(self.x[number, place] for place in within))
                larger = self.model.new_int_var(1, self.layer.sizes[dim], "")
                self.model.add(larger == prime * bound).only_enforce_if(inside)
                self.model.add(larger == bound).only_enforce_if(~inside)
                bound = larger
        return bound

    def multiplied(self, factors: list[Any]) -> Any:
        product_: Any = 1
        for factor in factors:
            larger = self.model.new_int_var(1, 10**6, "")
            self.model.add_multiplication_equality(larger, [product_, factor])
            product_ = larger
        return product_

    def longer(self, axis: Axis) -> tuple[str, int]:
        """Of an axis whose window slides, the dim whose steps reach over more words, and the words a step."""
        return max(axis, key=lambda term: self.layer.sizes[term[0]] * term[1])

    def tile(self, tensor: Tensor, level: int) -> Any:
        """The paper's (Eq. 1)."""
        dims = {self.longer(axis)[0] for axis in tensor.terms}
        return self.log(dims, [place for place in self.places if place[0] <= level])

    def boundary(self, tensor: Tensor, across: int) -> tuple[int, int]:
        """The levels that keep the tensor inside (-1: the MAC) and at or outside level ``across``."""
        parent = next(i for i in range(across, self.dram + 1) if tensor.name in self.keep[i])
        return next((i for i in range(across - 1, -1, -1) if tensor.name in self.keep[i]), -1), parent

    def traffic(self, tensor: Tensor, child: int, parent: int) -> Any:
        """D + L + T over one boundary (Eq. 7, 8, 10)."""
        spatial = [(level, kind) for level in range(self.dram + 1) for kind in ("x", "y")]
        words = self.tile(tensor, child) if child >= 0 else 0
        words += self.log(tensor.dims, [place for place in spatial if child < place[0] <= parent])
        words += self.log(self.layer.sizes, [place for place in spatial if place[0] > parent])
        return words + sum(self.sweeps(tensor, child, level) for level in range(child + 1, self.dram + 1))

    def sweeps(self, tensor: Tensor, child: int, level: int) -> Any:
        """T of one level: the loops there that transfer the tensor again."""
        if child < 0:
            return self.log(self.layer.sizes, self.temporal(level))
        if level not in self.ranked:
            alone = level == child + 1 and self.keep[child] == {tensor.name}
            return self.log(tensor.dims if alone else self.layer.sizes, self.temporal(level))
        inside = [place for between in range(child + 1, level) for place in self.temporal(between)]
        total, moved = 0, self.moved(tensor, inside, None)
        for place in self.temporal(level):
            moved = self.moved(tensor, [place], moved)
            total += sum(bits(p) * self.both(self.x[n, place], moved) for n, (_, p) in self.factors)
        return total

    def moved(self, tensor: Tensor, places: list[Place], before: Any) -> Any:
        """Y: at least the relevant factors in ``places``, at least Y one rank further in (Eq. 9)."""
        y = self.model.new_bool_var("")
        for number, (dim, _) in self.factors:
            for place in places:
                if dim in tensor.dims:
                    self.model.add_implication(self.x[number, place], y)
        if before is not None:
            self.model.add_implication(before, y)
        return y

    def both(self, one: Any, two: Any) -> Any:
        product_ = self.model.new_bool_var("")
        self.model.add(product_ >= one + two - 1)
        return product_

    def optimum(self, params: Params) -> float:
        steps = [place for level in range(self.dram + 1) for place in self.temporal(level)]
        network = network_level(self.architecture)
        across = {
            "paper": [network],
            "network": [network, self.dram],
            "all": list(range(1, self.dram + 1)),
        }[params.boundaries]
        boundaries = [(t, *self.boundary(t, level)) for t in self.layer.tensors for level in across]
        if params.boundaries == "all":
            boundaries = list(dict.fromkeys(boundaries))
        traffic = sum(self.traffic(*boundary) for boundary in boundaries)
        compute = self.log(self.layer.sizes, steps)
        used = sum(
            self.tile(tensor, level)
            for level in range(self.dram)
            for tensor in self.layer.tensors
            if tensor.name in self.keep[level]
        )
        if params.surrogate == "difference":
            goal = params.traffic_weight * traffic - compute
        else:
            goal = (
                params.compute_weight * compute
                + params.traffic_weight * traffic
                - params.utilisation_weight * used
            )
        self.model.minimize(goal)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        assert solver.solve(self.model) == cp_model.OPTIMAL
        return solver.objective_value / SCALE


def counted_optimum(architecture: Architecture, layer: Layer, keep: Keep, params: Params) -> float:
    program = CosaProgram(MappingSpace(architecture, layer), keep, params)
    engine = CpSat(program.integer, 0)
    return min(
        value(program.goal(pattern).objective, fitting_optimum(program, pattern, engine))
        for pattern in program.patterns
    )


def fitting_optimum(program: CosaProgram, pattern: Pattern, engine: CpSat) -> Sequence[int]:
    """The values of the proven optimum whose tiles fit in whole words."""
    while True:
        answer = engine.minimise(program.goal(pattern), 60)
        assert answer.proven
        assert answer.values is not None
        mapping = program._mapping(answer.values, pattern)
        if not program._cut_off_overfull(mapping, answer.values, engine):
            return answer.values


def optima_agree(architecture: Architecture, layer: Layer, params: Params) -> None:
    assert params.capacity_split in ("even", "free")
    keep = next(keep_choices(MappingSpace(architecture, layer), params))
    literal = Literal(architecture, layer, keep, params.capacity_split).optimum(params)
    assert counted_optimum(architecture, layer, keep, params) == pytest.approx(literal, abs=2e-3)


def level(name: str, words: int | None, keeps: tuple[Role, ...], x: int = 1, y: int = 1) -> StorageLevel:
    return StorageLevel(name, words, 8, 1.0, 1.0, 1.0, fanout_x=x, fanout_y=y, keeps=keeps)


MAC = Compute("MAC", 8, 1.0)
SMALL_SIMBA = Architecture(
    "small simba",
    (
        level("Registers", 1, ("weights",)),
        level("AccumulationBuffer", 4, ("outputs",), x=2),
        level("WeightBuffer", 8, ("weights",)),
        level("InputBuffer", 6, ("inputs",), x=2),
        level("GlobalBuffer", 32, ("inputs", "outputs"), x=2, y=2),
        level("DRAM", None, ALL_ROLES),
    ),
    MAC,
)
SMALL_EYERISS = Architecture(
    "small eyeriss",
    (level("RF", 12, ALL_ROLES), level("SRAM", 48, ALL_ROLES, x=2, y=3), level("DRAM", None, ALL_ROLES)),
    MAC,
)
NO_NETWORK = Architecture("no network", (level("Buffer", 24, ALL_ROLES), level("DRAM", None, ALL_ROLES)), MAC)
SMALL = {architecture.name: architecture for architecture in (SMALL_SIMBA, SMALL_EYERISS, NO_NETWORK)}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SMALL, "simba", "C_two_level"])
@pytest.mark.parametrize(
    "layer",
    [
        gemm("gemm", M=8, N=6, K=8),
        batched_matmul("matmul", B=3, M=4, N=2, K=10),
        convolution("pointwise", K=8, C=4, P=6, Q=4, R=1, S=1),
        convolution("depthwise", K=4, C=4, P=6, Q=4, R=1, S=1, groups=4),
        gemm("wide", M=1, N=64, K=12),
    ],
    ids=lambda layer: layer.name,
)
@pytest.mark.parametrize("boundaries", ["network", "all"])
def test_counting_and_patterns_reach_the_optimum_of_binaries_and_ranks(
    name: str, layer: Layer, boundaries: Boundaries
) -> None:
    architecture = SMALL.get(name) or load_architecture(name)
    optima_agree(architecture, layer, replace(PARAMS, boundaries=boundaries))


SLIDING = [
    convolution("windows", K=4, C=2, P=6, Q=1, R=3, S=1),
    convolution("both axes", K=2, C=2, P=4, Q=2, R=3, S=2),
    convolution("strides", K=4, C=2, P=6, Q=1, R=3, S=1, stride=(2, 2)),
    convolution("gaps", K=2, C=4, P=6, Q=1, R=1, S=1, stride=(3, 1)),
    convolution("dilated", K=4, C=2, P=6, Q=1, R=3, S=1, dilation=(2, 1)),
    convolution("long filter", K=4, C=2, P=2, Q=1, R=9, S=1),
    convolution("depthwise windows", K=4, C=4, P=6, Q=2, R=3, S=1, groups=4),
]
"""Layers whose inputs have halos, or gaps between the words in use."""


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("layer", SLIDING, ids=lambda layer: layer.name)
@pytest.mark.parametrize("split", ["even", "free"])
def test_tiles_with_halos_fit_in_both(name: str, layer: Layer, split: CapacitySplit) -> None:
    optima_agree(SMALL[name], layer, replace(PARAMS, capacity_split=split))


@pytest.mark.parametrize("name", ["small eyeriss", "no network"])
def test_strides_and_halos_decide_what_fits(name: str) -> None:
    """By the paper's tiles more would fit, and the literal optimum would be another."""
    (layer,) = (layer for layer in SLIDING if layer.name == "strides")
    keep = next(keep_choices(MappingSpace(SMALL[name], layer), PARAMS))
    fitting, papers = (
        Literal(SMALL[name], layer, keep, "even", halos=halos).optimum(PARAMS) for halos in (True, False)
    )
    assert papers < fitting - 0.1


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("layer", [gemm("gemm", M=8, N=6, K=8), *SLIDING[:4]], ids=lambda layer: layer.name)
@pytest.mark.parametrize("permutation", ["enumerated", "program"])
def test_utilisation_and_the_order_in_the_program_reach_the_optimum_of_binaries(
    name: str, layer: Layer, permutation: Permutation
) -> None:
    optima_agree(SMALL[name], layer, replace(PARAMS, utilisation_weight=2.0, permutation=permutation))


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("layer", [SLIDING[0], SLIDING[-1]], ids=lambda layer: layer.name)
@pytest.mark.parametrize("surrogate", ["weighted-sum", "difference"])
def test_the_papers_preset_reaches_the_optimum_of_binaries(
    name: str, layer: Layer, surrogate: Surrogate
) -> None:
    """With the weights of the released code, traffic over the network alone (Eq. 11), and Eq. 13 as well.

    Of the smallest layers: with Eq. 13 the literal program of eight prime factors takes minutes.
    """
    optima_agree(SMALL[name], layer, Params(preset="paper", surrogate=surrogate))
