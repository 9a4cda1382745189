"""A server of the command, which answers for one posterior."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
import threading
import time
import weakref
from typing import IO, Any, Dict, List, Optional, Tuple, Union

from .command import binary, start
from .errors import Error, refusal, refusal_of
from .folder import folder, no_room


_IDLE = "--idle-timeout=1h"  # the next request starts another
_SOCKETS = hasattr(socket, "AF_UNIX")  # else a port of this machine, with a token


API = 1  # of the server: paths below /v1


class _Connection:
    """A connection that is kept: HTTP/1.1 in a tenth of the time that http.client takes for a row."""

    def __init__(self, address: Union[str, Tuple[str, int]], token: Optional[str]) -> None:
        kind = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self._socket = socket.socket(kind, socket.SOCK_STREAM)
        try:
            self._socket.connect(address)
        except BaseException:
            self._socket.close()
            raise
        self._answers = self._socket.makefile("rb")
        self._head = "Host: localhost\r\n" + (f"Authorization: Bearer {token}\r\n" if token else "")

    def ask(self, method: str, path: str, body: bytes, headers: str) -> Tuple[int, Dict[str, str], bytes]:
        """The status, the headers, whose names are in lower case, and the body of an answer."""
        head = f"{method} {path} HTTP/1.1\r\n{self._head}{headers}Content-Length: {len(body)}\r\n\r\n"
        self._socket.sendall(head.encode() + body)
        status = int((self._line().split() + [b"", b""])[1] or 0)
        given: Dict[str, str] = {}
        while line := self._line():
            name, _, value = line.decode("latin-1").partition(":")
            given[name.lower()] = value.strip()
        if given.get("transfer-encoding") != "chunked":
            return status, given, self._exactly(int(given["content-length"]))
        parts = []
        while size := int(self._line(), 16):
            parts.append(self._exactly(size))
            self._line()
        self._line()
        return status, given, b"".join(parts)

    def _line(self) -> bytes:
        line = self._answers.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("the server ended within an answer")
        return line.rstrip()

    def _exactly(self, size: int) -> bytes:
        got = self._answers.read(size)
        if len(got) < size:
            raise ConnectionError("the server ended within an answer")
        return got

    def close(self) -> None:
        """Closes it."""
        self._answers.close()
        self._socket.close()


class _Running:
    """One process of the command that serves a file, ready to answer."""

    def __init__(self, file: str) -> None:
        self.folder = folder()
        self.place = self.folder.new()  # of the socket, or of the file that names a port
        self.address: Union[str, Tuple[str, int]] = self.place
        self.token: Optional[str] = None
        try:
            self.log: IO[bytes] = tempfile.TemporaryFile(dir=self.folder.path)
        except OSError as e:
            raise no_room(self.folder.path, e) from e
        name, place = self.folder.name(file), self.folder.name(self.place)
        where = [f"--socket={place}"] if _SOCKETS else ["--addr=127.0.0.1:0", f"--port-file={place}"]
        environment = dict(os.environ)
        if os.path.getsize(file) < 16 << 20:  # garbage is little beside other memory, and collecting it takes a third
            environment.setdefault("GOGC", "400")
        self.process = start(
            ["serve", "--json", f"--posterior={name}", f"--parent-pid={os.getpid()}", _IDLE, *where],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            bufsize=0,
            cwd=self.folder.path,
            env=environment,
        )
        self.folder.began(self.process.pid)
        try:
            assert self.process.stdout
            if not self.process.stdout.readline():
                self.process.wait()
                raise refusal_of(self.said(), "failed", {name: os.path.basename(file)})
            if not _SOCKETS:
                with open(self.place, encoding="utf-8") as says:
                    named = json.load(says)
                host, _, port = named["address"].rpartition(":")
                self.address, self.token = (host, int(port)), named["token"]
            self._greet()
        except BaseException:
            self.stop()
            raise

    def _greet(self) -> None:
        """Checks that it answers as this package asks."""
        connection = self.connection()
        answer = json.loads(connection.ask("GET", "/v1/version", b"", "")[2])
        connection.close()
        if answer.get("api") != API:
            remedy = "install the package and the command of one version"
            raise Error("version", f"{binary()} answers by another API ({answer})", remedy)

    def connection(self) -> _Connection:
        """A new connection."""
        return _Connection(self.address, self.token)

    def said(self) -> str:
        """The last line that it wrote to standard error."""
        self.log.seek(0)
        lines = self.log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"the server ended with status {self.process.poll()}"

    def stop(self) -> None:
        """Ends it and waits until it is gone."""
        self.process.terminate()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.folder.ended(self.process.pid)
        for stream in (self.process.stdin, self.process.stdout, self.log):
            if stream:
                stream.close()
        if os.path.exists(self.place):
            os.unlink(self.place)

    def forget(self) -> None:
        """Closes what a copy by fork has of it."""
        self.process.returncode = 0  # it is no child of this process
        for stream in (self.process.stdin, self.process.stdout, self.log):
            if stream:
                stream.close()


class Process:
    """Answers requests by a server of a file, which starts with the first, and again after a crash or in a fork."""

    def __init__(self, file: str) -> None:
        self.file, self._is = file, _identity(file)
        self._start_again()
        self._running: Optional[_Running] = None
        _all.add(self)

    def _start_again(self) -> None:
        self._lock = threading.RLock()
        self._idle: List[_Connection] = []
        self._last = ""  # what a server that is gone said last

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
        """The body of an answer. Underscores in the names of headers are dashes."""
        head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        for attempt in range(5):
            connection = None
            try:
                connection = self._connection(fresh=attempt > 0)
                status, given, answer = connection.ask(method, path, body, head)
            except OSError as e:
                if connection:
                    connection.close()
                if attempt < 2:  # it had closed a connection that was idle, or it is gone
                    self._check(0.1 if attempt == 0 else 3)
                    continue
                said = f"the server broke off twice ({self._last or e})"
                raise Error("crashed", said, "ask for less at a time") from e
            except BaseException:
                if connection:
                    connection.close()  # with the answer that is still to come
                raise
            with self._lock:
                self._idle.append(connection)
            if status == 200:
                return answer
            why = json.loads(answer)["error"]
            if why["code"] not in ("busy", "not_ready") or attempt == 4:
                raise refusal(why["message"], why["code"], argument=why.get("field"))
            time.sleep(float(given.get("retry-after", 1)))
        raise AssertionError("unreachable")

    def json(self, path: str, **request: Any) -> Dict[str, Any]:
        """The answer to a POST of an object, or without members to a GET."""
        if request:
            body = json.dumps(request).encode()
            answer: Dict[str, Any] = json.loads(self.ask("POST", path, body, Content_Type="application/json"))
        else:
            answer = json.loads(self.ask("GET", path))
        return answer

    def _connection(self, fresh: bool) -> _Connection:
        with self._lock:
            if self._running is None:
                if self._is is None or _identity(self.file) != self._is:
                    name = os.path.basename(self.file)
                    raise Error("changed", f"{name} is gone or another file by now", "open it again, or fit again")
                self._running = _Running(self.file)
            return self._idle.pop() if self._idle and not fresh else self._running.connection()

    def _check(self, seconds: float) -> None:
        """Forgets a server that ends within some seconds, so that the next request starts another."""
        with self._lock:
            for connection in self._idle:
                connection.close()
            self._idle.clear()
            if self._running:
                try:
                    self._running.process.wait(timeout=seconds)
                except subprocess.TimeoutExpired:
                    return  # it had closed an idle connection
                self._last = str(refusal_of(self._running.said(), "crashed"))
                self._running.stop()
                self._running = None

    @property
    def pid(self) -> Optional[int]:
        """The id of the server, None where none runs."""
        return self._running.process.pid if self._running else None

    def close(self) -> None:
        """Ends the server."""
        with self._lock:
            for connection in self._idle:
                connection.close()
            self._idle.clear()
            if self._running:
                running, self._running = self._running, None
                running.stop()

    def _forked(self) -> None:
        for connection in self._idle:
            connection.close()
        self._start_again()
        if self._running:
            self._running.forget()
            self._running = None


def _identity(file: str) -> Optional[Tuple[int, int]]:
    """What tells a file from another that takes its place; None where there is none."""
    try:
        said = os.stat(file)
    except OSError:
        return None
    return said.st_size, said.st_mtime_ns


_all: "weakref.WeakSet[Process]" = weakref.WeakSet()


def _forked() -> None:
    for process in list(_all):
        process._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
