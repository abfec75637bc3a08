"""Classifiers of images by the keys of their configurations."""

from __future__ import annotations

from costmodel.errors import InputError
from costmodel.formats.hugging_face.configuration import Configuration
from costmodel.formats.hugging_face.decoders import activation_of
from costmodel.formats.hugging_face.lengths import Lengths, stated_lengths
from costmodel.formats.hugging_face.stored import stored_of
from costmodel.workload.library.convnext import ConvNext
from costmodel.workload.library.convnext import convnext as convnext_of
from costmodel.workload.library.encoder import EncoderStack, Vision
from costmodel.workload.library.encoder import vit as vit_of
from costmodel.workload.network import Network


def vit(keys: Configuration, name: str, batch: int, dims: Lengths) -> Network:
    """``ViTForImageClassification``: the size of its images is the configuration's."""
    bias = keys.flag("qkv_bias", True)
    stack = EncoderStack(
        keys.whole("hidden_size"),
        keys.whole("num_hidden_layers"),
        keys.whole("num_attention_heads"),
        keys.whole("intermediate_size"),
        activation_of(keys, default="gelu"),
        (bias, bias, bias),
    )
    if stack.width % stack.heads:
        expected = f"a divisor of hidden_size {stack.width}"
        raise InputError(keys.where, expected, stack.heads, key="num_attention_heads")
    image, patch = keys.whole("image_size"), keys.whole("patch_size")
    if image % patch:
        raise InputError(keys.where, f"a divisor of image_size {image}", patch, key="patch_size")
    keys.unread("encoder_stride pooler_act pooler_output_size")
    facts = Vision(stack, image, patch, keys.whole("num_channels", 3), _labels(keys), stored_of(keys).bits)
    keys.finish()
    stated_lengths(keys.where, dims, {})
    return vit_of(name, facts, batch)


def convnext(keys: Configuration, name: str, batch: int, dims: Lengths) -> Network:
    """``ConvNextForImageClassification``, of square images (224 rows unless the configuration says)."""
    widths, depths = (keys.wholes(key) for key in ("hidden_sizes", "depths"))
    if not widths or len(widths) != len(depths):
        expected = f"as many stages as hidden_sizes has: {len(widths)}"
        raise InputError(keys.where, expected, depths, key="depths")
    keys.must_be("num_stages", len(widths), "as many as hidden_sizes has")
    keys.unread("layer_scale_init_value drop_path_rate stage_names out_features out_indices")
    patch, image = keys.whole("patch_size", 4), keys.whole("image_size", 224)
    step = patch * 2 ** (len(widths) - 1)
    if image % step:
        raise InputError(
            keys.where, f"a multiple of {step}, the steps of all stages", image, key="image_size"
        )
    facts = ConvNext(
        tuple(widths),
        tuple(depths),
        image,
        patch,
        keys.whole("num_channels", 3),
        _labels(keys),
        activation_of(keys, default="gelu"),
        stored_of(keys).bits,
    )
    keys.finish()
    stated_lengths(keys.where, dims, {})
    return convnext_of(name, facts, batch)


def _labels(keys: Configuration) -> int:
    """How many classes there are: as many as have names, where the number is not stated."""
    named = keys.mapping("id2label")
    if named is not None and len(named):
        return len(named)
    return keys.whole("num_labels")
