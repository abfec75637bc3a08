"""The words that a mapping's program on a mesh of PEs moves are those that the cost model counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.networks import load_layer
from costmodel.hardware.architecture import Architecture
from costmodel.hardware.pe_mesh import SENDING_SIDE
from costmodel.mapping.evaluate import TensorTraffic, evaluate
from costmodel.mapping.mapping import Mapping
from costmodel.schedule.pe_mesh.writer import MeshLayer, check_machine, mesh_program
from costmodel.schedule.program.program import Program, counted
from costmodel.workload.network import Layer

RandomMappings = Callable[[Architecture, Layer, int, int], Iterator[Mapping]]


def small(**sizes: int) -> Layer:
    """A convolution of the library with other sizes; its stride stays."""
    layer = load_layer("cosa_resnet50/layer1.0.conv2")
    return replace(layer, dims=tuple((dim, sizes.get(dim, 1)) for dim, _ in layer.dims))


def strided(**sizes: int) -> Layer:
    layer = load_layer("cosa_resnet50/layer2.0.conv2")
    return replace(layer, dims=tuple((dim, sizes.get(dim, 1)) for dim, _ in layer.dims))


LAYERS = {
    "3x3": small(R=3, S=3, P=6, Q=4, C=8, K=6, N=2),
    "strided": strided(R=3, S=3, P=4, Q=6, C=4, K=8),
    "product": small(C=24, K=36, N=2),
}


def words_of(of: MeshLayer, program: Program) -> Counter[tuple[str, str]]:
    """Words by tensor and way: read from DRAM, written to it, sent to PEs and taken in from them.

    Sizes come from the messages and how often from the code of the units that take part.
    """
    bits = {one.tensor.name: (one.dram_bits, one.pe_bits) for one in of.moves}
    times: Counter[int] = Counter()
    for code in program.tiles:
        for item, count in counted(code):
            if item.operation in ("load", "receive", "store"):
                times[item.message] += count
    found: Counter[tuple[str, str]] = Counter()
    places = program.chip.positions
    for number, message in enumerate(program.messages):
        if message.tensor not in bits:
            continue
        dram, pe = bits[message.tensor]
        # all targets of a multicast receive it; it was sent once
        done = times[number] // max(1, len(message.targets))
        size = int(8 * message.size_bytes) * done
        if not message.sources:
            found[message.tensor, "read"] += size // dram
            if places[message.targets[0]] != SENDING_SIDE:
                found[message.tensor, "sent"] += size // pe
        elif not message.targets:
            found[message.tensor, "written"] += size // dram
        elif places[message.sources[0]] != places[message.targets[0]]:
            way = "sent" if places[message.sources[0]] == SENDING_SIDE else "taken in"
            found[message.tensor, way] += size // pe
    return found


def expected(of: MeshLayer) -> Counter[tuple[str, str]]:
    """The same from the counts of the cost model."""
    levels = evaluate(of.architecture, of.layer, of.mapping).levels
    found: Counter[tuple[str, str]] = Counter()
    for one in of.moves:
        name = one.tensor.name
        dram, buffer = levels[-1].tensors[name], levels[-2].tensors.get(name)
        found[name, "read"], found[name, "written"] = dram.reads, dram.updates
        inner: TensorTraffic = dram if buffer is None else buffer
        found[name, "sent"], found[name, "taken in"] = inner.reads, inner.updates
        if buffer is not None:
            assert buffer.fills == dram.reads
    return found


@pytest.mark.parametrize(("name", "count"), [("simba", 15), ("eyeriss", 3)])
@pytest.mark.parametrize("layer", LAYERS)
def test_words_are_those_of_the_cost_model(
    name: str, count: int, layer: str, random_mappings: RandomMappings
) -> None:
    architecture = load_architecture(name)
    back = bypassed = 0
    for mapping in random_mappings(architecture, LAYERS[layer], count, 1):
        of = MeshLayer(architecture, LAYERS[layer], mapping)
        wanted = expected(of)
        assert +words_of(of, mesh_program(architecture, LAYERS[layer], mapping)) == +wanted
        back += any(wanted[one.tensor.name, "sent"] > 0 for one in of.moves if one.tensor.is_output)
        bypassed += any(one.to_buffer is None for one in of.moves)
    assert back or name != "simba"
    assert bypassed


def test_other_machines_are_refused() -> None:
    layer, simba = LAYERS["product"], load_architecture("simba")
    *inner, dram = simba.levels
    two = replace(simba, levels=(*inner, replace(dram, fanout_x=2)))
    shallow = replace(simba, levels=(inner[0], dram))
    for architecture, why in (
        (load_architecture("gemmini"), "timing"),
        (two, "one global buffer"),
        (shallow, "2 levels"),
        (replace(simba, levels=(*inner, replace(dram, read_bandwidth=2.5))), "whole number of bytes"),
        (replace(simba, levels=(*inner, replace(dram, shared_bandwidth=20))), "below the one they share"),
    ):
        with pytest.raises(InputError, match=why):
            check_machine(architecture, layer)
