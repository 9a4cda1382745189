#!/usr/bin/python3
"""Networks exported by PyTorch whose weights are in other files, whose layers are
functions of the model, that decide by a shape, and that have several inputs and outputs.

    cd testdata/files && /usr/bin/python3 generate.py

writes them with f and its Jacobian by each parameter in float64. Numbers of attributes,
which ONNX stores as float32, are powers of two.
"""
import json
import os
import warnings

import onnx
import torch
from torch import nn

warnings.filterwarnings("ignore")
torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, d, slope):
        super().__init__()
        self.norm = nn.LayerNorm(d, eps=2**-10)
        nn.init.normal_(self.norm.weight)  # an export stores equal tensors once
        nn.init.normal_(self.norm.bias)
        self.fc = nn.Linear(d, d)
        self.act = nn.LeakyReLU(slope)

    def forward(self, x):
        return x + self.act(self.fc(self.norm(x)))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = Block(4, 0.125), Block(4, 0.25), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.b(self.a(x)))


class Decides(nn.Module):
    def __init__(self):
        super().__init__()
        self.four, self.other = nn.Linear(4, 3), nn.Linear(4, 2)

    def forward(self, x):
        if x.shape[1] == 4:
            y = self.four(x)
        else:
            y = self.other(x)
        return torch.tanh(y)


class Several(nn.Module):
    def __init__(self):
        super().__init__()
        self.x, self.picture, self.mean, self.spread = nn.Linear(4, 3), nn.Conv2d(1, 2, 2), nn.Linear(5, 1), nn.Linear(5, 2)

    def forward(self, x, picture):
        h = torch.tanh(torch.cat([self.x(x), self.picture(picture).amax((2, 3))], 1))
        return self.mean(h), self.spread(h)


def export(net, inputs, file, outputs=("f",), **more):
    names = ["x", "picture"][: len(inputs)]
    axes = {n: {0: "n"} for n in [*names, *outputs]}
    torch.onnx.export(net, tuple(inputs), file, opset_version=15, input_names=names, output_names=list(outputs), dynamic_axes=axes, **more)


def reference(net, inputs, output=None):
    """Rows of inputs, f N×C, and J by the names of parameters, each N×C×its elements."""
    def run():
        y = net(*inputs)
        return y if output is None else y[output]
    f = run()
    jacobian = {}
    for name, p in net.named_parameters():
        rows = []
        for n in range(f.shape[0]):
            rows.append([])
            for c in range(f.shape[1]):
                g = torch.autograd.grad(run()[n, c], p, allow_unused=True)[0]
                rows[n].append((torch.zeros_like(p) if g is None else g).flatten().tolist())
        jacobian[name] = rows
    x = torch.cat([v.flatten(1) for v in inputs], 1)
    return {"x": x.tolist(), "f": f.tolist(), "jacobian": jacobian}


x = torch.randn(3, 4, dtype=torch.float64)
picture = torch.randn(3, 1, 4, 4, dtype=torch.float64)
net = Residual().double().eval()
out = {"residual": reference(net, [x])}
export(net, [x], "functions.onnx", export_modules_as_functions={Block})
export(net, [x], "whole.onnx")
for name in os.listdir("."):
    if name.endswith(".data") or os.path.isdir(name):
        for inner in os.listdir(name) if os.path.isdir(name) else []:
            os.remove(os.path.join(name, inner))
        if not os.path.isdir(name):
            os.remove(name)
m = onnx.load("whole.onnx")
for i, node in enumerate(m.graph.node):  # constants have no name, and would be in files of random names
    for a in node.attribute:
        if a.HasField("t"):
            a.t.name = "constant-%d" % i
onnx.save_model(m, "one-file.onnx", save_as_external_data=True, location="one-file.data", size_threshold=0)
os.makedirs("many", exist_ok=True)
m = onnx.load("whole.onnx")
for i, node in enumerate(m.graph.node):
    for a in node.attribute:
        if a.HasField("t"):
            a.t.name = "constant-%d" % i
onnx.save_model(m, "many/files.onnx", save_as_external_data=True, all_tensors_to_one_file=False, size_threshold=0, convert_attribute=True)
os.remove("whole.onnx")

net = Decides().double().eval()
out["decides"] = reference(net, [x])
export(torch.jit.script(net), [x], "decides.onnx")

net = Several().double().eval()
out["mean"], out["spread"] = reference(net, [x, picture], 0), reference(net, [x, picture], 1)
export(net, [x, picture], "several.onnx", ("mean", "spread"))

with open("reference.json", "w") as f:
    json.dump(out, f)
