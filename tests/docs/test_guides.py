"""The guides of docs/guides, command by command: what they have one type works, and prints what they show."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from guide_blocks import GUIDES, Block, blocks, check_what_is_shown, printed


def follow(name: str, folder: Path, variables: Mapping[str, str] | None = None, seconds: float = 300) -> None:
    """Everything that a guide shows, in a copy of the checkout's guides."""
    shutil.copytree(GUIDES, folder / "docs" / "guides")
    guide = blocks(name)
    check_what_is_shown(guide, printed(guide, folder, variables or {}, seconds))


@pytest.mark.parametrize("name", [path.stem for path in sorted(GUIDES.glob("*.md"))])
def test_files_that_are_shown_are_the_files(name: str) -> None:
    there = {path.read_text(encoding="utf-8") for path in (GUIDES / name).glob("*.yaml")}
    for block in blocks(name):
        if block.language == "yaml":
            assert block.text in there


@pytest.mark.parametrize("name", [path.stem for path in sorted(GUIDES.glob("*.md"))])
def test_links_lead_somewhere(name: str) -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", (GUIDES / f"{name}.md").read_text(encoding="utf-8")):
        assert (GUIDES / link).exists(), link


def test_a_block_that_fails_or_shows_something_else_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="went wrong"):
        printed([Block("sh", "echo went wrong; false\n")], tmp_path, {}, 20)
    marked = [Block("sh", "sh -c 'exit 2'   # exit status 2: as it says\n"), Block("sh", "echo 1   2\n")]
    assert printed(marked, tmp_path, {}, 20) == ["", "1 2\n"]
    with pytest.raises(AssertionError):
        printed([Block("sh", "true   # exit status 2\n")], tmp_path, {}, 20)
    shown = [Block("sh", ""), Block("text", "b\n"), Block("text", "c\nb\n")]
    check_what_is_shown(shown[:2], ["a\n b\nc\n", ""])
    with pytest.raises(AssertionError, match="'b' is not in"):
        check_what_is_shown(shown, ["a\n b\nc\n", "", ""])


@pytest.mark.slow
def test_architect(tmp_path: Path) -> None:
    follow("architect", tmp_path)
