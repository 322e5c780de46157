"""Work done by several threads, and what comes of it in the order of what is to be done."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from functools import partial
from queue import SimpleQueue
from typing import Generic, TypeVar

from ore.errors import OreError, UsageError
from ore.files.signals import deferred_signals

Item = TypeVar("Item")
Done = TypeVar("Done")

AHEAD_PER_THREAD = 16
"""How many pieces of work may be done, for each thread, while an earlier one is not."""
MOST_AHEAD = 256 << 20
"""How large the results of such pieces may be together before no further one is begun; and how large what
is to be done, before no more of it is read."""
_LOOK_SECONDS = 0.05
_FORKED = (
    "This run was begun by another process, whose threads this forked one does not have: read its outcomes "
    "there, or begin a run of this process's own."
)


class _Piece(Generic[Item, Done]):
    """One piece of work; ``is_done`` is let go of when ``result`` or ``error`` is there."""

    __slots__ = ("item", "weight", "result", "size", "error", "is_done")

    def __init__(self, item: Item, weight: int) -> None:
        self.item = item
        self.weight = weight
        self.result: Done
        self.size = 0
        self.error: BaseException | None = None
        self.is_done = threading.Lock()
        self.is_done.acquire()

    def run(self, do: Callable[[Item], Done], size: Callable[[Done], int]) -> None:
        """Do it; what it raises is raised where the result is asked for."""
        try:
            self.result = do(self.item)
            self.size = size(self.result)
        except BaseException as exc:
            self.error = exc


class _Ahead:
    """How large the results are together that nobody has taken yet.

    Attributes:
        first: The piece that is waited for; it may always be begun.
        taken: The bytes of results that were taken.
        is_stopped: Whether nothing more is to be begun.
    """

    def __init__(self) -> None:
        self.first: object = None
        self.taken = 0
        self.is_stopped = False
        self._done = 0
        self._adding = threading.Lock()

    def lets_begin(self, piece: object) -> bool:
        """Wait until a piece may be begun; return False where none is any more."""
        while self._done - self.taken > MOST_AHEAD and piece is not self.first:
            if self.is_stopped:
                break
            time.sleep(_LOOK_SECONDS)
        return not self.is_stopped

    def add(self, size: int) -> None:
        """Count a result of so many bytes."""
        with self._adding:
            self._done += size


def in_order(
    items: Iterator[Item],
    do: Callable[[Item], Done],
    threads: int,
    *,
    tick: Callable[[], None],
    every: float,
    size: Callable[[Done], int] = lambda done: 0,
    weight: Callable[[Item], int] = lambda item: 0,
) -> Generator[Done, None, None]:
    """Yield what ``do`` returns for each item, in their order.

    Items are taken in the thread of the caller, and as many as are needed to keep the threads busy.
    Closing the generator begins nothing more, and waits for nothing: its threads end with the process.

    Args:
        items: What is to be done; read as it goes. An ``OreError`` of theirs is raised in the end.
        do: Called in any of the threads, several times at once. What it raises is raised here.
        threads: How many there are, or as many as the system gives; without any, the caller's own.
        tick: Called here while something is waited for.
        every: Seconds between two calls of it.
        size: Returns how many bytes a result takes, about.
        weight: Returns how many an item takes.
    """
    todo: SimpleQueue[_Piece[Item, Done] | None] = SimpleQueue()
    ahead = _Ahead()
    waiting, started, held = deque[_Piece[Item, Done]](), 0, 0
    ended: Exception | None = None
    process = os.getpid()
    try:
        started = _start(partial(_work, todo, ahead, do, size), threads)
        if not started:
            yield from map(do, items)
            return
        while True:
            while (
                ended is None and len(waiting) < AHEAD_PER_THREAD * started and held <= MOST_AHEAD
            ):
                try:
                    item = next(items)
                    waiting.append(_Piece(item, weight(item)))
                    held += waiting[-1].weight
                    todo.put(waiting[-1])
                except (StopIteration, OreError) as exc:  # what was begun goes on
                    ended = exc
            if not waiting:
                break
            ahead.first = piece = waiting.popleft()
            held -= piece.weight
            _wait(piece, process, tick, every)
            if piece.error is not None:
                raise piece.error
            ahead.taken += piece.size
            yield piece.result
        if isinstance(ended, OreError):
            raise ended
    finally:
        ahead.is_stopped = True
        for _ in range(started):
            todo.put(None)


def _wait(piece: _Piece[Item, Done], process: int, tick: Callable[[], None], every: float) -> None:
    """Wait until a piece is done by a thread of this ``process``, which a forked child is not."""
    while not piece.is_done.acquire(timeout=every):
        if os.getpid() != process:
            raise UsageError(_FORKED)
        tick()


def _work(
    todo: SimpleQueue[_Piece[Item, Done] | None],
    ahead: _Ahead,
    do: Callable[[Item], Done],
    size: Callable[[Done], int],
) -> None:
    """Be a thread: do what is to be done, until nothing is."""
    while (piece := todo.get()) is not None and ahead.lets_begin(piece):
        piece.run(do, size)
        ahead.add(piece.size)
        piece.is_done.release()


def _start(work: Callable[[], None], threads: int) -> int:
    """Start threads that ``work``, at most so many; return how many the system has given."""
    with deferred_signals(starts_threads=True):
        for number in range(threads):
            try:
                threading.Thread(target=work, name=f"row-{number}", daemon=True).start()
            except RuntimeError:  # those that there are do it all
                return number
    return threads
