"""Mappings as calls of Gemmini's library: every argument by hand, and what the hardware cannot run."""

from __future__ import annotations

from math import prod

import pytest

from costmodel.errors import InputError
from costmodel.formats.machines.gemmini import TILES, WALK, TiledCall, product_dims, tiled_call
from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.mapping.mapping import LevelMapping, Loop, Mapping, violations
from costmodel.workload.network import Layer, convolution, gemm

KEPT = {
    "conv": (("Weights", "Inputs"), ("Outputs",), ("Weights",)),
    "gemm": (("B", "A"), ("Z",), ("B",)),
}


def machine(side: int = 16, rows: int | None = None) -> Architecture:
    """The levels of a Gemmini, every access 1 pJ."""
    levels = (
        StorageLevel("Registers", 1, 8, 1, 1, 1, keeps=("weights",)),
        StorageLevel("Accumulator", 2**14, 32, 1, 1, 1, fanout_y=rows or side, keeps=("outputs",)),
        StorageLevel("Scratchpad", 2**18, 8, 1, 1, 1, fanout_x=side, keeps=("weights", "inputs")),
        StorageLevel("DRAM", None, 8, 1, 1, 1),
    )
    return Architecture("gemmini-test", levels, Compute("MAC", 8, 1.0))


def mapping(
    layer: Layer,
    outer: tuple[Loop, ...],
    spread: tuple[tuple[Loop, ...], tuple[Loop, ...]],
    architecture: Architecture,
) -> Mapping:
    """``outer`` (outermost first) at DRAM, ``spread`` below scratchpad and accumulator, the rest inside."""
    scratchpad, accumulator, registers = KEPT["conv" if "P" in layer.sizes else "gemm"]
    used = {dim: prod(b for d, b in (*outer, *spread[0], *spread[1]) if d == dim) for dim in layer.sizes}
    inside = tuple((dim, size // used[dim]) for dim, size in layer.dims if size > used[dim])
    found = Mapping(
        (
            LevelMapping((), (), (), frozenset(registers)),
            LevelMapping(inside, (), spread[1], frozenset(accumulator)),
            LevelMapping((), spread[0], (), frozenset(scratchpad)),
            LevelMapping(outer[::-1], (), (), frozenset(tensor.name for tensor in layer.tensors)),
        )
    )
    assert not violations(architecture, layer, found)
    return found


CONV = convolution("c", N=2, K=96, C=32, P=28, Q=14, R=3, S=3, stride=(2, 2))
SPREAD = ((("K", 16),), (("C", 16),))


def test_a_convolution() -> None:
    outer = (("N", 2), ("Q", 7), ("P", 2), ("K", 2), ("S", 3), ("C", 2))
    call = tiled_call(machine(), CONV, mapping(CONV, outer, SPREAD, machine()))
    tiles = {"batches": 1, "porows": 2, "pocols": 14, "pochs": 48, "krows": 1, "kcols": 3, "kchs": 16}
    assert call.arguments == {
        "batch_size": 2,
        "in_row_dim": 29,
        "in_col_dim": 57,
        "in_channels": 32,
        "out_channels": 96,
        "out_row_dim": 14,
        "out_col_dim": 28,
        "stride": 2,
        "input_dilation": 1,
        "kernel_dilation": 1,
        "padding": 0,
        "kernel_dim": 3,
        **tiles,
    }
    assert call.walk == (
        ("batches", 2),
        ("porows", 7),
        ("pocols", 2),
        ("pochs", 2),
        ("krows", 3),
        ("kchs", 2),
    )
    assert call.call == "tiled_conv"
    assert call.dim == 16
    assert TiledCall(**{**vars(call)}).to_json()["walk"][0] == ["batches", 2]


def test_tiles_times_walk_are_the_layer() -> None:
    outer = (("N", 2), ("Q", 7), ("P", 2), ("K", 3), ("R", 3), ("C", 2))
    call = tiled_call(machine(), CONV, mapping(CONV, outer, SPREAD, machine()))
    walk = dict(call.walk)
    for name, dim in zip(TILES, WALK, strict=True):
        assert call.arguments[name] * walk.get(name, 1) == CONV.sizes[dim]


def test_a_product_in_blocks() -> None:
    layer = gemm("g", M=128, N=768, K=72)
    outer = (("M", 2), ("N", 8), ("K", 1))
    spread = ((("N", 16),), (("K", 12),))
    call = tiled_call(machine(), layer, mapping(layer, outer[:2], spread, machine()))
    assert call.call == "tiled_matmul"
    assert call.arguments == {
        "dim_I": 128,
        "dim_J": 768,
        "dim_K": 72,
        "tile_I": 4,
        "tile_J": 6,
        "tile_K": 5,  # 72 are four blocks of 16 and a half one
    }
    assert call.walk == (("I", 2), ("J", 8))


def test_a_convolution_over_one_row_is_a_product() -> None:
    layer = convolution("c", K=64, C=32, P=128, Q=1, R=1, S=1)
    assert product_dims(layer) == {"I": "P", "J": "K", "K": "C"}
    call = tiled_call(machine(), layer, mapping(layer, (("P", 8), ("K", 2)), SPREAD, machine()))
    assert call.call == "tiled_matmul"
    assert [call.arguments[f"tile_{letter}"] for letter in "IJK"] == [1, 2, 2]
    assert product_dims(convolution("s", K=64, C=32, P=128, Q=1, R=1, S=1, stride=(2, 1))) == {}


@pytest.mark.parametrize(
    ("outer", "named"),
    [
        ((("K", 2), ("P", 2)), "K, P"),
        ((("C", 2), ("K", 2)), "C, K"),
        ((("R", 3), ("S", 3)), "R, S"),
    ],
)
def test_loops_in_another_order_are_refused(outer: tuple[Loop, ...], named: str) -> None:
    found = mapping(CONV, outer, SPREAD, machine())
    with pytest.raises(InputError, match=named):
        tiled_call(machine(), CONV, found)


def test_what_the_hardware_cannot_spread_is_refused() -> None:
    found = mapping(CONV, (("K", 2),), ((("P", 14),), (("C", 16),)), machine())
    with pytest.raises(InputError, match="only K spread below Scratchpad"):
        tiled_call(machine(), CONV, found)


def test_tiles_of_products_are_rounded_up_to_blocks() -> None:
    layer = gemm("g", M=128, N=64, K=64)
    found = mapping(layer, (("M", 16),), ((("N", 16),), (("K", 16),)), machine())
    call = tiled_call(machine(), layer, found)
    assert [call.arguments[f"tile_{letter}"] for letter in "IJK"] == [1, 4, 4]
    assert call.walk == (("I", 8),)


def test_rounded_tiles_have_to_fit() -> None:
    layer = gemm("g", M=8 * 5, N=16, K=2**13)
    found = mapping(layer, (("M", 5),), ((("N", 16),), (("K", 16),)), machine())
    assert tiled_call(machine(), layer, found).walk == (("I", 3),)
    layer = gemm("g", M=8 * 5, N=16, K=10_000)
    found = mapping(layer, (("M", 5),), ((("N", 16),), (("K", 16),)), machine())
    with pytest.raises(InputError, match="fit Scratchpad as whole blocks"):
        tiled_call(machine(), layer, found)


@pytest.mark.parametrize("layer", [convolution("g", K=32, C=32, P=8, Q=8, R=3, S=3, groups=2), CONV])
def test_layers_and_machines_without_a_call(layer: Layer) -> None:
    architecture = machine(16, rows=8) if layer is CONV else machine()
    free = Mapping(
        tuple(
            LevelMapping(
                tuple((d, s) for d, s in layer.dims if s > 1),
                (),
                (),
                frozenset(tensor.name for tensor in layer.tensors),
            )
            if level is architecture.levels[-1]
            else LevelMapping((), (), (), frozenset())
            for level in architecture.levels
        )
    )
    with pytest.raises(InputError, match="two fan-outs of the same size" if layer is CONV else "convolution"):
        tiled_call(architecture, layer, free)


def test_only_square_filters_have_a_call() -> None:
    layer = convolution("c", K=32, C=32, P=8, Q=8, R=3, S=1)
    with pytest.raises(InputError, match="square filters"):
        tiled_call(machine(), layer, mapping(layer, (), SPREAD, machine()))
