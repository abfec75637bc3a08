"""The attributes of one memory in a Timeloop architecture: geometry, bandwidths, class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from costmodel.errors import InputError, did_you_mean
from costmodel.formats.technologies import technology_names
from costmodel.formats.timeloop.components import Component
from costmodel.hardware.technology import Kind
from costmodel.number_checks import is_number, is_whole

_BITS = ("word_bits", "datawidth", "word_width")
_BLOCK = ("block_size", "n_words")
_WIDTH = ("width", "memory_width", "data_storage_width")
_DEPTH = ("depth", "memory_depth", "data_storage_depth")
_PLAIN = ("read_bandwidth", "write_bandwidth", "shared_bandwidth", "multiple_buffering")
_KNOWN = (
    *_BITS,
    *_BLOCK,
    *_WIDTH,
    *_DEPTH,
    *_PLAIN,
    "entries",
    "sizeKB",
    "cluster_size",
    "vector_access_energy",
    "cluster_area",
    "technology",
    "instances",
    "meshX",
    "meshY",
)
_ONLY_AS: dict[str, tuple[Any, ...]] = {
    "cluster_size": (1,),
    "min_utilization": (0,),
    "allow_overbooking": (False,),
    "reduction_supported": (True, "yes"),
    "has_power_gating": (False,),
    "network_fill_latency": (0,),
    "network_drain_latency": (0,),
    "addr_gen_energy": (0,),
    "bandwidth": (),
    "rw_bandwidth": (),
    "per_dataspace_bandwidth_consumption_scale": ({},),
    "metadata_storage_depth": (0,),
    "metadata_datawidth": (0,),
    "decompression_supported": (False,),
    "compression_supported": (False,),
    "tile_partition_supported": (False,),
    "concordant_compressed_tile_traversal": (False,),
}
"""Attributes that change counts or energies in ways that are not modelled.

Each with the values that change nothing, and are allowed.
"""
_REMEDIES = {
    "cluster_size": "Rows that instances share are not modelled: give the row of one instance, and its energy"
}
_PARAMETERS_OF_ESTIMATORS = ("num_banks", "n_banks", "num_ports", "n_ports", "n_rdwr_ports", "type")


@dataclass(frozen=True)
class MemoryAttributes:
    """A memory's attributes, checked when built.

    A row of ``width`` bits is one block of ``block_size`` words of ``word_bits``: rows of several blocks
    (clusters) are not modelled. An unknown attribute is taken as a parameter of Accelergy's estimators, which
    does not change Timeloop's counts; but one that looks like a misspelt known attribute is refused.
    """

    memory: Component
    file: str

    def __post_init__(self) -> None:
        for key, value in self._own.items():
            if key in _ONLY_AS and value is not None and value not in _ONLY_AS[key]:
                allowed = " or ".join(map(str, _ONLY_AS[key])) or "no such attribute"
                raise self._refused(key, allowed, _REMEDIES.get(key, "Only this is modelled"))
            # Any name may be a parameter of some estimator, so an unknown one is no mistake by itself. One
            # that is almost a known attribute most likely is: it would be ignored in silence.
            if key not in (*_ONLY_AS, *_PARAMETERS_OF_ESTIMATORS):
                check_spelling(self.memory, key, _KNOWN, self.file)

    @property
    def _own(self) -> dict[str, Any]:
        return self.memory.attributes

    def document(self) -> dict[str, Any]:
        """The keys of a level in an architecture file of ours, without energy and area."""
        found = {key: self._number(key) for key in _PLAIN if self._own.get(key) is not None}
        if (size := self.size_words) is not None:
            found["size"] = size
        return {"word_bits": self.word_bits, "block_size": self.block_size, **found}

    @property
    def word_bits(self) -> int:
        """Bits of a word: 16 where the file states none, as in Timeloop."""
        return self._first(_BITS) or 16

    @property
    def block_size(self) -> int:
        stated, width = self._first(_BLOCK), self._first(_WIDTH)
        if width is None:
            return stated or 1
        words = width // self.word_bits
        if width % self.word_bits or (stated is not None and stated != words):
            expected = f"width = block_size x {self.word_bits} bits"
            found = f"width {width}, block_size {stated or 'not given'}"
            remedy = "Rows of several blocks (clusters) are not modelled"
            raise InputError(self.file, expected, found, remedy, key=self._key("width"))
        return words

    @property
    def size_words(self) -> int | None:
        """Capacity of one instance in words; None is unlimited, which only a DRAM may be.

        The file may state it in several ways, which must agree.
        """
        entries, rows, kibibytes = self._whole("entries"), self._first(_DEPTH), self._whole("sizeKB")
        words = {
            "entries": entries,
            f"depth x {self.block_size}": None if rows is None else rows * self.block_size,
            "sizeKB": None if kibibytes is None else kibibytes * 1024 * 8 // self.word_bits,
        }
        stated = {name: size for name, size in words.items() if size is not None}
        # Sizes that disagree are a mistake in the file; taking one of them would hide it.
        if len(set(stated.values())) > 1:
            found = ", ".join(f"{name} makes {size} words" for name, size in stated.items())
            raise InputError(self.file, "one size", found, "Remove all but one", key=self._key("depth"))
        if not stated and self.kind != "dram":
            raise self._refused("depth", "a size: depth, entries or sizeKB")
        return next(iter(stated.values()), None)

    @property
    def kind(self) -> Kind | None:
        """The kind of memory whose energy law the class follows; None if it follows none."""
        if self._own.get("technology") == "DRAM":
            return "dram"
        # The subclass is the more specific of the two names.
        return _law(self.memory.subclass) or _law(self.memory.class_name)

    @property
    def access_energy_pj(self) -> float | None:
        return self._number("vector_access_energy") if "vector_access_energy" in self._own else None

    @property
    def area_um2(self) -> float | None:
        return self._number("cluster_area") if "cluster_area" in self._own else None

    def _first(self, keys: tuple[str, ...]) -> int | None:
        there = [key for key in keys if self._own.get(key) is not None]
        return self._whole(there[0]) if there else None

    def _whole(self, key: str) -> int | None:
        value = self._own.get(key)
        if value is not None and not is_whole(value, 1):
            raise self._refused(key, "a whole number of at least 1 (expressions are not evaluated)")
        return value

    def _number(self, key: str) -> float:
        value: float = self._own[key]
        if not is_number(value, 0):
            raise self._refused(key, "a number of at least 0 (expressions are not evaluated)")
        return value

    def _refused(self, key: str, expected: str, remedy: str = "") -> InputError:
        return InputError(self.file, expected, self._own.get(key, "nothing"), remedy, key=self._key(key))

    def _key(self, key: str) -> str:
        return f"{self.memory.key}.attributes.{key}"


def _law(class_name: str) -> Kind | None:
    folded = class_name.casefold()
    if "dram" in folded:
        return "dram"
    if "sram" in folded:
        return "sram"
    return "register" if "reg" in folded or folded.endswith("rf") or "latch" in folded else None


def check_spelling(component: Component, key: str, known: tuple[str, ...], file: str) -> None:
    """InputError for an attribute that is none of ``known`` and close to one of them."""
    if key not in known and (hint := did_you_mean(key, known, cutoff=0.8)):
        location = f"{component.key}.attributes.{key}"
        raise InputError(file, "an attribute that is known", key, hint, key=location)


def technology_name(component: Component) -> str | None:
    """Our technology for the component's ``technology``: one of that name, or that of 45 nm; else None."""
    written = str(component.attributes.get("technology", ""))
    if written in technology_names():
        return written
    return "thistle-45nm" if written.casefold().removesuffix("nm") == "45" else None
