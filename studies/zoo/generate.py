"""Trains the model zoo and exports it, one folder a model.

    /usr/bin/python3 generate.py [-data DIR] [-out DIR] [MODEL ...]

Made with Debian's python3-torch 1.13, python3-torchvision 0.14 and python3-onnx 1.12. DIR of
-data holds the folders mnist and uci. Each network is trained by Adam and then by L-BFGS in
float64 on Σ −log p(y|f) + ½δ‖θ‖² so that θ* is near a mode of the prior that the
posterior takes. A folder holds model.onnx (float32), model64.onnx (float64, of the same numbers),
rows.npz and expected.json with PyTorch's outputs in float64 at the test rows.
"""

import argparse
import copy
import json
import math
import os
import sys
import time
import warnings

import numpy as np
import onnx
import torch
import torch.fx.experimental.optimization
from torch import nn

from data import digits, items, table, tokens
from models import MODELS

warnings.filterwarnings("ignore")
torch.set_num_threads(1)


def negative_log_likelihood(kind, f, y):
    if kind == "categorical":
        return nn.functional.cross_entropy(f, y, reduction="sum")
    if kind == "bernoulli":
        return nn.functional.binary_cross_entropy_with_logits(f[:, 0], y.double(), reduction="sum")
    return 0.5 * ((f - y.reshape(f.shape)) ** 2).sum() / NOISE


NOISE = 0.01  # variance of the Gaussian likelihoods


def train(spec, model, inputs, y, steps, rate):
    """Brings model near a mode; returns the norm of the gradient there. Batch normalization
    learns its statistics by Adam and is then folded into the convolutions before it, as the
    exporter does, so that the parameters of the last steps are those of the file."""
    model.double()
    pick = spec.get("pick", lambda f: f)

    def objective(m):
        p = [v for v in m.parameters() if v.requires_grad]
        return negative_log_likelihood(spec["likelihood"], pick(m(*inputs)).flatten(1), y) + 0.5 * spec["delta"] * sum((v**2).sum() for v in p)

    model.train()
    adam = torch.optim.Adam(model.parameters(), rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps, rate / 20)
    for _ in range(steps):
        adam.zero_grad()
        objective(model).backward()
        adam.step()
        schedule.step()
    model.eval()
    if spec.get("fold"):
        model = torch.fx.experimental.optimization.fuse(model)
        for m in list(model.modules()):  # fusing registers biases without gradients
            for p in m.parameters():
                p.requires_grad_(True)
    lbfgs = torch.optim.LBFGS(model.parameters(), 1, spec.get("polish", 300), history_size=50, tolerance_grad=1e-6, line_search_fn="strong_wolfe")

    def closure():
        lbfgs.zero_grad()
        value = objective(model)
        value.backward()
        return value

    lbfgs.step(closure)
    closure()
    return model, math.sqrt(sum(float((p.grad**2).sum()) for p in model.parameters() if p.grad is not None))


def export(spec, model, inputs, path, dtype):
    model = copy.deepcopy(model).to(dtype)
    x = tuple(v[:2].to(dtype) if v.is_floating_point() else v[:2] for v in inputs)
    names, outputs = spec.get("inputs", ["x"]), spec.get("outputs", ["f"])
    torch.onnx.export(model, x, path, opset_version=spec.get("opset", 17), input_names=names, output_names=outputs,
                      dynamic_axes={k: {0: "batch"} for k in names + outputs})
    if spec.get("external"):
        m = onnx.load(path)
        onnx.save_model(m, path, save_as_external_data=True, all_tensors_to_one_file=True, location=os.path.basename(path) + ".data", size_threshold=64)


def flat(inputs):
    """The inputs of an example side by side, or the single input as it is."""
    if len(inputs) == 1:
        return inputs[0].numpy()
    return np.concatenate([v.reshape(len(v), -1).double().numpy() for v in inputs], 1)


def make(name, spec, where, out):
    began = time.time()
    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    (xs, y), (test, y_test) = {"digits": digits, "table": table, "tokens": tokens, "items": items}[spec["data"]](where, rng, **spec.get("rows", {}))
    model, norm = train(spec, spec["make"](), xs, y, spec.get("steps", 200), spec.get("rate", 0.01))
    with torch.no_grad():
        for v in list(model.parameters()) + list(model.buffers()):
            if v.is_floating_point():
                v.copy_(v.float().double())
        pick = spec.get("pick", lambda f: f)
        f, fitted = pick(model(*test)).flatten(1), pick(model(*xs)).flatten(1)
    folder = os.path.join(out, name)
    os.makedirs(folder, exist_ok=True)
    for old in os.listdir(folder):
        os.remove(os.path.join(folder, old))
    export(spec, model, xs, os.path.join(folder, "model.onnx"), torch.float32)
    export(spec, model, xs, os.path.join(folder, "model64.onnx"), torch.float64)
    np.savez(os.path.join(folder, "rows.npz"), x_train=flat(xs), y_train=y.numpy(), x_test=flat(test), y_test=y_test.numpy())
    if spec["likelihood"] == "gaussian":
        score = {"test_rmse": float(((f - y_test.reshape(f.shape)) ** 2).mean().sqrt()), "train_rmse": float(((fitted - y.reshape(f.shape[0] * 0 + len(fitted), -1)) ** 2).mean().sqrt())}
    else:
        of = (lambda v: v.argmax(1)) if f.shape[1] > 1 else (lambda v: (v[:, 0] > 0).long())
        score = {"test_accuracy": float((of(f) == y_test).double().mean()), "train_accuracy": float((of(fitted) == y).double().mean())}
    expected = {"what": spec["what"], "likelihood": spec["likelihood"], "prior_precision": spec["delta"], "noise_variance": NOISE if spec["likelihood"] == "gaussian" else None,
                "output": spec.get("outputs", [""])[spec.get("output", 0)] if "outputs" in spec else "", "gradient_norm": norm, "learnt": sum(p.numel() for p in model.parameters()),
                "opset": spec.get("opset", 17), "train_rows": len(y), **score, "x": flat(test).reshape(len(f), -1).tolist(), "f": f.tolist()}
    with open(os.path.join(folder, "expected.json"), "w") as file:
        json.dump(expected, file, indent=1)
    print(f"{name}: {expected['learnt']} parameters, gradient {norm:.1e}, {score}, {time.time() - began:.0f} s", flush=True)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("-data", default="../../../shared/data")
    a.add_argument("-out", default="cache")
    a.add_argument("models", nargs="*")
    o = a.parse_args()
    for name in o.models:
        if name not in MODELS:
            sys.exit(f"no model is named {name}; there are {', '.join(MODELS)}")
    for name, spec in MODELS.items():
        if not o.models or name in o.models:
            make(name, spec, o.data, o.out)


if __name__ == "__main__":
    main()
