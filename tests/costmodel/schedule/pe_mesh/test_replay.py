"""Replays of mappings' programs on a mesh of PEs, beside the cost model's cycles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace

import numpy as np
import pytest

from costmodel.formats.architectures import load_architecture
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import LevelMapping, Loop, Mapping
from costmodel.replay.event_kernel import simulate
from costmodel.replay.replay import Replay, replay
from costmodel.replay.tables import Compiled, ReplayOptions
from costmodel.schedule.pe_mesh.writer import UNLIMITED, mesh_program
from costmodel.workload.network import Layer
from tests.costmodel.schedule.pe_mesh.test_words import LAYERS, small

RandomMappings = Callable[[Architecture, Layer, int, int], Iterator[Mapping]]


@pytest.mark.parametrize("layer", LAYERS)
def test_without_limits_only_the_macs_take_time(layer: str, random_mappings: RandomMappings) -> None:
    simba = load_architecture("simba")
    dram = replace(simba.levels[-1], read_bandwidth=None, write_bandwidth=None)
    unlimited = replace(simba, levels=(*simba.levels[:-1], dram))
    for mapping in random_mappings(unlimited, LAYERS[layer], 8, 2):
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
    for mapping in random_mappings(simba, LAYERS[layer], 8, 3):
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


@pytest.mark.parametrize("layer", LAYERS)
def test_turns_that_repeat_are_added_up(layer: str, random_mappings: RandomMappings) -> None:
    simba, skipped = load_architecture("simba"), 0
    for mapping in random_mappings(simba, LAYERS[layer], 12, 5):
        program = mesh_program(simba, LAYERS[layer], mapping)
        for options in (ReplayOptions(), ReplayOptions(30, 1, packet_bytes=64, packets_in_flight=3)):
            found = replay(program, options)
            plain = replay(program, replace(options, skip_repeats=False))
            for part in fields(found):
                assert np.array_equal(getattr(found, part.name), getattr(plain, part.name)), part.name
            compiled = Compiled(program, options)
            run = compiled.new_run(logged=False)
            simulate(compiled.tables, run)
            skipped += int(run.repeats.skipped[0])
    assert skipped > 0


def mapped(layer: Layer, blocks: dict[str, dict[str, tuple[Loop, ...]]]) -> Replay:
    """The replay of a mapping on ``simba`` with these loops, whose levels keep all they can."""
    simba = load_architecture("simba")
    bare: dict[str, tuple[Loop, ...]] = {"temporal": (), "spatial_x": (), "spatial_y": ()}
    levels = (
        LevelMapping(
            **(bare | blocks.get(level.name, {})),
            keep=frozenset(tensor.name for tensor in layer.tensors if level.can_keep(tensor)),
        )
        for level in simba.levels
    )
    return replay(mesh_program(simba, layer, Mapping(tuple(levels))))


def test_a_long_loop_by_hand() -> None:
    """A million steps on 4 x 4 PEs, of which each column has a filter and each row a sample.

    In each step every PE multiplies 8 channels at once. So 4 times 8 bytes of inputs and 16 sums of 3 bytes
    cross the port of the global buffer, at 8 bytes a cycle: the sums need 6 cycles. DRAM needs 3.2.

    Links by step: inputs of row y go along the first row to all 4 columns and down y - 1 links in each, 40
    links in all. Sums of column x and row y take x - 1 links to the first column and y to the port, 64 links
    in all. Weights come once, for column x along x links and 3 down.
    """
    layer = small(K=4, N=4, P=1_000_000, C=8)
    found = mapped(
        layer,
        {
            "AccumulationBuffer": {"spatial_y": (("C", 8),)},
            "GlobalBuffer": {"spatial_x": (("K", 4),), "spatial_y": (("N", 4),)},
            "DRAM": {"temporal": (("P", 1_000_000),)},
        },
    )
    assert 6_000_000 <= found.cycles <= 6_000_100
    assert found.operations == layer.macs
    assert found.dram_read_bytes == 32 * 1_000_000 + 32
    assert found.dram_write_bytes == 16 * 1_000_000
    assert found.hop_bytes == (40 * 8 + 64 * 3) * 1_000_000 + (10 + 12) * 8


def test_sums_are_added_on_their_way() -> None:
    """Four PEs of the first row have a channel each. Inputs and weights take 1 + 2 + 3 + 4 links each; the
    sums of 3 bytes cross 3 links of the row once, and that to the port."""
    found = mapped(small(C=4), {"GlobalBuffer": {"spatial_x": (("C", 4),)}})
    assert found.hop_bytes == 10 + 10 + 4 * 3
    assert found.dram_write_bytes == 1
