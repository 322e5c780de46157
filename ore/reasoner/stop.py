"""Telling a turn to stop while another thread waits for the model."""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ore.errors import OreError

if TYPE_CHECKING:  # who has a socket has imported it
    from socket import socket

T = TypeVar("T")

_BOTH_WAYS = 2  # socket.SHUT_RDWR


class Stop:
    """Whether a turn is to stop, and what ends the waiting of the thread that takes it."""

    def __init__(self) -> None:
        self._lock = allocate_lock()  # importing threading takes longer
        self._hang_up: Callable[[], None] | None = None
        self.is_asked: bool = False

    def ask(self) -> None:
        """Ask for the end, from any thread; what waits is woken. May be called twice."""
        with self._lock:
            self.is_asked = True
            if self._hang_up is not None:
                self._hang_up()

    def unless_asked(self, act: Callable[[], None]) -> bool:
        """Call ``act``, which is short, unless the end was asked for; return whether it was called."""
        with self._lock:
            if not self.is_asked:
                act()
            return not self.is_asked

    @contextmanager
    def waking(self, hang_up: Callable[[], None]) -> Iterator[None]:
        """While it is entered, ``ask`` calls ``hang_up``; at once where it was called already."""
        with self._lock:
            self._hang_up = hang_up
            if self.is_asked:
                hang_up()
        try:
            yield
        finally:
            with self._lock:
                self._hang_up = None


STOP: ContextVar[Stop | None] = ContextVar("STOP", default=None)
"""What stops the turn that this thread takes; None where nobody can but the thread itself."""


def unless_stopped(keep: Callable[[T], None], what: T) -> None:
    """Call ``keep``, which is short, with ``what``, unless this thread's turn is to stop.

    Raises:
        OreError: It is to stop; ``keep`` was not called.
    """
    stop = STOP.get()
    if stop is None:
        keep(what)
    elif not stop.unless_asked(partial(keep, what)):
        raise OreError("The turn was stopped: nothing was kept of it. Ask again.")


def woken_by(hang_up: Callable[[], None]) -> AbstractContextManager[None]:
    """Return a block that waits for a model: ``hang_up`` ends the waiting, from another thread.

    ``hang_up`` is called at most once, and raises nothing. What it does to the block (a connection
    that closes, a process that ends) is an error there, which whoever asked for the stop expects.
    """
    stop = STOP.get()
    return nullcontext() if stop is None else stop.waking(hang_up)


def shut(connected: socket) -> None:
    """Break off a connection that another thread may wait for; it notices at once."""
    with suppress(OSError):  # the other side was faster
        connected.shutdown(_BOTH_WAYS)
