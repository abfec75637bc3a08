"""What directives cost on a device: against nn-dataflow's rows, and by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from costmodel.errors import InputError
from costmodel.formats.directives.counts import accesses
from costmodel.formats.directives.text import parse_layers
from costmodel.formats.directives.values import LayerScheme
from costmodel.formats.multi_nodes import load_multi_node
from costmodel.hardware.multi_node.derived import architecture
from costmodel.hardware.multi_node.template import EnergyTable, MultiNode
from costmodel.published.nn_dataflow.as_directives import scheme_directives
from costmodel.published.nn_dataflow.cases import SchemeCase, read_schemes
from costmodel.published.nn_dataflow.directive_cost import cost, transfers, violations

CASES = read_schemes(Path(__file__).parents[3] / "data/kapla/layer_schemes.jsonl.gz")


def written(case: SchemeCase) -> LayerScheme | None:
    (unit,) = case.passes()
    try:
        return scheme_directives(case.name, case.layer, case.batch, unit, case.blocking, case.hardware.array)
    except InputError:
        return None


def device_of(case: SchemeCase) -> MultiNode:
    """The row's hardware; 1 J there is 1 pJ here."""
    hardware, costs = case.hardware, case.hardware.costs
    dram, buffer, bus, registers = costs.levels
    (rows, columns), (pe_rows, pe_columns) = hardware.nodes, hardware.array
    return MultiNode(
        "row",
        columns,
        rows,
        pe_columns,
        pe_rows,
        hardware.buffer_words,
        hardware.register_words,
        int(hardware.bus_words_per_cycle),
        EnergyTable(
            "row",
            costs.operation,
            dram,
            buffer,
            bus,
            registers,
            costs.hop,
            costs.idle_cycle,
            hardware.dram_words_per_cycle,
        ),
        pe_forwarding=False,
        node_forwarding=False,
    )


EXPRESSED = [(case, scheme) for case in CASES if (scheme := written(case))]


@pytest.mark.parametrize(("case", "scheme"), EXPRESSED, ids=lambda value: getattr(value, "name", ""))
def test_rows_cost_what_the_tool_says(case: SchemeCase, scheme: LayerScheme) -> None:
    """Compute, DRAM and their energies are equal; everything is where no PE slides over a row."""
    told, found = case.cost(), cost(scheme, device_of(case), case.layer.operations(case.batch))
    assert (found.compute_cycles, found.dram_cycles) == (told.processing_cycles, told.dram_cycles)
    assert found.energy_pj.mac == pytest.approx(told.operation_energy)
    dram, registers = (case.hardware.costs.levels[level] * sum(told.accesses[level]) for level in (0, 3))
    assert found.energy_pj.dram == pytest.approx(dram)
    assert found.energy_pj.registers == pytest.approx(registers)
    assert found.energy_pj.hops == 0
    if case.layer.out_w == 1 and case.layer.has_filters:
        assert found.bus_cycles == told.bus_cycles
        assert found.energy_pj.total == pytest.approx(told.energy, rel=1e-9)


def test_rows_are_compared_whole() -> None:
    assert sum(case.layer.out_w == 1 and case.layer.has_filters for case, _ in EXPRESSED) >= 3


TEXT = """\
fc:
  REGF:
    tensor{i}(N=1, C=1)
    tensor{w}(C=1, K=1)
    tensor{o}(N=1, K=1)
    stack(K+=1, 8)
    update(C+=1)
  GBUF:
    tensor{i}(N=1, C=16)
    tensor{w}(C=16, K=8)
    tensor{o}(N=1, K=8)
    stack(K+=8, 4)
    stack(N+=1, 4)
  DRAM:
    tensor{i}(N=4, C=16)
    tensor{w}(C=16, K=32)
    tensor{o}(N=4, K=32)
"""


def test_many_nodes_by_hand() -> None:
    """16 nodes: four share each input, four each filter; memory is a hop and a half away on average."""
    device = replace(load_multi_node("kapla-4x4", "released"), node_forwarding=False)
    (scheme,) = parse_layers(TEXT)
    found, costs = cost(scheme, device, 4 * 16 * 32), device.costs
    inputs, filters, outputs = 4 * 16, 16 * 32, 4 * 32
    assert found.energy_pj.dram == pytest.approx((inputs + filters + outputs) * costs.dram_pj)
    # corners 0, edges 1, the four in the middle 2
    far = (4 * 0 + 8 * 1 + 4 * 2) / 16
    hops = (inputs + filters + outputs) * far + 3 * inputs + 3 * filters
    assert found.energy_pj.hops == pytest.approx(hops * costs.hop_pj)
    assert found.compute_cycles == 16
    buffers = 16 * (16 + 128 + 8)
    assert found.energy_pj.buffers == pytest.approx(buffers * costs.buffer_pj)
    assert found.energy_pj.bus == pytest.approx(16 * 8 * (16 + 16 + 1) * costs.bus_pj)
    assert found.energy_pj.registers == pytest.approx(2048 * 4 * costs.register_pj)
    assert found.cycles == found.dram_cycles == -(-(inputs + filters + outputs) // 25)


def test_without_broadcast_memory_sends_a_word_to_each_node() -> None:
    """Each input goes to the four nodes that take it one by one, and so does each filter, all the way."""
    device = replace(load_multi_node("kapla-4x4", "released"), node_forwarding=False, node_broadcast=False)
    (scheme,) = parse_layers(TEXT)
    found, costs = cost(scheme, device, 4 * 16 * 32), device.costs
    words = 4 * (4 * 16) + 4 * (16 * 32) + 4 * 32
    assert found.energy_pj.dram == pytest.approx(words * costs.dram_pj)
    assert found.energy_pj.hops == pytest.approx(words * 1.0 * costs.hop_pj)
    with pytest.raises(InputError, match="node_broadcast: expected broadcast to count with loops"):
        architecture(device)


def test_forwarding_moves_the_same_words_between_neighbours() -> None:
    device = load_multi_node("kapla-4x4", "released")
    (scheme,) = parse_layers(TEXT)
    apart, joined = (cost(scheme, replace(device, node_forwarding=f), 2048) for f in (False, True))
    assert transfers(device)["GBUF"].forward
    assert joined.energy_pj.dram == apart.energy_pj.dram
    assert joined.energy_pj.hops == pytest.approx(apart.energy_pj.hops)
    # what a neighbour passes on is read from its buffer
    passed = sum(one.passed for one in accesses(scheme, "GBUF", transfers(device)["GBUF"]).values())
    assert passed == 3 * (64 + 512)
    more = joined.energy_pj.buffers - apart.energy_pj.buffers
    assert more == pytest.approx(passed * device.costs.buffer_pj)


def test_what_does_not_fit_is_named() -> None:
    (scheme,) = parse_layers(TEXT)
    edge = load_multi_node("kapla-edge", "paper")
    assert violations(scheme, edge) == ["GBUF: buffers 16, there are 1"]
    with pytest.raises(InputError, match="a scheme that fits, found GBUF: buffers 16"):
        cost(scheme, edge, 1)
    small = replace(load_multi_node("kapla-4x4", "paper"), buffer_words=100, register_words=2)
    assert violations(scheme, small) == ["REGF: words 3, there are 2", "GBUF: words 152, there are 100"]
    with pytest.raises(InputError, match="levels"):
        cost(LayerScheme("fc", scheme.levels[:2]), edge, 1)
