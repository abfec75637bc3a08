"""Rows of the result tables as types: what workers send back, what is appended, and what readers get.

Rows are typed dictionaries, for a worker's part travels as plain data and the store's readers make plain
dictionaries of Parquet rows. Their keys are the columns of the tables in ``tables.py``, which a test holds.
A row may lack keys: a worker leaves out what its solve did not find, and a reader gives the columns that were
asked for. A stored row has null where its writer gave nothing, so most columns may be None.

``Any`` stands for a whole JSON document, whose form its own module describes: a mapping, a plan, a chip.

Columns are grouped by who decides them. ``...Columns`` are what a worker sends back, ``AskedColumns`` what
its task says of the question; a ``...Row`` has both and what the driver adds (study, attempts, whether it was
cached). ``...Column`` and ``...Entry`` are the values inside one JSON column.
"""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from datetime import datetime
from typing import Any, NotRequired, TypedDict


class SolveColumns(TypedDict, total=False):
    """The columns that a solve of any kind decides: how it ended, and the CPU and wall seconds it took."""

    status: str
    cpu_seconds: float | None
    wall_seconds: float | None
    note: str | None


class ProofColumns(SolveColumns, total=False):
    """The columns that a solve with one objective decides: what was found, and the proven bound on it."""

    objective: float | None
    bound: float | None
    gap: float | None


class MappingColumns(ProofColumns, total=False):
    """What a mapping solve decides: energies in pJ, bounds on energy and cycles whatever was minimised."""

    energy_bound_pj: float | None
    cycles_bound: float | None
    program_proven: bool | None
    solved_by: str | None
    space: dict[str, Any] | None
    energy_pj: float | None
    cycles: int | None
    edp_pj_cycles: float | None
    utilization: float | None
    useful_utilization: float | None
    energy_by_level_pj: dict[str, float] | None
    mapping: dict[str, Any] | None
    compute_cycles: int | None
    bound_by: str | None
    cycles_without: dict[str, int] | None
    levels: list[LevelColumn] | None


class TensorColumn(TypedDict):
    """What one tensor asks of one level: words an instance, and the energy (pJ) of all instances."""

    reads: int
    fills: int
    updates: int
    instances: int
    tile_words: int
    energy_pj: float


class LevelColumn(TypedDict):
    """One storage level of the column ``levels``; ``port`` and ``full`` say what binds there."""

    name: str
    cycles: int
    port: str | None
    words: int
    usable_words: float | None
    full: bool
    energy_pj: float
    leakage_pj: float
    tensors: dict[str, TensorColumn]


class ChartLeaf(TypedDict):
    """One leaf of a schedule in its S-T chart: a layer, on which tiles, and when.

    A batch of ``samples`` takes ``cycles`` on the tiles [first, end), in turn from each of ``starts``.
    """

    layer: str
    samples: int
    tiles: list[int]
    cycles: int
    starts: list[int]
    whole_chip: NotRequired[bool]
    """Whether the layer has the whole chip, its data in DRAM."""
    fused: NotRequired[bool]
    """Whether the layer is mapped together with others, with which it takes turns."""


class PartMapping(TypedDict):
    """The loop nest of a tile as text, for parts of these lengths in K, N, P and Q."""

    part: dict[str, int]
    mapping: str


class LeafRow(TypedDict):
    """How one layer of a schedule runs: ``runs`` times for ``samples`` samples on the tiles [first, end).

    ``parts``: into how many parts each of its dims is cut, C (input channels) only where it is cut at all.
    ``order``: these dims; parts along the last of them are on neighbouring tiles. A layer that is mapped on
    the whole chip has neither. ``slices``: how many slices of its output channels a tile computes in turn,
    where weights are streamed or shared; ``sharers``: among how many tiles, where they are. ``bands``: rows
    of each band, where the layer runs band by band. ``cycles`` are those of one run, or of one band;
    ``tile_cycles`` are the cycles of a run in which the slowest tile computes. Bytes and energies are of all
    runs. ``fused_with``: the layers with which it is mapped together, on all tiles at once; ``cut``: into how
    many parts tiles divide the loops that these layers share; ``tree``, of the first of these layers: the
    fused mapping of a tile's part. ``mappings``: what tiles do with parts of each length. The store has them
    in ``tile_costs``, for all schedules that use them; ``archsweep solve schedule --json`` adds them here.
    """

    layer: str
    samples: int
    runs: int
    tiles: list[int]
    parts: NotRequired[dict[str, int]]
    order: NotRequired[list[str]]
    slices: NotRequired[int]
    sharers: NotRequired[int]
    bands: NotRequired[list[int]]
    cycles: int
    tile_cycles: int
    dram_read_bytes: int
    dram_write_bytes: int
    energy_by_part_pj: dict[str, float]
    fused_with: NotRequired[list[str]]
    cut: NotRequired[dict[str, int]]
    tree: NotRequired[str]
    mappings: NotRequired[list[PartMapping]]


class CostedTreeEntry(TypedDict):
    """What a tree from another chip costs on this one: pJ and cycles; ``tree_from`` is who found it."""

    tree_from: str
    energy_pj: float
    cycles: int


class CostedTreesEntry(TypedDict):
    """Trees from other chips: how many this chip can run and how many it cannot, and the nondominated ones.

    Those are by rising energy, and each takes fewer cycles than the one before.
    """

    possible: int
    not_possible: int
    nondominated: list[CostedTreeEntry]


class ScheduleColumns(ProofColumns, total=False):
    """What a schedule solve decides: energies in pJ, traffic in bytes and in bytes times hops."""

    energy_bound_pj: float | None
    cycles_bound: float | None
    energy_pj: float | None
    cycles: int | None
    edp_pj_cycles: float | None
    dram_bytes: int | None
    noc_hop_bytes: int | None
    utilization: float | None
    energy_by_part_pj: dict[str, float] | None
    tree: str | None
    spatial_temporal: list[ChartLeaf] | None
    leaves: list[LeafRow] | None
    search: list[ReadOnlyDict[str, Any]] | None
    tree_from: str | None
    """The id of the schedule task that found the tree, where that was for another chip."""
    costed_trees: CostedTreesEntry | None
    state: dict[str, Any] | None
    """The search state from which the next epoch goes on; None after the last one."""


class ScratchpadColumns(SolveColumns, total=False):
    """What a scratchpad solve decides; ``plan`` has the order of operators and each tensor's residency."""

    objective_bytes: int | None
    bound_bytes: float | None
    gap: float | None
    plan: dict[str, Any] | None


class FusionColumns(ProofColumns, total=False):
    """What mapping layers together decides; ``tree``: its loops as text, with what lives where."""

    energy_bound_pj: float | None
    cycles_bound: float | None
    energy_pj: float | None
    cycles: int | None
    edp_pj_cycles: float | None
    energy_by_level_pj: dict[str, float] | None
    together: bool | None
    mapping: dict[str, Any] | None
    tree: str | None
    by_layer: dict[str, Any] | None


class CodesignColumns(ProofColumns, total=False):
    """What a co-design solve decides: sizes and fan-outs, area (um2), energy (pJ), each layer's mapping."""

    overrides: dict[str, Any] | None
    area_um2: float | None
    mac_units: int | None
    energy_pj: float | None
    cycles: int | None
    layers: list[dict[str, Any]] | None


class TileCostColumns(SolveColumns, total=False):
    """What a solve of tile parts decides: for each part its numbers, energy in pJ, cycles, whether proven."""

    costs: list[list[Any]] | None


class ProgramColumns(SolveColumns, total=False):
    """What writing a program decides: the program packed as text, or why there is none."""

    program: str | None
    no_program: str | None


class AskedColumns(TypedDict, total=False):
    """The columns that say of any answer how it was asked for; ``params`` holds parameters and budget."""

    solver: str
    solver_version: str
    params: dict[str, Any]
    seed: int | None


class AnswerRow(SolveColumns, AskedColumns, total=False):
    """The columns that the rows of all answers have, whatever was solved."""

    schema_version: int
    task_id: str
    study: str
    worker: str | None
    attempts: int | None
    cached: bool
    from_study: str | None
    error: str | None
    finished_at: datetime


class LayerRow(AnswerRow, MappingColumns, total=False):
    """A ``layers`` row: one layer shape mapped on one architecture."""

    layer_name: str | None
    layer_shape: dict[str, Any]
    architecture_id: str
    architecture: dict[str, Any]
    objective_name: str
    macs: int


class ScheduleRow(AnswerRow, ScheduleColumns, total=False):
    """A ``schedules`` row: a network of ``batch`` samples scheduled on one chip with one seed."""

    network: str | None
    network_content: str
    batch: int
    chip_id: str
    chip: dict[str, Any]
    tile_mapper: dict[str, Any]
    objective_name: str
    epoch: int | None
    refined_from: str | None
    """The id of the task that found the tree from which this search went on; None where it had none."""


class ScratchpadRow(AnswerRow, ScratchpadColumns, total=False):
    """A ``scratchpads`` row: one operator graph planned in a scratchpad of ``budget_bytes``."""

    graph: str | None
    graph_content: str
    setting: dict[str, Any]
    budget_bytes: int
    block_bytes: dict[str, int]
    parameter_bytes: dict[str, int]


class FusionRow(AnswerRow, FusionColumns, total=False):
    """A ``fusions`` row: a group of layers mapped together on one architecture."""

    group_name: str | None
    layer_names: list[str] | None
    layer_group: dict[str, Any]
    longest: int
    recompute: bool
    pipelined: bool
    architecture_id: str
    architecture: dict[str, Any]
    objective_name: str


class CodesignRow(AnswerRow, CodesignColumns, total=False):
    """A ``codesigns`` row: one architecture of a family for some layers, within an area."""

    family: dict[str, Any]
    base_id: str
    layer_counts: list[dict[str, Any]]
    objective_name: str
    allowed_area_um2: float


class TileCostRow(AnswerRow, TileCostColumns, total=False):
    """A ``tile_costs`` row: parts of layers mapped on one tile, of the source that the costs come from."""

    source_id: str
    architecture_id: str
    architecture: dict[str, Any]
    objective_name: str
    tile_parts: int


class ProgramRow(AnswerRow, ProgramColumns, total=False):
    """A ``programs`` row: the program of the schedule ``tree`` that the task ``schedule_id`` found."""

    schedule_id: str
    tree: str


class LayerEntry(TypedDict):
    """A layer in a design's row: energy in pJ and cycles of one occurrence, of which a run has ``count``."""

    name: str
    task_id: str
    count: int
    energy_pj: float
    cycles: int


class FusedEntry(TypedDict):
    """A group of layers in a design's row: energy in pJ and cycles of one occurrence, of which a run maps
    ``count`` together; ``unfused``: what the layers cost one by one."""

    layers: list[str]
    task_id: str
    count: int
    energy_pj: float
    cycles: int
    unfused_energy_pj: float
    unfused_cycles: int


# One JSON column has all networks of a design, instead of a table with a row for each: designs are read by
# the hundred thousand for the front, where nobody looks at their layers.
class NetworkEntry(TypedDict, total=False):
    """A network in a design's row: what one run of it costs, and the ids of the tasks that this rests on.

    ``weight``: how many of its runs the design's columns add up.

    In a study of architectures ``layers`` are those that are mapped one by one, ``fused`` the groups for
    which a mapping together was asked for. ``scratchpad`` is the task of its plan, where one is asked for.

    In a study of chips ``schedule`` is the task with the best schedule, and ``seeds`` are all tasks that
    searched for one. ``costings`` are tasks that costed trees of other chips, ``refinements`` those that went
    on from such a tree. If a tree of another chip is the best, ``tree_from`` is the task that found it there.
    """

    weight: float
    energy_pj: float
    cycles: int
    layers: list[LayerEntry]
    fused: list[FusedEntry]
    scratchpad: str
    schedule: str
    seeds: list[str]
    costings: list[str]
    refinements: list[str]
    tree_from: str


class HardwareColumns(TypedDict, total=False):
    """The columns of a ``designs`` row that hold the whole hardware: an architecture or a chip."""

    architecture_name: str
    architecture: dict[str, Any] | None
    chip: dict[str, Any] | None


class DesignRow(HardwareColumns, total=False):
    """A ``designs`` row: energies in pJ, areas in um2, traffic in bytes.

    A design without objectives has a ``note`` (infeasible, dominated) or an ``error`` (failed) instead.
    """

    schema_version: int
    design_id: str
    study: str
    study_id: str | None
    axes: dict[str, Any]
    status: str
    trial: int | None
    baseline: bool
    feasible: bool
    area_um2: float
    energy_pj: float | None
    cycles: int | None
    edp_pj_cycles: float | None
    latency_seconds: float | None
    seconds_per_token: float | None
    joules_per_token: float | None
    tokens_per_second: float | None
    time_to_first_token_seconds: float | None
    time_per_output_token_seconds: float | None
    watts: float | None
    energy_bound_pj: float | None
    cycles_bound: float | None
    # The same without fusion, so that a report can say what fusion is worth without a second run.
    unfused_energy_pj: float | None
    unfused_cycles: int | None
    time_to_first_token_bound_seconds: float | None
    time_per_output_token_bound_seconds: float | None
    off_chip_bytes: int | None
    off_chip_energy_pj: float | None
    off_chip_bytes_bound: float | None
    off_chip_energy_bound_pj: float | None
    dram_bytes: int | None
    noc_hop_bytes: int | None
    energy_gap: float | None
    cycles_gap: float | None
    solves: int
    cached_solves: int | None
    failures: int | None
    cpu_seconds: float | None
    networks: dict[str, NetworkEntry]
    energy_by_level_pj: dict[str, float] | None
    error: str | None
    note: str | None
    finished_at: datetime
