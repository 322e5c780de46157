"""The connections of an HTTP client, which stay usable where a signal's handler raises among them."""

from __future__ import annotations

import os
from _thread import RLock
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakSet

Client = TypeVar("Client")

_POOLS: WeakSet[Any] = WeakSet()


def steady(client: Client) -> Client:
    """Return a client of ``httpx``, or ``httpx2``, whose pool no handler waits for, or leaves locked.

    The library's own lock is taken in Python: what a signal's handler raises right after it was taken
    would leave it held, and every later turn would wait without end.
    """
    known = vars(client)
    for transport in (known.get("_transport"), *known.get("_mounts", {}).values()):
        pool: Any = getattr(transport, "_pool", None)
        if hasattr(pool, "_optional_thread_lock"):
            pool._optional_thread_lock = RLock()
            _POOLS.add(pool)
    return client


def let_go(clients: Iterable[Any]) -> None:
    """Close the connections that a program has left open; a ``__del__`` may come after theirs."""
    for client in clients:
        with suppress(Exception):
            client.close()


def _unlock() -> None:
    """Let a forked child close what its parent has: a thread that holds a lock there is not here."""
    for pool in _POOLS:
        pool._optional_thread_lock = RLock()


os.register_at_fork(after_in_child=_unlock)
