"""Operator graphs, and plans replayed: every rule broken once."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.networks import load_network
from costmodel.scratchpad.graph import (
    GraphTensor,
    Operator,
    OperatorGraph,
    ScratchpadSettings,
    operator_graph,
)
from costmodel.scratchpad.plan import IDLE, Plan, Residency, TensorPlan, off_chip_bytes, violations
from costmodel.workload.network import Network, Node, Value

DATA = Path(__file__).parents[2] / "data" / "scratchpad"
OPTIMA = json.loads((DATA / "optima.json").read_text(encoding="utf-8"))

CHAIN = OperatorGraph(
    "chain",
    (
        Operator("a", (0,), (1,), 0),
        Operator("b", (1,), (2,), 4),
        Operator("c", (2,), (3,), 0),
        Operator("d", (1, 3), (4,), 0),
    ),
    tuple(GraphTensor(f"t{index}", 10, 10, index == 0) for index in range(5)),
    ScratchpadSettings(parameters=True),
)
"""t0 -> a -> t1 -> b -> t2 -> c -> t3 -> d (with t1 again) -> t4; b holds 4 bytes of parameters."""

PLAN = Plan(
    ("a", "b", "c", "d"),
    (
        TensorPlan("t0", (Residency(0, 1, 0),)),
        TensorPlan("t1", (Residency(0, 2, 10), Residency(3, 4, 20)), 2, (3,)),
        TensorPlan("t2", (Residency(1, 3, 0),)),
        TensorPlan("t3", (Residency(2, 4, 10),)),
        TensorPlan("t4", (Residency(3, 4, 0),)),
    ),
    (("b", 20),),
)
"""t1 is away while c runs, and comes back at another address."""


def with_tensor(plan: Plan, name: str, **changes: Any) -> Plan:
    return replace(
        plan, tensors=tuple(replace(t, **changes) if t.tensor == name else t for t in plan.tensors)
    )


def test_the_plan_runs_and_moves_one_spill_and_one_retrieval() -> None:
    assert violations(CHAIN, PLAN, 30) == []
    assert off_chip_bytes(CHAIN, PLAN) == 20
    assert CHAIN.required_bytes == 30
    assert CHAIN.hungriest.name == "d"


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (replace(PLAN, order=("a", "c", "b", "d")), "is not resident"),
        (replace(PLAN, order=("a", "b", "c")), "not every operator exactly once"),
        (replace(PLAN, tensors=PLAN.tensors[:-1]), "not every tensor"),
        (with_tensor(PLAN, "t4", residencies=()), "never resident"),
        (with_tensor(PLAN, "t2", residencies=(Residency(2, 3, 0),)), "made at step 1"),
        (with_tensor(PLAN, "t2", residencies=(Residency(1, 2, 0),)), "is not resident at step 2"),
        (with_tensor(PLAN, "t3", residencies=(Residency(2, 4, 5),)), "overlap"),
        (with_tensor(PLAN, "t4", residencies=(Residency(3, 4, 21),)), "from 21 to 31 of 30"),
        (with_tensor(PLAN, "t4", residencies=(Residency(3, 5, 0),)), r"resident over \[3, 5\)"),
        (with_tensor(PLAN, "t4", residencies=(Residency(3, 4, -1),)), "from -1 to 9 of 30"),
        (with_tensor(PLAN, "t1", spilled=None), "retrieved without a spill"),
        (with_tensor(PLAN, "t1", spilled=1), "spilled at 1, resident until 2"),
        (with_tensor(PLAN, "t1", retrieved=()), "retrieved at"),
        (
            with_tensor(PLAN, "t1", residencies=(Residency(0, 2, 10), Residency(2, 4, 20)), retrieved=(2,)),
            "without a step away",
        ),
        (replace(PLAN, parameter_addresses=()), "not every operator's block"),
        (replace(PLAN, parameter_addresses=(("b", 20), ("b", 26))), "not every operator's block"),
        (replace(PLAN, parameter_addresses=(("b", 20), ("a", 20))), "not every operator's block"),
        (replace(PLAN, parameter_addresses=(("b", 15),)), "overlap"),
        (replace(PLAN, parameter_addresses=(("b", -4),)), "from -4 to 0 of 30"),
    ],
)
def test_every_broken_rule_is_named(plan: Plan, reason: str) -> None:

    found = violations(CHAIN, plan, 30)
    assert any(re.search(reason, line) for line in found), found


def test_a_block_that_is_not_aligned_is_named() -> None:
    graph = replace(CHAIN, settings=replace(CHAIN.settings, alignment_bytes=10))
    assert violations(graph, PLAN, 30) == []
    off = with_tensor(PLAN, "t4", residencies=(Residency(3, 4, 5),))
    assert any("no multiple of 10" in line for line in violations(graph, off, 40))


def test_inputs_on_the_host_come_back_without_a_spill() -> None:
    graph = OperatorGraph(
        "input twice",
        (Operator("a", (0,), (1,), 0), Operator("b", (1,), (2,), 0), Operator("c", (0, 2), (3,), 0)),
        tuple(GraphTensor(f"t{index}", 10, 10, index == 0) for index in range(4)),
    )
    plan = Plan(
        ("a", "b", "c"),
        (
            TensorPlan("t0", (Residency(0, 1, 0), Residency(2, 3, 0)), None, (2,)),
            TensorPlan("t1", (Residency(0, 2, 10),)),
            TensorPlan("t2", (Residency(1, 3, 20),)),
            TensorPlan("t3", (Residency(2, 3, 10),)),
        ),
    )
    assert violations(graph, plan, 30) == ["t0: retrieved without a spill"]
    on_host = replace(graph, settings=ScratchpadSettings(inputs_on_host=True))
    assert violations(on_host, plan, 30) == []
    assert off_chip_bytes(on_host, plan) == 10


@pytest.mark.parametrize(
    ("first", "second"), [("relu", "add"), ("leaky_relu", "maximum"), ("clip", "mul+hardswish")]
)
def test_an_output_may_take_the_place_of_an_input_that_ends_there(first: str, second: str) -> None:
    settings = ScratchpadSettings(in_place=True)
    values = tuple(Value(name, (8,), "input" if name == "x" else "activation") for name in "xyz")
    nodes = (Node("one", first, ("x",), ("y",)), Node("two", second, ("x", "y"), ("z",)))
    graph = operator_graph(Network("n", nodes, values), settings)
    assert graph.operators[1].overwrites == ((0, 2), (1, 2))
    assert [graph.working_bytes(operator) for operator in graph.operators] == [8, 16]
    stays = [TensorPlan("x", (Residency(0, 2, 0),)), TensorPlan("y", (Residency(0, 2, 8),))]
    over = Plan(("one", "two"), (*stays, TensorPlan("z", (Residency(1, 2, 8),))))
    assert violations(graph, over, 16) == []
    assert violations(operator_graph(Network("n", nodes, values)), over, 16) != []
    early = Plan(
        ("one", "two"),
        (stays[0], TensorPlan("y", (Residency(0, 2, 0),)), TensorPlan("z", (Residency(1, 2, 8),))),
    )
    assert any("x and y overlap" in line for line in violations(graph, early, 16))


def test_an_idle_step_lets_a_tensor_move() -> None:
    moved = Plan(
        ("a", "b", "c", IDLE, "d"),
        (
            TensorPlan("t0", (Residency(0, 1, 0),)),
            TensorPlan("t1", (Residency(0, 2, 10), Residency(4, 5, 20)), 2, (4,)),
            TensorPlan("t2", (Residency(1, 3, 0),)),
            TensorPlan("t3", (Residency(2, 3, 10), Residency(4, 5, 0)), 3, (4,)),
            TensorPlan("t4", (Residency(4, 5, 10),)),
        ),
        (("b", 20),),
    )
    assert violations(CHAIN, moved, 30) == []
    assert off_chip_bytes(CHAIN, moved) == 40


def test_widths_and_alignment() -> None:
    settings = ScratchpadSettings(parameters=True, bits_per_element=4, alignment_bytes=8)
    values = (Value("x", (3, 5), "input"), Value("w", (9,), "parameter"), Value("y", (2,), "activation"))
    network = Network("n", (Node("op", "linear", ("x", "w", "x"), ("y",)),), values)
    graph = operator_graph(network, settings)
    assert [(t.traffic_bytes, t.block_bytes) for t in graph.tensors] == [(8, 8), (1, 8)]
    assert graph.operators[0].parameter_bytes == 8
    assert graph.operators[0].inputs == (0,)
    assert operator_graph(network).operators[0].parameter_bytes == 0


@pytest.mark.parametrize("key", ["bits_per_element", "alignment_bytes"])
def test_settings_are_checked(key: str) -> None:
    wrong: dict[str, Any] = {key: 0}
    with pytest.raises(InputError, match=key):
        ScratchpadSettings(**wrong)


@pytest.mark.parametrize(
    ("operators", "tensors", "expected"),
    [
        ((replace(CHAIN.operators[0], name=""),), CHAIN.tensors, "not empty"),
        (
            (CHAIN.operators[0], replace(CHAIN.operators[1], name="a")),
            CHAIN.tensors,
            "all different, found a",
        ),
        (CHAIN.operators, (CHAIN.tensors[0],) * 5, "all different, found t0"),
        (CHAIN.operators, (*CHAIN.tensors[:4], GraphTensor("t4", 1 << 60, 1 << 60, False)), "fewer than"),
    ],
)
def test_graphs_that_plans_could_not_speak_of_are_refused(
    operators: tuple[Operator, ...], tensors: tuple[GraphTensor, ...], expected: str
) -> None:
    with pytest.raises(InputError, match=expected):
        OperatorGraph("g", operators, tensors)


@pytest.mark.parametrize("case", OPTIMA, ids=lambda c: f"{c['network']}-{c['parameters']}-{c['budget']}")
def test_minimum_requirements_are_the_reference_s(case: dict[str, object]) -> None:
    settings = ScratchpadSettings(parameters=bool(case["parameters"]))
    graph = operator_graph(load_network(DATA / f"{case['network']}.json.gz"), settings)
    assert graph.required_bytes == case["MR"]
    assert len(graph.operators) == case["operators"]
