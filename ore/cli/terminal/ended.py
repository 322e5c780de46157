"""What is shown and written of what was done, whatever has ended the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ore.cli.terminal.console import Console
from ore.cli.terminal.pace import Counted
from ore.errors import OutputError, ReaderGoneError, Terminated
from ore.files.afterwards import add_later


@contextmanager
def counted(console: Console, done: str) -> Iterator[Counted]:
    """Yield what shows a bar of how many are ``done``; it is gone when the block is over."""
    try:
        yield Counted(console.bar, done)
    finally:
        console.end_progress()


@contextmanager
def raising_then(console: Console, failure: Callable[[], BaseException | None]) -> Iterator[None]:
    """Write in the block what was done, then raise what has ended the rest, written or not.

    Where that is a stop, as Ctrl-C, nobody is waited for who does not read.

    Raises:
        BaseException: What ``failure`` returns, which tells too why nothing can be written.
        OutputError: Nothing can be written, and nothing else went wrong. So does ``ReaderGoneError``.
    """
    console.is_stopped = lambda: isinstance(failure(), (KeyboardInterrupt, Terminated))
    try:
        yield
    except (OutputError, ReaderGoneError) as exc:
        if (ended := failure()) is None:
            raise
        console.abandon_stdout()
        if isinstance(exc, OutputError):
            add_later(ended, exc)
    if (ended := failure()) is not None:
        raise ended
