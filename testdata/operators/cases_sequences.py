"""Attention, tokens, recurrent layers, and several inputs and outputs."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from cases_layers import S, mlp, of
from export import ROWS, Fn, f32


def split_heads(x, heads=2):
    b, t, d = x.shape
    return x.view(b, t, heads, d // heads).transpose(1, 2)


def attend(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores + mask if mask.is_floating_point() else scores.masked_fill(~mask, float("-inf"))
    return (torch.softmax(scores, -1) @ v).transpose(1, 2).flatten(2)


class Attention(nn.Module):
    """Multi-head attention by hand; the scale is 1/√4 with d = 8 or 1/√1."""

    def __init__(self, d=4, heads=1, mask=None, bias=True):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(d, 3 * d, bias=bias), nn.Linear(d, d)
        if mask is not None:
            self.register_buffer("mask", mask)
        else:
            self.mask = None

    def forward(self, x):
        q, k, v = (split_heads(y, self.heads) for y in self.qkv(x).chunk(3, -1))
        return self.proj(attend(q, k, v, self.mask))


class Block(nn.Module):
    def __init__(self, d=4, mask=None):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d, eps=f32(1e-5)), nn.LayerNorm(d, eps=f32(1e-5))
        self.attention, self.mlp = Attention(d, mask=mask), mlp(nn.ReLU(), d, 3, d)

    def forward(self, x):
        x = x + self.attention(self.n1(x))
        return x + self.mlp(self.n2(x))


def causal(t, value=float("-inf")):
    return torch.triu(torch.full((t, t), value), 1)


def tail(features, dim=None):
    return S(of(lambda x: x.mean(1)) if dim is None else of(lambda x: x[:, dim]), nn.Linear(features, 2))


class ClassToken(nn.Module):
    """A vision transformer with a class token and learnt positions."""

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(1, 4, 2, stride=2)
        self.token, self.position = nn.Parameter(torch.zeros(1, 1, 4)), nn.Parameter(0.02 * torch.randn(1, 5, 4))
        self.block, self.head = Block(), nn.Linear(4, 2)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
        return self.head(self.block(x)[:, 0])


class WindowAttention(nn.Module):
    """Shifted windows with a table of relative positions, as Swin has them."""

    def __init__(self, shift=1):
        super().__init__()
        self.shift, self.qkv, self.proj = shift, nn.Linear(4, 12), nn.Linear(4, 4)
        self.table = nn.Parameter(torch.randn(9, 1))
        at = torch.stack(torch.meshgrid(torch.arange(2), torch.arange(2), indexing="ij")).flatten(1)
        relative = (at[:, :, None] - at[:, None, :] + 1).permute(1, 2, 0)
        self.register_buffer("index", (relative[:, :, 0] * 3 + relative[:, :, 1]).flatten())

    def forward(self, x):
        b, h, w, d = x.shape
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        x = x.view(b, h // 2, 2, w // 2, 2, d).permute(0, 1, 3, 2, 4, 5).reshape(b * (h // 2) * (w // 2), 4, d)
        q, k, v = self.qkv(x).chunk(3, -1)
        bias = self.table[self.index].view(4, 4, 1).permute(2, 0, 1)
        a = q @ k.transpose(1, 2) * 0.5 + bias
        if self.shift:
            mask = x.new_zeros((h, w))
            count = 0
            for i in ((0, -2), (-2, -1), (-1, None)):
                for j in ((0, -2), (-2, -1), (-1, None)):
                    mask[i[0]:i[1], j[0]:j[1]] = count
                    count += 1
            mask = mask.view(h // 2, 2, w // 2, 2).permute(0, 2, 1, 3).reshape(-1, 4)
            mask = mask.unsqueeze(1) - mask.unsqueeze(2)
            mask = mask.masked_fill(mask != 0, -100.0).masked_fill(mask == 0, 0.0)
            n = (h // 2) * (w // 2)
            a = (a.view(b, n, 4, 4) + mask.unsqueeze(0)).view(-1, 4, 4)
        x = self.proj(torch.softmax(a, -1) @ v)
        x = x.view(b, h // 2, w // 2, 2, 2, d).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, d)
        return torch.roll(x, (self.shift, self.shift), (1, 2)) if self.shift else x


def sinusoidal(t, d):
    angle = torch.arange(t)[:, None] / 100 ** (torch.arange(0, d, 2) / d)
    return torch.stack([angle.sin(), angle.cos()], 2).flatten(1)


def rotary(x):
    t, d = x.shape[-2:]
    angle = torch.arange(t, dtype=x.dtype)[:, None] * 0.5 ** torch.arange(d // 2, dtype=x.dtype)
    a, b = x[..., : d // 2], x[..., d // 2:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


def attention(c):
    def add(name, module, shape=(3, 4), **k):
        c.add("attention-" + name, module, shape, **k)

    add("by-hand", S(Attention(), tail(4)))
    add("heads", S(Attention(heads=4), tail(4)))
    add("block", S(Block(), tail(4)))
    add("causal-buffer", S(Attention(mask=causal(3)), tail(4, -1)))
    add("causal-boolean", S(Attention(mask=torch.tril(torch.ones(3, 3)).bool()), tail(4, -1)))
    add("causal-made-in-forward", S(Fn(lambda m, x: attend(m.q(x).unsqueeze(1), m.k(x).unsqueeze(1), x.unsqueeze(1), torch.triu(torch.full((x.shape[1], x.shape[1]), float("-inf"), dtype=x.dtype), 1)),
                                       q=nn.Linear(4, 4), k=nn.Linear(4, 4)), tail(4, -1)), first=14)
    add("causal-tril-of-ones", S(Fn(lambda m, x: attend(m.q(x).unsqueeze(1), m.k(x).unsqueeze(1), x.unsqueeze(1), torch.tril(torch.ones(x.shape[1], x.shape[1])) != 0),
                                    q=nn.Linear(4, 4), k=nn.Linear(4, 4)), tail(4, -1)), first=14)
    add("large-negative-mask", S(Attention(mask=causal(3, -10000.0)), tail(4, -1)))
    add("additive-bias", S(Fn(lambda m, x: attend(x.unsqueeze(1), m.k(x).unsqueeze(1), x.unsqueeze(1), m.bias), k=nn.Linear(4, 4), bias=torch.randn(1, 3, 3)), tail(4)))
    add("alibi", S(Attention(mask=causal(3) - 0.5 * (torch.arange(3)[:, None] - torch.arange(3)).abs()), tail(4)))
    add("module", S(Fn(lambda m, x: m.a(x, x, x, need_weights=False)[0], a=nn.MultiheadAttention(4, 1, batch_first=True)), tail(4)))
    add("module-causal", S(Fn(lambda m, x: m.a(x, x, x, attn_mask=m.mask)[0], {"mask": causal(3)}, a=nn.MultiheadAttention(4, 1, batch_first=True)), tail(4)))
    add("encoder-layer", S(nn.TransformerEncoderLayer(4, 1, 3, layer_norm_eps=f32(1e-5), batch_first=True), tail(4)), mode=torch.onnx.TrainingMode.PRESERVE, float32=False)
    add("encoder-layer-pre-norm", S(nn.TransformerEncoderLayer(4, 1, 3, layer_norm_eps=f32(1e-5), batch_first=True, norm_first=True, activation="gelu"), tail(4)), float32=False)
    add("decoder-layer", S(Fn(lambda m, x: m.d(x[:, :1], x), d=nn.TransformerDecoderLayer(4, 1, 3, layer_norm_eps=f32(1e-5), batch_first=True)), tail(4)), float32=False)
    add("learnt-queries", Fn(lambda m, x: m.out(attend(m.q.expand(x.shape[0], -1, -1).unsqueeze(1), m.k(x).unsqueeze(1), x.unsqueeze(1)).flatten(1)),
                             q=torch.randn(1, 2, 4), k=nn.Linear(4, 4), out=nn.Linear(8, 2)))
    add("pooling", Fn(lambda m, x: m.out((torch.softmax(m.score(x), 1) * x).sum(1)), score=nn.Linear(4, 1), out=nn.Linear(4, 2)))
    add("multi-query", S(Fn(lambda m, x: attend(split_heads(m.q(x)), m.k(x).unsqueeze(1).expand(-1, 2, -1, -1), x[:, None, :, :2].expand(-1, 2, -1, -1)), q=nn.Linear(4, 4), k=nn.Linear(4, 2)), tail(4)), inexact="√2")
    add("linear", S(Fn(lambda m, x: F.elu(m.q(x)).add(1) @ (F.elu(m.k(x)).add(1).transpose(1, 2) @ x), q=nn.Linear(4, 4), k=nn.Linear(4, 4)), tail(4)))
    add("einsum", S(Fn(lambda m, x: torch.einsum("bhij,bjhd->bihd", torch.softmax(torch.einsum("bihd,bjhd->bhij", m.q(x).view(-1, 3, 2, 2), m.k(x).view(-1, 3, 2, 2)), -1), x.view(-1, 3, 2, 2)).flatten(2),
                       q=nn.Linear(4, 4), k=nn.Linear(4, 4)), tail(4)), first=12)
    add("rotary", S(Fn(lambda m, x: attend(rotary(m.q(x)).unsqueeze(1), rotary(m.k(x)).unsqueeze(1), x.unsqueeze(1)), q=nn.Linear(4, 4), k=nn.Linear(4, 4)), tail(4)), float32=False)
    add("scaled-by-sqrt-of-shape", S(Fn(lambda m, x: torch.softmax(m.q(x) @ m.k(x).transpose(1, 2) / torch.sqrt(torch.tensor(float(x.shape[-1]), dtype=x.dtype)), -1) @ x, q=nn.Linear(4, 4), k=nn.Linear(4, 4)), tail(4)))
    add("sinusoidal", S(nn.Linear(4, 4), Fn(lambda m, x: x + m.pe[:, : x.size(1)], {"pe": sinusoidal(5, 4)[None]}), Attention(), tail(4)), inexact="the encoding's digits")
    add("learnt-positions", S(nn.Linear(4, 4), Fn(lambda m, x: x + m.pe[:, : x.size(1)], pe=torch.randn(1, 3, 4)), Attention(), tail(4)))
    add("class-token", ClassToken(), (1, 4, 4))
    add("class-token-repeat", S(Fn(lambda m, x: torch.cat([m.token.repeat(x.shape[0], 1, 1), m.a(x)], 1), token=torch.randn(1, 1, 4), a=nn.Linear(4, 4)), Attention(), tail(4, 0)))
    add("windows", S(WindowAttention(0), of(lambda x: x.mean((1, 2))), nn.Linear(4, 2)), (4, 4, 4))
    add("shifted-windows", S(WindowAttention(1), of(lambda x: x.mean((1, 2))), nn.Linear(4, 2)), (4, 4, 4))
    add("relative-index", S(Fn(lambda m, x: torch.softmax(m.q(x) @ x.transpose(1, 2) + m.table[m.index], -1) @ x, {"index": torch.tensor([[2, 3, 4], [1, 2, 3], [0, 1, 2]])},
                               q=nn.Linear(4, 4), table=torch.randn(5)), tail(4)))


def ids(shape, count, seed=0):
    return torch.randint(0, count, (ROWS, *shape), generator=torch.Generator().manual_seed(seed))


class CausalTransformer(nn.Module):
    def __init__(self, tied=False):
        super().__init__()
        self.token, self.position = nn.Embedding(5, 4), nn.Embedding(3, 4)
        self.block, self.head = Block(mask=causal(3)), nn.Linear(4, 5, bias=False)
        if tied:
            self.head.weight = self.token.weight

    def forward(self, t):
        x = self.token(t) + self.position(torch.arange(t.shape[1], device=t.device))
        return self.head(self.block(x)[:, -1])[:, :2]


def tokens(c):
    t = ids((4,), 5)
    c.add("tokens-mean", S(nn.Embedding(5, 3), of(lambda x: x.mean(1)), nn.Linear(3, 2)), t)
    c.add("tokens-flat", S(nn.Embedding(5, 2), nn.Flatten(), nn.Linear(8, 2)), t)
    c.add("tokens-int32", S(nn.Embedding(5, 2), nn.Flatten(), nn.Linear(8, 2)), t.int())
    c.add("tokens-max", S(nn.Embedding(5, 3), of(lambda x: x.max(1)[0]), nn.Linear(3, 2)), t)
    c.add("tokens-bag-mean", S(nn.EmbeddingBag(5, 3, mode="mean"), nn.Linear(3, 2)), t)
    c.add("tokens-bag-sum", S(nn.EmbeddingBag(5, 3, mode="sum"), nn.Tanh(), nn.Linear(3, 2)), t)
    c.add("tokens-masked-mean", Fn(lambda m, t: m.out((m.e(t) * (t != 0).unsqueeze(2)).sum(1) / (t != 0).sum(1, keepdim=True).clamp(min=1)), e=nn.Embedding(5, 3), out=nn.Linear(3, 2)), t, first=12)
    c.add("tokens-padding", S(nn.Embedding(5, 3, padding_idx=0), of(lambda x: x.sum(1)), nn.Linear(3, 2)), t)
    c.add("tokens-padding-mask-attention", Fn(lambda m, t: m.out(attend(m.q(m.e(t)).unsqueeze(1), m.e(t).unsqueeze(1), m.e(t).unsqueeze(1), (t != 0)[:, None, None, :]).mean(1)),
                                              e=nn.Embedding(5, 4), q=nn.Linear(4, 4), out=nn.Linear(4, 2)), torch.cat([t[:, :3], t[:, :1] * 0 + 2], 1), first=12)
    c.add("tokens-one-hot", Fn(lambda m, t: m.out(F.one_hot(t, 5).to(m.out.weight.dtype).flatten(1)), out=nn.Linear(20, 2)), t)
    c.add("tokens-text-convolution", Fn(lambda m, t: m.out(F.relu(m.conv(m.e(t).transpose(1, 2))).max(2)[0]), e=nn.Embedding(5, 3), conv=nn.Conv1d(3, 4, 2), out=nn.Linear(4, 2)), t)
    c.add("tokens-causal-transformer", CausalTransformer(), t[:, :3])
    c.add("tokens-tied-embedding", CausalTransformer(tied=True), t[:, :3], blocks={"token.weight": "Full"})
    c.add("tokens-positions-embedded", Fn(lambda m, t: m.out((m.e(t) * m.p(torch.arange(t.size(1)))).sum(1)), e=nn.Embedding(5, 3), p=nn.Embedding(4, 3), out=nn.Linear(3, 2)), t)
    c.add("tokens-columns", Fn(lambda m, t: m.out(torch.cat([e(t[:, i]) for i, e in enumerate(m.e)], 1).tanh()), e=nn.ModuleList([nn.Embedding(5, 2), nn.Embedding(5, 3)]), out=nn.Linear(5, 2)), t[:, :2])
    c.add("tokens-offset-columns", Fn(lambda m, t: m.out(m.e(t + m.offset).flatten(1)), {"offset": torch.tensor([0, 5, 10])}, e=nn.Embedding(15, 2), out=nn.Linear(6, 2)), t[:, :3])
    c.add("tokens-among-numbers", Fn(lambda m, x: m.out(torch.cat([m.e(x[:, 0].long()), x[:, 1:]], 1).tanh()), e=nn.Embedding(5, 2), out=nn.Linear(4, 2)),
          torch.cat([t[:, :1].double(), torch.randn(ROWS, 2, generator=torch.Generator().manual_seed(1)).float().double()], 1))
    c.add("tokens-dot-product", Fn(lambda m, t: (m.user(t[:, 0]) * m.item(t[:, 1])).sum(1, keepdim=True) + m.ub(t[:, 0]) + m.ib(t[:, 1]),
                                   user=nn.Embedding(5, 3), item=nn.Embedding(5, 3), ub=nn.Embedding(5, 1), ib=nn.Embedding(5, 1)), t[:, :2])
    c.add("tokens-last-of-length", Fn(lambda m, t: m.out(m.e(t)[:, -1]), e=nn.Embedding(5, 3), out=nn.Linear(3, 2)), t)
    c.add("tokens-lstm", Fn(lambda m, t: m.out(m.r(m.e(t))[0][:, -1]), e=nn.Embedding(5, 2), r=nn.LSTM(2, 2, batch_first=True), out=nn.Linear(2, 2)), t)
    c.add("boolean-input", Fn(lambda m, b: m.out(torch.where(b, m.yes, m.no)), yes=torch.randn(3), no=torch.randn(3), out=nn.Linear(3, 2)), ids((3,), 2) == 1)


class Recurrent(nn.Module):
    def __init__(self, layer, take, features):
        super().__init__()
        self.layer, self.take, self.out = layer, take, nn.Linear(features, 2)

    def forward(self, x):
        return self.out(self.take(*self.layer(x)))


def recurrent(c):
    last, hidden = lambda y, h: y[:, -1], lambda y, h: (h[0] if isinstance(h, tuple) else h)[-1]
    for kind, layer in (("lstm", nn.LSTM), ("gru", nn.GRU), ("rnn", nn.RNN)):
        blocks = {f"layer.weight_{k}_l0": "Conv" for k in ("ih", "hh")}
        c.add(f"recurrent-{kind}-last", Recurrent(layer(2, 2, batch_first=True), last, 2), (3, 2))
        c.add(f"recurrent-{kind}-hidden", Recurrent(layer(2, 2, batch_first=True), hidden, 2), (3, 2))
        c.add(f"recurrent-{kind}-mean", Recurrent(layer(2, 2, batch_first=True, bias=False), lambda y, h: y.mean(1), 2), (3, 2))
        wide = 10 if kind == "rnn" else 8  # so that factors take less memory than columns
        c.add(f"recurrent-{kind}-wide", Recurrent(layer(wide, wide, batch_first=True), last, wide), (2, wide), blocks=blocks)
        c.add(f"recurrent-{kind}-both", Recurrent(layer(2, 1, batch_first=True, bidirectional=True), last, 2), (3, 2))
        c.add(f"recurrent-{kind}-both-hidden", Recurrent(layer(2, 1, batch_first=True, bidirectional=True), lambda y, h: torch.cat(tuple((h[0] if isinstance(h, tuple) else h)), 1), 2), (3, 2))
        c.add(f"recurrent-{kind}-two-layers", Recurrent(layer(2, 2, 2, batch_first=True, dropout=0.5), last, 2), (3, 2))
        c.add(f"recurrent-{kind}-both-unfolded", Recurrent(layer(2, 2, batch_first=True, bidirectional=True), last, 4), (3, 2), fold=False)
        c.add(f"recurrent-{kind}-two-layers-both", Recurrent(Fn(lambda m, x: m.r(x.transpose(0, 1)), r=layer(2, 1, 2, bidirectional=True)), lambda y, h: y[-1], 2), (3, 2))
        c.add(f"recurrent-{kind}-inside-transpose", Recurrent(Fn(lambda m, x: m.r(x.transpose(0, 1)), r=layer(2, 2)), lambda y, h: y[-1], 2), (3, 2))
    c.add("recurrent-rnn-relu", Recurrent(nn.RNN(2, 2, nonlinearity="relu", batch_first=True), last, 2), (3, 2))
    c.add("recurrent-lstm-learnt-start", Recurrent(Fn(lambda m, x: m.r(x, (m.h.expand(-1, x.shape[0], -1).contiguous(), m.c.expand(-1, x.shape[0], -1).contiguous())),
                                                      r=nn.LSTM(2, 2, batch_first=True), h=torch.randn(1, 1, 2), c=torch.randn(1, 1, 2)), last, 2), (3, 2))
    c.add("recurrent-gru-zero-start", Recurrent(Fn(lambda m, x: m.r(x, torch.zeros(1, x.size(0), 2, dtype=x.dtype)), r=nn.GRU(2, 2, batch_first=True)), last, 2), (3, 2))
    c.add("recurrent-gru-start-from-input", Recurrent(Fn(lambda m, x: m.r(x, torch.tanh(m.s(x[:, 0])).unsqueeze(0)), r=nn.GRU(2, 2, batch_first=True), s=nn.Linear(2, 2)), last, 2), (3, 2))
    c.add("recurrent-cells", Fn(lambda m, x: m.out(m.cell(x[:, 1], m.cell(x[:, 0]))), cell=nn.GRUCell(2, 2), out=nn.Linear(2, 2)), (2, 2))
    c.add("recurrent-lstm-after-convolution", Fn(lambda m, x: m.out(m.r(F.relu(m.conv(x)).transpose(1, 2))[0][:, -1]), conv=nn.Conv1d(2, 2, 2), r=nn.LSTM(2, 2, batch_first=True), out=nn.Linear(2, 2)), (2, 4))


def several(c):
    c.add("inputs-joined", Fn(lambda m, a, b: m.out(torch.cat([m.a(a), m.b(b)], 1).tanh()), a=nn.Linear(3, 2), b=nn.Linear(2, 2), out=nn.Linear(4, 2)), (3,), (2,))
    c.add("inputs-picture-and-row", Fn(lambda m, a, b: m.out(torch.cat([m.conv(a).relu().mean((2, 3)), b], 1)), conv=nn.Conv2d(1, 2, 2), out=nn.Linear(4, 2)), (1, 3, 3), (2,))
    c.add("inputs-tokens-and-row", Fn(lambda m, t, b: m.out(torch.cat([m.e(t).mean(1), b], 1).tanh()), e=nn.Embedding(5, 2), out=nn.Linear(4, 2)), ids((3,), 5), (2,))
    c.add("inputs-tokens-and-mask", Fn(lambda m, t, k: m.out((m.e(t) * k.unsqueeze(2)).sum(1) / k.sum(1, keepdim=True)), e=nn.Embedding(5, 3), out=nn.Linear(3, 2)),
          ids((3,), 5), torch.tensor([[1.0, 1, 0], [1, 0, 0], [1, 1, 1]]).double())
    c.add("inputs-product", Fn(lambda m, a, b: (m.a(a) * m.b(b)), a=nn.Linear(3, 2), b=nn.Linear(3, 2)), (3,), (3,))
    c.add("outputs-two", Fn(lambda m, x: (m.a(torch.tanh(m.enc(x))), m.b(torch.tanh(m.enc(x)))), enc=nn.Linear(3, 4), a=nn.Linear(4, 2), b=nn.Linear(4, 1)), (3,), outputs=["classes", "value"])
    c.add("outputs-hidden-too", Fn(lambda m, x: (m.out(torch.tanh(m.enc(x))), torch.tanh(m.enc(x))), enc=nn.Linear(3, 4), out=nn.Linear(4, 2)), (3,), outputs=["logits", "hidden"])


def structured(c):
    """Layers that are wide enough for a structured Block."""
    c.add("structured-dense", mlp(nn.Tanh(), 5, 6), (5,))
    c.add("structured-convolution", S(nn.Conv2d(4, 6, 3, padding=1), nn.Tanh(), nn.Flatten(), nn.Linear(24, 2)), (4, 2, 2))
    c.add("structured-convolution-groups", S(nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.Tanh(), nn.Flatten(), nn.Linear(16, 2)), (8, 1, 2))
    c.add("structured-transposed", S(nn.ConvTranspose2d(16, 3, (2, 1)), nn.Tanh(), nn.Flatten(), nn.Linear(6, 1)), (16, 1, 1))
    c.add("structured-positions", S(nn.Linear(12, 12), nn.Tanh(), tail(12)), (2, 12))
    c.add("structured-attention", S(Attention(12), tail(12)), (2, 12), inexact="√12")
    c.add("structured-embedding", S(nn.Embedding(40, 4), of(lambda x: x.mean(1)), nn.Linear(4, 2)), ids((2,), 40))
    for kind, layer in (("lstm", nn.LSTM), ("gru", nn.GRU), ("rnn", nn.RNN)):
        size = 16 if kind == "rnn" else 8
        c.add(f"structured-{kind}", Recurrent(layer(size, size, batch_first=True), lambda y, h: y[:, -1], size), (2, size),
              blocks={f"layer.weight_{k}_l0": "Conv" for k in ("ih", "hh")})
