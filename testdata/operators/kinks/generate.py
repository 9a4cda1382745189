"""Writes kinks.json: the derivatives that PyTorch takes in float64 where an operator has
none, or several: at kinks, jumps and ties. Each entry has an ONNX operator with its
attributes, its inputs without a batch dimension, and the gradient of the sum of the
results with respect to each input (0 for NaN).

    python3 generate.py    # with PyTorch 1.13; a second run writes the same bytes
"""

import json
import pathlib

import torch
import torch.nn.functional as F

entries = []


def add(name, operator, f, *inputs, opset=18, **attributes):
    """f gets the inputs with a batch dimension of one in the first."""
    x = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in inputs]
    y = f(x[0].unsqueeze(0), *x[1:])
    gradients = torch.autograd.grad(y.sum(), x, allow_unused=True)
    entries.append(
        {
            "name": name,
            "operator": operator,
            "opset": opset,
            "attributes": attributes,
            "shapes": [list(v.shape) for v in x],
            "inputs": [v.detach().flatten().tolist() for v in x],
            "gradients": [(torch.zeros_like(v) if g is None else g).flatten().nan_to_num().tolist() for v, g in zip(x, gradients)],
        }
    )


around = [-1.0, 0.0, 1.0]
add("relu", "Relu", F.relu, around)
add("leaky relu", "LeakyRelu", lambda x: F.leaky_relu(x, 0.25), around, alpha=0.25)
add("prelu", "PRelu", lambda x, w: F.prelu(x, w), around, [0.25])
add("elu", "Elu", lambda x: F.elu(x, 1.5), around, alpha=1.5)
add("celu", "Celu", lambda x: F.celu(x, 0.5), around, alpha=0.5)
add("abs", "Abs", torch.abs, around)
add("sign", "Sign", torch.sign, around)
add("floor", "Floor", torch.floor, [-0.5, 0.0, 1.0])
add("ceil", "Ceil", torch.ceil, [-0.5, 0.0, 1.0])
add("round", "Round", torch.round, [-0.5, 0.5, 1.5, 2.0])
add("softsign", "Softsign", F.softsign, around)
add("clip", "Clip", lambda x: torch.clamp(x, -0.5, 1.0), [-0.75, -0.5, 0.0, 1.0, 1.5], opset=7, min=-0.5, max=1.0)
add("clip at one number", "Clip", lambda x: torch.clamp(x, 1.0, 1.0), [0.5, 1.0, 1.5], opset=7, min=1.0, max=1.0)
add("hard sigmoid", "HardSigmoid", F.hardsigmoid, [-4.0, -3.0, 0.0, 3.0, 4.0], alpha=1 / 6)
add("hard swish", "HardSwish", F.hardswish, [-4.0, -3.0, 0.0, 3.0, 4.0])
add("thresholded relu", "ThresholdedRelu", lambda x: F.threshold(x, 0.5, 0.0), [0.25, 0.5, 0.75], alpha=0.5)
add("hard shrink", "Shrink", lambda x: F.hardshrink(x, 0.5), [-1.0, -0.5, 0.0, 0.5, 1.0], lambd=0.5)
add("soft shrink", "Shrink", lambda x: F.softshrink(x, 0.5), [-1.0, -0.5, 0.0, 0.5, 1.0], lambd=0.5, bias=0.5)
add("maximum", "Max", torch.maximum, [1.0, 2.0, 3.0], [2.0, 2.0, 2.0])
add("minimum", "Min", torch.minimum, [1.0, 2.0, 3.0], [2.0, 2.0, 2.0])
add("maximum of itself", "Max", lambda x, y: torch.maximum(x, y), [0.0, -1.0], [0.0])
add("remainder", "Mod", torch.fmod, [4.0, -4.0, 5.0], [2.0, 2.0, -2.0], fmod=1)
for exponent in (0.0, 1.0, 2.0, 3.0):
    add(f"power {exponent:.0f}", "Pow", lambda x, p: torch.pow(x, p), [-2.0, 0.0, 2.0], exponent)
add("exponents of zero", "Pow", torch.pow, [0.0, 0.0, 2.0], [1.5, 2.5, 1.5])
add("exponents of a negative number", "Pow", torch.pow, [-2.0], [2.0])
ties = [[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]]
add("largest", "ReduceMax", lambda x: torch.amax(x, 2), ties, axes=[2], opset=13)
add("smallest", "ReduceMin", lambda x: torch.amin(x, 2), ties, axes=[2], opset=13)
add("largest of two axes", "ReduceMax", lambda x: torch.amax(x, (1, 2)), ties, axes=[1, 2], opset=13)
zeros = [[0.0, 0.0], [0.0, 2.0], [-3.0, 4.0]]
add("norm 1", "ReduceL1", lambda x: torch.linalg.vector_norm(x, 1, 2), zeros, axes=[2], opset=13)
add("norm 2", "ReduceL2", lambda x: torch.linalg.vector_norm(x, 2, 2), zeros, axes=[2], opset=13)
add("sum of squares", "ReduceSumSquare", lambda x: (x * x).sum(2), zeros, axes=[2], opset=13)
add("product", "ReduceProd", lambda x: torch.prod(x, 2), [[2.0, 3.0, 4.0], [2.0, 0.0, 4.0], [0.0, 0.0, 4.0], [0.0, 0.0, 0.0]], axes=[2], opset=13)
add("logarithm of a sum", "ReduceLogSumExp", lambda x: torch.logsumexp(x, 2), ties, axes=[2], opset=13)
image = [[[1.0, 2.0, 2.0, 2.0], [2.0, 1.0, 2.0, 2.0], [0.0, 0.0, 5.0, 0.0], [0.0, 0.0, 5.0, 5.0]]]
add("pool", "MaxPool", lambda x: F.max_pool2d(x, 2), image, kernel_shape=[2, 2], strides=[2, 2])
add("overlapping pool", "MaxPool", lambda x: F.max_pool2d(x, 3, 1, 1), image, kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
add("pool of everything", "GlobalMaxPool", lambda x: F.adaptive_max_pool2d(x, 1), image)

text = ",\n".join(json.dumps(e) for e in entries)
(pathlib.Path(__file__).parent / "kinks.json").write_text(f'{{"torch": "{torch.__version__}", "entries": [\n{text}\n]}}\n')
