"""Trains small networks in PyTorch, in float64, and writes what each step gave.

steps.json holds a list of cases: the layers, the data, the parameters at the start, the
order of the rows in each epoch, the factors of dropout, and the parameters (and running
statistics) after every step on a minibatch. Run it in this folder with PyTorch 1.13
(Debian's python3-torch): python3 generate.py
"""

import json
import warnings

import torch
from torch import nn

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
warnings.filterwarnings("ignore")

BATCH = 8
EPS = float(torch.tensor(1e-5, dtype=torch.float32))  # as an ONNX attribute holds it


def network(layers, shape):
    """Builds the layers that the tests build in Go under the same names."""
    out = []
    for name, *arguments in layers:
        if name == "dense":
            features = nn.Sequential(*out)(torch.zeros(2, *shape)).shape[1]
            out.append(nn.Linear(features, arguments[0]))
        elif name == "conv":
            channels = nn.Sequential(*out)(torch.zeros(2, *shape)).shape[1]
            out.append(nn.Conv2d(channels, arguments[0], arguments[1], bias=False))
        elif name == "norm":
            values = nn.Sequential(*out)(torch.zeros(2, *shape))
            kind = nn.BatchNorm2d if values.dim() == 4 else nn.BatchNorm1d
            out.append(kind(values.shape[1], eps=EPS, momentum=arguments[0]))
        elif name == "dropout":
            out.append(nn.Dropout(arguments[0]))
        elif name == "flatten":
            out.append(nn.Flatten())
        else:
            out.append({"tanh": nn.Tanh, "relu": nn.ReLU}[name]())
    return nn.Sequential(*out)


def theta(net):
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()])


def running(net):
    return [[m.running_mean.tolist(), m.running_var.tolist()] for m in net if hasattr(m, "running_mean")]


def case(name, layers, shape, optimizer, *, precision, epochs, rate, seed, whole=False, schedule=None, rows=24, outputs=2):
    torch.manual_seed(seed)
    net = network(layers, shape)
    x = torch.randn(rows, *shape)
    y = torch.stack([torch.sin(x.reshape(rows, -1)[:, k] + k) for k in range(outputs)], 1)
    vx = torch.randn(10, *shape)
    vy = torch.stack([torch.sin(vx.reshape(10, -1)[:, k] + k) for k in range(outputs)], 1)
    with torch.no_grad():
        for m in net:
            if hasattr(m, "running_mean"):
                m.weight.uniform_(0.5, 1.5)
                m.bias.uniform_(-0.5, 0.5)
                m.running_mean.uniform_(-1, 1)
                m.running_var.uniform_(0.5, 2)
    start, statistics = theta(net), running(net)
    opt = optimizer(net.parameters(), rate)
    plan = schedule(opt) if schedule else None
    factors = []

    def keep(module, given, result):
        if module.training:
            factors[-1].append((result / given[0]).reshape(len(result), -1).round(decimals=9).tolist())

    for m in net:
        if isinstance(m, nn.Dropout):
            m.register_forward_hook(keep)
    steps, orders, rates, validation = [], [], [], []
    for _ in range(epochs):
        order = torch.randperm(rows)
        orders.append(order.tolist())
        rates.append(opt.param_groups[0]["lr"])
        for at in range(0, rows - BATCH + 1, BATCH):
            i = order[at : at + BATCH]
            factors.append([])
            loss = 0.5 * (net(x[i]) - y[i]).square().sum() / BATCH
            loss = loss + 0.5 * precision / rows * sum(p.square().sum() for p in net.parameters())
            if whole:  # the objective over all rows
                loss = loss * rows
            opt.zero_grad()
            loss.backward()
            opt.step()
            steps.append({"loss": loss.item(), "theta": theta(net).tolist(), "running": running(net)})
        net.eval()
        with torch.no_grad():
            validation.append((0.5 * (net(vx) - vy).square().sum() / 10).item())
        net.train()
        if isinstance(plan, torch.optim.lr_scheduler.ReduceLROnPlateau):
            plan.step(validation[-1])
        elif plan:
            plan.step()
    net.eval()
    flat = lambda t: t.reshape(len(t), -1).tolist()
    return {
        "name": name, "layers": layers, "shape": list(shape), "precision": precision, "rate": rate, "batch": BATCH, "epochs": epochs,
        "x": flat(x), "y": flat(y), "validation_x": flat(vx), "validation_y": flat(vy), "start": start.tolist(), "statistics": statistics,
        "orders": orders, "factors": [f for f in factors if f], "rates": rates, "validation": validation, "steps": steps, "outputs": flat(net(x).detach()),
    }


MLP = [["dense", 3], ["tanh"], ["dense", 2]]
DROPPED = [["dense", 4], ["tanh"], ["dropout", 0.3], ["dense", 3], ["tanh"], ["dropout", 0.5], ["dense", 2]]
NORMED = [["dense", 3], ["norm", 0.1], ["tanh"], ["dense", 2]]
CONV = [["conv", 2, 2], ["norm", 0.1], ["relu"], ["conv", 2, 2], ["norm", 0.25], ["relu"], ["flatten"], ["dense", 2]]


def sgd(momentum, nesterov=False):
    return lambda p, rate: torch.optim.SGD(p, lr=rate, momentum=momentum, nesterov=nesterov)


def adam(p, rate):
    return torch.optim.Adam(p, lr=rate)


if __name__ == "__main__":
    rate = torch.optim.lr_scheduler
    cases = [
        case("sgd", MLP, (2,), sgd(0), precision=0.5, epochs=2, rate=0.3, seed=1),
        case("momentum", MLP, (2,), sgd(0.9), precision=0.5, epochs=3, rate=0.1, seed=2),
        case("nesterov", MLP, (2,), sgd(0.8, True), precision=0, epochs=2, rate=0.1, seed=3),
        case("adam", MLP, (2,), adam, precision=2, epochs=3, rate=0.01, seed=4, whole=True),
        case("dropout", DROPPED, (2,), sgd(0.5), precision=0.5, epochs=2, rate=0.2, seed=5),
        case("norm", NORMED, (2,), sgd(0.5), precision=0.5, epochs=2, rate=0.2, seed=6),
        case("conv-norm", CONV, (1, 3, 4), sgd(0.5), precision=0.1, epochs=2, rate=0.1, seed=7, rows=16),
        case("conv-norm-adam", CONV, (1, 3, 4), adam, precision=0.1, epochs=1, rate=0.01, seed=8, whole=True, rows=17),
        case("plateau", MLP, (2,), sgd(0.5), precision=0, epochs=10, rate=1.2, seed=9, rows=16, schedule=lambda o: rate.ReduceLROnPlateau(o, factor=0.5, patience=1)),
        case("step", MLP, (2,), sgd(0), precision=0, epochs=5, rate=0.3, seed=10, rows=16, schedule=lambda o: rate.StepLR(o, 2, 0.3)),
    ]
    with open("steps.json", "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
