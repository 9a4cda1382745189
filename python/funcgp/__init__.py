"""Explains the predictions of trained networks as sums over their training rows, with calibrated uncertainty.

    import funcgp

    a = funcgp.fit(model, X, y, weight_decay=1e-3)  # an nn.Module, an ONNX file, an MLP of scikit-learn
    p = a.predict(X_test)                           # p.probability, p.novelty.score; p.frame()
    e = a.explain(X_test[0])                        # e.terms, e.without([3, 17]), e.smallest_flip()
    a.save("model.gp")                              # funcgp.open("model.gp")
"""

from .errors import Error, FitWarning
from .estimators import Classifier, Regressor
from .fitting import fit
from .posterior import Posterior, open
from .results import Explanation, Prediction, Report, Without

__version__ = "0.1.0"
__all__ = [
    "Classifier",
    "Error",
    "Explanation",
    "FitWarning",
    "Posterior",
    "Prediction",
    "Regressor",
    "Report",
    "Without",
    "fit",
    "open",
]
