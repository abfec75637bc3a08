"""``config.json`` files as networks: the reader of each architecture, and the lengths that users state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from costmodel.errors import InputError, did_you_mean
from costmodel.formats.hugging_face import decoders, state_spaces, vision, whisper
from costmodel.formats.hugging_face.configuration import Configuration
from costmodel.formats.hugging_face.lengths import BLOCKS, Lengths, blocks_of, phase_of
from costmodel.workload.library.decoder import Decoder, DecoderPhase, Experts, decoder
from costmodel.workload.network import Network

_DECODERS: dict[str, Callable[[Configuration], Decoder]] = {
    "LlamaForCausalLM": decoders.llama,
    "MistralForCausalLM": decoders.llama,
    "Qwen2ForCausalLM": decoders.qwen2,
    "Qwen3ForCausalLM": decoders.qwen3,
    "Qwen3MoeForCausalLM": decoders.qwen3_experts,
    "MixtralForCausalLM": decoders.mixtral,
    "GptOssForCausalLM": decoders.gpt_oss,
    "DeepseekV3ForCausalLM": decoders.deepseek_v3,
    "GemmaForCausalLM": decoders.gemma,
    "Gemma2ForCausalLM": decoders.gemma2,
    "Gemma3ForCausalLM": decoders.gemma3,
}
_OTHERS: dict[str, Callable[[Configuration, str, int, Lengths], Network]] = {
    "Mamba2ForCausalLM": state_spaces.mamba2,
    "WhisperForConditionalGeneration": whisper.whisper,
    "ViTForImageClassification": vision.vit,
    "ConvNextForImageClassification": vision.convnext,
}
"""Makers of networks from the keys of a configuration, a name, a batch and lengths."""


def is_configuration(content: Any) -> bool:
    """Whether the content of a JSON file is a model's configuration, and no graph."""
    return isinstance(content, dict) and "architectures" in content and "ops" not in content


def architecture_names() -> list[str]:
    """The architectures that can be read, by the names that configurations call them."""
    return [*_DECODERS, *_OTHERS]


def network_of_configuration(
    content: Mapping[str, Any], name: str, where: str, batch: int | None, dims: Lengths
) -> Network:
    """The network of a configuration for ``batch`` sequences or images (None: 1) and the lengths ``dims``.

    Raises InputError naming the file (``where``) and key for an architecture that is not known, a key that is
    missing, wrong or not known, and lengths that are missing, wrong or not known.
    """
    named = content["architectures"]
    if not isinstance(named, list) or len(named) != 1:
        raise InputError(where, "a list of one architecture", named, key="architectures")
    known = architecture_names()
    if named[0] not in known:
        remedy = f"{did_you_mean(named[0], known)} Export the model as ONNX to read it".lstrip()
        raise InputError(where, f"one of {', '.join(known)}", named[0], remedy, key="architectures")
    keys = Configuration(content, where)
    if named[0] in _OTHERS:
        return _OTHERS[named[0]](keys, name, batch or 1, dims)
    facts = _DECODERS[named[0]](keys)
    keys.finish()
    phase = _phase(facts, where, batch or 1, dims)
    blocks = facts.blocks[: blocks_of(where, len(facts.blocks), dims)]
    return decoder(name, replace(facts, blocks=blocks), phase)


def _phase(facts: Decoder, where: str, batch: int, dims: Lengths) -> DecoderPhase:
    experts = next((b.feed_forward for b in facts.blocks if isinstance(b.feed_forward, Experts)), None)
    if experts is None:
        return phase_of(where, batch, dims, BLOCKS)
    known = {"experts": "different experts that are reached", **BLOCKS}
    phase = phase_of(where, batch, dims, known)
    tokens, reached = batch * phase.new, dims.get("experts")
    most = min(experts.count, tokens * experts.top)
    if reached is not None and not experts.top <= reached <= most:
        expected = f"{experts.top} to {most} experts for {tokens} tokens"
        raise InputError(where, expected, reached, key="dims.experts")
    return replace(phase, reached=reached)
