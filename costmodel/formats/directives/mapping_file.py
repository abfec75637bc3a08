"""A layer's mapping as a file of directives, and back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from costmodel.errors import InputError
from costmodel.formats.directives.loops import directives_of, mapping_of
from costmodel.formats.directives.text import HEADING, format_layers, parse_layers
from costmodel.formats.yaml.safe_yaml import read_text
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import Layer

SUFFIX = ".directives"
"""How the names of such files end."""
MOST_BYTES = 1 << 20


def mapping_directives(architecture: Architecture, layer: Layer, mapping: Mapping) -> str:
    """The directives of a mapping, as text in the form of KAPLA's Listing 1.

    Levels have the architecture's names. A comment says what the directives are of, as they themselves say
    neither hardware nor layer. Raises InputError for what directives cannot say
    (:func:`costmodel.formats.directives.loops.directives_of`).
    """
    scheme = directives_of(layer, mapping, [level.name for level in architecture.levels])
    if not HEADING.fullmatch(f"{layer.name}:"):
        scheme = replace(scheme, name="layer")
    return f"% {layer.name} on {architecture.name}\n{format_layers([scheme])}"


def read_mapping_directives(path: Path, architecture: Architecture, layer: Layer) -> Mapping:
    """The mapping that the one layer of a file of directives says, for this architecture and layer.

    Raises InputError for other levels than the architecture's, for several layers, and where loops cannot
    say what the directives do.
    """
    where, level_names = str(path), [level.name for level in architecture.levels]
    text = read_text(path, MOST_BYTES)
    try:
        schemes = parse_layers(text, "", level_names)
        if len(schemes) != 1:
            raise InputError("", "one layer", ", ".join(scheme.name for scheme in schemes))
        return mapping_of(schemes[0], layer, architecture)
    except InputError as error:
        raise error.at(": ".join(part for part in (where, error.where.removeprefix(": ")) if part)) from None
