"""Nodes that come and go in the middle of a run, on a cluster of several raylets on this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from work_items import work

from clusters.ray_actors import RayRuntime
from clusters.runtime import Completion, RuntimeSettings, complete_all

HERE = Path(__file__).parent

pytestmark = [pytest.mark.slow, pytest.mark.cluster]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head with one CPU."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(HERE), str(HERE.parents[1]))))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    yield cluster
    cluster.shutdown()


def run(cluster: Any, items: int, after: dict[int, Any]) -> list[Completion]:
    """Items of 0.2 s; each action in `after` is done when that many have completed."""
    with RayRuntime(work, RuntimeSettings(address=cluster.address)) as runtime:
        completions = []
        for completion in complete_all(runtime, ((str(n), ("nap", 0.2)) for n in range(items))):
            completions.append(completion)
            if action := after.get(len(completions)):
                action()
    assert sorted(int(c.key) for c in completions) == list(range(items))
    assert all(c.error is None for c in completions)
    return completions


def test_a_node_that_joins_gets_work(cluster: Any) -> None:
    completions = run(cluster, 100, {5: lambda: cluster.add_node(num_cpus=2)})
    assert len({c.worker for c in completions}) == 3


def test_a_killed_node_loses_no_item_and_blames_none(cluster: Any) -> None:
    node = cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    started = time.monotonic()
    completions = run(cluster, 60, {20: lambda: cluster.remove_node(node, allow_graceful=False)})
    assert len({c.worker for c in completions}) == 3
    assert sum(c.attempts - 1 for c in completions) <= 2, "only what was running is run again"
    assert time.monotonic() - started < 120, "nothing waits for a dead node"
