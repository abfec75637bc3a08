"""Parts of networks in forms that no package has: experts, state spaces, shared heads, a denoiser's U-Net.

People write one computation in several ways, and exporters make different graphs of each. These modules are
the ways, small enough that their exports come with the tests, which hold the MACs that a reader of the file
counts against those that PyTorch counts. Only shapes and operators matter: weights are random, and results
mean nothing.

Letters of einsums: b batch, l and s steps of a sequence, d width, h heads, and those that a module explains.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import DynamicCache

EXPERTS, CHOSEN = 4, 2
"""How many experts there are, and how many of them each token goes to."""


class FirstResult(nn.Module):
    """A model of transformers as a function of tensors, as exporters need it.

    Inputs come in the order of ``names``, the model's parameters; ``stated`` are further arguments. The
    result is the first one of the model: logits or hidden states.
    """

    def __init__(self, model: nn.Module, names: list[str], **stated: Any) -> None:
        super().__init__()
        self.model, self.names, self.stated = model, names, stated

    def forward(self, *inputs: Tensor) -> Tensor:
        found = self.model(**dict(zip(self.names, inputs, strict=True)), **self.stated, return_dict=True)
        first: Tensor = found[next(iter(found.keys()))]
        return first


class WithCache(nn.Module):
    """A decoder that reads keys and values of the past, and returns them with the new ones appended.

    ``past`` has keys and values of each layer in turn; so have the results, after the logits.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        cache = DynamicCache()
        for i in range(0, len(past), 2):
            cache.update(past[i], past[i + 1], i // 2)
        found = self.model(input_ids=input_ids, past_key_values=cache, use_cache=True)
        kept = (one for layer in found.past_key_values.layers for one in (layer.keys, layer.values))
        return (found.logits, *kept)


class ExpertMixture(nn.Module):
    """A mixture of experts of width 16, each two products with SiLU between, in one of the ways to write it.

    - ``dense``, ``broadcast``: every expert on every token, by einsum or by a batch of products.
    - ``gathered``: the weights of each token's experts are gathered.
    - ``capacity``: products with one-hot tensors send tokens to experts, which take four tokens each.
    - ``chosen_by_experts``: every expert takes its best three tokens.
    - ``masked``: a loop over experts, each on the tokens that chose it. How many these are depends on data.
    - ``sorted``: tokens sorted by expert and cut where one expert's tokens end. Tracing makes constants of
      these positions, so the export holds for the traced example only (``onnx/traced_rows.py`` says so).

    Letters: t tokens, k the experts that a token chose, e experts, d width, f width between the products, c
    positions among the tokens that an expert takes.
    """

    def __init__(self, form: str) -> None:
        super().__init__()
        self.form = form
        self.gate = nn.Linear(16, EXPERTS, bias=False)
        self.up, self.down = (nn.Parameter(torch.rand(EXPERTS, *shape)) for shape in ((16, 24), (24, 16)))

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.reshape(-1, 16)
        scores = functional.softmax(self.gate(tokens), -1)
        weights, experts = torch.topk(scores, CHOSEN, -1)
        made: Tensor = getattr(self, f"_{self.form}")(tokens, scores, weights, experts)
        return made.reshape(x.shape)

    def _mixed(self, scores: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
        """[t, e] the weight of every expert for every token, 0 for those that it did not choose."""
        return torch.zeros_like(scores).scatter(1, experts, weights)

    def _dense(self, tokens: Tensor, scores: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
        inner = functional.silu(torch.einsum("td,edf->etf", tokens, self.up))
        made = torch.einsum("etf,efd->etd", inner, self.down)
        return torch.einsum("te,etd->td", self._mixed(scores, weights, experts), made)

    def _broadcast(self, tokens: Tensor, scores: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
        made = functional.silu(tokens[None] @ self.up) @ self.down
        return (made * self._mixed(scores, weights, experts).t().unsqueeze(-1)).sum(0)

    def _gathered(self, tokens: Tensor, _: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
        inner = functional.silu(torch.einsum("td,tkdf->tkf", tokens, self.up[experts]))
        return (torch.einsum("tkf,tkfd->tkd", inner, self.down[experts]) * weights[..., None]).sum(1)

    def _capacity(self, tokens: Tensor, _: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
        # ``rank``: how many earlier tokens chose the same expert; from ``capacity`` on tokens are dropped.
        capacity = 4
        chosen = functional.one_hot(experts[:, 0], EXPERTS).float()
        rank = torch.cumsum(chosen, 0) * chosen - chosen
        kept = (rank < capacity).float() * chosen
        sent = kept[..., None] * functional.one_hot(rank.long().clamp(max=capacity - 1), capacity).float()
        inner = functional.silu(torch.einsum("tec,td->ecd", sent, tokens) @ self.up)
        return torch.einsum("tec,ecd->td", sent * weights[:, :1, None], inner @ self.down)

    def _chosen_by_experts(self, tokens: Tensor, scores: Tensor, *_: Tensor) -> Tensor:
        weights, chosen = torch.topk(scores.t(), 3, -1)
        made = torch.bmm(functional.silu(torch.bmm(tokens[chosen], self.up)), self.down)
        return torch.zeros_like(tokens).index_add(
            0, chosen.flatten(), (made * weights[..., None]).reshape(-1, 16)
        )

    def _masked(self, tokens: Tensor, _: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
        found = torch.zeros_like(tokens)
        for expert in range(EXPERTS):
            mine, choice = torch.where(experts == expert)
            made = functional.silu(tokens[mine] @ self.up[expert]) @ self.down[expert]
            found = found.index_add(0, mine, made * weights[mine, choice, None])
        return found

    def _sorted(self, tokens: Tensor, _: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
        flat = experts.flatten()
        order, first, pieces = flat.argsort(), 0, []
        # every token is CHOSEN times in ``flat``, so entry i is of token i // CHOSEN
        for expert, count in enumerate(torch.bincount(flat, minlength=EXPERTS).tolist()):
            mine = tokens[order // CHOSEN][first : first + count]
            pieces.append(functional.silu(mine @ self.up[expert]) @ self.down[expert])
            first += count
        made = torch.cat(pieces) * weights.flatten()[order, None]
        return torch.zeros_like(tokens).index_add(0, order // CHOSEN, made)


class SelectiveScan(nn.Module):
    """Mamba's block of width 16 with 4 states: a Python loop over the steps, or sums along them.

    The state of step i is ``exp(kept[i]) * state[i - 1] + new[i]``. With ``total[i]``, the sum of ``kept`` up
    to i, that is ``exp(total[i])`` times the sum over j up to i of ``new[j] * exp(-total[j])``. The form
    ``loop`` does the former, ``sums`` the latter.
    """

    def __init__(self, form: str) -> None:
        super().__init__()
        self.form = form
        self.enter, self.leave = nn.Linear(16, 64), nn.Linear(32, 16)
        self.mix = nn.Conv1d(32, 32, 4, groups=32, padding=3)
        self.select, self.step = nn.Linear(32, 10), nn.Linear(2, 32)
        self.decay = nn.Parameter(torch.rand(32, 4))

    def forward(self, x: Tensor) -> Tensor:
        batch, steps, _ = x.shape
        # padding on both sides makes 3 steps too many, and those after the last one are cut off: each step
        # then sees itself and three steps before
        u, gate = self.enter(x).chunk(2, -1)
        u = functional.silu(self.mix(u.transpose(1, 2))[:, :, :steps]).transpose(1, 2)
        width, into, out = torch.split(self.select(u), [2, 4, 4], -1)
        width = functional.softplus(self.step(width))
        kept = width[..., None] * -self.decay
        new = width[..., None] * into[:, :, None] * u[..., None]
        if self.form == "loop":
            state, made = torch.zeros(batch, 32, 4), []
            for i in range(steps):
                state = torch.exp(kept[:, i]) * state + new[:, i]
                made.append((state @ out[:, i, :, None])[..., 0])
            y = torch.stack(made, 1)
        else:
            total = torch.cumsum(kept, 1)
            states = torch.exp(total) * torch.cumsum(new * torch.exp(-total), 1)
            y = torch.einsum("bldn,bln->bld", states, out)
        left: Tensor = self.leave(y * functional.silu(gate))
        return left


class BlockScan(nn.Module):
    """Mamba-2's block form of width 32 with 4 heads and 8 states, in blocks of 4 steps.

    Letters: c blocks, l and s steps within one (of the output and of the input), n states, p width of a head.
    ``inside`` is what a block's own steps add to its outputs, ``across`` what the ``states`` at the ends of
    blocks do. Summing these leaves out how they decay from block to block, which takes no product.
    """

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(16, 52), nn.Linear(32, 16)
        self.decay = nn.Parameter(torch.rand(4))

    def forward(self, x: Tensor) -> Tensor:
        batch, steps, _ = x.shape
        u, into, out, width = torch.split(self.enter(x), [32, 8, 8, 4], -1)
        u = u.reshape(batch, -1, 4, 4, 8)
        into, out = into.reshape(batch, -1, 4, 8), out.reshape(batch, -1, 4, 8)
        kept = (functional.softplus(width) * -self.decay).reshape(batch, -1, 4, 4).permute(0, 3, 1, 2)
        total = torch.cumsum(kept, -1)
        within = torch.exp(torch.tril(total[..., None] - total[..., None, :]))
        inside = torch.einsum("bcln,bcsn,bhcls,bcshp->bclhp", out, into, within, u)
        states = torch.einsum("bcln,bhcl,bclhp->bchpn", into, torch.exp(total[..., -1:] - total), u)
        across = torch.einsum("bcln,bchpn,bhcl->bclhp", out, torch.cumsum(states, 1), torch.exp(total))
        left: Tensor = self.leave((inside + across).reshape(batch, steps, 32))
        return left


class SharedHeads(nn.Module):
    """Attention of 4 query heads with 2 key-value heads of width 8, after a cache, in one of several ways.

    - ``folded``: a product with an axis for the query heads that share.
    - ``repeated``: keys and values are repeated before the product.
    - ``asked``: PyTorch's own sharing.
    - ``linear``: without softmax, keys and values multiplied first.
    """

    def __init__(self, form: str) -> None:
        super().__init__()
        self.form = form
        self.q, self.k, self.v, self.o = (
            nn.Linear(*size) for size in ((16, 32), (16, 16), (16, 16), (32, 16))
        )

    def forward(self, x: Tensor, past_k: Tensor, past_v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        batch, rows, _ = x.shape
        q, k, v = (one(x).view(batch, rows, -1, 8).transpose(1, 2) for one in (self.q, self.k, self.v))
        k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
        y: Tensor
        # Query heads 0 and 1 read key-value head 0, heads 2 and 3 read head 1.
        if self.form == "folded":
            scores = torch.softmax(q.reshape(batch, 2, 2, rows, 8) @ k[:, :, None].transpose(-1, -2), -1)
            y = (scores @ v[:, :, None]).reshape(batch, 4, rows, 8)
        elif self.form == "asked":
            y = functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        else:
            wide_k, wide_v = (one.repeat_interleave(2, 1) for one in (k, v))
            if self.form == "repeated":
                mask = torch.full((rows, k.shape[2]), float("-inf")).triu(1 + k.shape[2] - rows)
                y = functional.scaled_dot_product_attention(q, wide_k, wide_v, mask)
            else:
                both = torch.einsum("bhld,bhle->bhde", functional.elu(wide_k) + 1, wide_v)
                y = torch.einsum("bhld,bhde->bhle", functional.elu(q) + 1, both)
        return self.o(y.transpose(1, 2).reshape(batch, rows, -1)), k, v


class Denoiser(nn.Module):
    """A U-Net of one level: a residual block that knows the step, attention to itself and to a text.

    The image comes at full resolution, is halved for attention, whose tokens are its positions, doubled
    again, and joined with what it was before.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(4, 16, 3, padding=1), nn.Conv2d(32, 4, 3, padding=1)
        self.time = nn.Sequential(nn.Linear(16, 64), nn.SiLU(), nn.Linear(64, 16))
        self.norms = nn.ModuleList(nn.GroupNorm(4, 16) for _ in range(2))
        self.convolutions = nn.ModuleList(nn.Conv2d(16, 16, 3, padding=1) for _ in range(2))
        self.down = nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1)
        self.projections = nn.ModuleList(nn.Linear(width, 32) for width in (32, 32, 32, 32, 12, 12))
        self.gate, self.project = nn.Linear(32, 128), nn.Linear(64, 32)

    def forward(self, image: Tensor, step: Tensor, context: Tensor) -> Tensor:
        angles = step[:, None].float() * torch.exp(-torch.arange(8) / 16)
        embedded = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        x = self.first(image)
        y = self.convolutions[0](functional.silu(self.norms[0](x))) + embedded[:, :, None, None]
        x = x + self.convolutions[1](functional.silu(self.norms[1](y)))
        low = self.down(x)
        flat = low.flatten(2).transpose(1, 2)
        q, k, v, q2, k2, v2 = self.projections
        flat = flat + self._attended(q(flat), k(flat), v(flat))
        flat = flat + self._attended(q2(flat), k2(context), v2(context))
        value, gate = self.gate(flat).chunk(2, -1)
        flat = flat + self.project(value * functional.gelu(gate))
        found: Tensor = self.last(torch.cat([self.up(flat.transpose(1, 2).reshape(low.shape)), x], 1))
        return found

    def _attended(self, *operands: Tensor) -> Tensor:
        q, k, v = (one.unflatten(-1, (4, 8)).transpose(1, 2) for one in operands)
        found: Tensor = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return found
