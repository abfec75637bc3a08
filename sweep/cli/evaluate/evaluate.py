"""What ``archsweep evaluate`` and ``list`` do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costmodel.errors import InputError
from costmodel.formats.architectures import architecture_names, load_architecture
from costmodel.formats.cases.folder import Case, evaluated_line, read_cases
from costmodel.formats.chips import chip_names, load_chip
from costmodel.formats.directives.mapping_file import SUFFIX, read_mapping_directives
from costmodel.formats.layer_graphs import layer_graph_names, load_layer_graph
from costmodel.formats.networks import load_layer, load_layer_for, load_network
from costmodel.formats.operator_networks import configured_names, exported_names, network_names
from costmodel.formats.technologies import load_technology, technology_names
from costmodel.formats.timeloop.case import read_timeloop_case
from costmodel.mapping.mapping import violations as mapping_violations
from costmodel.plug_ins import ARCHITECTURES, NETWORKS, TECHNOLOGIES, origin_of
from costmodel.workload.network import distinct_layers
from results.store.schema.tables import schema_markdown
from solvers.catalogue import entries
from solvers.mapping.problem import MappingProblem, violations
from solvers.mapping.space.rules import SpaceRules
from sweep.cli.evaluate.files import FILE_KINDS, print_all
from sweep.study.designs.hardware import mapped_on
from sweep.study.study import load_study, study_names
from sweep.study.timeloop_space import level_rules


@dataclass(frozen=True)
class EvaluateRequest:
    """``archsweep evaluate``'s arguments: cases of the reference, or one mapping.

    A mapping is Timeloop's files together, or a file of directives. ``architecture`` and ``layer`` are those
    of directives, and stand in for Timeloop files without those sections; empty: none.
    """

    paths: tuple[Path, ...]
    architecture: str = ""
    layer: str = ""

    @property
    def of_timeloop(self) -> bool:
        """Whether the files are Timeloop's own, one mapping together."""
        return any(path.suffix in (".yaml", ".yml") for path in self.paths)

    def cases(self) -> Iterator[Case]:
        """The cases; InputError for a mapping that Timeloop's own constraints do not allow."""
        if self.of_timeloop:
            yield self._timeloop_case()
            return
        if any(path.suffix == SUFFIX for path in self.paths):
            yield self._case_of_directives()
            return
        if self.architecture or self.layer:
            given = "--architecture" if self.architecture else "--layer"
            raise InputError(
                given, f"Timeloop files (.yaml) or directives ({SUFFIX}) to go with", str(self.paths[0])
            )
        for path in self.paths:
            yield from read_cases(path)

    def _case_of_directives(self) -> Case:
        """The one file's mapping of ``layer`` on ``architecture``, which directives do not say."""
        if len(self.paths) != 1:
            raise InputError("evaluate", f"one file of directives ({SUFFIX})", f"{len(self.paths)} files")
        (path,) = self.paths
        for option, stated in (("--architecture", self.architecture), ("--layer", self.layer)):
            if not stated:
                raise InputError(str(path), f"{option} with a file of directives", "none")
        architecture = load_architecture(self.architecture)
        layer = load_layer_for(architecture, self.layer)
        mapping = read_mapping_directives(path, architecture, layer)
        if reasons := mapping_violations(architecture, layer, mapping):
            raise InputError(str(path), "a mapping without violations", "; ".join(reasons))
        return Case(path.stem, architecture, layer, mapping, str(path), {})

    def _timeloop_case(self) -> Case:
        architecture = load_architecture(self.architecture) if self.architecture else None
        case, constraints = read_timeloop_case(
            self.paths, architecture, load_layer(self.layer) if self.layer else None
        )
        # any bypass, as a stated mapping need not keep all that fits: only Timeloop's constraints are asked
        rules = SpaceRules("free", level_rules(constraints))
        if broken := violations(MappingProblem(case.architecture, case.layer, "edp", rules), case.mapping):
            expected = "a mapping that the constraints allow"
            raise InputError(case.where, expected, "; ".join(broken), key="mapping")
        return case


def evaluate_cases(request: EvaluateRequest, as_json: bool) -> None:
    """One line a case, RA tree, scheme of nn-dataflow or schedule, in the order of the files."""
    for kind in FILE_KINDS:
        if found := [path for path in request.paths if kind.knows(path)]:
            if mixed := [str(path) for path in request.paths if path not in found]:
                raise InputError("evaluate", f"files of {kind.what} or of mappings, not both", mixed[0])
            print_all(kind, found, as_json)
            return
    none = True
    for case in request.cases():
        none = False
        line = evaluated_line(case)
        if as_json:
            print(json.dumps(line), flush=True)
        else:
            print(f"{line['id']}  {line['cycles']} cycles  {line['energy_pj']:.6g} pJ", flush=True)
            if request.of_timeloop:
                print_rows(list(_accesses(line)))
    if none:
        raise InputError(", ".join(map(str, request.paths)), "at least one case", "none")


def _accesses(line: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Reads, fills and updates of each instance, as Timeloop's statistics have them."""
    for level in line["levels"]:
        for tensor, counts in level["tensors"].items():
            yield {"level": level["name"], "tensor": tensor, **counts}


def listing(what: str) -> list[dict[str, Any]]:
    """The rows of ``archsweep list WHAT``."""
    kinds: dict[str, Callable[[], Iterable[dict[str, Any]]]] = {
        "solvers": _solvers,
        "networks": _networks,
        "architectures": _architectures,
        "technologies": _technologies,
        "chips": _chips,
        "chip-networks": _chip_networks,
        "studies": _studies,
    }
    if what not in kinds:
        raise InputError(
            "list", f"one of {', '.join(kinds)}, layers/NETWORK, schema or json-schema/KIND", what
        )
    return list(kinds[what]())


def print_rows(rows: Sequence[dict[str, Any]]) -> None:
    """Print columns under their names, each as wide as its longest value; the last one needs no width."""
    table = [list(map(str, row)) for row in (rows[0], *(row.values() for row in rows))] if rows else []
    widths = [max(map(len, column)) for column in zip(*table, strict=True)][:-1]
    for row in table:
        print("  ".join([*(f"{text:{width}}" for text, width in zip(row, widths, strict=False)), row[-1]]))


def print_schema() -> None:
    print(schema_markdown())


def _solvers() -> Iterable[dict[str, Any]]:
    for entry in entries():
        yield {
            "name": entry.name,
            "family": entry.family,
            "proves_optimality": entry.proves_optimality,
            "from": entry.origin,
            "description": entry.description,
        }


def _networks() -> Iterable[dict[str, Any]]:
    origins = {name: origin_of(NETWORKS, name) for name in network_names()}
    ours = dict.fromkeys((*configured_names(), *exported_names()), "archsweep")
    for name, origin in (origins | ours).items():
        network = load_network(name)
        distinct = len(distinct_layers(network.layers))
        counts = {"layers": len(network.layers), "distinct": distinct, "macs": network.macs}
        yield {"name": name} | counts | {"from": origin}


def _architectures() -> Iterable[dict[str, Any]]:
    for name in architecture_names():
        architecture = load_architecture(name)
        levels = " > ".join(level.name for level in reversed(architecture.levels))
        origin = origin_of(ARCHITECTURES, name)
        yield {"name": name, "mac_units": architecture.mac_units, "from": origin, "levels": levels}


def _technologies() -> Iterable[dict[str, Any]]:
    for name in technology_names():
        table = load_technology(name)
        origin = origin_of(TECHNOLOGIES, name)
        yield {
            "name": name,
            "word_bits": table.word_bits,
            "from": origin,
            "description": table.description,
        }


def _chips() -> Iterable[dict[str, Any]]:
    for name in chip_names():
        chip = load_chip(name)
        tile = mapped_on(chip)
        yield {
            "name": name,
            "mesh": f"{chip.columns}x{chip.rows}",
            "tile": tile.name,
            "tile_mac_units": tile.mac_units,
            "tile_buffer_bytes": chip.tile.buffer.size_bytes,
            "dram_bytes_per_cycle": chip.dram.bytes_per_cycle,
        }


def _chip_networks() -> Iterable[dict[str, Any]]:
    """The library's networks whose operators can all be scheduled on a chip."""
    for name in layer_graph_names():
        try:
            graph = load_layer_graph(name)
        except InputError:  # it has an operator that cannot be scheduled, so it is not listed
            continue
        macs = sum(layer.operations for layer in graph.layers if layer.has_weights)
        yield {"name": name, "layers": len(graph.layers), "macs": macs}


def _studies() -> Iterable[dict[str, Any]]:
    for name in study_names():
        yield {"name": name, "description": load_study(name).description.strip()}
