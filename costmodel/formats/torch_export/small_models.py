"""Models that are small enough to ship as ONNX: of transformers, torchvision and timm, and our own blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import timm
import torch
import transformers
from torch import Tensor, nn
from torchvision import models
from torchvision.models import video

from costmodel.formats.torch_export.published_models import Segmenting
from costmodel.formats.torch_export.small_blocks import (
    BlockScan,
    Denoiser,
    ExpertMixture,
    FirstResult,
    SelectiveScan,
    SharedHeads,
    WithCache,
)


class Asked(NamedTuple):
    """An input: the length of each axis or its symbol; of whole numbers, the bound below which they are."""

    axes: tuple[int | str, ...]
    below: int = 0

    def tensor(self, lengths: Mapping[str, int]) -> Tensor:
        shape = [axis if isinstance(axis, int) else lengths[axis] for axis in self.axes]
        return torch.randint(1, self.below, shape) if self.below else torch.rand(shape)


class SmallModel(NamedTuple):
    """How a model is made, its inputs in order, ONNX's operator set, and the exporters that can write it."""

    make: Callable[[], nn.Module]
    inputs: Mapping[str, Asked]
    opset: int = 18
    exporters: tuple[str, ...] = ("script", "dynamo")


TOKENS, MASK = Asked(("batch", "seq"), 90), Asked(("batch", "seq"), 2)
VECTORS, IMAGE = Asked(("batch", "seq", 16)), Asked(("batch", 3, 64, 64))
SCRIPT, DYNAMO = ("script",), ("dynamo",)


def configured(name: str, attention: str, stated: Mapping[str, Any], experts: str = "") -> nn.Module:
    """A model of transformers with random weights; ``attention``, ``experts``: how these are computed."""
    model = getattr(transformers, name)
    config = model.config_class(**stated)
    config._attn_implementation = attention  # noqa: SLF001 - as from_pretrained takes them
    if experts:
        config._experts_implementation = experts  # noqa: SLF001
    made: nn.Module = model(config)
    return made


DECODER: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def decoder(
    name: str, attention: str = "sdpa", experts: str = "", mask: bool = True, **stated: Any
) -> SmallModel:
    """A decoder without a cache; PyTorch's TorchScript exporter can write it only with a mask."""
    inputs = {"input_ids": TOKENS} | ({"attention_mask": MASK} if mask else {})

    def make() -> nn.Module:
        model = configured(name, attention, DECODER | stated, experts)
        return FirstResult(model, list(inputs), use_cache=False)

    return SmallModel(make, inputs, exporters=("script", "dynamo") if mask else DYNAMO)


def with_cache(name: str, attention: str = "sdpa", heads: int = 2, **stated: Any) -> SmallModel:
    """A decoder of two layers that reads and returns a cache of so many heads of width 8."""
    past = {
        f"past_{kind}_{layer}": Asked(("batch", heads, "past", 8))
        for layer in range(2)
        for kind in ("key", "value")
    }
    return SmallModel(
        lambda: WithCache(configured(name, attention, DECODER | stated)), {"input_ids": TOKENS} | past
    )


def other(name: str, inputs: Mapping[str, Asked], attention: str = "sdpa", **stated: Any) -> SmallModel:
    """A model of transformers that is no decoder."""
    return SmallModel(lambda: FirstResult(configured(name, attention, stated), list(inputs)), inputs)


def image(make: Callable[[], nn.Module], size: int = 64) -> SmallModel:
    return SmallModel(make, {"image": Asked(("batch", 3, size, size))})


def mixture(form: str) -> SmallModel:
    return SmallModel(lambda: ExpertMixture(form), {"x": VECTORS})


def shared(form: str) -> SmallModel:
    past = Asked(("batch", 2, "past", 8))
    return SmallModel(lambda: SharedHeads(form), {"x": VECTORS, "past_k": past, "past_v": past})


ROUTED: dict[str, Any] = {
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
}
DEEPSEEK: dict[str, Any] = {
    **ROUTED,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "n_group": 2,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "q_lora_rank": 16,
    "kv_lora_rank": 8,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 8,
    "v_head_dim": 6,
    "num_key_value_heads": 4,
}
T5: dict[str, Any] = {
    "vocab_size": 96,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
    "pad_token_id": 0,
}
WHISPER: dict[str, Any] = {
    "vocab_size": 96,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "num_mel_bins": 8,
    "max_source_positions": 16,
    "max_target_positions": 32,
    "decoder_start_token_id": 0,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
VIT: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 64,
    "patch_size": 16,
}
CLIP: dict[str, Any] = {
    "text_config": {**DECODER, "projection_dim": 16},
    "vision_config": {**VIT, "projection_dim": 16},
    "projection_dim": 16,
}
SEGFORMER: dict[str, Any] = {
    "hidden_sizes": [8, 16, 24, 32],
    "depths": [1, 1, 1, 1],
    "decoder_hidden_size": 16,
}
SWIN: dict[str, Any] = {
    "image_size": 64,
    "embed_dim": 16,
    "depths": [2, 2],
    "num_heads": [2, 4],
    "window_size": 4,
}
MAMBA: dict[str, Any] = {"hidden_size": 16, "state_size": 8, "num_hidden_layers": 2}
GPT2: dict[str, Any] = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
LENGTH_8 = {"input_ids": Asked(("batch", 8), 90), "attention_mask": Asked(("batch", 8), 2)}
READ_AND_WRITTEN = {"input_ids": Asked(("batch", "read"), 90), "decoder_input_ids": TOKENS}

MODELS: dict[str, SmallModel] = {
    "llama_sdpa": decoder("LlamaForCausalLM"),
    "llama_eager": decoder("LlamaForCausalLM", "eager"),
    "llama_without_mask": decoder("LlamaForCausalLM", mask=False),
    "llama_opset_23": decoder("LlamaForCausalLM")._replace(opset=23, exporters=DYNAMO),
    "llama_cache_sdpa": with_cache("LlamaForCausalLM"),
    "llama_cache_eager": with_cache("LlamaForCausalLM", "eager")._replace(opset=17, exporters=SCRIPT),
    "llama_cache_opset_23": with_cache("LlamaForCausalLM")._replace(opset=23, exporters=DYNAMO),
    "qwen2": decoder("Qwen2ForCausalLM"),
    "qwen3_cache": with_cache("Qwen3ForCausalLM", head_dim=8),
    "gemma2": decoder("Gemma2ForCausalLM", "eager", head_dim=8, sliding_window=4),
    "gemma3": decoder("Gemma3ForCausalLM", head_dim=8, sliding_window=4),
    "gpt2": decoder("GPT2LMHeadModel", **GPT2),
    "gpt2_cache": with_cache("GPT2LMHeadModel", heads=4, **GPT2),
    "phi": decoder("PhiForCausalLM", num_key_value_heads=4),
    "phi3": decoder("Phi3ForCausalLM"),
    "falcon": decoder("FalconForCausalLM"),
    "falcon_alibi": decoder("FalconForCausalLM", "eager", alibi=True),
    "bloom": decoder("BloomForCausalLM", "eager", n_layer=2, n_head=4),
    "opt": decoder("OPTForCausalLM", ffn_dim=48, word_embed_proj_dim=32),
    "mixtral_loop": decoder("MixtralForCausalLM", experts="eager", **ROUTED)._replace(exporters=SCRIPT),
    "mixtral_batched": decoder("MixtralForCausalLM", experts="batched_mm", **ROUTED),
    "qwen3_moe_batched": decoder("Qwen3MoeForCausalLM", experts="batched_mm", **ROUTED),
    "deepseek_v3": decoder("DeepseekV3ForCausalLM", experts="batched_mm", **DEEPSEEK),
    "gpt_oss": decoder("GptOssForCausalLM", "eager", experts="batched_mm", head_dim=8, **ROUTED),
    "mamba": decoder("MambaForCausalLM", "eager", **MAMBA)._replace(inputs=LENGTH_8),
    "mamba2": decoder(
        "Mamba2ForCausalLM", "eager", **MAMBA, num_heads=4, head_dim=8, n_groups=2, chunk_size=4
    ),
    "bert": other("BertForMaskedLM", {"input_ids": TOKENS}, **DECODER, type_vocab_size=2),
    "bert_mask": other(
        "BertForMaskedLM",
        {"input_ids": TOKENS, "attention_mask": MASK},
        "eager",
        **DECODER,
        type_vocab_size=2,
    ),
    "t5": other("T5ForConditionalGeneration", READ_AND_WRITTEN, "eager", **T5),
    "whisper": other(
        "WhisperForConditionalGeneration",
        {"input_features": Asked(("batch", 8, 32)), "decoder_input_ids": TOKENS},
        **WHISPER,
    ),
    "vit": other("ViTForImageClassification", {"pixel_values": IMAGE}, **VIT),
    "clip": other("CLIPModel", {"input_ids": TOKENS, "pixel_values": IMAGE}, **CLIP),
    "segformer": other("SegformerForSemanticSegmentation", {"pixel_values": IMAGE}, **SEGFORMER),
    "swin_v2": other("Swinv2Model", {"pixel_values": IMAGE}, "eager", **SWIN),
    "denoiser": SmallModel(
        Denoiser,
        {
            "image": Asked(("batch", 4, 16, 16)),
            "step": Asked(("batch",), 90),
            "context": Asked(("batch", "read", 12)),
        },
    ),
    "experts_dense": mixture("dense"),
    "experts_broadcast": mixture("broadcast"),
    "experts_gathered": mixture("gathered"),
    "experts_capacity": mixture("capacity"),
    "experts_chosen_by_experts": mixture("chosen_by_experts"),
    "experts_masked": mixture("masked"),
    "experts_sorted": mixture("sorted")._replace(exporters=SCRIPT),
    "scan_loop": SmallModel(lambda: SelectiveScan("loop"), {"x": Asked(("batch", 6, 16))}),
    "scan_sums": SmallModel(lambda: SelectiveScan("sums"), {"x": VECTORS}),
    "scan_blocks": SmallModel(BlockScan, {"x": Asked(("batch", 12, 16))}),
    "heads_folded": shared("folded"),
    "heads_repeated": shared("repeated"),
    "heads_linear": shared("linear"),
    "heads_asked": shared("asked")._replace(opset=23, exporters=DYNAMO),
    "resnet18": image(models.resnet18),
    "mobilenet_v3": image(models.mobilenet_v3_small),
    "mobilenet_v4": image(lambda: timm.create_model("mobilenetv4_conv_small")),
    "efficientnet": image(models.efficientnet_b0),
    "convnext": image(lambda: timm.create_model("convnext_atto")),
    "swin": image(lambda: models.SwinTransformer([4, 4], 16, [2, 2], [2, 4], [4, 4]), 32),
    "regnet": image(models.regnet_y_400mf),
    "densenet": image(lambda: models.DenseNet(8, (2, 2), 16)),
    "googlenet": image(lambda: models.GoogLeNet(aux_logits=False, init_weights=False)),
    "shufflenet": image(models.shufflenet_v2_x0_5),
    "squeezenet": image(models.squeezenet1_1),
    "deeplab": image(
        lambda: Segmenting(models.segmentation.deeplabv3_mobilenet_v3_large(weights_backbone=None))
    ),
    "lraspp": image(lambda: Segmenting(models.segmentation.lraspp_mobilenet_v3_large(weights_backbone=None))),
    "r3d": SmallModel(video.r3d_18, {"clip": Asked(("batch", 3, 4, 32, 32))}),
    "vit_timm": image(lambda: timm.create_model("vit_tiny_patch16_224", img_size=64, depth=2)),
    "efficientvit": image(lambda: timm.create_model("efficientvit_b0")),
    "levit": image(lambda: timm.create_model("levit_128s", img_size=64)),
    "xcit": image(lambda: timm.create_model("xcit_nano_12_p16_224", depth=2)),
    "repvgg": image(lambda: timm.create_model("repvgg_a0")),
}
