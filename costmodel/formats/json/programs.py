"""Programs as JSON files: what every tile of a chip does, in order.

A message, a compute, a piece of a tile's code:

    "messages": [{"tensor": "conv1.weights", "box": [[0, 64], [0, 3], [0, 7], [0, 7]],
                  "bytes": 9408, "from": [], "to": [0, 1]}]
    "works": [{"layer": "conv1", "box": [[0, 1], [0, 64], [0, 56], ...], "cycles": 9216,
               "operations": 59006976}]
    "tiles": [[{"load": 0, "address": 2048}, {"compute": 0, "reads": [0]}, {"store": 1}, {"free": 0}], ...]

Messages and works are numbered from 0 in the order of the file. What they mean says
:mod:`costmodel.schedule.program.program`.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from costmodel.errors import InputError
from costmodel.formats.json.safe_json import load_json
from costmodel.formats.yaml.file_keys import Keys, check_keys
from costmodel.hardware.chip import Chip
from costmodel.hardware.pe_mesh import PeMesh
from costmodel.schedule.program.checker import violations
from costmodel.schedule.program.program import (
    Box,
    Instruction,
    LayerNest,
    Message,
    Moves,
    Operation,
    Program,
    Repeat,
    Work,
)

FORMAT = "archsweep program 1"
Number = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]
Bytes = Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0, multiple_of=0.125)]
Address = Number | Annotated[float, Field(ge=0, multiple_of=0.125)]
BoxKeys = Annotated[
    list[Annotated[list[int], Field(min_length=2, max_length=2)]], Field(min_length=1, max_length=16)
]


class MoveKeys(Keys):
    """One loop of a box that moves from one time to the next."""

    times: Count
    """How often the loop runs."""
    by: list[int]
    """How far the box moves each time along each of its axes."""


class MessageKeys(Keys):
    """One transfer of elements of a tensor."""

    tensor: str
    """A layer by its name (its outputs), `NAME.input` or `NAME.weights`."""
    box: BoxKeys
    """First and end index of each axis."""
    bytes: Bytes
    """How many bytes are transferred each time; eighths where elements are no whole bytes."""
    from_: list[Number] = Field(alias="from")
    """The tiles that send; none: DRAM does."""
    to: list[Number]
    """The tiles that receive; none: DRAM does."""
    moves: list[MoveKeys] = Field(default_factory=list)
    """How the box moves, from the outermost loop in; none: it does not."""
    after: list[Number] = Field(default_factory=list)
    """Messages to DRAM that this one from DRAM waits for, by number."""
    partial: bool = False
    """Whether these are partial sums on their way to the tile that adds them up."""


class WorkKeys(Keys):
    """What one compute does."""

    layer: str
    """The layer by its name."""
    box: BoxKeys
    """First and end index of each dim of the layer's nest."""
    cycles: Number
    """How long the tile computes."""
    operations: Number
    """Multiply-accumulates, or operations of the vector units."""
    mapping: str = ""
    """The tile's mapping as text; empty for vector work."""
    moves: list[MoveKeys] = Field(default_factory=list)
    """How the box moves, from the outermost loop in; none: it does not."""
    adds: bool = False
    """Whether it computes none of these points, but adds up the partial sums that the compute reads."""


class LoadKeys(Keys):
    """A tile's part in a message from DRAM."""

    load: Number
    """The message by number."""
    address: Address
    """Where its data begins in the tile's buffer, in bytes; eighths where elements are no whole bytes."""


class ReceiveKeys(Keys):
    """A tile's part in a message from other tiles."""

    receive: Number
    """The message by number."""
    address: Address
    """Where its data begins in the tile's buffer, in bytes; eighths where elements are no whole bytes."""


class ComputeInstructionKeys(Keys):
    """A computation of a tile."""

    compute: Number
    """The work by number."""
    reads: list[Number]
    """The messages whose data it needs, by number."""


class SendKeys(Keys):
    """A tile sends outputs of its last compute to other tiles, or passes on data that it has."""

    send: Number
    """The message by number."""
    out_of: Number | None = None
    """The message whose data, or some of it, is passed on, by number; none: outputs are sent."""


class StoreKeys(Keys):
    """A tile sends outputs of its last compute to DRAM."""

    store: Number
    """The message by number."""
    out_of: Number | None = None
    """The message in whose bytes the outputs lie, by number; none: they leave through the small buffer."""


class HoldKeys(Keys):
    """A tile keeps bytes for outputs that go to DRAM later."""

    hold: Number
    """The message that stores them, by number."""
    address: Number
    """Where they begin in the tile's buffer, in bytes."""


class FreeKeys(Keys):
    """A tile needs the data of a message no longer."""

    free: Number
    """The message by number."""


class RepeatKeys(Keys):
    """Instructions that are done several times in turn."""

    repeat: Count
    """How often."""
    body: list[InstructionKeys]
    """The instructions."""


_OF_MESSAGES: tuple[Operation, ...] = ("load", "receive", "send", "store", "hold", "free")
_KINDS = ("load", "receive", "compute", "send", "store", "hold", "free", "repeat")


def _kind(value: Any) -> str | None:
    """Which form of an instruction a part of a file is, by its key."""
    keys = value if isinstance(value, dict) else value.model_fields if isinstance(value, Keys) else ()
    return next((kind for kind in _KINDS if kind in keys), None)


InstructionKeys = Annotated[
    Annotated[LoadKeys, Tag("load")]
    | Annotated[ReceiveKeys, Tag("receive")]
    | Annotated[ComputeInstructionKeys, Tag("compute")]
    | Annotated[SendKeys, Tag("send")]
    | Annotated[StoreKeys, Tag("store")]
    | Annotated[HoldKeys, Tag("hold")]
    | Annotated[FreeKeys, Tag("free")]
    | Annotated[RepeatKeys, Tag("repeat")],
    Discriminator(
        _kind,
        custom_error_type="instruction",
        custom_error_message=f"Input should be an instruction with one of the keys {', '.join(_KINDS)}",
    ),
]


class ProgramKeys(Keys):
    """What every tile of a chip does for a batch of a network, in order."""

    format: Literal["archsweep program 1"]
    """What the file is, with the version of this form."""
    network: str
    """The network by its name."""
    batch: Count
    """Samples that are computed."""
    chip: dict[str, Any]
    """The chip, or the mesh of PEs: its units, links and DRAM, as `archsweep` writes them."""
    output_stream_bytes: Number
    """Bytes of each buffer, from address 0 on, for outputs on their way out."""
    layers: dict[str, dict[str, Count]]
    """The loop nest of each layer for the whole batch: sizes of dims by name, in the order of boxes."""
    messages: list[MessageKeys]
    """All transfers."""
    works: list[WorkKeys]
    """All computations."""
    tiles: list[list[InstructionKeys]]
    """The instructions of each tile, by its number."""


def write_program_file(path: Path, program: Program) -> None:
    """Write the program as JSON, gzipped where the name ends in ``.gz``; OSError where no file can be."""
    text = program_text(program)
    if path.name.endswith(".gz"):
        path.write_bytes(_gzipped(text))
    else:
        path.write_text(text, encoding="utf-8")


def _gzipped(text: str) -> bytes:
    """Half the time of the highest level, and one in thirty more bytes."""
    return gzip.compress(text.encode(), compresslevel=6, mtime=0)


def packed_program(program: Program) -> str:
    """The program in few characters, for a table of results: its JSON, gzipped and in base64."""
    text = json.dumps(program_to_json(program), separators=(",", ":"))
    return base64.b64encode(_gzipped(text)).decode("ascii")


def unpacked_program(text: str) -> Program:
    """The program of :func:`packed_program`, whose keys need no check."""
    return _program_of(json.loads(gzip.decompress(base64.b64decode(text))), "a packed program")


def program_text(program: Program) -> str:
    """The JSON text of a program: one message, work and tile a line."""
    data = program_to_json(program)
    lines = []
    for key, value in data.items():
        if isinstance(value, list) and value:
            inner = ",\n".join(f"  {json.dumps(one, separators=(',', ':'))}" for one in value)
            lines.append(f"{json.dumps(key)}: [\n{inner}\n ]")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value)}")
    return "{" + ",\n ".join(lines) + "}\n"


def program_to_json(program: Program) -> dict[str, Any]:
    """Plain data, from which :func:`program_from_json` makes an equal program."""
    return {
        "format": FORMAT,
        "network": program.network,
        "batch": program.batch,
        "chip": program.chip.to_json(),
        "output_stream_bytes": program.output_stream_bytes,
        "layers": {nest.layer: dict(nest.dims) for nest in program.layers},
        "messages": [_message(message) for message in program.messages],
        "works": [_work(work) for work in program.works],
        "tiles": [_code(code) for code in program.tiles],
    }


def _message(message: Message) -> dict[str, Any]:
    return {
        "tensor": message.tensor,
        "box": [list(interval) for interval in message.box],
        "bytes": message.size_bytes,
        "from": list(message.sources),
        "to": list(message.targets),
        **_moves(message.moves),
        **({"after": list(message.after)} if message.after else {}),
        **({"partial": True} if message.partial else {}),
    }


def _work(work: Work) -> dict[str, Any]:
    return {
        "layer": work.layer,
        "box": [list(interval) for interval in work.box],
        "cycles": work.cycles,
        "operations": work.operations,
        **({"mapping": work.mapping} if work.mapping else {}),
        **_moves(work.moves),
        **({"adds": True} if work.adds else {}),
    }


def _moves(moves: Moves) -> dict[str, Any]:
    return {"moves": [{"times": times, "by": list(by)} for times, by in moves]} if moves else {}


def _code(code: Iterable[Instruction | Repeat]) -> list[dict[str, Any]]:
    return [
        {"repeat": item.times, "body": _code(item.body)} if isinstance(item, Repeat) else _instruction(item)
        for item in code
    ]


def _instruction(item: Instruction) -> dict[str, Any]:
    if item.operation == "compute":
        return {"compute": item.work, "reads": list(item.reads)}
    if item.operation in ("load", "receive", "hold"):
        return {item.operation: item.message, "address": item.address}
    if item.operation in ("send", "store") and item.reads:
        return {item.operation: item.message, "out_of": item.reads[0]}
    return {item.operation: item.message}


def read_program(path: str | Path) -> Program:
    """The program of a JSON file (``.json`` or ``.json.gz``), which can run.

    Raises InputError with the file and the key for what is no program, and with the reason for one that
    cannot run (:func:`costmodel.schedule.program.checker.violations`). The program of a mesh of PEs says how
    much its units move and not which elements, so only a replay tells whether it can run.
    """
    where = str(path)
    program = program_from_json(load_json(path), where)
    if isinstance(program.chip, PeMesh):
        return program
    if reasons := violations(program):
        expected, remedy = "a program that can run", "Write it anew with archsweep solve schedule --program"
        raise InputError(where, expected, "; ".join(reasons[:3]), remedy, key="tiles")
    return program


def program_from_json(data: Any, where: str = "program") -> Program:
    """The program of :func:`program_to_json`; InputError with the key for what is none."""
    try:
        check_keys(ProgramKeys, data, where)
    except InputError as error:
        # pydantic names the form of an instruction that it took beside its keys
        forms = "|".join(_KINDS)
        key = re.sub(rf"(\]|^body)\.(?:{forms})\.", r"\1.", error.key)
        expected = error.expected if error.expected != "one of the keys " else "the keys of one instruction"
        raise InputError(where, expected, error.found, error.remedy, key=key) from None
    return _program_of(data, where)


def _program_of(data: dict[str, Any], where: str) -> Program:
    """The program of plain data that has the keys of :class:`ProgramKeys`."""
    return Program(
        network=data["network"],
        batch=data["batch"],
        chip=_chip(data["chip"], where),
        messages=tuple(map(_message_of, data["messages"])),
        works=tuple(map(_work_of, data["works"])),
        tiles=tuple(map(_code_of, data["tiles"])),
        output_stream_bytes=data["output_stream_bytes"],
        layers=tuple(LayerNest(layer, tuple(dims.items())) for layer, dims in data["layers"].items()),
    )


def _chip(data: dict[str, Any], where: str) -> Chip:
    try:
        return PeMesh.from_json(data) if "units" in data else Chip.from_json(data)
    except InputError as error:
        raise error.at(where, "chip") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        expected, remedy = "a chip as archsweep writes it", "Take it from another program for this chip"
        raise InputError(where, expected, str(error), remedy, key="chip") from None


def _message_of(data: dict[str, Any]) -> Message:
    return Message(
        tensor=data["tensor"],
        box=_box_of(data),
        size_bytes=data["bytes"],
        sources=tuple(data["from"]),
        targets=tuple(data["to"]),
        moves=_moves_of(data),
        after=tuple(data.get("after", ())),
        partial=data.get("partial", False),
    )


def _work_of(data: dict[str, Any]) -> Work:
    return Work(
        layer=data["layer"],
        box=_box_of(data),
        cycles=data["cycles"],
        operations=data["operations"],
        mapping=data.get("mapping", ""),
        moves=_moves_of(data),
        adds=data.get("adds", False),
    )


def _box_of(data: dict[str, Any]) -> Box:
    return tuple([(first, end) for first, end in data["box"]])


def _moves_of(data: dict[str, Any]) -> Moves:
    return tuple([(move["times"], tuple(move["by"])) for move in data.get("moves", ())])


def _code_of(code: Iterable[dict[str, Any]]) -> tuple[Instruction | Repeat, ...]:
    return tuple(map(_instruction_of, code))


def _instruction_of(data: dict[str, Any]) -> Instruction | Repeat:
    match data:
        case {"repeat": times, "body": body}:
            return Repeat(times, _code_of(body))
        case {"compute": work, "reads": reads}:
            return Instruction("compute", work=work, reads=tuple(reads))
    for operation in _OF_MESSAGES:
        if operation in data:
            reads = (data["out_of"],) if data.get("out_of") is not None else ()
            return Instruction(operation, data[operation], data.get("address", -1), reads=reads)
    raise AssertionError(data)
