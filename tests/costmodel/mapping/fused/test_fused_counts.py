"""Counts, room and costs of fused mappings: against reference counts, and against walked elements."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from costmodel.formats.cases.fused import read_fused_cases
from costmodel.formats.json.fusion_json import (
    evaluation_to_json,
    fused_mapping_from_json,
    fused_mapping_to_json,
    problem_from_json,
    problem_to_json,
)
from costmodel.formats.json.safe_json import json_lines
from costmodel.mapping.fused.checker import violations
from costmodel.mapping.fused.evaluate import evaluate_fused
from costmodel.mapping.fused.text import fused_text
from tests.costmodel.mapping.fused import random_fused
from tests.costmodel.mapping.fused.walked_elements import BrokenError, walked

DATA = Path(__file__).parents[3] / "data" / "fusion"


def lines(name: str) -> list[dict[str, Any]]:
    return [case for _, case in json_lines(DATA / name, 1 << 20)]


@pytest.mark.slow
def test_every_reference_count() -> None:
    expected = lines("tiny_counts.jsonl.gz")
    found = [case.line() for case in read_fused_cases(DATA / "tiny_counts.jsonl.gz")]
    assert len(found) == 290
    for ours, theirs in zip(found, expected, strict=True):
        assert ours["id"] == theirs["id"]
        if "invalid" in theirs:
            assert "needed after they were dropped" in ours["violations"][0]
            continue
        for key in ("counts", "peak", "cycles"):
            assert ours[key] == theirs[key], (theirs["id"], key)
        assert ours["energy_pj"] == pytest.approx(theirs["energy_pj"], rel=1e-12)


def test_every_witness_costs_what_was_proven() -> None:
    for line in lines("tiny_optima.jsonl.gz"):
        problem = problem_from_json(line["problem"], line["id"])
        assert problem_to_json(problem) == line["problem"]
        for witness, optimum in (("witness", "optimum"), ("unfused_witness", "unfused_optimum")):
            mapping = fused_mapping_from_json(line[witness], line["id"])
            assert fused_mapping_to_json(mapping) == line[witness]
            found = evaluate_fused(problem, mapping)
            costs = {"energy": found.energy_pj, "cycles": found.cycles, "edp": found.edp_pj_cycles}
            assert costs[line["objective"]] == pytest.approx(line[optimum], rel=1e-12)


@pytest.mark.slow
def test_random_mappings_equal_their_elements() -> None:
    """Chains of one to four, heads, windows with strides, two to four levels, nested sharing, hoists."""
    random, nested, hoisted, ragged = Random(11), 0, 0, 0
    for _ in range(400):
        content = random_fused.problem(random)
        drawn = random_fused.mapping(random, content)
        problem = problem_from_json(content, "drawn")
        mapping = fused_mapping_from_json(drawn, "drawn")
        if reasons := violations(problem, mapping):
            # only windows are drawn without looking at what they need
            assert "needed after they were dropped" in reasons[0]
            with pytest.raises(BrokenError, match="after it was dropped"):
                walked(content, drawn)
            continue
        expected = walked(content, drawn)
        found = evaluation_to_json(problem, evaluate_fused(problem, mapping))
        assert found["counts"] == expected["counts"], (content, drawn)
        assert found["peak"] == expected["peak"], (content, drawn)
        assert found["cycles"] == expected["cycles"]
        assert found["energy_pj"] == pytest.approx(expected["energy_pj"], rel=1e-12)
        assert fused_text(problem, mapping).count("one operation") == len(problem.einsums)
        nested += len({shared for shared in mapping.prefix if shared}) > 1
        hoisted += bool(mapping.hoist)
        ragged += bool(problem.halo and mapping.prefix[0])
    assert nested >= 10
    assert min(hoisted, ragged) >= 20


@pytest.mark.slow
def test_what_cannot_run_breaks_when_it_is_walked() -> None:
    """Pairs that share loops over any dim: the checker refuses what the walk cannot do, and nothing else."""
    random, refused, kinds = Random(5), 0, set()
    for _ in range(400):
        content = random_fused.problem(random)
        drawn = random_fused.mapping(random, content, wild=0.6)
        problem, mapping = problem_from_json(content, "drawn"), fused_mapping_from_json(drawn, "drawn")
        reasons = violations(problem, mapping)
        if any("no divisor" in reason or "has a loop over" in reason for reason in reasons):
            continue
        assert broken(content, drawn) == bool(reasons), (reasons, content, drawn)
        refused += bool(reasons)
        kinds |= {reasons[0].split(": ")[-1].split(" ", 1)[1]} if reasons else set()
    assert refused >= 30
    assert len(kinds) == 3


def broken(content: dict[str, Any], drawn: dict[str, Any]) -> bool:
    try:
        walked(content, drawn)
    except BrokenError:
        return True
    return False


def test_capacities_that_are_too_small_say_which_and_when() -> None:
    line = lines("tiny_optima.jsonl.gz")[0]
    peak = walked(line["problem"], line["witness"])["peak"][0]
    line["problem"]["levels"][0]["capacity"] = peak - 1
    problem = problem_from_json(line["problem"], "small")
    mapping = fused_mapping_from_json(line["witness"], "small")
    assert violations(problem, mapping) == [
        f"level L0 holds {peak} words while {name} runs, its capacity is {peak - 1}" for name in ("e0", "e1")
    ]
    with pytest.raises(ValueError, match=f"its capacity is {peak - 1}"):
        evaluate_fused(problem, mapping)
