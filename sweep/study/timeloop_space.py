"""Reads the constraints on mappings of Timeloop files as our rules.

They stand beside an architecture or inside its nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import warn

from costmodel.errors import InputError
from costmodel.formats.architectures import architecture_names
from costmodel.formats.timeloop.files import (
    CONSTRAINT_SECTIONS,
    TimeloopFiles,
    is_timeloop,
    parse_timeloop,
    read_timeloop,
    split_files,
)
from costmodel.workload.network import Layer
from solvers.mapping.space.rules import LevelRules, SpaceRules

if TYPE_CHECKING:
    from costmodel.formats.timeloop.architecture import FanOutStep, TimeloopArchitecture
    from costmodel.formats.timeloop.constraints import LevelConstraint


def with_timeloop_constraints(
    rules: SpaceRules,
    architecture: str,
    layer: Layer,
    constraints: Path | None = None,
    elsewhere: frozenset[str] = frozenset(),
) -> SpaceRules:
    """``rules`` together with those that Timeloop files put on mappings of ``layer``.

    ``architecture`` is what ``load_architecture`` takes, ``constraints`` a file of Timeloop constraints. An
    architecture that is not Timeloop's changes no rule. ``elsewhere``: dims and tensors of other layers,
    which the files may name as well. Raises InputError with file and key.
    """
    files = [] if constraints is None else [str(constraints)]
    described = _described(architecture, tuple(files), _stamps(architecture, files))
    if described is None:
        if files:
            remedy = "Timeloop's constraints name components of a Timeloop architecture"
            raise InputError(files[0], "constraints with 'level', as in a study", "Timeloop's", remedy)
        return rules
    from costmodel.formats.timeloop.constraints import read_constraints

    asked = level_rules(read_constraints(*described, layer, elsewhere))
    if twice := sorted({level.level for level in asked} & {level.level for level in rules.levels}):
        expected = "constraints on a level either in Timeloop's files or in ours"
        raise InputError(architecture, expected, f"both for {', '.join(twice)}", key="constraints")
    return replace(rules, levels=(*rules.levels, *asked))


def constrained_by_timeloop(
    rules: SpaceRules, architecture: str, layers: Sequence[Layer]
) -> list[SpaceRules]:
    """For each layer, ``rules`` together with the constraints of a Timeloop architecture.

    Timeloop's constraints are written for layers of one kind, such as convolutions, and hold for all layers
    of that kind, even for those that lack a dim (depthwise ones lack K). Layers of another kind, such as
    matrix products, use the same letters for other dims: they get no constraints, and a warning says so.
    Raises InputError for a name that no layer has.
    """
    described = _described(architecture, (), _stamps(architecture, ()))
    if described is None:
        return [rules] * len(layers)
    from costmodel.formats.timeloop.constraints import dims_spoken_of

    # ``spoken``: the dims that the constraints name. ``meant``: whether each layer's kind has all of them, so
    # that the constraints are for it. If no kind has all, the constraints are tried on each layer, and the
    # first error names what is wrong.
    kinds = [kind_names(layer, layers) for layer in layers]
    spoken = dims_spoken_of(*described, frozenset().union(*kinds))
    meant = [spoken <= kind for kind in kinds]
    found = []
    for layer, kind, for_it in zip(layers, kinds, meant, strict=True):
        if for_it or not any(meant):
            found.append(with_timeloop_constraints(rules, architecture, layer, elsewhere=kind))
        else:
            found.append(rules)
            lacks = ", ".join(sorted(spoken - kind))
            text = f"{architecture}: layer {layer.name} has no {lacks}: the constraints do not hold for it"
            warn(text, stacklevel=2)
    return found


def kind_names(layer: Layer, layers: Iterable[Layer]) -> frozenset[str]:
    """Dims and tensors of all layers of the same kind as ``layer``.

    Two layers are of one kind where the dims of one are among the dims of the other.
    """
    mine = layer.sizes.keys()
    related = [other for other in layers if mine <= other.sizes.keys() or other.sizes.keys() <= mine]
    tensors = {tensor.name for other in related for tensor in other.tensors}
    return frozenset(tensors.union(*(other.sizes for other in related)))


def level_rules(constraints: Sequence[LevelConstraint]) -> tuple[LevelRules, ...]:
    """Constraints of the frontend as rules of a mapping space."""
    return tuple(LevelRules.from_json(constraint.to_json()) for constraint in constraints)


def is_timeloop_constraints(path: Path) -> bool:
    """Whether a constraint file is Timeloop's (targets with types) and not ours (levels)."""
    data = parse_timeloop(path)
    if not isinstance(data, dict):
        return False
    found: Any = data.get("constraints")
    entries = found if isinstance(found, list) else []
    typed = any(isinstance(entry, dict) and "type" in entry for entry in entries)
    named = any(str(key).replace("-", "_") in CONSTRAINT_SECTIONS[:2] for key in data)
    return named or typed or (isinstance(found, dict) and "targets" in found)


def fan_out_steps(architecture: str) -> dict[str, tuple[FanOutStep, ...]]:
    """The names of a Timeloop architecture's fan-outs in mappings, by memory; empty for any other file."""
    described = _described(architecture, (), _stamps(architecture, ()))
    return {} if described is None else described[1].fan_out_steps


def _stamps(architecture: str, files: Sequence[str]) -> tuple[object, ...]:
    """The time of each file's last change; it is part of the cache's key, so an edited file is read again."""
    paths = [*split_files(architecture), *map(Path, files)]
    return tuple(path.stat().st_mtime_ns if path.is_file() else None for path in paths)


@lru_cache(maxsize=16)
def _described(
    architecture: str, constraints: tuple[str, ...], stamps: tuple[object, ...]
) -> tuple[TimeloopFiles, TimeloopArchitecture] | None:
    """The files together and their architecture; None where the architecture is not Timeloop's."""
    paths = split_files(architecture)
    if architecture in architecture_names() or not architecture.endswith((".yaml", ".yml")):
        return None
    if len(paths) == 1 and not is_timeloop(parse_timeloop(paths[0])):
        return None
    from costmodel.formats.timeloop.architecture import timeloop_architecture

    files = read_timeloop([*paths, *constraints])
    return files, timeloop_architecture(files, paths[0].stem)
