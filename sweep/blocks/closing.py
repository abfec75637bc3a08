"""The rows of designs whose solves are all answered, without a ledger: equal designs come together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from results.store.schema.rows import DesignRow
from sweep.blocks.block import Reason
from sweep.design.design_row import (
    DesignIdentity,
    broken_row,
    design_row,
    dominated_row,
    infeasible_row,
)
from sweep.design.mapping_workload import MappingWorkload
from sweep.study.designs.design_space import Design
from sweep.study.study import Study
from sweep.tasks.energy_cycles import EnergyCycles
from sweep.tasks.summaries import MappingSummary


class Closing:
    """Makes the rows of designs of a study."""

    def __init__(self, study: Study, workload: MappingWorkload, study_id: str) -> None:
        self.study, self.workload, self._study_id = study, workload, study_id
        self._identity = DesignIdentity.of(study)

    def rows(
        self,
        designs: Iterable[Design],
        ids: Sequence[str],
        answers: Sequence[MappingSummary],
        *,
        charged: bool = False,
    ) -> list[DesignRow]:
        """The rows of the designs of a group, whose solves have these ``ids`` and ``answers``.

        The first design has the CPU time: the others did not need any. It has none either where another
        design is ``charged`` with it already.
        """
        of_demand = self.workload.solve_of_demand
        task_ids, summaries = [ids[n] for n in of_demand], [answers[n] for n in of_demand]
        cached = sum(answer.cached for answer in answers)
        failures = sum(answer.status == "failed" for answer in answers)
        spent = sum(answer.cpu_seconds for answer in answers if not answer.cached)
        rows: list[DesignRow] = []
        for design in designs:
            effort: DesignRow = {
                "solves": len(ids),
                "cached_solves": cached,
                "failures": failures,
                "cpu_seconds": 0.0 if rows or charged else spent,
            }
            found = self.workload.results(design, task_ids, summaries)
            rows.append(self._of_study(design_row(self.study, design, self._identity) | effort | found))
        return rows

    def without_solves(self, designs: Iterable[Design], obstacle: str = "") -> list[DesignRow]:
        """The rows of designs that break a constraint or, for an ``obstacle``, have no mapping of a layer."""
        if obstacle:
            rows = [infeasible_row(self.study, design, obstacle, self._identity) for design in designs]
        else:
            rows = [design_row(self.study, design, self._identity) for design in designs]
        return [self._of_study(row) for row in rows]

    def discarded(
        self,
        designs: Iterable[Design],
        bounds: EnergyCycles,
        reasons: Sequence[Reason],
        *,
        least: EnergyCycles | None = None,
        answers: Sequence[MappingSummary] = (),
    ) -> list[DesignRow]:
        """The rows of the designs of a group that has these ``bounds``.

        ``reasons``: of each design, why it is not solved. ``answers``: to those of the solves that were done
        before that was known; ``least``: what energy and cycles come to with them.
        """
        spent = sum(answer.cpu_seconds for answer in answers if not answer.cached)
        rows: list[DesignRow] = []
        for design, why in zip(designs, reasons, strict=True):
            if isinstance(why, str):
                row = broken_row(self.study, design, why, bounds, self._identity)
            else:
                row = dominated_row(self.study, design, bounds, why, self._identity, least=least)
            if answers:
                row |= {
                    "solves": len(answers),
                    "cached_solves": sum(answer.cached for answer in answers),
                    "cpu_seconds": 0.0 if rows else spent,
                }
            rows.append(self._of_study(row))
        return rows

    def _of_study(self, row: DesignRow) -> DesignRow:
        return row | {"study_id": self._study_id}
