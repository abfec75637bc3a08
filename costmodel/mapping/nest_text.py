"""Mappings as one line of text, which is short enough to keep thousands of them.

Levels stand outermost first and are divided by ``|``. Each has its temporal loops, outermost first; then its
spatial loops behind ``x`` and ``y``, in the mapping's order; then the tensors that it keeps behind ``:``::

    P2 : Inputs Outputs Weights | x C8 y N2 : | K8 : Weights | C2 R3 S3 y C8 : Outputs

A part of a level, in an uneven mapping, begins with ``+`` where it is not the outermost part of its level.
Layouts that are not the machine's own follow behind ``@``, by role::

    P2 : Inputs Outputs Weights | K8 C2 R3 S3 : Outputs @ inputs N C Q P 8C @ outputs N K Q P
"""

from __future__ import annotations

import re
from typing import cast, get_args

import numpy as np

from costmodel.errors import InputError
from costmodel.hardware.timing import Layouts
from costmodel.mapping.batch.batch import MappingBatch
from costmodel.mapping.batch.batch_tables import BatchRows
from costmodel.mapping.mapping import LevelMapping, Loop, Mapping
from costmodel.mapping.uneven import AnyMapping, UnevenMapping, as_parts
from costmodel.workload.network import Layer, Role

LEVEL = re.compile(r"(\+ )?((?:\w+ )*?)(?:x ((?:\w+ )+?))?(?:y ((?:\w+ )+?))?:((?: \w+)*)")
LOOP = re.compile(r"([A-Za-z_]\w*?)(\d+)")


def nest_text(mapping: AnyMapping) -> str:
    """The mapping as text; :func:`mapping_of_text` reads it."""
    parts = as_parts(mapping)
    texts = []
    for index, level in reversed(list(enumerate(parts.nest.levels))):
        outermost = index + 1 == len(parts.part_levels)
        same = not outermost and parts.part_levels[index + 1] == parts.part_levels[index]
        words = ["+"] if same else []
        words += [f"{dim}{bound}" for dim, bound in reversed(level.temporal)]
        for side, loops in (("x", level.spatial_x), ("y", level.spatial_y)):
            words += [side, *(f"{dim}{bound}" for dim, bound in loops)] if loops else []
        texts.append(" ".join([*words, ":", *sorted(level.keep)]))
    return " | ".join(texts) + _layouts_text(mapping.layouts)


def _layouts_text(layouts: Layouts) -> str:
    return "".join(f" @ {' '.join([role, *entries])}" for role, entries in layouts)


def nest_texts(batch: MappingBatch, layer: Layer) -> list[str]:
    """The text of each row of ``batch``, as :func:`nest_text` writes it."""
    rows = BatchRows(*(array[:, ::-1] for array in batch.rows))  # outermost levels first
    order = rows.permutation[:, :, ::-1]
    own_order = np.broadcast_to(np.arange(order.shape[2]), order.shape)
    n, levels = len(batch), order.shape[1]
    words: list[list[str]] = [[] for _ in range(n * levels)]
    # Most factors are 1, and array operations find the others soonest.
    names = list(layer.sizes)
    for side, factors, dims in (
        ("", np.take_along_axis(rows.temporal, order, axis=2), order),
        ("x", rows.spatial_x, own_order),
        ("y", rows.spatial_y, own_order),
    ):
        at = np.nonzero(factors != 1)
        before = -1
        loops = ((at[0] * levels + at[1]).tolist(), dims[at].tolist(), factors[at].tolist())
        for level, dim, bound in zip(*loops, strict=True):
            if side and level != before:
                words[level].append(side)
            before = level
            words[level].append(f"{names[dim]}{bound}")
    tensors = sorted((tensor.name, number) for number, tensor in enumerate(layer.tensors))
    for level, keep in enumerate(rows.keep.reshape(n * levels, len(tensors)).tolist()):
        words[level] += [":", *(name for name, number in tensors if keep[number])]
    texts = [" ".join(level) for level in words]
    loops_only = [" | ".join(texts[row : row + levels]) for row in range(0, n * levels, levels)]
    if batch.layouts is None:
        return loops_only
    return [text + _layouts_text(own) for text, own in zip(loops_only, batch.layouts, strict=True)]


def mapping_of_text(text: str) -> AnyMapping:
    """The mapping of :func:`nest_text`; InputError for other text."""
    levels: list[LevelMapping] = []
    depth: list[int] = []
    nest_part, *layout_parts = text.split(" @ ")
    for written in nest_part.split(" | "):
        found = LEVEL.fullmatch(written)
        if found is None:
            raise InputError("mapping", "loops, x and y loops, a colon and tensors", written)
        same, temporal, x, y, keep = found.groups(default="")
        loops = LevelMapping(_loops(temporal)[::-1], _loops(x), _loops(y), frozenset(keep.split()))
        levels.append(loops)
        depth.append(depth[-1] if same else len(set(depth)))
    nest, last = Mapping(tuple(levels[::-1]), _layouts(layout_parts)), depth[-1]
    part_levels = tuple(last - number for number in depth[::-1])
    return nest if len(set(depth)) == len(depth) else UnevenMapping(nest, part_levels)


def _layouts(texts: list[str]) -> Layouts:
    found = []
    for text in texts:
        role, *entries = text.split(" ")
        if role not in get_args(Role):
            raise InputError("mapping", "a role and its layout, such as inputs N C Q P", text)
        found.append((cast(Role, role), tuple(entries)))
    return tuple(found)


def _loops(text: str) -> tuple[Loop, ...]:
    found = []
    for word in text.split():
        loop = LOOP.fullmatch(word)
        if loop is None:
            raise InputError("mapping", "a dim and its bound, such as K8", word)
        found.append((loop[1], int(loop[2])))
    return tuple(found)
