"""What the cheaper solver of ``search.fidelity`` is asked before the study's own."""

from __future__ import annotations

from costmodel.errors import InputError
from sweep.design.mapping_workload import LayerDemand, MappingWorkload
from sweep.study.study import Study


def first_look_workload(study: Study, demands: tuple[LayerDemand, ...]) -> MappingWorkload | None:
    """The same layers, mapped by the cheaper solver; None for a study without one.

    Raises InputError for a solver that there is not, and for parameters that it does not take.
    """
    first = study.first_look
    if first is None:
        return None
    try:
        return MappingWorkload(first, demands)
    except InputError as error:
        # the study's own block `mapping` was found right before: what is wrong now is of the cheaper solver
        if error.where != study.where or not error.key.startswith("mapping."):
            raise
        key = error.key.replace("mapping.", "search.fidelity.", 1)
        raise InputError(error.where, error.expected, error.found, error.remedy, key=key) from None
