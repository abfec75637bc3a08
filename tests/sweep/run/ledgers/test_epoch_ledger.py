"""Epochs of seeds: each is begun once, after all seeds of the epoch before, and no state is kept too long."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from solvers.schedule.set.epochs import EpochOf
from sweep.run.ledgers.epoch_ledger import EpochLedger


@dataclass(frozen=True, eq=False)
class Epoch:
    """What the ledger reads of a schedule task."""

    id: str
    epoch: EpochOf
    before: tuple[Epoch, ...]


def last_epochs(seeds: int, count: int) -> tuple[Epoch, ...]:
    tasks: tuple[Epoch, ...] = ()
    for number in range(count):
        tasks = tuple(Epoch(f"{number}/{seed}", EpochOf(number, count, seed), tasks) for seed in range(seeds))
    return tasks


@given(st.integers(1, 4), st.integers(1, 4), st.data())
def test_each_epoch_is_begun_once_told_all_states_and_all_are_forgotten(
    seeds: int, count: int, data: st.DataObject
) -> None:
    random = Random(data.draw(st.integers()))
    stored = data.draw(st.sets(st.sampled_from([f"{n}/{s}" for n in range(count) for s in range(seeds)])))
    ledger: Any = EpochLedger()
    running: list[Epoch] = []
    begun: list[str] = []

    def begin(task: Epoch) -> None:
        begun.append(task.id)
        if task.id in stored:
            running.extend(ledger.answered(task, {"state": task.id}))
            return
        before = ledger.begin(task)
        if ledger.ready(task):
            running.append(task)
        for need in before:
            begin(need)

    def end() -> None:
        task = running.pop(random.randrange(len(running)))
        assert ledger.states(task) == [before.id for before in task.before]
        running.extend(ledger.answered(task, {"state": task.id}))

    # the last epochs are opened one after the other, and what runs may end in between
    for task in last_epochs(seeds, count):
        begin(task)
        while running and random.random() < 0.5:
            end()
    while running:
        end()
    assert sorted(begun) == sorted(set(begun))
    assert len(ledger) == 0
    assert ledger._states == {}
    assert ledger._readers_left == {}
