"""Directives as text, in the form of KAPLA's Listing 1: writing and reading it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from costmodel.errors import InputError, did_you_mean
from costmodel.formats.directives.values import (
    Amounts,
    LayerScheme,
    LevelScheme,
    Stack,
    TensorTile,
    Update,
)

LEVEL_NAMES = ("REGF", "GBUF", "DRAM")
"""KAPLA's levels from the inside out."""
HEADING = re.compile(r"([A-Za-z_][\w.\-/]*):")
DIRECTIVE = re.compile(r"(\w+)(?:\{([^{}]+)\})?\((.*)\)")
LONGEST_NUMBER = 18


def format_layers(layers: Iterable[LayerScheme]) -> str:
    """The text of layers, with a newline after every line; a level's output tensor is written last."""
    return "".join(line + "\n" for layer in layers for line in _layer_lines(layer))


def _layer_lines(layer: LayerScheme) -> Iterator[str]:
    yield f"{layer.name}:"
    for level in layer.levels:
        yield f"  {level.name}:"
        for tensor in sorted(level.tensors, key=lambda tensor: tensor.output):
            shared = [f"shr={tensor.shared}"] if tensor.shared > 1 else []
            yield f"    tensor{{{tensor.name}}}({', '.join([*_written(tensor.sizes, '='), *shared])})"
        for stack in level.stacks:
            yield f"    stack({', '.join([*_written(stack.shifts, '+='), str(stack.replicas)])})"
        for update in level.updates:
            yield f"    update({', '.join(_written(update.steps, '+='))})"


def _written(amounts: Amounts, sign: str) -> list[str]:
    return [f"{dim}{sign}{amount}" for dim, amount in amounts]


def parse_layers(
    text: str, where: str = "directives", level_names: Sequence[str] = LEVEL_NAMES
) -> tuple[LayerScheme, ...]:
    """The layers of a text.

    What follows ``%`` is a comment, and indentation does not matter. A heading among ``level_names`` (listed
    from the inside out) opens a level, any other one a layer. A level without directives is left out. The
    last tensor of a level is the layer's output, as in Listing 1. Raises InputError with the line that is
    wrong.
    """
    layers: list[LayerScheme] = []
    levels: list[LevelScheme] = []
    name = ""
    for number, content in _lines(text):
        line_where = f"{where}: line {number}"
        try:
            if (heading := HEADING.fullmatch(content)) and heading[1] in level_names:
                if not name:
                    raise InputError("", "a layer's name before its levels", content)
                levels.append(LevelScheme(heading[1], ()))
            elif heading:
                layers += _finished(name, levels, level_names)
                name, levels = heading[1], []
            elif levels:
                levels[-1] = _with_directive(levels[-1], content)
            else:
                raise InputError("", "a layer's name and a level before directives", content)
        except InputError as error:
            raise error.at(": ".join(part for part in (line_where, error.where) if part)) from None
    layers += _finished(name, levels, level_names)
    if not layers:
        raise InputError(where, "a layer", "no line that opens one")
    return tuple(layers)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), start=1):
        content = line.partition("%")[0].strip()
        if content:
            yield number, content


def _finished(name: str, levels: list[LevelScheme], level_names: Sequence[str]) -> list[LayerScheme]:
    """The layer that a new heading or the end of the text completes; nothing before the first heading."""
    if not name:
        return []
    where = f"layer {name}"
    written = [level for level in levels if level.tensors or level.stacks or level.updates]
    order = [level_names.index(level.name) for level in written]
    if not written or order != sorted(order):
        expected = f"levels from the inside out ({', '.join(level_names)})"
        raise InputError(where, expected, ", ".join(level.name for level in written) or "none")
    if bare := [level.name for level in written if not level.tensors]:
        raise InputError(where, "tensors in every level", bare[0])
    return [LayerScheme(name, tuple(_with_output(level) for level in written))]


def _with_output(level: LevelScheme) -> LevelScheme:
    *inputs, last = level.tensors
    return replace(level, tensors=(*inputs, replace(last, output=True)))


def _with_directive(level: LevelScheme, content: str) -> LevelScheme:
    found = DIRECTIVE.fullmatch(content)
    kinds = ("tensor", "stack", "update")
    if found is None or found[1] not in kinds or (found[1] == "tensor") != bool(found[2]):
        expected = "tensor{NAME}(C=2, ..., shr=4), stack(K+=6, ..., 4) or update(C+=4, ...)"
        raise InputError("", expected, content, did_you_mean(content.split("(")[0], kinds))
    arguments = [part.strip() for part in found[3].split(",") if part.strip()]
    if found[1] == "tensor":
        sizes = _amounts(arguments, "=")
        shared = dict(sizes).get("shr", 1)
        tile = TensorTile(found[2], tuple(pair for pair in sizes if pair[0] != "shr"), shared)
        return replace(level, tensors=(*level.tensors, tile))
    if found[1] == "update":
        return replace(level, updates=(*level.updates, Update(_amounts(arguments, "+="))))
    if not arguments or "=" in arguments[-1]:
        raise InputError("", "how many buffers there are, last", content, key="repl")
    stack = Stack(_amounts(arguments[:-1], "+="), _number(arguments[-1], content))
    return replace(level, stacks=(*level.stacks, stack))


def _amounts(arguments: list[str], sign: str) -> Amounts:
    pairs = []
    for argument in arguments:
        dim, found, value = argument.partition(sign)
        if not found or not dim.strip().isidentifier():
            raise InputError("", f"a dim{sign}amount", argument)
        pairs.append((dim.strip(), _number(value, argument)))
    return tuple(pairs)


def _number(text: str, argument: str) -> int:
    digits = text.strip()
    if not digits.isdecimal() or len(digits) > LONGEST_NUMBER:
        raise InputError("", "a whole number", argument)
    return int(digits)
