"""Networks that denoise images: Stable Diffusion's U-Net and the diffusion transformer DiT.

Each network is one step of denoising: from a noisy image in latent space, the number of the step and a
condition (a class or a text) to the noise in it. Making an image takes some dozens of runs. Sizes are those
of the published configurations. Tensors are ``(batch, channels, rows, columns)`` as images and ``(batch,
tokens, width)`` as sequences. The builder's methods return the names of tensors, so ``x`` and ``y`` are names
here.
"""

from __future__ import annotations

from costmodel.workload.library.builder import Convolution, NetworkBuilder
from costmodel.workload.network import Network

_DIT_WIDTH, _DIT_HEADS, _DIT_BLOCKS = 1152, 16, 28

_WIDTHS, _HEADS = (320, 640, 1280, 1280), 8
"""Channels of the U-Net at each resolution, the highest first, and the heads of its attention."""
_TEXT = (77, 768)
"""Tokens of the text that a U-Net reads, and their width."""
_TIME = 1280
"""The width of the vector that says which step of denoising it is."""


def dit_xl_2(batch: int = 1) -> Network:
    """DiT-XL/2 (Peebles and Xie 2023, table 1) for 256 x 256 images: latents of 4 x 32 x 32."""
    build = NetworkBuilder("dit_xl_2", views_folded=False)
    latent = build.input("latent", (batch, 4, 32, 32))
    width, tokens = _DIT_WIDTH, 256  # a token for each patch of 2 x 2
    patches = Convolution(width, 2, 2, padding=0, activation="", bias=True)
    x = build.convolution("patches", latent, patches)
    x = build.permute("patches.by_token", build.reshape("patches.flat", x, (batch, width, tokens)), (0, 2, 1))
    x = build.add("embedding", x, build.parameter("position", (1, tokens, width)))
    # The condition is made once for all blocks: from the step, which comes as 256 sines and cosines, and from
    # the class of the image, one of 1000 or none.
    time = build.linear("time.a", build.input("time", (batch, 256)), width, "silu", bias=True)
    time = build.linear("time.b", time, width, bias=True)
    table = build.parameter("label.table", (1001, width))
    label = build.operator("label", "embedding", (table, build.input("label.id", (batch,))), (batch, width))
    condition = build.pointwise("condition.activation", "silu", build.add("condition", time, label))
    for i in range(_DIT_BLOCKS):
        x = _adapted_block(build, f"block{i}", x, condition)
    shift, scale = _modulations(build, "last", condition, ("shift", "scale"))
    # of each token 2 x 2 pixels of 8 channels: four of noise, and four of its variance
    x = build.linear("last", _modulated(build, "last.norm", x, shift, scale), 32, bias=True)
    x = build.reshape("last.patches", x, (batch, 16, 16, 2, 2, 8))
    build.reshape("image", build.permute("last.turned", x, (0, 5, 1, 3, 2, 4)), (batch, 8, 32, 32))
    return build.network()


def _modulations(build: NetworkBuilder, name: str, condition: str, parts: tuple[str, ...]) -> list[str]:
    """A vector for each of the ``parts``, made of the condition by one product (adaLN-Zero, section 3.2).

    Vectors have the shape (batch, 1, width), so that they act on all tokens alike.
    """
    batch, width = build.shape(condition)
    made = build.linear(f"{name}.modulation", condition, len(parts) * width, bias=True)
    found = build.parts(f"{name}.modulation", made, dict.fromkeys(parts, width))
    return [build.reshape(f"{part}.row", part, (batch, 1, width)) for part in found]


def _modulated(build: NetworkBuilder, name: str, x: str, shift: str, scale: str) -> str:
    """Layer normalisation whose scale and shift are made of the condition and not learned."""
    x = build.layer_norm(name, x)
    x = build.operator(f"{name}.scaled", "mul", (x, scale), build.shape(x))
    return build.add(f"{name}.shifted", x, shift)


def _adapted_block(build: NetworkBuilder, name: str, x: str, condition: str) -> str:
    """A block of DiT: attention, and a layer of four times the width, each scaled by the condition's gate."""
    names = ("shift1", "scale1", "gate1", "shift2", "scale2", "gate2")
    shift1, scale1, gate1, shift2, scale2, gate2 = _modulations(build, name, condition, names)
    y = _modulated(build, f"{name}.norm1", x, shift1, scale1)
    y = _attention(build, f"{name}.attention", y, y, _DIT_HEADS, bias=True)
    x = build.add(f"{name}.add1", x, build.operator(f"{name}.gated1", "mul", (y, gate1), build.shape(y)))
    y = _modulated(build, f"{name}.norm2", x, shift2, scale2)
    y = build.linear(f"{name}.expand", y, 4 * _DIT_WIDTH, "gelu", bias=True)
    y = build.linear(f"{name}.contract", y, _DIT_WIDTH, bias=True)
    return build.add(f"{name}.add2", x, build.operator(f"{name}.gated2", "mul", (y, gate2), build.shape(y)))


def _attention(build: NetworkBuilder, name: str, x: str, read: str, heads: int, *, bias: bool) -> str:
    """Attention of the tokens of ``x`` to those of ``read``.

    ``bias``: whether the projections to queries, keys and values have one. The projection behind always does.
    """
    width, parts = build.shape(x)[-1], {}
    for part, of in (("query", x), ("key", read), ("value", read)):
        made = build.linear(f"{name}.{part}", of, width, bias=bias)
        parts[part] = build.heads_apart(f"{name}.{part}", made, heads)
    keys = build.permute(f"{name}.key.turned", parts["key"], (0, 1, 3, 2))
    scores = build.matmul(f"{name}.scores", parts["query"], keys, "matmul+mul")
    weights = build.operator(f"{name}.softmax", "softmax", (scores,), build.shape(scores), dim=-1)
    y = build.heads_together(name, build.matmul(f"{name}.values", weights, parts["value"]))
    return build.linear(f"{name}.output", y, width, bias=True)


def sd_unet(batch: int = 1) -> Network:
    """The U-Net of Stable Diffusion 1.x (Rombach et al. 2022) for 512 x 512 images: latents of 4 x 64 x 64.

    Four resolutions, each with two residual blocks on the way down and three on the way up, and two between
    the ways. A transformer block, with attention to the image itself and to 77 tokens of text, follows each
    of them, but not in the lowest resolution, where only one stands between the ways.
    """
    build = NetworkBuilder("sd_unet", views_folded=False)
    text = build.input("text", (batch, *_TEXT))
    time = build.linear("time.a", build.input("time", (batch, _WIDTHS[0])), _TIME, "silu", bias=True)
    # Every residual block begins its use of the step with this SiLU, which is the same in all of them.
    time = build.linear("time.b", time, _TIME, "silu", bias=True)
    x = _filtered(build, "conv_in", build.input("latent", (batch, 4, 64, 64)), _WIDTHS[0])
    # ``kept``: what each block on the way up reads besides the block before it, the last one made first. The
    # first convolution and those that halve the resolution are among them: so there are three for two.
    kept, last = [x], len(_WIDTHS) - 1
    for level, width in enumerate(_WIDTHS):
        for i in range(2):
            x = _residual(build, f"down{level}.{i}", x, width, time)
            if level < last:
                x = _transformer(build, f"down{level}.{i}.transformer", x, text)
            kept.append(x)
        if level < last:
            smaller = Convolution(width, 3, 2, activation="", bias=True)
            x = build.convolution(f"down{level}.smaller", x, smaller)
            kept.append(x)
    x = _residual(build, "middle.0", x, _WIDTHS[-1], time)
    x = _transformer(build, "middle.transformer", x, text)
    x = _residual(build, "middle.1", x, _WIDTHS[-1], time)
    for level, width in reversed(list(enumerate(_WIDTHS))):
        for i in range(3):
            x = build.concatenate(f"up{level}.{i}.cat", (x, kept.pop()))
            x = _residual(build, f"up{level}.{i}", x, width, time)
            if level < last:
                x = _transformer(build, f"up{level}.{i}.transformer", x, text)
        if level:
            x = _filtered(build, f"up{level}.larger", build.upsample(f"up{level}.twice", x), width)
    _filtered(build, "conv_out", _normalised(build, "norm_out", x, "silu"), 4)
    return build.network()


def _filtered(build: NetworkBuilder, name: str, x: str, channels: int, kernel: int = 3) -> str:
    """A convolution that keeps rows and columns."""
    return build.convolution(name, x, Convolution(channels, kernel, activation="", bias=True))


def _normalised(build: NetworkBuilder, name: str, x: str, activation: str = "") -> str:
    """Group normalisation of an image, in 32 groups, with a learned scale and shift for each channel."""
    read = tuple(build.parameter(f"{name}.{v}", build.shape(x)[1:2]) for v in ("weight", "bias"))
    operator = f"group_norm+{activation}" if activation else "group_norm"
    return build.operator(name, operator, (x, *read), build.shape(x), num_groups=32)


def _residual(build: NetworkBuilder, name: str, x: str, width: int, time: str) -> str:
    """Two convolutions beside a connection past them; between them the step shifts each channel."""
    y = _filtered(build, f"{name}.conv1", _normalised(build, f"{name}.norm1", x, "silu"), width)
    shift = build.linear(f"{name}.time", time, width, bias=True)
    shift = build.reshape(f"{name}.time.channel", shift, (*build.shape(shift), 1, 1))
    y = build.add(f"{name}.shifted", y, shift)
    y = _filtered(build, f"{name}.conv2", _normalised(build, f"{name}.norm2", y, "silu"), width)
    if build.shape(x)[1] != width:
        x = _filtered(build, f"{name}.shortcut", x, width, 1)
    return build.add(f"{name}.add", x, y)


def _transformer(build: NetworkBuilder, name: str, image: str, text: str) -> str:
    """Attention to the image itself, attention to the text, and a gated layer (GEGLU).

    The positions of the image are its tokens.
    """
    batch, width, rows, columns = build.shape(image)
    x = _filtered(build, f"{name}.in", _normalised(build, f"{name}.norm", image), width, 1)
    x = build.reshape(f"{name}.flat", x, (batch, width, rows * columns))
    x = build.permute(f"{name}.by_token", x, (0, 2, 1))
    for part in ("own", "cross"):
        y = build.normalised(f"{name}.{part}.norm", "layer_norm", x, bias=True)
        y = _attention(build, f"{name}.{part}", y, text if part == "cross" else y, _HEADS, bias=False)
        x = build.add(f"{name}.{part}.add", x, y)
    y = build.normalised(f"{name}.mlp.norm", "layer_norm", x, bias=True)
    y = build.linear(f"{name}.mlp.expand", y, 8 * width, bias=True)
    up, gate = build.parts(f"{name}.mlp", y, {"up": 4 * width, "gate": 4 * width})
    gate = build.pointwise(f"{name}.mlp.activation", "gelu", gate)
    y = build.operator(f"{name}.mlp.gated", "mul", (up, gate), build.shape(up))
    x = build.add(f"{name}.mlp.add", x, build.linear(f"{name}.mlp.contract", y, width, bias=True))
    x = build.permute(f"{name}.by_channel", x, (0, 2, 1))
    x = build.reshape(f"{name}.image", x, (batch, width, rows, columns))
    return build.add(f"{name}.add", image, _filtered(build, f"{name}.out", x, width, 1))
