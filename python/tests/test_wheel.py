"""A wheel is built without isolation and installed without a network, with the command inside."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from common import HERE
from funcgp.command import binary

PYTHON = os.path.dirname(HERE)


def has(module):
    return subprocess.run([sys.executable, "-c", f"import {module}"], stderr=subprocess.DEVNULL).returncode == 0


@unittest.skipUnless(shutil.which("make") and shutil.which("go"), "there is no make, or no Go to say the platform")
@unittest.skipUnless(
    all(map(has, ["pip", "setuptools", "wheel", "venv"])), "pip, setuptools, wheel or venv are missing"
)
class TestWheel(unittest.TestCase):
    def test_wheel(self):
        with tempfile.TemporaryDirectory() as folder:
            source, dist, place = (os.path.join(folder, name) for name in ("source", "dist", "place"))
            shutil.copytree(PYTHON, source, ignore=shutil.ignore_patterns("tests", "bin", "build"))
            command = ["make", "-s", "wheel", f"PYTHON={sys.executable}", f"OUT={dist}", f"BINARY={binary()}"]
            subprocess.run(command, cwd=source, check=True, stdout=subprocess.DEVNULL)
            self.assertFalse({"build", "setup.cfg"} & set(os.listdir(source)))
            (wheel,) = os.listdir(dist)
            self.assertRegex(wheel, r"^funcgp-[0-9.]+-py3-none-(manylinux|macosx|win)\w+\.whl$")
            subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", place], check=True)
            python = os.path.join(place, "Scripts" if os.name == "nt" else "bin", "python")
            environment = {k: v for k, v in os.environ.items() if k not in ("FUNCGP_BINARY", "PYTHONPATH")}
            environment.update(PATH=os.path.dirname(python), PYTHONPATH=HERE)

            def run(*args):
                done = subprocess.run(
                    [python, *args], check=True, env=environment, cwd=folder, stdout=subprocess.PIPE, text=True
                )
                return done.stdout.strip()

            run("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", os.path.join(dist, wheel))
            self.assertIn(place, run("-c", "import funcgp; print(funcgp.__file__)"))
            self.assertIn(place, run("-c", "import funcgp.command; print(funcgp.command.binary())"))
            self.assertIn("gpexplain", run("-m", "funcgp", "--version"))
            self.assertEqual(
                run("-W", "ignore", "-c", "from common import *; print(len(fitted().predict(rows()[0])))"), "40"
            )


if __name__ == "__main__":
    unittest.main()
