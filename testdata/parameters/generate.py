"""Writes small ONNX files whose stored tensors are parameters, buffers or literals, and
expected.json with those that PyTorch counts as parameters and that influence the output.
Run with PyTorch 1.13 and onnx 1.12: python3 generate.py

Every network is exported twice, with constant folding and without ("-unfolded"). Folding
renames, transposes and combines weights: instead of a parameter that is not in the file,
the tensors count that change when it does.
"""
import io
import json
import math
import os
import warnings

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, prune, spectral_norm, weight_norm

warnings.filterwarnings("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))


def sinusoids(n, d, base=10000.0):
    pe = torch.zeros(n, d)
    at = torch.arange(n).float().unsqueeze(1)
    div = torch.exp(torch.arange(0, d, 2).float() * (-math.log(base) / d))
    pe[:, 0::2], pe[:, 1::2] = torch.sin(at * div), torch.cos(at * div)
    return pe


class Attention(nn.Module):
    def __init__(self, d, mask=None, name="mask"):
        super().__init__()
        self.qkv, self.name = nn.Linear(d, 3 * d), name
        if mask is not None:
            self.register_buffer(name, mask)
        self.has = mask is not None

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        a = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
        if self.has:
            a = a + getattr(self, self.name)
        return x + F.softmax(a, dim=-1) @ v


class Tokens(nn.Module):
    """Tokens of 3 numbers, to which something is added after the first layer."""

    def __init__(self, add, n=6, d=8, mask=None, name="mask", slice_to=None):
        super().__init__()
        self.embed, self.add, self.attention, self.head = nn.Linear(3, d), add, Attention(d, mask, name), nn.Linear(d, 2)

    def forward(self, x):
        return self.head(self.attention(self.add(self.embed(x))).mean(1))


class Added(nn.Module):
    def __init__(self, name, table, learnt, n=None):
        super().__init__()
        self.name, self.n = name, n
        if learnt:
            self.register_parameter(name, nn.Parameter(table))
        else:
            self.register_buffer(name, table)

    def forward(self, x):
        t = getattr(self, self.name)
        return x + (t if self.n is None else t[:, :self.n])


class PositionTable(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.position_embeddings = nn.Embedding(n, d)
        self.register_buffer("position_ids", torch.arange(n).unsqueeze(0))

    def forward(self, x):
        return x + self.position_embeddings(self.position_ids[:, :x.shape[1]])


class ClassToken(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.cls_token, self.pos_embed = nn.Parameter(torch.randn(1, 1, d)), nn.Parameter(0.02 * torch.randn(1, n + 1, d))

    def forward(self, x):
        return torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1) + self.pos_embed


class MaskedAutoencoderPositions(nn.Module):
    """Sines and cosines of rows and columns, after a class token, as masked autoencoders have them."""

    def __init__(self, h, w, d):
        super().__init__()
        ys, xs = torch.meshgrid(torch.arange(h).float(), torch.arange(w).float(), indexing="ij")
        div = 1.0 / 10000 ** (torch.arange(d // 4).float() / (d / 4))
        parts = [f(c.reshape(-1, 1) * div) for c in (ys, xs) for f in (torch.sin, torch.cos)]
        table = torch.cat([torch.zeros(1, d), torch.cat(parts, 1)], 0)
        self.cls_token, self.pos_embed = nn.Parameter(torch.randn(1, 1, d)), nn.Parameter(table.unsqueeze(0), requires_grad=False)

    def forward(self, x):
        return torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1) + self.pos_embed


class Residual(nn.Module):
    def __init__(self, kind, d=5):
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(4, d), nn.Linear(d, d), nn.Linear(d, 2)
        if kind == "layer scale":
            self.gamma = nn.Parameter(0.1 + 0.01 * torch.randn(d))
        elif kind == "untrained layer scale":
            self.gamma = nn.Parameter(1e-4 * torch.ones(d))
        else:
            self.alpha = nn.Parameter(torch.tensor(0.3))
        self.kind = kind

    def forward(self, x):
        h = self.first(x)
        g = self.gamma if "layer" in self.kind else self.alpha
        return self.last(torch.tanh(h + g * torch.tanh(self.inner(h))))


class Cosines(nn.Module):
    """Cosines of an embedding with those of classes, by a learnt temperature."""

    def __init__(self):
        super().__init__()
        self.image, self.text_features = nn.Linear(4, 6), nn.Parameter(torch.randn(6, 3))
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, x):
        z = self.image(x)
        z = z / z.norm(dim=-1, keepdim=True)
        t = self.text_features / self.text_features.norm(dim=0, keepdim=True)
        return self.logit_scale.exp() * (z @ t)


class Scaled(nn.Module):
    """Input and target scales as buffers."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
        for name, v in {"mean": torch.randn(3), "std": 1 + torch.rand(3), "target_mean": torch.randn(2), "target_std": 1 + torch.rand(2)}.items():
            self.register_buffer(name, v)

    def forward(self, x):
        return self.net((x - self.mean) / self.std) * self.target_std + self.target_mean


class ScalarScaled(Scaled):
    def __init__(self):
        super().__init__()
        self.mean, self.std, self.target_mean, self.target_std = (torch.tensor(v) for v in (0.3, 2.5, 7.0, 3.0))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias, self.out = nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.randn(3)), nn.Parameter(torch.randn(4))

    def forward(self, x):
        return torch.tanh(F.linear(x, self.weight, self.bias)) @ self.weight + self.out


class Half(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(3, 4).half()), nn.Parameter(torch.randn(3).half())
        self.last = nn.Linear(3, 2)

    def forward(self, x):
        return self.last(torch.tanh(F.linear(x, self.weight.float(), self.bias.float())))


class CoordConv(nn.Module):
    def __init__(self):
        super().__init__()
        ys, xs = torch.meshgrid(torch.linspace(-1, 1, 6), torch.linspace(-1, 1, 5), indexing="ij")
        self.register_buffer("xy", torch.stack([xs, ys])[None])
        self.conv, self.head = nn.Conv2d(3, 4, 3), nn.Linear(4 * 4 * 3, 2)

    def forward(self, x):
        x = torch.cat([x, self.xy.expand(x.shape[0], -1, -1, -1)], 1)
        return self.head(torch.tanh(self.conv(x)).flatten(1))


class WindowAttention(nn.Module):
    """Relative positions of a window, as Swin has them."""

    def __init__(self, w=2, d=6):
        super().__init__()
        self.embed, self.qk, self.head, self.n = nn.Linear(3, d), nn.Linear(d, 2 * d), nn.Linear(d, 2), w * w
        self.relative_position_bias_table = nn.Parameter(torch.randn((2 * w - 1) ** 2, 1))
        c = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")).flatten(1)
        r = (c[:, :, None] - c[:, None, :]).permute(1, 2, 0) + w - 1
        self.register_buffer("relative_position_index", r[..., 0] * (2 * w - 1) + r[..., 1])
        mask = torch.zeros(w * w, w * w)
        mask[:2, 2:], mask[2:, :2] = -100.0, -100.0
        self.register_buffer("attn_mask", mask[None])

    def forward(self, x):
        h = self.embed(x)
        q, k = self.qk(h).chunk(2, -1)
        b = self.relative_position_bias_table[self.relative_position_index.view(-1)].view(self.n, self.n)
        return self.head((F.softmax(q @ k.transpose(1, 2) + b + self.attn_mask, -1) @ h).mean(1))


class RMSNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.scale = nn.Parameter(1 + 1e-3 * torch.randn(d))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale


class Gated(nn.Module):
    """A mask of 0 and 1 by which features are multiplied."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 2)
        self.register_buffer("keep", torch.tensor([1.0, 0, 1, 1, 0, 1]))

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)) * self.keep)


class Frequencies(nn.Module):
    """Sines of geometrically falling frequencies of one number."""

    def __init__(self):
        super().__init__()
        self.register_buffer("f", 10000.0 ** (-torch.arange(12).float() / 12))
        self.lift, self.last = nn.Linear(2, 1), nn.Linear(24, 2)

    def forward(self, x):
        a = self.lift(x) * self.f
        return self.last(torch.cat([torch.sigmoid(a), torch.tanh(a)], -1))


class TiedTokens(nn.Module):
    """One matrix that reads tokens and writes them: folding stores its transpose too."""

    def __init__(self):
        super().__init__()
        self.weight, self.inner = nn.Parameter(torch.randn(5, 3)), nn.Parameter(torch.randn(5, 5))

    def forward(self, x):
        h = torch.tanh(F.linear(x, self.weight))
        return ((h + torch.tanh(h @ self.inner)) @ self.weight).mean(1)


def closure():
    """A network of plain tensors: tracing stores them in Constant nodes."""
    w1, b1, w2, b2 = torch.randn(5, 3), torch.randn(5), torch.randn(2, 5), torch.randn(2)
    m = nn.Module()
    m.tensors = {"w1": w1, "b1": b1, "w2": w2, "b2": b2}
    m.forward = lambda x: F.linear(torch.tanh(F.linear(x, w1, b1)), w2, b2) * torch.tensor([1.0])
    return m


def trained(m, steps=3):
    """Some steps of training, so that statistics and power iterations have moved."""
    m.train()
    opt = torch.optim.SGD([p for p in m.parameters() if p.requires_grad], 0.05)
    for _ in range(steps):
        opt.zero_grad()
        m(m.example(16)).pow(2).mean().backward()
        opt.step()
    return m.eval()


def mlp(*layers):
    return nn.Sequential(*layers)


def cases():
    tokens, inf = (6, 3), float("-inf")
    causal = torch.triu(torch.full((6, 6), inf), 1)
    yield "sinusoidal", Tokens(Added("pe", sinusoids(6, 8)[None], False)), tokens
    yield "sinusoidal-cut", Tokens(Added("pe", sinusoids(32, 8)[None], False, 6)), tokens
    yield "sinusoidal-any-name", Tokens(Added("table", 0.5 * sinusoids(6, 8, 100.0)[None], False)), tokens
    yield "sinusoidal-2d", Tokens(MaskedAutoencoderPositions(4, 4, 8), n=17), (16, 3)
    yield "learnt-positions", Tokens(Added("pos_embedding", 0.02 * torch.randn(1, 6, 8), True)), tokens
    yield "learnt-positions-cut", Tokens(Added("pos", 0.02 * torch.randn(1, 9, 8), True, 6)), tokens
    yield "learnt-named-pe", Tokens(Added("pe", 0.02 * torch.randn(1, 6, 8), True)), tokens
    yield "untrained-positions", Tokens(Added("pos", torch.zeros(1, 6, 8), True)), tokens
    yield "position-table", Tokens(PositionTable(6, 8)), tokens
    yield "class-token", Tokens(ClassToken(6, 8)), tokens
    yield "spectral-norm", mlp(spectral_norm(nn.Linear(4, 6)), nn.Tanh(), nn.Linear(6, 2)), (4,)
    yield "spectral-parametrization", mlp(parametrizations.spectral_norm(nn.Linear(4, 6)), nn.Tanh(), nn.Linear(6, 2)), (4,)
    yield "spectral-conv", mlp(spectral_norm(nn.Conv2d(2, 3, 3)), nn.Tanh(), nn.Flatten(), nn.Linear(27, 2)), (2, 5, 5)
    yield "weight-norm", mlp(weight_norm(nn.Linear(4, 6)), nn.Tanh(), nn.Linear(6, 2)), (4,)
    yield "layer-scale", Residual("layer scale"), (4,)
    yield "layer-scale-untrained", Residual("untrained layer scale"), (4,)
    yield "rezero", Residual("rezero"), (4,)
    yield "logit-scale", Cosines(), (4,)
    yield "scales", Scaled(), (3,)
    yield "scalar-scales", ScalarScaled(), (3,)
    yield "constant-nodes", closure(), (3,)
    yield "batch-norm", mlp(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(27, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2)), (1, 5, 5)
    yield "tied", Tied(), (4,)
    yield "half", Half(), (4,)
    yield "coordconv", CoordConv(), (1, 6, 5)
    yield "mask-large", Tokens(nn.Identity(), mask=causal.clamp(min=-1e9), name="bias_of_future"), tokens
    yield "mask-infinite", Tokens(nn.Identity(), mask=causal), tokens
    yield "mask-of-ones", Gated(), (4,)
    yield "window", WindowAttention(), (4, 3)
    pruned = mlp(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
    prune.l1_unstructured(pruned[0], "weight", 0.5)
    yield "pruned", pruned, (4,)
    yield "rms-norm", mlp(nn.Linear(4, 12), RMSNorm(12), nn.Tanh(), nn.Linear(12, 2)), (4,)
    yield "frequencies", Frequencies(), (2,)
    yield "tied-tokens", TiedTokens(), (4, 3)


def influential(m, shape):
    """The parameters whose gradient is not zero."""
    m.zero_grad()
    m(torch.randn(8, *shape)).pow(2).sum().backward()
    return {n: p for n, p in m.named_parameters() if p.grad is not None and p.grad.abs().max() > 0}


def into_nodes(model):
    """Moves every floating point initializer to a Constant node, as some exporters store weights."""
    out = onnx.ModelProto()
    out.CopyFrom(model)
    del out.graph.node[:], out.graph.initializer[:]
    for t in model.graph.initializer:
        value = onnx.TensorProto()
        value.CopyFrom(t)
        out.graph.node.append(onnx.helper.make_node("Constant", [], [t.name], value=value, name="store_" + t.name))
    out.graph.node.extend(model.graph.node)
    return out


def stored(model):
    """The floating point tensors in a file, by name."""
    out = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    for n in model.graph.node:
        if n.op_type == "Constant" and n.attribute[0].type == onnx.AttributeProto.TENSOR:
            out[n.output[0]] = numpy_helper.to_array(n.attribute[0].t)
    return {n: v for n, v in out.items() if v.dtype.kind == "f"}


def export(m, shape, fold):
    b = io.BytesIO()
    torch.onnx.export(m, torch.ones(2, *shape), b, opset_version=14, do_constant_folding=fold, input_names=["x"], output_names=["f"], dynamic_axes={"x": {0: "n"}, "f": {0: "n"}})
    return onnx.load_from_string(b.getvalue())


def main():
    torch.manual_seed(1)
    expected = []

    def write(case, model, names):
        path = os.path.join(HERE, case + ".onnx")
        onnx.save(model, path)
        expected.append({"case": case, "parameters": names})
        print(case, os.path.getsize(path), names)

    for name, m, shape in cases():
        m.example = lambda n, shape=shape: torch.randn(n, *shape)
        params = influential(trained(m, 0 if "untrained" in name else 3), shape) if list(m.parameters()) else m.tensors
        for fold in (True, False):
            before = export(m, shape, fold)
            numbers, names = stored(before), set()
            for own, p in params.items():
                kept = p.detach().clone()
                with torch.no_grad():
                    p += 0.1
                    after = stored(export(m, shape, fold))
                    p.copy_(kept)
                # Folding may leave, instead of a parameter or beside it, tensors made of it.
                changed = {n for n, v in numbers.items() if not np.array_equal(v, after[n])}
                names |= {own} if own in changed else changed
            write(name + ("" if fold else "-unfolded"), before, sorted(names))
            if fold and name in ("batch-norm", "layer-scale", "sinusoidal", "scales", "half", "learnt-positions"):
                write(name + "-in-nodes", into_nodes(before), sorted(names))
    with open(os.path.join(HERE, "expected.json"), "w") as f:
        f.write("[\n" + ",\n".join("  " + json.dumps(e) for e in expected) + "\n]\n")


main()
