"""The notebook runs from its first cell to its last, and prints what it was saved with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.notebook import NOTEBOOK, cells, printed


@pytest.mark.slow
def test_the_notebook_prints_what_it_was_saved_with(tmp_path: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    fresh = nbformat.read(NOTEBOOK, as_version=4)
    for cell in fresh.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    client = nbclient.NotebookClient(fresh, timeout=None, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    saved = [cell for cell in cells() if cell["cell_type"] == "code"]
    ran = [cell for cell in fresh.cells if cell.cell_type == "code"]
    assert [printed(cell) for cell in ran] == [printed(cell) for cell in saved]
    assert (tmp_path / "runs" / "notebook" / "report.html").exists()
