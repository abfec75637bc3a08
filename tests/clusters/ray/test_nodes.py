"""Nodes that come and go in the middle of a run, on a cluster of several raylets on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from clusters.ray.actors import RayRuntime
from clusters.runtime import Completion, RuntimeSettings, complete_all
from tests.clusters.work_items import work

ROOT = Path(__file__).parents[3]

pytestmark = [pytest.mark.slow, pytest.mark.cluster]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head with one CPU."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    yield cluster
    cluster.shutdown()


def run(cluster: Any, seen: dict[int, Any], more: int) -> list[Completion]:
    """Naps of 0.1 s until so many workers have completed one as the last key of ``seen``, then ``more``.

    What stands beside a number of workers is done when so many have. How long a node's workers take to start
    so does not matter.
    """
    workers: set[str] = set()
    left = dict(seen)

    def items() -> Iterator[tuple[str, Any] | None]:
        for number in count():
            if not left:
                yield from ((str(n), ("nap", 0.1)) for n in range(number, number + more))
                return
            yield str(number), ("nap", 0.1)

    completions = []
    with RayRuntime(work, RuntimeSettings(address=cluster.address)) as runtime:
        for completion in complete_all(runtime, items()):
            completions.append(completion)
            workers.add(completion.worker)
            while left and len(workers) >= min(left):
                left.pop(min(left))()
    assert sorted(int(c.key) for c in completions) == list(range(len(completions)))
    assert all(c.error is None for c in completions)
    return completions


def nothing() -> None:
    """What is done when it is enough that so many workers have had work."""


def test_a_node_that_joins_gets_work(cluster: Any) -> None:
    completions = run(cluster, {1: lambda: cluster.add_node(num_cpus=2), 3: nothing}, more=0)
    assert len({c.worker for c in completions}) == 3


def test_a_killed_node_loses_no_item_and_blames_none(cluster: Any) -> None:
    node = cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    completions = run(cluster, {3: lambda: cluster.remove_node(node, allow_graceful=False)}, more=40)
    assert len({c.worker for c in completions}) == 3
    assert sum(c.attempts - 1 for c in completions) <= 2, "only what was running is run again"
