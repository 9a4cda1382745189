"""A server of the command, which answers for one posterior."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import tempfile
import threading
import time
import weakref
from typing import IO, Any, Dict, List, Optional, Tuple

from .command import binary
from .errors import Error, refusal
from .folder import folder


_SOCKETS = hasattr(socket, "AF_UNIX")  # else a port of this machine, with a token


class _Connection(http.client.HTTPConnection):
    """A connection to a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self._path)


API = 1  # of the server: paths below /v1


class _Running:
    """One process of the command that serves a file, ready to answer."""

    def __init__(self, file: str) -> None:
        self.folder = folder()
        self.place = self.folder.new()  # of the socket, or of the file that names a port
        self.headers: Dict[str, str] = {}
        self.log: IO[bytes] = tempfile.TemporaryFile()
        where = [f"--socket={self.place}"] if _SOCKETS else ["--addr=127.0.0.1:0", f"--port-file={self.place}"]
        self.process = subprocess.Popen(
            [binary(), "serve", "--json", f"--posterior={file}", f"--parent-pid={os.getpid()}", *where],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            bufsize=0,
            start_new_session=True,  # so that Ctrl-C does not end it
        )
        self.folder.began(self.process.pid)
        try:
            assert self.process.stdout
            if not self.process.stdout.readline():
                self.process.wait()
                raise refusal(self.said(), "failed", {file: os.path.basename(file)})
            if not _SOCKETS:
                with open(self.place, encoding="utf-8") as place:
                    named = json.load(place)
                self.address = named["address"]
                self.headers["Authorization"] = f"Bearer {named['token']}"
            self._greet()
        except BaseException:
            self.stop()
            raise

    def _greet(self) -> None:
        """Checks that it answers as this package asks."""
        connection = self.connection()
        connection.request("GET", "/v1/version", headers=self.headers)
        answer = json.loads(connection.getresponse().read())
        connection.close()
        if answer.get("api") != API:
            remedy = "install the package and the command of one version"
            raise Error(f"{binary()} answers by another API ({answer})", code="version", remedy=remedy)

    def connection(self) -> http.client.HTTPConnection:
        """A new connection, not yet opened."""
        return _Connection(self.place) if _SOCKETS else http.client.HTTPConnection(self.address)

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
    """Answers requests by a server of a file. It starts with the first request, and again after a crash or in a fork."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._start_again()
        self._running: Optional[_Running] = None
        _all.add(self)

    def _start_again(self) -> None:
        self._lock = threading.RLock()
        self._idle: List[http.client.HTTPConnection] = []

    def ask(self, method: str, path: str, body: Optional[bytes] = None, **headers: str) -> Tuple[str, bytes]:
        """The type and the body of an answer. Underscores in headers are dashes."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        for attempt in range(5):
            fresh = attempt > 0
            connection, own = self._connection(fresh)
            try:
                connection.request(method, path, body, {**named, **own})
                response = connection.getresponse()
                answer = response.read()
            except (OSError, http.client.HTTPException) as e:
                connection.close()
                if attempt < 2:  # an idle connection was closed, or the server is gone
                    self._check()
                    continue
                raise Error(f"the server broke off twice ({e})", code="crashed", remedy="ask for less at a time") from e
            except BaseException:
                connection.close()
                raise
            with self._lock:
                self._idle.append(connection)
            if response.status == 200:
                return response.headers.get_content_type(), answer
            said = json.loads(answer)["error"]
            if said["code"] not in ("busy", "not_ready") or attempt == 4:
                raise refusal(said["message"], said["code"])
            time.sleep(float(response.headers.get("Retry-After", 1)))
        raise AssertionError("unreachable")

    def json(self, path: str, **request: Any) -> Dict[str, Any]:
        """The answer to a POST of an object, or without members to a GET."""
        body = json.dumps(request).encode() if request else None
        answer: Dict[str, Any] = json.loads(
            self.ask("POST" if request else "GET", path, body, Content_Type="application/json")[1]
        )
        return answer

    def _connection(self, fresh: bool) -> Tuple[http.client.HTTPConnection, Dict[str, str]]:
        """A connection, and the headers of each request on it."""
        with self._lock:
            if self._running is None:
                self._running = _Running(self.file)
            idle = self._idle and not fresh
            return self._idle.pop() if idle else self._running.connection(), self._running.headers

    def _check(self) -> None:
        """Forgets a server that is gone, so that the next request starts another."""
        with self._lock:
            for connection in self._idle:
                connection.close()
            self._idle.clear()
            if self._running:
                try:
                    self._running.process.wait(timeout=0.1)
                except subprocess.TimeoutExpired:
                    return  # it had closed an idle connection
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


_all: "weakref.WeakSet[Process]" = weakref.WeakSet()


def _forked() -> None:
    for process in list(_all):
        process._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
