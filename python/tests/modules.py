"""Twelve trained modules, with the rows and options of their fits."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


def train(module, X, y, loss, decay=1e-2, steps=150, lr=0.02):
    """Trains by Adam and leaves the module in training mode."""
    optimizer = torch.optim.Adam(module.parameters(), lr=lr, weight_decay=decay)
    X, y = torch.as_tensor(X), torch.as_tensor(y)
    module.train()
    for _ in range(steps):
        optimizer.zero_grad()
        loss(module(X), y).backward()
        optimizer.step()
    with torch.no_grad():  # running statistics of the last parameters
        for _ in range(40):
            module(X)
    return dict(optimizer=optimizer, loss=loss)


def moons(n=60, seed=0):
    rng = np.random.default_rng(seed)
    t, y = rng.uniform(0, np.pi, n), rng.integers(0, 2, n)
    X = np.stack([np.cos(t) + y, (1 - 2 * y) * np.sin(t) + 0.5 * y], 1) + 0.2 * rng.normal(size=(n, 2))
    return X.astype(np.float32), y


def waves(n=60, seed=1):
    X = np.random.default_rng(seed).uniform(-2, 2, (n, 3)).astype(np.float32)
    return X, np.sin(X[:, 0]) + 0.3 * X[:, 1] * X[:, 2]


@case
def mlp():
    X, y = moons()
    m = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
    return m, X, y, train(m, X, y, nn.CrossEntropyLoss())


@case
def cnn():
    X = np.random.default_rng(2).random((60, 1, 8, 8)).astype(np.float32)
    y = (X[:, 0, :4].mean((1, 2)) > X[:, 0, 4:].mean((1, 2))).astype(int)
    m = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(27, 2))
    return m, X, y, train(m, X, y, nn.CrossEntropyLoss())


class LSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(2, 5, batch_first=True), nn.Linear(5, 2)

    def forward(self, x):
        return self.out(self.lstm(x)[0][:, -1])


@case
def lstm():
    X = np.random.default_rng(3).normal(size=(50, 6, 2)).astype(np.float32)
    y = (X[:, :, 0].sum(1) > 0).astype(int)
    m = LSTM()
    return m, X, y, train(m, X, y, nn.CrossEntropyLoss())


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(3, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.out = nn.Linear(8, 2)

    def forward(self, x):
        return self.out(self.layer(self.embed(x)).mean(1))


@case
def transformer():
    X = np.random.default_rng(4).normal(size=(50, 5, 3)).astype(np.float32)
    y = (X[:, 0, 0] > X[:, 4, 0]).astype(int)
    m = Transformer()
    return m, X, y, train(m, X, y, nn.CrossEntropyLoss(), lr=0.01)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1, self.conv2, self.bn2 = (
            nn.Conv2d(3, 3, 3, padding=1),
            nn.BatchNorm2d(3),
            nn.Conv2d(3, 3, 3, padding=1),
            nn.BatchNorm2d(3),
        )

    def forward(self, x):
        return F.relu(x + self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))


@case
def resnet_in_training_mode():
    X = np.random.default_rng(5).normal(size=(50, 3, 6, 6)).astype(np.float32)
    y = (X[:, 0].mean((1, 2)) > 0).astype(int)
    m = nn.Sequential(Block(), Block(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    return m, X, y, train(m, X, y, nn.CrossEntropyLoss())


@case
def sigmoid_inside():
    X, y = moons(seed=6)
    m = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1), nn.Sigmoid())
    return m, X, y, train(m, X, y[:, None].astype(np.float32), nn.BCELoss())


@case
def softmax_inside():
    X, y = moons(seed=7)
    m = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2), nn.LogSoftmax(1))
    return m, X, y, train(m, X, y, nn.NLLLoss())


@case
def standardized():
    """Rows and targets are in units, which the training standardized."""
    X, y = waves()
    X, y = X * [3.0, 40.0, 500.0] + [1.0, 200.0, -3.0], 12 * y + 70
    m = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    z, t = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
    return m, X, y, train(m, z.astype(np.float32), t[:, None].astype(np.float32), nn.MSELoss())


@case
def string_labels():
    X, y = moons(seed=8)
    m = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
    words = np.array(["repaid", "default, late"])
    return m, X, words[y], dict(train(m, X, y, nn.CrossEntropyLoss()), class_names=words)


@case
def regression_in_units():
    X, y = waves(seed=9)
    y = 3 * y + 20

    class Scaled(nn.Sequential):
        def forward(self, x):
            return 20 + super().forward(x)

    m = Scaled(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    return m, X, y, train(m, X, y[:, None].astype(np.float32), nn.MSELoss(reduction="sum"))


@case
def multi_output():
    X, y = waves(seed=10)
    Y = np.stack([y, X[:, 0] ** 2], 1)
    m = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
    return m, X, Y, train(m, X, Y.astype(np.float32), nn.MSELoss())


@case
def token_ids():
    X = np.random.default_rng(11).integers(0, 12, (60, 7))
    y = ((X < 4).sum(1) > 2).astype(int)

    class Bag(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.out = nn.Embedding(12, 4), nn.Linear(4, 2)

        def forward(self, x):
            return self.out(self.embed(x).mean(1))

    m = Bag()
    return m, X, y, train(m, X, y, nn.CrossEntropyLoss())


@case
def shared_weights():
    X, y = moons(seed=12)

    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.again, self.out = nn.Linear(2, 6), nn.Linear(6, 6), nn.Linear(6, 2)

        def forward(self, x):
            return self.out(torch.tanh(self.again(torch.tanh(self.again(torch.tanh(self.first(x)))))))

    m = Shared()
    return m, X, y, train(m, X, y, nn.CrossEntropyLoss())
