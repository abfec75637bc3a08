"""How wide the elements of a model are: the type of a configuration, and its quantisation."""

from __future__ import annotations

from dataclasses import dataclass

from costmodel.errors import InputError
from costmodel.formats.hugging_face.configuration import Configuration
from costmodel.workload.library.builder import Blocks

_BITS = {"float64": 64, "float32": 32, "float16": 16, "bfloat16": 16, "float8_e4m3fn": 8, "float8_e5m2": 8}


@dataclass(frozen=True)
class Stored:
    """``bits`` of elements in general (None: not stated), of the blocks' weights, and of those of experts."""

    bits: int | None
    linear: Blocks | None = None
    experts: Blocks | None = None


def stored_of(keys: Configuration) -> Stored:
    """The widths that a configuration states. InputError for a quantisation that is not one of two:

    - ``fp8``: 8 bits for all weights of blocks but for routers, a scale of 32 bits for each block of them.
    - ``mxfp4``: 4 bits for the weights of experts, a scale of 8 bits for each 32 (OCP microscaling).
    """
    name = keys.one_of("dtype", _BITS, "") or keys.one_of("torch_dtype", _BITS, "")
    keys.unread("torch_dtype")
    bits = _BITS.get(name)
    quantised = keys.mapping("quantization_config")
    if quantised is None:
        return Stored(bits)
    method = quantised.one_of("quant_method", ("fp8", "mxfp4"))
    quantised.unread("modules_to_not_convert")
    if method == "mxfp4":
        quantised.finish()
        return Stored(bits, experts=Blocks(4, 8, 1, 32))
    quantised.one_of("fmt", ("e4m3", "e5m2"), "e4m3")
    quantised.unread("activation_scheme scale_fmt")
    size = quantised.values("weight_block_size")
    if len(size) != 2 or any(type(n) is not int or n < 1 for n in size):
        expected = "two whole numbers, the rows and columns of a block of weights"
        raise InputError(quantised.where, expected, size, key="weight_block_size")
    quantised.finish()
    return Stored(bits, linear=Blocks(8, 32, *size))
