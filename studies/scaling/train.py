"""Trains small networks whose inputs and targets are scaled outside of them, in the ways that people scale.

    train.py OUT FROM TO [all]      # seeds; FUNCGP_UCI and FUNCGP_DEFAULTS are folders of tables, whose last column is the target

With all, inputs are scaled by training and test rows together, as where a scaler is fitted before the rows are split. It
writes OUT/SEED.onnx, OUT/SEED.train.csv and OUT/SEED.test.csv in the units of the data, and OUT/SEED.json: how the network was
trained, and the flags of gpexplain that say so. Seeds that are there are left out.
"""

import csv
import json
import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)

TABLES = {
    "classes": ["uci/australian", "uci/banana", "uci/breast_cancer", "uci/glass", "uci/ionosphere", "uci/satellite", "uci/digits", "defaults/pima_bn.train", "defaults/sonar0.train", "defaults/vehicle0.train"],
    "numbers": ["defaults/boston0.train", "defaults/servo0.train"],
    "counts": ["defaults/phd0.train"],
}
INPUTS = ["raw", "sd", "sd1", "robust", "unit", "both", "255"]


def table(name, rng):
    folder, file = name.split("/")
    with open(os.path.join(os.environ["FUNCGP_" + folder.upper()], file + ".csv")) as f:
        rows = list(csv.reader(f))[1:]
    rows = [rows[i] for i in rng.permutation(len(rows))[: int(rng.integers(100, 700))]]
    x = np.array([[float(v) for v in row[:-1]] for row in rows])
    try:
        y = np.array([float(row[-1]) for row in rows])
    except ValueError:
        y = np.unique([row[-1] for row in rows], return_inverse=True)[1]
    return x, y


def made(rng, n, units):
    """Columns as tables have them, and a function of them for the targets."""
    d = int(rng.integers(2, 11))
    z = rng.normal(size=(n, d)) @ (np.eye(d) + rng.uniform(0, 0.6) * rng.normal(size=(d, d)) / np.sqrt(d))
    x = np.empty((n, d))
    for j in range(d):
        kind = rng.choice(["normal", "skew", "uniform", "whole", "yes"], p=[0.35, 0.25, 0.15, 0.15, 0.1])
        u = z[:, j]
        if kind == "skew":
            u = np.exp(rng.uniform(0.4, 1.1) * u)
        elif kind == "uniform":
            u = np.argsort(np.argsort(u)) / n
        elif kind == "whole":
            u = np.round(np.abs(3 * u))
        elif kind == "yes":
            u = (u > rng.uniform(-1, 1)).astype(float)
        if units and kind != "yes":
            u = rng.normal() * 10 ** rng.uniform(0, units) + 10 ** rng.uniform(-units, units) * u
        x[:, j] = u
    w, v = rng.normal(size=(d, 6)) / np.sqrt(d), rng.normal(size=(6, 5))
    s = (x - x.mean(0)) / np.where(x.std(0) > 0, x.std(0), 1)
    return x, 1.5 * np.tanh(1.5 * s @ w) @ v


def draw(seed):
    """A table: kind of target, inputs, targets."""
    rng = np.random.default_rng(seed)
    kind = str(rng.choice(["classes", "numbers", "counts"], p=[0.5, 0.35, 0.15]))
    scale = str(rng.choice(INPUTS))
    n = int(rng.integers(60, 500))
    if rng.random() < (0.4 if kind == "classes" else 0.2):
        name = str(rng.choice(TABLES[kind]))
        x, y = table(name, rng)
        if scale == "255" and name != "uci/satellite":
            scale = "sd"
    else:
        name = "made"
        x, g = made(rng, n, 0.5 if scale == "raw" else rng.choice([0, 0.5, 1.5]))
        if scale == "255":
            x = np.round(np.clip(127 + 60 * (x - x.mean(0)) / np.where(x.std(0) > 0, x.std(0), 1), 0, 255))
        if kind == "classes":
            k = int(rng.integers(2, 6))
            y = np.argmax(g[:, :k] * rng.uniform(0.5, 2) + rng.gumbel(size=(len(g), k)), 1)
        elif kind == "counts":
            y = rng.poisson(np.exp(np.clip(rng.uniform(0, 1.5) + 0.4 * g[:, 0], -3, 4))).astype(float)
        else:
            y = g[:, 0] + rng.uniform(0.05, 1) * rng.normal(size=len(g))
            y = rng.normal() * 10 ** rng.uniform(-1, 2) + 10 ** rng.uniform(-0.5, 2) * y / y.std()
            if rng.random() < 0.25:  # counts, by least squares
                y = rng.poisson(np.exp(np.clip(rng.uniform(0, 1.5) + 0.4 * g[:, 0], -3, 4))).astype(float)
    if kind == "classes":
        y = np.unique(y, return_inverse=True)[1].astype(float)
    p = rng.permutation(len(y))
    return rng, name, kind, scale, x[p], y[p]


def scaling(kind, x):
    """Means and deviations by which x is scaled; deviations of 0 are 1, as in scikit-learn."""
    if kind == "raw":
        mean, sd = np.zeros(x.shape[1]), np.ones(x.shape[1])
    elif kind in ("sd", "sd1"):
        mean, sd = x.mean(0), x.std(0, ddof=int(kind == "sd1"))
    elif kind == "robust":
        low, mean, high = np.percentile(x, [25, 50, 75], axis=0)
        sd = high - low
    elif kind == "unit":
        mean, sd = x.min(0), np.ptp(x, 0)
    elif kind == "both":
        mean, sd = (x.max(0) + x.min(0)) / 2, np.ptp(x, 0) / 2
    else:
        mean, sd = np.zeros(x.shape[1]), np.full(x.shape[1], 255.0)
    return mean, np.where(sd > 1e-12 * np.abs(x).max(0), sd, 1)


def network(rng, d, outputs):
    """An MLP, and how it is."""
    c = dict(depth=int(rng.choice([1, 2, 2])), width=int(rng.choice([10, 20, 50])), act=str(rng.choice(["ReLU", "ReLU", "Tanh", "ELU", "GELU"])), norm=bool(rng.random() < 0.2), dropout=float(rng.choice([0, 0, 0, 0.1, 0.3])))
    layers, i = [], d
    for _ in range(c["depth"]):
        layers.append(nn.Linear(i, c["width"]))
        i = c["width"]
        if c["norm"]:
            layers.append(nn.BatchNorm1d(i))
        layers.append(getattr(nn, c["act"])())
        if c["dropout"]:
            layers.append(nn.Dropout(c["dropout"]))
    return nn.Sequential(*layers, nn.Linear(i, outputs)), c


def measured(net, loss, x, t):
    net.eval()
    with torch.no_grad():
        return float(loss(net(x), t))


def training(rng, net, kind, x, t):
    """Trains as people do, and says how."""
    c = dict(opt=str(rng.choice(["Adam", "Adam", "Adam", "AdamW", "SGD"])), decay=float(rng.choice([0, 0, 1e-4, 1e-3, 1e-2])), rate=float(rng.choice([1e-3, 3e-3, 1e-2])), batch=int(rng.choice([16, 32, 64])), epochs=int(rng.choice([50, 100, 200])))
    one = net[-1].out_features == 1
    loss = {"numbers": nn.MSELoss(), "counts": nn.PoissonNLLLoss(), "classes": nn.BCEWithLogitsLoss() if one else nn.CrossEntropyLoss()}[kind]
    settings = dict(lr=c["rate"], weight_decay=c["decay"])
    if c["opt"] == "SGD":
        settings.update(momentum=0.9)
    optimizer = getattr(torch.optim, c["opt"])(net.parameters(), **settings)
    x = torch.tensor(x, dtype=torch.float32)
    t = torch.tensor(t) if kind == "classes" and not one else torch.tensor(t, dtype=torch.float32)[:, None]
    t = t.long() if kind == "classes" and not one else t
    c["epochs"] = max(c["epochs"], -(-400 // -(-len(x) // c["batch"])))
    for epoch in range(c["epochs"]):
        if epoch == 3 * c["epochs"] // 4:
            c["before"] = measured(net, loss, x, t)
        net.train()
        p = torch.as_tensor(rng.permutation(len(x)))
        for lo in range(0, len(p) - 1, c["batch"]):
            i = p[lo : lo + c["batch"]]
            if len(i) < 2:
                continue
            optimizer.zero_grad()
            loss(net(x[i]), t[i]).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 10.0)
            optimizer.step()
    c["loss"] = measured(net, loss, x, t)
    with torch.no_grad():
        constant = t.mean() if kind == "numbers" else t.mean().log() if kind == "counts" else None
        if constant is None:
            share = np.bincount(t.long().numpy().ravel()) / len(t)
            c["constant"] = float(-(share[share > 0] * np.log(share[share > 0])).sum())
        else:
            c["constant"] = float(loss(constant.expand_as(t), t))
    return c


def train(seed, together):
    """A network, training and test rows, and how it was trained; None where the training failed."""
    rng, name, kind, scale, x, y = draw(seed)
    if together and scale in ("raw", "255"):
        scale = "sd"
    every = x
    torch.manual_seed(seed)
    test = max(20, len(y) // 4)
    (xt, yt), (x, y) = (x[:test], y[:test]), (x[test:], y[test:])
    classes = len(np.unique(y))
    if classes < 2 or kind == "classes" and set(yt) - set(y):
        return None
    mean, sd = scaling(scale, every if together else x)
    target, m, s = "raw", 0.0, 1.0
    if kind == "numbers":
        target = str(rng.choice(["raw", "sd", "sd1"]))
        if target != "raw":
            m, s = y.mean(), y.std(ddof=int(target == "sd1"))
    outputs = classes if kind == "classes" and (classes > 2 or rng.random() < 0.5) else 1
    net, how = network(rng, x.shape[1], outputs)
    how.update(training(rng, net, kind, (x - mean) / sd, (y - m) / s))
    if not np.isfinite(how["loss"]) or how["loss"] > how["constant"]:
        return None
    how.update(seed=seed, table=name, kind=kind, inputs=scale + " of all" * together, targets=target, rows=len(y), outputs=outputs, sd=float(y.std()))
    flags = []
    if scale == "raw" and target == "raw":
        flags = ["--standardize", "no"]
    else:
        flags = ["--input-mean", ",".join(map(repr, mean.tolist())), "--input-sd", ",".join(map(repr, sd.tolist()))]
        if kind == "numbers":
            flags += ["--target-mean", repr(float(m)), "--target-sd", repr(float(s))]
    if kind == "counts":
        flags += ["--likelihood", "poisson"]
    how["flags"] = flags
    return net, (x, y), (xt, yt), how


def write(path, x, y):
    with open(path, "w") as f:
        f.write("".join("x%d," % j for j in range(x.shape[1])) + "y\n")
        for row, v in zip(x.tolist(), y.tolist()):
            f.write(",".join(map(repr, row)) + "," + (str(int(v)) if v.is_integer() else repr(v)) + "\n")


def main(out, first, last, together=False):
    os.makedirs(out, exist_ok=True)
    for seed in range(first, last):
        base = os.path.join(out, str(seed))
        if os.path.exists(base + ".json"):
            continue
        got = train(seed, together)
        how = None
        if got:
            net, rows, test, how = got
            torch.onnx.export(net, torch.zeros(2, rows[0].shape[1]), base + ".onnx", input_names=["x"], output_names=["f"], dynamic_axes={"x": {0: "n"}, "f": {0: "n"}})
            write(base + ".train.csv", *rows)
            write(base + ".test.csv", *test)
        with open(base + ".json", "w") as f:
            json.dump(how, f)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:] == ["all"])
