"""Residual networks: ResNet-18, ResNet-50 and ResNeXt-50 (32x4d)."""

from __future__ import annotations

from collections.abc import Callable

from costmodel.workload.library.builder import Convolution, NetworkBuilder, Pool
from costmodel.workload.network import Network

_Block = Callable[[NetworkBuilder, str, str, int, int], str]
_CHANNELS = (64, 128, 256, 512)


def resnet18(batch: int = 1) -> Network:
    """ResNet-18 (He et al. 2016, table 1), 224 x 224 images."""
    return _residual("resnet18", batch, (2, 2, 2, 2), _basic)


def resnet50(batch: int = 1) -> Network:
    """ResNet-50 (He et al. 2016, table 1) with the strides in the 3x3 convolutions, 224 x 224 images."""
    return _residual("resnet50", batch, (3, 4, 6, 3), _bottleneck)


def resnext50(batch: int = 1) -> Network:
    """ResNeXt-50 32x4d (Xie et al. 2017, table 1): 3x3 convolutions in 32 groups, 224 x 224 images."""
    return _residual("resnext50", batch, (3, 4, 6, 3), _grouped_bottleneck)


def _residual(name: str, batch: int, depths: tuple[int, ...], block: _Block) -> Network:
    build = NetworkBuilder(name)
    x = build.input("image", (batch, 3, 224, 224))
    x = build.convolution("conv1", x, Convolution(64, 7, stride=2))
    x = build.max_pool("maxpool", x, Pool(3, 2, padding=1))
    for stage, (channels, depth) in enumerate(zip(_CHANNELS, depths, strict=True), start=1):
        for i in range(depth):
            stride = 2 if stage > 1 and i == 0 else 1
            x = block(build, f"layer{stage}.{i}", x, channels, stride)
    x = build.average_pool("avgpool", x)
    build.linear("fc", x, 1000)
    return build.network()


def _basic(build: NetworkBuilder, name: str, x: str, channels: int, stride: int) -> str:
    y = build.convolution(f"{name}.conv1", x, Convolution(channels, 3, stride))
    y = build.convolution(f"{name}.conv2", y, Convolution(channels, 3, activation=""))
    return _join(build, name, x, y, stride)


def _bottleneck(
    build: NetworkBuilder, name: str, x: str, channels: int, stride: int, width: int = 1, groups: int = 1
) -> str:
    y = build.convolution(f"{name}.conv1", x, Convolution(width * channels))
    y = build.convolution(f"{name}.conv2", y, Convolution(width * channels, 3, stride, groups=groups))
    y = build.convolution(f"{name}.conv3", y, Convolution(4 * channels, activation=""))
    return _join(build, name, x, y, stride)


def _grouped_bottleneck(build: NetworkBuilder, name: str, x: str, channels: int, stride: int) -> str:
    return _bottleneck(build, name, x, channels, stride, width=2, groups=32)


def _join(build: NetworkBuilder, name: str, x: str, y: str, stride: int) -> str:
    """The shortcut is a strided 1x1 convolution where the block changes the shape, else the block's input."""
    if build.shape(x) != build.shape(y):
        shortcut = Convolution(build.shape(y)[1], 1, stride, activation="")
        x = build.convolution(f"{name}.downsample", x, shortcut)
    return build.add(f"{name}.add", y, x, "relu")
