"""Exports small models to ONNX by both of PyTorch's exporters, without weights, and counts them in PyTorch.

    pip install 'archsweep[export]'
    python -m costmodel.formats.torch_export.onnx_export [--output FOLDER] [--exporter NAME] [MODEL ...]

Writes MODEL.EXPORTER.onnx.gz (``script``: the TorchScript exporter, ``dynamo``: the one on torch.export) and
adds each to counted.json: the lengths of its symbols, and the multiply-accumulates that PyTorch's
FlopCounterMode counts while the module itself runs at these lengths. They are not those of the trace, so that
a length which tracing wrote down as a constant shows. Weights are random, and nothing is downloaded.
"""

from __future__ import annotations

import argparse
import gzip
import inspect
import io
import json
from collections.abc import Iterable, Iterator
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any

import onnx
import torch
from onnx import numpy_helper
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from costmodel.formats.torch_export.small_models import MODELS, SmallModel

TRACED = {"batch": 3, "seq": 5, "past": 4, "read": 6}
COUNTED = {"batch": 2, "seq": 7, "past": 9, "read": 11}
"""The lengths that a model is traced at, and those that it is counted at."""
TABLE = "counted.json"
SMALL = 64
"""Elements above which the data of floats is left out; of whole numbers, which state positions, 1,024."""


def symbols(model: SmallModel) -> dict[str, dict[int, str]]:
    """By input, the symbols of its axes."""
    return {
        name: {i: axis for i, axis in enumerate(one.axes) if isinstance(axis, str)}
        for name, one in model.inputs.items()
    }


def counted_macs(module: nn.Module, model: SmallModel) -> int:
    """Multiply-accumulates of one run at :data:`COUNTED`; attention is the products that define it."""
    inputs = [one.tensor(COUNTED) for one in model.inputs.values()]
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        module(*inputs)
    operations: int = counter.get_total_flops()
    return operations // 2


def exported(module: nn.Module, model: SmallModel, exporter: str) -> onnx.ModelProto:
    """The module as ONNX, its symbolic axes named."""
    inputs = tuple(one.tensor(TRACED) for one in model.inputs.values())
    stated: dict[str, Any] = {"input_names": list(model.inputs), "opset_version": model.opset}
    with torch.no_grad():
        if exporter == "script":
            buffer = io.BytesIO()
            torch.onnx.export(module, inputs, buffer, dynamo=False, dynamic_axes=symbols(model), **stated)
            return onnx.load_model_from_string(buffer.getvalue())
        shapes = as_parameters(module, list(symbols(model).values()))
        program = torch.onnx.export(
            module, inputs, dynamo=True, dynamic_shapes=shapes, verbose=False, **stated
        )
    written: onnx.ModelProto = program.model_proto
    return written


def as_parameters(module: nn.Module, shapes: list[Any]) -> tuple[Any, ...]:
    """The shapes of the inputs as the parameters of ``forward`` are: those of ``*inputs`` are one tuple."""
    parameters = inspect.signature(module.forward).parameters.values()
    single = sum(one.kind != one.VAR_POSITIONAL for one in parameters)
    return tuple(shapes) if single == len(parameters) else (*shapes[:single], tuple(shapes[single:]))


def without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without the data of its weights, and without remarks on where in the source nodes are from.

    What is left out is marked as data in another file. Floats that are all equal stay.
    """
    for graph in _graphs(model.graph):
        for item in chain([model, graph], graph.node, graph.value_info, graph.input, graph.output):
            del item.metadata_props[:]
            item.doc_string = ""
        stated = (a.t for node in graph.node for a in node.attribute if a.type == onnx.AttributeProto.TENSOR)
        for tensor in chain(graph.initializer, stated):
            _leave_out(tensor)
    return model


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for attribute in chain.from_iterable(node.attribute for node in graph.node):
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield from _graphs(attribute.g)


def _leave_out(tensor: onnx.TensorProto) -> None:
    size = prod(tensor.dims)
    floats = tensor.data_type not in (onnx.TensorProto.INT64, onnx.TensorProto.INT32, onnx.TensorProto.BOOL)
    if size <= (SMALL if floats else 1024):
        return
    values = numpy_helper.to_array(tensor)
    if size <= 1024 and (values == values.flat[0]).all():
        return
    for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
        tensor.ClearField(field)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="left_out")


def note_count(table: Path, key: str, macs: int, dims: dict[str, int]) -> None:
    """Add to the JSON file ``table`` what PyTorch counted of an export at the lengths ``dims``."""
    counted = json.loads(table.read_text(encoding="utf-8")) if table.exists() else {}
    counted[key] = {"macs": macs, "dims": dims}
    lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in sorted(counted.items()))
    table.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def parser_of(description: str | None, folder: str) -> argparse.ArgumentParser:
    """The arguments of a program that exports models into a folder."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help="these only")
    parser.add_argument("--output", type=Path, default=Path(folder), metavar="FOLDER")
    return parser


def write(names: Iterable[str], output: Path, exporter: str) -> Iterator[Path]:
    """Export the models of these names, and yield the file of each."""
    for name in names:
        model = MODELS[name]
        torch.manual_seed(0)
        module = model.make().train(mode=False)
        macs = counted_macs(module, model)
        used = {axis for axes in symbols(model).values() for axis in axes.values()}
        for one in model.exporters:
            if exporter not in ("", one):
                continue
            path = output / f"{name}.{one}.onnx.gz"
            data = without_weights(exported(module, model, one)).SerializeToString(deterministic=True)
            path.write_bytes(gzip.compress(data, mtime=0))
            note_count(output / TABLE, f"{name}.{one}", macs, {axis: COUNTED[axis] for axis in sorted(used)})
            yield path


def main() -> None:
    parser = parser_of(__doc__, "exports")
    parser.add_argument("--exporter", choices=("", "script", "dynamo"), default="")
    chosen = parser.parse_args()
    # the fused encoder layer is one operator, of which neither the exporters nor the counter know the inside
    torch.backends.mha.set_fastpath_enabled(False)
    chosen.output.mkdir(parents=True, exist_ok=True)
    for path in write(chosen.models or MODELS, chosen.output, chosen.exporter):
        print(path, flush=True)


if __name__ == "__main__":
    main()
