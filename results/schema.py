"""The columns of the result tables: names, types, units and meanings, versioned.

Version history: 1, the first; 2, the space and the winner of a solve, the trial of a design, the baseline,
designs dominated by their bounds, and the `scratchpads` table; 3, the `schedules` and `tile_costs` tables and
the designs of chips. A new column raises ``SCHEMA_VERSION``; a column is never renamed or given another
meaning, and old parts read as null in the columns that they lack.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from results.columns import Column, Table
from results.errors import WrongRowError

SCHEMA_VERSION = 3

_EFFORT = (
    Column("cpu_seconds", "float", "s", "CPU time of the solve; of a cached row: of the original solve"),
    Column("wall_seconds", "float", "s", "wall time of the solve; of a cached row: of the original solve"),
    Column("worker", "string", "", "process and host that solved it"),
    Column("attempts", "int", "", "how often the task was started, lost workers included"),
    Column("cached", "bool", "", "answered from the store, not solved again"),
    Column("from_study", "string", "", "of a cached row: the study that solved it"),
    Column("error", "string", "", "of a failed row: what went wrong"),
    Column("note", "string", "", "the solver's remark; of an infeasible row: the constraint and its numbers"),
    Column("finished_at", "timestamp", "UTC", "when the row was made", required=True),
)
"""What every answer to a task says of the work and of how it ended."""

LAYERS = Table(
    "layers",
    "task_id",
    "One row per mapping solve: one layer shape on one architecture by one solver.",
    (
        Column("schema_version", "int", "", "version of this column list; filled in by the store"),
        Column("task_id", "string", "", "hash of everything the answer depends on", required=True),
        Column("study", "string", "", "study that the row was written for", required=True),
        Column(
            "layer_name", "string", "", "a name of the layer, network/layer; the task depends on the shape"
        ),
        Column("layer_shape", "json", "", "dims, strides, dilations and tensors of the layer", required=True),
        Column("architecture_id", "string", "", "hash of `architecture`", required=True),
        Column("architecture", "json", "", "the part of the architecture that the answer depends on"),
        Column("solver", "string", "", "catalogue name of the solver", required=True),
        Column("solver_version", "string", "", "version of the solver", required=True),
        Column("params", "json", "", "the solver's parameters and budget"),
        Column("seed", "int", "", "random seed"),
        Column("objective_name", "string", "", "what was minimised: energy, cycles or edp", required=True),
        Column(
            "status",
            "string",
            "",
            "optimal (proven on the cost model), feasible, infeasible (proven), unknown, or failed",
            required=True,
        ),
        Column("objective", "float", "pJ, cycles or pJ*cycles", "the cost model's value of `objective_name`"),
        Column("bound", "float", "as objective", "proven lower bound on `objective`"),
        Column("gap", "float", "1", "(objective - bound) / |objective|"),
        Column("energy_bound_pj", "float", "pJ", "proven lower bound on energy_pj, for any mapping"),
        Column("cycles_bound", "float", "cycles", "proven lower bound on cycles, for any mapping"),
        Column("program_proven", "bool", "", "the solver's own program was solved to proven optimality"),
        Column(
            "space",
            "json",
            "",
            "the mappings that `status` and `bound` speak of: {name: a sentence, then the rules themselves}",
        ),
        Column("solved_by", "string", "", "of a portfolio: the member that found the mapping"),
        Column("energy_pj", "float", "pJ", "energy of the layer, once"),
        Column("cycles", "int", "cycles", "latency of the layer, once"),
        Column("edp_pj_cycles", "float", "pJ*cycles", "energy times latency"),
        Column("utilization", "float", "1", "share of the MAC units busy, averaged over the cycles"),
        Column(
            "useful_utilization",
            "float",
            "1",
            "as utilization, multiply-accumulates of padding not counted as busy",
        ),
        Column("macs", "int", "MACs", "multiply-accumulates of the layer"),
        Column("mapping", "json", "", "the mapping found, in the reference's form"),
        Column("energy_by_level_pj", "json", "pJ", "energy per storage level, innermost first, and `MAC`"),
        *_EFFORT,
    ),
    SCHEMA_VERSION,
)

DESIGNS = Table(
    "designs",
    "design_id",
    "One row per design point: an architecture or a chip and what the study's networks cost on it.",
    (
        Column("schema_version", "int", "", "version of this column list; filled in by the store"),
        Column("design_id", "string", "", "name of the design point within its study", required=True),
        Column("study", "string", "", "study of the design", required=True),
        Column("study_id", "string", "", "hash of the resolved study that the row was last part of"),
        Column("axes", "json", "", "value of every design axis; read as columns `axis.NAME`", required=True),
        Column("architecture_name", "string", "", "name of the base architecture or chip", required=True),
        Column("architecture", "json", "", "the architecture in full; of a study of chips null"),
        Column("chip", "json", "", "of a study of chips: the chip in full"),
        Column(
            "status",
            "string",
            "",
            "complete, partial (solves are open), failed (a solve failed), infeasible, or dominated "
            "(discarded before any solve: a finished design dominates its proven lower bounds)",
            required=True,
        ),
        Column("trial", "int", "", "number of the search's trial that proposed the design first"),
        Column("baseline", "bool", "", "the design that the study names to compare others with"),
        Column("feasible", "bool", "", "every layer has a mapping and every constraint of the study holds"),
        Column("area_um2", "float", "um2", "area of the architecture or chip"),
        Column(
            "energy_pj",
            "float",
            "pJ",
            "energy of all networks, layers times their counts; on a chip: of the best schedule of each",
        ),
        Column(
            "cycles",
            "int",
            "cycles",
            "latency of all networks, one layer after the other; on a chip: of the best schedule of each",
        ),
        Column("edp_pj_cycles", "float", "pJ*cycles", "energy_pj times cycles"),
        Column("latency_seconds", "float", "s", "cycles over the clock frequency"),
        Column("energy_bound_pj", "float", "pJ", "proven lower bound on energy_pj"),
        Column("cycles_bound", "float", "cycles", "proven lower bound on cycles"),
        Column(
            "off_chip_bytes", "int", "bytes", "traffic of the networks' scratchpad plans, with their weights"
        ),
        Column(
            "off_chip_energy_pj",
            "float",
            "pJ",
            "energy of off_chip_bytes in the outermost level; not a part of energy_pj",
        ),
        Column("off_chip_bytes_bound", "float", "bytes", "proven lower bound on off_chip_bytes"),
        Column("off_chip_energy_bound_pj", "float", "pJ", "proven lower bound on off_chip_energy_pj"),
        Column(
            "dram_bytes", "int", "bytes", "of a study of chips: traffic of its schedules to and from DRAM"
        ),
        Column(
            "noc_hop_bytes", "int", "bytes", "of a study of chips: bytes times links that its schedules send"
        ),
        Column("energy_gap", "float", "1", "(energy_pj - energy_bound_pj) / energy_pj"),
        Column("cycles_gap", "float", "1", "(cycles - cycles_bound) / cycles"),
        Column("solves", "int", "", "distinct solves that the design needs"),
        Column("cached_solves", "int", "", "of these, answered from the store"),
        Column("failures", "int", "", "of these, failed"),
        Column("cpu_seconds", "float", "s", "CPU time of the solves that the design was first to need"),
        Column(
            "networks",
            "json",
            "",
            "per network: energy_pj, cycles and `layers`, a list of "
            "{name, task_id, count, energy_pj, cycles} with energy and cycles of one occurrence; where its "
            "scratchpad is planned, `scratchpad`: the task_id of that row of `scratchpads`; on a chip "
            "`schedule`, the task_id of the best row of `schedules`, and `seeds`, those of all of them",
        ),
        Column(
            "energy_by_level_pj",
            "json",
            "pJ",
            "energy_pj per storage level, innermost first, and `MAC`; on a chip: per part of it",
        ),
        Column("error", "string", "", "why the design failed"),
        Column(
            "note", "string", "", "why the design is infeasible or dominated: the constraint and its numbers"
        ),
        Column("finished_at", "timestamp", "UTC", "when the row was made", required=True),
    ),
    SCHEMA_VERSION,
)

SCRATCHPADS = Table(
    "scratchpads",
    "task_id",
    "One row per scratchpad solve: an operator graph under one budget and setting, by one solver.",
    (
        Column("schema_version", "int", "", "version of this column list; filled in by the store"),
        Column("task_id", "string", "", "hash of everything the answer depends on", required=True),
        Column("study", "string", "", "study that the row was written for", required=True),
        Column("graph", "string", "", "a name of the operator graph; the task depends on its content"),
        Column("graph_content", "string", "", "hash of the graph's operators and tensors", required=True),
        Column(
            "setting", "json", "", "the model's options: parameters, input rule, in-place, width, alignment"
        ),
        Column("budget_bytes", "int", "bytes", "capacity of the scratchpad", required=True),
        Column("solver", "string", "", "catalogue name of the solver", required=True),
        Column("solver_version", "string", "", "version of the solver", required=True),
        Column("params", "json", "", "the solver's parameters and budget"),
        Column("seed", "int", "", "random seed"),
        Column(
            "status",
            "string",
            "",
            "optimal (proven on the model), feasible, infeasible (proven), unknown, or failed",
            required=True,
        ),
        Column("objective_bytes", "int", "bytes", "off-chip traffic of the plan, spills and retrievals"),
        Column("bound_bytes", "float", "bytes", "proven lower bound on objective_bytes"),
        Column("gap", "float", "1", "(objective_bytes - bound_bytes) / objective_bytes; 0 where both are 0"),
        Column(
            "plan",
            "json",
            "",
            "order and, per tensor, residency intervals with addresses, spills, retrievals",
        ),
        Column("block_bytes", "json", "bytes", "size of each tensor's block in the plan, by its name"),
        Column(
            "parameter_bytes",
            "json",
            "bytes",
            "size of each operator's block of parameters, which is there for its own step, by its name",
        ),
        *_EFFORT,
    ),
    SCHEMA_VERSION,
)

SCHEDULES = Table(
    "schedules",
    "task_id",
    "One row per schedule: a network of so many samples on a chip, by one solver with one seed.",
    (
        Column("schema_version", "int", "", "version of this column list; filled in by the store"),
        Column("task_id", "string", "", "hash of everything the answer depends on", required=True),
        Column("study", "string", "", "study that the row was written for", required=True),
        Column("network", "string", "", "a name of the network; the task depends on its layers"),
        Column("network_content", "string", "", "hash of the network's layers", required=True),
        Column("batch", "int", "samples", "samples that the schedule computes", required=True),
        Column("chip_id", "string", "", "hash of `chip`", required=True),
        Column("chip", "json", "", "the part of the chip that the answer depends on"),
        Column(
            "tile_mapper",
            "json",
            "",
            "what maps layers on tiles: {solver, params, ...}; `alone: true` where it maps layers on whole "
            "chips, too",
        ),
        Column("solver", "string", "", "catalogue name of the solver", required=True),
        Column("solver_version", "string", "", "version of the solver", required=True),
        Column("params", "json", "", "the solver's parameters and budget"),
        Column("seed", "int", "", "random seed"),
        Column(
            "objective_name", "string", "", "what was minimised: e2d is energy^2 times latency", required=True
        ),
        Column(
            "status",
            "string",
            "",
            "optimal (proven on the chip model), feasible, infeasible (proven), unknown, or failed",
            required=True,
        ),
        Column("objective", "float", "pJ^n*cycles^m", "the chip model's value of `objective_name`"),
        Column("bound", "float", "as objective", "proven lower bound on `objective`"),
        Column("gap", "float", "1", "(objective - bound) / |objective|"),
        Column("energy_bound_pj", "float", "pJ", "proven lower bound on energy_pj, for any schedule"),
        Column("cycles_bound", "float", "cycles", "proven lower bound on cycles, for any schedule"),
        Column("energy_pj", "float", "pJ", "energy of all samples"),
        Column("cycles", "int", "cycles", "latency of all samples"),
        Column("edp_pj_cycles", "float", "pJ*cycles", "energy times latency"),
        Column("dram_bytes", "int", "bytes", "traffic to and from DRAM"),
        Column("noc_hop_bytes", "int", "bytes", "bytes times the links of the mesh that they cross"),
        Column("utilization", "float", "1", "share of tile-cycles in which a tile has a layer to compute"),
        Column("energy_by_part_pj", "json", "pJ", "energy_pj per part of the chip"),
        Column("epoch", "int", "", "of seeds that exchange trees: which epoch, from 0; seconds are its own"),
        Column("state", "json", "", "of such a seed: where its search goes on from"),
        Column("tree", "string", "", "the schedule: its RA tree as text, a line a node"),
        Column("handed_on", "json", "", "forwarding granularity of S cuts, where it is not a sub-batch"),
        Column(
            "spatial_temporal",
            "json",
            "samples, tiles, cycles",
            "the S-T chart, a list of {layer, samples, tiles: [first, end], cycles, starts}: a batch of so "
            "many samples takes so many cycles on these tiles, in turn from each start; `alone: true` where "
            "the layer has the chip to itself, its data in DRAM",
        ),
        Column(
            "search",
            "json",
            "",
            "how it was found: a list of phases {name, rounds, best: objective, trajectory: list of "
            "[round, objective of the tree at hand], operators: list of {operator, tried, invalid, accepted, "
            "better}, cpu_seconds}",
        ),
        *_EFFORT,
    ),
    SCHEMA_VERSION,
)

TILE_COSTS = Table(
    "tile_costs",
    "task_id",
    "One row per lot of shares: parts of layers, mapped on a tile by one solver, for schedulers of chips.",
    (
        Column("schema_version", "int", "", "version of this column list; filled in by the store"),
        Column("task_id", "string", "", "hash of everything the answer depends on", required=True),
        Column("study", "string", "", "study that the row was written for", required=True),
        Column("source_id", "string", "", "hash of all but the shares: what makes one table", required=True),
        Column("architecture_id", "string", "", "hash of `architecture`", required=True),
        Column("architecture", "json", "", "the tile: the part of it that the answer depends on"),
        Column("solver", "string", "", "catalogue name of the mapping solver", required=True),
        Column("solver_version", "string", "", "version of the solver", required=True),
        Column("params", "json", "", "the solver's parameters and budget"),
        Column("seed", "int", "", "random seed"),
        Column("objective_name", "string", "", "what was minimised: energy, cycles or edp", required=True),
        Column("status", "string", "", "optimal (every cost is proven), feasible, or failed", required=True),
        Column("shares", "int", "", "shares of the lot"),
        Column(
            "costs",
            "json",
            "pJ, cycles",
            "a list of [[C, K, P, Q, R, S, stride of P, stride of Q, samples, groups], energy_pj, cycles, "
            "proven optimal]; null where the tile has no mapping for the share",
        ),
        *_EFFORT,
    ),
    SCHEMA_VERSION,
)

TABLES: Mapping[str, Table] = MappingProxyType(
    {table.name: table for table in (LAYERS, DESIGNS, SCRATCHPADS, SCHEDULES, TILE_COSTS)}
)

ANSWER_TABLES = (LAYERS, SCRATCHPADS, SCHEDULES, TILE_COSTS)
"""Tables whose rows are answers to tasks: journalled as they come, and looked up by later studies."""

ANSWERED = ("optimal", "feasible", "infeasible")
"""Statuses of an answer that needs no new solve."""


def table_named(name: str) -> Table:
    """The table of that name; raises WrongRowError when there is none."""
    if name not in TABLES:
        raise WrongRowError(name, "no such table", f"Known: {', '.join(TABLES)}")
    return TABLES[name]


def schema_markdown() -> str:
    """Every table and column with type, unit and meaning, as Markdown."""
    parts = [f"# Result tables, schema version {SCHEMA_VERSION}"]
    for table in TABLES.values():
        parts += ["", f"## {table.name}", "", f"{table.meaning} Key: `{table.key}`.", ""]
        parts += ["| column | type | unit | meaning |", "|---|---|---|---|"]
        parts += [
            f"| {column.name} | {column.kind} | {column.unit} | {column.meaning} |"
            for column in table.columns
        ]
    return "\n".join(parts) + "\n"
