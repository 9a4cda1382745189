"""Networks whose outputs depend on other examples of the batch, which must be refused."""

import torch
from torch import nn

from cases_layers import S, mlp, of
from export import Fn


def mixing(c):
    def add(name, module, shape=(3,), **k):
        c.add("mixing-" + name, module, shape, refused=True, **k)

    add("batchnorm-in-training", mlp(nn.BatchNorm1d(4)), training=True)
    add("centred", mlp(of(lambda x: x - x.mean(0))))
    add("standardized", mlp(of(lambda x: (x - x.mean(0)) / (x.std(0) + 0.5))))
    add("softmax", S(mlp(nn.Tanh()), of(lambda x: torch.softmax(x, 0) * 2)))
    add("gram", S(nn.Linear(3, 4), of(lambda x: x @ x.t() @ x), nn.Linear(4, 2)))
    add("cumulative", mlp(of(lambda x: torch.cumsum(x, 0))))
    add("flipped", mlp(of(lambda x: x.flip(0))))
    add("rolled", mlp(of(lambda x: x + x.roll(1, 0))))
    add("divided-by-norm", mlp(of(lambda x: x / x.norm(dim=0, keepdim=True))))
    add("largest", mlp(of(lambda x: x / x.abs().max())))
    add("number-of-examples", mlp(of(lambda x: x / x.size(0))))
    add("first-example", mlp(of(lambda x: x - x[:1])))
    add("time-first", Fn(lambda m, x: m.out(m.r(x)[0]), r=nn.LSTM(3, 2), out=nn.Linear(2, 2)), (2, 3))
    add("attention-over-examples", S(nn.Linear(3, 4), Fn(lambda m, x: m.a(x, x, x)[0], a=nn.MultiheadAttention(4, 1)), nn.Linear(4, 2)), (2, 3))
    add("instance-norm-of-examples", mlp(of(lambda x: torch.instance_norm(x.unsqueeze(0).transpose(1, 2), None, None, None, None, True, 0.1, 1e-5, False).transpose(1, 2).squeeze(0))))
    add("halves-swapped", mlp(of(lambda x: torch.cat([x[1:], x[:1]], 0))))
