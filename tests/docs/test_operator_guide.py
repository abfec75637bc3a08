"""The operator's guide, typed on a laptop beside three hosts, each a network namespace with its own sshd."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusters.network_hosts import Host, hosts, why_not
from tests.clusters.processes import NO_LESS_URGENT, PATIENCE, machine_code
from tests.docs.guide_blocks import ROOT, blocks, check_what_is_shown, outputs_of, script_of

REASON = why_not()
# thorough, because test_ray_up.py and test_submit_on_a_head.py always run most of what it does
pytestmark = [
    pytest.mark.slow,
    pytest.mark.cluster,
    pytest.mark.thorough,
    pytest.mark.skipif(bool(REASON), reason=REASON),
]
NAMES = ("laptop", "head", "first", "second")
COPIED = ("clusters", "costmodel", "docs", "results", "solvers", "sweep")
BASHRC = """
export PYTHONPATH=$HOME/archsweep
""" + "".join(f"export {name}={value}\n" for name, value in (machine_code() | NO_LESS_URGENT).items())


@pytest.fixture
def laptop(tmp_path: Path) -> Iterator[Host]:
    """The host to type on, with a checkout; the others have what ``pip install`` would bring them."""
    with hosts(tmp_path, *NAMES) as (laptop, *others):
        for package in COPIED:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / package, laptop.home / "checkout" / package, ignore=ignored)
        for name in ("archsweep.py", "pyproject.toml", ".gitignore"):
            shutil.copy(ROOT / name, laptop.home / "checkout")
        (laptop.home / ".ssh").mkdir(mode=0o700)
        shutil.copy(tmp_path / "key", laptop.home / ".ssh" / "archsweep")
        for host in others:
            installed_environment(host.home / "archsweep-env")
            (host.home / ".bashrc").write_text(BASHRC, encoding="utf-8")
        yield laptop


def installed_environment(folder: Path) -> None:
    """This process's environment under another path, whose pip has nothing left to do."""
    (folder / "bin").mkdir(parents=True)
    for entry in Path(sys.prefix).iterdir():
        if entry.name != "bin":
            (folder / entry.name).symlink_to(entry)
    for entry in (Path(sys.prefix) / "bin").iterdir():
        if entry.name != "pip":
            (folder / "bin" / entry.name).symlink_to(entry)
    (folder / "bin" / "pip").symlink_to("/bin/true")


def test_operator(laptop: Host) -> None:
    guide = blocks("operator")
    variables = {"PYTHONPATH": str(laptop.home / "checkout"), "COLUMNS": "250", **machine_code()}
    typed = laptop.start("bash", "-c", script_of(guide), cwd="checkout", **variables)
    status = typed.wait(4 * PATIENCE)
    printed = (laptop.folder / "bash.log").read_text(encoding="utf-8")
    assert status == 0, printed[-5000:]
    check_what_is_shown(guide, outputs_of(printed))
