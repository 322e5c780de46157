"""Running ``python main.py`` as a user's shell does: a process, its streams and its exit code."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAIN = str(ROOT / "main.py")
IN_SHELL = shlex.join([sys.executable, MAIN])
"""ORE as a shell starts it."""
PATIENCE = 120.0
"""Seconds after which what should have come about is a failure; a busy machine needs many."""


@dataclass(frozen=True)
class Ended:
    """What a process left: its exit code, as a shell shows it, and both streams as text."""

    code: int
    out: str
    err: str


def environment(**more: str | None) -> dict[str, str]:
    """The tests' environment with changes; None takes a variable away.

    Modules are compiled once, as for whoever installed ORE: doing it anew in each process would be
    most of the time that it takes. Streams are buffered, as for them: what is not flushed is missed.
    """
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": None, "PYTHONUNBUFFERED": None, **more}
    return {name: value for name, value in environ.items() if value is not None}


def start(
    *args: str | bytes, cwd: Path | str | None = None, env: Mapping[str, str] | None = None, **more
) -> subprocess.Popen:
    """Start ORE; standard streams are pipes unless ``more`` says otherwise."""
    streams = {name: more.pop(name, subprocess.PIPE) for name in ("stdin", "stdout", "stderr")}
    command = [sys.executable, MAIN, *args]
    return subprocess.Popen(command, cwd=cwd, env=env or environment(), **streams, **more)


@contextmanager
def running(*args: str | bytes, **more) -> Iterator[subprocess.Popen]:
    """Start ORE without a stdin; where a test fails before it has ended, it is killed."""
    process = start(*args, **{"stdin": subprocess.DEVNULL, **more})
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def end(process: subprocess.Popen, stdin: bytes | None = None) -> Ended:
    """Wait for a process to end and return what it left."""
    try:
        out, err = process.communicate(stdin, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    return Ended(code, (out or b"").decode(), (err or b"").decode())


def run(*args: str | bytes, stdin: bytes | None = None, **more) -> Ended:
    """Run ORE to its end; without ``stdin`` it has none (``/dev/null``)."""
    source = subprocess.DEVNULL if stdin is None else subprocess.PIPE
    return end(start(*args, **{"stdin": source, **more}), stdin)


def until(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait until something holds."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it did not come about in time"
        time.sleep(0.005)
