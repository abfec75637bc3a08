"""Transformers of twelve blocks, width 768, 12 heads: BERT-base, GPT-2 and ViT-B/16."""

from __future__ import annotations

from costmodel.workload.library.builder import Convolution, NetworkBuilder
from costmodel.workload.network import Network

_BLOCKS, _WIDTH, _HEADS = 12, 768, 12


def bert_base(batch: int = 1, sequence: int = 128) -> Network:
    """BERT-base encoder with pooler (Devlin et al. 2019, section 3), normalisation after each residual."""
    build = NetworkBuilder("bert_base")
    x = build.layer_norm("embedding.norm", _embedding(build, (batch, sequence), 30522))
    for i in range(_BLOCKS):
        x = _post_norm_block(build, f"block{i}", x)
    first = build.operator("first_token", "select", (x,), (batch, _WIDTH), dim=1, index=0)
    build.linear("pooler", first, _WIDTH, "tanh")
    return build.network()


def gpt2(batch: int = 1, sequence: int = 128) -> Network:
    """GPT-2 small reading a prompt (Radford et al. 2019, section 2.3), the output vocabulary included."""
    build = NetworkBuilder("gpt2")
    x = _embedding(build, (batch, sequence), 50257)
    for i in range(_BLOCKS):
        x = _pre_norm_block(build, f"block{i}", x, packed=False)
    x = build.layer_norm("norm", x)
    build.linear("lm_head", x, 50257)
    return build.network()


def vit_b_16(batch: int = 1) -> Network:
    """ViT-B/16 (Dosovitskiy et al. 2021, table 1), 224 x 224 images in 196 patches and a class token."""
    build = NetworkBuilder("vit_b_16")
    image = build.input("image", (batch, 3, 224, 224))
    x = build.convolution("patches", image, Convolution(_WIDTH, 16, stride=16, padding=0, activation=""))
    token = build.parameter("class_token", (1, 1, _WIDTH))
    x = build.operator("tokens", "cat", (token, x), (batch, 197, _WIDTH), dim=1)
    position = build.parameter("position", (1, 197, _WIDTH))
    x = build.add("embedding", x, position)
    for i in range(_BLOCKS):
        x = _pre_norm_block(build, f"block{i}", x, packed=True)
    x = build.layer_norm("norm", x)
    first = build.operator("first_token", "select", (x,), (batch, _WIDTH), dim=1, index=0)
    build.linear("head", first, 1000)
    return build.network()


def _embedding(build: NetworkBuilder, tokens: tuple[int, int], vocabulary: int) -> str:
    ids = build.input("ids", tokens)
    table = build.parameter("embedding.table", (vocabulary, _WIDTH))
    position = build.parameter("embedding.position", (1, tokens[1], _WIDTH))
    return build.operator("embedding", "embedding+add", (table, ids, position), (*tokens, _WIDTH))


def _post_norm_block(build: NetworkBuilder, name: str, x: str) -> str:
    x = build.add(f"{name}.add1", x, _attention(build, name, x, packed=False))
    x = build.layer_norm(f"{name}.norm1", x)
    x = build.add(f"{name}.add2", x, _feed_forward(build, name, x))
    return build.layer_norm(f"{name}.norm2", x)


def _pre_norm_block(build: NetworkBuilder, name: str, x: str, packed: bool) -> str:
    attended = _attention(build, name, build.layer_norm(f"{name}.norm1", x), packed)
    x = build.add(f"{name}.add1", x, attended)
    fed = _feed_forward(build, name, build.layer_norm(f"{name}.norm2", x))
    return build.add(f"{name}.add2", x, fed)


def _attention(build: NetworkBuilder, name: str, x: str, packed: bool) -> str:
    """Projections (three of their own, or one that makes all three), the two products, output projection."""
    if packed:
        projections: tuple[str, ...] = (build.linear(f"{name}.qkv", x, 3 * _WIDTH),)
    else:
        projections = tuple(build.linear(f"{name}.{part}", x, _WIDTH) for part in ("query", "key", "value"))
    attended = build.attention(f"{name}.attention", projections, _HEADS)
    return build.linear(f"{name}.output", attended, _WIDTH)


def _feed_forward(build: NetworkBuilder, name: str, x: str) -> str:
    hidden = build.linear(f"{name}.expand", x, 4 * _WIDTH, "gelu")
    return build.linear(f"{name}.contract", hidden, _WIDTH)
