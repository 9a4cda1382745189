"""The command gpexplain: where it is, and one run of it."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import threading
from typing import IO, Any, Dict, Iterator, List, Mapping, Optional

from .errors import Error, refusal_of
from .folder import folder, has_surrogates, not_started, path_of, remove

_NAME = "gpexplain.exe" if os.name == "nt" else "gpexplain"


def _places() -> Iterator[str]:
    """Where the command may be, best first."""
    yield os.path.join(os.path.dirname(__file__), "bin", _NAME)
    yield os.path.join(sysconfig.get_path("scripts"), _NAME)
    if f"{os.name}_user" in sysconfig.get_scheme_names():
        yield os.path.join(sysconfig.get_path("scripts", f"{os.name}_user"), _NAME)
    yield os.path.join(os.path.dirname(sys.executable), _NAME)
    on_path = shutil.which("gpexplain")
    if on_path:
        yield on_path


def binary() -> str:
    """The path of the command: FUNCGP_BINARY, or in the package, the folders of scripts, or PATH."""
    given = os.environ.get("FUNCGP_BINARY")
    if given is not None:
        if os.path.isfile(given) and os.access(given, os.X_OK):
            return given
        raise Error("no_binary", f"FUNCGP_BINARY={given} is no program", "give the path of gpexplain, or unset it")
    for path in _places():
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise Error(
        "no_binary",
        "the command gpexplain is not installed",
        "install a wheel of funcgp with it inside, run go install github.com/funcgp/funcgp/cmd/gpexplain@latest, "
        "or set FUNCGP_BINARY to its path",
    )


def flags(options: Mapping[str, Any]) -> List[str]:
    """Options as flags: None and False are left out, a list has commas between its elements, a dict is a flag for each."""
    made = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            made.append(flag)
        elif isinstance(value, Mapping):
            for key, of in value.items():
                text = of if isinstance(of, str) or not hasattr(of, "__iter__") else ",".join(map(str, of))
                made.append(f"{flag}={key}={text}")
        elif hasattr(value, "__iter__") and not isinstance(value, str):
            line = io.StringIO()
            csv.writer(line, lineterminator="").writerow(list(value))
            made.append(f"{flag}={line.getvalue()}")
        elif value is not None and value is not False:
            made.append(f"{flag}={value}")
    return made


def start(args: List[str], **options: Any) -> "subprocess.Popen[bytes]":
    """Starts the command in a session of its own, so that Ctrl-C does not end it, with messages for Python."""
    options["env"] = {**options.get("env", os.environ), "FUNCGP_WORDS": "python"}
    try:
        return subprocess.Popen([binary(), *args], start_new_session=True, **options)
    except OSError as e:
        raise not_started("gpexplain", e) from e


def write(path: Any, content: Any) -> None:
    """Writes what a user keeps, the path of a file to copy or text, as -o of the command does."""
    home, to = folder(), path_of(path)
    source = content if isinstance(content, str) else home.new()
    try:
        if source != content:
            home.write(source, lambda f: f.write(content))
        run("copy", home.name(source), os.path.join(os.getcwd(), to), paths={os.path.join(os.getcwd(), to): to})
    finally:
        if source != content:
            remove(source)


def run(
    verb: str, *args: str, stdin: bytes = b"", paths: Mapping[str, str] = {}, progress: Optional[bool] = False
) -> List[Dict[str, Any]]:
    """Runs a verb with --json in the private folder, and returns the objects of its output.

    paths says what errors call files. progress shows by tqdm what is done: True, or None for where tqdm is installed.
    """
    show = _bar(verb) if progress is None or progress else None
    says = "--verbose" if show is not None else "--quiet"
    home, given = folder(), [verb, *args] if verb == "copy" else [verb, "--json", says, *args]
    listed = ""
    if not any(has_surrogates(text) for text in given):  # a path that is no text has to go by the command line
        listed, text = home.new(".json"), json.dumps(given)
        home.write(listed, lambda f: f.write(text.encode()))
        given = ["@" + home.name(listed)]
    try:
        p = start(given, cwd=home.path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except BaseException:
        remove(listed)
        raise
    home.began(p.pid)
    said: List[str] = []
    assert p.stdin and p.stdout and p.stderr
    reader = threading.Thread(target=_listen, args=(p.stderr, said, show), daemon=True)
    reader.start()
    try:
        try:
            p.stdin.write(stdin)
            p.stdin.close()
        except OSError:  # it ended before it read all, and says why
            pass
        out = p.stdout.read()
        status = p.wait()
    finally:  # also after Ctrl-C
        if p.poll() is None:
            p.terminate()
            p.wait()
        home.ended(p.pid)
        remove(listed)
        reader.join()
        p.stdout.close()
        p.stderr.close()
        if show is not None:
            show.close()
    if status == 0:
        return [json.loads(line) for line in out.splitlines()]
    last = next(
        (line for line in reversed(said) if line.startswith(("{", "gpexplain: "))),
        said[-1] if said else f"{verb} ended with status {status}",
    )
    raise refusal_of(last, {1: "failed", 2: "bad_argument", 75: "machine"}.get(status, "crashed"), paths)


def _listen(stream: IO[bytes], said: List[str], show: Any) -> None:
    """Keeps the lines that the command writes to standard error, and shows each."""
    for line in stream:
        said.append(line.decode(errors="replace").rstrip())
        if show is not None:
            show.set_postfix_str(said[-1][:80])


def _bar(verb: str) -> Any:
    """A bar of tqdm, None where it is not installed."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(desc=verb, bar_format="{desc} {elapsed}{postfix}", leave=False)
