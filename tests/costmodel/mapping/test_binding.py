"""What binds a mapping, against what changes when the hardware or the mapping is changed a little."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil

import pytest

from costmodel.formats.architectures import load_architecture
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.binding import MAC_UNITS, level_bindings, time_binding
from costmodel.mapping.counts.latency import Port
from costmodel.mapping.evaluate import Evaluation, evaluate
from costmodel.mapping.mapping import LevelMapping, Mapping, violations
from costmodel.workload.network import Layer, convolution, gemm
from solvers.mapping.space.space import MappingSpace

LAYERS = (
    gemm("product", M=24, N=36, K=16),
    convolution("strided", K=16, C=12, P=14, Q=7, R=3, S=3, stride=(2, 1)),
)


def drawn(architecture: Architecture, layer: Layer) -> list[Mapping]:
    """Valid mappings, drawn at random."""
    space = MappingSpace(architecture, layer)
    batch = space.sample(range(4), 3, 32)
    found = [batch.mapping(row, layer) for row in range(len(batch))]
    return [one for one in found if isinstance(one, Mapping) and not violations(architecture, layer, one)][
        :24
    ]


PORTS: tuple[Port, ...] = ("read", "write", "shared")


def narrow(architecture: Architecture, fraction: float) -> Architecture:
    """With bandwidths that bind now and then."""
    levels = tuple(
        replace(
            level,
            read_bandwidth=fraction * (1 + i) / 4,
            write_bandwidth=fraction * (1 + i) / 8,
            shared_bandwidth=fraction * (1 + i) / 3,
        )
        for i, level in enumerate(architecture.levels)
    )
    return replace(architecture, levels=levels)


def only(architecture: Architecture, index: int, ports: tuple[Port, ...]) -> Architecture:
    """With no bandwidths at the level but these."""
    levels = list(architecture.levels)
    level = levels[index]
    levels[index] = replace(
        level,
        read_bandwidth=level.read_bandwidth if "read" in ports else None,
        write_bandwidth=level.write_bandwidth if "write" in ports else None,
        shared_bandwidth=level.shared_bandwidth if "shared" in ports else None,
    )
    return replace(architecture, levels=tuple(levels))


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
@pytest.mark.parametrize("fraction", [1.0, 8.0, 64.0])
def test_the_port_that_is_named_is_to_blame(layer: Layer, fraction: float) -> None:
    """With that bandwidth alone a level asks for as many cycles, without it for fewer."""
    architecture, named = narrow(load_architecture("eyeriss"), fraction), set()
    for mapping in drawn(architecture, layer):
        evaluation = evaluate(architecture, layer, mapping)
        bindings = level_bindings(architecture, layer, mapping, evaluation)
        for index, (binding, level) in enumerate(zip(bindings, evaluation.levels, strict=True)):
            assert (binding.port is None) == (level.cycles == evaluation.compute_cycles)
            if binding.port is None:
                continue
            named.add(binding.port)
            alone = only(architecture, index, (binding.port,))
            assert evaluate(alone, layer, mapping).levels[index].cycles == level.cycles
            others = only(architecture, index, tuple(port for port in PORTS if port != binding.port))
            assert evaluate(others, layer, mapping).levels[index].cycles < level.cycles
    assert named


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
@pytest.mark.parametrize("fraction", [1.0, 8.0, 64.0])
def test_without_a_bandwidth_the_cycles_are_of_hardware_without_it(layer: Layer, fraction: float) -> None:
    """Each cause is taken away and the mapping counted again; what binds is what asks for all the cycles."""
    architecture, causes = narrow(load_architecture("eyeriss"), fraction), set()
    free = only(architecture, 0, ())
    for index in range(1, len(free.levels)):
        free = only(free, index, ())
    for mapping in drawn(architecture, layer):
        evaluation = evaluate(architecture, layer, mapping)
        bindings = level_bindings(architecture, layer, mapping, evaluation)
        found = time_binding(architecture, layer, mapping, evaluation)
        causes.add(found.cause)
        # the model divides in floating point
        assert abs(found.without[MAC_UNITS] - asked_by_bandwidths(architecture, evaluation)) <= 1
        expected = {MAC_UNITS: found.without[MAC_UNITS]}
        for index, binding in enumerate(bindings):
            if binding.port is not None:
                others = only(architecture, index, tuple(port for port in PORTS if port != binding.port))
                name = f"{architecture.levels[index].name} {binding.port} bandwidth"
                expected[name] = evaluate(others, layer, mapping).cycles
        assert found.without == expected
        if found.cause == MAC_UNITS:
            assert evaluation.cycles == evaluate(free, layer, mapping).cycles
        else:
            level, port, _ = found.cause.rsplit(" ", 2)
            alone = only(free, architecture.index(level), ())
            levels = list(alone.levels)
            levels[alone.index(level)] = only(
                architecture, architecture.index(level), tuple(p for p in PORTS if p == port)
            ).levels[architecture.index(level)]
            assert evaluate(replace(alone, levels=tuple(levels)), layer, mapping).cycles == evaluation.cycles
    assert len(causes) > 1


def asked_by_bandwidths(architecture: Architecture, evaluation: Evaluation) -> int:
    """Cycles of the slowest bandwidth alone."""
    slowest = Fraction(1)
    for level, counted in zip(architecture.levels, evaluation.levels, strict=True):
        reads = sum(tensor.reads for tensor in counted.tensors.values())
        writes = sum(tensor.fills + tensor.updates for tensor in counted.tensors.values())
        for words, bandwidth in (
            (reads, level.read_bandwidth),
            (writes, level.write_bandwidth),
            (reads + writes, level.shared_bandwidth),
        ):
            if bandwidth is not None:
                slowest = max(slowest, Fraction(words) / Fraction(bandwidth))
    return ceil(slowest)


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_without_a_part_of_a_machine_the_cycles_are_those_of_a_machine_without_it(layer: Layer) -> None:
    """On Gemmini: constants of its timing are set to nothing, and the mapping is counted again."""
    architecture, causes = load_architecture("gemmini"), set()
    timing = architecture.timing
    assert timing is not None
    assert timing.load is not None
    assert timing.store is not None
    machines = {
        "issue": replace(timing, issue_cycles=0.0, product_issue_cycles=0.0),
        "requests": replace(
            timing,
            load=replace(timing.load, cycles_per_request=0.0),
            store=replace(timing.store, cycles_per_request=0.0),
        ),
        "cache misses": replace(
            timing, caches=tuple(replace(cache, cycles_per_miss=0.0) for cache in timing.caches)
        ),
    }
    for mapping in drawn(architecture, layer):
        found = time_binding(architecture, layer, mapping, evaluate(architecture, layer, mapping))
        causes.add(found.cause)
        assert found.without[found.cause] == min(found.without.values())
        for cause, machine in machines.items():
            other = evaluate(replace(architecture, timing=machine), layer, mapping)
            if cause in found.without:
                assert found.without[cause] == other.cycles
    assert causes


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_a_level_is_full_where_no_factor_can_be_moved_in(layer: Layer) -> None:
    """Every factor of every loop outside is moved into the level; the checker of mappings says what fits."""
    small = {"SRAM.size": "512 B", "RegFile.size": "12 B"}
    architecture, seen = load_architecture("eyeriss", small), []
    for mapping in drawn(architecture, layer):
        evaluation = evaluate(architecture, layer, mapping)
        for index, binding in enumerate(level_bindings(architecture, layer, mapping, evaluation)):
            hardware = architecture.levels[index]
            tried = list(moved_in(mapping, index))
            fits = [one for one in tried if not over_capacity(architecture, layer, one, hardware.name)]
            kept = mapping.levels[index].keep and binding.usable_words is not None
            assert binding.full == bool(kept and tried and not fits)
            assert binding.words == sum(
                tensor.words(mapping.tiles[index])
                for tensor in layer.tensors
                if tensor.name in mapping.levels[index].keep
            )
            seen.append(binding.full)
    assert True in seen
    assert False in seen


def moved_in(mapping: Mapping, index: int) -> list[Mapping]:
    """The mapping with one factor (any above 1) of a temporal loop outside the level moved into it."""
    found = []
    for outer in range(index + 1, len(mapping.levels)):
        for dim, bound in mapping.levels[outer].temporal:
            for factor in (f for f in range(2, bound + 1) if bound % f == 0):
                levels = list(mapping.levels)
                levels[index] = with_factor(levels[index], dim, factor)
                levels[outer] = with_factor(levels[outer], dim, 1 / factor)
                found.append(Mapping(tuple(levels)))
    return found


def with_factor(level: LevelMapping, dim: str, factor: float) -> LevelMapping:
    bounds = dict(level.temporal)
    bounds[dim] = round(bounds.get(dim, 1) * factor)
    return replace(level, temporal=tuple((d, b) for d, b in bounds.items() if b > 1))


def over_capacity(architecture: Architecture, layer: Layer, mapping: Mapping, level: str) -> bool:
    reasons = violations(architecture, layer, mapping)
    assert all("tiles need" in reason for reason in reasons), reasons
    return any(reason.startswith(f"{level}: ") for reason in reasons)
