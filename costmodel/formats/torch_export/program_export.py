"""Saves small models as programs of ``torch.export`` (``.pt2``), without weights, and counts them in PyTorch.

    pip install 'archsweep[export]'
    python -m costmodel.formats.torch_export.program_export [--output FOLDER] [MODEL ...]

Writes MODEL.pt2 and adds it to programs.json: the lengths of its symbols, and what
:func:`costmodel.formats.torch_export.onnx_export.counted_macs` counts at these lengths. Of each archive only
the program stays, which is all that is read of one. Weights are random, and nothing is downloaded.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from costmodel.formats.torch_export.onnx_export import (
    COUNTED,
    TRACED,
    as_parameters,
    counted_macs,
    note_count,
    parser_of,
    symbols,
)
from costmodel.formats.torch_export.small_models import MODELS, SmallModel

CHOSEN = (
    "llama_sdpa",
    "llama_cache_sdpa",
    "qwen3_cache",
    "gemma2",
    "gpt2",
    "phi3",
    "mixtral_batched",
    "gpt_oss",
    "mamba2",
    "bert",
    "t5",
    "whisper",
    "vit",
    "swin_v2",
    "denoiser",
    "experts_capacity",
    "scan_sums",
    "heads_folded",
    "heads_repeated",
    "resnet18",
    "mobilenet_v3",
    "convnext",
    "deeplab",
    "r3d",
)
"""Models of every kind; others differ from these in what the ONNX exporters make of them."""

EPOCH = (1980, 1, 1, 0, 0, 0)
"""The date of the archive's entry: equal programs are equal files."""


def saved(module: nn.Module, model: SmallModel) -> bytes:
    """The program's JSON as ``torch.export.save`` writes it, dynamic where the model has symbols."""
    inputs = tuple(one.tensor(TRACED) for one in model.inputs.values())
    automatic = [dict.fromkeys(axes, torch.export.Dim.AUTO) for axes in symbols(model).values()]
    with torch.no_grad():
        program = torch.export.export(module, inputs, dynamic_shapes=as_parameters(module, automatic))
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    with zipfile.ZipFile(buffer) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("models/model.json"))
        return archive.read(name)


def counted_lengths(content: bytes, model: SmallModel) -> dict[str, int]:
    """The lengths to count with, by the symbols of the program."""
    module = json.loads(content)["graph_module"]
    values = module["graph"]["tensor_values"]
    given: list[Any] = [
        values[spec["user_input"]["arg"]["as_tensor"]["name"]]["sizes"]
        for spec in module["signature"]["input_specs"]
        if "user_input" in spec
    ]
    found: dict[str, int] = {}
    for sizes, axes in zip(given, symbols(model).values(), strict=True):
        for axis, name in axes.items():
            if "as_expr" in sizes[axis]:
                found[sizes[axis]["as_expr"]["expr_str"].split("'")[1]] = COUNTED[name]
    return found


def write(names: Iterable[str], output: Path) -> Iterator[Path]:
    """Save the models of these names, and yield the file of each."""
    for name in names:
        model = MODELS[name]
        torch.manual_seed(0)
        module = model.make().train(mode=False)
        macs, content = counted_macs(module, model), saved(module, model)
        path = output / f"{name}.pt2"
        with zipfile.ZipFile(path, "w") as archive:
            entry = zipfile.ZipInfo(f"{name}/models/model.json", EPOCH)
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)
        note_count(output / "programs.json", name, macs, counted_lengths(content, model))
        yield path


def main() -> None:
    chosen = parser_of(__doc__, "programs").parse_args()
    torch.backends.mha.set_fastpath_enabled(False)
    chosen.output.mkdir(parents=True, exist_ok=True)
    for path in write(chosen.models or CHOSEN, chosen.output):
        print(path, flush=True)


if __name__ == "__main__":
    main()
