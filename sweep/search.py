"""How designs are proposed: every one of the grid, or a random sample."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.errors import InputError
from sweep.space import Constraint, Design, DesignSpace
from sweep.study import GridSearch, Study


def design_space(study: Study) -> DesignSpace:
    constraints = tuple(Constraint.parse(text) for text in study.constraints)
    return DesignSpace(study.architecture, study.axis_values(), constraints)


def designs(study: Study) -> Iterator[Design]:
    """The designs that the study's search looks at, each one once, infeasible ones included."""
    space = design_space(study)
    if isinstance(study.search, GridSearch):
        return space.grid()
    return space.sample(study.search.samples, study.search.seed)


def check_feasible(study: Study, proposed: list[Design]) -> None:
    """Raises InputError when no proposed design meets the study's constraints, with how near they come."""
    if any(design.feasible for design in proposed):
        return
    for constraint in design_space(study).constraints:
        values = [constraint.value(design.architecture) for design in proposed]
        if not any(constraint.holds(design.architecture) for design in proposed):
            raise InputError(
                f"study {study.name}",
                f"a constraint that some design meets: {constraint}",
                f"{constraint.quantity} from {min(values):g} to {max(values):g}",
                "Relax the constraint or widen the axes.",
                key="constraints",
            )
    raise InputError(
        f"study {study.name}",
        "constraints that some design meets together",
        f"none of {len(proposed)} designs does",
        "Relax a constraint or widen the axes.",
        key="constraints",
    )
