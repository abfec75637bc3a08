"""What a run says while it goes on."""

from __future__ import annotations

from results.store.schema.rows import AnswerRow, DesignRow
from sweep.blocks.block import BlockTally
from sweep.forecast.plan import StudyPlan


class RunObserver:
    """Watches a run and does nothing: the base of the progress bar, of logs, of tests."""

    def counted(self, done: int, total: int) -> None:
        """``done`` of ``total`` designs are counted; called while the study is planned, before the run."""

    def planned(self, plan: StudyPlan) -> None:
        """The run is about to start; ``plan`` says how many solves are open."""

    def answered(self, row: AnswerRow) -> None:
        """One task has its answer, ``row``; a stored one may lack columns that no design needs."""

    def block_done(self, tally: BlockTally) -> None:
        """Solves and designs of a block are done; in runs by blocks this is all that is said of them."""

    def asked(self, solves: int) -> None:
        """Solvers asked for costs that take ``solves`` more solves, which no plan could count."""

    def designed(self, row: DesignRow) -> None:
        """One design has its row."""

    def judged_again(self, row: DesignRow, before: str) -> None:
        """A design whose status was ``before`` has a new row, as siblings' trees were costed on its chip."""
