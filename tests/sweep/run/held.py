"""``archsweep`` that is held in the middle: at its N-th answer it says so, and waits.

    python held.py N run study.yaml --in-process
    python held.py N,M,hurried run study.yaml --in-process

It waits for a signal, or for a line on standard input, which lets it go on. ``hurried`` is what
`tests.sweep.hurried` does. So a test that does something in the middle of a run needs no solves that take
long, and does not guess how far a run is.
"""

from __future__ import annotations

import signal
import sys

from results.store.schema.rows import AnswerRow
from sweep.blocks.block import BlockTally
from sweep.cli import run as command_line_run
from sweep.cli.main import main
from tests.sweep.hurried import hurry

HELD = "held\n"
"""What it says on standard output."""


class Held(command_line_run.ProgressBar):
    """Shows progress as ever, and waits after each answer of ``at``, which is stored by then.

    Of several answers that come in one block, it waits after the last.
    """

    at: frozenset[int] = frozenset()
    answers = 0

    def answered(self, row: AnswerRow) -> None:
        super().answered(row)
        self.hold(1)

    def block_done(self, tally: BlockTally) -> None:
        super().block_done(tally)
        self.hold(tally.solves)

    def hold(self, answers: int) -> None:
        before, Held.answers = Held.answers, Held.answers + answers
        if any(before < answer <= Held.answers for answer in self.at):
            sys.stdout.write(HELD)
            sys.stdout.flush()
            if not sys.stdin.readline():
                signal.pause()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit none
    words = sys.argv.pop(1).split(",")
    if "hurried" in words:
        words.remove("hurried")
        hurry()
    Held.at = frozenset(map(int, words))
    command_line_run.ProgressBar = Held  # type: ignore[misc]
    main()
