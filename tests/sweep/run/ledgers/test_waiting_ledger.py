"""The ledger of waiters: random graphs of needs in random orders, against what has to hold of each."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.run.ledgers.waiting_ledger import WaitingLedger

Needs = dict[int, set[int]]
"""By node, the earlier nodes whose answers it waits for."""


@st.composite
def graphs(draw: st.DrawFn) -> Needs:
    count = draw(st.integers(1, 14))
    return {
        node: draw(st.sets(st.integers(0, node - 1), max_size=5)) if node else set() for node in range(count)
    }


def solve_all(needs: Needs, designs: list[set[int]], random: Random) -> tuple[Counter[int], list[int]]:
    """Solve what the ``designs`` ask for and what that needs, running ones ending in any order.

    Returns how often each node was solved, and the nodes in the order in which they ended.
    """
    ledger = WaitingLedger[int]()
    solves: Counter[int] = Counter()
    ended: list[int] = []
    running: list[int] = []

    def begin(waiter: int, wanted: set[int]) -> None:
        for need in ledger.wait(waiter, [str(need) for need in sorted(wanted) if need not in ended]):
            begin(int(need), needs[int(need)])
            if not ledger.waits(int(need)):
                running.append(int(need))

    for number, wanted in enumerate(designs):
        begin(-1 - number, wanted)
        if running and random.random() < 0.5:
            end(running.pop(random.randrange(len(running))), ledger, running, solves, ended)
    while running:
        end(running.pop(random.randrange(len(running))), ledger, running, solves, ended)
    assert len(ledger) == 0
    assert (ledger._lacking, ledger._waiting) == ({}, {})
    return solves, ended


def end(
    node: int, ledger: WaitingLedger[int], running: list[int], solves: Counter[int], ended: list[int]
) -> None:
    solves[node] += 1
    ended.append(node)
    running.extend(waiter for waiter in ledger.answered(str(node)) if waiter >= 0)


def needed(needs: Needs, nodes: set[int]) -> set[int]:
    """The nodes and all that they need, found without a ledger."""
    found: set[int] = set()
    open_nodes = list(nodes)
    while open_nodes:
        node = open_nodes.pop()
        if node not in found:
            found.add(node)
            open_nodes += needs[node]
    return found


@given(graphs(), st.data())
def test_each_node_is_solved_once_after_what_it_needs_and_nothing_is_lost(
    needs: Needs, data: st.DataObject
) -> None:
    designs = data.draw(st.lists(st.sets(st.sampled_from(sorted(needs))), min_size=1, max_size=6))
    solves, ended = solve_all(needs, designs, Random(data.draw(st.integers())))
    assert solves == Counter(needed(needs, set().union(*designs)))
    assert all(ended.index(need) < ended.index(node) for node in ended for need in needs[node])


@given(st.lists(st.sets(st.sampled_from("abcdef")), max_size=8), st.randoms(use_true_random=False))
def test_a_waiter_is_released_by_the_last_of_its_answers(wanted: list[set[str]], random: Random) -> None:
    ledger = WaitingLedger[int]()
    handed_out = [new for number, ids in enumerate(wanted) for new in ledger.wait(number, sorted(ids))]
    assert sorted(handed_out) == sorted(set().union(*wanted))
    random.shuffle(handed_out)
    for position, answer in enumerate(handed_out):
        before = set(handed_out[:position])
        last = [number for number, ids in enumerate(wanted) if answer in ids and ids <= before | {answer}]
        assert ledger.is_awaited(answer)
        assert ledger.answered(answer) == last
        assert not ledger.is_awaited(answer)
        assert len(ledger) == sum(not ids <= before | {answer} for ids in wanted)


def test_an_id_is_handed_out_again_once_it_was_answered() -> None:
    """What is answered is forgotten: whoever asks has to know what was found."""
    ledger = WaitingLedger[str]()
    assert ledger.wait("first", ["a", "b", "a"]) == ["a", "b"]
    assert ledger.wait("second", ["b"]) == []
    assert ledger.answered("b") == ["second"]
    assert ledger.wait("third", ["b"]) == ["b"]
    assert (len(ledger), ledger.waits("second"), ledger.waits("first")) == (2, False, True)


def test_a_waiter_that_asks_twice_is_released_once() -> None:
    ledger = WaitingLedger[str]()
    ledger.wait("one", ["a"])
    assert ledger.wait("one", ["a", "b"]) == ["b"]
    assert [ledger.answered("a"), ledger.answered("b")] == [[], ["one"]]


@pytest.mark.parametrize("ids", [[], ()])
def test_who_lacks_nothing_does_not_wait(ids: list[str]) -> None:
    ledger = WaitingLedger[str]()
    assert ledger.wait("one", ids) == []
    assert (ledger.waits("one"), ledger.answered("never asked for")) == (False, [])
