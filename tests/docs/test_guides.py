"""The guides of docs/guides, command by command: what they have one type works, and prints what they show."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from sweep.forecast.plan import plan
from sweep.study.study import load_study
from tests.docs.first_page import FIRST_PAGE, check_first_page, first_page
from tests.docs.guide_blocks import GUIDES, ROOT, Block, blocks, check_what_is_shown, printed


def follow(name: str, folder: Path, variables: Mapping[str, str] | None = None) -> None:
    """Everything that a guide shows, in the checkout ``folder``."""
    guide = blocks(name)
    check_what_is_shown(guide, printed(guide, folder, variables or {}))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """This checkout with solvers and guides of its own, and with the code that is compiled already."""
    for entry in ROOT.iterdir():
        if entry.name not in (".git", "archsweep.py", "docs", "runs", "solvers"):
            (tmp_path / entry.name).symlink_to(entry)
    # the command looks for the packages beside the file that it is, not beside one that this leads to
    shutil.copy(ROOT / "archsweep.py", tmp_path)
    for copied in ("docs", "solvers"):
        shutil.copytree(ROOT / copied, tmp_path / copied)
    return tmp_path


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
        printed([Block("sh", "echo went wrong; false\n")], tmp_path, {})
    marked = [Block("sh", "sh -c 'exit 2'   # exit status 2: as it says\n"), Block("sh", "echo 1   2\n")]
    assert printed(marked, tmp_path, {}) == ["", "1 2\n"]
    with pytest.raises(AssertionError):
        printed([Block("sh", "true   # exit status 2\n")], tmp_path, {})
    shown = [Block("sh", ""), Block("text", "b\n"), Block("text", "c\nb\n")]
    check_what_is_shown(shown[:2], ["a\n b\nc\n", ""])
    with pytest.raises(AssertionError, match="'b' is not in"):
        check_what_is_shown(shown, ["a\n b\nc\n", "", ""])


def test_the_first_page_shows_what_its_study_printed_or_is_refused() -> None:
    """.ci/run gives it what the study printed, which the wheel solves there; here it is given the page."""
    shown = "".join(block.text for block in first_page()[1:])
    check_first_page(shown)
    with pytest.raises(AssertionError, match="is not in"):
        check_first_page(shown.replace("3.658e+09", "3.659e+09"))


def test_the_first_page_says_how_large_its_study_is() -> None:
    planned, text = plan(load_study("quickstart")), FIRST_PAGE.read_text(encoding="utf-8")
    assert f" {len(planned.designs)} variants of a chip in the manner of" in text
    assert f" {planned.open} solves" in text


@pytest.mark.slow
def test_architect(checkout: Path) -> None:
    follow("architect", checkout)


@pytest.mark.slow
def test_researcher(checkout: Path) -> None:
    for library in ("duckdb", "polars"):
        pytest.importorskip(library)
    # pip builds with what is here and installs beside it: the environment of the tests stays as it is
    site = checkout / "site-packages"
    pip = {"NO_INDEX": "1", "NO_BUILD_ISOLATION": "0", "NO_DEPS": "1", "TARGET": str(site), "QUIET": "1"}
    path = {"PYTHONPATH": os.pathsep.join((str(checkout), str(site)))}
    follow("researcher", checkout, path | {f"PIP_{key}": value for key, value in pip.items()})
