"""docs/notebook.ipynb as a page of the documentation, and what its cells print."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebook.ipynb"


def cells() -> list[dict[str, Any]]:
    """The cells of the notebook, with the outputs that it was saved with."""
    found: list[dict[str, Any]] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return found


def printed(cell: dict[str, Any]) -> str:
    """What a code cell printed, and the value that it ended with, as text.

    Standard error is left out: where no machine code is kept yet, it says what is being compiled.
    """
    parts: list[str] = []
    inside_stream = False
    for output in cell["outputs"]:
        if output.get("name") == "stderr":
            continue
        text = "".join(output.get("text", output.get("data", {}).get("text/plain", "")))
        stream = output["output_type"] == "stream"
        if stream and inside_stream:  # a busy kernel sends one print in several pieces, cut anywhere
            parts[-1] += text
        else:
            parts.append(text)
        inside_stream = stream
    return "\n".join(part.rstrip("\n") for part in parts)


def page() -> str:
    """The notebook as Markdown: its text, its code, and below each cell what that printed."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    for cell in cells():
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield f"{source}\n"
            continue
        yield f"```python\n{source}\n```\n"
        if output := printed(cell):
            yield f"```text\n{output}\n```\n"
    yield "This page is made from `docs/notebook.ipynb`, which you can open in Jupyter.\n"
