"""The keys, types and units of an architecture file, as pydantic checks them.

Each class is one section of the file, and each of its fields a key; the text below a field is what users read
of that key, in ``docs/reference/keys.md`` and in their editors. A key that may be absent has None or the
default here, and ``architecture.py`` puts the technology's laws in its place.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainValidator, WithJsonSchema, field_validator

from costmodel.errors import InputError
from costmodel.formats.yaml.file_keys import Keys, check_keys
from costmodel.formats.yaml.key_schema import quantity_schema
from costmodel.formats.yaml.quantities import (
    ACCESS_ENERGY,
    AREA,
    BANDWIDTH,
    BYTE_ENERGY,
    ENERGY,
    FREQUENCY,
    LEAKAGE,
    POWER,
    SIZE,
    Quantity,
    reader,
)
from costmodel.hardware.architecture import ALL_ROLES
from costmodel.hardware.technology import Kind
from costmodel.hardware.timing import LayerKind
from costmodel.workload.network import Role

# These readers serve a key and a shorter form of its section, so that both give the same error.
_read_access_energy = reader(
    ACCESS_ENERGY,
    "'4.58 pJ' for one access, which moves a block of block_size words, or '0.29 pJ/bit', '4.58 pJ/word'",
    zero=True,
)
_read_area = reader(AREA, "'1239.5 um2'", zero=True)

# A quantity has two halves: a validator, which reads the number with its unit, and the schema that editors
# get, since pydantic cannot know what a validator accepts. Sizes, bandwidths and clocks of 0 are refused: who
# means "unlimited" leaves the key out.
Size = Annotated[
    Quantity,
    PlainValidator(reader(SIZE, "'128 KiB' or '512 words'", zero=False)),
    WithJsonSchema(quantity_schema(SIZE, "A size, such as 128 KiB or 512 words.", zero=False)),
]
Bandwidth = Annotated[
    Quantity,
    PlainValidator(reader(BANDWIDTH, "'16 words/cycle' or '25.6 GB/s'", zero=False)),
    WithJsonSchema(
        quantity_schema(BANDWIDTH, "A bandwidth, such as 16 words/cycle or 25.6 GB/s.", zero=False)
    ),
]
Energy = Annotated[
    Quantity,
    PlainValidator(reader(ENERGY, "'4.58 pJ', whatever the width", zero=True)),
    WithJsonSchema(quantity_schema(ENERGY, "An energy, such as 4.58 pJ, whatever the width.", zero=True)),
]
AccessEnergy = Annotated[
    Quantity,
    PlainValidator(_read_access_energy),
    WithJsonSchema(
        quantity_schema(
            ACCESS_ENERGY,
            "The energy of one access, which moves a block of block_size words (4.58 pJ), of a word "
            "(4.58 pJ/word) or of a bit (0.29 pJ/bit).",
            zero=True,
        )
    ),
]
ByteEnergy = Annotated[
    Quantity,
    PlainValidator(reader(BYTE_ENERGY, "'5.6 pJ' for one byte, or '0.7 pJ/bit'", zero=True)),
    WithJsonSchema(
        quantity_schema(BYTE_ENERGY, "The energy of one byte (5.6 pJ) or bit (0.7 pJ/bit).", zero=True)
    ),
]
Leakage = Annotated[
    Quantity,
    PlainValidator(reader(LEAKAGE, "'0.5 pJ/cycle' or '2 mW'", zero=True)),
    WithJsonSchema(quantity_schema(LEAKAGE, "Leakage, such as 0.5 pJ/cycle or 2 mW.", zero=True)),
]
Power = Annotated[
    Quantity,
    PlainValidator(reader(POWER, "'2 mW'", zero=True)),
    WithJsonSchema(quantity_schema(POWER, "A power, such as 2 mW.", zero=True)),
]
Area = Annotated[
    Quantity,
    PlainValidator(_read_area),
    WithJsonSchema(quantity_schema(AREA, "An area, such as 1239.5 um2.", zero=True)),
]
Frequency = Annotated[
    Quantity,
    PlainValidator(reader(FREQUENCY, "'1 GHz'", zero=False)),
    WithJsonSchema(quantity_schema(FREQUENCY, "A frequency, such as 1 GHz.", zero=False)),
]
AtLeastOne = Annotated[int, Field(ge=1, le=2**31)]
"""A count; the upper limit keeps the product of two of them, such as a fan-out's, within 64 bits."""
LevelName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]*$")]
"""A name without a dot, because dots separate the parts of an axis's key such as SRAM.fanout.x."""


def _listed(written: Any) -> Any:
    """A single text as a list of one."""
    return [written] if isinstance(written, str) else written


Sources = Annotated[list[str], BeforeValidator(_listed, json_schema_input_type=str | list[str])]
"""Where the numbers of a file are from: a text or a list of texts."""


class AccessEnergies(Keys):
    """Energies of one access, of a word or of a bit, for each kind of access."""

    read: AccessEnergy
    """The energy of a read."""
    write: AccessEnergy
    """The energy of a write, by which the level is filled from outside."""
    update: AccessEnergy
    """The energy of an update, by which a partial sum is written back from inside."""
    at_size: Size | None = None
    """The size at which these energies are right; another size scales them by the law of the level's kind.

    Absent: they hold whatever the size.
    """


def _one_energy_for_all(written: Any) -> Any:
    """A plain energy as the same energy for reads, writes and updates."""
    if written is None or isinstance(written, dict):
        return written
    # Built without validation: the quantity has been read, and a validator takes only what a file can write.
    energy = _read_access_energy(written)
    return AccessEnergies.model_construct(read=energy, write=energy, update=energy, at_size=None)


class InstanceArea(Keys):
    """The area of one instance of a level, known at one size."""

    value: Area
    """The area."""
    at_size: Size | None = None
    """The size at which it is right; another size scales it linearly. Absent: it holds whatever the size."""


def fixed_area(written: Any) -> Any:
    """An area that a file states as a plain number holds whatever the size."""
    if written is None or isinstance(written, dict):
        return written
    return InstanceArea.model_construct(value=_read_area(written), at_size=None)


def _pair(written: Any) -> Any:
    """Refuse anything but a list of two, before pydantic does so in words that speak of list lengths."""
    if not isinstance(written, list) or len(written) != 2:
        raise InputError("", "two whole numbers [x, y]", repr(written))
    return written


Fanout = Annotated[list[AtLeastOne], Field(min_length=2, max_length=2)]
"""How a pair stands in a file's JSON Schema; :func:`_pair` is what checks it, in words of its own."""


class LevelKeys(Keys):
    """One storage level of the architecture."""

    name: LevelName
    """The level's name, by which axes, constraints and mappings speak of it."""
    kind: Kind
    """What it is made of: chooses the laws of energy and area."""
    size: Size | None = None
    """What one instance holds. Absent: unlimited, which the outermost level must be."""
    word_bits: AtLeastOne | None = None
    """Bits of a word of this level. Absent: the file's word_bits."""
    block_size: AtLeastOne = 1
    """Words that one access moves."""
    read_bandwidth: Bandwidth | None = None
    """What one instance can be read. Absent: unlimited."""
    write_bandwidth: Bandwidth | None = None
    """What can be written to one instance. Absent: unlimited."""
    shared_bandwidth: Bandwidth | None = None
    """What one instance can be read and written together, instead of the two others. Absent: unlimited."""
    energy: Annotated[
        AccessEnergies | None,
        BeforeValidator(_one_energy_for_all, json_schema_input_type=AccessEnergy | AccessEnergies | None),
    ] = None
    """The energy of its accesses, one value for all or one each. Absent: from the technology's law."""
    leakage: Leakage | None = None
    """What one instance leaks. Absent: from the technology's law."""
    area: Annotated[
        InstanceArea | None,
        BeforeValidator(fixed_area, json_schema_input_type=Area | InstanceArea | None),
    ] = None
    """The area of one instance. Absent: from the technology's law."""
    fanout: Annotated[list[AtLeastOne], BeforeValidator(_pair, json_schema_input_type=Fanout)] = Field(
        default_factory=lambda: [1, 1]
    )
    """Columns and rows [x, y] of instances of the next level inside, below each instance of this one."""
    keeps: Annotated[list[Role], Field(min_length=1)] = Field(default_factory=lambda: list(ALL_ROLES))
    """The tensors, by their roles, that it can hold. Absent: all three."""
    multiple_buffering: Annotated[float, Field(ge=1)] = 1.0
    """The size divided by this is what a tile may take: 2 is double buffering."""


class ComputeKeys(Keys):
    """The MAC units below the innermost level."""

    # No fan-out here: how many MAC units there are is the fan-out of the innermost level.

    name: LevelName = "MAC"
    """Their name."""
    word_bits: AtLeastOne | None = None
    """Bits of an operand. Absent: the file's word_bits."""
    energy: Energy | None = None
    """The energy of one multiply-accumulate. Absent: from the technology's law."""
    area: Area | None = None
    """The area of one MAC unit. Absent: from the technology's law."""


class WidthKeys(Keys):
    """The bits of an element, and of a scale that a group of elements has in common."""

    bits: Annotated[int, Field(ge=1, le=1024)]
    """Bits of the element itself."""
    scale_bits: Annotated[int, Field(ge=0, le=1024)] = 0
    """Bits of a scale (and zero point) that a group of elements shares."""
    group: Annotated[int, Field(ge=1, le=65536)] = 1
    """How many elements share them."""


WidthChoice = int | str | WidthKeys
"""A width: bits (8), the name of a format (int4, fp8, bf16, mxfp4), or keys with a scale."""


class PrecisionKeys(Keys):
    """The bits of the elements of tensors. Capacities, bandwidths and energies then count bits, not words."""

    weights: WidthChoice | None = None
    """Of parameters. Absent: the word_bits of compute."""
    activations: WidthChoice | None = None
    """Of other operands and of finished outputs. Absent: the word_bits of compute."""
    partial_sums: WidthChoice | None = None
    """Of outputs to which products are still to be added. Absent: those of activations."""
    caches: WidthChoice | None = None
    """Of second operands that are no parameters: keys and values. Absent: those of activations."""
    from_network: bool = False
    """Whether the bits that a network's file states (ONNX's types) come first, tensor by tensor."""

    @field_validator("weights", "activations", "partial_sums", "caches", mode="before")
    @classmethod
    def _width(cls, given: Any) -> Any:
        # of a union pydantic would only say what its first member expects
        if isinstance(given, dict):
            return check_keys(WidthKeys, given, "")
        if given is not None and not isinstance(given, WidthKeys | int | str):
            raise InputError("", "bits, the name of a format, or keys with a scale", given)
        return given


class Constant(Keys):
    """One number of a machine's timing, and where it is from."""

    value: Annotated[float, Field(ge=0)]
    """The number."""
    source: str = ""
    """A document that says it, or on what it was fitted."""
    fitted: bool = False
    """Whether it was fitted to measurements: archsweep calibrate fits these constants and no others."""
    relative_error: Annotated[float, Field(ge=0)] | None = None
    """By what fraction of itself a fitted constant moves when layers are left out of the fit."""


def _constant(written: Any) -> Any:
    """A plain number as a constant without a source."""
    return written if isinstance(written, dict) else {"value": _as_float(written)}


def _as_float(written: Any) -> Any:
    """A whole number as a float; anything else as it is.

    To Python ``true`` is a whole number, so it is excepted: ``issue: true`` is to be refused, not to be one
    cycle.
    """
    return float(written) if isinstance(written, int) and not isinstance(written, bool) else written


Number = Annotated[Constant, BeforeValidator(_constant, json_schema_input_type=float | Constant)]
"""A constant with its source, or a plain number."""


def _width(written: Any) -> Any:
    """A single width as a list of one."""
    return written if isinstance(written, list) else [written]


Width = Annotated[
    list[AtLeastOne | LevelName],
    BeforeValidator(_width, json_schema_input_type=AtLeastOne | LevelName | list[AtLeastOne | LevelName]),
    Field(min_length=1),
]
"""A whole number, the name of a level, which stands for its fan-out, or several, of which the smallest
holds."""
DimName = Annotated[str, Field(pattern=r"^[A-Z]$")]
LayoutPart = Annotated[str, Field(pattern=r"^([2-9]|[1-9][0-9]+)?[A-Z]$")]
"""A dim, or the points of a block and a dim, as ``8C``."""


class ArrayTimingKeys(Keys):
    """What the array pays for a tile: blocks of weights, and passes that stream through them."""

    block: dict[DimName, Width]
    """Points of each dim that the array holds at once; tiles are cut into such blocks."""
    pass_dim: DimName
    """The dim whose neighbouring points stream through a block, one a cycle."""
    pass_points: Width
    """The most points of a pass."""
    least_pass: Number = Constant(value=1.0)
    """Cycles that a pass takes at least."""
    pass_latency: Number = Constant(value=0.0)
    """Cycles from a pass's entry to its exit, without those that grow with pass_points."""
    pass_latency_per_point: Number = Constant(value=0.0)
    """Cycles that the latency grows with every one of pass_points."""
    passes_in_flight: AtLeastOne = 1
    """Passes that can be between entry and exit."""
    least_last_pass: Width | None = None
    """Cycles that the last pass of a block takes at least, while the next block enters."""


class TransferTimingKeys(Keys):
    """What it costs to move tiles between the outermost level and the next, in one direction."""

    request_bytes: AtLeastOne
    """The most bytes of a request; requests do not cross multiples of it."""
    beat_bytes: AtLeastOne
    """Bytes that the bus moves in a cycle."""
    buffer_bytes: Width | None = None
    """Bytes that the buffer takes in or gives in a cycle. Absent: as many as the bus moves."""
    short_requests_in_proportion: bool = False
    """Whether a request for less than a beat costs per_request in proportion to its bytes."""
    per_request: Number = Constant(value=0.0)
    """Cycles of a request, beside its beats."""
    per_row: Number = Constant(value=0.0)
    """Cycles of a row of a tile, beside its requests."""
    joins_rows: bool = False
    """Whether rows that follow each other in memory are moved as one."""
    row_elements: Width | None = None
    """The most elements that are moved at once. Absent: a whole row."""
    product_row_elements: Width | None = None
    """The same for matrix products. Absent: as for other layers."""


class CacheTimingKeys(Keys):
    """A cache between the outermost level and the next."""

    name: LevelName
    """The cache's name."""
    size_bytes: AtLeastOne
    """What it holds."""
    line_bytes: AtLeastOne
    """Bytes of a line."""
    ways: AtLeastOne
    """Lines of a set."""
    miss: Number = Constant(value=0.0)
    """Cycles of a line that is moved between this cache and what lies behind it."""
    lines_per_write_miss: Number = Constant(value=1.0)
    """Lines moved for one that is written and missed: 2 where it is fetched first and later written back."""


class LinkKeys(Keys):
    """A link of its own that a tensor has between a level and the levels inside it."""

    level: LevelName
    """The level that the link starts from."""
    tensor: Role
    """The tensor's role."""
    read: Number | None = None
    """Words a cycle inwards. Absent: no limit."""
    write: Number | None = None
    """Words a cycle outwards, of outputs. Absent: no limit."""


class ProcessingTimingKeys(Keys):
    """What an array of PEs with scratchpads pays beyond its bandwidths."""

    links: list[LinkKeys] = Field(default_factory=list)
    """Links that carry one tensor each, in addition to the bandwidths of levels, which all tensors use."""
    accumulate: Number = Constant(value=0.0)
    """Cycles that a PE pays for every partial sum that leaves its scratchpad."""
    exposed_fills: dict[Role, Number] = Field(default_factory=dict)
    """Tensors for which the array waits, and how many words a cycle come from the outermost level then."""


class TimingKeys(Keys):
    """What cycles a machine pays beyond its bandwidths: it runs a layer in steps, a tile each."""

    array: ArrayTimingKeys | None = None
    """What the array pays for a tile. Absent: the cycles of the MAC units, as counted."""
    load: TransferTimingKeys | None = None
    """How tiles come in. Absent: by the bandwidths of the levels."""
    store: TransferTimingKeys | None = None
    """How tiles of outputs leave. Absent: by the bandwidths of the levels."""
    caches: list[CacheTimingKeys] = Field(default_factory=list)
    """Caches behind the transfers, the one next to the array first."""
    layouts: dict[Role, list[LayoutPart]] = Field(default_factory=dict)
    """How tensors lie in memory: by role the dims, outermost first, and a block as in [N, C, Q, P, 8C]."""
    permitted_layouts: dict[Role, list[list[LayoutPart]]] = Field(default_factory=dict)
    """By role the layouts that a mapping may choose instead; solvers look for the best.

    Every layer is mapped by itself: what it takes to move a tensor from one layout to another, between two
    layers, is not counted. Weights can be prepared beforehand.
    """
    steps_in_flight: Annotated[int, Field(ge=1, le=2)] = 2
    """2: a step loads while the one before it computes. 1: nothing overlaps."""
    whole_steps: list[LayerKind] = Field(default_factory=list)
    """Kinds of layers whose steps keep their half of the buffers until they have stored their outputs.

    The step after the next one can load only then.
    """
    ahead: Number = Constant(value=0.0)
    """Cycles by which each part of a whole step (load, compute, store) may overlap with the part before."""
    processing: ProcessingTimingKeys | None = None
    """What an array of PEs with scratchpads pays. Absent: by the bandwidths of the levels."""
    issue: Number = Constant(value=0.0)
    """Cycles of the host to issue a step."""
    product_issue: Number | None = None
    """The same for matrix products. Absent: as for other layers."""
    product_block: dict[DimName, Width] = Field(default_factory=dict)
    """Tiles of matrix products are rounded up to whole multiples of these."""
    reloads: list[Role] = Field(default_factory=list)
    """Tensors whose tile is loaded in every step, even where it did not change."""
    keeps_partial_sums: bool = False
    """Whether outputs stay until they are finished; otherwise they leave and come back."""
    clear_per_row: Number = Constant(value=0.0)
    """Cycles to set a row of outputs to zero before its first partial sum."""
    whole_strides: bool = False
    """Whether a tile of a strided layer is loaded with the pixels that are skipped behind its last one."""
    starts_warm: bool = False
    """Whether the caches hold what they can of a layer when it begins."""


class ArchitectureKeys(Keys):
    """An architecture: a stack of storage levels over MAC units, with their sizes, energies and areas."""

    name: Annotated[str, Field(min_length=1)]
    """The architecture's name."""
    description: str = ""
    """What it is, for people."""
    source: Sources = Field(default_factory=list)
    """Where the numbers are from: a text or a list of texts."""
    technology: str | None = None
    """A technology, by name or file, whose laws give the energies, areas and leakage that are absent."""
    frequency: Frequency = Quantity(1e9, "Hz", "1 GHz")
    """The clock."""
    word_bits: AtLeastOne | None = None
    """Bits of a word, of every level and of the MAC units that do not say otherwise."""
    levels: Annotated[list[LevelKeys], Field(min_length=1)]
    """The storage levels, OUTERMOST FIRST, as one reads a chip from its pins."""
    compute: ComputeKeys = ComputeKeys()
    """What one MAC unit is. Absent: a unit named MAC, as the technology has it."""
    constraints: dict[LayerKind, list[dict[str, Any]]] = Field(default_factory=dict)
    """What mappings the hardware can run, by kind of layer: entries as in a study's mapping.constraints."""
    timing: TimingKeys | None = None
    """What cycles it pays beyond its bandwidths. Absent: cycles are counted from the bandwidths alone."""
    precision: PrecisionKeys | None = None
    """The bits of elements. Absent: an element is a word of every level, and an operand of a MAC."""
