"""Row-stationary mappings in the notation of the Eyeriss papers, read into :class:`Mapping`.

The chip works in *processing passes*. A *set* of R x e PEs makes e rows of outputs: each PE keeps a row of a
filter and slides it along a row of inputs, and partial sums are added up along the set's columns. In one pass
the array makes, for ``n`` samples, e rows of outputs of ``p * t`` filters from ``q * r`` channels::

    for k in K / m, samples in N / n, columns in Q / f, strips of e rows of P:     buffer: sums of m filters
        for c in C / (q r):                                                        buffer: inputs of q r
        channels
            for filters in m / (p t):                                              one pass
                in parallel: e rows, R rows of a filter, r sets of channels, t sets of filters
                    for n, f, q, S, p: one MAC a cycle in every PE

The letters are those of Table III of the JSSC paper (52(1), 2017); ``f``, columns of outputs that are made in
one piece, is ours: the paper always takes all.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from costmodel.errors import InputError
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.mapping import LevelMapping, Loop, Mapping, loops
from costmodel.workload.network import Layer

LEVELS = ("DRAM", "GlobalBuffer", "FilterScratchpad", "InputScratchpad", "PartialSumScratchpad")
"""The levels that the notation speaks of, outermost first, by their names in ``eyeriss-v1``."""

DIMS = ("R", "S", "P", "Q", "C", "K", "N")


@dataclass(frozen=True)
class RowStationary:
    """A row-stationary mapping: ``m`` filters whose sums are in the buffer, ``n`` samples, ``e`` rows of a
    set, ``p``
    filters and ``q`` channels of a PE, ``r`` sets side by side for channels and ``t`` for filters, ``f``
    columns of outputs in one piece (None: all).
    """

    m: int
    n: int
    e: int
    p: int
    q: int
    r: int
    t: int
    f: int | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name == "f" and value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InputError(
                    "row-stationary mapping", "a whole number of at least 1", value, key=each.name
                )
        if self.m % (self.p * self.t):
            expected = f"a multiple of p * t = {self.p * self.t}"
            raise InputError("row-stationary mapping", expected, self.m, key="m")

    @classmethod
    def from_json(cls, data: Any, where: str) -> RowStationary:
        """The mapping of an object with the keys m n e p q r t, and f if it likes."""
        names = [each.name for each in fields(cls)]
        if not isinstance(data, dict) or not set(names[:-1]) <= set(data) <= set(names):
            remedy = "Give the numbers of Table III of the Eyeriss paper, as in docs/silicon-eyeriss.md"
            raise InputError(where, "an object with m n e p q r t, and f if not all columns", data, remedy)
        try:
            return cls(**data)
        except InputError as error:
            raise error.at(where) from None


@dataclass(frozen=True)
class Strips:
    """Strips of rows of a layer that are equally high: a layer of these rows, and its mapping."""

    layer: Layer
    mapping: Mapping
    active_pes: int


def strips(layer: Layer, mapping: RowStationary, architecture: Architecture) -> tuple[Strips, ...]:
    """The layer as the chip runs it: all strips of e rows, then the rows that are left.

    A strip of fewer rows uses fewer PEs and moves fewer words, so it is a layer of its own. What the layer
    costs is the sum over the strips. InputError for an architecture with other levels than ``eyeriss-v1``, a
    layer with other dims than a convolution's, and sizes that do not divide.
    """
    names = tuple(level.name for level in reversed(architecture.levels))
    if names != LEVELS:
        remedy = "Take eyeriss-v1, or a file with its levels"
        raise InputError(f"architecture {architecture.name}", f"the levels {LEVELS}", names, remedy)
    sizes = layer.sizes
    if set(sizes) - set(DIMS):
        raise InputError(f"layer {layer.name}", f"dims among {' '.join(DIMS)}", " ".join(sizes))
    columns = mapping.f or sizes.get("Q", 1)
    for dim, letters, factor in (
        ("N", "n", mapping.n),
        ("K", "m", mapping.m),
        ("C", "q * r", mapping.q * mapping.r),
        ("Q", "f", columns),
    ):
        if sizes.get(dim, 1) % factor:
            expected = f"a divisor of {dim} = {sizes.get(dim, 1)}"
            raise InputError(f"row-stationary mapping of {layer.name}", expected, factor, key=letters)
    rows = sizes.get("P", 1)
    whole, rest = divmod(rows, mapping.e)
    return tuple(
        _strips(layer, replace(mapping, e=height, f=columns), count)
        for height, count in ((mapping.e, whole), (rest, 1))
        if height * count
    )


def _strips(layer: Layer, mapping: RowStationary, count: int) -> Strips:
    """``count`` strips of e rows as a layer, and their nest."""
    part = replace(
        layer,
        dims=tuple((dim, mapping.e * count if dim == "P" else size) for dim, size in layer.dims),
    )
    sizes = part.sizes
    named = {tensor.role: tensor.name for tensor in layer.tensors}
    keeps = {
        "DRAM": frozenset(named.values()),
        "GlobalBuffer": frozenset({named["inputs"], named["outputs"]}),
        "FilterScratchpad": frozenset({named["weights"]}),
        "InputScratchpad": frozenset({named["inputs"]}),
        "PartialSumScratchpad": frozenset({named["outputs"]}),
    }
    outer = [
        ("C", sizes.get("C", 1) // (mapping.q * mapping.r)),
        ("P", count),
        ("Q", sizes["Q"] // (mapping.f or sizes["Q"])),
        ("N", sizes.get("N", 1) // mapping.n),
        ("K", sizes["K"] // mapping.m),
    ]
    # innermost first, as in every mapping
    temporal: dict[str, list[Loop]] = {
        "DRAM": outer,
        "GlobalBuffer": [("K", mapping.m // (mapping.p * mapping.t))],
        "FilterScratchpad": [("Q", mapping.f or sizes["Q"]), ("N", mapping.n)],
        "InputScratchpad": [("S", sizes["S"]), ("C", mapping.q)],
        "PartialSumScratchpad": [("K", mapping.p)],
    }
    parallel = [("P", mapping.e), ("R", sizes["R"]), ("C", mapping.r), ("K", mapping.t)]
    nest = Mapping(
        tuple(
            LevelMapping(
                loops(temporal[name]), loops(parallel) if name == "GlobalBuffer" else (), (), keeps[name]
            )
            for name in reversed(LEVELS)
        )
    )
    return Strips(part, nest, nest.utilized_instances[0])
