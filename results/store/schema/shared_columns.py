"""Columns that several result tables have in common, and the version of all column lists.

A new column of a released table raises ``SCHEMA_VERSION``. A column is never renamed or given another
meaning, and parts written before a column was added read as null in it.
"""

from __future__ import annotations

from results.store.schema.columns import Column

SCHEMA_VERSION = 3
"""2: ``layers`` has compute_cycles, bound_by, cycles_without and levels. 3: ``designs`` has unfused_energy_pj
and unfused_cycles, and there are ``fusions``."""

# Order matters for people only: Parquet finds columns by name. Tables list first what identifies a row, then
# what was asked, then what was found, then what it took.
VERSION_COLUMN = Column("schema_version", "int", "", "version of this column list; filled in by the store")

IDENTITY = (
    VERSION_COLUMN,
    Column("task_id", "string", "", "hash of everything the answer depends on", required=True),
    Column("study", "string", "", "study that the row was written for", required=True),
)
"""The first columns of every answer to a task.

``study`` is no part of the answer: other studies find it by its task_id.
"""

ARCHITECTURE_ID = Column("architecture_id", "string", "", "hash of `architecture`", required=True)
"""A hash beside the architecture itself: queries group and join by it without comparing whole documents."""

ARCHITECTURE_PART = Column(
    "architecture", "json", "", "the part of the architecture that the answer depends on"
)

SOLVER = Column("solver", "string", "", "catalogue name of the solver", required=True)

ASKED_HOW = (
    Column("solver_version", "string", "", "version of the solver", required=True),
    Column("params", "json", "", "the solver's parameters and budget"),
    Column("seed", "int", "", "random seed"),
)
"""What every answer to a task says of its solver, after the name."""

MAPPING_OBJECTIVE = Column(
    "objective_name", "string", "", "what was minimised: energy, cycles or edp", required=True
)

MAPPING_STATUS = Column(
    "status",
    "string",
    "",
    "optimal (proven on the cost model), feasible, infeasible (proven), unknown, or failed",
    required=True,
)

PROOF = (
    Column("bound", "float", "as objective", "proven lower bound on `objective`"),
    Column("gap", "float", "1", "(objective - bound) / |objective|"),
)
"""What is proven of ``objective``, the column before; null where nothing is."""

EDP = Column("edp_pj_cycles", "float", "pJ*cycles", "energy times latency")
"""The product beside its factors, because fronts and plots are drawn over columns that are there."""

EFFORT = (
    Column("cpu_seconds", "float", "s", "CPU time of the solve; in a cached row that of the original solve"),
    Column(
        "wall_seconds", "float", "s", "wall time of the solve; in a cached row that of the original solve"
    ),
    Column("worker", "string", "", "process and host that solved it"),
    Column("attempts", "int", "", "how often the task was started, lost workers included"),
    Column("cached", "bool", "", "answered from the store, not solved again"),
    Column("from_study", "string", "", "in a cached row: the study that solved it"),
    Column("error", "string", "", "in a failed row: what went wrong"),
    Column("note", "string", "", "the solver's remark; in an infeasible row the constraint and its numbers"),
    Column("finished_at", "timestamp", "UTC", "when the row was made", required=True),
)
"""What every answer to a task says of the work and of how it ended."""
