"""Rows to train the zoo on: MNIST, a UCI table, and two made-up sets of tokens."""

import csv
import gzip
import os

import numpy as np
import torch


def pictures(where, part, count, labels, size):
    """The first count digits of these labels, averaged to size×size pixels from 0 to 1."""
    read = lambda kind, skip: np.frombuffer(gzip.open(os.path.join(where, "mnist", f"{part}-{kind}.gz")).read(), np.uint8, offset=skip)
    x, y = read("images-idx3-ubyte", 16).reshape(-1, 28, 28), read("labels-idx1-ubyte", 8)
    keep = np.flatnonzero(np.isin(y, labels))[:count]
    x = torch.tensor(x[keep] / 255.0)[:, None]
    x = torch.nn.functional.adaptive_avg_pool2d(x, size)
    return x.float().double(), torch.tensor(np.searchsorted(labels, y[keep]))


def digits(where, rng, train=80, test=30, labels=(0, 1, 2, 3), size=14, shape=None, clean=False):
    """Digits by class; clean: noisy pictures, whose targets are the pictures without noise."""
    parts = []
    for part, count in (("train", train), ("t10k", test)):
        x, y = pictures(where, part, count, labels, size)
        if clean:
            y = x.flatten(1)
            x = (x + 0.3 * torch.tensor(rng.standard_normal(x.shape))).float().double()
        parts.append(([x.reshape(len(x), *shape) if shape else x], y))
    return parts


def table(where, rng, train=150, test=40, cut=None, name="breast_cancer"):
    """Rows of a UCI table, standardized; cut: the column where the second input begins."""
    with open(os.path.join(where, "uci", name + ".csv")) as f:
        rows = list(csv.reader(f))[1:]
    rows = np.array(rows)[rng.permutation(len(rows))]
    x, y = rows[:, :-1].astype(float), np.unique(rows[:, -1], return_inverse=True)[1]
    x = torch.tensor((x - x[:train].mean(0)) / np.maximum(x[:train].std(0), 1e-3)).float().double()
    y = torch.tensor(y)
    inputs = [x] if cut is None else [x[:, :cut], x[:, cut:]]
    part = lambda lo, hi: ([v[lo:hi] for v in inputs], y[lo:hi])
    return part(0, train), part(train, train + test)


def tokens(where, rng, train=120, test=30, length=10, words=12):
    """Sequences of tokens; the class is which of the words 1, 2 and 3 comes last."""
    x = rng.integers(4, words, (train + test, length))
    y = rng.integers(0, 3, train + test)
    for i in range(len(x)):
        x[i, np.sort(rng.choice(length, 3, False))] = [1 + (y[i] + 1) % 3, 1 + (y[i] + 2) % 3, 1 + y[i]]
    x, y = torch.tensor(x), torch.tensor(y)
    return ([x[:train]], y[:train]), ([x[train:]], y[train:])


def items(where, rng, train=150, test=40, users=20, things=30, history=5):
    """Histories of things and one more of them; whether the user of those tastes likes it."""
    taste, thing = rng.standard_normal((users, 3)), rng.standard_normal((things, 3))
    n = train + test
    user = rng.integers(0, users, n)
    likes = np.argsort(-(taste @ thing.T) + 0.5 * rng.standard_normal((users, things)), 1)
    seen = np.stack([rng.choice(likes[u, :12], history, False) for u in user])
    other = rng.integers(0, things, (n, 1))
    y = ((taste[user] * thing[other[:, 0]]).sum(1) + 0.3 * rng.standard_normal(n) > 0).astype(np.int64)
    x, y = torch.tensor(np.concatenate([seen, other], 1)), torch.tensor(y)
    return ([x[:train]], y[:train]), ([x[train:]], y[train:])
