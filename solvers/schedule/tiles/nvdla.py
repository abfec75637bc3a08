"""The exhaustive mapper of NVDLA-style tiles that SET's evaluator has (section 4.2.2), for any such tile.

Its loop nests and counts are those of the released program. PEs of such a tile pass weights or inputs on to
their neighbours over a bus, which a stack of levels cannot express. So its costs come from its own counts,
and there is no Mapping that the cost model could evaluate instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from costmodel.errors import InputError
from costmodel.hardware.architecture import ALL_ROLES, LARGEST, Architecture, StorageLevel
from costmodel.schedule.nvdla_tile.hardware import NvdlaBuffer, NvdlaTile
from costmodel.schedule.nvdla_tile.mapper import NvdlaMapper
from solvers.budget import Budget, Stopwatch
from solvers.checks import check, check_counts, is_number
from solvers.outcome import Outcome, Status, noting_limits
from solvers.schedule.tiles.mapper import TilePartCost, TileProblem

VERSION = "2"

EXPONENTS = {"energy": -1, "cycles": 0, "edp": 1}
"""The exponents by which the released program numbers the objectives."""
UNLIMITED = int(LARGEST)
"""Bytes, or bytes a cycle, where the architecture sets no limit: more than any limit it could set."""
FORM = (("outputs",), ("weights",), ("inputs",), ("outputs",), ALL_ROLES)
"""The roles of tensors that each level of such a tile keeps, innermost first: accumulators, weight buffers,
activation buffers, the shared output buffer, the global buffer."""


@dataclass(frozen=True)
class Params:
    """The bus between the PEs; defaults are those of SET's program (src/main.cpp:187-262), at 12 nm."""

    bus_pj_per_byte: float = 0.018
    bus_bytes_per_cycle: int = 16

    def __post_init__(self) -> None:
        right = is_number(self.bus_pj_per_byte, 0, inf)
        check("nvdla", "bus_pj_per_byte", right, "at least 0 pJ", self.bus_pj_per_byte)
        check_counts("nvdla", self, {"bus_bytes_per_cycle": 1})


@noting_limits
def solve(problem: TileProblem, budget: Budget, params: Params = Params()) -> Outcome[TilePartCost]:
    """The cheapest of the mapper's loop nests; InputError for an architecture of another form.

    ``budget`` is not used: trying all nests of a part takes microseconds.
    """
    watch = Stopwatch()
    mapper = NvdlaMapper(nvdla_tile(problem.architecture, params), EXPONENTS[problem.objective])
    found = mapper.searched(tuple(problem.share))
    if found is None:
        note = "no loop nest fits the buffers of a PE: they must hold all channels of a vector of outputs"
        return Outcome(Status.INFEASIBLE, None, None, None, watch.cpu_seconds, watch.wall_seconds, note)
    cost = TilePartCost(found.energy_pj, found.cycles)
    value = {"energy": cost.energy_pj, "cycles": float(cost.cycles), "edp": cost.energy_pj * cost.cycles}
    times = watch.cpu_seconds, watch.wall_seconds
    return Outcome(Status.FEASIBLE, cost, value[problem.objective], None, *times)


def nvdla_tile(architecture: Architecture, params: Params = Params()) -> NvdlaTile:
    """The tile that an architecture in the form of ``chips/tiles/nvdla.yaml`` describes.

    What the architecture leaves unlimited is unlimited for the mapper, too. Raises InputError for an
    architecture of another form, and for a number that the released program does not count, such as leakage:
    without the error, costs would silently leave it out.
    """
    levels = architecture.levels
    if tuple(level.keeps for level in levels) != FORM or levels[3].fanout_x != levels[3].fanout_y:
        expected = "an NVDLA-style tile: accumulators, weight, activation and output buffers, a square of PEs"
        found = ", ".join(level.name for level in levels)
        remedy = "Map such a tile with a mapping solver, as cosa"
        raise InputError("tile solver nvdla", expected, found, remedy, key="architecture")
    _check_counted(architecture)
    accumulators, weights, activations, outputs, shared = levels
    lanes = activations.fanout
    return NvdlaTile(
        vector=accumulators.fanout,
        lanes=lanes,
        grid=outputs.fanout_x,
        mac_pj=architecture.compute.energy_pj,
        bus_pj_per_byte=params.bus_pj_per_byte,
        bus_bytes_per_cycle=params.bus_bytes_per_cycle,
        activation=_buffer(activations),
        weight=_buffer(weights),
        output=_buffer(accumulators, lanes),
        output_shared=_buffer(outputs),
        shared=_buffer(shared),
        shared_bytes_per_cycle=UNLIMITED if shared.read_bandwidth is None else int(shared.read_bandwidth),
    )


def _check_counted(architecture: Architecture) -> None:
    """InputError for the first number of a level that the mapper's counts would leave out."""
    *inner, shared = architecture.levels
    for level in architecture.levels:
        counted: dict[str, object] = {
            "word_bits": 8,
            "update_energy_pj": level.write_energy_pj,
            "multiple_buffering": 1,
            "leakage_pj_per_cycle": 0,
            "shared_bandwidth": None,
        }
        if level in inner:
            counted |= {"read_bandwidth": None, "write_bandwidth": None}
        if level in (shared, inner[1]):
            counted |= {"fanout": 1}
        for key, value in counted.items():
            _check_number(architecture, level, key, "unlimited" if value is None else value, value)
    read, write = shared.read_bandwidth, shared.write_bandwidth
    if read is not None and read != int(read):
        _check_number(architecture, shared, "read_bandwidth", "a whole number of words a cycle", int(read))
    if write != read:
        _check_number(architecture, shared, "write_bandwidth", f"{read}, as read_bandwidth", read)


def _check_number(
    architecture: Architecture, level: StorageLevel, key: str, expected: object, value: object
) -> None:
    """InputError unless the level's number is ``value``."""
    if (found := getattr(level, key)) != value:
        remedy = "The tile solver nvdla counts no other; a mapping solver does"
        where = f"architecture {architecture.name}"
        raise InputError(where, str(expected), found, remedy, key=f"{level.name}.{key}")


def _buffer(level: StorageLevel, instances: int = 1) -> NvdlaBuffer:
    """``instances`` of a level as one buffer with their joint capacity; a word is a byte.

    An access goes to one instance, so energies are those of one; a block's energy is divided among its words.
    """
    size = UNLIMITED if level.size_words is None else level.size_words
    pj = level.read_energy_pj / level.block_size, level.write_energy_pj / level.block_size
    return NvdlaBuffer(size * instances, *pj)
