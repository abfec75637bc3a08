"""Whisper by the keys of its configuration."""

from __future__ import annotations

from costmodel.errors import InputError
from costmodel.formats.hugging_face.configuration import Configuration
from costmodel.formats.hugging_face.decoders import activation_of
from costmodel.formats.hugging_face.lengths import Lengths, phase_of
from costmodel.formats.hugging_face.stored import stored_of
from costmodel.workload.library.encoder import EncoderStack, Speech
from costmodel.workload.library.encoder import whisper as whisper_of
from costmodel.workload.network import Network


def whisper(keys: Configuration, name: str, batch: int, dims: Lengths) -> Network:
    """``WhisperForConditionalGeneration``: its lengths are those of the decoder's tokens."""
    keys.must_be("tie_word_embeddings", True, "the last layer has the table of tokens")
    keys.unread(
        "num_hidden_layers classifier_proj_size use_weighted_layer_sum apply_spec_augment mask_time_prob "
        "mask_time_length mask_time_min_masks mask_feature_prob mask_feature_length mask_feature_min_masks "
        "median_filter_width alignment_heads"
    )
    activation = activation_of(keys, "activation_function", "gelu")
    encoder, decoder = (
        EncoderStack(
            keys.whole("d_model"),
            keys.whole(f"{part}_layers"),
            keys.whole(f"{part}_attention_heads"),
            keys.whole(f"{part}_ffn_dim"),
            activation,
            (True, False, True),
        )
        for part in ("encoder", "decoder")
    )
    for part, stack in (("encoder", encoder), ("decoder", decoder)):
        if stack.width % stack.heads:
            expected = f"a divisor of d_model {stack.width}"
            raise InputError(keys.where, expected, stack.heads, key=f"{part}_attention_heads")
    facts = Speech(
        encoder,
        decoder,
        keys.whole("num_mel_bins"),
        keys.whole("max_source_positions"),
        keys.whole("vocab_size"),
        keys.whole("max_target_positions"),
        stored_of(keys).bits,
    )
    keys.finish()
    phase = phase_of(keys.where, batch, dims)
    if phase.past + phase.new > facts.longest:
        expected = f"at most max_target_positions = {facts.longest} tokens, cached ones included"
        raise InputError(keys.where, expected, phase.past + phase.new, key="dims.seq")
    return whisper_of(name, facts, phase)
