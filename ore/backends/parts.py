"""Which bytes of a file have come, noted beside it, so that a later process goes on from there."""

from __future__ import annotations

import os
import re
import threading
from bisect import bisect_left
from contextlib import suppress

from ore.files import UnfitFileError
from ore.files.folder import Folder

_LINE = re.compile(rb"([0-9]{1,16}) ([0-9]{1,16})")
_NOTES_BYTES = 1 << 26


class Parts:
    """The ranges of a file that are there: whoever writes one notes it afterwards, from any thread.

    Each is a line of the notes. A line that was torn by a kill is no range; nothing is taken for
    there that was not written before it was noted. What a power cut leaves, the file's hash tells.

    Args:
        folder: An open folder; it must outlive this.
        name: The file of the notes in it.
        size: The bytes of the whole file.
    """

    def __init__(self, folder: Folder, name: str, size: int) -> None:
        self.size = size
        self._lock = threading.Lock()
        self._ranges: list[tuple[int, int]] = []
        with suppress(FileNotFoundError, UnfitFileError):
            for line in folder.read(name, _NOTES_BYTES)[0].split(b"\n"):
                if found := _LINE.fullmatch(line):
                    self._add(int(found[1]), int(found[2]))
        lines = [b"%d %d\n" % each for each in self._ranges]
        folder.replace(name, f"{name}.tmp", lines, 0o600)  # as few as they can be
        self._notes = folder.open(name, os.O_WRONLY | os.O_APPEND)

    def close(self) -> None:
        """Note no more."""
        with self._lock:
            notes, self._notes = self._notes, -1
            if notes >= 0:
                os.close(notes)

    def note(self, first: int, end: int) -> None:
        """Note that the bytes from ``first`` to before ``end`` are there."""
        with self._lock:
            if first < end and self._notes >= 0:
                os.write(self._notes, b"%d %d\n" % (first, end))
                self._add(first, end)

    def forget(self) -> None:
        """Note that nothing is there."""
        with self._lock:
            os.ftruncate(self._notes, 0)
            self._ranges.clear()

    @property
    def begun(self) -> int:
        """How many bytes are there from the beginning, without a gap."""
        with self._lock:
            return self._ranges[0][1] if self._ranges and self._ranges[0][0] == 0 else 0

    @property
    def there(self) -> int:
        """How many bytes are there in all."""
        with self._lock:
            return sum(end - first for first, end in self._ranges)

    def missing(self, most: int) -> list[tuple[int, int]]:
        """Return what is not there as ranges of at most so many bytes, in their order."""
        with self._lock:
            ends = [0, *(end for _, end in self._ranges)]
            firsts = [*(first for first, _ in self._ranges), self.size]
        return [
            (at, min(at + most, first))
            for end, first in zip(ends, firsts, strict=True)
            for at in range(end, first, most)
        ]

    def _add(self, first: int, end: int) -> None:
        """Take a range in, joined with those that it touches."""
        if not 0 <= first < end <= self.size:
            return
        at = bisect_left(self._ranges, (first, first))
        if at and self._ranges[at - 1][1] >= first:
            at -= 1
            first = self._ranges[at][0]
        after = at
        while after < len(self._ranges) and self._ranges[after][0] <= end:
            end = max(end, self._ranges[after][1])
            after += 1
        self._ranges[at:after] = [(first, end)]
