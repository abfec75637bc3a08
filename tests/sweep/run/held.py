"""``archsweep`` that is ended in the middle: at its N-th answer it says so, and waits for a signal.

    python held.py N run study.yaml --in-process

So a test that ends a run needs no solves that take long, and does not guess how far a run is.
"""

from __future__ import annotations

import signal
import sys
from typing import Any

from sweep.cli import run as command_line_run
from sweep.cli.main import main

HELD = "held\n"
"""What it says on standard output."""


class Held(command_line_run.ProgressBar):
    """Shows progress as ever, up to the N-th answer, which is stored by then."""

    left = 0

    def answered(self, row: dict[str, Any]) -> None:
        super().answered(row)
        Held.left -= 1
        if Held.left == 0:
            sys.stdout.write(HELD)
            sys.stdout.flush()
            signal.pause()


if __name__ == "__main__":
    Held.left = int(sys.argv.pop(1))
    command_line_run.ProgressBar = Held  # type: ignore[misc]
    main()
