"""Trains the three LeNet-5 of "Networks that are less sure" on all of MNIST, and writes them as ONNX.

    python3 lenets.py DIR    # DIR holds the four .gz files of MNIST; half a minute each with CUDA

Trained once with PyTorch 2.11 on an H200. Other machines and versions give other networks of about that accuracy.
"""

import gzip
import math
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"


def read(name):
    data = gzip.open(f"{sys.argv[1]}/{name}-ubyte.gz").read()
    return torch.from_numpy(np.frombuffer(data, np.uint8, offset=16 if "idx3" in name else 8).copy()).to(device)


x, y = read("train-images-idx3").view(-1, 1, 28, 28) / 255, read("train-labels-idx1").long()
xt, yt = read("t10k-images-idx3").view(-1, 1, 28, 28) / 255, read("t10k-labels-idx1").long()


def lenet(padding, dropout=0.0):
    return nn.Sequential(
        *(
            nn.Conv2d(1, 6, 5, padding=padding),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ),
        *(nn.Flatten(), nn.Linear(16 * (25 if padding else 16), 120), nn.ReLU(), nn.Dropout(dropout)),
        *(nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
    ).to(device)


def moved(b):
    """The pictures, shifted by up to two pixels, turned by up to 10 degrees and scaled by up to a tenth."""
    shift, turn, scale = (torch.rand(len(b), n, device=device) - 0.5 for n in (2, 1, 1))
    shift, turn, scale = shift * 4 / 14, turn * math.pi / 9, 1 + scale * 0.2
    rows = torch.cat(
        [scale * turn.cos(), -scale * turn.sin(), shift[:, :1], scale * turn.sin(), scale * turn.cos(), shift[:, 1:]], 1
    )
    return F.grid_sample(b, F.affine_grid(rows.view(-1, 2, 3), b.shape, align_corners=False), align_corners=False)


def train(name, net, optimizer, epochs, batch, top=None, augment=False):
    torch.manual_seed(1)
    steps = epochs * (len(x) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, top, total_steps=steps) if top else None
    for _ in range(epochs):
        net.train()
        order = torch.randperm(len(x), device=device)
        for i in range(0, len(x) - batch + 1, batch):
            b = x[order[i : i + batch]]
            optimizer.zero_grad()
            F.cross_entropy(net(moved(b) if augment else b), y[order[i : i + batch]]).backward()
            optimizer.step()
            if schedule:
                schedule.step()
    net.eval()
    with torch.no_grad():
        print(name, "test accuracy", (net(xt).argmax(1) == yt).double().mean().item())
    names = dict(input_names=["x"], output_names=["logits"], dynamic_axes={"x": {0: "n"}, "logits": {0: "n"}})
    torch.onnx.export(net.cpu(), torch.zeros(1, 1, 28, 28), f"{name}.onnx", dynamo=False, **names)


torch.manual_seed(0)
net = lenet(2)
train("adam", net, torch.optim.Adam(net.parameters(), 1e-3), 14, 64)
net = lenet(2)
train("sgd", net, torch.optim.SGD(net.parameters(), 0.02, momentum=0.9, weight_decay=5e-4), 20, 128, 0.1)
net = lenet(0, 0.25)
train("augment", net, torch.optim.AdamW(net.parameters(), 2e-3, weight_decay=1e-2), 30, 256, 4e-3, True)
