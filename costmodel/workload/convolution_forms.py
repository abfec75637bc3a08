"""Other forms in which a machine computes a convolution, as layers of their own.

A form reads the same inputs and makes the same outputs by other products: Winograd's makes fewer, packed
pixels make more. What it costs to get from one form to the other (Winograd's transforms, the shuffling of
pixels) is no product and not part of the layer.
"""

from __future__ import annotations

from costmodel.errors import InputError
from costmodel.workload.network import Layer, Tensor, convolution, sized_convolution
from costmodel.workload.projection import Axis

_N: Axis = (("N", 1),)
_C: Axis = (("C", 1),)
_K: Axis = (("K", 1),)

WINOGRAD_FILTER = 3
"""Rows and columns of the filters that F(2x2, 3x3) is for."""


def winograd(layer: Layer) -> Layer:
    """A convolution of 3 x 3 and stride 1 as Winograd's F(2x2, 3x3): 16 products for 4 outputs instead of 36.

    Four inputs along each axis make two outputs along it, by one product for each input (Lavin and Gray, CVPR
    2016, section 4.1). P and Q are tiles of two outputs, X and Y the output within the tile, and R and S the
    two products along an axis that the nest counts for it: 16 products a tile. It reads the inputs of the
    convolution, (2 P + 2) x (2 Q + 2), and has 16 weights for every 9. Rows and columns that are odd in
    number are rounded up. InputError for other convolutions.
    """
    sizes, strides = _plain(layer)
    if (sizes["R"], sizes["S"]) != (WINOGRAD_FILTER, WINOGRAD_FILTER) or strides != (1, 1):
        found = f"{sizes['R']} x {sizes['S']} with stride {strides[0]} x {strides[1]}"
        raise InputError(f"layer {layer.name}", "a convolution of 3 x 3 with stride 1", found)
    rows, columns = (-(-sizes[dim] // 2) for dim in ("P", "Q"))
    return Layer(
        layer.name,
        (
            *(("R", 2), ("S", 2), ("X", 2), ("Y", 2), ("P", rows), ("Q", columns)),
            *((dim, sizes[dim]) for dim in ("C", "K", "N")),
        ),
        (
            Tensor.of_terms("Weights", (_K, _C, (("R", 2), ("X", 1)), (("S", 2), ("Y", 1))), "weights"),
            Tensor.of_terms(
                "Inputs",
                (_N, _C, (("P", 2), ("X", 1), ("R", 2)), (("Q", 2), ("Y", 1), ("S", 2))),
                "inputs",
            ),
            Tensor.of_terms("Outputs", (_N, _K, (("Q", 2), ("Y", 1)), (("P", 2), ("X", 1))), "outputs"),
        ),
    )


def packed(layer: Layer) -> Layer:
    """A convolution with a stride as one without: pixels that a step passes over become channels of one
    pixel.

    With strides of a x b the layer has a * b times the channels and ceil(R / a) x ceil(S / b) filters, many
    of whose weights are zero. It reads every pixel of the image. InputError for layers that are no
    convolution.
    """
    sizes, strides = _plain(layer)
    return convolution(
        layer.name,
        N=sizes["N"],
        K=sizes["K"],
        C=sizes["C"] * strides[0] * strides[1],
        P=sizes["P"],
        Q=sizes["Q"],
        R=-(-sizes["R"] // strides[0]),
        S=-(-sizes["S"] // strides[1]),
    )


def _plain(layer: Layer) -> tuple[dict[str, int], tuple[int, int]]:
    """Sizes and strides of a convolution without groups and dilation; InputError for any other layer."""
    sizes = {"N": 1} | layer.sizes
    inputs = next((tensor for tensor in layer.tensors if tensor.role == "inputs"), None)
    steps = {step.dim: step.coefficient for axis in inputs.axes for step in axis.steps} if inputs else {}
    strides = (steps.get("P", 1), steps.get("Q", 1))
    plain = set(sizes) == set("RSPQCKN")
    if plain and sized_convolution(layer.name, sizes, strides).shape == layer.shape:
        return sizes, strides
    raise InputError(
        f"layer {layer.name}", "a convolution without groups and dilation", " ".join(layer.sizes)
    )
