"""The notebook runs, and is kept without output."""

import ast
import json
import os
import shutil
import tempfile
import unittest
import warnings

from common import HERE

try:
    import pandas
    import torch
except ImportError:
    torch = None

NOTEBOOK = os.path.join(os.path.dirname(HERE), "examples", "loans.ipynb")


@unittest.skipIf(torch is None, "PyTorch or pandas is not installed")
class TestNotebook(unittest.TestCase):
    def test_loans(self):
        with open(NOTEBOOK, encoding="utf-8") as file:
            cells = [c for c in json.load(file)["cells"] if c["cell_type"] == "code"]
        names = {}
        was = os.getcwd()
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            os.chdir(folder)  # where it writes
            try:
                for k, cell in enumerate(cells):
                    self.assertEqual((cell["outputs"], cell["execution_count"]), ([], None))
                    source = "".join(cell["source"]).replace("../../doc", os.path.join(HERE, "..", "..", "doc"))
                    tree = ast.parse(source, f"cell {k}")
                    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
                    exec(compile(tree, f"cell {k}", "exec"), names)
                    if last:  # what a notebook shows
                        value = eval(compile(ast.Expression(last.value), f"cell {k}", "eval"), names)
                        show = getattr(value, "_repr_html_", None)
                        self.assertTrue(show() if show else repr(value))
                self.assertEqual(sorted(os.listdir(folder)), ["loan.html", "loans.gp"])
                self.assertEqual(names["p"].classes, ["default", "repaid"])
            finally:
                os.chdir(was)

    def test_page(self):
        """What doc/from-pytorch.md begins with, after train.py."""
        doc = os.path.join(HERE, "..", "..", "doc")
        with open(os.path.join(doc, "from-pytorch.md"), encoding="utf-8") as page:
            code = page.read().split("```py\n")[1].split("```")[0]
        with open(os.path.join(doc, "examples", "pytorch", "train.py"), encoding="utf-8") as file:
            code = file.read().replace("range(3000)", "range(300)") + code
        self.assertLessEqual(len([line for line in code.split("import funcgp")[1].splitlines() if line.strip()]), 6)
        was = os.getcwd()
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shutil.copy(os.path.join(doc, "examples", "pytorch", "train.csv"), folder)
            os.chdir(folder)
            try:
                exec(compile(code, "page", "exec"), {})
                self.assertLess({"loan.html", "loans.gp"}, set(os.listdir(folder)))
            finally:
                os.chdir(was)


if __name__ == "__main__":
    unittest.main()
