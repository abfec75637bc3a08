"""Files of layer schemes (JSON lines) as nn-dataflow's searches write them, and what each scheme costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costmodel.errors import InputError
from costmodel.formats.json.json_fields import field, whole_number
from costmodel.formats.json.safe_json import first_json_object, json_lines
from costmodel.published.nn_dataflow.blocking import Blocking, NotFittingError, SchemeCost, scheme_cost
from costmodel.published.nn_dataflow.hardware import NnDataflowHardware, UnitCosts
from costmodel.published.nn_dataflow.layers import LEVELS, LOOPS, TENSORS, Counts, LayerShape, check_size
from costmodel.published.nn_dataflow.row_stationary import ProcessingPass, processing_passes

MOST_LINE_BYTES = 1024 * 1024
CONVOLUTIONS = ("ConvLayer", "FCLayer")
LOCALS = ("PoolingLayer", "EltwiseLayer", "LocalRegionLayer")
FACTORS = ("ti", "to", "tb")
"""The tool's keys for the factors of C, K and N; each has a list of factors, from DRAM inwards."""


@dataclass(frozen=True)
class SchemeCase:
    """One row: a layer and its batch, the hardware, the blocked loops.

    ``where``: the row's file and line. ``record``: the row as it was read.
    """

    where: str
    layer: LayerShape
    batch: int
    hardware: NnDataflowHardware
    blocking: Blocking
    record: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.record.get('net', '')}/{self.record.get('layer', '')}"

    def cost(self) -> SchemeCost:
        """The cost of the scheme.

        Raises InputError for factors that belong to no pass of this layer, NotFittingError where tiles exceed
        the buffer or the registers.
        """
        costs, reasons = [], []
        for unit in self.passes():
            try:
                costs.append(scheme_cost(unit, self.blocking, self.hardware))
            except NotFittingError as error:
                reasons.append(error)
        if not costs:
            raise reasons[0]
        # copies can be divided between input and output channels in several ways with equal trips, and a row
        # does not say which way it means: the tool keeps the cheapest
        return min(costs, key=lambda cost: (cost.access_energy, cost.cycles))

    def passes(self) -> list[ProcessingPass]:
        """The passes whose trips the factors multiply to, and whose sizes are the row's if it has any."""
        passes = processing_passes(self.layer, self.batch, self.hardware.array)
        found = [unit for unit in passes if unit.loop_counts == self.blocking.totals]
        if not found:
            trips = " or ".join(str(unit.loop_counts) for unit in passes)
            raise InputError(self.where, f"factors that multiply to {trips}", self.blocking.totals, key="ti")
        if (sizes := self.record.get("unit_size")) is not None:
            found = [one for one in found if [list(one.buffer_words), list(one.register_words)] == sizes]
            if not found:
                raise InputError(self.where, "the sizes of one of the layer's passes", sizes, key="unit_size")
        return found


def evaluated_line(case: SchemeCase) -> dict[str, Any]:
    """The object that ``archsweep evaluate --json`` prints.

    Where tiles do not fit, numbers are null and ``not_possible`` has the reason. ``energy_j`` is in J if the
    row's costs are.
    """
    named = {"net": case.record.get("net"), "layer": case.record.get("layer")}
    try:
        cost = case.cost()
    except NotFittingError as reason:
        nothing = dict.fromkeys(("energy_j", "time_cycles", "access"))
        return {**named, **nothing, "not_possible": str(reason)}
    access = {
        level: dict(zip(TENSORS, words, strict=True))
        for level, words in zip(LEVELS, cost.accesses, strict=True)
    }
    return {**named, "energy_j": cost.energy, "time_cycles": cost.cycles, "access": access}


def is_scheme_file(path: Path) -> bool:
    """Whether a file holds nn-dataflow's rows: JSON lines whose first has blocked loops ``ti``."""
    return {"dims", "hw", "ti"} <= first_json_object(path, MOST_LINE_BYTES).keys()


def read_schemes(path: Path) -> Iterator[SchemeCase]:
    """The rows of a file, plain or gzipped; InputError names the line and key that are wrong."""
    for where, record in json_lines(path, MOST_LINE_BYTES):
        try:
            yield _case(record, where)
        except InputError as error:
            raise error if error.where.startswith(str(path)) else error.at(where) from None


def _case(record: Any, where: str) -> SchemeCase:
    hardware = _hardware(field(record, "hw", dict, where), f"{where}: hw")
    if hardware.node_count > 1:
        expected = "one node: rows do not say how a layer is divided among several"
        raise InputError(where, expected, hardware.nodes, key="hw.nodes")
    return SchemeCase(
        where,
        _layer(field(record, "dims", dict, where), f"{where}: dims"),
        _batch(record, where),
        hardware,
        _blocking(record, where),
        record,
    )


def _batch(record: dict[str, Any], where: str) -> int:
    batch = whole_number(record.get("batch"), where, "batch")
    check_size(batch, where, "batch")
    return batch


def _layer(dims: dict[str, Any], where: str) -> LayerShape:
    kind = field(dims, "kind", str, where)
    if kind not in CONVOLUTIONS + LOCALS:
        expected = f"a layer that nn-dataflow 2.1 maps ({', '.join(CONVOLUTIONS + LOCALS)})"
        raise InputError(where, expected, kind, key="kind")

    def size(key: str) -> int:
        return whole_number(dims.get(key), where, key)

    convolves = kind in CONVOLUTIONS
    return LayerShape(
        kind="convolution" if convolves else "local",
        channels_in=size("nifm"),
        channels_out=size("nofm"),
        out_h=size("hofm"),
        out_w=size("wofm"),
        window_h=size("hfil" if convolves else "hreg"),
        window_w=size("wfil" if convolves else "wreg"),
        stride_h=size("htrd"),
        stride_w=size("wtrd"),
        operands=1 if convolves else size("nreg"),
    )


def _hardware(data: dict[str, Any], where: str) -> NnDataflowHardware:
    costs = field(data, "costs", dict, where)
    word = whole_number(data.get("word_bytes"), where, "word_bytes")
    missing = [key for key in (*LEVELS, "mac_op", "noc_hop", "idl_unit") if key not in costs]
    if missing:
        raise InputError(where, "a cost per level, operation, hop and idle cycle", missing[0], key="costs")
    dram, buffer, bus, registers = (costs[level] for level in LEVELS)
    return NnDataflowHardware(
        nodes=_sides(data, "nodes", where),
        array=_sides(data, "array", where),
        register_words=whole_number(data.get("regf_bytes"), where, "regf_bytes") // word,
        buffer_words=whole_number(data.get("gbuf_bytes"), where, "gbuf_bytes") // word,
        dram_words_per_cycle=data.get("dram_bw_words_per_cycle", 0),
        bus_words_per_cycle=data.get("array_bus_words_per_cycle", 0),
        costs=UnitCosts(costs["mac_op"], (dram, buffer, bus, registers), costs["noc_hop"], costs["idl_unit"]),
    )


def _sides(data: dict[str, Any], key: str, where: str) -> tuple[int, int]:
    rows, columns = _numbers(field(data, key, list, where), 2, where, key)
    return rows, columns


def _blocking(record: dict[str, Any], where: str) -> Blocking:
    by_loop = [_numbers(field(record, key, list, where), 3, where, key) for key in FACTORS]
    orders = field(record, "orders", list, where)
    if len(orders) != 2:
        raise InputError(where, "an order per level, two", orders, key="orders")
    bypass = record.get("bypass", [False] * len(TENSORS))
    if not isinstance(bypass, list) or [type(one) for one in bypass] != [bool] * len(TENSORS):
        raise InputError(where, "true or false per tensor", bypass, key="bypass")
    return Blocking(
        tuple(zip(*by_loop, strict=True)),
        tuple(_numbers(order, len(LOOPS), where, "orders", least=0) for order in orders),
        tuple(bypass),
    )


def _numbers(values: Any, length: int, where: str, key: str, least: int = 1) -> Counts:
    if not isinstance(values, list) or len(values) != length:
        raise InputError(where, f"{length} whole numbers", values, key=key)
    return tuple(whole_number(value, where, key, least) for value in values)
