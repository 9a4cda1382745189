"""Trains small networks the way PyTorch is used every day and exports them.

Every case is a folder with model.onnx, data files and expected.json, which holds
PyTorch's own numbers. Run it in this folder with PyTorch 1.13 (Debian's
python3-torch, python3-pil, python3-onnx): python3 generate.py [CASE ...]
"""

import gzip
import json
import math
import os
import random
import struct
import sys
import zlib

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFilter
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)


# ---------------------------------------------------------------- networks


class Normalize(nn.Module):
    """Standardizes inputs inside the network, with constants in buffers."""

    def __init__(self, mean, sd, shape=None):
        super().__init__()
        mean, sd = torch.tensor(mean, dtype=torch.float32), torch.tensor(sd, dtype=torch.float32)
        self.register_buffer("mean", mean.reshape(shape or mean.shape))
        self.register_buffer("sd", sd.reshape(shape or sd.shape))

    def forward(self, x):
        return (x - self.mean) / self.sd


class Denormalize(nn.Module):
    """Brings standardized outputs back to the units of the targets."""

    def __init__(self, mean, sd):
        super().__init__()
        self.register_buffer("mean", torch.tensor([mean], dtype=torch.float32))
        self.register_buffer("sd", torch.tensor([sd], dtype=torch.float32))

    def forward(self, f):
        return f * self.sd + self.mean


class Scale(nn.Module):
    """A learnt scale of each input, before the first layer."""

    def __init__(self, d):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return x * self.scale


def mlp(*widths, activation=nn.Tanh):
    layers = []
    for i in range(len(widths) - 1):
        layers.append(nn.Linear(widths[i], widths[i + 1]))
        if i < len(widths) - 2:
            layers.append(activation())
    return layers


def convnet(channels, size, classes):
    after = (size - 3) // 2 + 1
    return [nn.Conv2d(channels, 6, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(6 * after * after, classes)]


def seed(case):
    """Makes everything that follows depend on the name of the case alone."""
    s = zlib.crc32(case.encode())
    torch.manual_seed(s)
    random.seed(s)
    return np.random.default_rng(s)


# ---------------------------------------------------------------- training

LOSS = {
    "categorical": lambda f, y: F.cross_entropy(f, y),
    "bernoulli": lambda f, y: F.binary_cross_entropy_with_logits(f, columns(y, f)),
    "gaussian": lambda f, y: F.mse_loss(f, y),
}


def columns(y, f):
    """Labels 0 and 1 as numbers, N×C, of one output or several."""
    return y.to(f.dtype).reshape(f.shape)


def train(net, x, y, likelihood, weight_decay, steps=6000, rate=0.05):
    """Full-batch SGD on the mean loss with weight decay, in float64, and L-BFGS on
    the same objective to its end; the weights are then rounded to float32, as an
    ordinary export has them."""
    net.double()
    opt = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9, weight_decay=weight_decay)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=2 * rate, total_steps=steps, cycle_momentum=False)
    for _ in range(steps):
        opt.zero_grad()
        LOSS[likelihood](net(x), y).backward()
        opt.step()
        sched.step()
    end = torch.optim.LBFGS(net.parameters(), max_iter=3000, tolerance_grad=1e-9, tolerance_change=0, history_size=50, line_search_fn="strong_wolfe")

    def objective():
        end.zero_grad()
        v = LOSS[likelihood](net(x), y) + 0.5 * weight_decay * sum((p**2).sum() for p in net.parameters())
        v.backward()
        return v

    end.step(objective)
    return net.float()


# ---------------------------------------------------------------- numbers


def nll(likelihood, f, y, noise):
    """Negative log likelihood of each row, in the network's units."""
    if likelihood == "categorical":
        return F.cross_entropy(f, y, reduction="none")
    if likelihood == "bernoulli":
        return F.binary_cross_entropy_with_logits(f, columns(y, f), reduction="none").sum(1)
    return (0.5 * (y - f) ** 2 / noise + 0.5 * math.log(2 * math.pi * noise)).sum(1)


def accuracy(likelihood, f, y):
    guess = f.argmax(1) if likelihood == "categorical" else (f > 0).long().reshape(y.shape)
    return (guess == y).double().mean().item()


def jacobian(net, x):
    """Derivatives of the outputs by the parameters, N·C×P."""
    params, rows = list(net.parameters()), []
    for f in net(x):
        for out in f:
            g = torch.autograd.grad(out, params, retain_graph=True)
            rows.append(torch.cat([v.reshape(-1) for v in g]))
    return torch.stack(rows)


def curvature(likelihood, f, noise):
    """Λ of each row, N×C×C."""
    c = f.shape[1]
    if likelihood == "categorical":
        p = f.softmax(1)
        return torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    if likelihood == "bernoulli":
        p = f.sigmoid()
        return torch.diag_embed(p * (1 - p))
    return (torch.eye(c, dtype=f.dtype) / noise).expand(len(f), c, c)


def numbers(net, case, x, y, xt):
    """What PyTorch says in float64: scores, the gradient of the objective at the
    weights, the Laplace posterior's variance of the outputs, its evidence. Scores
    and outputs come back to the user's units with the target's scaling."""
    lik, delta, noise = case["likelihood"], case["prior_precision"], case.get("noise_variance_network")
    mean, sd = (torch.tensor(case.get(k, v), dtype=torch.float64) for k, v in (("target_mean", 0.0), ("target_sd", 1.0)))
    net = net.double()
    f, ft = net(x).detach(), net(xt).detach()
    params = list(net.parameters())
    theta = torch.cat([v.detach().reshape(-1) for v in params])
    total = nll(lik, net(x), y, noise).sum()
    grad = torch.cat([v.reshape(-1) for v in torch.autograd.grad(total, params)]) + delta * theta
    jac = jacobian(net, x)
    lam = curvature(lik, f, noise)
    n, c = f.shape
    unit = (sd * torch.ones(c, dtype=f.dtype)).log().sum().item()  # the log density of one row in the units of the data is less by this
    rows = jac.reshape(n, c, -1)
    h = torch.einsum("ncp,ncd,ndq->pq", rows, lam, rows) + delta * torch.eye(len(theta), dtype=f.dtype)
    chol = torch.linalg.cholesky(h)
    jt = jacobian(net, xt)
    half = torch.linalg.solve_triangular(chol, jt.T, upper=False)
    var = (half**2).sum(0).reshape(len(xt), c)
    log_det = 2 * chol.diagonal().log().sum() - len(theta) * math.log(delta)
    out = {
        "parameters": len(theta),
        "train_loss": LOSS[lik](f, y).item(),
        "train_nll": total.item() / n + (unit if lik == "gaussian" else 0),
        "gradient_norm": grad.norm().item(),
        "scatter": (delta * theta @ theta).item(),
        "log_evidence": (-total - 0.5 * delta * theta @ theta - 0.5 * log_det).item() - (n * unit if lik == "gaussian" else 0),
        "outputs": (ft * sd + mean).tolist(),
        "variance": (var * sd**2).tolist(),
    }
    if lik == "gaussian":
        out["train_rmse"] = (((f - y) * sd) ** 2).mean().sqrt().item()
    else:
        out["train_accuracy"] = accuracy(lik, f, y)
        p = ft.sigmoid() if lik == "bernoulli" else ft.softmax(1)
        out["probability"] = (torch.cat([1 - p, p], 1) if lik == "bernoulli" and c == 1 else p).tolist()
    return out


def mistake(net, case, x, y, why, **changed):
    """The same network looked at wrongly: scores and the gradient norm there."""
    wrong = dict(case, **changed)
    r = numbers(net, wrong, x, y, x[:1])
    keep = ["train_loss", "train_nll", "gradient_norm", "train_accuracy", "train_rmse"]
    return {"why": why, **{k: r[k] for k in keep if k in r}}


# ---------------------------------------------------------------- files


def export(net, x, folder, metadata=None):
    net = net.float().eval()
    path = os.path.join(folder, "model.onnx")
    torch.onnx.export(net, x[:1].float(), path, opset_version=13, input_names=["x"], output_names=["f"],
                      dynamic_axes={"x": {0: "n"}, "f": {0: "n"}})
    if metadata:
        import onnx

        m = onnx.load(path)
        for k, v in metadata.items():
            e = m.metadata_props.add()
            e.key, e.value = k, v
        onnx.save(m, path)


def write_csv(path, header, rows):
    with open(path, "w") as f:
        f.write(",".join(header) + "\n")
        for r in rows:
            f.write(",".join(str(v) for v in r) + "\n")


def write_idx(folder, name, a):
    """One IDX file of bytes, compressed, the same at every run."""
    head = struct.pack(">BBBB", 0, 0, 8, a.ndim) + struct.pack(">%dI" % a.ndim, *a.shape)
    with open(os.path.join(folder, name + ".gz"), "wb") as f:
        f.write(gzip.compress(head + a.astype(np.uint8).tobytes(), 9, mtime=0))


def write_expected(folder, case):
    with open(os.path.join(folder, "expected.json"), "w") as f:
        json.dump(case, f, indent=1)
        f.write("\n")


# ---------------------------------------------------------------- tables


def credit(rng, n):
    """Loans: income in euros, debt ratio, age in years, late payments; 1 is a default."""
    income = np.round(np.exp(rng.normal(10.4, 0.45, n)), 0)
    ratio = np.round(rng.beta(2, 4, n), 3)
    age = rng.integers(19, 76, n)
    late = rng.poisson(0.8, n)
    z = -1.2 * (np.log(income) - 10.4) / 0.45 + 5 * (ratio - 0.33) - 0.02 * (age - 45) + 0.9 * (late - 0.8) - 0.4
    y = (rng.random(n) < 1 / (1 + np.exp(-1.6 * z))).astype(int)
    return ["income", "debt_ratio", "age", "late_payments"], np.stack([income, ratio, age, late], 1), y


def flowers(rng, n):
    """Three kinds of flowers: lengths and widths of petals and sepals, in millimetres."""
    y = rng.integers(0, 3, n)
    centre = np.array([[50.1, 34.2, 14.6, 2.5], [59.4, 27.7, 42.6, 13.3], [65.9, 29.7, 55.5, 20.3]])
    spread = np.array([[3.5, 3.8, 1.7, 1.1], [5.2, 3.1, 4.7, 2.0], [6.4, 3.2, 5.5, 2.7]])
    x = np.round(centre[y] + spread[y] * rng.normal(size=(n, 4)), 1)
    return ["sepal_length", "sepal_width", "petal_length", "petal_width"], x, y


def houses(rng, n):
    """Houses: square metres, rooms, year, distance in kilometres; the price in euros."""
    area = np.round(rng.gamma(9, 12, n), 0) + 30
    rooms = np.clip(np.round(area / 28 + rng.normal(0, 0.8, n)), 1, 9)
    year = rng.integers(1900, 2021, n)
    distance = np.round(rng.gamma(2, 3.5, n), 1)
    price = 60000 + 2400 * area + 9000 * rooms + 450 * (year - 1960) * (year > 1960) + 150000 * np.exp(-distance / 5) + rng.normal(0, 22000, n)
    return ["area", "rooms", "year", "distance"], np.stack([area, rooms, year, distance], 1), np.round(price, -2).astype(int)


def films(rng, n):
    """Films: minutes, year, budget in millions; which of comedy, drama and family they are."""
    minutes = np.round(rng.normal(105, 18, n), 0)
    year = rng.integers(1960, 2024, n)
    budget = np.round(rng.gamma(1.5, 20, n), 1)
    z = np.stack([1.2 - (minutes - 90) / 15, (minutes - 100) / 14 - (budget - 30) / 30, (year - 1995) / 25 - (minutes - 100) / 20 - 1], 1)
    y = (rng.random((n, 3)) < 1 / (1 + np.exp(-1.5 * z))).astype(int)
    return ["minutes", "year", "budget"], np.stack([minutes, year, budget], 1), y


def cells(rng, n):
    """Battery cells: temperature and current; the voltage, which is about 3.7 V."""
    t = np.round(rng.uniform(-10, 45, n), 1)
    i = np.round(rng.uniform(0.1, 5, n), 2)
    v = 3.7 - 0.06 * i + 0.004 * (t - 20) - 0.0006 * i * (20 - t) * (t < 20) + rng.normal(0, 0.012, n)
    return ["temperature", "current"], np.stack([t, i], 1), np.round(v, 4)


def text(column):
    """Whole numbers without a point, as tables have them."""
    return [int(v) if float(v).is_integer() else float(v) for v in column]


def table(case, folder, header, x, y, ntrain, target, ids=None, labels=None):
    """Writes train.csv and test.csv; y may be shown as other labels."""
    shown = [labels[k] for k in y] if labels else text(y)
    cols = [text(x[:, j]) for j in range(x.shape[1])]
    rows = list(zip(*cols, shown))
    head = header + [target]
    if ids:
        rows, head = [(i,) + r for i, r in zip(ids, rows)], ["id"] + head
    write_csv(os.path.join(folder, "train.csv"), head, rows[:ntrain])
    write_csv(os.path.join(folder, "test.csv"), head, rows[ntrain:])
    case.update(train="train.csv", test="test.csv", target=target, train_rows=ntrain, test_rows=len(rows) - ntrain)


def tensors(x, y, likelihood):
    y = torch.tensor(y, dtype=torch.float64)[:, None] if likelihood == "gaussian" else torch.tensor(y, dtype=torch.int64)
    return torch.tensor(x, dtype=torch.float64), y


# ---------------------------------------------------------------- cases

CASES = {}


def case(f):
    CASES[f.__name__.replace("_", "-")] = f
    return f


def precision(c, n, targets=1):
    """The prior precision that the training objective had. Cross-entropy's mean is
    the negative log likelihood over N. The mean squared error of one target is
    2σ²/N of it. The mean of several labels is over all of them."""
    lam = c["weight_decay"]
    c["prior_precision"] = n * targets * lam
    if c["likelihood"] == "gaussian":
        c["prior_precision"] = n * targets * lam / (2 * c["noise_variance_network"])


def finish(c, folder, net, x, y, xt, yt, mistakes=(), metadata=None, head=None):
    """Computes the numbers, exports, with a head where there is one, and writes."""
    c.update(numbers(net, c, x, y, xt[:5]))
    c["test_index"] = list(range(5))
    lik = c["likelihood"]
    ft = net.double()(xt).detach()
    if lik == "gaussian":
        c["test_rmse"] = (((ft - yt) * torch.tensor(c.get("target_sd", 1.0), dtype=torch.float64)) ** 2).mean().sqrt().item()
    else:
        c["test_accuracy"] = accuracy(lik, ft, yt)
    c["mistakes"] = {name: mistake(net, c, *rest[:2], rest[2], **(rest[3] if len(rest) > 3 else {})) for name, *rest in mistakes}
    export(nn.Sequential(net, head) if head else net, xt, folder, metadata)
    write_expected(folder, c)


def wrong_precision(c, x, y):
    """The weight decay itself taken for the precision: too small by N."""
    return ("precision-without-n", x, y, "--prior-precision set to the weight decay", {"prior_precision": c["weight_decay"]})


def standardizer(x):
    return x.mean(0), x.std(0)


@case
def standardized_in_graph(folder, rng):
    """Three classes; the network itself subtracts means and divides by deviations."""
    c = {"likelihood": "categorical", "weight_decay": 1e-3}
    header, x, y = flowers(rng, 210)
    table(c, folder, header, x, y, 150, "kind")
    mean, sd = standardizer(x[:150])
    X, Y = tensors(x, y, "categorical")
    net = train(nn.Sequential(Normalize(mean, sd), *mlp(4, 10, 3)), X[:150], Y[:150], "categorical", 1e-3)
    precision(c, 150)
    twice = (X - torch.tensor(mean)) / torch.tensor(sd)
    finish(c, folder, net, X[:150], Y[:150], X[150:], Y[150:],
           [("standardized-twice", twice[:150], Y[:150], "inputs standardized outside as well"), wrong_precision(c, X[:150], Y[:150])])


@case
def standardized_outside(folder, rng):
    """Three classes; inputs were standardized by the training rows before the network."""
    c = {"likelihood": "categorical", "weight_decay": 1e-3}
    header, x, y = flowers(rng, 210)
    table(c, folder, header, x, y, 150, "kind")
    mean, sd = standardizer(x[:150])
    c.update(input_mean=mean.tolist(), input_sd=sd.tolist())
    X, Y = tensors((x - mean) / sd, y, "categorical")
    net = train(nn.Sequential(*mlp(4, 10, 3)), X[:150], Y[:150], "categorical", 1e-3)
    precision(c, 150)
    raw = torch.tensor(x)
    finish(c, folder, net, X[:150], Y[:150], X[150:], Y[150:],
           [("not-standardized", raw[:150], Y[:150], "raw inputs given to the network"), wrong_precision(c, X[:150], Y[:150])])


@case
def standardized_targets(folder, rng):
    """A regression on volts whose inputs and targets were standardized before training."""
    c = {"likelihood": "gaussian", "weight_decay": 1e-4}
    header, x, y = cells(rng, 200)
    table(c, folder, header, x, y, 140, "voltage")
    mean, sd = standardizer(x[:140])
    tm, ts = float(y[:140].mean()), float(y[:140].std())
    c.update(input_mean=mean.tolist(), input_sd=sd.tolist(), target_mean=tm, target_sd=ts)
    X, Y = tensors((x - mean) / sd, (y - tm) / ts, "gaussian")
    net = train(nn.Sequential(*mlp(2, 8, 1)), X[:140], Y[:140], "gaussian", 1e-4)
    noise(c, net, X[:140], Y[:140])
    precision(c, 140)
    finish(c, folder, net, X[:140], Y[:140], X[140:], Y[140:],
           [("targets-not-scaled", X[:140], Y[:140] * ts + tm, "the network's outputs compared with volts", {"target_mean": 0.0, "target_sd": 1.0}),
            wrong_precision(c, X[:140], Y[:140])])


@case
def house_prices(folder, rng):
    """A regression on whole euros: inputs and targets standardized before training."""
    c = {"likelihood": "gaussian", "weight_decay": 1e-4}
    header, x, y = houses(rng, 230)
    table(c, folder, header, x, y, 160, "price", ids=["H%03d" % i for i in range(230)])
    c["id"] = "id"
    mean, sd = standardizer(x[:160])
    tm, ts = float(y[:160].mean()), float(y[:160].std())
    c.update(input_mean=mean.tolist(), input_sd=sd.tolist(), target_mean=tm, target_sd=ts)
    X, Y = tensors((x - mean) / sd, (y - tm) / ts, "gaussian")
    net = train(nn.Sequential(*mlp(4, 12, 1)), X[:160], Y[:160], "gaussian", 1e-4)
    noise(c, net, X[:160], Y[:160])
    precision(c, 160)
    finish(c, folder, net, X[:160], Y[:160], X[160:], Y[160:],
           [("targets-not-scaled", X[:160], Y[:160] * ts + tm, "the network's outputs compared with euros", {"target_mean": 0.0, "target_sd": 1.0}),
            wrong_precision(c, X[:160], Y[:160])])


def noise(c, net, x, y):
    """The mean squared error of the training rows serves as noise variance."""
    v = LOSS["gaussian"](net.double()(x), y).item()
    c["noise_variance_network"] = v
    sd = c.get("target_sd", 1.0)
    c["noise_variance"] = v if isinstance(sd, list) else v * sd**2


@case
def all_in_graph(folder, rng):
    """A regression on whole euros whose network standardizes inputs and gives euros: both scalings are inside."""
    c = {"likelihood": "gaussian", "weight_decay": 1e-4}
    header, x, y = houses(rng, 230)
    table(c, folder, header, x, y, 160, "price")
    mean, sd = standardizer(x[:160])
    tm, ts = float(np.round(y[:160].mean())), float(np.round(y[:160].std()))
    X, Y = tensors(x, (y - tm) / ts, "gaussian")
    inner = train(nn.Sequential(Normalize(mean, sd), *mlp(4, 12, 1)), X[:160], Y[:160], "gaussian", 1e-4)
    net = nn.Sequential(inner, Denormalize(tm, ts))
    Y = torch.tensor(y, dtype=torch.float64)[:, None]
    noise(c, net, X[:160], Y[:160])
    # The objective was that of the standardized targets.
    c["prior_precision"] = 160 * 1e-4 / (2 * c["noise_variance"] / ts**2)
    finish(c, folder, net, X[:160], Y[:160], X[160:], Y[160:])


@case
def two_targets(folder, rng):
    """A regression on two targets of other units, volts and watts; inputs and targets were standardized before training."""
    c = {"likelihood": "gaussian", "weight_decay": 1e-4}
    header, x, v = cells(rng, 200)
    w = np.round(v * x[:, 1] - 0.03 * x[:, 1] ** 2 + rng.normal(0, 0.15, 200), 3)
    y = np.stack([v, w], 1)
    rows = list(zip(*[text(x[:, j]) for j in range(2)], text(v), text(w)))
    write_csv(os.path.join(folder, "train.csv"), header + ["voltage", "power"], rows[:140])
    write_csv(os.path.join(folder, "test.csv"), header + ["voltage", "power"], rows[140:])
    c.update(train="train.csv", test="test.csv", target="voltage,power", train_rows=140, test_rows=60)
    mean, sd = standardizer(x[:140])
    tm, ts = y[:140].mean(0), y[:140].std(0)
    c.update(input_mean=mean.tolist(), input_sd=sd.tolist(), target_mean=tm.tolist(), target_sd=ts.tolist())
    X, Y = torch.tensor((x - mean) / sd), torch.tensor((y - tm) / ts)
    net = train(nn.Sequential(*mlp(2, 8, 2)), X[:140], Y[:140], "gaussian", 1e-4)
    noise(c, net, X[:140], Y[:140])
    precision(c, 140, 2)
    finish(c, folder, net, X[:140], Y[:140], X[140:], Y[140:], [wrong_precision(c, X[:140], Y[:140])])


@case
def two_logits(folder, rng):
    """A default or none, one logit each; inputs standardized before the network."""
    c = {"likelihood": "categorical", "weight_decay": 2e-3}
    header, x, y = credit(rng, 260)
    table(c, folder, header, x, y, 180, "default")
    mean, sd = standardizer(x[:180])
    c.update(input_mean=mean.tolist(), input_sd=sd.tolist())
    X, Y = tensors((x - mean) / sd, y, "categorical")
    net = train(nn.Sequential(*mlp(4, 8, 2)), X[:180], Y[:180], "categorical", 2e-3)
    precision(c, 180)
    finish(c, folder, net, X[:180], Y[:180], X[180:], Y[180:],
           [("not-standardized", torch.tensor(x[:180]), Y[:180], "raw inputs given to the network"),
            ("classes-swapped", X[:180], 1 - Y[:180], "--classes 1,0 where the first logit is of class 0"), wrong_precision(c, X[:180], Y[:180])])


@case
def one_logit(folder, rng):
    """A default or none, one logit for a default; inputs standardized inside the network."""
    c = {"likelihood": "bernoulli", "weight_decay": 2e-3}
    header, x, y = credit(rng, 260)
    table(c, folder, header, x, y, 180, "default")
    mean, sd = standardizer(x[:180])
    X, Y = tensors(x, y, "bernoulli")
    net = train(nn.Sequential(Normalize(mean, sd), *mlp(4, 8, 1)), X[:180], Y[:180], "bernoulli", 2e-3)
    precision(c, 180)
    twice = (X - torch.tensor(mean)) / torch.tensor(sd)
    finish(c, folder, net, X[:180], Y[:180], X[180:], Y[180:],
           [("standardized-twice", twice[:180], Y[:180], "inputs standardized outside as well"),
            ("classes-swapped", X[:180], 1 - Y[:180], "--classes 1,0 where the logit is of class 1"), wrong_precision(c, X[:180], Y[:180])])


@case
def several_labels(folder, rng):
    """Films of any of three kinds, a logit each, with a Sigmoid at the end of the file; inputs standardized before the network."""
    c = {"likelihood": "bernoulli", "weight_decay": 2e-3}
    header, x, y = films(rng, 220)
    kinds = ["comedy", "drama", "family"]
    rows = list(zip(*[text(x[:, j]) for j in range(3)], *[text(y[:, j]) for j in range(3)]))
    write_csv(os.path.join(folder, "train.csv"), header + kinds, rows[:160])
    write_csv(os.path.join(folder, "test.csv"), header + kinds, rows[160:])
    c.update(train="train.csv", test="test.csv", target=",".join(kinds), train_rows=160, test_rows=60)
    mean, sd = standardizer(x[:160])
    c.update(input_mean=mean.tolist(), input_sd=sd.tolist())
    X, Y = tensors((x - mean) / sd, y, "bernoulli")
    net = train(nn.Sequential(*mlp(3, 8, 3)), X[:160], Y[:160], "bernoulli", 2e-3)
    precision(c, 160, 3)
    finish(c, folder, net, X[:160], Y[:160], X[160:], Y[160:],
           [("not-standardized", torch.tensor(x[:160]), Y[:160], "raw inputs given to the network"), wrong_precision(c, X[:160], Y[:160])], head=nn.Sigmoid())


@case
def string_labels(folder, rng):
    """Labels are words, numbered in the order of the alphabet; customers have numbers of their own."""
    c = {"likelihood": "categorical", "weight_decay": 2e-3, "class_names": ["default", "repaid"], "id": "id"}
    header, x, y = credit(rng, 260)
    y = 1 - y
    table(c, folder, header, x, y, 180, "outcome", ids=["K%04d" % (1000 + 7 * i) for i in range(260)], labels=c["class_names"])
    mean, sd = standardizer(x[:180])
    X, Y = tensors(x, y, "categorical")
    net = train(nn.Sequential(Normalize(mean, sd), *mlp(4, 8, 2)), X[:180], Y[:180], "categorical", 2e-3)
    precision(c, 180)
    finish(c, folder, net, X[:180], Y[:180], X[180:], Y[180:],
           [("classes-swapped", X[:180], 1 - Y[:180], "--class-names repaid,default where the first logit is of default"), wrong_precision(c, X[:180], Y[:180])])


@case
def names_in_metadata(folder, rng):
    """Labels are 0, 1 and 2; the model's metadata names them."""
    c = {"likelihood": "categorical", "weight_decay": 1e-3, "class_names": ["setosa", "versicolor", "virginica"]}
    header, x, y = flowers(rng, 210)
    table(c, folder, header, x, y, 150, "kind")
    mean, sd = standardizer(x[:150])
    X, Y = tensors(x, y, "categorical")
    net = train(nn.Sequential(Normalize(mean, sd), *mlp(4, 6, 3)), X[:150], Y[:150], "categorical", 1e-3)
    precision(c, 150)
    finish(c, folder, net, X[:150], Y[:150], X[150:], Y[150:], metadata={"class_names": json.dumps(c["class_names"])})


@case
def weight_decay(folder, rng):
    """A regression trained by the mean squared error with weight decay; inputs scaled inside, targets near 0 as they are."""
    c = {"likelihood": "gaussian", "weight_decay": 1e-3}
    x = np.round(rng.uniform(-3, 3, (220, 2)), 3)
    y = np.round(np.sin(1.5 * x[:, 0]) + 0.3 * x[:, 1] + rng.normal(0, 0.1, 220), 4)
    table(c, folder, ["a", "b"], x, y, 160, "y")
    X, Y = tensors(x, y, "gaussian")
    net = train(nn.Sequential(Normalize([0.0, 0.0], [1.5, 1.5]), *mlp(2, 12, 1)), X[:160], Y[:160], "gaussian", 1e-3)
    noise(c, net, X[:160], Y[:160])
    precision(c, 160)
    finish(c, folder, net, X[:160], Y[:160], X[160:], Y[160:], [wrong_precision(c, X[:160], Y[:160])])


@case
def learnt_scale(folder, rng):
    """The network learns a scale of each input before its first layer: an exported file cannot tell it from a constant."""
    c = {"likelihood": "categorical", "weight_decay": 1e-3, "learn": ["0.scale"]}
    y = rng.integers(0, 2, 200)
    x = np.round(rng.normal(size=(200, 3)) + 1.3 * y[:, None] * np.array([1.0, -0.7, 0.0]), 3)
    table(c, folder, ["a", "b", "c"], x, y, 140, "y")
    X, Y = tensors(x, y, "categorical")
    net = train(nn.Sequential(Scale(3), *mlp(3, 6, 2)), X[:140], Y[:140], "categorical", 1e-3)
    precision(c, 140)
    finish(c, folder, net, X[:140], Y[:140], X[140:], Y[140:])


@case
def no_metadata(folder, rng):
    """Adam without decay for some epochs, nothing said about the prior: what a first try looks like."""
    c = {"likelihood": "categorical", "weight_decay": 0.0, "prior_precision": 1.0}
    header, x, y = flowers(rng, 210)
    table(c, folder, header, x, y, 150, "kind")
    mean, sd = standardizer(x[:150])
    c.update(input_mean=mean.tolist(), input_sd=sd.tolist())
    X, Y = tensors((x - mean) / sd, y, "categorical")
    net = nn.Sequential(*mlp(4, 16, 3, activation=nn.ReLU)).double()
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(60):
        for i in torch.randperm(150).split(32):
            opt.zero_grad()
            LOSS["categorical"](net(X[i]), Y[i]).backward()
            opt.step()
    net = net.float()
    finish(c, folder, net, X[:150], Y[:150], X[150:], Y[150:])


# ---------------------------------------------------------------- pictures

SHAPES = ["ring", "cross", "bar", "corner"]


def shape(kind, size, rng, ink=255, paper=0, margin=0.12, big=8):
    """A white shape on black, drawn large and made small."""
    s = size * big
    im = Image.new("L", (s, s), paper)
    d = ImageDraw.Draw(im)
    w = int(s * rng.uniform(0.09, 0.14))
    r = s * rng.uniform(0.24, 0.34)
    cx, cy = s / 2 + s * rng.uniform(-margin, margin), s / 2 + s * rng.uniform(-margin, margin)
    if kind == 0:
        d.ellipse((cx - r, cy - r, cx + r, cy + r), outline=ink, width=w)
    elif kind == 1:
        d.line((cx - r, cy, cx + r, cy), fill=ink, width=w)
        d.line((cx, cy - r, cx, cy + r), fill=ink, width=w)
    elif kind == 2:
        d.line((cx - r * 0.7, cy + r, cx + r * 0.7, cy - r), fill=ink, width=w)
    else:
        d.line((cx - r, cy - r, cx - r, cy + r), fill=ink, width=w)
        d.line((cx - r - w / 2, cy + r, cx + r, cy + r), fill=ink, width=w)
    return im.resize((size, size), Image.BOX)


def shapes(rng, n, size):
    y = rng.integers(0, 4, n)
    x = np.stack([np.asarray(shape(k, size, rng)) for k in y])
    x = np.clip(x + rng.normal(0, 6, x.shape) * (x > 0), 0, 255).astype(np.uint8)
    return x, y


def idx(c, folder, x, y, ntrain):
    write_idx(folder, "train-images-idx3-ubyte", x[:ntrain])
    write_idx(folder, "train-labels-idx1-ubyte", y[:ntrain])
    write_idx(folder, "t10k-images-idx3-ubyte", x[ntrain:])
    write_idx(folder, "t10k-labels-idx1-ubyte", y[ntrain:])
    c.update(train=".", train_rows=ntrain, test_rows=len(y) - ntrain)


@case
def pictures_in_graph(folder, rng):
    """Grey pictures; the network itself subtracts 0.1307 and divides by 0.3081."""
    c = {"likelihood": "categorical", "weight_decay": 2e-3}
    x, y = shapes(rng, 260, 16)
    idx(c, folder, x, y, 200)
    X, Y = tensors(x[:, None] / 255.0, y, "categorical")
    net = train(nn.Sequential(Normalize([0.1307], [0.3081], (1, 1, 1, 1)), *convnet(1, 16, 4)), X[:200], Y[:200], "categorical", 2e-3, 1500)
    precision(c, 200)
    finish(c, folder, net, X[:200], Y[:200], X[200:], Y[200:],
           [("standardized-twice", (X[:200] - 0.1307) / 0.3081, Y[:200], "--input-mean 0.1307 --input-sd 0.3081 given as well"), wrong_precision(c, X[:200], Y[:200])])


@case
def pictures_outside(folder, rng):
    """Grey pictures; torchvision's Normalize((0.1307,), (0.3081,)) came before the network."""
    c = {"likelihood": "categorical", "weight_decay": 2e-3, "input_mean": [0.1307], "input_sd": [0.3081]}
    x, y = shapes(rng, 260, 16)
    idx(c, folder, x, y, 200)
    raw, Y = tensors(x[:, None] / 255.0, y, "categorical")
    X = (raw - 0.1307) / 0.3081
    net = train(nn.Sequential(*convnet(1, 16, 4)), X[:200], Y[:200], "categorical", 2e-3, 1500)
    precision(c, 200)
    finish(c, folder, net, X[:200], Y[:200], X[200:], Y[200:],
           [("not-standardized", raw[:200], Y[:200], "pixels from 0 to 1 given to the network"), wrong_precision(c, X[:200], Y[:200])])


@case
def photo(folder, rng):
    """Grey pictures, white on black, pixels from 0 to 1; photos of dark ink on light paper to explain."""
    c = {"likelihood": "categorical", "weight_decay": 2e-3}
    x, y = shapes(rng, 260, 16)
    idx(c, folder, x, y, 200)
    X, Y = tensors(x[:, None] / 255.0, y, "categorical")
    net = train(nn.Sequential(*convnet(1, 16, 4)), X[:200], Y[:200], "categorical", 2e-3, 1500)
    precision(c, 200)
    c["photos"] = {}
    for name, kind, turn in [("ring.jpg", 0, None), ("cross.jpg", 1, None), ("corner-turned.jpg", 3, 6)]:
        paper(folder, name, kind, turn, rng)
        c["photos"][name] = {"class": kind, "orientation": turn or 1}
    finish(c, folder, net, X[:200], Y[:200], X[200:], Y[200:],
           [("dark-on-light", 1 - X[:200], Y[:200], "pictures given as they are on paper"), wrong_precision(c, X[:200], Y[:200])])


def paper(folder, name, kind, turn, rng):
    """A photo, 200×150, of a shape in dark ink on paper lit from one side."""
    w, h = 200, 150
    s = 120
    ink = np.asarray(shape(kind, s, rng, margin=0.03, big=2), dtype=float) / 255
    light = 205 + 30 * (np.arange(w) / w)[None, :] - 15 * (np.arange(h) / h)[:, None]
    cover = np.zeros((h, w))
    cover[15 : 15 + s, 40 : 40 + s] = ink
    grey = light * (1 - 0.8 * cover) + rng.normal(0, 2, (h, w))
    rgb = np.stack([grey * 1.0, grey * 0.98, grey * 0.93], 2)
    im = Image.fromarray(np.clip(rgb, 0, 255).astype(np.uint8)).filter(ImageFilter.GaussianBlur(0.7))
    exif = Image.Exif()
    if turn:
        im = im.rotate(90, expand=True)  # the camera was held sideways
        exif[0x0112] = turn
    im.save(os.path.join(folder, name), quality=85, exif=exif)


@case
def pictures_colour(folder, rng):
    """Pictures of three channels in .npy files; Normalize with a mean and deviation a channel came before the network."""
    c = {"likelihood": "categorical", "weight_decay": 2e-3, "input_mean": [0.485, 0.456, 0.406], "input_sd": [0.229, 0.224, 0.225]}
    n, ntrain, size = 170, 120, 12
    y = rng.integers(0, 3, n)
    x = np.zeros((n, 3, size, size))
    for i, k in enumerate(y):
        mask = np.asarray(shape(int(rng.integers(0, 2)), size, rng), dtype=float) / 255
        ground = rng.uniform(90, 140, 3)
        colour = ground + np.array([70 if k == j else -40 for j in range(3)])
        x[i] = ground[:, None, None] * (1 - mask) + colour[:, None, None] * mask
    x = np.clip(np.round(x + rng.normal(0, 8, x.shape)), 0, 255).astype(np.uint8)
    for part, sl in [("train", slice(0, ntrain)), ("test", slice(ntrain, n))]:
        np.save(os.path.join(folder, "x_" + part + ".npy"), x[sl])
        np.save(os.path.join(folder, "y_" + part + ".npy"), y[sl].astype(np.uint8))
    c.update(train="x_train.npy", test="x_test.npy", train_rows=ntrain, test_rows=n - ntrain)
    raw, Y = tensors(x / 255.0, y, "categorical")
    mean, sd = (torch.tensor(c[k], dtype=torch.float64).reshape(1, 3, 1, 1) for k in ("input_mean", "input_sd"))
    X = (raw - mean) / sd
    net = train(nn.Sequential(*convnet(3, size, 3)), X[:ntrain], Y[:ntrain], "categorical", 2e-3, 1500, 0.02)
    precision(c, ntrain)
    finish(c, folder, net, X[:ntrain], Y[:ntrain], X[ntrain:], Y[ntrain:],
           [("not-standardized", raw[:ntrain], Y[:ntrain], "pixels from 0 to 1 given to the network"), wrong_precision(c, X[:ntrain], Y[:ntrain])])


def main():
    for name in sys.argv[1:] or CASES:
        make = CASES[name]
        os.makedirs(name, exist_ok=True)
        rng = seed(name)
        make(name, rng)
        with open(os.path.join(name, "expected.json")) as f:
            c = json.load(f)
        c = {"case": name, "what": make.__doc__.strip(), **c}
        write_expected(name, c)
        score = c.get("train_accuracy", c.get("train_rmse"))
        print("%-24s P=%4d score %.4g gradient %.3g" % (name, c["parameters"], score, c["gradient_norm"]),
              {k: (m.get("train_accuracy", m.get("train_rmse")), m["gradient_norm"]) for k, m in c["mistakes"].items()}, flush=True)


main()
