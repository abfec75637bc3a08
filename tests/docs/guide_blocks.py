"""A guide as a script: its blocks run in order, and what it shows is what they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.clusters.processes import PATIENCE

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs" / "guides"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_STATUS = re.compile(r"^(?P<command>[^#\n]*\S)\s+# exit status (?P<status>\d)\b.*$", re.MULTILINE)
_MARK = "=== block"


@dataclass(frozen=True)
class Block:
    """A fenced block: ``sh`` and ``python`` run, ``text`` is what that printed, ``yaml`` a file."""

    language: str
    text: str

    @property
    def script(self) -> str:
        """Its part of the shell's script; a command marked ``# exit status N`` must end with it."""
        if self.language == "python":
            return f"python - <<'END OF GUIDE'\n{self.text}END OF GUIDE\n"
        if self.language == "sh":
            return _STATUS.sub(r"{ \g<command>; status=$?; } || true; test $status = \g<status>", self.text)
        return ""


def blocks(name: str) -> list[Block]:
    """The blocks of ``docs/guides/NAME.md``."""
    return blocks_of((GUIDES / f"{name}.md").read_text(encoding="utf-8"))


def blocks_of(text: str) -> list[Block]:
    """The fenced blocks of a page."""
    return [Block(language, content) for language, content in _BLOCK.findall(text)]


def script_of(guide: list[Block]) -> str:
    """All blocks for one shell, which ends where a command fails."""
    return "set -eo pipefail\n" + "".join(
        f"{block.script}echo '{_MARK} {i}'\n" for i, block in enumerate(guide)
    )


def outputs_of(printed: str) -> list[str]:
    """What each block of a script printed."""
    return re.split(rf"^{_MARK} \d+\n", printed, flags=re.MULTILINE)[:-1]


def printed(guide: list[Block], folder: Path, variables: Mapping[str, str]) -> list[str]:
    """What each block printed, run one after the other by one shell that begins in ``folder``."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "250", **variables}
    done = subprocess.run(
        ["bash", "-c", script_of(guide)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=4 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    return outputs_of(done.stdout)


def check_what_is_shown(guide: list[Block], outputs: list[str]) -> None:
    """Every line of a ``text`` block is in what the last commands before it printed, in this order."""
    output = ""
    for block, out in zip(guide, outputs, strict=True):
        if block.language in ("sh", "python"):
            output = _plain(out)
        elif block.language == "text":
            rest = output
            for line in _plain(block.text).splitlines():
                assert line in rest, f"{line!r} is not in what is left of:\n{output}"
                rest = rest.partition(line)[2]


def _plain(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.splitlines())
