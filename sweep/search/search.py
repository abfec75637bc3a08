"""How designs are proposed: all of the grid, a random sample, or one by one, led by earlier answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.chips import load_chip
from results.store.schema.rows import DesignRow
from sweep.design.mapping_workload import layer_demands
from sweep.study.designs.design_space import Constraint, Design, DesignSpace
from sweep.study.designs.design_table import DesignTable, design_tables
from sweep.study.search_choice import GridSearch, OptunaSearch, RandomSearch
from sweep.study.study import Study

if TYPE_CHECKING:
    from sweep.search.warm_start import RelaxedStart

DESIGNS_PER_ASK = 64
"""Designs of a fixed list in one answer to ``ask``: the store is read once for all of them."""

LOOKED_AT = 1000
"""Random designs that a plan of an Optuna search draws to find some that meet the constraints."""


class DesignSearch(Protocol):
    """Proposes designs and is told the row of each: ask and tell, in the driver, in one thread."""

    @property
    def learns(self) -> bool:
        """Whether proposals depend on the rows told: then a caller asks no further ahead than it needs."""

    @property
    def generation(self) -> int:
        """How many designs it proposes without need of any other's row; 1 where each row helps the next."""

    @property
    def finished(self) -> bool:
        """Whether there is nothing more to ask for."""

    def ask(self) -> list[Design]:
        """The next designs, each once, infeasible ones included; none only when finished."""

    def tell(self, row: DesignRow) -> None:
        """Take in the ``designs`` row of a design that was asked for."""


class ListedDesigns:
    """A search over a fixed list of designs: what is found changes nothing."""

    learns = False
    generation = DESIGNS_PER_ASK

    def __init__(self, designs: Iterable[Design]) -> None:
        self._left = iter(designs)
        self.finished = False

    def ask(self) -> list[Design]:
        batch = list(islice(self._left, DESIGNS_PER_ASK))
        self.finished = len(batch) < DESIGNS_PER_ASK
        return batch

    def tell(self, row: DesignRow) -> None:
        """Ignore the row."""


def search_of(study: Study, journal: Path | None = None) -> DesignSearch:
    """The study's search; an Optuna search goes on from its ``journal``. None: it keeps none."""
    if isinstance(study.search, OptunaSearch):
        from sweep.search.optuna_search import OptunaProposals

        start = warm_start(study)
        return OptunaProposals(study, design_space(study), journal, start.points if start else list)
    return ListedDesigns(designs(study))


def warm_start(study: Study) -> RelaxedStart | None:
    """The warm start of an Optuna search; None for a study without one.

    Raises InputError where the family does not allow the one that the study wants.
    """
    if not (isinstance(study.search, OptunaSearch) and study.search.warm_start):
        return None
    from sweep.search.warm_start import RelaxedStart

    return RelaxedStart(study, design_space(study), layer_demands(study))


def design_space(study: Study) -> DesignSpace:
    constraints = tuple(one for one in study.all_constraints if not one.of_results)
    load = load_chip if study.chip else load_architecture
    return DesignSpace(
        study.base, study.axis_values(), constraints, study.baseline, load, study.where, study.of_all_designs
    )


def designs(study: Study) -> Iterator[Design]:
    """The designs that a grid or random search looks at, each once, the baseline first.

    Which designs an Optuna search will propose is not known. For its plan they are as many random ones; of
    those drawn, designs that meet the constraints come first, because samplers soon propose few others.
    """
    space = design_space(study)
    if isinstance(study.search, GridSearch):
        family = space.grid()
    elif isinstance(study.search, RandomSearch):
        family = space.sample(study.search.samples, study.search.seed)
    else:
        # Only for a plan: no run takes its designs from here.
        family = islice(_feasible_first(space, study.search), study.search.trials)
    baseline = space.baseline_design()
    if baseline is None:
        return family
    # First, so that whatever compares with it has it from the start, and only once.
    return chain([baseline], (design for design in family if not design.baseline))


def listed(study: Study) -> Iterator[DesignTable]:
    """The same designs as columns, of a study of architectures whose search lists them: see design_tables."""
    assert not isinstance(study.search, OptunaSearch)
    return design_tables(design_space(study), study.search)


def _feasible_first(space: DesignSpace, search: OptunaSearch) -> Iterator[Design]:
    """Random designs, at least LOOKED_AT if there are so many: first those that meet the constraints."""

    def drawn(feasible: bool) -> Iterator[Design]:
        family = space.sample(max(search.trials, LOOKED_AT), search.seed)
        return (design for design in family if design.feasible == feasible)

    return chain(drawn(feasible=True), drawn(feasible=False))


def check_feasible(study: Study) -> None:
    """Raises InputError where no design meets the constraints; it names the values that designs reach.

    Of an Optuna search LOOKED_AT random designs are tried, of any other search all of its designs.
    """
    space, search = design_space(study), study.search
    random = space.sample(LOOKED_AT, search.seed) if isinstance(search, OptunaSearch) else None
    met = dict.fromkeys(space.constraints, False)
    ranges: dict[Constraint, tuple[float, float]] = {}
    count = 0
    for design in random or designs(study):
        if design.feasible:
            return
        count += 1
        for constraint in space.constraints:
            value = constraint.value(design.hardware)
            least, most = ranges.get(constraint, (value, value))
            ranges[constraint] = min(least, value), max(most, value)
            met[constraint] |= constraint.holds(design.hardware)
    for constraint, (least, most) in ranges.items():
        if not met[constraint]:
            raise InputError(
                study.where,
                f"a constraint that some design meets: {constraint}",
                f"{constraint.quantity} from {least:g} to {most:g}",
                "Relax the constraint or widen the axes.",
                key="constraints",
            )
    raise InputError(
        study.where,
        "constraints that some design meets together",
        f"none of {count:,} designs does",
        "Relax a constraint or widen the axes.",
        key="constraints",
    )
