"""The result tables: their columns with types, units and meanings; those of chips are in ``chips.py``.

Why the tables look as they do:

* A table for each kind of solve, a row for each answer, and designs that name the answers they rest on by
  their task_id: an answer that many designs of a run need is stored once.
* An answer holds its question in full (the layer, the architecture, the parameters), so that a row can be
  understood, and solved again, without the study's files.
* Numbers that people plot or filter are columns of their own. What has a form of its own (a mapping, a plan,
  a tree) is one JSON column, which its own module reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from results.errors import WrongRowError
from results.store.schema.chips import PROGRAMS, SCHEDULES, TILE_COSTS
from results.store.schema.columns import Column, Table
from results.store.schema.rows import CodesignRow, DesignRow, FusionRow, LayerRow, ScratchpadRow
from results.store.schema.shared_columns import (
    ARCHITECTURE_ID,
    ARCHITECTURE_PART,
    ASKED_HOW,
    EDP,
    EFFORT,
    IDENTITY,
    MAPPING_OBJECTIVE,
    MAPPING_STATUS,
    PROOF,
    SCHEMA_VERSION,
    SOLVER,
    VERSION_COLUMN,
)

LAYERS = Table[LayerRow](
    "layers",
    "task_id",
    "One row per mapping solve: one layer shape on one architecture by one solver.",
    (
        *IDENTITY,
        Column(
            "layer_name", "string", "", "a name of the layer, network/layer; the task depends on the shape"
        ),
        Column("layer_shape", "json", "", "dims, strides, dilations and tensors of the layer", required=True),
        ARCHITECTURE_ID,
        ARCHITECTURE_PART,
        SOLVER,
        *ASKED_HOW,
        MAPPING_OBJECTIVE,
        MAPPING_STATUS,
        Column("objective", "float", "pJ, cycles or pJ*cycles", "the cost model's value of `objective_name`"),
        *PROOF,
        # Both, whatever was minimised: a design sums energy and cycles, and its bounds need either.
        Column("energy_bound_pj", "float", "pJ", "proven lower bound on energy_pj, for any mapping"),
        Column("cycles_bound", "float", "cycles", "proven lower bound on cycles, for any mapping"),
        Column("program_proven", "bool", "", "the solver's own program was solved to proven optimality"),
        Column(
            "space",
            "json",
            "",
            "the mappings that `status` and `bound` speak of: {name: a sentence, then the rules themselves}",
        ),
        Column(
            "solved_by", "string", "", "where the solver is a portfolio: the member that found the mapping"
        ),
        Column("energy_pj", "float", "pJ", "energy of the layer, once"),
        Column("cycles", "int", "cycles", "latency of the layer, once"),
        EDP,
        Column("utilization", "float", "1", "fraction of the MAC units busy, averaged over the cycles"),
        Column(
            "useful_utilization",
            "float",
            "1",
            "as utilization, multiply-accumulates of padding not counted as busy",
        ),
        Column("macs", "int", "MACs", "multiply-accumulates of the layer"),
        Column("mapping", "json", "", "the mapping found, in the reference's form"),
        Column("energy_by_level_pj", "json", "pJ", "energy per storage level, innermost first, and `MAC`"),
        # The four columns of schema version 2, from which `archsweep explain` says what binds a layer.
        Column(
            "compute_cycles",
            "int",
            "cycles",
            "cycles that the MAC units ask for, whatever the levels' bandwidth; null in answers of version 1",
        ),
        Column(
            "bound_by",
            "string",
            "",
            "what the cycles are due to: `MAC units`, a bandwidth such as `DRAM read bandwidth`, or of a "
            "machine with timing what it waits for; null in answers of version 1",
        ),
        Column(
            "cycles_without",
            "json",
            "cycles",
            "the cycles that would be left if one cause took no time, by cause; null in answers of version 1",
        ),
        Column(
            "levels",
            "json",
            "cycles, words, pJ",
            "the storage levels, innermost first, a list of {name, cycles: that its bandwidth asks for, "
            "port: read, write or shared, the bandwidth that asks for more than compute_cycles, or null, "
            "words: of the tiles that an instance holds, usable_words, full: no factor of a loop outside "
            "fits into its tiles, energy_pj, leakage_pj, tensors: by name {reads, fills, updates: words an "
            "instance, instances, tile_words, energy_pj: of all instances}}; null in answers of version 1",
        ),
        *EFFORT,
    ),
    SCHEMA_VERSION,
)

DESIGNS = Table[DesignRow](
    "designs",
    "design_id",
    "One row per design point: an architecture or a chip and what the study's networks cost on it.",
    (
        VERSION_COLUMN,
        # The hash of the hardware and of all that the study asks of it: a changed study has designs of its
        # own.
        Column("design_id", "string", "", "name of the design point within its study", required=True),
        Column("study", "string", "", "study of the design", required=True),
        Column("study_id", "string", "", "hash of the resolved study that the row was last part of"),
        Column("axes", "json", "", "value of every design axis; read as columns `axis.NAME`", required=True),
        Column("architecture_name", "string", "", "name of the base architecture or chip", required=True),
        Column("architecture", "json", "", "the architecture in full; null in a study of chips"),
        Column("chip", "json", "", "in a study of chips: the chip in full"),
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
            "energy of all networks, their runs by weight, layers times their counts; on a chip: of the best "
            "schedule of each",
        ),
        Column(
            "cycles",
            "int",
            "cycles",
            "latency of all networks, their runs by weight, one layer after the other; on a chip: of the "
            "best schedule of each",
        ),
        Column("edp_pj_cycles", "float", "pJ*cycles", "energy_pj times cycles"),
        Column("latency_seconds", "float", "s", "cycles over the clock frequency"),
        Column(
            "seconds_per_token",
            "float",
            "s",
            "latency_seconds over the tokens that the networks make, their runs by weight",
        ),
        Column("joules_per_token", "float", "J", "energy_pj over the same tokens"),
        Column("tokens_per_second", "float", "tokens/s", "the reciprocal of seconds_per_token"),
        Column(
            "time_to_first_token_seconds",
            "float",
            "s",
            "latency of the prefill phases of one request, on average over their lengths",
        ),
        Column(
            "time_per_output_token_seconds",
            "float",
            "s",
            "latency of a step of the decode phases, on average over their steps",
        ),
        Column("watts", "float", "W", "energy_pj over latency_seconds: the mean power over all runs"),
        Column("energy_bound_pj", "float", "pJ", "proven lower bound on energy_pj"),
        Column("cycles_bound", "float", "cycles", "proven lower bound on cycles"),
        # The two columns of schema version 3: what the study's key `fusion` is worth on the design.
        Column(
            "unfused_energy_pj",
            "float",
            "pJ",
            "where layers are mapped together: energy_pj if every layer were mapped by itself",
        ),
        Column(
            "unfused_cycles", "int", "cycles", "where layers are mapped together: cycles without that, too"
        ),
        Column(
            "time_to_first_token_bound_seconds",
            "float",
            "s",
            "proven lower bound on time_to_first_token_seconds",
        ),
        Column(
            "time_per_output_token_bound_seconds",
            "float",
            "s",
            "proven lower bound on time_per_output_token_seconds",
        ),
        # Traffic of scratchpad plans stays apart from energy_pj: mappings count every layer's tensors from
        # the outermost level, plans count what leaves the scratchpad, and a sum would have some bytes in it
        # twice.
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
            "dram_bytes", "int", "bytes", "in a study of chips: traffic of its schedules to and from DRAM"
        ),
        Column(
            "noc_hop_bytes", "int", "bytes", "in a study of chips: bytes times links that its schedules send"
        ),
        Column("energy_gap", "float", "1", "(energy_pj - energy_bound_pj) / energy_pj"),
        Column("cycles_gap", "float", "1", "(cycles - cycles_bound) / cycles"),
        Column(
            "solves", "int", "", "distinct solves that the design needs; where it is dominated, those done"
        ),
        Column("cached_solves", "int", "", "of these, answered from the store"),
        Column("failures", "int", "", "of these, failed"),
        Column("cpu_seconds", "float", "s", "CPU time of the solves that the design was first to need"),
        Column(
            "networks",
            "json",
            "",
            "per network: `weight`, how many runs the columns of the design add up; energy_pj and cycles of "
            "one run; `layers`, a list of {name, task_id, count, energy_pj, cycles} with energy and cycles "
            "of one occurrence, of which a run has `count` that are mapped by themselves; where layers are "
            "mapped together, `fused`, a list of {layers: names, task_id: of that row of `fusions`, count: "
            "how many a run maps so, 0 where one by one is better, energy_pj, cycles, unfused_energy_pj, "
            "unfused_cycles: of the layers one by one}; where its scratchpad is planned, `scratchpad`: "
            "the task_id of that row of `scratchpads`; on a chip `schedule`, the task_id of the best row of "
            "`schedules`; `seeds`, those of the design's own searches; `costings`, those that costed trees "
            "of other designs on its chip; `refinements`, those that went on from one of these; and, where "
            "a tree of another chip is the best, `tree_from`: the task_id of the schedule that has it",
        ),
        Column(
            "energy_by_level_pj",
            "json",
            "pJ",
            "energy_pj per storage level, innermost first, and `MAC`; on a chip: per part of it",
        ),
        Column("error", "string", "", "why the design failed"),
        Column(
            "note",
            "string",
            "",
            "why the design is infeasible, dominated, or complete and not feasible: the constraint and its "
            "numbers",
        ),
        Column("finished_at", "timestamp", "UTC", "when the row was made", required=True),
    ),
    SCHEMA_VERSION,
)

SCRATCHPADS = Table[ScratchpadRow](
    "scratchpads",
    "task_id",
    "One row per scratchpad solve: an operator graph under one budget and setting, by one solver.",
    (
        *IDENTITY,
        Column("graph", "string", "", "a name of the operator graph; the task depends on its content"),
        Column("graph_content", "string", "", "hash of the graph's operators and tensors", required=True),
        Column(
            "setting", "json", "", "the model's options: parameters, input rule, in-place, width, alignment"
        ),
        Column("budget_bytes", "int", "bytes", "capacity of the scratchpad", required=True),
        SOLVER,
        *ASKED_HOW,
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
        *EFFORT,
    ),
    SCHEMA_VERSION,
)

FUSIONS = Table[FusionRow](
    "fusions",
    "task_id",
    "One row per group of layers mapped together on one architecture by one solver.",
    (
        *IDENTITY,
        Column("group_name", "string", "", "a name of the group; the task depends on the layers' shapes"),
        Column("layer_names", "json", "", "names of the layers, without the beginning that all share"),
        Column(
            "layer_group",
            "json",
            "",
            "the layers, what passes between them, and dims along the same axis of what several read",
            required=True,
        ),
        Column("longest", "int", "", "how many layers may share loops or keep tensors for one another"),
        Column("recompute", "bool", "", "layers could make anew what windows have in common"),
        Column("pipelined", "bool", "", "layers could run at the same time on parts of the array"),
        ARCHITECTURE_ID,
        ARCHITECTURE_PART,
        SOLVER,
        *ASKED_HOW,
        MAPPING_OBJECTIVE,
        MAPPING_STATUS,
        Column("objective", "float", "pJ, cycles or pJ*cycles", "`objective_name` of all layers together"),
        *PROOF,
        Column("energy_bound_pj", "float", "pJ", "proven lower bound on energy_pj, for any fused mapping"),
        Column("cycles_bound", "float", "cycles", "proven lower bound on cycles, for any fused mapping"),
        Column("energy_pj", "float", "pJ", "energy of the group, once"),
        Column("cycles", "int", "cycles", "latency of the group, once"),
        EDP,
        Column("energy_by_level_pj", "json", "pJ", "energy per storage level, innermost first, and `MAC`"),
        Column("together", "bool", "", "the layers share loops or keep a tensor for one another"),
        Column(
            "mapping",
            "json",
            "",
            "shared loops, backing levels, hoisted tiles, what is made anew, pipelines, and each layer's "
            "nests as text",
        ),
        Column("tree", "string", "", "the mapping for people: loops, what each level holds, nests"),
        Column(
            "by_layer",
            "json",
            "pJ, cycles, words",
            "{energy_pj, cycles, peak: the most words that each level holds, layers: by name {turns, "
            "energy_pj, cycles, bound_by: its cycles by what they are due to}, pipelines: of layers at the "
            "same time {layers, turns, cycles, leakage_pj, bound_by}, if there are any}",
        ),
        *EFFORT,
    ),
    SCHEMA_VERSION,
)

CODESIGNS = Table[CodesignRow](
    "codesigns",
    "task_id",
    "One row per co-design solve of a paper's evaluation: an architecture of a family for some layers.",
    (
        *IDENTITY,
        Column(
            "family", "json", "", "the architecture file, what all members change in it, and what is free"
        ),
        Column("base_id", "string", "", "hash of the member that the file states", required=True),
        Column("layer_counts", "json", "", "the layers' names and how often each occurs", required=True),
        MAPPING_OBJECTIVE,
        Column("allowed_area_um2", "float", "um2", "the area that the architecture must not be above"),
        SOLVER,
        *ASKED_HOW,
        MAPPING_STATUS,
        Column("objective", "float", "pJ, cycles or pJ*cycles", "the sum over all layers and occurrences"),
        Column("bound", "float", "as objective", "proven lower bound on `objective`, for every member"),
        Column("gap", "float", "1", "(objective - bound) / |objective|"),
        Column("overrides", "json", "", "sizes and fan-outs found, as keys of the architecture file"),
        Column("area_um2", "float", "um2", "area of the architecture found"),
        Column("mac_units", "int", "", "MAC units of the architecture found"),
        Column("energy_pj", "float", "pJ", "energy of all layers and occurrences"),
        Column("cycles", "int", "cycles", "latency of all layers and occurrences"),
        Column("layers", "json", "pJ, cycles", "of each layer {energy_pj, cycles, mapping}, one occurrence"),
        *EFFORT,
    ),
    SCHEMA_VERSION,
)

TABLES: Mapping[str, Table[Any]] = MappingProxyType(
    {
        table.name: table
        for table in (LAYERS, DESIGNS, FUSIONS, SCRATCHPADS, SCHEDULES, PROGRAMS, TILE_COSTS, CODESIGNS)
    }
)

ANSWER_TABLES: tuple[Table[Any], ...] = (
    LAYERS,
    FUSIONS,
    SCRATCHPADS,
    SCHEDULES,
    PROGRAMS,
    TILE_COSTS,
    CODESIGNS,
)
"""Tables whose rows are answers to tasks: journalled as they come, and looked up by later studies.

Designs are not among them: a resumed run makes their rows anew from the answers.
"""

ANSWERED = ("optimal", "feasible", "infeasible")
"""Statuses of an answer that needs no new solve.

"unknown" is none: nothing was found in the time, and a run that asks again may have more of it.
"""


def table_named(name: str) -> Table[Any]:
    """The table of that name; raises WrongRowError when there is none."""
    if name not in TABLES:
        raise WrongRowError(name, "no such table", f"Known: {', '.join(TABLES)}")
    return TABLES[name]


BAR = r"\|"
"""A bar inside a cell of a table, where a plain one would end the cell."""


def schema_markdown() -> str:
    """Every table and column with type, unit and meaning, as Markdown."""
    parts = [f"# Result tables, schema version {SCHEMA_VERSION}"]
    for table in TABLES.values():
        parts += ["", f"## {table.name}", "", f"{table.meaning} Key: `{table.key}`.", ""]
        parts += ["| column | type | unit | meaning |", "|---|---|---|---|"]
        parts += [
            f"| {column.name} | {column.kind} | {column.unit} | {column.meaning.replace('|', BAR)} |"
            for column in table.columns
        ]
    return "\n".join(parts) + "\n"
