"""Indexing, reshaping and masks; reductions; products."""

import torch
from torch import nn
from torch.nn import functional as F

from cases_layers import S, mlp, of
from export import Fn


def shapes(c):
    def add(name, function, features, shape=(2, 3), **k):
        """function turns N×3×4 into features numbers an example."""
        c.add("shape-" + name, S(nn.Linear(shape[-1], 4), nn.Tanh(), of(function), nn.Flatten(), nn.Linear(features, 2)), shape, **k)

    add("view-by-size", lambda x: x.view(x.size(0), -1), 8)
    add("view-minus-one", lambda x: x.reshape(-1, 8), 8)
    add("permute", lambda x: x.permute(0, 2, 1), 8)
    add("transpose-split", lambda x: x.view(x.shape[0], 2, 2, 2).transpose(1, 2).contiguous(), 8)
    add("chunk", lambda x: torch.cat([a * b for a, b in [x.chunk(2, -1)]], 1), 4)
    add("split", lambda x: x.split([1, 3], -1)[1] * x.split([1, 3], -1)[0], 6)
    add("unbind-stack", lambda x: torch.stack(x.unbind(1)[::-1], 2), 8)
    add("flip", lambda x: x.flip(1) + x, 8)
    add("roll", lambda x: x.roll(1, -1) * x, 8)
    add("narrow", lambda x: x.narrow(2, 1, 2), 4)
    add("slice-steps", lambda x: x[:, :, ::2] - x[..., 1::2], 4)
    add("first-token", lambda x: x[:, 0], 4)
    add("last-token", lambda x: x[:, -1, :], 4)
    add("repeat", lambda x: x.repeat(1, 2, 1), 16)
    add("expand", lambda x: x.mean(1, keepdim=True).expand(-1, 3, -1), 12)
    add("expand-as", lambda x: x[:, :1].expand_as(x) * x, 8)
    add("repeat-interleave", lambda x: x.repeat_interleave(2, dim=1), 16, first=13)
    add("index-list", lambda x: x[:, :, [3, 0, 0]], 6)
    add("index-two-lists", lambda x: x[:, [0, 1, 1], [3, 0, 2]], 3)
    add("index-select", lambda x: x.index_select(2, torch.tensor([2, 0])), 4)
    add("gather", lambda x: x.gather(2, torch.tensor([[[2, 0], [1, 1]]]).expand(x.shape[0], -1, -1)), 4)
    add("masked-select-constant", lambda x: x[:, :, torch.tensor([True, False, True, True])], 6)
    add("pad", lambda x: F.pad(x, (1, 0, 0, 1), value=0.5), 15)
    add("pad-reflect", lambda x: F.pad(x, (2, 1), mode="reflect"), 14)
    add("pad-negative", lambda x: F.pad(x, (-1, 1)), 8)
    add("triu", lambda x: torch.triu(x), 8, first=14)
    add("tril-of-product", lambda x: torch.tril(x.transpose(1, 2) @ x), 16, first=14)
    add("tril-constant", lambda x: x * torch.tril(torch.ones(2, 4, dtype=x.dtype)), 8, first=14)
    add("where-constant", lambda x: torch.where(torch.tensor([True, False, False, True]), x, -0.5 * x), 8)
    add("masked-fill", lambda x: x.masked_fill(torch.tensor([True, False, False, True]), 0.25), 8)
    add("zeros-like", lambda x: torch.cat([torch.zeros_like(x), torch.ones_like(x[:, :1]), x], 1), 20)
    add("new-zeros", lambda x: torch.cat([x, x.new_zeros(x.shape[0], 1, 4)], 1), 12)
    add("full-by-size", lambda x: torch.cat([x, torch.full((x.size(0), 2, 1), 0.5, dtype=x.dtype)], 2), 10)
    add("arange-positions", lambda x: x + 0.125 * torch.arange(x.size(1), dtype=x.dtype).view(1, -1, 1), 8)
    add("linspace", lambda x: x * torch.linspace(0, 1, 4, dtype=x.dtype), 8, inexact="1/3")
    add("index-put", lambda x: put(x), 8)
    add("slice-put", lambda x: put_slice(x), 8)
    add("scatter", lambda x: torch.zeros(x.shape[0], 2, 6, dtype=x.dtype).scatter(2, torch.tensor([0, 2, 3, 5]).expand(x.shape[0], 2, 4), x), 12)
    add("diagonal-matrix", lambda x: x.unsqueeze(2) * torch.eye(4, dtype=x.dtype), 32)
    add("diagonal", lambda x: torch.diagonal(x.transpose(1, 2) @ x, dim1=1, dim2=2), 4, first=13)
    add("unfold", lambda x: x.unfold(2, 2, 1), 12)
    add("im2col", lambda x: F.unfold(x.unsqueeze(1), (2, 2)), 12)
    add("movedim-swap", lambda x: torch.movedim(x, 2, 1).squeeze(-1).unsqueeze(-1), 8)
    add("one-hot-constant", lambda x: x @ F.one_hot(torch.tensor([1, 0, 2, 1]), 3).to(x.dtype), 6)
    add("cat-of-three", lambda x: torch.cat((x, x * x, x[:, :, :1]), -1), 18)
    add("halves-rotated", lambda x: torch.cat((-x[..., x.shape[-1] // 2:], x[..., : x.shape[-1] // 2]), -1), 8)
    add("cumulative-sum", lambda x: x.cumsum(1), 8)
    add("top-positions", lambda x: x.topk(2, dim=2)[0], 4)
    add("sort", lambda x: x.sort(dim=2)[0], 8)


def put(x):
    y = x.clone()
    y[:, 0, [1, 3]] = 0.5
    return y * x


def put_slice(x):
    y = x.clone()
    y[:, :, 1:3] = x[:, :, :2] * 2
    return y


def reductions(c):
    def add(name, function, features, **k):
        c.add("reduce-" + name, S(nn.Linear(3, 4), nn.Tanh(), of(function), nn.Flatten(), nn.Linear(features, 2)), (2, 3), **k)

    add("mean", lambda x: x.mean(1), 4)
    add("sum", lambda x: x.sum(-1), 2)
    add("sum-two-axes", lambda x: x.sum((1, 2)).unsqueeze(1), 1)
    add("max", lambda x: x.max(dim=1)[0], 4)
    add("min", lambda x: x.min(dim=2)[0], 2)
    add("amax-amin", lambda x: x.amax(1) - x.amin(1), 4)
    add("prod", lambda x: x.prod(1), 4)
    add("norm-one", lambda x: x.norm(p=1, dim=2), 2)
    add("norm-two", lambda x: x.norm(dim=2), 2)
    add("frobenius", lambda x: torch.linalg.norm(x, dim=(1, 2)).unsqueeze(1), 1)
    add("logsumexp", lambda x: torch.logsumexp(x, 1), 4)
    add("log-sum", lambda x: torch.log((x * x).sum(1)), 4)
    add("sum-of-squares", lambda x: (x**2).sum(2), 2)
    add("variance", lambda x: x.var(1, unbiased=False), 4)
    add("deviation", lambda x: x.std(2), 2)
    add("median-of-three-by-sorting", lambda x: torch.maximum(torch.minimum(x[:, 0], x[:, 1]), 0.5 * x[:, 0]), 4, first=12)
    add("softmax-pooling", lambda x: (torch.softmax(x, 1) * x).sum(1), 4)


def products(c):
    c.add("product-bmm", Fn(lambda m, x: m.out((m.a(x) @ m.b(x).transpose(1, 2)).flatten(1)), a=nn.Linear(3, 2), b=nn.Linear(3, 2), out=nn.Linear(4, 2)), (2, 3))
    c.add("product-einsum-pairs", Fn(lambda m, x: m.out(torch.einsum("bij,bkj->bik", m.a(x), m.b(x)).flatten(1)), a=nn.Linear(3, 2), b=nn.Linear(3, 2), out=nn.Linear(4, 2)), (2, 3), first=12)
    c.add("product-einsum-weight", Fn(lambda m, x: torch.einsum("btd,do->bo", torch.tanh(m.a(x)), m.w), a=nn.Linear(3, 4), w=torch.randn(4, 2)), (2, 3), first=12)
    c.add("product-einsum-heads", Fn(lambda m, x: torch.einsum("bti,hij->bhj", torch.tanh(m.a(x)), m.w).flatten(1), a=nn.Linear(3, 4), w=torch.randn(2, 4, 1)), (2, 3), first=12)
    c.add("product-einsum-diagonal", Fn(lambda m, x: m.out(torch.einsum("bii->bi", m.a(x))), a=nn.Linear(3, 3), out=nn.Linear(3, 2)), (3, 3), first=12)
    c.add("product-outer", Fn(lambda m, x: m.out((m.a(x).unsqueeze(2) * m.b(x).unsqueeze(1)).flatten(1)), a=nn.Linear(3, 2), b=nn.Linear(3, 2), out=nn.Linear(4, 2)), (3,))
    c.add("product-weight-on-the-left", Fn(lambda m, x: m.out(torch.tanh(torch.matmul(m.w, x)).flatten(1)), w=torch.randn(2, 2), out=nn.Linear(6, 2)), (2, 3))
    c.add("product-per-position-weights", Fn(lambda m, x: m.out(torch.tanh((x.unsqueeze(2) @ m.w).squeeze(2)).flatten(1)), w=torch.randn(2, 3, 2), out=nn.Linear(4, 2)), (2, 3))
    c.add("product-mixer", Fn(lambda m, x: m.out((x + m.tokens(x.transpose(1, 2)).transpose(1, 2) + m.channels(x)).mean(1)),
                              tokens=mlp(nn.ReLU(), 2, 3, 2), channels=mlp(nn.ReLU(), 3, 3, 3), out=nn.Linear(3, 2)), (2, 3))
    c.add("product-quadratic", Fn(lambda m, x: torch.einsum("bi,ij,bj->b", x, m.w, x).unsqueeze(1), w=torch.randn(3, 3)), (3,), first=12)
    c.add("product-baddbmm", Fn(lambda m, x: m.out(torch.baddbmm(m.a(x)[:, :, :2], m.a(x), m.b(x).transpose(1, 2)).flatten(1)), a=nn.Linear(3, 3), b=nn.Linear(3, 3), out=nn.Linear(4, 2)), (2, 3))
    c.add("product-addmm", Fn(lambda m, x: torch.addmm(m.b, torch.tanh(m.a(x)), m.w), a=nn.Linear(3, 4), w=torch.randn(4, 2), b=torch.randn(2)), (3,))
    c.add("product-kronecker", Fn(lambda m, x: (m.u.t() @ torch.tanh(x @ m.v)).flatten(1), u=torch.randn(2, 1), v=torch.randn(3, 2)), (2, 3), fold=False)
