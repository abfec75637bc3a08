"""ConvNeXt: stages of depthwise convolutions and products over channels (Liu et al. 2022)."""

from __future__ import annotations

from dataclasses import dataclass

from costmodel.workload.library.builder import Convolution, NetworkBuilder
from costmodel.workload.network import Network


@dataclass(frozen=True)
class ConvNext:
    """The facts of a ConvNeXt: channels and blocks of each stage, of square images of ``image`` rows."""

    widths: tuple[int, ...]
    depths: tuple[int, ...]
    image: int
    patch: int
    channels: int
    labels: int
    activation: str = "gelu"
    bits: int | None = None


def convnext(name: str, facts: ConvNext, batch: int) -> Network:
    """A ConvNeXt that classifies ``batch`` images."""
    build = NetworkBuilder(name, facts.bits, views_folded=False)
    x = build.input("image", (batch, facts.channels, facts.image, facts.image))
    for stage, (width, depth) in enumerate(zip(facts.widths, facts.depths, strict=True)):
        if stage:
            x = _over_channels(build, f"stage{stage}.norm", x)
        kernel = 2 if stage else facts.patch
        smaller = Convolution(width, kernel, kernel, padding=0, activation="", bias=True)
        x = build.convolution(f"stage{stage}.smaller" if stage else "patches", x, smaller)
        if not stage:
            x = _over_channels(build, "patches.norm", x)
        for i in range(depth):
            x = _block(build, f"stage{stage}.block{i}", x, facts.activation)
    x = build.average_pool("pool", x)
    x = build.reshape("features", x, build.shape(x)[:2])
    x = build.normalised("norm", "layer_norm", x, bias=True)
    build.linear("head", x, facts.labels, bias=True)
    return build.network()


def _over_channels(build: NetworkBuilder, name: str, x: str) -> str:
    """Layer normalisation over the channels of every position of an image."""
    last = build.permute(f"{name}.last", x, (0, 2, 3, 1))
    return build.permute(f"{name}.first", build.normalised(name, "layer_norm", last, bias=True), (0, 3, 1, 2))


def _block(build: NetworkBuilder, name: str, x: str, activation: str) -> str:
    width = build.shape(x)[1]
    y = build.convolution(
        f"{name}.depthwise", x, Convolution(width, 7, groups=width, activation="", bias=True)
    )
    y = build.permute(f"{name}.last", y, (0, 2, 3, 1))
    y = build.normalised(f"{name}.norm", "layer_norm", y, bias=True)
    shape = build.shape(y)
    y = build.reshape(f"{name}.positions", y, (shape[0], shape[1] * shape[2], width))
    y = build.linear(f"{name}.expand", y, 4 * width, activation, bias=True)
    y = build.linear(f"{name}.contract", y, width, bias=True)
    scale = build.parameter(f"{name}.scale", (width,))
    y = build.operator(f"{name}.scaled", "mul", (y, scale), build.shape(y))
    y = build.reshape(f"{name}.image", y, shape)
    return build.add(f"{name}.add", x, build.permute(f"{name}.first", y, (0, 3, 1, 2)))
