"""A call that nothing can end: it is waited for so long, and no longer."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Thread
from typing import TypeVar

Found = TypeVar("Found")

_LOOK_SECONDS = 0.1
"""How soon a signal is heard that the system gives to the other thread."""


class OutOfTime(TimeoutError):
    """A call was not done in time."""


def in_time(seconds: float | None, call: Callable[[], Found]) -> Found:
    """Return what ``call`` returns; what takes longer is left behind, and ends with the process.

    Args:
        seconds: How long it is waited for; None waits, as a system without threads does.

    Raises:
        OutOfTime: It was not done by then.
    """
    found: list[Found] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            found.append(call())
        except BaseException as exc:
            failed.append(exc)

    thread = Thread(target=work, daemon=True)
    try:
        if seconds is not None:
            thread.start()
    except RuntimeError:  # the system gives no more threads
        seconds = None
    if seconds is None:
        return call()
    until = time.monotonic() + seconds
    while thread.is_alive() and (left := until - time.monotonic()) > 0:
        thread.join(min(left, _LOOK_SECONDS))
    if failed:
        raise failed[0]
    if not found:
        raise OutOfTime(f"nothing came for {seconds:.3g} s")
    return found[0]
