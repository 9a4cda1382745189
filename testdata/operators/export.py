"""Exports small networks and records PyTorch's f and J beside them."""

import gzip
import io
import json
import struct
import tarfile
import warnings

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import nn

torch.set_num_threads(1)
warnings.filterwarnings("ignore")
ROWS = 3


def f32(v):
    """The float32 nearest to v, which is what an ONNX attribute holds."""
    return float(np.float32(v))


def safetensors(tensors, meta):
    header, blobs, at = {"__metadata__": meta}, [], 0
    for name, v in tensors.items():
        a = np.ascontiguousarray(v)
        b = a.tobytes()
        header[name] = {"dtype": {"float64": "F64", "int64": "I64"}[str(a.dtype)], "shape": list(a.shape), "data_offsets": [at, at + len(b)]}
        at += len(b)
        blobs.append(b)
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    return struct.pack("<Q", len(head)) + head + b"".join(blobs)


def archive(path, files):
    """Writes a compressed tar file that holds the same bytes whenever it is made."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as t:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    with open(path, "wb") as f, gzip.GzipFile("", "wb", 9, f, 0) as z:
        z.write(raw.getvalue())


def jacobian(model, inputs):
    """f, N×C, and J, N×C×P, in float64."""
    f = model(*inputs)
    f = f.reshape(len(f), -1)
    params = list(model.parameters())
    rows = []
    for n in range(f.shape[0]):
        for c in range(f.shape[1]):
            g = torch.autograd.grad(f[n, c], params, retain_graph=True, allow_unused=True)
            rows.append(torch.cat([(torch.zeros_like(p) if v is None else v).reshape(-1) for p, v in zip(params, g)]) if params else torch.zeros(0))
    return f.detach().numpy(), torch.stack(rows).reshape(*f.shape, -1).numpy()


def tensors_of(model):
    """All floating point tensors that a file holds, by name."""
    for t in model.graph.initializer:
        if t.data_type in (1, 11):
            yield t.name, numpy_helper.to_array(t).astype(np.float64).reshape(-1)
    for n in model.graph.node:
        if n.op_type == "Constant":
            for a in n.attribute:
                if a.name == "value" and a.t.data_type in (1, 11):
                    yield n.output[0], numpy_helper.to_array(a.t).astype(np.float64).reshape(-1)


def runs(columns):
    """Column numbers as [first, step, count], which are few after a permutation."""
    out = []
    for c in columns:
        if out and (out[-1][2] == 1 or c == out[-1][0] + out[-1][1] * out[-1][2]):
            if out[-1][2] == 1:
                out[-1][1] = c - out[-1][0]
            out[-1][2] += 1
        else:
            out.append([c, 0, 1])
    return out


def match(model, theta, approximate):
    """Finds the elements of theta in a file's tensors by their values, which are all
    different but for the zeros of padding. The exporter may transpose, join and rename
    tensors. Returns the tensors that hold parameters with the element of theta of each of
    their elements."""
    padding = np.flatnonzero(theta == 0)
    order = np.argsort(theta)
    if len(theta) > 1 and np.sum(np.diff(theta[order]) == 0) > max(len(padding) - 1, 0):
        raise ValueError("two parameters have the same value")
    found, left = {}, set(range(len(theta)))
    for name, v in tensors_of(model):
        zeros = np.flatnonzero(v == 0)
        if len(v) == 0 or len(padding) > 0 and len(zeros) > 0 and (len(zeros) != len(padding) or len(zeros) == len(v)):
            continue
        at = np.clip(np.searchsorted(theta[order], v), 1, max(len(theta) - 1, 1))
        near = np.stack([at - 1, np.minimum(at, len(theta) - 1)])
        best = near[np.argmin(np.abs(theta[order][near] - v), 0), np.arange(len(v))]
        if np.all(np.abs(theta[order][best] - v) <= approximate * (1 + np.abs(v))):
            columns = [int(order[i]) for i in best]
            for i, j in zip(zeros, padding):
                columns[i] = int(j)
            found[name] = runs(columns)
            left -= set(columns)
    return found, left


def randomize(model):
    """Gives every parameter a value of its own that float32 holds exactly, at the scale
    that it was made with."""
    with torch.no_grad():
        for p in model.parameters():
            centre, spread = float(p.mean()), max(float(p.std()) if p.numel() > 1 else 0, 0.15)
            p.copy_((centre + spread * torch.randn(p.shape)).float().to(p.dtype))
        for m in model.modules():
            if isinstance(m, (nn.Embedding, nn.EmbeddingBag)) and m.padding_idx is not None:
                m.weight[m.padding_idx] = 0  # as training leaves it
            if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.running_mean is not None:
                m.running_mean.copy_(0.3 * torch.randn(m.running_mean.shape))
                m.running_var.copy_(0.5 + torch.rand(m.running_var.shape))


def sample(shape, integers=None):
    if integers is not None:
        return torch.randint(0, integers, (ROWS, *shape))
    return torch.randn(ROWS, *shape).float().double()


def to(inputs, dtype):
    return tuple(x.to(dtype) if x.is_floating_point() else x for x in inputs)


class Group:
    """The cases of one archive."""

    def __init__(self):
        self.count, self.files = 0, []
        torch.manual_seed(0)  # for the values that modules are made with

    def add(self, name, model, *inputs, first=11, last=17, fold=True, fused=None, training=False, inexact="", rounded="", float32=True, double=True,
            blocks=None, outputs=None, refused=False, mode=None):
        """Exports model for inputs: shapes of one example, or tensors of ROWS examples.

        first, last: opsets that have what the case needs. fold: whether the exporter folds
        constants. fused: the network that is read, where the exporter joins
        layers or the reader leaves out the last. inexact: why float32
        exports differ from model in the last digits of float32; rounded: why all do. blocks: kind of Block of a
        parameter by its name, "" for any. outputs: the names, where there are several.
        refused: examples are mixed, and the network must not be read.
        """
        turn = self.count
        self.count += 1
        torch.manual_seed(1000 + turn)
        np.random.seed(turn)
        inputs = [sample(x) if isinstance(x, tuple) else x for x in inputs]
        model.double()
        randomize(model)
        model.train(training)
        reference = model if fused is None else fused(model)
        tensors, theta, exports = {}, np.concatenate([p.detach().numpy().reshape(-1) for p in reference.parameters()] or [np.zeros(0)]), []
        if not refused:
            x = to(inputs, torch.float64)
            for i, v in enumerate(x):
                tensors[f"x{i}"] = v.reshape(ROWS, -1).double().numpy()
            if outputs:
                for i, o in enumerate(outputs):
                    picked = Pick(reference, i)
                    tensors[f"f/{o}"], tensors[f"jacobian/{o}"] = jacobian(picked, x)
            else:
                tensors["f"], tensors["jacobian"] = jacobian(reference, x)
        span = last - first + 1
        plan = []
        if double:
            plan.append((torch.float64, 0, first + turn % span))
        if float32:
            plan.append((torch.float32, 0 if refused else (1, ROWS)[turn % 2], first + (turn + 1 + span // 2) % span))
        for dtype, batch, opset in plan:
            file = f"{str(dtype)[6:]}-opset{opset}" + (f"-batch{batch}" if batch else "") + ".onnx"
            data = self.export(model.to(dtype), to(inputs, dtype), batch, opset, fold, training, mode, outputs)
            m = onnx.load_model_from_string(data)
            entry = {"file": file, "batch": batch}
            if not refused:
                found, left = match(m, theta, 1e-6 if fused else 0)
                used = np.flatnonzero(np.any(np.concatenate([v.reshape(-1, len(theta)) for k, v in tensors.items() if k.startswith("jacobian")]) != 0, 0))
                if left & set(used.tolist()):
                    raise ValueError(f"{name}: parameters {sorted(left)[:9]} are not in {file}")
                entry["params"] = found
                if rounded or inexact and dtype == torch.float32:
                    entry["inexact"] = rounded or inexact
            exports.append(entry)
            self.files.append((f"{name}/{file}", data))
        meta = {"exports": json.dumps(exports, separators=(",", ":"))}
        if refused:
            meta["refused"] = "yes"
        if not refused:
            meta["parameters"] = json.dumps(layout(reference.double(), x, blocks or {}, sum(v.shape[1] for k, v in tensors.items() if k[:2] in ("f", "f/"))), separators=(",", ":"))
        self.files.append((f"{name}/reference.safetensors", safetensors(tensors, meta)))

    @staticmethod
    def export(model, inputs, batch, opset, fold, training, mode, outputs):
        names = ["x"] if len(inputs) == 1 else [f"x{i}" for i in range(len(inputs))]
        results = outputs or ["f"]
        buffer = io.BytesIO()
        modes = torch.onnx.TrainingMode
        torch.onnx.export(model, tuple(x[:batch] if batch else x for x in inputs), buffer, opset_version=opset, do_constant_folding=fold,
                          training=mode or (modes.TRAINING if training else modes.EVAL), input_names=names, output_names=results,
                          dynamic_axes=None if batch else {k: {0: "batch"} for k in names + results})
        return buffer.getvalue()


def layout(model, inputs, blocks, outputs):
    """The parameters in the order of J: name, size, and the kind of Block that a layer has
    which is run once; blocks has those of other parameters. The columns of J of a layer that
    is run at several positions are kept, as Full, where its factors take a third of their
    memory or more."""
    kind, hooks = {}, []

    def hook(prefix):
        def note(module, given, result):
            positions = result[0].numel() // (module.out_features if type(module) is nn.Linear else module.out_channels)
            names = [prefix + "weight"] + ([prefix + "bias"] if module.bias is not None else [])
            if type(module) is nn.Linear and given[0].ndim > 2:
                names = names[:1]  # the bias is added by a node of its own
            width = sum(module.get_parameter(n[len(prefix):]).numel() for n in names)
            structured = width * outputs > 3 * (result[0].numel() * outputs + given[0][0].numel())
            k = "" if positions == 1 else "Conv" if structured else "Full"
            if type(module) is nn.Linear and given[0].ndim == 2:
                k = "Outer"
            for n in names:
                kind[n] = "" if n in kind else k
        return note

    for name, m in model.named_modules():
        if "weight" in m._parameters and type(m) in (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d):
            hooks.append(m.register_forward_hook(hook(name + "." if name else "")))
    model(*inputs)
    for h in hooks:
        h.remove()
    kind.update(blocks)
    return [[name, p.numel(), kind.get(name, "")] for name, p in model.named_parameters()]


class Pick(nn.Module):
    """One of a network's outputs."""

    def __init__(self, model, i):
        super().__init__()
        self.__dict__["model"], self.i = model, i

    def parameters(self, recurse=True):
        return self.model.parameters()

    def forward(self, *x):
        return self.model(*x)[self.i]


class Fn(nn.Module):
    """A function of its own parameters, buffers and modules, and of the inputs."""

    def __init__(self, function, buffers=None, **members):
        super().__init__()
        self.function = function
        for k, v in members.items():
            setattr(self, k, nn.Parameter(v) if isinstance(v, torch.Tensor) else v)
        for k, v in (buffers or {}).items():
            self.register_buffer(k, v)

    def forward(self, *x):
        return self.function(self, *x)
