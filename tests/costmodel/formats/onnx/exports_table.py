"""Prints the table of docs/onnx-exports.md: what PyTorch counts of each model, and we of its files.

python -m tests.costmodel.formats.onnx.exports_table
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

from costmodel.workload.counting import uncounted_rows
from tests.costmodel.formats.onnx.test_exports import counted, network_of


def cell(folder: Path, name: str) -> str:
    """What we count of a file: "equal" to PyTorch's count, or the number, and how many products are said."""
    network = network_of(folder, name)
    number = "equal" if network.macs == counted()[name]["macs"] else f"{network.macs:,}"
    said = len(uncounted_rows(network))
    return f"{number}, {said} products said" if said else number


def main() -> None:
    exporters = defaultdict[str, list[str]](list)
    for name in counted():
        model, _, exporter = name.partition(".")
        exporters[model].append(exporter)
    print("| model | MACs by PyTorch | TorchScript exporter | torch.export exporter |\n|---|---:|---|---|")
    with TemporaryDirectory() as folder:
        for model, written in sorted(exporters.items()):
            found = [
                cell(Path(folder), f"{model}.{one}") if one in written else "" for one in ("script", "dynamo")
            ]
            macs = counted()[f"{model}.{written[0]}"]["macs"]
            print(f"| `{model}` | {macs:,} | {found[0]} | {found[1]} |")


if __name__ == "__main__":
    main()
