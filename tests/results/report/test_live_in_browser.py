"""The page that follows a run, opened in a real browser while a real run goes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from results.front.pareto import front_table
from results.report.live import live_state
from results.store.folder import RunFolder
from results.store.run_progress import read_progress
from tests.results.report.browser import Page
from tests.sweep.conftest import PROBLEM, TINY

pytestmark = pytest.mark.slow

COMMAND = (sys.executable, "-m", "archsweep")


def test_the_page_follows_a_run_to_its_end(open_page: Callable[[str], Page], tmp_path: Path) -> None:
    (tmp_path / "problem.yaml").write_text(PROBLEM)
    (tmp_path / "tiny.yaml").write_text(TINY)
    watching = [*COMMAND, "watch", "runs/tiny", "--wait"]
    with subprocess.Popen(watching, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as beside:
        assert beside.stdout is not None
        try:
            page = open_page(beside.stdout.readline().strip())
            page.until("document.querySelector('#headline').textContent.includes('has not begun')")
            run = [*COMMAND, "run", "tiny.yaml", "--in-process"]
            subprocess.run(run, cwd=tmp_path, check=True, capture_output=True)
            page.until("document.querySelector('#headline .cards dd')?.textContent === 'ended'")
        finally:
            beside.terminate()
        folder = RunFolder(tmp_path / "runs" / "tiny")
        told = read_progress(folder.path)
        assert told is not None
        on_front = len(front_table(folder, told.objectives))
        rows = "document.querySelectorAll('#front tbody tr').length"
        assert page.run(rows) == on_front
        for key in live_state(told)["figures"]:
            page.until(f"document.querySelector('#{key} .main-svg') !== null")
        points = (
            f"document.querySelectorAll('#front-{told.objectives[0]}-{told.objectives[1]} .point').length"
        )
        assert page.run(points) >= on_front
        assert page.happened("Runtime.exceptionThrown") == []
        # once the command has ended the page says that nobody answers
        beside.wait()
        page.until("!document.querySelector('#lost').hidden")
