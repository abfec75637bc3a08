"""How far KAPLA's parts agree with nn-dataflow and the released code: tables, then one JSON object.

    python benchmarks/kapla_conformance.py REFERENCE

REFERENCE is a file of layer schemes (such as ``tests/data/kapla/layer_schemes.jsonl.gz``), or a folder with
``layer_optima.jsonl.gz``.

rows: counted by the nn_dataflow convention; equal means accesses per level and tensor and cycles exactly,
energy within 1e-9. directives: of the rows that directives can express, those whose words held, cycles and
words from DRAM are equal, all accesses are, and in which the tool counts fewer at the buffer. training: the
backward layers with weights of the hand-written graphs, those that are derived from the forward graph with
equal channels, filter, stride and size, and those of equal MACs.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from math import prod
from pathlib import Path
from typing import Any

import record

from costmodel.errors import InputError
from costmodel.formats.directives.counts import accesses, cycles, parallelism
from costmodel.formats.directives.values import LayerScheme
from costmodel.formats.json.nn_dataflow_networks import FILE, load_network
from costmodel.formats.json.safe_json import load_json
from costmodel.published.nn_dataflow.as_directives import scheme_directives
from costmodel.published.nn_dataflow.cases import SchemeCase, evaluated_line, read_schemes
from costmodel.published.nn_dataflow.layers import TENSORS
from costmodel.schedule.layer_graph.training import training_graph

CLOSE = 1e-9


def measure(path: Path) -> dict[str, Any]:
    start = time.process_time()
    cases = list(read_schemes(path))
    result = {"rows": rows(cases), "directives": directives(cases), "training": training()}
    return result | {"cpu_seconds": round(time.process_time() - start, 2)}


def rows(cases: list[SchemeCase]) -> dict[str, Any]:
    """Equal rows per hardware and kind of layer."""
    counted: Counter[tuple[str, str]] = Counter()
    equal: Counter[tuple[str, str]] = Counter()
    worst, wrong = 0.0, []
    for case in cases:
        told, line = case.record, evaluated_line(case)
        group = (told["hw"]["name"], told["dims"]["kind"])
        error = abs(line["energy_j"] - told["energy"]) / told["energy"]
        same = line["access"] == told["access"] and line["time_cycles"] == told["time_cycles"]
        counted[group] += 1
        equal[group] += same and error <= CLOSE
        worst = max(worst, error)
        if not same or error > CLOSE:
            wrong.append(f"{case.where} {case.name}")
    return {
        "rows": counted.total(),
        "equal": equal.total(),
        "worst_energy_error": worst,
        "wrong": wrong,
        "groups": [[*group, equal[group], count] for group, count in sorted(counted.items())],
    }


def directives(cases: list[SchemeCase]) -> dict[str, int]:
    """How many rows directives express, and where their own counts are the tool's."""
    found: Counter[str] = Counter()
    for case in cases:
        (unit,) = case.passes()
        try:
            scheme = scheme_directives(
                case.name, case.layer, case.batch, unit, case.blocking, case.hardware.array
            )
        except InputError:
            # Directives cannot say every blocking; how many they can say is one of the numbers.
            continue
        found["expressed"] += 1
        found.update(agreement(case, scheme))
    return dict(found)


def agreement(case: SchemeCase, scheme: LayerScheme) -> dict[str, int]:
    cost = case.cost()
    buffer, registers = accesses(scheme, "GBUF"), accesses(scheme, "REGF")
    names = [tensor for tensor in TENSORS if tensor in buffer]
    told = [[words[TENSORS.index(name)] for name in names] for words in cost.accesses]
    held = [[tile.words for tile in scheme.level(name).tensors] for name in ("GBUF", "REGF")]
    dram, at_buffer = (
        [counts[name].next_reads + counts[name].next_writes for name in names]
        for counts in (buffer, registers)
    )
    bus = [(registers[name].filled + registers[name].drained) * parallelism(scheme) for name in names]
    operations = case.layer.window_w * case.layer.operands * prod(case.blocking.factors[2])
    outer = (
        held == [[words[TENSORS.index(name)] for name in names] for words in cost.held_words]
        and cycles(scheme, operations) == cost.processing_cycles
        and close(dram, told[0])
    )
    return {
        "equal_outside": int(outer),
        "equal_everywhere": int(outer and close(at_buffer, told[1]) and close(bus, told[2])),
        "tool_counts_fewer": int(any(a > b * (1 + CLOSE) for a, b in zip(at_buffer, told[1], strict=True))),
    }


def close(found: list[int], told: list[float]) -> bool:
    return all(abs(a - b) <= CLOSE * max(a, b) for a, b in zip(found, told, strict=True))


def training() -> list[dict[str, Any]]:
    """Per hand-written training graph, how many of its layers are derived."""
    content = load_json(FILE)
    return [derived(name.removesuffix("_bp"), content) for name in sorted(content) if name.endswith("_bp")]


def derived(name: str, content: dict[str, Any]) -> dict[str, Any]:
    training = training_graph(load_network(name), input_error=True)
    ours: dict[tuple[object, ...], list[int]] = {}
    for layer in training.layers:
        if layer.has_weights and layer.part != "forward":
            sources = [training.layers[number].h for number in layer.producers]
            # An update has the filter as its output; the hand-written graphs give it the size of the feature
            # maps that it reads.
            rows = layer.h if layer.part == "error" else max(sources, default=layer.input_h)
            channels = (layer.k, layer.c) if layer.part == "error" else (layer.c, layer.k)
            key = (layer.part, *channels, layer.r, layer.s, layer.stride_h, rows)
            ours.setdefault(key, []).append(layer.operations)
    forward = {item["name"] for item in content[name]["layers"]}
    found: dict[str, Any] = {"network": name, "layers": 0, "derived": 0, "equal_macs": 0}
    for item in content[f"{name}_bp"]["layers"]:
        if item["name"] in forward or "Back" not in item["kind"] or "hfil" not in item:
            continue
        part = "error" if "Act" in item["kind"] else "update"
        shape = [item[key] for key in ("N_out_fmaps", "N_in_fmaps", "hfil", "wfil", "htrd", "ho")]
        macs = ours.get((part, *shape), [])
        found["layers"] += 1
        found["derived"] += bool(macs)
        found["equal_macs"] += item["macs_batch1"] in macs
        if macs:
            # Each derived layer stands for one hand-written layer only: a graph with two equal layers has to
            # derive two.
            macs.pop()
    return found


def print_tables(result: dict[str, Any]) -> None:
    print(f"{'hardware':14} {'kind':14} {'equal':>6} {'rows':>6}")
    for hardware, kind, equal, count in result["rows"]["groups"]:
        print(f"{hardware:14} {kind:14} {equal:6} {count:6}")
    print(f"{'all':29} {result['rows']['equal']:6} {result['rows']['rows']:6}\n")
    for key, count in result["directives"].items():
        print(f"directives: {key.replace('_', ' '):20} {count:6}")
    print(f"\n{'training graph':14} {'layers':>6} {'derived':>8} {'equal MACs':>11}")
    for one in result["training"]:
        print(f"{one['network']:14} {one['layers']:6} {one['derived']:8} {one['equal_macs']:11}")


def main() -> int:
    parser = record.parser(__doc__)
    parser.add_argument("reference", type=Path)
    options = parser.parse_args()
    path = options.reference
    result = measure(path / "layer_optima.jsonl.gz" if path.is_dir() else path)
    print_tables(result)
    record.finish(result, options)
    return int(result["rows"]["equal"] < result["rows"]["rows"])


if __name__ == "__main__":
    sys.exit(main())
