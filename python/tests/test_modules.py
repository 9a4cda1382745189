"""Each module predicts as PyTorch does and as gpexplain predict does."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import warnings

import numpy as np

import funcgp
from funcgp import export
from funcgp.command import binary

try:
    import torch
    from modules import CASES
except ImportError:
    torch, CASES = None, {}


def network_of(posterior, module, X):
    """What the module says of rows, as map_probability or mean of a Prediction."""
    made = export.outputs(module, X)
    if posterior.classes is None:
        return made
    if made.shape[1] == 1:
        p = made if made.min() >= 0 and made.max() <= 1 else 1 / (1 + np.exp(-made))
        return np.hstack([1 - p, p])
    e = np.exp(made - made.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class TestModules(unittest.TestCase):
    def test_all(self):
        table = []
        for name, make in CASES.items():
            with self.subTest(name), warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                torch.manual_seed(0)
                module, X, y, options = make()
                was = [m.training for m in module.modules()]
                with funcgp.fit(module, X, y, progress=False, **options) as a:
                    self.assertEqual(was, [m.training for m in module.modules()])
                    self.assertNotIn("not_as_module", [getattr(w.message, "code", "") for w in caught])
                    p = a.predict(X)
                    rows = X
                    if name == "standardized":  # the answer is in units, and the module's is not
                        rows = ((X - X.mean(0)) / X.std(0)).astype(np.float32)
                    want = network_of(a, module, rows)
                    if name == "standardized":
                        want = want * y.std() + y.mean()
                    got = (p.mean if p.probability is None else p.map_probability).reshape(len(X), -1)
                    by_torch = np.abs(got - want).max() / max(1, np.abs(want).max())
                    self.assertLess(by_torch, 2e-6)  # float32 against float64
                    by_command = self.command(a, X, p)
                    self.assertLess(by_command, 1e-12)
                    e = a.explain(X[0])
                    self.assertTrue(np.isfinite(e.terms["value"]).all())
                    self.assertTrue(np.allclose(p.novelty.score[0], e.prediction.novelty.score[0]))
                    if p.probability is not None:
                        self.assertTrue(
                            np.allclose(e.prediction.probability[0], p.probability[0]),
                            "pictures have one scale in all requests",
                        )
                        self.assertIn(p.class_[0], y)
                    else:
                        self.assertTrue(np.allclose(e.prediction.mean[0], p.mean[0]))
                    s = e.sum
                    self.assertAlmostEqual(s["network"], s["prior_mean"] + s["contribution_sum"] + s["remainder"], 6)
                    table.append(
                        (name, by_torch, by_command, sorted({getattr(w.message, "code", "?") for w in caught}))
                    )
        for line in table:
            print("%-24s torch %.1e  command %.1e  warnings %s" % line, file=sys.stderr)

    def test_nothing_is_guessed(self):
        """Rows that the module takes as they are stay so: standardized by deviations over N − 1, of which no ONNX file tells."""
        rng = np.random.default_rng(3)
        X = rng.normal(size=(40, 3))
        X = (X - X.mean(0)) / X.std(0, ddof=1)
        torch.manual_seed(0)
        module = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
        with torch.no_grad():
            module[2].weight.mul_(10)  # as sure as a trained one
        y = module(torch.tensor(X, dtype=torch.float32)).argmax(1).numpy()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with funcgp.fit(module, X, y, progress=False) as a:
                p = a.predict(X).map_probability
        self.assertLess(np.abs(p - network_of(a, module, X.astype(np.float32))).max(), 1e-6)

    def command(self, a, X, p):
        """The largest difference from gpexplain predict, by the file that save writes."""
        with tempfile.TemporaryDirectory() as folder:
            file, rows = os.path.join(folder, "a.gp"), os.path.join(folder, "x.npy")
            a.save(file)
            np.save(rows, X.reshape(len(X), -1).astype(np.float64))
            out = subprocess.run(
                [binary(), "predict", "--json", "--quiet", "--posterior", file, "--input", rows],
                stdout=subprocess.PIPE,
                check=True,
            ).stdout
        lines = [json.loads(line) for line in out.splitlines()][:-1]
        if p.probability is not None:
            pairs = [(p.probability, "probability"), (p.probability_sd, "probability_sd")]
        else:
            pairs = [(p.observation_mean, "observation_mean"), (p.observation_sd, "observation_sd")]
        return max(np.abs(a.reshape(len(X), -1) - [line[member] for line in lines]).max() for a, member in pairs)

    def test_bind_and_output(self):
        """What a file leaves open, and a tensor of several."""

        class Open(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.hidden, self.last = torch.nn.Linear(3, 4), torch.nn.Linear(4, 1)

            def forward(self, x, gain):
                f = self.last(torch.tanh(self.hidden(x))) * gain
                return f, f.sigmoid()

        torch.manual_seed(0)
        module = Open()
        X = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
        with tempfile.TemporaryDirectory() as tmp:
            path = os.path.join(tmp, "open.onnx")
            names = dict(input_names=["x", "gain"], output_names=["f", "p"], dynamic_axes={"x": {0: "rows"}})
            torch.onnx.export(module, (torch.tensor(X), torch.tensor(2.0)), path, **names)
            given = dict(standardize="no", calibrate="none", progress=False)
            for gain in (2.0, -0.5):
                with funcgp.fit(path, X, X[:, 0] > 0, output="f", bind={"gain": gain}, **given) as a:
                    want = module(torch.tensor(X), torch.tensor(gain))[1].detach().numpy()
                    np.testing.assert_allclose(a.predict(X).map_probability[:, 1:], want, atol=2e-6)
            for wrong, word in (
                (dict(output="f"), "gain"),
                (dict(bind={"gain": 1}), "output"),
                (dict(output="f", bind={"grain": 1}), "grain"),
            ):
                with self.assertRaises(funcgp.Error) as e:
                    funcgp.fit(path, X, X[:, 0] > 0, **wrong, **given)
                self.assertIn(word, str(e.exception))


if __name__ == "__main__":
    unittest.main()
