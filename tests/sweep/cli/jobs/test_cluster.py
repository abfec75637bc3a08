"""``archsweep cluster``: what it says about a deployment file and what it exits with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from clusters.deployment.deployment import deployment_names, deployment_text

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cluster(command_line: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Runs ``archsweep cluster ...`` in a home with a key and a token."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for file in (".ray/auth_token", ".ssh/id_ed25519"):
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).touch(0o600)
    monkeypatch.setattr("shutil.which", lambda program: program)
    return partial(command_line, "cluster")


@pytest.mark.parametrize("name", deployment_names())
def test_what_is_shown_is_the_file(cluster: Command, name: str) -> None:
    assert cluster("show", name) == (0, deployment_text(name), "")


def test_every_placeholder_has_a_line_with_key_and_remedy(cluster: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(deployment_text("onprem"))
    status, out, err = cluster("check", "mine.yaml")
    lines = err.splitlines()
    assert (status, out) == (2, "")
    keys = ("provider.head_ip", "provider.worker_ips.0", "provider.worker_ips.1")
    assert [line.split(": ")[2] for line in lines] == list(keys)
    assert all(line.startswith("archsweep: mine.yaml: ") and "Fill in your own" in line for line in lines)


def test_a_filled_in_file_is_passed(cluster: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(deployment_text("onprem").replace("192.0.2.", "10.0.0."))
    assert cluster("check", "mine.yaml") == (0, "mine.yaml: nothing wrong was found\n", "")
    (tmp_path / ".ray" / "auth_token").unlink()
    status, _, err = cluster("check", "mine.yaml")
    assert status == 2
    assert "ray get-auth-token --generate" in err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("provider: [", "valid YAML"),
        ("a: 1\n---\nb: 2\n", "document"),
        ("a: &a [*a]\n", "contains itself"),
        ("x: !!python/object/apply:os.system [ls]\n", "python"),
        ("", "a mapping"),
    ],
)
def test_files_that_cannot_be_read(cluster: Command, tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    status, out, err = cluster("check", "mine.yaml")
    assert (status, out) == (2, "")
    assert err.startswith("archsweep: mine.yaml")
    assert words in err


def test_no_such_file_and_no_such_name(cluster: Command) -> None:
    assert cluster("check", "none.yaml")[0] == 2
    status, _, err = cluster("show", "omprem")
    assert status == 2
    assert "Did you mean onprem?" in err
