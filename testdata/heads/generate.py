"""Exports small networks that end with every function that a likelihood may apply.

Each variant is NAME.onnx, in float64; expected.json holds the inputs and what PyTorch
computes, in float64. Run it in this folder with PyTorch 1.13 (Debian's python3-torch):
python3 generate.py
"""

import json
import os
import warnings
import zlib

import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)
warnings.filterwarnings("ignore")

ROWS, INPUTS = 24, 3


class Net(nn.Module):
    """An MLP and what follows it."""

    def __init__(self, outputs, head):
        super().__init__()
        self.hidden, self.out = nn.Linear(INPUTS, 4), nn.Linear(4, outputs)
        self.head = head

    def forward(self, x):
        return self.head(self.out(torch.tanh(self.hidden(x))))


def pair(a, b):
    return torch.cat([a, b], 1)


def by_hand(f):
    e = torch.exp(f)
    return e / e.sum(1, keepdim=True)


def by_hand_max(f):
    e = torch.exp(f - f.max(1, keepdim=True)[0])
    return e / e.sum(1, keepdim=True)


def by_hand_log(f):
    return f - torch.log(torch.exp(f).sum(1, keepdim=True))


def by_hand_log_max(f):
    z = f - torch.amax(f, 1, keepdim=True)
    return z - torch.log(torch.exp(z).sum(1, keepdim=True))


def clipped_pair(f):
    p = torch.sigmoid(f).clamp(1e-6, 1 - 1e-6)
    return pair(1 - p, p)


S = torch.sigmoid
EPS = 1e-7

# name: (outputs of the last layer, what they mean, function, opset)
# what: probability, logprobability, rate, lograte, logit, number
VARIANTS = {
    # a Sigmoid of one output
    "sigmoid": (1, "probability", S, 13),
    "sigmoid-opset9": (1, "probability", S, 9),
    "sigmoid-opset17": (1, "probability", S, 17),
    "sigmoid-squeeze": (1, "probability", lambda f: S(f).squeeze(1), 13),
    "sigmoid-before-squeeze": (1, "probability", lambda f: S(f.squeeze(1)), 13),
    "sigmoid-unsqueeze": (1, "probability", lambda f: S(f).unsqueeze(2), 13),
    "sigmoid-reshape": (1, "probability", lambda f: S(f).reshape(-1, 1, 1), 13),
    "sigmoid-view": (1, "probability", lambda f: S(f).view(f.size(0), -1), 13),
    "sigmoid-flatten": (1, "probability", lambda f: torch.flatten(S(f), 1), 13),
    "sigmoid-cast": (1, "probability", lambda f: S(f).float().double(), 13),
    "sigmoid-clip": (1, "probability", lambda f: S(f).clamp(0, 1), 13),
    "sigmoid-clip-below": (1, "probability", lambda f: S(f).clamp(min=EPS), 13),
    "sigmoid-clip-eps": (1, "probability", lambda f: S(f).clamp(EPS, 1 - EPS), 13),
    "sigmoid-clip-eps-opset9": (1, "probability", lambda f: S(f).clamp(EPS, 1 - EPS), 9),
    "sigmoid-clip-wide": (1, "probability", lambda f: S(f).clamp(0.3, 0.7), 13),
    "sigmoid-by-hand": (1, "probability", lambda f: 1 / (1 + torch.exp(-f)), 13),
    "sigmoid-by-hand-reciprocal": (1, "probability", lambda f: torch.reciprocal(torch.exp(-f) + 1), 13),
    "sigmoid-by-hand-ratio": (1, "probability", lambda f: torch.exp(f) / (1 + torch.exp(f)), 13),
    "sigmoid-by-hand-squeeze": (1, "probability", lambda f: (1.0 / (1.0 + torch.exp(-f.squeeze(-1)))).squeeze(), 13),
    "sigmoid-by-tanh": (1, "probability", lambda f: 0.5 * (1 + torch.tanh(f / 2)), 13),
    "sigmoid-temperature": (1, "probability", lambda f: S(f / 0.7), 13),
    "sigmoid-labels": (3, "probabilities", S, 13),
    "sigmoid-scaled": (1, "number", lambda f: 2 * S(f) + 1, 13),
    "sigmoid-log": (1, "logprobability", lambda f: F.logsigmoid(f), 13),
    # two classes by a Sigmoid
    "pair": (1, "probability", lambda f: pair(1 - S(f), S(f)), 13),
    "pair-once": (1, "probability", lambda f: (lambda p: pair(1 - p, p))(S(f)), 13),
    "pair-swapped": (1, "probability", lambda f: (lambda p: pair(p, 1 - p))(S(f)), 13),
    "pair-stack": (1, "probability", lambda f: (lambda p: torch.stack([1 - p, p], 1))(S(f).squeeze(1)), 13),
    "pair-negated": (1, "probability", lambda f: pair(S(-f), S(f)), 13),
    "pair-by-hand": (1, "probability", lambda f: (lambda p: pair(1 - p, p))(1 / (1 + torch.exp(-f))), 13),
    "pair-clip": (1, "probability", clipped_pair, 13),
    "pair-plus": (1, "probability", lambda f: (lambda p: pair(-p + 1, p))(S(f)), 13),
    "pair-log": (1, "logprobability", lambda f: (lambda p: torch.log(pair(1 - p, p)))(S(f)), 13),
    # a Softmax
    "softmax": (3, "probability", lambda f: f.softmax(1), 13),
    "softmax-last": (3, "probability", lambda f: f.softmax(-1), 17),
    "softmax-opset11": (3, "probability", lambda f: f.softmax(1), 11),
    "softmax-two": (2, "probability", lambda f: f.softmax(1), 13),
    "softmax-reshape": (3, "probability", lambda f: f.softmax(1).reshape(-1, 3, 1), 13),
    "softmax-pixels": (3, "probability", lambda f: f[:, :, None, None].softmax(1).flatten(1), 13),
    "softmax-clip": (3, "probability", lambda f: f.softmax(1).clamp(EPS, 1), 13),
    "softmax-max": (3, "probability", lambda f: (f - f.max(1, keepdim=True)[0]).softmax(1), 13),
    "softmax-by-hand": (3, "probability", by_hand, 13),
    "softmax-by-hand-max": (3, "probability", by_hand_max, 13),
    "softmax-by-hand-max-opset16": (3, "probability", by_hand_max, 16),
    "softmax-by-hand-expand": (3, "probability", lambda f: (lambda e: e / e.sum(1, keepdim=True).expand_as(e))(torch.exp(f)), 13),
    "softmax-by-hand-unsqueeze": (3, "probability", lambda f: (lambda e: e / e.sum(1).unsqueeze(1))(torch.exp(f)), 13),
    "softmax-of-logsoftmax": (3, "probability", lambda f: f.log_softmax(1).exp(), 13),
    "softmax-min": (3, "probability", lambda f: (-f).softmax(1), 13),
    "softmax-epsilon": (3, "probability", lambda f: (lambda e: e / (e.sum(1, keepdim=True) + 1e-9))(torch.exp(f)), 13),
    "softmax-transposed": (3, "probability", lambda f: f[:, None].transpose(1, 2).softmax(1).transpose(1, 2), 13),
    "squares": (3, "probability", lambda f: f * f / (f * f).sum(1, keepdim=True), 13),
    "softmax-positions": (6, "positions", lambda f: f.reshape(-1, 2, 3).softmax(2), 13),
    "softmax-positions-flat": (6, "positions", lambda f: f.reshape(-1, 2, 3).softmax(2).flatten(1), 13),
    "softmax-other-axis": (6, "positions", lambda f: f.reshape(-1, 2, 3).softmax(1), 13),
    "softmax-by-hand-positions": (6, "positions", lambda f: (lambda e: e / e.sum(2, keepdim=True))(torch.exp(f.reshape(-1, 2, 3))), 13),
    "softmax-examples": (3, "mixed", lambda f: f.softmax(0), 13),
    "softmax-by-hand-examples": (3, "mixed", lambda f: (lambda e: e / e.sum(0, keepdim=True))(torch.exp(f)), 13),
    # a LogSoftmax
    "logsoftmax": (3, "logprobability", lambda f: f.log_softmax(1), 13),
    "logsoftmax-opset11": (3, "logprobability", lambda f: f.log_softmax(1), 11),
    "logsoftmax-by-hand": (3, "logprobability", by_hand_log, 13),
    "logsoftmax-by-hand-max": (3, "logprobability", by_hand_log_max, 13),
    "logsoftmax-logsumexp": (3, "logprobability", lambda f: f - torch.logsumexp(f, 1, keepdim=True), 13),
    "logsoftmax-of-softmax": (3, "logprobability", lambda f: torch.log(f.softmax(1)), 13),
    "logsoftmax-of-softmax-clip": (3, "logprobability", lambda f: torch.log(f.softmax(1).clamp(min=1e-9)), 13),
    "logsoftmax-positions": (6, "positions", lambda f: f.reshape(-1, 2, 3).log_softmax(2), 13),
    # rates
    "exp": (1, "rate", torch.exp, 13),
    "exp-two": (2, "rate", torch.exp, 13),
    "exp-squeeze": (1, "rate", lambda f: torch.exp(f).squeeze(1), 13),
    "exp-clip": (1, "rate", lambda f: torch.exp(f).clamp(1e-8, 1e8), 13),
    "softplus": (1, "rate", F.softplus, 13),
    "softplus-by-hand": (1, "rate", lambda f: torch.log(1 + torch.exp(f)), 13),
    "softplus-shifted": (1, "rate", lambda f: F.softplus(f) + 1e-4, 13),
    # none
    "none-one": (1, "logit", lambda f: f, 13),
    "none-three": (3, "logit", lambda f: f, 13),
    "identity": (3, "logit", nn.Identity(), 13),
}


def main():
    torch.manual_seed(1)
    x = torch.randn(ROWS, INPUTS, dtype=torch.float64)
    expected = {"x": x.tolist(), "variants": {}}
    for name, (outputs, means, head, opset) in VARIANTS.items():
        torch.manual_seed(zlib.crc32(name.split("-")[0].encode()) + outputs)
        net = Net(outputs, head).double().eval()
        for p in net.parameters():
            p.data *= 2
        f = net.out(torch.tanh(net.hidden(x))).detach()
        y = net(x).detach()
        names = {"input_names": ["x"], "output_names": ["f"], "dynamic_axes": {"x": {0: "n"}, "f": {0: "n"}}}
        torch.onnx.export(net, x[:2], name + ".onnx", opset_version=opset, **names)
        expected["variants"][name] = {"means": means, "f": f.tolist(), "y": y.reshape(ROWS, -1).tolist()}
    with open("expected.json", "w") as file:
        json.dump(expected, file)
        file.write("\n")


if __name__ == "__main__":
    main()
