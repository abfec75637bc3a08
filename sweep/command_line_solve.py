"""What ``archsweep evaluate`` and ``list`` do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from costmodel.architectures import architecture_names, load_architecture
from costmodel.errors import InputError
from costmodel.frontends.timeloop_reference import evaluated_line, read_cases
from costmodel.networks import load_network, network_names
from costmodel.workload import distinct_layers
from results.schema import schema_markdown
from solvers.catalogue import CATALOGUE
from sweep.study import load_study, study_names


def evaluate_cases(path: Path, as_json: bool) -> None:
    """One line a case, in the order of the files."""
    for case in read_cases(path):
        line = evaluated_line(case)
        if as_json:
            print(json.dumps(line), flush=True)
        else:
            print(f"{line['id']}  {line['cycles']} cycles  {line['energy_pj']:.6g} pJ", flush=True)


def listing(what: str) -> list[dict[str, Any]]:
    """The rows of ``archsweep list WHAT``."""
    kinds: dict[str, Callable[[], Iterable[dict[str, Any]]]] = {
        "solvers": _solvers,
        "networks": _networks,
        "architectures": _architectures,
        "studies": _studies,
    }
    if what.startswith("layers/"):
        return list(_layers(what.removeprefix("layers/")))
    if what not in kinds:
        raise InputError("list", f"one of {', '.join(kinds)}, layers/NETWORK or schema", what)
    return list(kinds[what]())


def print_schema() -> None:
    print(schema_markdown())


def _solvers() -> Iterable[dict[str, Any]]:
    for entry in CATALOGUE:
        yield {"name": entry.name, "family": entry.family, "description": entry.description}


def _networks() -> Iterable[dict[str, Any]]:
    for name in network_names():
        network = load_network(name)
        distinct = len(distinct_layers(network.layers))
        yield {"name": name, "layers": len(network.layers), "distinct": distinct, "macs": network.macs}


def _architectures() -> Iterable[dict[str, Any]]:
    for name in architecture_names():
        architecture = load_architecture(name)
        levels = " > ".join(level.name for level in reversed(architecture.levels))
        yield {"name": name, "mac_units": architecture.mac_units, "levels": levels}


def _studies() -> Iterable[dict[str, Any]]:
    for name in study_names():
        yield {"name": name, "description": load_study(name).description}


def _layers(network: str) -> Iterable[dict[str, Any]]:
    for layer, count in distinct_layers(load_network(network).layers):
        sizes = " ".join(f"{dim}={size}" for dim, size in layer.dims)
        yield {"name": f"{network}/{layer.name}", "count": count, "dims": sizes}
