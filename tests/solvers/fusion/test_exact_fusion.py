"""The exact fusion solver: against proven optima, and against enumeration by a walk."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, prod
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from costmodel.errors import InputError
from costmodel.formats.json.fusion_json import problem_from_json
from costmodel.formats.json.safe_json import json_lines
from costmodel.mapping.fused.evaluate import evaluate_fused
from solvers.budget import Budget
from solvers.fusion.exact import Params, solve
from solvers.fusion.exact.bounds import compulsory
from solvers.fusion.problem import OBJECTIVES, FusionProblem
from solvers.outcome import Status
from tests.costmodel.mapping.fused import random_fused
from tests.solvers.fusion.enumerated import all_together, best

DATA = Path(__file__).parents[2] / "data" / "fusion"
ENOUGH = Budget(600)


def question(content: dict[str, Any], objective: str) -> FusionProblem:
    return FusionProblem(problem_from_json(content, "a test"), cast(Any, objective))


@pytest.mark.slow
def test_every_proven_optimum() -> None:
    """67 problems that others enumerated: products, chains of three, attention, two and three levels."""
    ran = 0
    for _, line in json_lines(DATA / "tiny_optima.jsonl.gz", 1 << 20):
        outcome = solve(question(line["problem"], line["objective"]), ENOUGH)
        assert outcome.status is Status.OPTIMAL
        assert outcome.objective == pytest.approx(line["optimum"], rel=1e-12), line["id"]
        ran += 1
    assert ran == 67


def small(random: Random, kind: int, levels: int) -> dict[str, Any]:
    """A chain of ``kind`` products, or attention (5), that a walk can enumerate; rooms that bind."""
    sizes = {1: (1, 2, 3, 4), 2: (1, 2, 3), 3: (1, 2, 2), 4: (1, 1, 2), 5: (1, 2, 2)}[kind]
    einsums = (
        random_fused.attention(random, sizes) if kind == 5 else random_fused.products(random, kind, sizes)
    )
    content: dict[str, Any] = {
        "einsums": einsums,
        "levels": random_fused.levels(random, levels),
        "mac_pj": 0.5,
    }
    for level in content["levels"][:-1]:
        level["capacity"] = random.choice((2, 3, 4, 5, 6, 8, 10, 16, None) if kind < 3 else (2, 3, 4, 5))
    return content


def drawn(
    random: Random, tries: int, kinds: tuple[tuple[int, int], ...], most: int
) -> Iterator[dict[str, Any]]:
    """Problems whose product of all sizes is at most ``most``."""
    for number in range(tries):
        content = small(random, *kinds[number % len(kinds)])
        if prod(size for one in content["einsums"] for size in one["dims"].values()) <= most:
            yield content


def compare(problems: Iterator[dict[str, Any]]) -> dict[str, int]:
    """Every objective against enumeration; how often which kind of answer came."""
    seen = {"infeasible": 0, "sharing": 0, "hoisted": 0, "whole": 0, "bandwidth": 0}
    for content in problems:
        least, _ = best(content)
        for objective in OBJECTIVES:
            outcome = solve(question(content, objective), ENOUGH)
            if least[objective] == inf:
                assert outcome.status is Status.INFEASIBLE
                seen["infeasible"] += 1
                continue
            assert outcome.status is Status.OPTIMAL
            assert outcome.objective == pytest.approx(least[objective], rel=1e-12), content
            assert outcome.solution is not None
            found = evaluate_fused(question(content, objective).chain, outcome.solution)
            operations = sum(one.operations for one in found.counts)
            seen["sharing"] += any(outcome.solution.prefix)
            seen["hoisted"] += bool(outcome.solution.hoist)
            seen["whole"] += bool(outcome.solution.backing) and not all(outcome.solution.prefix)
            seen["bandwidth"] += found.cycles > operations
    return seen


@pytest.mark.slow
def test_enumerated_products() -> None:
    seen = compare(drawn(Random(5), 16, ((1, 2), (1, 3), (2, 2), (2, 3)), 72))
    assert min(seen["sharing"], seen["whole"], seen["bandwidth"]) >= 1, seen


@pytest.mark.slow
def test_enumerated_chains_of_three_and_four_and_attention() -> None:
    seen = compare(drawn(Random(6), 15, ((3, 2), (4, 2), (5, 2)), 64))
    assert min(seen["sharing"], seen["hoisted"], seen["whole"], seen["bandwidth"]) >= 1, seen


@pytest.mark.slow
def test_what_fits_only_when_fused() -> None:
    """Level 1 holds two words: the intermediate has to stay in level 0."""
    content = small(Random(1), 2, 3)
    content["einsums"] = random_fused.products(Random(4), 2, (1, 2))
    content["levels"][0]["capacity"], content["levels"][1]["capacity"] = 3, 2
    outcome = solve(question(content, "edp"), ENOUGH)
    assert outcome.objective == pytest.approx(best(content)[0]["edp"], rel=1e-12)
    assert outcome.solution is not None
    assert outcome.solution.backing == {"T1": 0}
    content["levels"][0]["capacity"] = 2
    assert best(content)[0]["edp"] == inf
    outcome = solve(question(content, "edp"), ENOUGH)
    assert outcome.status is Status.INFEASIBLE
    assert outcome.note == "e0 holds a word of each of its 3 tensors in L0, which has a capacity of 2 words"


def test_own_loops_of_one_einsum_do_not_touch_another() -> None:
    """What the enumeration of the other tests rests on: all own loops tried together give the same."""
    content = small(Random(0), 2, 2)
    content["einsums"] = random_fused.products(Random(3), 2, (1, 2))
    content["levels"][0]["capacity"] = 5
    assert best(content)[0] == all_together(content)


@pytest.mark.slow
def test_the_compulsory_bound_is_below_every_optimum_and_met_where_all_fits() -> None:
    random, met = Random(7), 0
    for _ in range(30):
        content = {
            "einsums": random_fused.products(random, random.choice((1, 2, 3))),
            "levels": random_fused.levels(random, random.choice((2, 3)), room=True),
            "mac_pj": 1,
        }
        asked = question(content, "energy")
        floor = sum(compulsory(asked.chain, number).energy for number in range(len(asked.chain.einsums)))
        found = solve(asked, ENOUGH).objective
        if found is not None:
            assert floor <= found * (1 + 1e-12)
            met += floor == pytest.approx(found, rel=1e-12)
    assert met >= 1


def test_a_tolerance_ends_sooner_and_says_how_close_it_is() -> None:
    line = next(
        one for _, one in json_lines(DATA / "tiny_optima.jsonl.gz", 1 << 20) if one["id"] == "g3-L3-2-edp"
    )
    outcome = solve(question(line["problem"], "edp"), ENOUGH, Params(tolerance=0.5))
    assert outcome.gap is not None
    assert outcome.gap <= 0.5
    assert outcome.bound is not None
    assert outcome.bound <= line["optimum"] * (1 + 1e-12)
    with pytest.raises(InputError, match="tolerance"):
        Params(tolerance=-1)
