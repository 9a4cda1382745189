"""Trains a network on a table of loans, as one would anyway, and exports it."""

import csv

import torch
from torch import nn

COLUMNS = ["income", "debt_ratio", "age", "late_payments"]
CLASSES = ["default", "repaid"]  # output 0, output 1
WEIGHT_DECAY = 2e-3


def read(path):
    with open(path) as file:
        rows = list(csv.DictReader(file))
    x = torch.tensor([[float(row[name]) for name in COLUMNS] for row in rows])
    return x, torch.tensor([CLASSES.index(row["outcome"]) for row in rows])


class Standardize(nn.Module):
    """Part of the network, so that it takes the table's own numbers."""

    def __init__(self, x):
        super().__init__()
        self.register_buffer("mean", x.mean(0))
        self.register_buffer("sd", x.std(0))

    def forward(self, x):
        return (x - self.mean) / self.sd


torch.manual_seed(0)
x, y = read("train.csv")
net = nn.Sequential(Standardize(x), nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))

# The loss is the mean over the rows; weight_decay adds WEIGHT_DECAY / 2 · ‖θ‖².
loss = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(net.parameters(), lr=0.02, weight_decay=WEIGHT_DECAY)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3000)
for step in range(3000):
    optimizer.zero_grad()
    value = loss(net(x), y)
    value.backward()
    optimizer.step()
    schedule.step()

accuracy = (net(x).argmax(1) == y).float().mean()
print(f"{len(y)} training rows, loss {value:.3f}, accuracy {accuracy:.3f}")
torch.onnx.export(net, x[:1], "loans.onnx", input_names=["x"], output_names=["f"], dynamic_axes={"x": {0: "n"}, "f": {0: "n"}})
