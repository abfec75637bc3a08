"""Addresses that lead nowhere are refused at once and say why."""

from __future__ import annotations

import subprocess
import sys

import pytest

from clusters.ray.session import RaySession
from clusters.runtime import WorkersUnavailableError
from tests.clusters.processes import free_port


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        (f"127.0.0.1:{free_port()}", "refused"),
        ("127.0.0.1:gcs", "'gcs', no number"),
        ("ray://head:10001", "submit a job"),
        ("no-such-host.invalid:6379", "no-such-host.invalid"),
    ],
    ids=["nobody listens", "no port", "a client's", "no host"],
)
def test_an_address_without_a_cluster(address: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WorkersUnavailableError, match=reason):
        RaySession(address, None)
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(WorkersUnavailableError, match=reason):
        RaySession("", None)


def test_a_cluster_of_another_ray_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def refuse(**_: object) -> None:
        raise RuntimeError("Version mismatch: The cluster was started with: Ray: 2.9.0")

    monkeypatch.setattr(ray, "init", refuse)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(WorkersUnavailableError, match=r"another Ray or Python.*2\.9\.0"):
        RaySession("auto", None)


def test_importing_the_runtimes_does_not_import_ray() -> None:
    code = "import sys, clusters.ray.actors, clusters.in_process; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
