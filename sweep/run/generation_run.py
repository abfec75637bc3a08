"""The run loop of searches that learn, for studies of architectures: one generation after the other.

A generation is handed out in blocks, as a study whose designs are all known is, and the search is told what
came of it before it proposes the next one. The designs of a generation of a genetic sampler do not depend on
each other, so nothing is lost by the wait but the last solves' time.
"""

from __future__ import annotations

from math import ceil

from clusters.pace import FEWEST_A_WORKER
from clusters.runtime import Runtime
from results.store.folder import RunWriter
from results.store.known_answers import StoredAnswers
from results.store.schema.rows import DesignRow
from sweep.blocks.block_work import BlockWork
from sweep.blocks.closing import Closing
from sweep.blocks.open_groups import GroupAnswers
from sweep.design.evaluated_front import EvaluatedFront
from sweep.design.mapping_workload import MappingWorkload
from sweep.design.workload import DesignWorkload
from sweep.run.block_run import BlockRun
from sweep.run.progress.observer import RunObserver
from sweep.search.search import DesignSearch
from sweep.study.designs.design_space import Design, DesignSpace
from sweep.study.designs.design_table import DesignParts, DesignTable
from sweep.study.lock import study_id
from sweep.study.study import Study
from sweep.tasks.mapping import architecture_id


class GenerationRun:
    """Runs a study of architectures whose ``search`` learns, into one run folder.

    ``store`` has the answers of earlier runs; None solves everything. Equal solves of different generations
    are done once: the driver keeps what designs need of every answer.
    """

    def __init__(
        self,
        study: Study,
        space: DesignSpace,
        search: DesignSearch,
        workload: DesignWorkload,
        writer: RunWriter,
        observer: RunObserver | None = None,
        store: StoredAnswers | None = None,
    ) -> None:
        assert isinstance(workload, MappingWorkload), "designs that ask for mappings and nothing else"
        self.study, self.space, self.search, self.workload = study, space, search, workload
        self.writer, self.observer, self.store = writer, observer or RunObserver(), store
        identity = study_id(study)
        self.work = BlockWork.of(study, space, workload, identity, writer.shared())
        """What a runtime for the run does with a block."""
        self._closing = Closing(study, workload, identity)
        self._front = EvaluatedFront(len(study.objectives))
        self._parts: DesignParts | None = None
        self._answered: dict[str, GroupAnswers] = {}
        """By identity of the bare architecture, what became of its solves."""
        if store is not None:
            store.settle(writer.path.name)

    def explore(self, runtime: Runtime) -> None:
        """Run until the search proposes no more; a failed solve makes a failed row and ends nothing.

        Raises WorkersUnavailableError where workers have another version of the code, or lack a module.
        """
        while not self.search.finished:
            rows = self._generation(self._proposed(runtime.workers), runtime)
            # in the order of the proposals: what is proposed next is the same, however fast workers were
            for row in sorted(rows, key=lambda row: -1 if row["trial"] is None else row["trial"]):
                self.search.tell(row)

    def _proposed(self, workers: int) -> list[Design]:
        """The next generation: as large as the search's own, or as keeps the workers busy."""
        enough = ceil(FEWEST_A_WORKER * workers / len(self.workload.solves))
        wanted = max(self.search.generation, enough)
        designs: list[Design] = []
        while len(designs) < wanted and not self.search.finished:
            designs += self.search.ask()
        return designs

    def _generation(self, designs: list[Design], runtime: Runtime) -> list[DesignRow]:
        """Have the rows of these designs made and written."""
        rows: list[DesignRow] = []
        new: list[Design] = []
        for design in designs:
            if not design.feasible:
                rows += self._closing.without_solves([design])
            elif known := self._answered.get(architecture_id(design.architecture)):
                rows += known.rows(self._closing, [design], charged=True)
            else:
                new.append(design)
        for row in rows:
            self.writer.append("designs", row)
            self.observer.designed(row)
            self._front.add_row(self.study, row)
        return rows + (self._solved(new, runtime) if new else [])

    def _solved(self, designs: list[Design], runtime: Runtime) -> list[DesignRow]:
        """Solve what designs of architectures need that were not met before."""
        self._parts = self._parts or DesignParts(designs[0].architecture)
        table = DesignTable.of(self.space, self._parts, designs)
        run = BlockRun(
            self.study,
            table,
            self.workload,
            self.writer,
            self.observer,
            self.store,
            front=self._front,
            learns=True,
            brings_parts=True,
        )
        run.explore(runtime)
        order, begins = table.by_group
        for group, answers in run.answered.items():
            self._answered[architecture_id(table.design(int(order[begins[group]])).architecture)] = answers
        return run.rows
