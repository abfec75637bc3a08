"""Fusion problems and fused mappings as JSON objects, and back.

A problem is a chain of einsums on a stack of memories. This one has two products, Y = X A and Z = Y B, and
its memories are a buffer of 4,096 words and DRAM::

    {"einsums": [{"name": "first", "dims": {"m": 64, "k": 32, "n": 32}, "output": "Y", "tensors": {
                      "X": [[["m", 1]], [["k", 1]]], "A": [[["k", 1]], [["n", 1]]],
                      "Y": [[["m", 1]], [["n", 1]]]}},
                 {"name": "second", ...}],
     "levels": [{"name": "buffer", "capacity": 4096, "read_pj": 1.0, "write_pj": 1.0, "read_bw": 8},
                {"name": "DRAM", "capacity": null, "read_pj": 100.0, "write_pj": 100.0}],
     "mac_pj": 0.5}

A tensor is a list of axes, an axis a list of [dim, coefficient] whose sum is the index. Levels go from the
inside outwards; a ``capacity`` of null is any number of words, and ``read_bw`` and ``write_bw`` in words a
cycle are null or absent without a limit. ``halo`` has the windows of a problem with convolutions.

A mapping has ``prefix``, ``paths``, ``own``, ``backing`` and ``hoist``, as :class:`FusedMapping` explains
them.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

from costmodel.errors import InputError
from costmodel.formats.json.json_fields import field, known_names, whole_number
from costmodel.mapping.fused.counts import EinsumCounts
from costmodel.mapping.fused.evaluate import FusedEvaluation
from costmodel.mapping.fused.mapping import FusedMapping, Loops
from costmodel.mapping.fused.problem import AxisTerms, Einsum, FusedLevel, FusedProblem, Halo

MOST_SIZE = 2**40
"""The largest size of a dim: the words of tensors then still are whole numbers that are counted exactly."""


def problem_from_json(data: Any, where: str) -> FusedProblem:
    """The problem of a JSON object; InputError names the key that is missing or wrong."""
    einsums = field(data, "einsums", list, where)
    levels = field(data, "levels", list, where)
    known_names(data, ("einsums", "levels", "mac_pj", "halo"), where, "problem")
    halo = data.get("halo", {})
    if not isinstance(halo, dict):
        raise InputError(where, "an object", halo, key="halo")
    try:
        return FusedProblem(
            tuple(_einsum(one, f"{where}: einsums[{i}]") for i, one in enumerate(einsums)),
            tuple(_level(one, f"{where}: levels[{i}]") for i, one in enumerate(levels)),
            _number(data, "mac_pj", where),
            {dim: _halo(one, f"{where}: halo.{dim}") for dim, one in halo.items()},
        )
    except InputError as error:
        # The readers above name the file and the key. The checks of the value itself know of no file: their
        # errors get it here.
        raise error if error.where.startswith(where) else error.at(f"{where}: {error.where}") from None


def problem_to_json(problem: FusedProblem) -> dict[str, Any]:
    """The object that :func:`problem_from_json` reads."""
    content: dict[str, Any] = {
        "einsums": [
            {
                "name": einsum.name,
                "dims": dict(einsum.dims),
                "tensors": {name: _axes_to_json(axes) for name, axes in einsum.tensors.items()},
                "output": einsum.output,
            }
            for einsum in problem.einsums
        ],
        "levels": [
            {
                "name": level.name,
                "capacity": level.capacity,
                "read_pj": level.read_pj,
                "write_pj": level.write_pj,
                "read_bw": level.read_bw,
                "write_bw": level.write_bw,
            }
            for level in problem.levels
        ],
        "mac_pj": problem.mac_pj,
    }
    if problem.halo:
        content["halo"] = {
            dim: {"dim": halo.dim, "axis": [list(term) for term in halo.axis]}
            for dim, halo in problem.halo.items()
        }
    return content


def fused_mapping_from_json(data: Any, where: str) -> FusedMapping:
    """The mapping of a JSON object; InputError for a key that is missing or of another type.

    It is not held against a problem: :mod:`costmodel.mapping.fused.checker` does that.
    """
    prefix = field(data, "prefix", list, where)
    paths, own = field(data, "paths", list, where), field(data, "own", list, where)
    backing, hoist = data.get("backing", {}), data.get("hoist", {})
    known_names(data, ("prefix", "paths", "own", "backing", "hoist"), where, "mapping")
    for key, value in (("backing", backing), ("hoist", hoist)):
        if not isinstance(value, dict):
            raise InputError(where, "an object", value, key=key)
    for name, tensors in hoist.items():
        if not isinstance(tensors, dict):
            raise InputError(where, "an object", tensors, key=f"hoist.{name}")
    # A text, too, would do as a list of its letters, and end in an error about a loop that nobody wrote.
    for lists in own:
        if not isinstance(lists, list):
            raise InputError(where, "a list of lists of loops for every einsum", lists, key="own")
    return FusedMapping(
        tuple(whole_number(shared, where, "prefix", 0) for shared in prefix),
        tuple(_loops(loops, where, "paths") for loops in paths),
        tuple(tuple(_loops(loops, where, "own") for loops in lists) for lists in own),
        {name: whole_number(level, where, f"backing.{name}", 0) for name, level in backing.items()},
        {
            name: {
                tensor: whole_number(depth, where, f"hoist.{name}.{tensor}", 0)
                for tensor, depth in tensors.items()
            }
            for name, tensors in hoist.items()
        },
    )


def fused_mapping_to_json(mapping: FusedMapping) -> dict[str, Any]:
    """The object that :func:`fused_mapping_from_json` reads."""

    def plain(loops: Loops) -> list[list[Any]]:
        return [list(loop) for loop in loops]

    return {
        "prefix": list(mapping.prefix),
        "paths": [plain(path) for path in mapping.paths],
        "backing": dict(mapping.backing),
        "hoist": {name: dict(tensors) for name, tensors in mapping.hoist.items() if tensors},
        "own": [[plain(loops) for loops in lists] for lists in mapping.own],
    }


def evaluation_to_json(problem: FusedProblem, evaluation: FusedEvaluation) -> dict[str, Any]:
    """Energy in pJ, cycles, and the most words that each level holds, from the innermost one (``peak``).

    ``counts`` has the accesses by einsum, level (its number, or ``mac``) and tensor; those of zero are left
    out.
    """
    return {
        "energy_pj": evaluation.energy_pj,
        "cycles": evaluation.cycles,
        "counts": {
            einsum.name: _counts_to_json(counts)
            for einsum, counts in zip(problem.einsums, evaluation.counts, strict=True)
        },
        "peak": list(evaluation.peak),
    }


def _counts_to_json(counts: EinsumCounts) -> dict[str, Any]:
    found: dict[str, Any] = {"mac": {"-": {"macs": counts.operations}}}
    # By number: nothing says that names of levels differ, while their order is the problem's.
    for number, level in enumerate(counts.levels):
        tensors = {
            tensor: {name: words for name, words in vars(access).items() if words}
            for tensor, access in sorted(level.items())
        }
        if kept := {tensor: words for tensor, words in tensors.items() if words}:
            found[str(number)] = kept
    return found


def _einsum(data: Any, where: str) -> Einsum:
    name, dims = field(data, "name", str, where), field(data, "dims", dict, where)
    tensors, output = field(data, "tensors", dict, where), field(data, "output", str, where)
    known_names(data, ("name", "dims", "tensors", "output"), where, "einsum")
    for dim, size in dims.items():
        # Python's whole numbers have no end, so a slip of the keyboard would be counted instead of refused.
        if whole_number(size, where, f"dims.{dim}") > MOST_SIZE:
            raise InputError(where, f"a size of at most {MOST_SIZE:,}", size, key=f"dims.{dim}")
    axes = {tensor: _axes(one, where, f"tensors.{tensor}") for tensor, one in tensors.items()}
    try:
        return Einsum(name, dims, axes, output)
    except InputError as error:
        raise error.at(where) from None


def _axes(data: Any, where: str, key: str) -> tuple[AxisTerms, ...]:
    if not isinstance(data, list):
        raise InputError(where, "a list of axes", data, key=key)
    return tuple(_axis(axis, where, key) for axis in data)


def _axis(data: Any, where: str, key: str) -> AxisTerms:
    expected = "an axis, a list of [dim, coefficient]"
    if not isinstance(data, list):
        raise InputError(where, expected, data, key=key)
    terms = []
    for term in data:
        if not (isinstance(term, list) and len(term) == 2 and isinstance(term[0], str)):
            raise InputError(where, expected, term, key=key)
        terms.append((term[0], whole_number(term[1], where, key)))
    return tuple(terms)


def _axes_to_json(axes: tuple[AxisTerms, ...]) -> list[list[list[Any]]]:
    return [[list(term) for term in axis] for axis in axes]


def _level(data: Any, where: str) -> FusedLevel:
    name = field(data, "name", str, where)
    keys = ("name", "capacity", "read_pj", "write_pj", "read_bw", "write_bw")
    known_names(data, keys, where, "level")
    # No likely value is taken: null for a forgotten capacity would make a memory in which everything fits.
    if "capacity" not in data:
        raise InputError(where, "words, or null for any number", "nothing", key="capacity")
    capacity = data["capacity"]
    words = None if capacity is None else whole_number(capacity, where, "capacity", 0)
    rates = [_number(data, key, where) if data.get(key) is not None else None for key in keys[4:]]
    for key, rate in zip(keys[4:], rates, strict=True):
        # Cycles are words divided by this rate.
        if rate == 0:
            raise InputError(where, "more than 0 words a cycle, or null for no limit", 0, key=key)
    return FusedLevel(name, words, _number(data, "read_pj", where), _number(data, "write_pj", where), *rates)


def _halo(data: Any, where: str) -> Halo:
    return Halo(field(data, "dim", str, where), _axis(field(data, "axis", list, where), where, "axis"))


def _number(data: Any, key: str, where: str) -> float:
    value = data.get(key)
    # ``true`` is a number in Python and would be read as 1; JSON readers also know NaN and Infinity, which
    # would make every comparison of energies false.
    right = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not right or not isfinite(value) or value < 0:
        raise InputError(where, "a number of at least 0", value, key=key)
    return float(value)


def _loops(data: Any, where: str, key: str) -> Loops:
    expected = "a list of loops [dim, step]"
    if not isinstance(data, list):
        raise InputError(where, expected, data, key=key)
    loops = []
    for loop in data:
        if not (isinstance(loop, list) and len(loop) == 2 and isinstance(loop[0], str)):
            raise InputError(where, expected, loop, key=key)
        loops.append((loop[0], whole_number(loop[1], where, key)))
    return tuple(loops)
