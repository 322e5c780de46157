"""Holding SIGINT and SIGTERM back while something must be done whole.

Knows nothing about what is done, or what the signals' handlers do.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

_DEFERRED = (signal.SIGINT, signal.SIGTERM)
_HAS_MASK = hasattr(signal, "pthread_sigmask")
"""Windows has none."""


def deferred_signals() -> AbstractContextManager[object]:
    """Return a context whose SIGINT or SIGTERM is delivered when the block has ended.

    Keep the block to milliseconds, or to the import of a package. In another thread than the main
    one it does nothing, for Python runs the handlers in the main thread only.
    """
    if threading.current_thread() is not threading.main_thread():
        return nullcontext()
    # A mask holds a signal from one thread only; where there is another, that one would take it.
    return _Masked() if threading.active_count() == 1 and _HAS_MASK else _noted()


class _Masked:
    def __enter__(self) -> None:
        # Every call first runs the handlers of what has arrived, and they may raise.
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, _DEFERRED)
        except BaseException:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._before)
            raise

    def __exit__(self, *_: object) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)


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
        try:
            _put_back(handlers)
        finally:
            _deliver(list(arrived))


def _put_back(handlers: dict[int, Any]) -> None:
    """Install the handlers; what one of them raises meanwhile is raised at the end."""
    raised: BaseException | None = None
    for number, handler in reversed(handlers.items()):  # SIGINT, whose handler raises, last
        is_back = False
        while not is_back:
            try:
                signal.signal(number, handler)
                is_back = True
            except BaseException as exc:  # of a handler that ran before the call took effect
                raised = exc
    if raised is not None:
        raise raised


def _deliver(numbers: list[int]) -> None:
    """Raise the signals, one of them also if the handler of the other raises."""
    if numbers:
        try:
            signal.raise_signal(numbers[0])
        finally:
            _deliver(numbers[1:])
