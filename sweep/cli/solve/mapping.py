"""What ``archsweep solve mapping`` does."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from costmodel.errors import InputError
from costmodel.formats.yaml.safe_yaml import parse_yaml
from costmodel.mapping.uneven import UnevenMapping
from sweep.cli.arguments.files_to_write import check_file_to_write, write_file
from sweep.cli.compiling import helped
from sweep.cli.messages import WorkFailedError, shown, warn
from sweep.solve.mapping import MappingAnswer, MappingRequest


@dataclass(frozen=True)
class TimeloopFile:
    """``--timeloop`` and ``--timeloop-version``: where to write the mapping for Timeloop, and for which."""

    path: Path | None = None
    version: Any = "0.4"

    def check(self) -> None:
        """InputError for a version that there is not, and for a path where no file can be."""
        if self == TimeloopFile():
            return
        from costmodel.formats.timeloop.export import check_version

        check_version(self.version)
        check_file_to_write("--timeloop", self.path)

    def write(self, answer: MappingAnswer, architecture: str) -> None:
        """Write the answer's mapping, if a file was asked for and there is a mapping."""
        if self.path is None or answer.mapping is None or answer.executed_layer is None:
            return
        from costmodel.formats.timeloop.export import mapping_text
        from sweep.study.timeloop_space import fan_out_steps

        steps = fan_out_steps(architecture)
        hardware = answer.problem.architecture
        text = mapping_text(hardware, answer.executed_layer, answer.mapping, self.version, steps)
        write_file("--timeloop", self.path, text)


@dataclass(frozen=True)
class GemminiFile:
    """``--gemmini``: where to write the call of Gemmini's library that runs the mapping."""

    path: Path | None = None

    def check(self, request: MappingRequest) -> None:
        """InputError for a path where no file can be, and for hardware or a layer without such a call."""
        check_file_to_write("--gemmini", self.path)
        if self.path is not None:
            from costmodel.formats.machines.gemmini import check_machine

            check_machine(request.problem.architecture, request.problem.layer)

    def write(self, answer: MappingAnswer) -> None:
        """Write the call as JSON; InputError for a mapping that the hardware cannot run."""
        if self.path is None or answer.mapping is None or answer.executed_layer is None:
            return
        from costmodel.formats.machines.gemmini import tiled_call

        call = tiled_call(answer.problem.architecture, answer.executed_layer, answer.mapping)
        write_file("--gemmini", self.path, json.dumps(call.to_json(), indent=2) + "\n")


@dataclass(frozen=True)
class DirectivesFile:
    """``--directives``: where to write the mapping as KAPLA's directives."""

    path: Path | None = None

    def check(self) -> None:
        """InputError for a path where no file can be, and for a name that ``evaluate`` would not know."""
        check_file_to_write("--directives", self.path)
        if self.path is None:
            return
        from costmodel.formats.directives.mapping_file import SUFFIX

        # ``evaluate`` tells files of directives from Timeloop's by their names.
        if self.path.suffix != SUFFIX:
            raise InputError("--directives", f"a file name that ends in {SUFFIX}", str(self.path))

    def write(self, answer: MappingAnswer) -> None:
        """Write the answer's mapping; InputError for one that directives cannot say."""
        if self.path is None or answer.mapping is None:
            return
        layer = answer.problem.layer
        # Directives have the layer's sizes; there is nowhere to say that a dim was padded.
        if answer.executed_layer != layer:
            raise InputError("--directives", "a mapping of the layer's own sizes", "one of padded sizes")
        if isinstance(answer.mapping, UnevenMapping):
            raise InputError("--directives", "a mapping whose levels keep all tensors alike", "an uneven one")
        from costmodel.formats.directives.mapping_file import mapping_directives

        text = mapping_directives(answer.problem.architecture, layer, answer.mapping)
        write_file("--directives", self.path, text)


@dataclass(frozen=True)
class ProgramFile:
    """``--program`` and ``--link-bytes``: where to write what every unit of a mesh of PEs does, and what a
    link of the mesh carries in a cycle."""

    path: Path | None = None
    link_bytes: int | None = None

    def check(self, request: MappingRequest) -> None:
        """InputError for a path where no file can be, and for hardware or a layer without such a program."""
        check_file_to_write("--program", self.path)
        if self.path is None:
            if self.link_bytes is not None:
                raise InputError("--link-bytes", "--program beside it", "none")
            return
        from costmodel.schedule.pe_mesh.writer import check_machine

        check_machine(request.problem.architecture, request.problem.layer)

    def write(self, answer: MappingAnswer) -> None:
        """Write the program; InputError for a mapping that has none."""
        if self.path is None or answer.mapping is None or answer.executed_layer is None:
            return
        from costmodel.formats.json.programs import write_program_file
        from costmodel.schedule.pe_mesh.writer import LINK_BYTES_PER_CYCLE, mesh_program

        if isinstance(answer.mapping, UnevenMapping):
            raise InputError("--program", "a mapping whose levels keep all tensors alike", "an uneven one")
        link = LINK_BYTES_PER_CYCLE if self.link_bytes is None else self.link_bytes
        hardware = answer.problem.architecture
        program = mesh_program(hardware, answer.executed_layer, answer.mapping, link)
        write_program_file(self.path, program)


def changes(values: Iterable[str]) -> dict[str, Any]:
    """``--set KEY=VALUE`` as overrides of an architecture; a value is written as in a study."""
    found = {}
    for text in values:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise InputError("--set", "KEY=VALUE, such as SRAM.size='64 KiB'", text)
        if key.strip() in found:
            raise InputError("--set", "every key once", text, f"{key.strip()} has a value already")
        found[key.strip()] = parse_yaml(value, f"--set {key}")
    return found


@dataclass(frozen=True)
class MappingFiles:
    """The files that an answer's mapping is written to: for other tools, each in its language, and for
    ``archsweep replay``."""

    timeloop: TimeloopFile = TimeloopFile()
    gemmini: GemminiFile = GemminiFile()
    directives: DirectivesFile = DirectivesFile()
    program: ProgramFile = ProgramFile()

    def check(self, request: MappingRequest) -> None:
        """InputError for a file that could not be written whatever the answer is."""
        self.timeloop.check()
        self.gemmini.check(request)
        self.directives.check()
        self.program.check(request)

    def write(self, answer: MappingAnswer, architecture: str) -> None:
        """Write those that were asked for, if there is a mapping."""
        self.timeloop.write(answer, architecture)
        self.gemmini.write(answer)
        self.directives.write(answer)
        self.program.write(answer)


def solve_one(request: MappingRequest, files: MappingFiles, as_json: bool) -> None:
    """Solve, evaluate and print; a problem without a mapping ends with status 1 and the reason."""
    # Before the solve: nobody should wait for minutes to hear that a file cannot be written.
    files.check(request)
    for warning in request.warnings:
        warn(warning)
    with helped(request.solver, request.problem.architecture):
        found = request.solved()
    files.write(found, str(request.architecture))
    answer = found.to_json()
    if as_json:
        # Without a mapping, too: programs that read JSON get status and note, and then see the exit status.
        print(json.dumps(answer))
    elif answer["mapping"] is not None:
        _print_answer(answer)
    if answer["mapping"] is None:
        raise WorkFailedError(f"{answer['status']}: {answer['note']}")


def _print_answer(answer: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None)
    evaluation = answer["evaluation"]
    for key in ("status", "objective", "bound", "gap", "solved_by", "program_proven", "cpu_seconds", "note"):
        if answer[key] not in (None, ""):
            table.add_row(key.replace("_", " "), shown(answer[key]))
    table.add_row("space", answer["space"]["name"])
    if padded := answer["space"].get("padded"):
        table.add_row("padded to", " ".join(f"{dim}={size}" for dim, size in padded.items()))
    for key in ("energy_pj", "cycles", "edp_pj_cycles", "utilization", "useful_utilization"):
        table.add_row(key.replace("_", " "), shown(evaluation[key]))
    console = Console()
    console.print(table)
    uneven = "part_of" in answer["mapping"]
    kept = {entry["target"]: entry["keep"] for entry in answer["mapping"]["bypass"] if uneven}
    for block in answer["mapping"]["levels"]:
        if block["type"] == "temporal" and (names := kept.get(block["target"])):
            console.print(f"{'tiles of':>20} {', '.join(names)}", markup=False, highlight=False)
        factors = block["factors"]
        # Stored innermost first, as Timeloop does; people read loop nests from the outside. Loops of one
        # iteration are no loops to them.
        used = " ".join(f"{dim}{factors[dim]}" for dim in reversed(block["permutation"]) if factors[dim] > 1)
        console.print(f"{block['target']:>20} {block['type']:8} {used}", markup=False, highlight=False)
    for role, dims in answer["mapping"].get("layouts", {}).items():
        console.print(f"{'layout of':>20} {role:8} {' '.join(dims)}", markup=False, highlight=False)
