"""Architectures in the ``archs.json`` form of the Timeloop cases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from costmodel.errors import InputError
from costmodel.formats.json.json_fields import field, whole_number
from costmodel.hardware.architecture import Architecture, Compute, StorageLevel


def architecture_from_json(name: str, data: Any, where: str) -> Architecture:
    """One architecture of an ``archs.json``: ``arithmetic`` and ``storage`` (innermost first).

    Raises InputError with ``where`` and the key for what is missing, of a wrong type or value, and for
    ``instances`` that the fan-outs contradict.
    """
    arithmetic = field(data, "arithmetic", dict, where)
    storage = field(data, "storage", list, where)
    with _located(where, "arithmetic"):
        compute = Compute(
            field(arithmetic, "name", str, where),
            _value(arithmetic, "word_bits", where),
            _value(arithmetic, "energy_per_op_pJ", where),
        )
    levels = tuple(_level(entry, where, f"storage[{index}]") for index, entry in enumerate(storage))
    with _located(where):
        architecture = Architecture(name, levels, compute)
    _check_instances(architecture, data, where)
    return architecture


@contextmanager
def _located(where: str, key: str = "") -> Iterator[None]:
    """Add the file and the key to errors that the value types raise."""
    try:
        yield
    except InputError as error:
        raise error if error.where.startswith(where) else error.at(where, key) from None


def _value(entry: dict[str, Any], key: str, where: str) -> Any:
    """A value that the value types will check; here only its absence is an error."""
    if key not in entry:
        raise InputError(where, f"{key!r}", f"only {', '.join(entry)}", key=key)
    return entry[key]


def _level(entry: Any, where: str, key: str) -> StorageLevel:
    location = f"{where}: {key}"
    energies = field(entry, "energy_per_access_pJ", dict, location)
    fanout = field(entry, "fanout_below_XY", list, location)
    if len(fanout) != 2:
        raise InputError(location, "the fan-outs [X, Y]", fanout, key="fanout_below_XY")
    with _located(where, key):
        return StorageLevel(
            name=field(entry, "name", str, location),
            size_words=_value(entry, "size_words", location),
            word_bits=_value(entry, "word_bits", location),
            read_energy_pj=_value(energies, "read", location),
            write_energy_pj=_value(energies, "fill_write", location),
            update_energy_pj=_value(energies, "update", location),
            block_size=entry.get("block_size", 1),
            leakage_pj_per_cycle=energies.get("leak_per_cycle_instance", 0.0),
            read_bandwidth=entry.get("read_bandwidth"),
            write_bandwidth=entry.get("write_bandwidth"),
            shared_bandwidth=entry.get("shared_bandwidth"),
            multiple_buffering=entry.get("multiple_buffering", 1.0),
            fanout_x=fanout[0],
            fanout_y=fanout[1],
        )


def _check_instances(architecture: Architecture, data: Any, where: str) -> None:
    parts = [("arithmetic", data["arithmetic"], architecture.mac_units)]
    for index, count in enumerate(architecture.instances):
        parts.append((f"storage[{index}]", data["storage"][index], count))
    for key, entry, count in parts:
        if "instances" in entry and whole_number(entry["instances"], where, f"{key}.instances") != count:
            raise InputError(
                where,
                f"{count}, the product of the fan-outs outside it",
                entry["instances"],
                key=f"{key}.instances",
            )
