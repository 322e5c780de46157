"""Holding SIGINT and SIGTERM back while something must be done whole.

Knows nothing about what is done, or what the signals' handlers do.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Deliver a SIGINT or SIGTERM that arrives in the block when the block has ended.

    Keep the block to milliseconds. In another thread than the main one this does nothing, for
    Python runs the handlers in the main thread only.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _deferred(signal.SIGTERM), _deferred(signal.SIGINT):
        yield


@contextmanager
def _deferred(number: int) -> Iterator[None]:
    # A mask would hold the signal from this thread only; another thread would take it.
    handler = signal.getsignal(number)
    if handler is None:  # not installed from Python, so it can't be put back
        yield
        return
    arrived: list[int] = []
    try:
        signal.signal(number, lambda *_: arrived.append(number))
        yield
    finally:
        signal.signal(number, handler)
        if arrived:
            signal.raise_signal(number)
