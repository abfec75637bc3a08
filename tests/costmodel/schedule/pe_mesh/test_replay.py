"""Replays of mappings' programs on a mesh of PEs, beside the cost model's cycles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from costmodel.formats.architectures import load_architecture
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import Mapping
from costmodel.replay.replay import replay
from costmodel.replay.tables import ReplayOptions
from costmodel.schedule.pe_mesh.writer import UNLIMITED, mesh_program
from costmodel.workload.network import Layer
from tests.costmodel.schedule.pe_mesh.test_words import LAYERS

RandomMappings = Callable[[Architecture, Layer, int, int], Iterator[Mapping]]


@pytest.mark.parametrize("layer", LAYERS)
def test_without_limits_only_the_macs_take_time(layer: str, random_mappings: RandomMappings) -> None:
    simba = load_architecture("simba")
    dram = replace(simba.levels[-1], read_bandwidth=None, write_bandwidth=None)
    unlimited = replace(simba, levels=(*simba.levels[:-1], dram))
    for mapping in random_mappings(unlimited, LAYERS[layer], 15, 2):
        found = replay(mesh_program(unlimited, LAYERS[layer], mapping, UNLIMITED))
        compute = evaluate(unlimited, LAYERS[layer], mapping).compute_cycles
        # the first data and the last outputs take a part of a cycle
        assert compute <= found.cycles <= compute + 1
        assert found.operations == LAYERS[layer].macs


@pytest.mark.parametrize("layer", LAYERS)
def test_without_contention_on_the_mesh_cycles_are_bounded_by_the_cost_models(
    layer: str, random_mappings: RandomMappings
) -> None:
    simba = load_architecture("simba")
    for mapping in random_mappings(simba, LAYERS[layer], 15, 3):
        found = replay(mesh_program(simba, LAYERS[layer], mapping, UNLIMITED))
        counted = evaluate(simba, LAYERS[layer], mapping)
        read, written = found.dram_read_bytes / 10, found.dram_write_bytes / 10
        # at each moment PEs compute, or DRAM reads, or it writes
        assert counted.cycles <= found.cycles <= counted.compute_cycles + read + written + 2


def test_a_narrow_mesh_takes_longer(random_mappings: RandomMappings) -> None:
    simba = load_architecture("simba")
    for mapping in random_mappings(simba, LAYERS["3x3"], 10, 4):
        cycles = [
            replay(mesh_program(simba, LAYERS["3x3"], mapping, width), ReplayOptions(20, 2)).cycles
            for width in (64, 8, 1)
        ]
        assert cycles == sorted(cycles)
