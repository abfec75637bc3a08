"""MobileNetV2: inverted residuals with depthwise convolutions."""

from __future__ import annotations

from costmodel.workload.library.builder import Convolution, NetworkBuilder
from costmodel.workload.network import Network

# (expansion t, channels c, repeats n, stride s): Sandler et al. 2018, table 2
_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
_RELU6 = "hardtanh"


def mobilenet_v2(batch: int = 1) -> Network:
    """MobileNetV2 at width 1.0 (Sandler et al. 2018, table 2), 224 x 224 images."""
    build = NetworkBuilder("mobilenet_v2")
    x = build.input("image", (batch, 3, 224, 224))
    x = build.convolution("conv1", x, Convolution(32, 3, stride=2, activation=_RELU6))
    for stage, (expansion, channels, repeats, stride) in enumerate(_STAGES, start=1):
        for i in range(repeats):
            conv = Convolution(channels, stride=1 if i else stride)
            x = _inverted_residual(build, f"block{stage}.{i}", x, conv, expansion)
    x = build.convolution("conv2", x, Convolution(1280, activation=_RELU6))
    x = build.average_pool("avgpool", x)
    build.linear("fc", x, 1000)
    return build.network()


def _inverted_residual(build: NetworkBuilder, name: str, x: str, conv: Convolution, expansion: int) -> str:
    """Expand, depthwise 3x3 with ``conv``'s stride, project to its channels; add where the shape is kept."""
    wide = expansion * build.shape(x)[1]
    y = x
    if expansion > 1:
        y = build.convolution(f"{name}.expand", y, Convolution(wide, activation=_RELU6))
    depthwise = Convolution(wide, 3, conv.stride, groups=wide, activation=_RELU6)
    y = build.convolution(f"{name}.depthwise", y, depthwise)
    y = build.convolution(f"{name}.project", y, Convolution(conv.channels, activation=""))
    return build.add(f"{name}.add", x, y) if build.shape(x) == build.shape(y) else y
