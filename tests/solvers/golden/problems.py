"""Small layers and architectures that frozen problems are made of, and what is written down of answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from costmodel.formats.architectures import load_architecture
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.uneven import AnyMapping, UnevenMapping
from costmodel.workload.network import Layer, Role, Tensor, batched_matmul, convolution, gemm
from solvers.budget import Budget
from solvers.outcome import Outcome

Answer = dict[str, Any]
"""Plain data: what is frozen of one answer."""

ENOUGH = 600.0
"""Wall seconds that no problem here needs."""


@dataclass(frozen=True)
class Case:
    """One problem of one solver, under a name that no other problem of that solver has."""

    name: str
    problem: Any
    budget: Budget
    params: dict[str, Any]
    frozen: Callable[[Outcome[Any]], Answer]


def nest(name: str, sizes: dict[str, int], *tensors: tuple[str, Role, tuple[str, ...]]) -> Layer:
    """A layer whose tensors (name, role, dims) have one dim an axis."""
    made = (
        Tensor.of_terms(tensor, tuple(((dim, 1),) for dim in dims), role) for tensor, role, dims in tensors
    )
    return Layer(name, tuple(sizes.items()), tuple(made))


def window(name: str, **sizes: int) -> Layer:
    """A pooling: every output reads a window of one channel, and there are no weights."""
    stride = sizes.pop("stride")
    axes = ((("C", 1),), (("R", 1), ("P", stride)))
    tensors = (
        Tensor.of_terms("Inputs", axes, "inputs"),
        Tensor.of_terms("Outputs", ((("C", 1),), (("P", 1),)), "outputs"),
    )
    return Layer(name, tuple(sizes.items()), tensors)


PRODUCT = gemm("product", M=12, N=10, K=18)
SLIDING = convolution("sliding", K=6, C=4, P=7, Q=6, R=3, S=3)
LAYERS = (
    PRODUCT,
    batched_matmul("batched", B=4, M=6, N=5, K=8),
    SLIDING,
    convolution("strided", K=8, C=3, P=6, Q=5, R=3, S=1, stride=(2, 1)),
    convolution("depthwise", K=8, C=8, P=6, Q=6, R=3, S=3, groups=8),
    gemm("primes", M=7, N=13, K=11),
    convolution("dilated", K=4, C=5, P=6, Q=4, R=3, S=2, dilation=(2, 3)),
    convolution("grouped", K=8, C=12, P=4, Q=6, R=3, S=1, groups=4),
    gemm("vector", M=1, N=24, K=16),
    convolution("pointwise", K=16, C=12, P=5, Q=4, R=1, S=1),
    gemm("powers", M=16, N=32, K=8),
    convolution("strided and dilated", K=3, C=4, P=4, Q=5, R=2, S=3, stride=(3, 2), dilation=(1, 2)),
    convolution("samples", N=3, K=4, C=6, P=4, Q=3, R=2, S=2),
    batched_matmul("batched row", B=6, M=1, N=7, K=10),
    convolution("column", K=4, C=8, P=12, Q=1, R=5, S=1),
    gemm("one word", M=1, N=1, K=1),
    nest(
        "element-wise",
        {"M": 12, "N": 8},
        ("A", "inputs", ("M", "N")),
        ("B", "weights", ("M", "N")),
        ("Z", "outputs", ("M", "N")),
    ),
    window("pooled", C=6, P=8, R=3, stride=2),
    nest(
        "outer product",
        {"M": 15, "N": 14},
        ("A", "inputs", ("M",)),
        ("B", "weights", ("N",)),
        ("Z", "outputs", ("M", "N")),
    ),
    nest(
        "three operands",
        {"I": 6, "J": 4, "K": 5, "L": 3},
        ("A", "inputs", ("I", "K", "L")),
        ("B", "weights", ("K", "J")),
        ("C", "weights", ("L", "J")),
        ("Z", "outputs", ("I", "J")),
    ),
)
TINY = (
    gemm("product", M=4, N=6, K=4),
    convolution("sliding", K=2, C=2, P=4, Q=2, R=3, S=1),
    batched_matmul("batched", B=2, M=3, N=2, K=4),
    convolution("strided", K=2, C=3, P=3, Q=1, R=2, S=1, stride=(2, 1)),
    convolution("depthwise", K=4, C=4, P=3, Q=2, R=2, S=1, groups=4),
    gemm("primes", M=3, N=5, K=7),
    convolution("dilated", K=2, C=3, P=4, Q=1, R=3, S=1, dilation=(2, 1)),
    gemm("vector", M=1, N=8, K=9),
)
"""So small that all their mappings can be enumerated."""


def shrunk(name: str, words: tuple[int, ...]) -> Architecture:
    """The outer levels of a library architecture with so few words that capacities count."""
    architecture = load_architecture(name)
    levels = architecture.levels[-len(words) - 1 :]
    sized = (replace(level, size_words=size) for level, size in zip(levels, words, strict=False))
    return replace(architecture, levels=(*sized, levels[-1]))


@cache
def architectures() -> tuple[Architecture, ...]:
    """Two to six levels; wide and narrow fan-outs; levels that hold all tensors, and some that do not."""
    return (
        load_architecture("eyeriss"),
        shrunk("E_four_level", (8, 60)),
        shrunk("D_tpu_like", (6, 64)),
        shrunk("tpu-like", (2, 24, 150)),
        shrunk("C_two_level", (40,)),
        shrunk("kapla-16x16-paper", (5, 90)),
        shrunk("simba", (1, 4, 30, 24, 160)),
    )


@cache
def tiny_architectures() -> tuple[Architecture, ...]:
    """For the layers of :data:`TINY`."""
    return (
        shrunk("C_two_level", (14,)),
        shrunk("D_tpu_like", (3, 16)),
        shrunk("E_four_level", (8, 30)),
        shrunk("eyeriss", (5, 24)),
    )


def digest(value: object) -> str:
    """The beginning of a hash of plain data."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def plain(mapping: AnyMapping) -> object:
    """A mapping as lists, its sets in the order of names."""
    if isinstance(mapping, UnevenMapping):
        return [plain(mapping.nest), list(mapping.part_levels)]
    return [
        [
            [list(map(list, block)) for block in (level.temporal, level.spatial_x, level.spatial_y)],
            sorted(level.keep),
        ]
        for level in mapping.levels
    ]


def numbers(outcome: Outcome[Any]) -> Answer:
    """What is said of the solution, without the solution."""
    return {"status": str(outcome.status), "objective": outcome.objective, "bound": outcome.bound}


def nine_digits(outcome: Outcome[Any]) -> Answer:
    """The objective as far as two versions of a numerical library agree on it."""
    value = None if outcome.objective is None else float(f"{outcome.objective:.9g}")
    return {"found": outcome.solution is not None, "objective": value}
