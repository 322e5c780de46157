"""Holding SIGINT and SIGTERM back while something must be done whole.

Knows nothing about what is done, or what the signals' handlers do.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_DEFERRED = (signal.SIGINT, signal.SIGTERM)
_HAS_MASK = hasattr(signal, "pthread_sigmask")
"""Windows has none."""


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Deliver a SIGINT or SIGTERM that arrives in the block when the block has ended.

    Keep the block to milliseconds. In another thread than the main one this does nothing, for
    Python runs the handlers in the main thread only.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # A mask holds a signal from one thread only; where there is another, that one would take it.
    with _masked() if threading.active_count() == 1 and _HAS_MASK else _noted():
        yield


@contextmanager
def _masked() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _DEFERRED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _noted() -> Iterator[None]:
    """Put handlers in place that only note what arrives: ten times as slow as a mask."""
    handlers: dict[int, Any] = {}
    arrived: dict[int, bool] = {}

    def note(number: int, _: object) -> None:
        arrived[number] = True

    try:
        for number in _DEFERRED:
            handler = signal.getsignal(number)
            if handler is not None:  # else not installed from Python: it can't be put back
                handlers[number] = handler
                signal.signal(number, note)
        yield
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
        _deliver(list(arrived))


def _deliver(numbers: list[int]) -> None:
    """Raise the signals, one of them also if the handler of the other raises."""
    if numbers:
        try:
            signal.raise_signal(numbers[0])
        finally:
            _deliver(numbers[1:])
