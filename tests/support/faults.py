"""A block of code whose system calls are counted, and one of which is cut short, fails or is killed.

It is meant for a forked process, for it puts itself in the place of functions of ``os``.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

CALLS = {
    os: (
        *("open", "read", "pread", "write", "pwrite", "fsync", "close", "stat", "fstat"),
        *("replace", "unlink", "mkdir", "listdir"),
    ),
    fcntl: ("flock",),
}
Act = Callable[[str, Callable, tuple, dict], object]
"""Given a call's name, the real function and its arguments, does what happens instead."""


@dataclass(frozen=True)
class Ended:
    """How a forked process ended: what it returned, or the signal that killed it (else 0)."""

    value: object
    signal: int


def in_child(action: Callable[[], object]) -> Ended:
    """Run ``action`` in a forked process and return how that ended; its error is raised here."""
    _write_coverage()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            try:
                answer = pickle.dumps((action(), None))
            except BaseException as exc:
                answer = pickle.dumps((None, f"{type(exc).__name__}: {exc}"))
            with open(writing, "wb") as pipe:
                pipe.write(answer)
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return Ended(None, os.WTERMSIG(status))
    value, error = pickle.loads(answer)
    if error is not None:
        raise AssertionError(f"in a forked process: {error}")
    return Ended(value, 0)


def _write_coverage() -> None:
    """Let coverage write down what it has, which each forked process would do anew at its end."""
    coverage = sys.modules.get("coverage")
    if coverage is not None and (measuring := coverage.Coverage.current()) is not None:
        measuring.get_data()


class Intercepted:
    """Counts the calls of a block in ``names``, and acts on the call number ``at`` (from 1)."""

    def __init__(self, at: int = 0, act: Act | None = None) -> None:
        self.names: list[str] = []
        self._at = at
        self._act = act
        self._real = [
            (module, name, getattr(module, name)) for module in CALLS for name in CALLS[module]
        ]

    def __enter__(self) -> Intercepted:
        for module, name, real in self._real:
            setattr(module, name, self._wrapped(name, real))
        return self

    def __exit__(self, *_) -> None:
        for module, name, real in self._real:
            setattr(module, name, real)

    @property
    def has_acted(self) -> bool:
        """Whether the block got as far as the call that was to be acted on."""
        return 0 < self._at <= len(self.names)

    def _wrapped(self, name: str, real: Callable) -> Callable:
        def call(*args, **kwargs):
            self.names.append(name)
            if len(self.names) != self._at:
                return real(*args, **kwargs)
            return self._act(name, real, args, kwargs)

        return call


def kill_before(name, real, args, kwargs):
    """End the process as ``kill -9`` does, before the call."""
    os.kill(os.getpid(), signal.SIGKILL)


def kill_after(name, real, args, kwargs):
    """End the process as ``kill -9`` does, after the call, whether it succeeded or not."""
    try:
        real(*args, **kwargs)
    finally:
        os.kill(os.getpid(), signal.SIGKILL)


def _halved(name: str, args: tuple) -> tuple:
    """The arguments of a call; of a write, with half of its bytes."""
    return (args[0], bytes(args[1])[: len(args[1]) // 2]) if name == "write" else args


def kill_within(name, real, args, kwargs):
    """End the process when half of the bytes are written; another call than a write is made."""
    kill_after(name, real, _halved(name, args), kwargs)


def signal_before(number: int) -> Act:
    """Send this process a signal just before the call."""

    def act(name, real, args, kwargs):
        os.kill(os.getpid(), number)
        return real(*args, **kwargs)

    return act


def signal_after(number: int) -> Act:
    """Send this process a signal just after the call."""

    def act(name, real, args, kwargs):
        try:
            return real(*args, **kwargs)
        finally:
            os.kill(os.getpid(), number)

    return act


def failing(errno: int) -> Act:
    """Fail the call; a file is closed all the same, as systems do."""

    def act(name, real, args, kwargs):
        if name == "close":
            real(*args, **kwargs)
        raise OSError(errno, os.strerror(errno))

    return act


def writing_half(name, real, args, kwargs):
    """Write half of the bytes, and say so, as a nearly full disk does; make any other call."""
    return real(*_halved(name, args), **kwargs)


def interrupted_starts(monkeypatch) -> list[subprocess.Popen]:
    """Let Ctrl-C come with each process that is started; they are added to the list."""

    class Interrupted(subprocess.Popen):
        def __init__(self, *args, **more):
            super().__init__(*args, **more)
            started.append(self)
            signal.raise_signal(signal.SIGINT)

    started: list[subprocess.Popen] = []
    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    return started
