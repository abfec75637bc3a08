"""YOLOv8: a detector of three resolutions."""

from __future__ import annotations

from costmodel.workload.library.builder import Convolution, NetworkBuilder, Pool
from costmodel.workload.network import Network

_CLASSES, _DISTANCES = 80, 16


def yolov8n(batch: int = 1) -> Network:
    """YOLOv8n of Ultralytics' yolov8.yaml (scale n: depth 0.33, width 0.25), 640 x 640 images.

    The last operators are the distributions of distances to the edges of boxes and their means.
    """
    build = NetworkBuilder("yolov8n")
    x = build.input("image", (batch, 3, 640, 640))
    x = _convolution(build, "conv0", x, 16, 3, 2)
    x = _convolution(build, "conv1", x, 32, 3, 2)
    x = _cross_stage(build, "stage2", x, 32, 1, True)
    x = _convolution(build, "conv3", x, 64, 3, 2)
    fine = _cross_stage(build, "stage4", x, 64, 2, True)
    x = _convolution(build, "conv5", fine, 128, 3, 2)
    middle = _cross_stage(build, "stage6", x, 128, 2, True)
    x = _convolution(build, "conv7", middle, 256, 3, 2)
    x = _cross_stage(build, "stage8", x, 256, 1, True)
    coarse = _pooled(build, "pool9", x)
    x = build.concatenate("cat11", (build.upsample("up10", coarse), middle))
    middle = _cross_stage(build, "stage12", x, 128, 1, False)
    x = build.concatenate("cat14", (build.upsample("up13", middle), fine))
    fine = _cross_stage(build, "stage15", x, 64, 1, False)
    x = build.concatenate("cat17", (_convolution(build, "conv16", fine, 64, 3, 2), middle))
    middle = _cross_stage(build, "stage18", x, 128, 1, False)
    x = build.concatenate("cat20", (_convolution(build, "conv19", middle, 128, 3, 2), coarse))
    coarse = _cross_stage(build, "stage21", x, 256, 1, False)
    for level, x in enumerate((fine, middle, coarse)):
        _detected(build, f"detect{level}", x)
    return build.network()


def _convolution(
    build: NetworkBuilder, name: str, x: str, channels: int, kernel: int, stride: int = 1
) -> str:
    return build.convolution(name, x, Convolution(channels, kernel, stride, activation="silu"))


def _cross_stage(build: NetworkBuilder, name: str, x: str, channels: int, blocks: int, added: bool) -> str:
    """A block called C2f: half of the channels go through bottlenecks, and all results are kept."""
    batch, _, *plane = build.shape(_convolution(build, f"{name}.in", x, channels, 1))
    half = channels // 2
    parts = [
        build.operator(
            f"{name}.half{i}", "slice", (f"{name}.in",), (batch, half, *plane), dim=1, start=i * half,
            end=(i + 1) * half,
        )
        for i in (0, 1)
    ]  # fmt: skip
    for i in range(blocks):
        y = _convolution(build, f"{name}.{i}.a", parts[-1], half, 3)
        y = _convolution(build, f"{name}.{i}.b", y, half, 3)
        parts.append(build.add(f"{name}.{i}.add", parts[-1], y) if added else y)
    return _convolution(build, f"{name}.out", build.concatenate(f"{name}.cat", tuple(parts)), channels, 1)


def _pooled(build: NetworkBuilder, name: str, x: str) -> str:
    """A block called SPPF: three poolings of 5 x 5, each of the one before."""
    channels = build.shape(x)[1]
    parts = [_convolution(build, f"{name}.in", x, channels // 2, 1)]
    for i in range(3):
        parts.append(build.max_pool(f"{name}.{i}", parts[-1], Pool(5, 1, padding=2)))
    return _convolution(build, f"{name}.out", build.concatenate(f"{name}.cat", tuple(parts)), channels, 1)


def _detected(build: NetworkBuilder, name: str, x: str) -> None:
    """Classes, and boxes by distributions of the distances of their four edges."""
    batch, _, rows, columns = build.shape(x)
    for branch, hidden, made in (("box", 64, 4 * _DISTANCES), ("class", _CLASSES, _CLASSES)):
        y = _convolution(build, f"{name}.{branch}.a", x, hidden, 3)
        y = _convolution(build, f"{name}.{branch}.b", y, hidden, 3)
        last = Convolution(made, activation="", bias=True)
        y = build.convolution(f"{name}.{branch}", y, last)
        if branch == "box":
            boxes = y
    shape = (batch, 4, _DISTANCES, rows * columns)
    boxes = build.reshape(f"{name}.edges", boxes, shape)
    boxes = build.permute(f"{name}.distances", boxes, (0, 2, 1, 3))
    boxes = build.operator(f"{name}.softmax", "softmax", (boxes,), build.shape(boxes), dim=1)
    build.convolution(f"{name}.mean", boxes, Convolution(1, activation=""))
