"""A laptop and two hosts, each a network namespace: `ray up`, jobs and `ray down` with our onprem file."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.deployment.deployment import deployment_text
from results.store.folder import RunFolder
from sweep.run.session import RuntimeChoice, run_study
from sweep.study.study import load_study
from tests.clusters import holds
from tests.clusters.network_hosts import REPOSITORY, Host, hosts, why_not
from tests.clusters.processes import until

REASON = why_not()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.cluster,
    pytest.mark.skipif(bool(REASON), reason=REASON),
]

PACKAGES = ("clusters", "costmodel", "results", "solvers", "sweep")
TOKEN: dict[str, Any] = {"RAY_AUTH_MODE": "token"}
STUDY = """
name: hosts
networks: [problem.yaml]
architecture: eyeriss
axes:
  SRAM.size: {choices: [2 KiB, 4 KiB, 8 KiB, 16 KiB]}
  SRAM.fanout: {choices: [[2, 2], [4, 2], [4, 4]]}
  RegFile.size: {choices: [64, 128]}
mapping: {solver: random_search, objective: edp, iterations: 400, wall_seconds: 60}
"""
BASHRC = "export RAY_gcs_rpc_server_reconnect_timeout_s=10\n"
PROBLEM = (Path(__file__).parents[2] / "data" / "problems" / "gemm.yaml").read_text(encoding="utf-8")


@dataclass
class Site:
    """The hosts with a running cluster; the laptop has a checkout with a study in it."""

    laptop: Host
    head: Host
    worker: Host
    expected: dict[str, float]

    def check_rows(self, folder: Path) -> None:
        """Each task once, with the answer that one process finds, solved on both hosts."""
        rows = RunFolder(folder).read("layers", ["task_id", "objective", "worker"]).to_pylist()
        assert len(rows) == len(self.expected)
        assert {row["task_id"]: row["objective"] for row in rows} == self.expected
        assert {row["worker"].split(":")[0] for row in rows} == {"head", "worker"}

    def tunnel(self) -> None:
        """What `ray dashboard` does until it is ended: the head's loopback port on the laptop's."""
        if not self.laptop.listens(8265):
            self.laptop.start("ray", "dashboard", "onprem.yaml", cwd="checkout")
            until(lambda: self.laptop.listens(8265), "the tunnel to the dashboard")


def filled_in(head: Host, worker: Host, folder: Path) -> str:
    """Our onprem file with what a user fills in, but no download: the hosts have the environment already.

    No solve ends before both hosts have begun one, however long a worker takes to start.
    """
    document: dict[str, Any] = yaml.safe_load(deployment_text("onprem"))
    document["provider"] |= {"head_ip": head.address, "worker_ips": [worker.address]}
    document["auth"] = {"ssh_user": "root", "ssh_private_key": str(folder / "key")}
    install = document["setup_commands"].index("~/archsweep-env/bin/pip install --quiet ~/archsweep")
    document["setup_commands"][install] = (
        "grep -qs HOME/archsweep ~/.bashrc || "
        "echo 'export PYTHONPATH=$HOME/archsweep:$PYTHONPATH' >> ~/.bashrc"
    )
    for part in ("head_start_ray_commands", "worker_start_ray_commands"):
        commands = document[part]
        document[part] = [command.replace("ray start", "ray start --num-cpus=1") for command in commands]
    for host in (head, worker):
        (host.home / "archsweep-env").symlink_to(sys.prefix)
        (host.home / ".bashrc").write_text(holds.exports("workers:2", folder / "held") + BASHRC)
    return yaml.safe_dump(document)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The cluster after `ray up`; its processes end with the hosts, whatever the tests do."""
    folder = tmp_path_factory.mktemp("site")
    with hosts(folder, "laptop", "head", "worker") as (laptop, head, worker):
        checkout = laptop.home / "checkout"
        for package in PACKAGES:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(REPOSITORY / package, checkout / package, ignore=ignored)
        for name in ("archsweep.py", "pyproject.toml", ".gitignore"):
            shutil.copy(REPOSITORY / name, checkout)
        (checkout / "study.yaml").write_text(STUDY)
        (checkout / "problem.yaml").write_text(PROBLEM)
        (checkout / "onprem.yaml").write_text(filled_in(head, worker, folder))
        laptop.run("ray", "get-auth-token", "--generate")
        answers = run_study(
            load_study(str(checkout / "study.yaml")), folder / "here", RuntimeChoice(in_process=True)
        )
        rows = answers.read("layers", ["task_id", "objective"]).to_pylist()
        laptop.run("ray", "up", "onprem.yaml", "-y", "--no-config-cache", cwd="checkout")
        until(lambda: nodes(head) == 2, "the worker to join")
        yield Site(laptop, head, worker, {row["task_id"]: row["objective"] for row in rows})


def nodes(head: Host) -> int:
    """Nodes that are alive, as the cluster says."""
    listed = head.run(
        "ray", "list", "nodes", "--filter", "state=ALIVE", "--format", "json", check=False, **TOKEN
    )
    return listed.count('"ALIVE"')


def test_the_file_is_sound(site: Site) -> None:
    said = site.laptop.run("python", "-m", "archsweep", "cluster", "check", "onprem.yaml", cwd="checkout")
    assert "nothing wrong" in said


def test_ray_submit(site: Site) -> None:
    """The study is in the checkout that file_mounts copied; what runs is that copy."""
    command = ("run", "archsweep/study.yaml", "--address", "auto", "--output", "runs/submitted")
    said = site.laptop.run("ray", "submit", "onprem.yaml", "archsweep.py", "--", *command, cwd="checkout")
    site.laptop.run("ray", "rsync-down", "onprem.yaml", "~/runs/submitted/", "submitted/", cwd="checkout")
    site.check_rows(site.laptop.home / "checkout" / "submitted")
    assert "runs/submitted/report.html" in said
    assert (site.laptop.home / "checkout" / "submitted" / "report.html").stat().st_size > 100_000
    used = site.head.run("bash", "-ic", "source ~/.bashrc; python -c 'import sweep; print(sweep.__file__)'")
    assert str(site.head.home / "archsweep") in used


def test_ray_job_submit_from_the_laptop(site: Site) -> None:
    site.tunnel()
    command = ("python", "-m", "archsweep", "run", "study.yaml", "--output", "~/runs/job")
    submit = ("ray", "job", "submit", "--address", "http://127.0.0.1:8265", "--working-dir", ".", "--")
    refused = site.laptop.run(*submit, "true", cwd="checkout", check=False)
    assert "oken authentication is enabled" in refused
    assert "succeeded" not in refused
    said = site.laptop.run(*submit, *command, cwd="checkout", **TOKEN)
    assert "succeeded" in said
    site.check_rows(site.head.home / "runs" / "job")


@pytest.mark.thorough
def test_archsweep_submit_from_the_laptop(site: Site) -> None:
    site.tunnel()
    command = ("submit", "study.yaml", "--address", "http://127.0.0.1:8265", "--output", "home")
    site.laptop.run("python", "-m", "archsweep", *command, cwd="checkout", **TOKEN)
    site.check_rows(site.laptop.home / "checkout" / "home")


def test_the_dashboard_is_on_loopback(site: Site) -> None:
    assert site.head.listens(8265)
    assert not site.laptop.listens(8265, site.head.address)
    assert site.laptop.listens(6379, site.head.address), "the GCS is for workers, behind the token"
    without = site.laptop.run("ray", "status", "--address", f"{site.head.address}:6379", check=False)
    assert "CPU" not in without


def test_ray_down(site: Site) -> None:
    """Last: the head's Ray ends at once, a worker's when it has missed the head (for 10 s here)."""
    assert running_ray(site.head)
    site.laptop.run("ray", "down", "onprem.yaml", "-y", cwd="checkout")
    assert running_ray(site.head) == []
    until(lambda: not running_ray(site.worker), "the worker to miss its head")


def running_ray(host: Host) -> list[str]:
    return [line for line in host.run("ps", "-eo", "comm").splitlines() if line in ("raylet", "gcs_server")]
