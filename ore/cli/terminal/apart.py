"""A block for the code of tools, after which the process is as it was before."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from functools import partial
from typing import Any

from ore.files.signals import take_back

_GIVEN_BACK = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE)


@contextmanager
def given_back(stdout: Any, stderr: Any) -> Iterator[None]:
    """Run the code of a tool; then the folder, the signals, the hooks and the recursion are as before.

    What it prints goes to stderr, as does what it starts where ``stdout`` is the process's own.
    """
    handlers = {number: signal.getsignal(number) for number in _GIVEN_BACK}
    undo: list[Callable[[], object]] = [lambda: _give_back(handlers)]
    try:
        limit = sys.getrecursionlimit()
        undo.append(lambda: sys.setrecursionlimit(limit))
        for module in (sys, threading):  # without one of these hooks, no thread starts
            undo.append(partial(setattr, module, "excepthook", module.excepthook))
        with suppress(OSError):  # it can't be read
            folder = os.open(os.curdir, os.O_RDONLY | os.O_DIRECTORY)
            undo += [lambda: _quietly(os.close, folder), lambda: _quietly(os.fchdir, folder)]
        with suppress(AttributeError, OSError, ValueError):  # closed, or put there by a program
            if stdout.fileno() == 1:
                kept = os.dup(1)
                undo += [lambda: _quietly(os.close, kept), lambda: _quietly(os.dup2, kept, 1)]
                os.dup2(2, 1)
        with redirect_stdout(stderr):
            yield
    finally:
        take_back(undo)


def _give_back(handlers: Mapping[signal.Signals, object]) -> None:
    for number, handler in handlers.items():
        if handler is not None and signal.getsignal(number) is not handler:
            with suppress(ValueError):  # not in the main thread, where no tool can have changed it
                signal.signal(number, handler)  # type: ignore[arg-type]  # what getsignal returned


def _quietly(call: Callable[..., object], *args: int) -> None:
    with suppress(OSError):
        call(*args)
