"""Loads networks and checks solvers that a study names; errors say where in the study a name stands."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as ReadOnlyDict
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from costmodel.errors import InputError, NotFoundError
from costmodel.formats.networks import load_network
from costmodel.workload.network import Network
from solvers.catalogue import solver, solver_names
from sweep.study.identity import canonical_json, checked_params
from sweep.study.study import Study


@contextmanager
def named_in(study: Study, key: str, file: str = "") -> Iterator[None]:
    """Within the block, an InputError is made to name the study's file and the ``key`` that it is about.

    ``file``: the file or library entry that the key names, if it names one. An error inside a file that could
    be read says already where it is, and stays as it is; any other says so after the key.
    """
    try:
        yield
    except NotFoundError as error:
        raise error.at(study.where, key) from None
    except InputError as error:
        if file and file in error.where:
            raise
        raise error.at(study.where, f"{key}: {error.where}" if file else key) from None


def network_of(study: Study, position: int) -> Network:
    """The network of the study's entry at ``position``, with the entry's batch and dims."""
    choice, key = study.networks[position], study.network_key(position)
    with named_in(study, key, choice.network):
        try:
            return load_network(choice.network, choice.batch, choice.dims)
        except InputError as error:
            if error.key not in ("batch", "dims"):
                raise
            wrong = error
    # Batch and dims are stated in the study and not in the network's file, so the error names the study.
    raise wrong.at(study.where, key)


def check_different(study: Study) -> None:
    """InputError for two entries that are the same network, one of which may state its default batch.

    Phases have names, by which results tell them apart even where they run the same.
    """
    if study.phases is not None:
        return
    for later, choice in enumerate(study.networks):
        for earlier in range(later):
            if study.networks[earlier].network != choice.network:
                continue
            if network_of(study, earlier) == network_of(study, later):
                found = f"{choice.shown}, which is {study.networks[earlier].shown} again"
                expected, remedy = (
                    "every network once at each batch and dims",
                    "Leave one out and use 'weight'",
                )
                raise InputError(study.where, expected, found, remedy, key=f"networks[{later}]")


def complete_params(study: Study, block: str, family: str, name: str, given: ReadOnlyDict[str, Any]) -> str:
    """The complete parameters, as canonical JSON, of the solver ``name`` that a block of the study names.

    InputError where there is no such solver of the ``family``, or it takes no such parameters.
    """
    with named_in(study, f"{block}.solver"):
        solver(name, family)
    return _complete(study, block, name, given)


def mapping_params(study: Study) -> str:
    """The complete parameters of the study's mapping solver, its tolerance among them."""
    choice = study.mapping
    try:
        return _complete(study, "mapping", choice.solver, choice.solver_params)
    except InputError as error:
        if choice.tolerance is None or error.key != "mapping.params.tolerance":
            raise
        expected = f"no tolerance, for {choice.solver} takes none"
        remedy = "Leave it out, or name a solver that proves bounds: exact or auto"
        raise InputError(study.where, expected, choice.tolerance, remedy, key="mapping.tolerance") from None


def check_maps_unevenly(study: Study) -> None:
    """InputError for uneven mappings of a solver that knows even ones only."""
    choice = study.mapping
    if choice.uneven and not solver(choice.solver).maps_unevenly:
        able = [name for name in solver_names("mapping") if solver(name).maps_unevenly]
        expected = f"a solver that maps unevenly: {' or '.join(able)}"
        raise InputError(study.where, expected, choice.solver, key="mapping.solver")


def _complete(study: Study, block: str, name: str, given: ReadOnlyDict[str, Any]) -> str:
    try:
        return canonical_json(asdict(checked_params(name, given)))
    except InputError as error:
        of_one = not error.key.startswith("params")
        raise error.at(study.where, f"{block}.params" if of_one else block) from None
