"""A command of the tests that is running: what it prints is read as it comes, on a thread of its own."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.clusters.processes import PATIENCE

ROOT = Path(__file__).parents[2]


class ReadProcess:
    """``archsweep`` with these words, started in ``folder``; ``said`` has what it printed so far.

    ``program``: what Python is given before the words, where a test has a variant of the command.
    """

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        *,
        program: Sequence[str] = ("-m", "archsweep"),
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *program, *words],
            cwd=folder,
            env={**environment, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.said: list[str] = []
        # read at once: a process whose pipe is full stands still
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.said.extend(self.process.stdout)

    def status(self) -> int:
        """Its exit status. A process that is held up for ever is killed, which fails the test."""
        try:
            status = self.process.wait(PATIENCE)
        finally:
            self.process.kill()
        self._reader.join()
        return status
