"""The result tables of studies of chips: schedules, their programs, and what parts of layers cost on a tile.

A schedule refers to costs of thousands of tile parts, which other schedules need as well. So these are a
table of their own, with many parts in a row: some solvers take a tenth of a millisecond for a part, and a row
has two dozen columns.
"""

from __future__ import annotations

from results.store.schema.columns import Column, Table
from results.store.schema.rows import ProgramRow, ScheduleRow, TileCostRow
from results.store.schema.shared_columns import (
    ARCHITECTURE_ID,
    ASKED_HOW,
    EDP,
    EFFORT,
    IDENTITY,
    MAPPING_OBJECTIVE,
    PROOF,
    SCHEMA_VERSION,
    SOLVER,
)

SCHEDULES = Table[ScheduleRow](
    "schedules",
    "task_id",
    "One row per schedule: a batch of a network on a chip, by one solver with one seed.",
    (
        *IDENTITY,
        Column("network", "string", "", "a name of the network; the task depends on its layers"),
        Column("network_content", "string", "", "hash of the network's layers", required=True),
        Column("batch", "int", "samples", "samples that the schedule computes", required=True),
        Column("chip_id", "string", "", "hash of `chip`", required=True),
        Column("chip", "json", "", "the part of the chip that the answer depends on"),
        Column(
            "tile_mapper",
            "json",
            "",
            "what maps layers on tiles: {solver, params, ...}; `whole_chip: true` where it maps layers on "
            "whole chips, too; `fused_groups: true` where segments may map layers together",
        ),
        SOLVER,
        *ASKED_HOW,
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
        *PROOF,
        Column("energy_bound_pj", "float", "pJ", "proven lower bound on energy_pj, for any schedule"),
        Column("cycles_bound", "float", "cycles", "proven lower bound on cycles, for any schedule"),
        Column("energy_pj", "float", "pJ", "energy of all samples"),
        Column("cycles", "int", "cycles", "latency of all samples"),
        EDP,
        Column("dram_bytes", "int", "bytes", "traffic to and from DRAM"),
        Column("noc_hop_bytes", "int", "bytes", "bytes times the links of the mesh that they cross"),
        Column("utilization", "float", "1", "fraction of tile-cycles in which a tile has a layer to compute"),
        Column("energy_by_part_pj", "json", "pJ", "energy_pj per part of the chip"),
        Column(
            "epoch", "int", "", "where seeds exchange trees: the epoch's number from 0; seconds are its own"
        ),
        Column("state", "json", "", "where seeds exchange trees: what the next epoch goes on from"),
        # The tree says everything: costs, chart and leaves follow from it and the tile costs. They are stored
        # all the same, so that a report needs no cost model.
        Column("tree", "string", "", "the schedule: its RA tree as text, a line a node"),
        Column(
            "tree_from",
            "string",
            "",
            "where `solver` is known_trees: the task_id of the schedule, of another chip, that has the tree",
        ),
        Column(
            "refined_from",
            "string",
            "",
            "where a search went on from another's tree: the task_id of the schedule that has that tree",
        ),
        Column(
            "costed_trees",
            "json",
            "pJ, cycles",
            "where `solver` is known_trees: {possible, not_possible: how many trees of other chips this one "
            "can and cannot run, nondominated: a list of {tree_from, energy_pj, cycles} by rising energy}",
        ),
        Column(
            "spatial_temporal",
            "json",
            "samples, tiles, cycles",
            "the S-T chart, a list of {layer, samples, tiles: [first, end], cycles, starts}: from each start "
            "on, that many samples take that many cycles on these tiles; `whole_chip: true` where the layer "
            "has the whole chip, its data in DRAM, `fused: true` where it takes turns with layers that it is "
            "mapped together with",
        ),
        Column(
            "leaves",
            "json",
            "samples, tiles, cycles, bytes, pJ",
            "how each layer runs, a list of {layer, samples, runs, tiles: [first, end], parts: {K, N, P, Q}, "
            "order, cycles, tile_cycles, dram_read_bytes, dram_write_bytes, energy_by_part_pj}: `parts` says "
            "into how many parts each dim is cut; parts along the last dim of `order` are on neighbouring "
            "tiles; bytes and energies are of all runs; a layer without `parts` is mapped on the whole chip "
            "or, where it has `fused_with`, "
            "with those layers together, whose mapping is the `tree` of the first",
        ),
        Column(
            "search",
            "json",
            "",
            "how it was found: a list of phases {name, rounds, best: objective, trajectory: list of "
            "[round, objective of the tree at hand], operators: list of {operator, tried, invalid, accepted, "
            "better}, cpu_seconds}",
        ),
        *EFFORT,
    ),
    SCHEMA_VERSION,
)

PROGRAMS = Table[ProgramRow](
    "programs",
    "task_id",
    "One row per program: what every tile does in the best schedule of a network on a design.",
    (
        *IDENTITY,
        Column("schedule_id", "string", "", "task_id of the schedule in `schedules`", required=True),
        Column("tree", "string", "", "the schedule's tree, of which this is the program", required=True),
        # not SOLVER: nothing is searched, so no solver of the catalogue is meant
        Column("solver", "string", "", "always program_writer", required=True),
        *ASKED_HOW,
        Column(
            "status",
            "string",
            "",
            "feasible, infeasible (the schedule has no program), unknown (not written in time) or failed",
            required=True,
        ),
        Column(
            "program",
            "string",
            "",
            "what every tile does, in order: the JSON of a program file, gzipped and in base64",
        ),
        Column("no_program", "string", "", "why the schedule has no program"),
        *EFFORT,
    ),
    SCHEMA_VERSION,
)

TILE_COSTS = Table[TileCostRow](
    "tile_costs",
    "task_id",
    "One row per solve of tile parts: parts of layers that one tile computes, mapped on it by one solver.",
    (
        *IDENTITY,
        Column(
            "source_id",
            "string",
            "",
            "hash of the tile, its solver and objective: rows of one source make one table of costs",
            required=True,
        ),
        ARCHITECTURE_ID,
        Column("architecture", "json", "", "the tile: the part of it that the answer depends on"),
        Column("solver", "string", "", "catalogue name of the mapping solver", required=True),
        *ASKED_HOW,
        MAPPING_OBJECTIVE,
        Column("status", "string", "", "optimal (every cost is proven), feasible, or failed", required=True),
        Column("tile_parts", "int", "", "tile parts that the row has costs of"),
        Column(
            "costs",
            "json",
            "pJ, cycles",
            "a list of [[C, K, P, Q, R, S, stride of P, stride of Q, samples, groups], energy_pj, cycles, "
            "proven optimal, leakage in pJ per cycle, mapping as text]; null where the tile has no mapping "
            "for the part. Energies are without leakage and without filling the tile's buffer",
        ),
        *EFFORT,
    ),
    SCHEMA_VERSION,
)
