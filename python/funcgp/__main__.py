"""python -m funcgp is the command gpexplain."""

import os
import subprocess
import sys

from .command import binary
from .errors import Error

try:
    command = [binary(), *sys.argv[1:]]
except Error as e:
    sys.exit(str(e))
if os.name == "posix":
    os.execv(command[0], command)
sys.exit(subprocess.call(command))
