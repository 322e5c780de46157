"""What is written whole to a file that others share, also where one of them makes it non-blocking."""

from __future__ import annotations

import errno
import io
import os
import select
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from ore.files.signals import is_ready

GRACE = 0.5
"""Seconds that a stream is waited for after the process was told to end."""
_PIECE = 1024
"""Characters at once, of at most four bytes: what takes any bytes takes 4,096."""


def make_blocking(*streams: object) -> None:
    """Make reads and writes wait, even where a stream was opened as non-blocking."""
    for stream in streams:
        with suppress(AttributeError, OSError, ValueError):  # None, closed, or in memory
            os.set_blocking(stream.fileno(), True)  # type: ignore[attr-defined]  # not in object


def write_text(stream: io.TextIOBase, text: str, flush: bool = True) -> None:
    """Write a text; a text stream itself would drop what its file does not take at once."""
    make_blocking(stream)  # who shares it may have changed it meanwhile
    if not isinstance(stream, io.TextIOWrapper) or type(stream).write is not io.TextIOWrapper.write:
        stream.write(text)  # a program's own, which takes text alone, or does more with it
    else:
        if flush:
            flush_whole(stream)  # what a program has written to it comes first
        write_whole(stream.buffer, text.encode(stream.encoding, stream.errors or "strict"))
    if flush:
        flush_whole(stream)


def is_stalled(stream: io.TextIOBase | None, seconds: float = GRACE) -> bool:
    """Whether nobody takes what is written: a terminal that was stopped, a pager that waits."""
    with suppress(AttributeError, OSError, ValueError):  # not a file
        return stream is not None and not is_ready(stream.fileno(), seconds, select.POLLOUT)
    return False


class WhileRead:
    """Writes and flushes texts piece by piece, and waits ``2 * GRACE`` for their reader in all.

    Args:
        write: Writes a piece to a stream.
    """

    def __init__(self, write: Callable[[io.TextIOBase, str], None] = write_text) -> None:
        self._write = write
        self._left = 2 * GRACE

    def __call__(self, stream: io.TextIOBase, text: str, _: bool = True) -> None:
        """Write a text; raise ``OSError`` where nobody takes more of it in time."""
        for at in range(0, len(text), _PIECE):
            began = monotonic()
            if is_stalled(stream, min(GRACE, self._left)):
                raise OSError(errno.EAGAIN, "nobody reads it")
            self._left -= monotonic() - began
            self._write(stream, text[at : at + _PIECE])


def write_whole(file: io.RawIOBase | io.BufferedIOBase, data: bytes) -> None:
    """Write all of ``data``, and wait where the file takes no more for now.

    Raises:
        OSError: It can't be written, or can't be made to wait.
    """
    left = memoryview(data)
    while left:
        try:
            taken = file.write(left)
        except BlockingIOError as exc:
            left = left[getattr(exc, "characters_written", 0) :]
            os.set_blocking(file.fileno(), True)
            continue
        if taken == len(left) or not isinstance(file, io.RawIOBase):
            return
        if taken is None:
            os.set_blocking(file.fileno(), True)
        else:
            left = left[taken:]


def flush_whole(stream: io.IOBase) -> None:
    """Write out all that a stream holds, and wait where its file takes no more for now."""
    while True:
        try:
            stream.flush()
            return
        except BlockingIOError:
            os.set_blocking(stream.fileno(), True)
