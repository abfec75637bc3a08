"""A mapping to evaluate from Timeloop files: the input of Timeloop's model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from costmodel.errors import InputError
from costmodel.formats.cases.folder import Case
from costmodel.formats.timeloop.architecture import FanOut, timeloop_architecture
from costmodel.formats.timeloop.constraints import LevelConstraint, read_constraints
from costmodel.formats.timeloop.files import CONSTRAINT_SECTIONS, TimeloopFiles, read_timeloop
from costmodel.formats.timeloop.mapping import read_mapping
from costmodel.formats.timeloop.problem import layer_of_problem
from costmodel.hardware.architecture import Architecture
from costmodel.workload.network import Layer


def read_timeloop_case(
    paths: Sequence[str | Path], architecture: Architecture | None = None, layer: Layer | None = None
) -> tuple[Case, tuple[LevelConstraint, ...]]:
    """The case that the files make up together, and their constraints on its mapping.

    ``architecture`` and ``layer`` replace sections that the files lack; InputError if the files have them,
    too. Raises InputError with file and key for what is wrong or missing.
    """
    files = read_timeloop(paths)
    for key, given in (("architecture", architecture), ("problem", layer)):
        if given is not None and key in files.sections:
            raise InputError(files.sections[key].file, f"no second {key}", f"a section {key!r}", key=key)
    layer = layer or problem_of(files)
    if architecture is not None:
        _check_no_constraints(files)
        return _case(files, layer, architecture, {}), ()
    described = timeloop_architecture(files, _stem(files.section("architecture").file))
    case = _case(files, layer, described.build(), described.fan_outs)
    return case, read_constraints(files, described, layer)


def problem_of(files: TimeloopFiles) -> Layer:
    """The layer of the section ``problem``, named after its file."""
    section = files.section("problem")
    try:
        return layer_of_problem({"problem": section.data}, _stem(section.file))
    except InputError as error:
        raise error.at(section.file, error.where) from None


def _case(
    files: TimeloopFiles, layer: Layer, architecture: Architecture, fan_outs: dict[str, FanOut]
) -> Case:
    mapping = read_mapping(files, architecture, layer, fan_outs)
    name = _stem(files.section("mapping").file)
    return Case(name, architecture, layer, mapping, ", ".join(files.files), {})


def _check_no_constraints(files: TimeloopFiles) -> None:
    for name in CONSTRAINT_SECTIONS:
        if name in files.sections:
            remedy = "Give the architecture as a Timeloop file, or remove the section"
            found = f"the section {name!r}"
            raise InputError(files.sections[name].file, "no constraints", found, remedy, key=name)


def _stem(file: str) -> str:
    return Path(file).name.rpartition(".")[0]
