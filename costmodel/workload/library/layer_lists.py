"""Flat lists of layers without dataflow: DeepBench, and networks as CoSA's and Thistle's papers list them."""

from __future__ import annotations

from collections.abc import Iterable

from costmodel.workload.library.plain import alexnet
from costmodel.workload.library.residual import resnet50, resnext50
from costmodel.workload.network import (
    Layer,
    Network,
    Node,
    Value,
    ValueKind,
    convolution,
    sized_convolution,
)

# (K, C, P, Q, R = S, stride): the nine DeepBench convolutions of CoSA's evaluation (section V)
_DEEPBENCH = {
    "ocr_1": (16, 1, 480, 48, 3, 1),
    "ocr_2": (32, 16, 240, 24, 3, 1),
    "ocr_3": (64, 32, 120, 12, 3, 1),
    "ocr_4": (128, 64, 60, 6, 3, 1),
    "face_1": (64, 3, 108, 108, 3, 2),
    "face_2": (64, 64, 54, 54, 3, 1),
    "face_3": (128, 128, 27, 27, 3, 1),
    "face_4": (256, 128, 14, 14, 3, 1),
    "face_5": (512, 256, 7, 7, 3, 1),
}

# (K, C, H = W of the input image, R = S, stride): Thistle's Table II, Resnet columns, in its order
_THISTLE_RESNET18 = (
    (64, 3, 224, 7, 2),
    (64, 64, 56, 3, 1),
    (64, 64, 56, 1, 1),
    (128, 64, 56, 3, 2),
    (128, 64, 56, 1, 2),
    (128, 128, 28, 3, 1),
    (256, 128, 28, 3, 2),
    (256, 128, 28, 1, 1),
    (256, 256, 14, 3, 1),
    (512, 256, 14, 3, 2),
    (512, 256, 14, 1, 2),
    (512, 512, 7, 3, 1),
)


def deepbench(batch: int = 1) -> Network:
    """DeepBench's text and face recognition convolutions as in CoSA's evaluation (Huang et al. 2021)."""
    return layer_list(
        "deepbench",
        (
            convolution(name, N=batch, K=k, C=c, P=p, Q=q, R=r, S=r, stride=(stride, stride))
            for name, (k, c, p, q, r, stride) in _DEEPBENCH.items()
        ),
    )


def cosa_resnet50(batch: int = 1) -> Network:
    """ResNet-50 as CoSA lists it: every layer a convolution."""
    return _as_cosa("cosa_resnet50", resnet50(batch))


def cosa_resnext50(batch: int = 1) -> Network:
    """ResNeXt-50 as CoSA lists it: grouped convolutions as dense ones with the channels of one group."""
    return _as_cosa("cosa_resnext50", resnext50(batch))


def cosa_alexnet(batch: int = 1) -> Network:
    """AlexNet as CoSA lists it: every layer a convolution."""
    return _as_cosa("cosa_alexnet", alexnet(batch))


def thistle_resnet18(batch: int = 1) -> Network:
    """The twelve "Resnet" layers of Thistle's Table II (Vaidya et al. 2022), each once.

    They are not quite ResNet-18's: layer 3 is not one of its layers, and layer 8 has no stride.
    """
    return layer_list(
        "thistle_resnet18",
        (
            convolution(f"layer{number}", N=batch, K=k, C=c, P=h // x, Q=h // x, R=r, S=r, stride=(x, x))
            for number, (k, c, h, r, x) in enumerate(_THISTLE_RESNET18, start=1)
        ),
    )


def layer_list(name: str, layers: Iterable[Layer]) -> Network:
    """A network of independent layers, each of which reads and makes values of its own."""
    kinds: dict[str, ValueKind] = {"weights": "parameter", "inputs": "input", "outputs": "output"}
    nodes, values = [], []
    for layer in layers:
        names = {tensor.name: f"{layer.name}.{tensor.name}" for tensor in layer.tensors}
        read = tuple(names[tensor.name] for tensor in layer.tensors if not tensor.is_output)
        nodes.append(Node(layer.name, "layer", read, (names[layer.output.name],), (layer,)))
        values += [Value(names[t.name], t.extents(layer.sizes), kinds[t.role]) for t in layer.tensors]
    return Network(name, tuple(nodes), tuple(values))


def _as_cosa(name: str, network: Network) -> Network:
    return layer_list(name, (_cosa_layer(layer) for layer in network.layers))


def _cosa_layer(layer: Layer) -> Layer:
    """The layer as CoSA lists it: a classifier is a 1x1 convolution on one pixel.

    A grouped convolution becomes a dense one with the input channels of one group and all output channels.
    """
    sizes = layer.sizes
    if "M" in sizes:
        return convolution(layer.name, N=sizes["M"], K=sizes["N"], C=sizes["K"], P=1, Q=1, R=1, S=1)
    if "G" not in sizes:
        return layer
    rows, columns = (dict(axis) for axis in layer.tensor("Inputs").terms[-2:])
    dense = sizes | {"K": sizes["K"] * sizes["G"]}
    return sized_convolution(layer.name, dense, (rows["P"], columns["Q"]))
