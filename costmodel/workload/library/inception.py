"""GoogLeNet: inception modules of four concatenated branches."""

from __future__ import annotations

from costmodel.workload.library.builder import Convolution, NetworkBuilder, Pool
from costmodel.workload.network import Network

# (1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, pool projection): Szegedy et al. 2015, table 1
_MODULES = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
_HALVED_AFTER = {"3b": Pool(3, 2, ceil=True), "4e": Pool(2, 2, ceil=True)}


def googlenet(batch: int = 1, third_branch: int = 3) -> Network:
    """GoogLeNet (Szegedy et al. 2015, table 1) without auxiliary classifiers, 224 x 224 images.

    ``third_branch`` is the kernel of the table's 5x5 column: 3 as in the batch-normalised networks that are
    deployed (TensorFlow's, torchvision's), 5 as in the paper.
    """
    build = NetworkBuilder("googlenet")
    x = build.input("image", (batch, 3, 224, 224))
    x = build.convolution("conv1", x, Convolution(64, 7, stride=2))
    x = build.max_pool("maxpool1", x, Pool(3, 2, ceil=True))
    x = build.convolution("conv2", x, Convolution(64))
    x = build.convolution("conv3", x, Convolution(192, 3))
    x = build.max_pool("maxpool2", x, Pool(3, 2, ceil=True))
    for module, channels in _MODULES.items():
        x = _inception(build, f"inception{module}", x, channels, third_branch)
        if module in _HALVED_AFTER:
            x = build.max_pool(f"maxpool{module[0]}", x, _HALVED_AFTER[module])
    x = build.average_pool("avgpool", x)
    build.linear("fc", x, 1000)
    return build.network()


def _inception(build: NetworkBuilder, name: str, x: str, channels: tuple[int, ...], third_branch: int) -> str:
    one, reduce3, three, reduce5, five, projection = channels
    branch1 = build.convolution(f"{name}.branch1", x, Convolution(one))
    branch2 = build.convolution(f"{name}.branch2.reduce", x, Convolution(reduce3))
    branch2 = build.convolution(f"{name}.branch2", branch2, Convolution(three, 3))
    branch3 = build.convolution(f"{name}.branch3.reduce", x, Convolution(reduce5))
    branch3 = build.convolution(f"{name}.branch3", branch3, Convolution(five, third_branch))
    branch4 = build.max_pool(f"{name}.pool", x, Pool(3, 1, padding=1))
    branch4 = build.convolution(f"{name}.branch4", branch4, Convolution(projection))
    return build.concatenate(f"{name}.cat", (branch1, branch2, branch3, branch4))
