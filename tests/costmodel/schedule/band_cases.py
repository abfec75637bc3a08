"""Random networks of windows, strides, padding and branches, and random segments of them with bands."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from costmodel.hardware.chip import Chip
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.program.program import Program
from costmodel.schedule.program.writer import write_program
from costmodel.schedule.row_bands import band_violations
from costmodel.schedule.tile_cost import TileCosts
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode
from costmodel.schedule.tree.validity import NotPossibleError
from tests.costmodel.schedule.chip_cases import FormulaCosts, chip, layer, of_widths

CHIPS = [
    chip(2, 2, link=20, dram=8),
    of_widths(chip(3, 2, stripe=2, link=9), 4, 12, 24),
    chip(1, 4, link=8),
    chip(5, 1, dram=9),
    of_widths(chip(4, 3), 5, 5, 5),
]
"""Of bytes, and of elements that are no whole bytes."""


def windows(random: Random, layers: int) -> LayerGraph:
    """Convolutions, groups, pooling and sums of two layers; every layer reads some layer before it."""
    found = [_window(random, "first", 3, random.choice([12, 16, 17, 24]), None, ())]
    for number in range(1, layers):
        producer = random.choice([number - 1, number - 1, random.randrange(number)])
        it = found[producer]
        alike = [
            other
            for other, one in enumerate(found)
            if other != producer and (one.k, one.h, one.w) == (it.k, it.h, it.w)
        ]
        name = f"layer{number}"
        if alike and random.random() < 0.6:
            both = tuple(sorted((random.choice(alike), producer)))
            sizes = {"c": 2 * it.k, "k": it.k, "h": it.h, "w": it.w}
            found.append(layer(name, "eltwise", operands=2, producers=both, **sizes))
        else:
            found.append(_window(random, name, it.k, it.h, it, (producer,)))
    return LayerGraph("windows", tuple(found))


def _window(
    random: Random, name: str, c: int, rows: int, before: NetworkLayer | None, producers: tuple[int, ...]
) -> NetworkLayer:
    columns = before.w if before else random.choice([3, 4])
    r, stride = random.choice([1, 2, 3, 3, 5]), random.choice([1, 1, 1, 2])
    # symmetric padding, none, or windows that begin inside the input
    pad = random.choice([r // 2, r // 2, 0, -1])
    h = (rows + pad + max(pad, 0) - r) // stride + 1
    if h < 4:
        r, stride, pad, h = 1, 1, 0, rows
    kind = random.choice(["conv", "conv", "conv", "pool", "groupconv"])
    k = c if kind != "conv" else random.choice([2, 4, 6])
    groups = c if kind == "groupconv" else 1
    external: dict[str, Any] = {} if producers else {"external_c": c}
    return layer(
        name,
        kind,
        c=c,
        k=k,
        h=h,
        w=columns,
        r=r,
        stride_h=stride,
        pad_h=pad,
        input_h=rows,
        groups=groups,
        producers=producers,
        **external,
    )


def segment_with_bands(random: Random, names: list[str], batch: int, bands: int) -> TreeNode:
    """A cut with bands over random cuts of one sub-batch."""
    parts = random.choice([part for part in (1, 2, 3) if batch % part == 0])
    children = _pieces(random, names, batch // parts, 2)
    return Cut(random.choice("ST"), batch, parts, children, bands)  # type: ignore[arg-type]


def _pieces(random: Random, names: list[str], batch: int, deepest: int) -> tuple[TreeNode, ...]:
    ends = [
        *sorted(random.sample(range(1, len(names)), random.randint(0, min(2, len(names) - 1)))),
        len(names),
    ]
    if len(ends) == 1 or deepest == 0:
        return tuple(Leaf(name, batch) for name in names)
    found: list[TreeNode] = []
    for first, end in zip([0, *ends], ends, strict=False):
        piece = names[first:end]
        if len(piece) == 1:
            found.append(Leaf(piece[0], batch))
        else:
            found.append(Cut(random.choice("ST"), batch, 1, _pieces(random, piece, batch, deepest - 1)))  # type: ignore[arg-type]
    return tuple(found)


def drawn(seed: int) -> tuple[LayerGraph, TreeNode, Chip, int]:
    """A network, a tree with bands for it, a chip and a batch."""
    random = Random(seed)
    graph, batch = windows(random, random.randint(1, 6)), random.choice([1, 1, 2, 4])
    rounds = random.choice([part for part in (1, 2) if batch % part == 0])
    names = [one.name for one in graph.layers]
    cut = random.randint(0, len(names) - 1) if random.random() < 0.3 else 0
    segments: list[TreeNode] = [Leaf(name, batch // rounds) for name in names[:cut]]
    segments.append(segment_with_bands(random, names[cut:], batch // rounds, random.choice([2, 2, 3, 4])))
    return graph, Cut("T", batch, rounds, tuple(segments)), CHIPS[seed % len(CHIPS)], batch


def written(
    seed: int, costs: Callable[[LayerGraph], TileCosts] = FormulaCosts
) -> tuple[LayerGraph, Program, ChipEvaluation] | None:
    """The program of a drawn tree; None where the layers have no such bands, or the chip cannot run them."""
    graph, tree, on, batch = drawn(seed)
    if band_violations(tree, graph):
        return None
    try:
        found = ChipEvaluator(graph, on, batch, costs(graph)).evaluate(tree)
    except NotPossibleError:
        return None
    return graph, write_program(graph, found), found
