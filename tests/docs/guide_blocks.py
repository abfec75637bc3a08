"""A guide as a script: its blocks run in order, and what it shows is what they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

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
    text = (GUIDES / f"{name}.md").read_text(encoding="utf-8")
    return [Block(language, content) for language, content in _BLOCK.findall(text)]


def printed(guide: list[Block], folder: Path, variables: Mapping[str, str], seconds: float) -> list[str]:
    """What each block printed, run one after the other by one shell that begins in ``folder``."""
    script = "set -eo pipefail\n"
    script += "".join(f"{block.script}echo '{_MARK} {i}'\n" for i, block in enumerate(guide))
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "250", **variables}
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    return re.split(rf"^{_MARK} \d+\n", done.stdout, flags=re.MULTILINE)[:-1]


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
