"""The first of two fidelities: a study's cheaper solver maps every group of designs, by blocks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from clusters.runtime import Runtime
from results.store.folder import RunWriter
from results.store.known_answers import StoredAnswers
from sweep.blocks.block import Block
from sweep.blocks.open_groups import GroupAnswers
from sweep.design.mapping_workload import MappingWorkload
from sweep.design.workload import DesignWorkload
from sweep.run.block_run import BlockRun
from sweep.run.progress.observer import RunObserver
from sweep.study.designs.design_table import DesignTable
from sweep.study.study import Study


class FirstLook(BlockRun):
    """Has the solves of the cheaper solver done and stored; no design gets its row by them.

    ``study`` and ``workload`` are those of the cheaper solver. ``totals``, an array (groups, 2), has the
    energy (pJ) and cycles of each group's designs; infinite where a layer has no answer.
    """

    first_look = True

    def __init__(
        self,
        study: Study,
        table: DesignTable,
        workload: MappingWorkload,
        writer: RunWriter,
        observer: RunObserver | None = None,
        store: StoredAnswers | None = None,
    ) -> None:
        super().__init__(study, table, workload, writer, observer, store, learns=True)
        self.totals = np.full((table.group_count, 2), np.inf)

    def _broken(self) -> Iterator[Block]:
        """None: the run proper makes the rows of designs that break a constraint."""
        return iter(())

    def _group_done(self, group: int, found: GroupAnswers) -> None:
        answers = found.answers
        if answers and all(answer.mapped for answer in answers):
            self.totals[group] = self.workload.sums(
                [(answer.energy_pj, float(answer.cycles)) for answer in answers]
            )


class FidelityRun:
    """Runs a study with a ``fidelity`` into one run folder: the cheaper solver first, then the study's own.

    Whatever the cheaper solver finds, the front is that of mapping every design with the study's own: its
    answers only say which designs come first, and a design is left out by its bounds alone, when one that the
    study's own solver mapped dominates them (:class:`sweep.run.pruning.BoundsPruning` has the proof). Of
    solves that are answered, the answers count instead of their bounds: the design's row would have them.
    """

    def __init__(
        self,
        study: Study,
        table: DesignTable,
        workload: DesignWorkload,
        writer: RunWriter,
        observer: RunObserver | None = None,
        store: StoredAnswers | None = None,
    ) -> None:
        self._run = BlockRun(study, table, workload, writer, observer, store)
        self.work = self._run.work
        """What a runtime for the run does with a block."""
        assert study.first_look is not None
        assert self.work.first is not None
        self._looking = FirstLook(study.first_look, table, self.work.first, writer, observer, store)

    def explore(self, runtime: Runtime) -> None:
        """Run until every design has its row; a failed solve makes a failed row and ends nothing.

        Raises WorkersUnavailableError where workers have another version of the code, or lack a module.
        """
        self._looking.explore(runtime)
        self._run.found = self._looking.totals
        self._run.explore(runtime)
