"""Random small mapping problems with every corner of the cost model, and mappings to attack bounds with."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from costmodel.formats.architectures import architecture_names, load_architecture
from costmodel.hardware.architecture import ALL_ROLES, Architecture, Compute, StorageLevel
from costmodel.hardware.processing_timing import ProcessingTiming, TensorLink
from costmodel.hardware.timing import ArrayTiming, CacheTiming, Timing, TransferTiming
from costmodel.mapping.batch.batch import BatchEvaluation, BatchEvaluator, MappingBatch
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import Layer, Role, Tensor, batched_matmul, convolution, gemm
from solvers.mapping.problem import OBJECTIVES, MappingProblem
from solvers.mapping.space.neighbours import Neighbourhood
from solvers.mapping.space.rules import FactorRule, KeepRule, LevelRules, SpaceRules
from solvers.mapping.space.space import MappingSpace

KEEPS: tuple[KeepRule, ...] = ("fitting", "free", "all")


def problems(seed: int) -> Iterator[MappingProblem]:
    """Endless problems: library architectures in turn, shrunk and bent; the rest is drawn."""
    rng = random.Random(seed)
    while True:
        for architecture in map(load_architecture, architecture_names()):
            if architecture.timing is not None:  # has problems of its own: its cycles follow other laws
                continue
            architecture = bent(architecture, rng)
            layer = small_layer(rng, most_macs=200 if len(architecture.levels) < 4 else 50)
            yield MappingProblem(
                architecture, layer, rng.choice(OBJECTIVES), SpaceRules(keep=rng.choice(KEEPS))
            )


def invented_problems(seed: int) -> Iterator[MappingProblem]:
    """Endless problems on machines of 2 to 6 levels with fan-outs and bypasses anywhere."""
    rng = random.Random(seed)
    while True:
        architecture = _invented(rng)
        layer = small_layer(rng, most_macs=200 if len(architecture.levels) < 4 else 40)
        keep = rng.choice(KEEPS) if len(architecture.levels) < 5 else "fitting"
        yield MappingProblem(architecture, layer, rng.choice(OBJECTIVES), SpaceRules(keep=keep))


def begun_problems(seed: int) -> Iterator[MappingProblem]:
    """Endless problems of both kinds whose layers add to partial sums that are there before."""
    for pair in zip(problems(seed), invented_problems(seed), strict=False):
        for problem in pair:
            yield replace(problem, layer=problem.layer.continued)


def timed_problems(seed: int) -> Iterator[MappingProblem]:
    """Endless problems on machines with timing of every kind, whose caches are too small for most layers."""
    rng = random.Random(seed)
    for problem in invented_problems(seed + 1):
        timing = drawn_timing(rng)
        architecture = replace(problem.architecture, timing=timing)
        yield replace(problem, architecture=architecture, objective=rng.choice(["cycles", "cycles", "edp"]))


def processing_problems(seed: int) -> Iterator[MappingProblem]:
    """Endless problems on arrays of PEs with links, with and without other timing."""
    rng = random.Random(seed)
    for problem in invented_problems(seed + 1):
        architecture = problem.architecture
        timing = drawn_timing(rng) if rng.random() < 0.3 else Timing(array=None, load=None, store=None)
        timing = replace(timing, processing=_drawn_processing(architecture, rng))
        architecture = replace(architecture, timing=timing)
        yield replace(problem, architecture=architecture, objective=rng.choice(["cycles", "cycles", "edp"]))


def _drawn_processing(architecture: Architecture, rng: random.Random) -> ProcessingTiming:
    links = [
        TensorLink(level.name, role, rng.choice([None, 0.3, 1.0, 4.0]), rng.choice([None, 0.5, 3.0]))
        for level in architecture.levels
        for role in ALL_ROLES
        if rng.random() < 0.3
    ]
    operands: tuple[Role, ...] = ("weights", "inputs")
    fills = [(role, rng.choice([0.4, 2.0])) for role in operands if rng.random() < 0.5]
    return ProcessingTiming(tuple(links), rng.choice([0.0, 0.54, 3.0]), tuple(fills))


def drawn_timing(rng: random.Random) -> Timing:
    """A timing in which every number is drawn and every part can be missing."""

    def transfer() -> TransferTiming | None:
        if rng.random() < 0.15:
            return None
        return TransferTiming(
            request_bytes=rng.choice([8, 64, 24]),
            beat_bytes=rng.choice([1, 4, 16, 3]),
            buffer_bytes=rng.choice([None, 1, 5]),
            short_requests_in_proportion=rng.random() < 0.5,
            cycles_per_request=rng.choice([0.0, 2.05, 7.0]),
            cycles_per_row=rng.choice([0.0, 0.0, 1.3]),
            joins_rows=rng.random() < 0.4,
            row_elements=rng.choice([None, None, 3, 16]),
            product_row_elements=rng.choice([None, 4]),
        )

    def cache(name: str) -> CacheTiming:
        line, ways, sets = rng.choice([4, 16, 64, 12]), rng.choice([1, 2]), rng.choice([1, 2, 4, 8, 3])
        costs = rng.choice([0.0, 5.5]), rng.choice([1.0, 2.0])
        return CacheTiming(name, line * ways * sets, line, ways, *costs)

    array = ArrayTiming(
        block=rng.choice([(("C", 4), ("K", 4)), (("K", 3),), ()]),
        pass_dim=rng.choice(["P", "Q"]),
        pass_points=rng.choice([1, 4, 16]),
        least_pass_cycles=rng.choice([1.0, 4.0, 7.2]),
        pass_latency_cycles=rng.choice([0.0, 11.0]),
        passes_in_flight=rng.choice([1, 3]),
        least_last_pass_cycles=rng.choice([0.0, 6.0]),
    )
    return Timing(
        array=array if rng.random() < 0.8 else None,
        load=transfer(),
        store=transfer(),
        caches=tuple(cache(f"cache {number}") for number in range(rng.choice([0, 1, 2]))),
        layouts=rng.choice(
            [
                (),
                (("inputs", ("N", "Q", "P", "C")), ("weights", ("R", "S", "C", "K"))),
                (("inputs", ("N", "C", "Q", "P", "4C")), ("weights", ("K", "2K", "R", "S", "C", "3C"))),
                (("inputs", ("Q", "3Q", "P")), ("outputs", ("N", "K", "Q", "P", "2K"))),
            ]
        ),
        steps_in_flight=rng.choice([1, 2, 2, 2]),
        issue_cycles=rng.choice([0.0, 3.0, 40.0]),
        product_issue_cycles=rng.choice([None, 5.0]),
        product_block=rng.choice([(), (("P", 4), ("K", 3))]),
        reloads=rng.choice([(), ("inputs",), ("inputs", "weights")]),
        keeps_partial_sums=rng.random() < 0.5,
        clear_cycles_per_row=rng.choice([0.0, 1.0]),
        whole_strides=rng.random() < 0.5,
        starts_warm=rng.random() < 0.5,
        whole_steps=rng.choice([(), ("convolution",), ("convolution", "product")]),
        ahead_cycles=rng.choice([0.0, 2.5, 30.0]),
    )


def _invented(rng: random.Random) -> Architecture:
    count = rng.choice([2, 3, 3, 4, 4, 5, 6])
    levels = [
        replace(
            _bent(StorageLevel(f"L{number}", 8, 16, *_energies(rng)), rng),
            keeps=tuple(rng.sample(ALL_ROLES, rng.choice([1, 2, 3, 3]))),
        )
        for number in range(count - 1)
    ]
    dram = replace(_bent(StorageLevel("DRAM", 8, 16, *_energies(rng)), rng), size_words=None)
    architecture = Architecture("invented", (*levels, dram), Compute("MAC", 16, rng.choice([0.0, 1.5])))
    wide = [number for number, level in enumerate(architecture.levels) if level.fanout > 1]
    for number in wide[3:]:  # more fan-outs in a row make too many mappings to enumerate
        level = replace(architecture.levels[number], fanout_x=1, fanout_y=1)
        changed = (*architecture.levels[:number], level, *architecture.levels[number + 1 :])
        architecture = replace(architecture, levels=changed)
    return architecture


def _energies(rng: random.Random) -> tuple[float, float, float]:
    """Of a read, a write and an update: equal, unequal or nothing."""
    one = rng.choice([0.0, 0.5, 1.0, 6.25, 200.0])
    return rng.choice([(one, one, one), (one, 1.1, 3.0), (2.0, one, 0.0)])


def constrained(problem: MappingProblem, seed: int) -> MappingProblem:
    """The same problem with constraints on some levels; often none of its mappings obeys them."""
    rng = random.Random(seed)
    levels = [
        _level_rules(level.name, problem, rng)
        for level in problem.architecture.levels[:-1]
        if rng.random() < 0.6
    ]
    return replace(problem, rules=replace(problem.rules, levels=tuple(levels)))


def _level_rules(level: str, problem: MappingProblem, rng: random.Random) -> LevelRules:
    sizes = problem.layer.sizes
    order = rng.sample(list(sizes), rng.choice([0, 0, 1, 2]))
    tensors = [tensor.name for tensor in problem.layer.tensors]
    return LevelRules(
        level,
        temporal=tuple(_factor_rules(sizes, rng)),
        spatial=tuple(_factor_rules(sizes, rng)),
        innermost=tuple(order[:1]),
        outermost=tuple(order[1:]),
        spatial_x=tuple(rng.sample(list(sizes), 2)) if rng.random() < 0.2 else None,
        bypass=(rng.choice(tensors),) if rng.random() < 0.2 and problem.rules.keep == "free" else (),
    )


def _factor_rules(sizes: dict[str, int], rng: random.Random) -> Iterator[FactorRule]:
    for dim, size in sizes.items():
        if rng.random() < 0.2:
            least = 1 if rng.random() < 0.7 else min(2, size)
            yield FactorRule(dim, least, rng.choice([None, max(least, size // 2), least]))


def bent(architecture: Architecture, rng: random.Random) -> Architecture:
    """The architecture with small memories and fan-outs, and some of its numbers replaced by nasty ones."""
    levels = [_bent(level, rng) for level in architecture.levels[:-1]]
    dram = replace(_bent(architecture.levels[-1], rng), size_words=None, multiple_buffering=1.0)
    if rng.random() < 0.7:
        dram = replace(dram, fanout_x=1, fanout_y=1)
    compute = replace(architecture.compute, energy_pj=rng.choice([0.0, architecture.compute.energy_pj]))
    return replace(architecture, levels=(*levels, dram), compute=compute)


def _bent(level: StorageLevel, rng: random.Random) -> StorageLevel:
    changes: dict[str, object] = {
        "size_words": rng.choice([1, 2, 3, 4, 7, 12, 24, 50, 200]),
        "multiple_buffering": rng.choice([1.0, 1.0, 1.0, 1.5]) if rng.random() < 0.5 else 1.0,
        "fanout_x": rng.choice([1, 1, 2, 3, 4, 6]),
        "fanout_y": rng.choice([1, 1, 2, 3]),
    }
    if rng.random() < 0.5:
        changes["block_size"] = rng.choice([1, 2, 3, 8])
    if rng.random() < 0.4:
        changes["leakage_pj_per_cycle"] = rng.choice([0.0, 0.25, 7.0])
    for key in ("read_bandwidth", "write_bandwidth", "shared_bandwidth"):
        if rng.random() < 0.4:
            changes[key] = rng.choice([None, 0.5, 1.0, 2.5, 8.0])
    for key in ("read_energy_pj", "write_energy_pj", "update_energy_pj"):
        if rng.random() < 0.25:
            changes[key] = rng.choice([0.0, 0.01, 1.0, 30.0])
    bent_level = replace(level, **changes)  # type: ignore[arg-type]
    return bent_level if bent_level.usable_words >= 1 else replace(bent_level, multiple_buffering=1.0)


def small_layer(rng: random.Random, most_macs: int) -> Layer:
    """A layer of at most ``most_macs`` with few prime factors, of a kind drawn at random."""
    while True:
        layer = rng.choice(_KINDS)(rng)
        if layer.macs <= most_macs and _primes(layer) <= 7:
            return layer


def _size(rng: random.Random) -> int:
    return rng.choice([1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13])


def _convolution(rng: random.Random) -> Layer:
    """Strides may exceed the kernel, and leave inputs that nobody reads."""
    sizes = {dim: _size(rng) for dim in "NKCPQ"}
    stride = rng.choice([1, 1, 2, 3, 5]), rng.choice([1, 2])
    dilation = rng.choice([1, 1, 2, 3]), rng.choice([1, 2])
    r, s = rng.choice([1, 2, 3, 5]), rng.choice([1, 1, 2, 3])
    return convolution("c", R=r, S=s, stride=stride, dilation=dilation, **sizes)


def _grouped(rng: random.Random) -> Layer:
    groups, inside = rng.choice([2, 3, 4]), rng.choice([1, 1, 2])
    sizes: dict[str, Any] = {dim: rng.choice([1, 2, 3, 4]) for dim in "PQRS"}
    return convolution("g", K=groups * inside, C=groups * inside, groups=groups, **sizes)


def _pointwise(rng: random.Random) -> Layer:
    sizes: dict[str, Any] = {dim: _size(rng) for dim in "NKCPQ"}
    return convolution("p", R=1, S=1, stride=(rng.choice([1, 2]), 1), **sizes)


def _gemm(rng: random.Random) -> Layer:
    return gemm("m", M=_size(rng), N=_size(rng), K=_size(rng))


def _batched(rng: random.Random) -> Layer:
    return batched_matmul("b", B=_size(rng), M=_size(rng), N=_size(rng), K=_size(rng))


def _scatter(rng: random.Random) -> Layer:
    """A transposed convolution: the windows overlap in the output."""
    rows = ("P", rng.choice([1, 2, 3])), ("R", 1)
    tensors = (
        Tensor.of_terms("W", ((("C", 1),), (("R", 1),)), "weights"),
        Tensor.of_terms("I", ((("C", 1),), (("P", 1),)), "inputs"),
        Tensor.of_terms("O", (rows,), "outputs"),
    )
    return Layer("t", tuple((dim, _size(rng)) for dim in "CPR"), tensors)


def _three_terms(rng: random.Random) -> Layer:
    """An axis that sums three dims, and a third input."""
    window = ("A", rng.choice([1, 2])), ("B", 1), ("D", rng.choice([1, 3]))
    tensors = (
        Tensor.of_terms("W", ((("B", 1),), (("D", 1),)), "weights"),
        Tensor.of_terms("I", (window,), "inputs"),
        Tensor.of_terms("S", ((("A", 1),), (("K", 1),)), "inputs"),
        Tensor.of_terms("O", ((("A", 1),), (("K", 1),)), "outputs"),
    )
    return Layer("x", tuple((dim, _size(rng)) for dim in "ABDK"), tensors)


_KINDS = [_convolution, _convolution, _grouped, _pointwise, _gemm, _batched, _scatter, _three_terms]


def _primes(layer: Layer) -> int:
    count = 0
    for _, size in layer.dims:
        factor = 2
        while size > 1:
            if size % factor:
                factor += 1
            else:
                size, count = size // factor, count + 1
    return count


class Attack:
    """The least energy, cycles and EDP among random mappings of a problem and around its best ones."""

    def __init__(self, problem: MappingProblem) -> None:
        self._problem = problem
        self._space = MappingSpace(problem.architecture, problem.layer, problem.rules)
        self._evaluator = BatchEvaluator(problem.architecture, problem.layer)
        self.least = dict.fromkeys(OBJECTIVES, inf)
        self.valid = 0

    def sample(self, mappings: int, seed: int) -> None:
        """Look at this many random mappings."""
        for block in range(0, mappings // 256, 64):
            self._look_at(self._space.sample(range(block, min(block + 64, mappings // 256)), seed))

    def descend(self, start: Mapping, steps: int = 20) -> None:
        """Look at all neighbours of ``start``, then of the best neighbour, for each objective."""
        around = Neighbourhood(self._space)
        for objective in OBJECTIVES:
            here, lowest = self._row(start), inf
            for _ in range(steps):
                batch = around.around(here)
                if not len(batch):
                    break
                values = self._look_at(batch)[objective]
                best = int(np.argmin(values))
                if not values[best] < lowest:
                    break
                here, lowest = batch[np.array([best])], float(values[best])

    def _row(self, mapping: Mapping) -> MappingBatch:
        return MappingBatch.of([mapping], self._problem.architecture, self._problem.layer)

    def _look_at(self, batch: MappingBatch) -> dict[str, np.ndarray]:
        found = self._evaluator.evaluate(batch)
        self.valid += int(found.valid.sum())
        values = _values(found)
        for objective in OBJECTIVES:
            self.least[objective] = min(self.least[objective], float(values[objective].min()))
        return values


def _values(found: BatchEvaluation) -> dict[str, np.ndarray]:
    return {
        "energy": np.where(found.valid, found.energy_pj, inf),
        "cycles": np.where(found.valid, found.cycles, inf),
        "edp": np.where(found.valid, found.edp_pj_cycles, inf),
    }
