"""The jobs of gpstudies limits in float64 PyTorch, by hand: the Jacobian by the layers' formulas once, one product for
the kernel, one Cholesky factor, one triangular solve. Reads parameters, targets and inputs, then does the job for each
line that it reads and answers in JSON."""

import json
import sys
import time

import torch
import torch.nn.functional as F

PRECISION = 10

job, threads, P = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(threads)
C = job["C"]


def read(*shape):
    size = 8 * torch.Size(shape).numel()
    return torch.frombuffer(bytearray(sys.stdin.buffer.read(size)), dtype=torch.float64).view(shape)


theta, y, x_train, x_test = read(P), read(job["N"]), read(job["N"], 784), read(job["T"], 784)

# The layers with weights: kind, weight, bias, and where they are in theta.
layers, at = [], 0
channels, side = 1, 28
for filters in job["Filters"] or []:
    layers.append(("conv", (filters, channels, 5, 5)))
    channels, side = filters, (side - 4) // 2
width = channels * side * side
for units in job["Units"]:
    layers.append(("dense", (units, width)))
    width = units
for i, (kind, shape) in enumerate(layers):
    size = torch.Size(shape).numel()
    layers[i] = (kind, theta[at : at + size].view(shape), theta[at + size : at + size + shape[0]], at)
    at += size + shape[0]
assert at == P


def outputs_and_jacobian(x):
    """f, N×C, and J, N×C×P."""
    n = len(x)
    h = x.view(n, 1, 28, 28)
    inputs, results = [], []
    for i, (kind, weight, bias, _) in enumerate(layers):
        if kind == "dense":
            h = h.reshape(n, -1)
        inputs.append(F.unfold(h.detach(), 5).transpose(1, 2) if kind == "conv" else h.detach())
        z = F.conv2d(h, weight, bias) if kind == "conv" else F.linear(h, weight, bias)
        if i == 0:
            z.requires_grad_()
        results.append(z)
        h = F.max_pool2d(F.relu(z), 2) if kind == "conv" else F.relu(z)
    f = results[-1]
    jacobian = torch.empty(n, C, P, dtype=torch.float64)
    for c in range(C):
        gradients = torch.autograd.grad(f[:, c].sum(), results, retain_graph=c + 1 < C)
        for (kind, weight, bias, at), a, g in zip(layers, inputs, gradients):
            m, end = len(bias), at + weight.numel()
            if kind == "conv":
                g = g.reshape(n, m, -1)
                jacobian[:, c, at:end] = torch.bmm(g, a).view(n, -1)
                g = g.sum(2)
            else:
                torch.mul(g[:, :, None], a[:, None, :], out=jacobian[:, c, at:end].view(n, m, -1))
            jacobian[:, c, end : end + m] = g
    return f.detach(), jacobian


def sites(f):
    """Residual, N×C, Λ and its root R, N×C×C."""
    if C == 1:
        p = torch.sigmoid(f)
        variance = (p * (1 - p))[:, :, None]
        return y[:, None] - p, variance, variance.sqrt()
    p = torch.softmax(f, 1)
    root = torch.diag_embed(p.sqrt()) - p[:, :, None] * p.sqrt()[:, None, :]
    return F.one_hot(y.long(), C) - p, root @ root.transpose(1, 2), root


def fit():
    f, J = outputs_and_jacobian(x_train)
    n = len(f)
    flat = J.view(n * C, P)
    K = (flat @ flat.T).div_(PRECISION)
    residual, variance, root = sites(f)

    def by_root(a):
        """Rᵀa"""
        if C == 1:
            return root.view(n, 1) * a
        return torch.bmm(root.transpose(1, 2), a.reshape(n, C, -1)).view(n * C, -1)

    B = by_root(by_root(K).T)
    B.diagonal().add_(1)
    L = torch.linalg.cholesky(B)
    mean = f - (flat @ theta).view(n, C)  # the prior mean at zero weights
    b = (residual + torch.bmm(variance, (f - mean)[:, :, None])[:, :, 0]).view(-1, 1)
    solved = torch.cholesky_solve(by_root(K @ b), L)
    alpha = b - torch.bmm(root, solved.view(n, C, 1)).view(-1, 1)
    return flat, L, by_root, alpha


def predict(posterior):
    flat, L, by_root, _ = posterior
    f, J = outputs_and_jacobian(x_test)
    t = len(f)
    cross = (flat @ J.view(t * C, P).T).div_(PRECISION)
    V = torch.linalg.solve_triangular(L, by_root(cross), upper=False)
    if C == 1:
        cov = J.square().sum(2).div_(PRECISION) - V.square().sum(0)[:, None]
        return f, cov[:, :, None]
    V = V.view(-1, t, C).permute(1, 2, 0)
    return f, torch.bmm(J, J.transpose(1, 2)).div_(PRECISION) - torch.bmm(V, V.transpose(1, 2))


def peak():
    with open("/proc/self/status") as f:
        return sum(int(line.split()[1]) << 10 for line in f if line.startswith("VmHWM"))


for _ in sys.stdin.buffer:
    start = time.perf_counter()
    posterior = fit()
    between = time.perf_counter()
    f, cov = predict(posterior)
    end = time.perf_counter()
    stages = [{"Part": "fit", "Seconds": between - start}, {"Part": "predict", "Seconds": end - between}]
    check = cov.diagonal(dim1=1, dim2=2).sum().item()
    print(json.dumps({"Version": torch.__version__, "Stages": stages, "Check": check, "Bytes": peak()}), flush=True)
    del posterior, f, cov
