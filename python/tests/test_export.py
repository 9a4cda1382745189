"""What is read from a training, and what is refused or warned of when a module is exported."""

import unittest
import warnings

import numpy as np

import funcgp
from common import rows
from funcgp import export

try:
    import torch
    from torch import nn
except ImportError:
    torch = None


def fit(module, X, y, **options):
    """A posterior, with the codes of its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        return funcgp.fit(module, X, y, progress=False, **options), [getattr(w.message, "code", "") for w in caught]


@unittest.skipIf(torch is None, "PyTorch is not installed")
class TestExport(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.X, self.y = rows()
        self.net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))

    def refused(self, code, module, X=None, argument="model"):
        with self.assertRaises(funcgp.Error) as e:
            fit(module, self.X if X is None else X, self.y)
        self.assertEqual((e.exception.code, e.exception.argument), (code, argument), str(e.exception))
        return str(e.exception)

    def test_decay(self):
        decay = lambda kind, **options: export.decay_of(kind(self.net.parameters(), lr=0.1, **options))
        self.assertEqual(decay(torch.optim.Adam, weight_decay=0.1), 0.1)
        self.assertEqual(decay(torch.optim.SGD, weight_decay=0.2), 0.2)
        self.assertIsNone(decay(torch.optim.SGD))
        self.assertIsNone(decay(torch.optim.AdamW, weight_decay=0.1))
        groups = [dict(params=[self.net[0].weight], weight_decay=0.1), dict(params=[self.net[0].bias])]
        with self.assertWarns(funcgp.FitWarning):
            self.assertIsNone(export.decay_of(torch.optim.Adam(groups)))

    def test_loss(self):
        self.assertEqual(export.loss_of(nn.CrossEntropyLoss()), ("categorical", "mean"))
        self.assertEqual(export.loss_of(nn.MSELoss(reduction="sum")), ("gaussian", "sum"))
        self.assertEqual(export.loss_of(nn.functional.binary_cross_entropy), ("bernoulli", "mean"))
        self.assertEqual(export.loss_of(nn.L1Loss()), (None, "mean"))

    def test_sum_is_mean(self):
        """A decay λ of a sum of N losses says what λ/N of their mean does."""
        said = []
        for loss, decay in ((nn.CrossEntropyLoss(), 0.1), (nn.CrossEntropyLoss(reduction="sum"), 0.1 * 40)):
            a, _ = fit(self.net, self.X, self.y, weight_decay=decay, loss=loss, at="stated")
            said.append(a.evidence()["prior_precision"])
        np.testing.assert_allclose(said, 4)
        Y = np.stack([self.X[:, 0], self.X[:, 1]], 1)
        said.clear()
        for loss, decay in ((nn.MSELoss(), 0.1), (nn.MSELoss(reduction="sum"), 0.1 * 80)):
            a, _ = fit(self.net, self.X, Y, weight_decay=decay, loss=loss, at="stated", noise_variance=0.5)
            said.append(a.evidence()["prior_precision"])
        np.testing.assert_allclose(said, 2 * 40 * 0.1 / (2 * 0.5))

    def test_class_weights(self):
        """Weights of classes are read from the loss, or said by class or in order; PyTorch's mean divides by their sum."""
        weight = torch.tensor([1.0, 3.0])
        total = float(weight[torch.as_tensor(self.y).long()].sum())
        losses = (nn.CrossEntropyLoss(weight), 0.1), (nn.CrossEntropyLoss(weight, reduction="sum"), 0.1 * total)
        for loss, decay in losses:
            a, _ = fit(self.net, self.X, self.y, weight_decay=decay, loss=loss, at="stated")
            np.testing.assert_allclose(a.evidence()["prior_precision"], 0.1 * total)
        evidence = a.evidence()["log_likelihood"]
        for weights in ({1: 3}, [1, 3], np.array([1, 3]), weight):
            a, _ = fit(self.net, self.X, self.y, prior_precision=0.1 * total, class_weights=weights)
            np.testing.assert_allclose(a.evidence()["log_likelihood"], evidence)
        plain, _ = fit(self.net, self.X, self.y, prior_precision=0.1 * total)
        self.assertGreater(plain.evidence()["log_likelihood"], evidence + 1)
        self.assertEqual(export.weights_of(nn.BCEWithLogitsLoss(pos_weight=torch.tensor(2.5))), [1, 2.5])
        smooth, _ = fit(self.net, self.X, self.y, prior_precision=1, loss=nn.CrossEntropyLoss(label_smoothing=0.2))
        said, _ = fit(self.net, self.X, self.y, prior_precision=1, label_smoothing=0.2)
        self.assertEqual(smooth.evidence()["log_likelihood"], said.evidence()["log_likelihood"])
        for wrong in ([1, 2, 3], {7: 2}):
            with self.assertRaises(funcgp.Error) as e:
                fit(self.net, self.X, self.y, class_weights=wrong)
            self.assertIn("class_weights", str(e.exception))

    def test_soft_labels(self):
        """A network that was trained on shares of the classes is an optimum of what its posterior is fitted to."""
        shares = np.exp(self.X[:, :2]) / np.exp(self.X[:, :2]).sum(1, keepdims=True)
        X, y = torch.as_tensor(self.X, dtype=torch.float32), torch.as_tensor(shares, dtype=torch.float32)
        optimizer = torch.optim.Adam(self.net.parameters(), lr=0.02, weight_decay=1e-2)
        loss = nn.CrossEntropyLoss(label_smoothing=0.1)
        for _ in range(1500):
            optimizer.zero_grad()
            loss(self.net(X), y).backward()
            optimizer.step()
        a, codes = fit(self.net, self.X, shares, optimizer=optimizer, loss=loss)
        self.assertEqual(codes, [])
        self.assertLess(a.evidence()["gradient_norm"], 1e-2)
        np.testing.assert_allclose(a.evidence()["prior_precision"], 1e-2 * len(self.X))
        self.assertEqual(a.predict(self.X).probability.shape, (len(self.X), 2))

    def test_several_labels(self):
        """A network that was trained on labels of which a row has any number, by a mean over all of them or the sum."""
        Y = np.stack([self.X[:, 0] > 0, self.X[:, 1] > 0.5], 1).astype(float)
        X, y = torch.as_tensor(self.X, dtype=torch.float32), torch.as_tensor(Y, dtype=torch.float32)
        optimizer = torch.optim.Adam(self.net.parameters(), lr=0.02, weight_decay=1e-2)
        for _ in range(1500):
            optimizer.zero_grad()
            nn.BCEWithLogitsLoss()(self.net(X), y).backward()
            optimizer.step()
        a, codes = fit(
            self.net, self.X, Y, optimizer=optimizer, loss=nn.BCEWithLogitsLoss(), target_names=["hot", "high"]
        )
        b, _ = fit(self.net, self.X, Y, weight_decay=1e-2 * Y.size, loss=nn.BCEWithLogitsLoss(reduction="sum"))
        self.assertEqual(codes, [])
        for one in (a, b):
            self.assertLess(one.evidence()["gradient_norm"], 1e-2)
            np.testing.assert_allclose(one.evidence()["prior_precision"], 1e-2 * Y.size)
        self.assertEqual((a.labels, b.labels, a.classes), (["hot", "high"], ["y0", "y1"], None))
        p = a.predict(self.X)
        self.assertIsNone(p.class_)
        np.testing.assert_allclose(p.map_probability, torch.sigmoid(self.net(X)).detach().numpy(), atol=2e-6)
        e = a.explain(self.X[3], output=1)
        self.assertEqual(e.title, "What speaks for and against high")
        self.assertEqual(e.without([1, 2]).probability.shape, (2,))
        log = [
            fit(self.net, self.X, Y, prior_precision=1, **more)[0].evidence()["log_likelihood"]
            for more in (
                dict(loss=nn.BCEWithLogitsLoss(pos_weight=torch.tensor([2.0, 3.0]))),
                dict(class_weights={"y0": 2, "y1": 3}),
                dict(class_weights=[2, 3], target_names=["a=b", "c,d"]),
                dict(loss=nn.BCEWithLogitsLoss(pos_weight=torch.tensor(2.0))),
                dict(class_weights=[2, 2]),
            )
        ]
        np.testing.assert_allclose(log, [log[0]] * 3 + [log[3]] * 2)
        self.assertLess(log[0], log[3] - 1e-3)

    def test_row_weights(self):
        """A row of weight 2 counts as two equal rows, and one of weight 0 as none."""
        weights = np.arange(len(self.X)) % 3
        a, _ = fit(self.net, self.X, self.y, row_weights=weights, prior_precision=2, refit=True, calibrate="none")
        times = np.repeat(np.arange(len(self.X)), weights)
        b, _ = fit(self.net, self.X[times], self.y[times], prior_precision=2, refit=True, calibrate="none")
        np.testing.assert_allclose(a.predict(self.X).mean, b.predict(self.X).mean, rtol=1e-9)
        np.testing.assert_allclose(a.evidence()["log_evidence"], b.evidence()["log_evidence"], rtol=1e-9)
        for wrong in (weights[1:], weights - 1.0, weights + np.nan):
            with self.assertRaises(funcgp.Error) as e:
                fit(self.net, self.X, self.y, row_weights=wrong)
            self.assertEqual(e.exception.argument, "row_weights")

    def test_no_function_of_a_row(self):
        class Choice(nn.Module):
            def __init__(self, net):
                super().__init__()
                self.net = net

            def forward(self, x):
                return self.net(x) if x.sum() > 1e6 or len(x) < 3 else -self.net(x)

        _, codes = fit(Choice(self.net), self.X, self.y)
        self.assertIn("not_as_module", codes)
        _, codes = fit(self.net, self.X, self.y)
        self.assertNotIn("not_as_module", codes)

    def test_refusals(self):
        class Two(nn.Module):
            def forward(self, x):
                return x, x

        class Sorted(nn.Module):
            def forward(self, x):
                return torch.histc(x).reshape(2, -1)

        self.assertIn("tuple", self.refused("bad_model", Two()))
        self.assertIn("[", self.refused("bad_model", nn.Unflatten(1, (3, 1))))
        with self.assertRaises(funcgp.Error) as kept:  # as a notebook keeps it
            fit(Sorted(), self.X, self.y)
        self.assertEqual((kept.exception.code, kept.exception.argument), ("not_exported", "model"))
        for _ in range(3):
            fit(self.net, self.X, self.y)
        self.refused("bad_rows", self.net, X=self.X[:, :2], argument="X")

    def test_modes_and_types(self):
        net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 2)).double()
        net[1].eval()
        a, codes = fit(net, torch.as_tensor(self.X), torch.as_tensor(self.y), standardize="no")
        self.assertEqual([m.training for m in net], [True, False, True, True])
        self.assertNotIn("not_as_module", codes)
        self.assertTrue(all(p.grad is None for p in net.parameters()))
        self.assertEqual(a.predict(torch.as_tensor(self.X[0])).probability.shape, (1, 2))

    def test_file(self):
        import os
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "net.onnx")
            with open(path, "wb") as file:
                file.write(export.to_onnx(self.net, self.X))
            by_path, _ = fit(path, self.X, self.y, standardize="no")
            by_module, _ = fit(self.net, self.X, self.y, standardize="no")
            np.testing.assert_array_equal(by_path.predict(self.X).probability, by_module.predict(self.X).probability)
            self.assertEqual(os.listdir(folder), ["net.onnx"])


if __name__ == "__main__":
    unittest.main()
