"""``--dim NAME=LENGTH``: the symbolic lengths of a network's file, as every command takes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from costmodel.errors import InputError

Dims = Annotated[
    list[str] | None,
    typer.Option(
        "--dim",
        help="A length of an ONNX file or of a model by its configuration, as seq=512; repeated.",
        metavar="NAME=LENGTH",
    ),
]


def dims_of(texts: Iterable[str] | None) -> dict[str, int]:
    """The lengths by their symbols; InputError for what is not NAME=LENGTH, and for a name twice."""
    found: dict[str, int] = {}
    for text in texts or ():
        name, _, length = text.rpartition("=")
        if not name or not (length.isascii() and length.isdigit()):
            raise InputError("--dim", "NAME=LENGTH with a whole length, such as seq=512", text)
        if name in found:
            raise InputError("--dim", "every name once", name)
        found[name] = int(length)
    return found
