#!/usr/bin/python3
"""Networks exported by PyTorch that write into tensors: by index, by slice, by mask, into a
cache, and by scattering with and without a sum, in opsets 11 to 17.

    cd testdata/writes && /usr/bin/python3 generate.py

writes them with f and its Jacobian by each parameter in float64. The weights have few bits,
so that float32, in which they are exported, holds them.
"""
import json
import warnings

import torch
from torch import nn

warnings.filterwarnings("ignore")
torch.manual_seed(0)
torch.set_num_threads(1)


def linear(a, b):
    layer = nn.Linear(a, b)
    for p in layer.parameters():
        p.data = torch.round(p.data * 64) / 64 + 1 / 64
    return layer


class Net(nn.Module):
    def __init__(self, hidden=6):
        super().__init__()
        self.a, self.b = linear(6, hidden), linear(hidden, 2)

    def forward(self, x):
        return self.b(self.write(torch.tanh(self.a(x)), x))


class Columns(Net):  # x[:, idx] = …
    def write(self, h, x):
        h = h.clone()
        h[:, torch.tensor([0, 2, 5])] = x[:, :3] * h[:, 1:2]
        return h


class Slices(Net):  # x[:, a:b] = …, twice
    def write(self, h, x):
        out = torch.zeros_like(h)
        out[:, 1:4] = h[:, :3]
        out[:, ::2] = out[:, ::2] + h[:, 3:]
        return out


class Masked(Net):  # masked_fill
    def write(self, h, x):
        return h.masked_fill(x > 0.25, -0.5)


class MaskAssigned(Net):  # x[mask] = number
    def write(self, h, x):
        h = h.clone()
        h[h < 0] = 0.125
        return h


class Where(Net):  # a write through torch.where, with a triangular mask
    def write(self, h, x):
        m = torch.tril(torch.ones(6, 6)).bool().to(h.device)
        s = h.unsqueeze(2) * h.unsqueeze(1)
        return torch.where(m, s, torch.full_like(s, -2.0)).sum(2)


class Scatter(Net):  # scatter by an index that is in the graph
    def write(self, h, x):
        i = torch.tensor([[3, 0, 5]]).expand(h.shape[0], 3)
        return h.scatter(1, i, h[:, :3] * 2)


class ScatterAdd(Net):  # scatter with a sum, in which two writes meet
    def write(self, h, x):
        i = torch.zeros_like(h).long() + torch.tensor([1, 1, 4, 0, 4, 4])
        return h.scatter_add(1, i, h * x)


class ScatterData(Net):  # scatter to where the inputs say, which is refused
    def write(self, h, x):
        return h.scatter(1, (x[:, :1] > 0).long() + 2, h[:, 4:5])


class PutAccumulate(Net):  # index_put with a sum into rows of the batch, which is refused
    def write(self, h, x):
        s = torch.einsum("ni,nj->nij", h, h)
        out = torch.zeros_like(s)
        out = out.index_put((torch.arange(2), torch.tensor([1, 1]), torch.tensor([0, 0])), h[:2, 0], accumulate=True)
        return (s + out).sum(2)


class PutColumns(Net):  # index_put along the second axis, after einsum
    def write(self, h, x):
        s = torch.einsum("ni,nj->nij", h, x)
        s[:, torch.tensor([0, 4])] = h.unsqueeze(1).expand(-1, 2, -1)  # the exporter does not broadcast
        return s.sum(2)


class Cache(Net):  # keys and values written to places of a cache, then read by attention
    def __init__(self):
        super().__init__(4)
        self.k, self.v, self.q = linear(2, 2), linear(2, 2), linear(2, 2)
        self.register_buffer("keys", torch.arange(10.0).reshape(1, 5, 2) / 16)
        self.register_buffer("values", torch.arange(10.0).reshape(1, 5, 2) / 8 - 0.5)

    def forward(self, x):
        tokens = x.reshape(-1, 2)  # so that the exporter keeps the layers' names

        def per_token(layer):
            return layer(tokens).reshape(-1, 3, 2)

        keys = self.keys.expand(x.shape[0], 5, 2).clone()
        values = self.values.expand(x.shape[0], 5, 2).clone()
        keys[:, 2:5] = per_token(self.k)
        values[:, 2:5] = per_token(self.v)
        a = torch.softmax(torch.einsum("nqd,nkd->nqk", per_token(self.q), keys), -1)
        y = torch.einsum("nqk,nkd->nqd", a, values)[:, 1:].reshape(-1, 4)
        return self.b(y)


class Last(Net):  # one place of a cache of each row
    def write(self, h, x):
        c = torch.zeros(h.shape[0], 3, 6, dtype=h.dtype)
        c[:, 1] = h
        c[:, -1] = h * x
        return c.sum(1)


cases = [Columns, Slices, Masked, MaskAssigned, Where, Scatter, ScatterAdd, ScatterData, PutAccumulate, PutColumns, Cache, Last]
out = {}
for number, case in enumerate(cases):
    torch.manual_seed(number)
    net = case().eval()
    x = torch.round(torch.randn(2, 6) * 16) / 16
    files = []
    # Before opset 16 the exporter loses all but one of the terms of a sum.
    for opset in {ScatterAdd: (16, 17), ScatterData: (17,), PutAccumulate: (17,)}.get(case, (11, 13, 17)):
        file = "%s-%d.onnx" % (case.__name__.lower(), opset)
        try:
            torch.onnx.export(net, (x,), file, opset_version=opset, input_names=["x"], output_names=["f"], dynamic_axes={"x": {0: "n"}, "f": {0: "n"}})
            files.append(file)
        except Exception as e:
            print(file, "is not exported:", str(e).split("\n")[0][:150])
    net, x = net.double(), x.double()
    names = [n for n, _ in net.named_parameters()]
    values = tuple(p.detach() for p in net.parameters())

    def run(*p):
        was = [q.data for q in net.parameters()]
        state = dict(zip(names, p))
        return torch.nn.utils.stateless.functional_call(net, state, (x,))

    f = net(x)
    jac = torch.autograd.functional.jacobian(run, values)
    out[case.__name__.lower()] = {"files": files, "x": x.tolist(), "f": f.tolist(),
                                  "jacobian": {n: j.reshape(*f.shape, -1).tolist() for n, j in zip(names, jac)}}
with open("reference.json", "w") as file:
    json.dump(out, file)
