"""Mamba-2 by the keys of its configuration."""

from __future__ import annotations

from dataclasses import replace

from costmodel.errors import InputError
from costmodel.formats.hugging_face.configuration import Configuration
from costmodel.formats.hugging_face.lengths import BLOCKS, Lengths, blocks_of, phase_of
from costmodel.formats.hugging_face.stored import stored_of
from costmodel.workload.library.state_space import StateSpaces
from costmodel.workload.library.state_space import mamba2 as mamba2_of
from costmodel.workload.network import Network


def mamba2(keys: Configuration, name: str, batch: int, dims: Lengths) -> Network:
    """``Mamba2ForCausalLM``."""
    keys.one_of("hidden_act", ("silu", "swish"), "silu")
    keys.must_be("rms_norm", True, "the gated result is normalised")
    keys.unread("norm_before_gate")
    facts = StateSpaces(
        keys.whole("vocab_size"),
        keys.whole("hidden_size"),
        keys.whole("num_hidden_layers"),
        keys.whole("num_heads"),
        keys.whole("head_dim"),
        keys.whole("state_size"),
        keys.whole("n_groups"),
        keys.whole("conv_kernel"),
        keys.whole("chunk_size"),
        keys.flag("use_bias", False),
        keys.flag("use_conv_bias", True),
        keys.flag("tie_word_embeddings", False),
        stored_of(keys).bits,
    )
    inner = keys.whole("intermediate_size", keys.whole("expand", 2) * facts.width)
    if inner != facts.inner:
        expected = f"expand * hidden_size = {inner} channels of all heads"
        raise InputError(keys.where, expected, facts.inner, key="num_heads")
    if facts.heads % facts.groups:
        raise InputError(keys.where, "a divisor of num_heads", facts.groups, key="n_groups")
    keys.finish()
    phase = phase_of(keys.where, batch, dims, BLOCKS)
    return mamba2_of(name, replace(facts, blocks=blocks_of(keys.where, facts.blocks, dims)), phase)
