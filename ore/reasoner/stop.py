"""Telling a turn to stop while another thread waits for the model."""

from __future__ import annotations

import os
from _thread import RLock
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING

from ore.errors import OreError

if TYPE_CHECKING:  # whoever has a socket has imported it
    from socket import socket

    from ore.types import Message

_BOTH_WAYS = 2  # socket.SHUT_RDWR


class OwnLock:
    """A lock for each process, for ``with``: it holds between threads, and never stops its holder.

    A signal's handler may take it once more, in the middle of a block. A forked child has another
    one: a thread of its parent may hold that, and is not there to let go of it.
    """

    def __init__(self) -> None:
        self._of = {os.getpid(): RLock()}

    def __call__(self) -> RLock:
        """Return the lock."""
        return self._of.setdefault(os.getpid(), RLock())


class Stop:
    """Whether a turn is to stop, and what ends the waiting of the thread that takes it."""

    def __init__(self) -> None:
        # One that a signal's handler may take once more; importing threading takes longer.
        self._lock = RLock()
        self._hang_up: Callable[[], None] | None = None
        self._waits_in: int = 0  # a process, by its id
        self._held: list[Message] | None = None
        self._more: list[Message] = []
        self.is_asked: bool = False

    def ask(self) -> None:
        """Ask for the end, from any thread; what waits is woken. May be called twice."""
        with self._lock:
            self.is_asked = True
            # A forked child has the stream, too; the turn is its parent's.
            if self._hang_up is not None and self._waits_in == os.getpid():
                self._hang_up()

    def add(self, messages: list[Message], more: list[Message]) -> bool:
        """Add ``more`` to ``messages``, unless the end was asked for; return whether it was not.

        To those of ``hold_back`` it is added by ``keep``.
        """
        with self._lock:
            is_added = not self.is_asked
            if is_added:
                (self._more if messages is self._held else messages).extend(more)
            return is_added

    def hold_back(self, messages: list[Message]) -> None:
        """Let nothing be added to ``messages`` before ``keep``: the reading task may be cancelled."""
        self._held = messages

    def keep(self) -> None:
        """Add what was held back, unless the end was asked for."""
        with self._lock:
            if self._held is not None and not self.is_asked:
                there = {message.id for message in self._held}  # more than when the turn ended
                self._held.extend(
                    [_other(each) if each.id in there else each for each in self._more]
                )
                self._more = []

    @contextmanager
    def waking(self, hang_up: Callable[[], None]) -> Iterator[None]:
        """While it is entered, ``ask`` calls ``hang_up``; at once where it was called already."""
        with self._lock:
            self._hang_up, self._waits_in = hang_up, os.getpid()
            if self.is_asked:
                hang_up()
        try:
            yield
        finally:
            with self._lock:
                self._hang_up = None


def _other(message: Message) -> Message:
    """Return the same message with an id of its own."""
    return type(message)(message.role, message.content, images=message.images)


STOP: ContextVar[Stop | None] = ContextVar("STOP", default=None)
"""What stops the turn that this thread takes; None where nobody can but the thread itself."""


def add_unless_stopped(messages: list[Message], more: list[Message]) -> None:
    """Add ``more`` to the ``messages`` of a session, unless this thread's turn is to stop.

    Raises:
        OreError: It is to stop; nothing was added.
    """
    stop = STOP.get()
    if stop is None:
        messages.extend(more)
    elif not stop.add(messages, more):
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
