"""The private folder of this process: files of fits and sockets of servers."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
import threading
from typing import IO, Any, Callable, Optional, Set

from .errors import Error

# Reads the ids of the commands that run, a line for each change, until this process is gone; then ends these and
# removes the folder. A shell does this in a session of its own, so that nothing is left even after SIGKILL.
_WATCH = (
    'trap "" INT TERM HUP; p=; while read -r l; do p=$l; done; [ -z "$p" ] || kill -9 $p 2>/dev/null; rm -rf -- "$1"'
)


def has_surrogates(text: str) -> bool:
    """Whether a text has what UTF-8 cannot write, as paths may have."""
    return any("\ud800" <= c <= "\udfff" for c in text)


def path_of(path: Any) -> str:
    """The path that a user gives."""
    text = os.fsdecode(path)
    if "\0" in text or not text:
        raise Error("bad_argument", f"{text!r} is no path", "give the path of a file", "path")
    return text


def remove(path: str) -> None:
    """Removes a file if it is there."""
    if path and os.path.exists(path):
        os.unlink(path)


def not_started(program: str, e: OSError) -> Error:
    """Why a program does not run."""
    remedy = "free memory, processes or files, or install it again"
    return Error("not_started", f"{program} does not start: {e.strerror or e}", remedy)


def no_room(path: str, e: OSError) -> Error:
    """Why there is no file in a folder of temporary files."""
    remedy = "free some space there, or set TMPDIR to a folder with room before Python starts"
    return Error("no_room", f"the folder {path} takes no file: {e.strerror or e}", remedy)


class Folder:
    """A folder of mode 0700 that goes when this process ends, however it ends, with the commands that it runs."""

    def __init__(self) -> None:
        try:
            self.path = tempfile.mkdtemp(prefix="funcgp-")
            if len(self.path) > 80:  # the path of a Unix socket has about 100 bytes
                os.rmdir(self.path)
                self.path = tempfile.mkdtemp(prefix="funcgp-", dir="/tmp")
        except OSError as e:
            raise no_room("of temporary files", e) from e
        self._pids: Set[int] = set()
        self._lock = threading.Lock()
        self._count = 0
        self._watch: Optional[subprocess.Popen[bytes]] = None
        if os.name == "posix":
            try:
                self._watch = subprocess.Popen(
                    ["/bin/sh", "-c", _WATCH, "sh", self.path],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    bufsize=0,
                    env={"PATH": os.defpath},
                    start_new_session=True,
                )
            except OSError as e:
                os.rmdir(self.path)
                raise not_started("/bin/sh", e) from e

    def new(self, ending: str = "") -> str:
        """A path in the folder that nothing has yet."""
        with self._lock:
            self._count += 1
            return os.path.join(self.path, f"{self._count}{ending}")

    def write(self, path: str, write: Callable[[IO[bytes]], Any]) -> None:
        """Makes a file in the folder, which write writes."""
        try:
            with open(path, "wb") as file:
                write(file)
        except OSError as e:
            raise no_room(self.path, e) from e

    def name(self, path: str) -> str:
        """What a command that runs in the folder calls a file."""
        return os.path.basename(path) if os.path.dirname(path) == self.path else os.path.abspath(path)

    def began(self, pid: int) -> None:
        """A command began."""
        self._tell(pid, True)

    def ended(self, pid: int) -> None:
        """A command ended."""
        self._tell(pid, False)

    def _tell(self, pid: int, runs: bool) -> None:
        with self._lock:
            (self._pids.add if runs else self._pids.discard)(pid)
            if self._watch and self._watch.stdin and not self._watch.stdin.closed:
                try:
                    self._watch.stdin.write((" ".join(map(str, self._pids)) + "\n").encode())
                except OSError:  # someone ended the shell
                    pass

    def remove(self) -> None:
        """Ends what still runs and removes the folder."""
        if self._watch and self._watch.stdin:
            try:
                self._watch.stdin.close()
            except OSError:
                pass
            self._watch.wait()
        shutil.rmtree(self.path, ignore_errors=True)

    def forget(self) -> None:
        """Leaves the folder to the process that has it: this one is a copy of that by fork."""
        if self._watch and self._watch.stdin:
            self._watch.stdin.close()
            self._watch.returncode = 0  # it is no child of this process


_folder: Optional[Folder] = None
_lock = threading.Lock()


def folder() -> Folder:
    """The folder of this process, made at the first call."""
    global _folder
    with _lock:
        if _folder is None:
            _folder = Folder()
        return _folder


def _remove() -> None:
    global _folder
    if _folder is not None:
        _folder.remove()
        _folder = None


def _forked() -> None:
    global _folder, _lock
    _lock = threading.Lock()
    if _folder is not None:
        _folder.forget()
        _folder = None


atexit.register(_remove)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
