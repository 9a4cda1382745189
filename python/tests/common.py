"""Rows and networks that need NumPy alone, and programs of tests."""

import os
import subprocess
import sys
import tempfile
import warnings

import numpy as np

import funcgp
from funcgp import onnx

HERE = os.path.dirname(os.path.abspath(__file__))


def rows(n=40, classes=2, seed=0):
    """Rows of classes that a line tells apart, mostly."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    return rng.normal(size=(n, 3)) + y[:, None] * np.array([1.5, -1, 0]), y


def network(outputs=2, hidden=4, seed=0):
    """A file of a small network of three inputs, which nobody trained."""
    rng = np.random.default_rng(seed)
    w = [
        rng.normal(size=(3, hidden)),
        rng.normal(size=hidden),
        rng.normal(size=(hidden, outputs)),
        rng.normal(size=outputs),
    ]
    nodes = [
        ("MatMul", ["x", "w0"], "a"),
        ("Add", ["a", "b0"], "b"),
        ("Tanh", ["b"], "c"),
        ("MatMul", ["c", "w1"], "d"),
        ("Add", ["d", "b1"], "f"),
    ]
    return onnx.model(nodes, list(zip(["w0", "b0", "w1", "b1"], w)), 3, outputs)


def fitted(**options):
    """A posterior of both, without its warnings."""
    X, y = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return funcgp.fit(network(), X, y, progress=False, **options)


def program(text, **more):
    """Starts Python on a text, with TMPDIR a new folder that more or the caller removes."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([os.path.dirname(HERE), HERE]), **more)
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", text],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    )


def alive(pid):
    """Whether a process runs; one that ended and waits for its parent does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def folder():
    """A folder for TMPDIR with a path short enough for sockets."""
    return tempfile.TemporaryDirectory(prefix="t")
