"""Schedule one network on one chip: a request becomes a study of one design, whose best schedule answers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from costmodel.errors import InputError
from costmodel.formats.chips import load_chip
from costmodel.formats.json.programs import unpacked_program, write_program_file
from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.formats.yaml.file_keys import check_keys
from costmodel.hardware.chip import Chip
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.layer_graph.layer import REDUCED_DIM
from costmodel.schedule.program.program import Work
from results.report.page import write_schedules_page
from results.store.folder import RunFolder
from results.store.schema.chips import PROGRAMS, SCHEDULES, TILE_COSTS
from results.store.schema.rows import ChartLeaf, LeafRow, PartMapping, ProgramRow, ScheduleRow
from results.store.schema.tables import DESIGNS
from solvers.schedule.tiles.layer_parts import TilePart, band_of, channel_pieces, distinct_boxes
from solvers.schedule.tiles.mapper import TilePartCost
from sweep.design.schedule_workload import scheduled_on, whole_chip_offered
from sweep.run.progress.run_tally import RunTally
from sweep.run.session import RuntimeChoice, run_study
from sweep.solve.parameters import check_named_values, solver_params
from sweep.study.lock import study_id
from sweep.study.mapping_space import space_document
from sweep.study.study import Study
from sweep.tasks.chips.schedule_answer import CUT_DIMS
from sweep.tasks.chips.scheduling_costs import tile_part_cost_of

FAMILY = "schedule"
STUDY_NAME = "solve-schedule"
"""Name of the study that a request becomes: all have the same, so that one folder may hold several."""
NO_LEAVES = (
    "the stored answer is of an earlier version, which kept nothing of how each layer runs: "
    "solve it anew in another folder"
)
"""What is said of an answer from the store that has a tree and no leaves."""


@dataclass(frozen=True)
class ScheduleRequest:
    """A chip, a network, and how it is scheduled.

    ``chip`` and ``network`` are names of the library or files. ``schedule`` and ``mapping`` have the keys of
    a study's blocks. ``runtime`` says where solves run. ``output`` is the run folder to keep; None keeps
    none. ``chart`` is the HTML file in which to draw the schedule, ``program`` the JSON file for its program.
    """

    chip: str
    network: str
    schedule: Mapping[str, Any]
    mapping: Mapping[str, Any]
    runtime: RuntimeChoice
    output: Path | None = None
    chart: Path | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    program: Path | None = None

    def study(self) -> Study:
        """The request as a study of one design; InputError, naming the key, for what is wrong with it."""
        check_named_values("dims", self.dims)
        solver_params(self.schedule["solver"], FAMILY, self.schedule["params"])
        document = {
            "name": STUDY_NAME,
            "networks": [{"network": self.network, "dims": dict(self.dims)}],
            "chip": self.chip,
            "objectives": ["energy_pj", "cycles"],
            "schedule": {
                **self.schedule,
                "params": dict(self.schedule["params"]),
                "programs": self.program is not None,
            },
            "mapping": dict(self.mapping),
        }
        return check_keys(Study, document, "solve schedule")

    def solved(self, tally: RunTally) -> ScheduleAnswer:
        """The best schedule of all seeds; ``tally`` watches the run, and adds up its CPU seconds.

        Where none was found the answer has no tree, and its note says why.
        """
        study = self.study()
        with _folder(self.output) as path:
            folder = run_study(study, path, self.runtime, observer=tally)
            if self.chart:
                write_schedules_page(folder.path, self.chart)
            graph, whole_chip = _scheduled(self, study)
            answer, best = _answer(folder, study, _asked(self, study, whole_chip), tally)
            if answer.tree is None:
                return answer
            if answer.leaves is None:
                if self.program:
                    raise InputError("--program", "an answer that says how each layer runs", NO_LEAVES)
                return replace(answer, note=f"{answer.note}. {NO_LEAVES}" if answer.note else NO_LEAVES)
            answer = replace(answer, leaves=_with_mappings(answer.leaves, folder, best, graph))
            if self.program:
                network = best.get("network") or ""
                program = _program(folder, best)
                _write_program(self.program, program, network, load_chip(self.chip), answer.leaves or [])
            return answer


@dataclass(frozen=True)
class ScheduleAnswer:
    """The best schedule that a solver found for one network on one chip, with its proof.

    ``objective`` is the schedule's E^n D^m, with its energy E in pJ and its delay D in cycles; n and m follow
    from ``objective_name`` (``edp``: E D). ``bound`` is a proven lower bound on it for every schedule.
    ``energy_pj`` and ``cycles`` are of the whole batch; ``dram_bytes`` cross the DRAM's interface;
    ``noc_hop_bytes`` are bytes times links on the mesh. ``tree`` is the schedule as a resource-allocation
    tree in text. It is None, and so are all costs, where no schedule was found; ``note`` says why.
    ``spatial_temporal`` holds rectangles of tiles and cycles for a chart, ``leaves`` how each layer runs,
    ``seeds`` the answer of each seed.
    ``cpu_seconds`` are those of the search, ``tile_cpu_seconds`` those of mapping layers. ``asked`` holds
    what is needed, beside the tree, to count the schedule again.
    """

    asked: Mapping[str, Any]
    status: str | None
    objective: float | None
    bound: float | None
    gap: float | None
    energy_pj: float | None
    cycles: int | None
    dram_bytes: int | None
    noc_hop_bytes: float | None
    objective_name: str | None
    utilization: float | None
    energy_by_part_pj: Mapping[str, float] | None
    tree: str | None
    spatial_temporal: list[ChartLeaf] | None
    leaves: list[LeafRow] | None
    search: list[Mapping[str, Any]] | None
    seeds: tuple[ScheduleRow, ...]
    note: str
    cpu_seconds: float
    tile_cpu_seconds: float

    def to_json(self) -> dict[str, Any]:
        """The JSON object that ``archsweep solve schedule --json`` prints, and ``evaluate`` reads."""
        own = asdict(self)
        asked: dict[str, Any] = own.pop("asked")
        return asked | own | {"seeds": list(own["seeds"])}


@contextmanager
def _folder(output: Path | None) -> Iterator[Path]:
    """The run folder; without ``output`` a temporary one, which is removed after the block."""
    if output is not None:
        yield output
        return
    with tempfile.TemporaryDirectory(prefix="archsweep-") as scratch:
        yield Path(scratch) / "schedule"


def _scheduled(request: ScheduleRequest, study: Study) -> tuple[LayerGraph, bool]:
    """The network as the chip's schedules have it, and whether its layers may have the whole chip."""
    graph = load_layer_graph(request.network, request.dims)
    return scheduled_on(load_chip(request.chip), graph, whole_chip_offered(study))


def _with_mappings(
    leaves: Sequence[LeafRow],
    folder: RunFolder,
    row: ScheduleRow,
    graph: LayerGraph,
) -> list[LeafRow]:
    """The leaves of a schedule with what tiles do with their parts, from the run's tile costs.

    ``graph``: the network as it was scheduled, with the layers that leaves are named after.
    """
    source = (row.get("tile_mapper") or {}).get("source_id")
    known: dict[TilePart, TilePartCost | None] = {}
    for costs in folder.read_rows(TILE_COSTS):
        # The folder may hold tile costs of other solvers and objectives: those of this schedule only.
        if costs["source_id"] == source:
            for part, *numbers in costs.get("costs") or ():
                known[TilePart(*part)] = tile_part_cost_of(*numbers)
    found: list[LeafRow] = []
    for leaf in leaves:
        parts, mappings = leaf.get("parts"), list[PartMapping]()
        layer = graph.layers[graph.index[leaf["layer"]]]
        if parts and layer.has_weights:
            k, n, p, q = (parts[dim] for dim in CUT_DIMS)
            k *= leaf.get("slices", 1)  # a slice of a tile's part is mapped by itself
            bands = dict.fromkeys(leaf.get("bands", [layer.h]))
            boxes = [
                box
                for rows in bands
                for box, _ in distinct_boxes(band_of(layer, rows).sizes(leaf["samples"]), (k, n, p, q))
            ]
            reduced = parts.get(REDUCED_DIM, 1)
            pieces = channel_pieces(layer, reduced) if reduced > 1 else [(layer, 1)]
            for box, (piece, _) in product(boxes, pieces):
                cost = known.get(TilePart.of_outputs(piece, box))
                if cost and cost.mapping:
                    lengths = dict(zip(CUT_DIMS, box, strict=True))
                    if reduced > 1:
                        lengths[REDUCED_DIM] = piece.c
                    mappings.append({"part": lengths, "mapping": cost.mapping})
        found.append({**leaf, "mappings": mappings})
    return found


def _mapped(work: Work, leaves: Mapping[str, LeafRow]) -> Work:
    """A work with the mapping of the tile; its nest begins with N, K, P, Q and the input channels."""
    if work.adds:
        return work
    n, k, p, q, c = (end - first for first, end in work.box[:5])
    part = dict(zip(CUT_DIMS, (k, n, p, q), strict=True))
    if REDUCED_DIM in leaves[work.layer].get("parts", {}):
        part[REDUCED_DIM] = c
    mappings = leaves[work.layer].get("mappings", ())
    return replace(work, mapping=next((one["mapping"] for one in mappings if one["part"] == part), ""))


def _program(folder: RunFolder, schedule: ScheduleRow) -> str:
    """The packed program of a schedule; InputError where it has none, with the reason."""
    rows = folder.read_rows(PROGRAMS)
    found: ProgramRow = {}
    for row in rows:
        if row["schedule_id"] == schedule["task_id"] and row["tree"] == schedule.get("tree"):
            found = row
    if packed := found.get("program"):
        return packed
    reason = found.get("no_program") or found.get("error") or f"none in {folder.path}"
    remedy = "The same command tries it again"
    if found.get("status") == "unknown":
        remedy = "A larger --wall-seconds gives the writing as much time as the search"
    elif found.get("no_program"):
        remedy = "--no-whole-chip keeps layers from being mapped on the whole chip"
    raise InputError("--program", "a schedule with a program", reason, remedy)


def _write_program(path: Path, packed: str, network: str, chip: Chip, leaves: Sequence[LeafRow]) -> None:
    """Write a program that is packed as text into a file.

    It has the numbers of ``chip`` without its names and clock, and no name of the ``network``.
    """
    program = unpacked_program(packed)
    by_layer = {leaf["layer"]: leaf for leaf in leaves}
    works = tuple(_mapped(work, by_layer) for work in program.works)
    program = replace(program, network=network, chip=chip, works=works)
    try:
        write_program_file(path, program)
    except OSError as error:
        found = f"{path}: {error.strerror or error}"
        raise InputError("--program", "a file that can be written", found) from None


def _answer(
    folder: RunFolder, study: Study, asked: Mapping[str, Any], tally: RunTally
) -> tuple[ScheduleAnswer, ScheduleRow]:
    """The best seed's answer with its row, from the one design of this study.

    The folder may hold earlier requests' answers. ``asked`` is what costs a tree depends on.
    """
    identity = study_id(study)
    (design,) = (row for row in folder.read_rows(DESIGNS) if row["study_id"] == identity)
    rows = {row["task_id"]: row for row in folder.read_rows(SCHEDULES)}
    (network,) = design["networks"].values()
    best: ScheduleRow = rows[network["schedule"]] if "schedule" in network else {}
    answer = ScheduleAnswer(
        asked=asked,
        status=best.get("status"),
        objective=best.get("objective"),
        bound=best.get("bound"),
        gap=best.get("gap"),
        energy_pj=best.get("energy_pj"),
        cycles=best.get("cycles"),
        dram_bytes=best.get("dram_bytes"),
        noc_hop_bytes=best.get("noc_hop_bytes"),
        objective_name=best.get("objective_name"),
        utilization=best.get("utilization"),
        energy_by_part_pj=best.get("energy_by_part_pj"),
        tree=best.get("tree"),
        spatial_temporal=best.get("spatial_temporal"),
        leaves=best.get("leaves"),
        search=best.get("search"),
        seeds=tuple(_seed(rows[task_id]) for task_id in network["seeds"]),
        note=design["note"] or design["error"] or best.get("note") or "",
        cpu_seconds=tally.schedule_cpu_seconds,
        tile_cpu_seconds=tally.layer_cpu_seconds,
    )
    return answer, best


def _seed(row: ScheduleRow) -> ScheduleRow:
    """What an answer says of each seed."""
    return {
        "seed": row["seed"],
        "status": row["status"],
        "objective": row["objective"],
        "gap": row["gap"],
        "energy_pj": row["energy_pj"],
        "cycles": row["cycles"],
        "cpu_seconds": row["cpu_seconds"],
        "error": row["error"],
    }


def _asked(request: ScheduleRequest, study: Study, whole_chip: bool) -> dict[str, Any]:
    """What costs a tree depends on, with the defaults filled in."""
    assert study.schedule is not None
    return {
        "chip": request.chip,
        "network": request.network,
        **({"dims": dict(request.dims)} if request.dims else {}),
        "batch": study.schedule.batch,
        "tile_solver": study.mapping.solver,
        "tile_objective": study.mapping_objective,
        "tile_seconds": study.mapping.wall_seconds,
        "most_partitions": study.schedule.pruning(study.mapping.solver).most,
        "whole_chip": whole_chip,
        **({"share_weights": True} if study.schedule.share_weights else {}),
        **({"fused_groups": True} if study.schedule.fused_groups else {}),
        **({"tile_space": space} if (space := space_document(study.mapping)) else {}),
    }
