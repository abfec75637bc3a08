"""Packing: against enumeration, a closed form, an independent checker, and published hard instances."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from costmodel.errors import InputError
from solvers.budget import Budget, Stopwatch
from solvers.outcome import Status
from solvers.scratchpad.packing import Buffer, PackingProblem, Params, kernel, solve, violations
from solvers.scratchpad.packing.greedy import from_the_ground, greedy_packing, lowest_addresses
from solvers.scratchpad.packing.ranks import PATIENCE, Ranks
from solvers.scratchpad.packing.search import PROBE_NODES, search_packing
from solvers.scratchpad.packing.sections import sections, sorted_buffers

INSTANCES = Path(__file__).parents[2] / "data" / "packing"
SEARCH_ONLY = Params(greedy=False)


def exists(buffers: tuple[Buffer, ...], capacity: int, placed: tuple[tuple[Buffer, int], ...] = ()) -> bool:
    """Whether some choice of all addresses is a packing."""
    if len(placed) == len(buffers):
        return True
    buffer = buffers[len(placed)]
    free = (
        address
        for address in range(0, capacity - buffer.size + 1, buffer.alignment)
        if not any(
            buffer.start < other.end
            and other.start < buffer.end
            and address < there + other.size
            and there < address + buffer.size
            for other, there in placed
        )
    )
    return any(exists(buffers, capacity, (*placed, (buffer, address))) for address in free)


def random_buffers(random: Random, alignments: tuple[int, ...] = (1,)) -> tuple[Buffer, ...]:
    steps = random.randint(4, 9)
    buffers = []
    for number in range(random.randint(3, 6)):
        start = random.randrange(steps)
        size, alignment = random.randint(1, 5), random.choice(alignments)
        buffers.append(Buffer(str(number), start, random.randint(start + 1, steps), size, alignment))
    return tuple(buffers)


def largest_load(buffers: tuple[Buffer, ...]) -> int:
    return max(sum(b.size for b in buffers if b.start <= t < b.end) for t in range(20))


# Capacity, and buffers (start, end, size) that are never more than it at once and yet have no packing.
IMPOSSIBLE = [
    (8, [(2, 3, 6), (3, 4, 3), (2, 5, 2), (3, 6, 1), (3, 6, 2), (5, 6, 3), (4, 7, 1), (6, 8, 6)]),
    (12, [(2, 3, 10), (4, 5, 3), (2, 6, 2), (4, 9, 7), (7, 10, 3), (5, 12, 2), (9, 12, 4), (11, 12, 4)]),
    (
        10,
        [(0, 1, 8), (1, 2, 6), (0, 4, 2), (1, 5, 2), (4, 7, 4), (5, 7, 2), (7, 8, 5), (3, 9, 3), (5, 10, 1)],
    ),
]


@pytest.mark.parametrize(("capacity", "triples"), IMPOSSIBLE)
def test_what_has_no_packing_is_proven(capacity: int, triples: list[tuple[int, int, int]]) -> None:
    """And each of these has one when any single buffer is left out, or with one unit more."""
    buffers = tuple(Buffer(str(number), *triple) for number, triple in enumerate(triples))
    assert largest_load(buffers) == capacity
    assert not exists(buffers, capacity)
    for seed in range(5):
        outcome = solve(PackingProblem(buffers, capacity), Budget(seed=seed), SEARCH_ONLY)
        assert outcome.status is Status.INFEASIBLE
        assert "complete search" in outcome.note
    for left_out in buffers:
        rest = tuple(buffer for buffer in buffers if buffer != left_out)
        problem = PackingProblem(rest, capacity)
        outcome = solve(problem, Budget(), SEARCH_ONLY)
        assert outcome.solution is not None
        assert violations(problem, outcome.solution) == []
    assert solve(PackingProblem(buffers, capacity + 1), Budget(), SEARCH_ONLY).solution is not None


def test_as_enumeration_says() -> None:
    """Small problems at the largest load."""
    random = Random(7)
    for _ in range(150):
        buffers = random_buffers(random)
        problem = PackingProblem(buffers, largest_load(buffers))
        outcome = solve(problem, Budget(seed=random.randrange(9)), SEARCH_ONLY)
        assert outcome.status in (Status.OPTIMAL, Status.INFEASIBLE)
        assert (outcome.solution is not None) == exists(buffers, problem.capacity)


@pytest.mark.parametrize("alignments", [(2,), (1, 2, 3)])
def test_alignments(alignments: tuple[int, ...]) -> None:
    """Equal ones are decided exactly; of different ones nothing is claimed that is not so."""
    random = Random(8)
    for _ in range(60):
        buffers = random_buffers(random, alignments)
        problem = PackingProblem(buffers, largest_load(buffers) + random.randint(0, 2))
        outcome = solve(problem, Budget(iterations=50), SEARCH_ONLY)
        possible = exists(buffers, problem.capacity)
        if outcome.solution is not None:
            assert possible
            assert violations(problem, outcome.solution) == []
        elif outcome.status is Status.INFEASIBLE:
            assert not possible


def test_sections_hold_every_overlap_and_the_largest_load() -> None:
    random = Random(9)
    for _ in range(200):
        buffers = sorted_buffers(PackingProblem(random_buffers(random), 0))
        instance = sections(buffers)
        assert instance.load.max() == largest_load(buffers)
        for one, a in enumerate(buffers):
            for other, b in enumerate(buffers):
                share = (
                    instance.first[one] <= instance.last[other]
                    and instance.first[other] <= instance.last[one]
                )
                assert share == (a.start < b.end and b.start < a.end)


def test_greedy_places_without_overlap() -> None:
    random = Random(10)
    for _ in range(100):
        buffers = random_buffers(random, (1, 4))
        for addresses, height in (
            greedy_packing(buffers),
            from_the_ground(buffers),
            lowest_addresses(buffers),
        ):
            assert violations(PackingProblem(buffers, height), addresses) == []


def test_greedy_ends_with_what_is_low_enough() -> None:
    buffers = challenging("D").buffers
    best = greedy_packing(buffers)[1]
    tower = sum(buffer.size for buffer in buffers)
    assert best < greedy_packing(buffers, tower)[1] <= tower


def test_more_at_once_than_fits_is_said_with_numbers() -> None:
    problem = PackingProblem((Buffer("a", 0, 2, 6), Buffer("b", 1, 3, 5)), 10)
    outcome = solve(problem, Budget())
    assert outcome.status is Status.INFEASIBLE
    assert "11" in outcome.note
    assert "10" in outcome.note


def test_nothing_to_place() -> None:
    assert solve(PackingProblem((), 0), Budget()).solution == {}
    assert solve(PackingProblem((Buffer("empty", 0, 1, 0),), 0), Budget()).solution == {"empty": 0}


def test_violations_are_found() -> None:
    problem = PackingProblem((Buffer("a", 0, 2, 4), Buffer("b", 1, 3, 4, 4), Buffer("c", 2, 3, 1)), 8)
    assert violations(problem, {"a": 0, "b": 4, "c": 0}) == []
    assert violations(problem, {"a": 0, "b": 3, "c": 8, "d": 1}) == [
        "d is no buffer of the problem",
        "b: 3 is no multiple of 4",
        "c: 8 .. 9 is outside 0 .. 8",
        "a and b overlap",
    ]
    assert "c has no address" in violations(problem, {"a": 0, "b": 4})


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Buffer("a", 2, 2, 1),
        lambda: Buffer("a", 0, 1, -1),
        lambda: Buffer("a", 0, 1, 1, 0),
        lambda: PackingProblem((), -1),
        lambda: PackingProblem((Buffer("a", 0, 1, 1), Buffer("a", 0, 1, 1)), 9),
        lambda: Params(greedy=1),  # type: ignore[arg-type]
    ],
)
def test_wrong_input_is_refused(wrong: object) -> None:
    with pytest.raises(InputError):
        wrong()  # type: ignore[operator]


def challenging(name: str) -> PackingProblem:
    capacity = 1 << 20
    with (INSTANCES / f"{name}.{capacity}.csv").open(encoding="ascii") as file:
        rows = csv.DictReader(file)
        buffers = (Buffer(row["id"], int(row["lower"]), int(row["upper"]), int(row["size"])) for row in rows)
        return PackingProblem(tuple(buffers), capacity)


@pytest.mark.parametrize("name", ["D", "G", "J"])
def test_challenging_instances(name: str) -> None:
    """Instances at 100 % load; the benchmark has all eleven."""
    problem = challenging(name)
    outcome = solve(problem, Budget(wall_seconds=300), SEARCH_ONLY)
    assert outcome.solution is not None
    assert violations(problem, outcome.solution) == []


@pytest.mark.parametrize("params", [Params(repairs=False), Params(restarts=False)])
def test_switches_leave_answers_and_proofs_right(params: Params) -> None:
    random = Random(11)
    for _ in range(40):
        buffers = random_buffers(random)
        problem = PackingProblem(buffers, largest_load(buffers))
        outcome = solve(problem, Budget(), replace(params, greedy=False))
        assert outcome.status in (Status.OPTIMAL, Status.INFEASIBLE)
        assert (outcome.solution is not None) == exists(buffers, problem.capacity)


def test_ranks_are_repaired_where_the_farthest_search_failed() -> None:
    buffers = sorted_buffers(challenging("D"))
    instance = sections(buffers)
    ranks = Ranks(buffers, instance, np.random.default_rng(1), repairs=True)
    first = ranks.next()
    failures = np.zeros(len(instance.load), np.int64)
    failures[50] = 9
    failing = (instance.first <= 50) & (instance.last >= 50)
    ranks.learn(first, 20, failures)
    for _ in range(20):
        rank = ranks.next()
        assert sorted(rank) == list(range(len(buffers)))
        kept = np.argsort(rank)[~failing[np.argsort(rank)]]
        assert list(kept) == [buffer for buffer in np.argsort(first) if not failing[buffer]]
        ranks.learn(rank, 19, failures)
    for _ in range(PATIENCE):
        ranks.learn(ranks.next(), 19, failures)
    fresh = ranks.next()
    assert list(np.argsort(fresh)[~failing[np.argsort(fresh)]]) != list(kept)


@pytest.mark.slow
def test_the_same_answer_for_the_same_seed() -> None:
    problem = challenging("D")
    assert solve(problem, Budget(seed=3)).solution == solve(problem, Budget(seed=3)).solution


@pytest.mark.parametrize("seconds", [0.001, 1.5, 5.0, 21.0])
def test_the_first_search_knows_its_pace(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A placement takes a millisecond of a clock of its own: none but the probe's is made in no time."""
    problem, clock = challenging("A"), SimpleNamespace(wall_seconds=0.0)
    compiled, made = kernel.search, list[int]()

    def slow(instance: Any, work: Any, capacity: int, nodes: int) -> int:
        made.append(nodes)
        clock.wall_seconds += nodes / 1000
        return int(compiled(instance, work, capacity, nodes))

    monkeypatch.setattr(kernel, "search", slow)
    buffers, budget = sorted_buffers(problem), Budget(wall_seconds=seconds)
    search_packing(buffers, problem.capacity, budget, SEARCH_ONLY, cast(Stopwatch, clock))
    assert sum(made) <= max(PROBE_NODES, 1000 * seconds) + 1


@pytest.mark.slow
def test_a_probe_changes_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first searches find, in so many placements, with probes of one, of many, and of all."""
    problem = challenging("D")
    answers = []
    for probe in (1, 5_000, 20_000):
        monkeypatch.setattr("solvers.scratchpad.packing.search.PROBE_NODES", probe)
        answers.append(solve(problem, Budget(wall_seconds=300, seed=2), SEARCH_ONLY).solution)
    assert answers[0] == answers[1] == answers[2]
