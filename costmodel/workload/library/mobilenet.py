"""Networks of depthwise convolutions: MobileNetV2, MobileNetV4 and EfficientNet."""

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
# (expansion, kernel, stride s, channels, repeats): Tan and Le 2019, table 1
_EFFICIENTNET_B0 = (
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)
# (first depthwise kernel, second one, expansion, channels, stride) of universal inverted bottlenecks, 0 for a
# kernel that is left out: Qin et al. 2024, appendix D, MobileNetV4-Conv-S
_MOBILENET_V4 = (
    (5, 5, 3, 96, 2),
    *4 * ((0, 3, 2, 96, 1),),
    (3, 0, 4, 96, 1),
    (3, 3, 6, 128, 2),
    (5, 5, 4, 128, 1),
    (0, 5, 4, 128, 1),
    (0, 5, 3, 128, 1),
    *2 * ((0, 3, 4, 128, 1),),
)


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


def efficientnet_b0(batch: int = 1) -> Network:
    """EfficientNet-B0 (Tan and Le 2019, table 1), 224 x 224 images."""
    build = NetworkBuilder("efficientnet_b0")
    x = build.input("image", (batch, 3, 224, 224))
    x = build.convolution("stem", x, Convolution(32, 3, stride=2, activation="silu"))
    for stage, (expansion, kernel, stride, channels, repeats) in enumerate(_EFFICIENTNET_B0, start=1):
        for i in range(repeats):
            conv = Convolution(channels, kernel, 1 if i else stride)
            x = _squeezed_residual(build, f"block{stage}.{i}", x, conv, expansion)
    x = build.convolution("head", x, Convolution(1280, activation="silu"))
    build.linear("fc", build.average_pool("avgpool", x), 1000, bias=True)
    return build.network()


def _squeezed_residual(build: NetworkBuilder, name: str, x: str, conv: Convolution, expansion: int) -> str:
    """An inverted residual whose channels are weighted by a function of their means (section 4)."""
    narrow = build.shape(x)[1]
    wide, y = expansion * narrow, x
    if expansion > 1:
        y = build.convolution(f"{name}.expand", y, Convolution(wide, activation="silu"))
    depthwise = Convolution(wide, conv.kernel, conv.stride, groups=wide, activation="silu")
    y = build.convolution(f"{name}.depthwise", y, depthwise)
    means = build.average_pool(f"{name}.squeeze", y)
    means = build.convolution(f"{name}.reduce", means, Convolution(narrow // 4, activation="silu", bias=True))
    weights = build.convolution(f"{name}.excite", means, Convolution(wide, activation="sigmoid", bias=True))
    y = build.operator(f"{name}.weighted", "mul", (y, weights), build.shape(y))
    y = build.convolution(f"{name}.project", y, Convolution(conv.channels, activation=""))
    return build.add(f"{name}.add", x, y) if build.shape(x) == build.shape(y) else y


def mobilenet_v4_conv_small(batch: int = 1) -> Network:
    """MobileNetV4-Conv-S (Qin et al. 2024, appendix D), 224 x 224 images."""
    build = NetworkBuilder("mobilenet_v4_conv_small")
    x = build.input("image", (batch, 3, 224, 224))
    for name, channels, kernel, stride in (
        ("stem", 32, 3, 2),
        ("stage1.a", 32, 3, 2),
        ("stage1.b", 32, 1, 1),
        ("stage2.a", 96, 3, 2),
        ("stage2.b", 64, 1, 1),
    ):
        x = build.convolution(name, x, Convolution(channels, kernel, stride))
    for i, block in enumerate(_MOBILENET_V4):
        x = _universal_bottleneck(build, f"block{i}", x, block)
    x = build.convolution("last", x, Convolution(960))
    x = build.convolution("head", build.average_pool("avgpool", x), Convolution(1280))
    build.linear("fc", x, 1000, bias=True)
    return build.network()


def _universal_bottleneck(build: NetworkBuilder, name: str, x: str, block: tuple[int, ...]) -> str:
    """A universal inverted bottleneck (section 4): a depthwise filter before and within, either optional.

    The stride is that of the filter within, or of the one before where there is no other.
    """
    before, within, expansion, channels, stride = block
    narrow, y = build.shape(x)[1], x
    if before:
        first = Convolution(narrow, before, 1 if within else stride, groups=narrow, activation="")
        y = build.convolution(f"{name}.before", y, first)
    wide = expansion * narrow
    y = build.convolution(f"{name}.expand", y, Convolution(wide))
    if within:
        y = build.convolution(f"{name}.within", y, Convolution(wide, within, stride, groups=wide))
    y = build.convolution(f"{name}.project", y, Convolution(channels, activation=""))
    return build.add(f"{name}.add", x, y) if build.shape(x) == build.shape(y) else y
