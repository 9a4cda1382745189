"""Writes weighted.onnx, train.csv and test.csv: a network of two outputs, trained with class weights 1 and 3.2."""
import numpy as np, torch, torch.nn as nn

rng = np.random.default_rng(9)
torch.manual_seed(9)


def rows(n, path):
    y = (rng.random(n) < 0.24).astype(int)
    x = np.round(rng.normal(size=(n, 3)) + y[:, None] * np.array([1.2, 0.6, 0]), 3)
    with open(path, "w") as f:
        f.write("u,v,w,class\n" + "".join("%g,%g,%g,%d\n" % (*a, b) for a, b in zip(x, y)))
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


x, y = rows(600, "train.csv")
rows(300, "test.csv")
net = nn.Sequential(nn.Linear(3, 12), nn.Tanh(), nn.Linear(12, 2))
loss, adam = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 3.2])), torch.optim.Adam(net.parameters(), 1e-2, weight_decay=1e-4)
for _ in range(400):
    adam.zero_grad()
    loss(net(x), y).backward()
    adam.step()
torch.onnx.export(net, x[:2], "weighted.onnx", input_names=["x"], output_names=["f"], dynamic_axes={"x": {0: "n"}, "f": {0: "n"}})
