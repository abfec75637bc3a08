"""Architecture files: YAML with units, outermost level first, read into :class:`Architecture`.

# The architecture file

```yaml
name: my-chip
description: what it is                  # optional, for people
source: where the numbers are from       # optional, a text or a list of texts
technology: thistle-45nm                 # a name (archsweep list technologies) or a file beside this one;
                                         # needed where an energy is absent
frequency: 200 MHz                       # default 1 GHz; a plain number is in Hz
word_bits: 16                            # of every level and the MACs that do not say otherwise
levels:                                  # OUTERMOST FIRST, as one reads a chip from its pins
  - name: DRAM
    kind: dram                           # dram, sram or register: chooses the laws
    shared_bandwidth: 25.6 GB/s          # over reads and writes; or read_bandwidth and write_bandwidth
    block_size: 4                        # words that one access moves, default 1
  - name: Buffer
    kind: sram
    size: 128 KiB                        # absent: unlimited, which the outermost level must be
    read_bandwidth: 16 words/cycle       # absent: unlimited
    fanout: [14, 12]                     # [x, y] instances of the next level below each instance
    keeps: [weights, inputs, outputs]    # the tensors it can hold, default all three
    multiple_buffering: 2                # the size divided by this is what a tile may take, default 1
  - name: RegFile
    kind: register
    size: 512 words
    energy: {read: 0.5 pJ, write: 0.7 pJ, update: 0.9 pJ}   # or one value for all three
    leakage: 0.01 pJ/cycle               # of one instance; absent: from the technology, if that gives one
    area: 9000 um2                       # of one instance; or {value: 9000 um2, at_size: 512 words}
compute:                                 # the MAC units below the innermost level
  name: MAC
  energy: 2.2 pJ
  area: 1239.5 um2
constraints:                             # optional: what mappings this hardware can run
  convolution:                           # of layers with dims P, Q, R, S; product: of those with M, N, K
    - {level: Buffer, spatial_x: [K], spatial_y: [C]}       # as in a study's mapping.constraints
timing:                                  # optional: what cycles it pays beyond its bandwidths
  issue: {value: 250, source: read off runs of empty tiles}   # or a plain number
```

| key | units (the first is what a plain number means) |
|---|---|
| size | words, Kiwords, Miwords, Giwords; B, KiB, MiB, GiB (1024) and KB, MB, GB (1000); bits, Kibits, ... |
| read/write/shared_bandwidth | words/cycle; any size unit per cycle or per s, such as B/cycle, GB/s, GiB/s |
| energy of a level | pJ, fJ, nJ: of one access; or of a part of it: pJ/word, pJ/bit, pJ/B, fJ/bit, ... |
| energy of compute | pJ, fJ, nJ: of one multiply-accumulate |
| leakage | pJ/cycle, fJ/cycle, nJ/cycle; uW, mW, W |
| area | um2, mm2 |
| frequency | Hz, kHz, MHz, GHz |

**An access** moves one block: ``block_size`` words of ``word_bits`` bits each. With words of 16 bits and
blocks of 4, ``energy: 3 pJ/bit`` is 192 pJ an access, ``3 pJ/word`` is 12 pJ, and ``3 pJ`` is 3 pJ.

Bytes become words by the level's word_bits and seconds become cycles by the frequency.

**Absent energies, areas and leakage come from the technology's laws** by kind, size and word bits (see
`costmodel.hardware.technology`), so a study that varies `Buffer.size` moves energy and area together. Three
ways to give the energy of a level, and what happens when its size is varied:

* absent: from the law, which moves it;
* `energy: 8 pJ`, or `{read, write, update}`: fixed, whatever the size (a study that varies the size warns);
* `{read, write, update, at_size: 4 Kiwords}`: right at that size, and scaled from there as the kind's
  law scales (for sram the technology's power of the size, without one the square root; linear for register,
  constant for dram).

An area that is given is fixed as well, unless it says ``at_size``: the laws of areas are linear. Without a
technology every energy must be given and absent areas are 0. Where a technology lacks an energy, because
nobody published it, that energy must be given, too; an area that it lacks is 0.

**Constraints** are the hardware's own: every solver keeps to them, and a study or a constraint file cannot
state others for a level that has some. They are no part of the :class:`Architecture`; who chooses mappings
asks for them (:func:`costmodel.formats.architectures.stated_constraints`).

```yaml
precision:                               # the bits of elements; absent: each is a word
  weights: {bits: 4, scale_bits: 16, group: 128}   # or bits (8), or a format (int4, fp8, bf16, mxfp4)
  activations: int8                      # other operands, finished outputs; absent, as weights: those of MACs
  partial_sums: int32                    # outputs to which products are still to come; absent: activations
  caches: fp8                            # second operands that are no parameters; absent: activations
  from_network: false                    # true: what the network's file says of a tensor comes first
```

**Precision** makes capacities, bandwidths and energies count bits (`costmodel.mapping.element_bits`). The
energy of a MAC of other widths than its own is that of the technology's law, in proportion to the product of
both widths: it needs a technology with a ``mac_energy``. Areas, and how many MAC units there are, stay those
of the file. A file with a timing has no precision.

**Timing** says how the machine runs a layer step by step, a tile each (`costmodel.hardware.timing`). Times
are in cycles. A width is a number, or the name of a level, which stands for its fan-out, so that an axis
over the fan-out moves it; of a list the smallest holds. Dims are those of a convolution, and of a matrix
product those that it has as a convolution of 1 x 1: P its rows, K its columns, C its sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from costmodel.errors import InputError, NotFoundError
from costmodel.formats.override_blame import built_with
from costmodel.formats.technologies import load_technology
from costmodel.formats.yaml.architecture_document import (
    ArchitectureKeys,
    ComputeKeys,
    LevelKeys,
    PrecisionKeys,
    WidthKeys,
)
from costmodel.formats.yaml.architecture_overrides import Overrides
from costmodel.formats.yaml.architecture_timing import timing_of
from costmodel.formats.yaml.file_keys import check_keys
from costmodel.formats.yaml.quantities import Quantity
from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.hardware.precision import Precision, Width
from costmodel.hardware.technology import ACCESSES, Technology, area_ratio, energy_ratio


def architecture_from_document(
    document: Any, where: str, overrides: Mapping[str, Any] | None = None
) -> Architecture:
    """The architecture of a parsed file called ``where`` in errors.

    ``overrides`` replace values of the document (``{"SRAM.size": "64 KiB", "compute.energy": 1.1}``) before
    anything is computed from it. InputError names the key of the file, or the override, that is wrong.
    """
    given = {str(key): value for key, value in (overrides or {}).items()}
    return built_with(partial(_architecture, document, where), given, where)


def _architecture(document: Any, where: str, overrides: Mapping[str, Any]) -> Architecture:
    """The same architecture; an InputError at a key that an override replaced names that override."""
    changes = Overrides(dict(overrides), where)
    try:
        keys = check_keys(ArchitectureKeys, changes.applied_to(document), where)
        return _ArchitectureBuilder(keys, where).architecture()
    except InputError as error:
        raise changes.blamed_for(error) from None


class _ArchitectureBuilder:
    """Builds the architecture from checked keys; its steps use the file's defaults and technology."""

    def __init__(self, keys: ArchitectureKeys, where: str) -> None:
        self.keys, self.where = keys, where
        self.table: Technology | None = None
        if keys.technology is not None:
            try:
                self.table = load_technology(keys.technology)
            except NotFoundError as error:
                raise InputError(where, error.expected, error.found, error.remedy, key=error.key) from None

    def architecture(self) -> Architecture:
        levels = tuple(self._level(level) for level in reversed(self.keys.levels))
        compute = self._compute(self.keys.compute)
        timing = timing_of(self.keys.timing, levels, self.where) if self.keys.timing else None
        precision = self._precision(self.keys.precision, compute) if self.keys.precision else None
        frequency = float(self.keys.frequency.value)
        try:
            return Architecture(self.keys.name, levels, compute, frequency, timing, precision)
        except InputError as error:
            raise error.at(self.where) from None

    def _level(self, level: LevelKeys) -> StorageLevel:
        key = f"levels.{level.name}"
        word_bits = self._word_bits(level.word_bits, key)
        size = None if level.size is None else self._words(level.size, word_bits, f"{key}.size")
        read, write, update = self._energies(level, size, word_bits)
        try:
            return StorageLevel(
                name=level.name,
                size_words=size,
                word_bits=word_bits,
                read_energy_pj=read,
                write_energy_pj=write,
                update_energy_pj=update,
                block_size=level.block_size,
                leakage_pj_per_cycle=self._leakage(level, size, word_bits),
                read_bandwidth=self._bandwidth(level.read_bandwidth, word_bits),
                write_bandwidth=self._bandwidth(level.write_bandwidth, word_bits),
                shared_bandwidth=self._bandwidth(level.shared_bandwidth, word_bits),
                multiple_buffering=float(level.multiple_buffering),
                fanout_x=level.fanout[0],
                fanout_y=level.fanout[1],
                keeps=tuple(level.keeps),
                area_um2=self._area(level, size, word_bits),
            )
        except InputError as error:
            raise error.at(self.where, key) from None

    def _compute(self, compute: ComputeKeys) -> Compute:
        word_bits = self._word_bits(compute.word_bits, "compute")
        if compute.energy is not None:
            energy = float(compute.energy.value)
        else:
            table = self._table_for("compute.energy")
            energy = self._from_law(table.multiply_energy_pj, "compute.energy", word_bits)
        if compute.area is not None:
            area = float(compute.area.value)
        else:
            area = self.table.multiply_area_um2(word_bits) if self.table else 0.0
        try:
            return Compute(compute.name, word_bits, energy, area)
        except InputError as error:
            raise error.at(self.where, "compute") from None

    def _precision(self, keys: PrecisionKeys, compute: Compute) -> Precision:
        """The widths with their defaults, and the technology's law for MACs of two widths."""
        own = Width(compute.word_bits)
        activations = self._width(keys.activations, "activations", own)
        law = None
        if self.table is not None and self.table.mac_energy_pj is not None:
            # An energy that the file states is right at the MACs' own width, and scales from there.
            law = compute.energy_pj / compute.word_bits**2
        try:
            found = Precision(
                weights=self._width(keys.weights, "weights", own),
                activations=activations,
                partial_sums=self._width(keys.partial_sums, "partial_sums", activations),
                caches=self._width(keys.caches, "caches", activations),
                from_network=keys.from_network,
                pj_per_bit_product=law,
            )
        except InputError as error:
            raise InputError(
                self.where, error.expected, error.found, error.remedy, key=f"precision.{error.key}"
            ) from None
        for key in ("weights", "activations", "caches"):
            bits = getattr(found, key).bits
            if law is None and getattr(keys, key) is not None and bits != compute.word_bits:
                remedy = "Name a technology with a mac_energy, by whose law other widths are counted"
                expected = f"the {compute.word_bits} bits of the MACs, whose energy has no law here"
                raise InputError(self.where, expected, bits, remedy, key=f"precision.{key}")
        return found

    def _width(self, given: int | str | WidthKeys | None, key: str, default: Width) -> Width:
        if given is None:
            return default
        try:
            if isinstance(given, str):
                return Width.named(given)
            return (
                Width(given) if isinstance(given, int) else Width(given.bits, given.scale_bits, given.group)
            )
        except InputError as error:
            where = f"precision.{key}"
            raise InputError(self.where, error.expected, error.found, error.remedy, key=where) from None

    def _energies(self, level: LevelKeys, size: int | None, word_bits: int) -> tuple[float, float, float]:
        """pJ of one access of a level that reads, writes or updates, for a block of words.

        From the technology's law if the file states none, else what the file states, scaled by the law from
        the size at which it holds to the level's.
        """
        key = f"levels.{level.name}.energy"
        given = level.energy
        if given is None:
            table = self._table_for(key)
            sized = self._sized(level, size)
            read, write = (
                level.block_size
                * self._from_law(table.access_energy_pj, key, level.kind, sized, word_bits, access)
                for access in ("read", "write")
            )
            return read, write, write
        ratios = {"read": 1.0, "write": 1.0, "update": 1.0}
        if given.at_size is not None:
            at_size = self._words(given.at_size, word_bits, f"{key}.at_size")
            sizes = self._sized(level, size), at_size
            for access in ACCESSES:
                ratios[access] = (
                    self.table.energy_ratio(level.kind, *sizes, access)
                    if self.table
                    else energy_ratio(level.kind, *sizes)
                )
        # an access moves a block: block_size words of word_bits each
        accesses = {"pJ": 1, "pJ/word": level.block_size, "pJ/bit": level.block_size * word_bits}
        read, write, update = (
            ratios[access] * accesses[energy.unit] * energy.value
            for access, energy in (("read", given.read), ("write", given.write), ("update", given.update))
        )
        return read, write, update

    def _leakage(self, level: LevelKeys, size: int | None, word_bits: int) -> float:
        if level.leakage is not None:
            return self._per_cycle(level.leakage)
        if self.table is None or (size is None and level.kind != "dram"):
            return 0.0
        leakage_mw = self.table.storage_leakage_mw(level.kind, size or 0, word_bits)
        return 1e9 * leakage_mw / float(self.keys.frequency.value)

    def _from_law(self, law: Callable[..., float], key: str, *of: Any) -> float:
        """What a law of the technology gives; InputError at ``key`` of the file where it has no number."""
        try:
            return law(*of)
        except InputError as error:
            raise InputError(self.where, error.expected, "nothing", error.remedy, key=key) from None

    def _area(self, level: LevelKeys, size: int | None, word_bits: int) -> float:
        given = level.area
        if given is not None:
            area = float(given.value.value)
            if given.at_size is None:
                return area
            at_size = self._words(given.at_size, word_bits, f"levels.{level.name}.area.at_size")
            return area * area_ratio(level.kind, self._sized(level, size), at_size)
        if self.table is None:
            return 0.0
        return self.table.storage_area_um2(level.kind, self._sized(level, size), word_bits)

    def _sized(self, level: LevelKeys, size: int | None) -> int:
        """The size in words for a law of energy or area; those of DRAM do not need one."""
        if size is None and level.kind != "dram":
            remedy = f"The laws of {level.kind} need it; a level without a size is unlimited, as dram may be"
            raise InputError(self.where, "a size", "nothing", remedy, key=f"levels.{level.name}.size")
        return size or 0

    def _table_for(self, key: str) -> Technology:
        if self.table is None:
            remedy = "Give it (such as 4.5 pJ), or a technology to take it from"
            raise InputError(self.where, "an energy", "nothing", remedy, key=key)
        return self.table

    def _word_bits(self, own: int | None, key: str) -> int:
        word_bits = own or self.keys.word_bits
        if word_bits is None:
            remedy = "Give it here, or once for all at the top of the file"
            raise InputError(self.where, "the bits of a word", "nothing", remedy, key=f"{key}.word_bits")
        return word_bits

    def _words(self, size: Quantity, word_bits: int, key: str) -> int:
        words = size.value / word_bits if size.unit == "bits" else size.value
        if words != int(words):
            remedy = f"It makes {words:g} words of {word_bits} bits"
            raise InputError(self.where, "a whole number of words", size.written, remedy, key=key)
        return int(words)

    def _bandwidth(self, bandwidth: Quantity | None, word_bits: int) -> float | None:
        if bandwidth is None:
            return None
        words = bandwidth.value / word_bits if bandwidth.unit.startswith("bits") else bandwidth.value
        return float(self._per_cycle(Quantity(words, bandwidth.unit, bandwidth.written)))

    def _per_cycle(self, rate: Quantity) -> float:
        seconds = rate.unit.endswith("/s")
        return float(rate.value / self.keys.frequency.value if seconds else rate.value)
