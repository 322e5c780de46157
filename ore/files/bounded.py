"""A function in a process of its own, so that each call ends in time, whatever it is given.

A regular expression, for one, can't be interrupted from outside, and some take longer than anybody
lives.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

from ore.files.signals import deferred_signals, is_ready

START_SECONDS = 60.0
"""How long the process may take to be there; it runs nothing but Python and ORE until then."""
MOST_MEMORY = 2 << 30
"""Bytes: the most memory of the process."""
_NO_PROCESS = "the system gives no more processes: raise the limit (ulimit -u; in a container, its limit of them)"
_BLOCK = 1 << 16
_CODE = (
    "import sys; sys.path[:] = sys.argv[3:]; from ore.files.bounded import serve; "
    "serve(sys.argv[1], float(sys.argv[2]))"
)


def usable_processors() -> int:
    """Return how many processors this process may use: all, where the system tells no limit (macOS)."""
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # a sandbox may forbid the question
        return os.cpu_count() or 1


class Bounded:
    """Calls a function of values that JSON has, in a process that is made once and kept.

    Args:
        target: The function, as ``module:name``. It may raise ``ValueError``.
        seconds: How long one call may take.
    """

    def __init__(self, target: str, seconds: float) -> None:
        self.seconds = seconds
        self._target = target
        self._child: subprocess.Popen[bytes] | None = None
        self._is_ready = False

    def start(self) -> None:
        """Start the process, if there is none, and do not wait for it."""
        if self._child is not None:
            return
        command = [sys.executable, "-I", "-c", _CODE, self._target, str(self.seconds), *sys.path]
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        # Else there might be a process that nobody knows of; a terminal's Ctrl-C is not for it.
        with deferred_signals(starts_threads=True):
            try:
                self._child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=null)
            except BlockingIOError as exc:
                raise OSError(_NO_PROCESS) from exc
        assert self._child.stdin is not None
        os.set_blocking(self._child.stdin.fileno(), False)

    def __call__(self, *args: Any) -> Any:
        """Return what the function returns for ``args``.

        Raises:
            ValueError: The function has raised it.
            TimeoutError: It took too long, and was ended.
            OSError: There can be no process, or it has ended by itself.
        """
        try:
            self.start()
            if not self._is_ready:
                self._reply(time.monotonic() + START_SECONDS)
                self._is_ready = True
            end = time.monotonic() + self.seconds
            self._send(json.dumps(args).encode("ascii") + b"\n", end)
            found = json.loads(self._reply(end))
        except BaseException:
            self.close()
            raise
        if "refused" in found:
            raise ValueError(found["refused"])
        return found["value"]

    def close(self) -> None:
        """End the process, if there is one; may be called twice."""
        child, self._child, self._is_ready = self._child, None, False
        if child is not None:
            child.kill()
            for pipe in filter(None, (child.stdin, child.stdout)):
                with suppress(OSError):
                    pipe.close()
            child.wait()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # the interpreter is half gone, and with it what its modules have
            pass

    def _send(self, data: bytes, end: float) -> None:
        assert self._child is not None and self._child.stdin is not None
        pipe, left = self._child.stdin.fileno(), memoryview(data)
        while left:
            _require(is_ready(pipe, end - time.monotonic(), select.POLLOUT))
            left = left[os.write(pipe, left[:_BLOCK]) :]

    def _reply(self, end: float) -> bytes:
        assert self._child is not None and self._child.stdout is not None
        pipe, parts = self._child.stdout.fileno(), [b""]
        while not parts[-1].endswith(b"\n"):
            _require(is_ready(pipe, end - time.monotonic()))
            parts.append(os.read(pipe, _BLOCK))
            if not parts[-1]:
                raise BrokenPipeError("the process has ended")
        return b"".join(parts)


def _require(in_time: bool) -> None:
    if not in_time:
        raise TimeoutError("it takes too long")


def serve(target: str, seconds: float) -> None:
    """Be the process: answer each line of JSON with another, until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to every process
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    module, _, name = target.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    replies = open(1, "wb", buffering=0, closefd=False)
    replies.write(b"\n")
    for line in sys.stdin.buffer:
        # It ends by itself, too, where ORE was killed meanwhile.
        soft = int(time.process_time() + seconds) + 2
        resource.setrlimit(resource.RLIMIT_CPU, (soft if hard < 0 else min(soft, hard), hard))
        try:
            reply = {"value": function(*json.loads(line))}
        except ValueError as exc:
            reply = {"refused": str(exc)}
        left = memoryview(json.dumps(reply).encode("ascii") + b"\n")
        while left:
            left = left[replies.write(left) :]
