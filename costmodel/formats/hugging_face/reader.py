"""``config.json`` files as networks: the reader of each architecture, and the lengths that users state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from costmodel.errors import InputError, did_you_mean
from costmodel.formats.hugging_face import decoders
from costmodel.formats.hugging_face.configuration import Configuration
from costmodel.workload.library.decoder import Decoder, Experts, Phase, decoder
from costmodel.workload.network import Network

Lengths = Mapping[str, int]
"""Lengths by the names that users state them by (``--dim``, ``dims:``)."""

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


def is_configuration(content: Any) -> bool:
    """Whether the content of a JSON file is a model's configuration, and no graph."""
    return isinstance(content, dict) and "architectures" in content and "ops" not in content


def architecture_names() -> list[str]:
    """The architectures that can be read, by the names that configurations call them."""
    return list(_DECODERS)


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
    if named[0] not in _DECODERS:
        known = architecture_names()
        remedy = f"{did_you_mean(named[0], known)} Export the model as ONNX to read it".lstrip()
        raise InputError(where, f"one of {', '.join(known)}", named[0], remedy, key="architectures")
    keys = Configuration(content, where)
    facts = _DECODERS[named[0]](keys)
    keys.finish()
    return decoder(name, facts, _phase(facts, where, batch or 1, dims))


def _phase(facts: Decoder, where: str, batch: int, dims: Lengths) -> Phase:
    experts = next((b.feed_forward for b in facts.blocks if isinstance(b.feed_forward, Experts)), None)
    known = {"seq": "new tokens", "past": "cached tokens", "logits": "tokens to predict behind"}
    if experts is not None:
        known["experts"] = "different experts that are reached"
    stated = stated_lengths(where, dims, known, required=("seq",), least={"past": 0})
    new = stated["seq"]
    logits = stated.get("logits", new)
    if logits > new:
        raise InputError(where, f"at most the {new} tokens of seq", logits, key="dims.logits")
    reached = stated.get("experts")
    if experts is not None and reached is not None:
        most = min(experts.count, batch * new * experts.top)
        if not experts.top <= reached <= most:
            expected = f"{experts.top} to {most} experts for {batch * new} tokens"
            raise InputError(where, expected, reached, key="dims.experts")
    return Phase(batch, new, stated.get("past", 0), logits, reached)


def stated_lengths(
    where: str,
    dims: Lengths,
    known: Mapping[str, str],
    required: tuple[str, ...] = (),
    least: Lengths = MappingProxyType({}),
) -> dict[str, int]:
    """The lengths ``dims``, checked: each is ``known``, by its name with what it is, and whole numbers.

    ``required`` ones must be there; ``least`` has the least number of a length where that is not 1.
    """
    for name, length in dims.items():
        if name not in known:
            shown = ", ".join(f"{key} ({what})" for key, what in known.items()) or "none"
            raise InputError(where, f"lengths among {shown}", name, did_you_mean(name, known), key="dims")
        if type(length) is not int or length < least.get(name, 1):
            expected = f"a whole number of at least {least.get(name, 1)}"
            raise InputError(where, expected, length, key=f"dims.{name}")
    if missing := [name for name in required if name not in dims]:
        flags = " ".join(f"--dim {name}=N" for name in missing)
        stated = ", ".join(f"{name}: N" for name in missing)
        remedy = f"State {flags}, in a study {{network: FILE, dims: {{{stated}}}}}"
        raise InputError(
            where, "a number for each length", f"none for {', '.join(missing)}", remedy, key="dims"
        )
    return dict(dims)
