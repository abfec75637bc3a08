"""Columns that several result tables have in common, and the version of all column lists.

A new column of a released table raises ``SCHEMA_VERSION``. A column is never renamed or given another
meaning, and parts written before a column was added read as null in it.
"""

from __future__ import annotations

from results.store.schema.columns import Column

SCHEMA_VERSION = 2
"""2: ``layers`` has compute_cycles, bound_by, cycles_without and levels."""

VERSION_COLUMN = Column("schema_version", "int", "", "version of this column list; filled in by the store")

IDENTITY = (
    VERSION_COLUMN,
    Column("task_id", "string", "", "hash of everything the answer depends on", required=True),
    Column("study", "string", "", "study that the row was written for", required=True),
)
"""The first columns of every answer to a task."""

SOLVER = Column("solver", "string", "", "catalogue name of the solver", required=True)

ASKED_HOW = (
    Column("solver_version", "string", "", "version of the solver", required=True),
    Column("params", "json", "", "the solver's parameters and budget"),
    Column("seed", "int", "", "random seed"),
)
"""What every answer to a task says of its solver, after the name."""

EFFORT = (
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
