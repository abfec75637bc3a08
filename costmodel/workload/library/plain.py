"""Convolutional networks without branches: AlexNet, VGG-16 and YOLO9000."""

from __future__ import annotations

from costmodel.workload.library.builder import Convolution, NetworkBuilder, Pool
from costmodel.workload.network import Network

_DARKNET_DEPTHS = (1, 1, 3, 3, 5, 5)
"""Convolutions per stage of Darknet-19: 3x3, with 1x1 of half the channels in between."""


def alexnet(batch: int = 1) -> Network:
    """AlexNet on one tower (Krizhevsky 2014, "One weird trick", section 5), 224 x 224 images."""
    build = NetworkBuilder("alexnet")
    x = build.input("image", (batch, 3, 224, 224))
    x = build.convolution("conv1", x, Convolution(64, 11, stride=4, padding=2))
    x = build.max_pool("pool1", x, Pool(3, 2))
    x = build.convolution("conv2", x, Convolution(192, 5))
    x = build.max_pool("pool2", x, Pool(3, 2))
    x = build.convolution("conv3", x, Convolution(384, 3))
    x = build.convolution("conv4", x, Convolution(256, 3))
    x = build.convolution("conv5", x, Convolution(256, 3))
    x = build.max_pool("pool5", x, Pool(3, 2))
    x = build.linear("fc6", x, 4096, "relu")
    x = build.linear("fc7", x, 4096, "relu")
    build.linear("fc8", x, 1000)
    return build.network()


def vgg16(batch: int = 1) -> Network:
    """VGG-16 (Simonyan and Zisserman 2015, table 1 column D), 224 x 224 images."""
    build = NetworkBuilder("vgg16")
    x = build.input("image", (batch, 3, 224, 224))
    for stage, (channels, depth) in enumerate(((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)), start=1):
        for i in range(1, depth + 1):
            x = build.convolution(f"conv{stage}_{i}", x, Convolution(channels, 3))
        x = build.max_pool(f"pool{stage}", x, Pool(2, 2))
    x = build.linear("fc6", x, 4096, "relu")
    x = build.linear("fc7", x, 4096, "relu")
    build.linear("fc8", x, 1000)
    return build.network()


def yolo9000(batch: int = 1) -> Network:
    """YOLO9000 (Redmon and Farhadi 2017, section 4, on Darknet-19, table 6) for 544 x 544 images.

    Nineteen convolutions of eleven shapes: Darknet-19's first eighteen, and a 1x1 detection layer for 3 boxes
    with 9,418 classes and 5 numbers each.
    """
    build = NetworkBuilder("yolo9000")
    x = build.input("image", (batch, 3, 544, 544))
    for stage, channels in enumerate((32, 64, 128, 256, 512, 1024), start=1):
        if stage > 1:
            x = build.max_pool(f"pool{stage - 1}", x, Pool(2, 2))
        for i in range(1, _DARKNET_DEPTHS[stage - 1] + 1):
            conv = Convolution(channels, 3) if i % 2 else Convolution(channels // 2)
            x = build.convolution(f"conv{stage}_{i}", x, conv)
    build.convolution("detection", x, Convolution(3 * (9_418 + 5), activation=""))
    return build.network()
