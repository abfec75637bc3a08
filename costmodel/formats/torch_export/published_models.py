"""Exports the fourteen networks of COSMA's evaluation as operator graphs, without weights.

    pip install 'archsweep[export]'
    python -m costmodel.formats.torch_export.published_models [--output FOLDER] [NETWORK ...]

Writes NETWORK.raw.json.gz with an operator for every ATen operation. Modules are made on PyTorch's meta
device, which knows shapes and has no numbers, so nothing is downloaded and little memory is needed.
Input sizes are the paper's (section V). It gives no versions of its networks: those here are torchvision's
and timm's.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import timm
import torch
import torchvision
from torch import Tensor, nn
from torchvision import models
from torchvision.models import segmentation, video

from costmodel.formats.torch_export import EXPORTED
from costmodel.formats.torch_export.exported_graph import exported_graph
from costmodel.formats.torch_export.searched_networks import amoebanet_d, darts_v2

IMAGE = ((1, 3, 224, 224),)
CLIP = ((1, 3, 16, 224, 224),)
"""Sixteen frames."""


class Published(NamedTuple):
    """How a network is made, the shapes of its inputs, and whose definition it is."""

    make: Callable[[], nn.Module]
    inputs: tuple[tuple[int, ...], ...]
    source: str


class Segmenting(nn.Module):
    """A segmentation network without its auxiliary head, which only training has a use for."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, image: Tensor) -> Tensor:
        found: Tensor = self.network(image)["out"]
        return found


_VISION = f"torchvision {torchvision.__version__.split('+')[0]}"
_TIMM = f"timm {timm.__version__}"
PUBLISHED = {
    "resnet50": Published(models.resnet50, IMAGE, _VISION),
    "densenet121": Published(models.densenet121, IMAGE, _VISION),
    "resnext50_32x4d": Published(models.resnext50_32x4d, IMAGE, _VISION),
    "r2plus1d_18": Published(video.r2plus1d_18, CLIP, _VISION),
    "s3d": Published(video.s3d, CLIP, _VISION),
    "fcn_resnet50": Published(
        lambda: Segmenting(segmentation.fcn_resnet50(weights_backbone=None)), IMAGE, _VISION
    ),
    "lraspp_mobilenet_v3": Published(
        lambda: Segmenting(segmentation.lraspp_mobilenet_v3_large(weights_backbone=None)), IMAGE, _VISION
    ),
    "deeplabv3_resnet50": Published(
        lambda: Segmenting(segmentation.deeplabv3_resnet50(weights_backbone=None)), IMAGE, _VISION
    ),
    # 32 sentences, of 10 words read and 20 written
    "transformer": Published(
        lambda: nn.Transformer(512, 8, 6, 6, 2048), ((10, 32, 512), (20, 32, 512)), "torch.nn.Transformer"
    ),
    "vit_b_16": Published(models.vit_b_16, IMAGE, _VISION),
    "amoebanet_d": Published(amoebanet_d, IMAGE, "searched_networks.amoebanet_d: 18 cells, 208 filters"),
    "nasnet_a_large": Published(lambda: timm.create_model("nasnetalarge"), IMAGE, _TIMM),
    "pnasnet5_large": Published(lambda: timm.create_model("pnasnet5large"), IMAGE, _TIMM),
    "darts": Published(darts_v2, IMAGE, "searched_networks.darts_v2: 14 cells, 48 filters"),
}


def export(name: str, output: Path) -> Path:
    """Write the graph of the network ``name`` into a folder; the result is the file."""
    network = PUBLISHED[name]
    with torch.device("meta"):
        module = network.make().train(False)
        inputs = tuple(torch.zeros(shape) for shape in network.inputs)
    program = torch.export.export(module, inputs, strict=False)
    source = f"{network.source}, torch {torch.__version__.split('+')[0]}"
    path = output / f"{name}.raw.json.gz"
    # no time of writing in the file, so that equal graphs are equal files
    path.write_bytes(gzip.compress(json.dumps(exported_graph(program, name, source)).encode(), mtime=0))
    return path


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="these only")
    parser.add_argument("--output", type=Path, default=EXPORTED, metavar="FOLDER")
    chosen = parser.parse_args()
    for name in chosen.networks or PUBLISHED:
        print(export(name, chosen.output))


if __name__ == "__main__":
    main()
