"""The lines of a table, and the records that CSV makes of them; each says what is wrong with it."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from ore.errors import UsageError

LONGEST_ROW = 16 << 20
"""Bytes of one row, which is all of the table that is in memory; an artifact holds no more."""

_BOM = b"\xef\xbb\xbf"
_OTHER_BOMS = (b"\xff\xfe", b"\xfe\xff")
_PART = 1 << 20
_MOST_PASSED_OVER = 256 << 20
"""Bytes of a line that is too long; after them the table is given up."""


@dataclass(frozen=True)
class Line:
    """A line, its number, and why it can't be used, if so."""

    number: int
    text: str
    problem: str | None = None


class Lines(Iterable[Line]):
    """The lines of a file, without their ends; the first without a byte order mark."""

    def __init__(self, file: BinaryIO, shown: str) -> None:
        self._file = file
        self._shown = shown
        self._is_over = False
        self.number: int = 0

    def __iter__(self) -> Iterator[Line]:
        while not self._is_over and (data := self._file.readline(LONGEST_ROW + 1)):
            self.number += 1
            if self.number == 1:
                if data.startswith(_OTHER_BOMS):
                    raise UsageError(f"{self._shown} is not UTF-8: convert it to UTF-8 first.")
                data = data.removeprefix(_BOM)
            yield self._line(data)

    def _line(self, data: bytes) -> Line:
        number = self.number
        if len(data) > LONGEST_ROW:
            left = _MOST_PASSED_OVER
            while data and not data.endswith(b"\n") and left > 0:
                data = self._file.readline(_PART)
                left -= len(data)
            self._is_over = left <= 0
            return Line(number, "", _NEVER_ENDS if self._is_over else _TOO_LONG)
        if (at := data.find(0)) >= 0:
            return Line(number, "", f"it has a NUL at byte {at}, which no text has")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as exc:
            return Line(number, "", f"it is not UTF-8 at byte {exc.start} of the line")
        return Line(number, text.removesuffix("\n").removesuffix("\r"))


_TOO_LONG = f"it has more than {LONGEST_ROW >> 20} MiB, the most that a row can have"
_NEVER_ENDS = (
    f"{_TOO_LONG}, and no end within {_MOST_PASSED_OVER >> 20} more: what follows was not read"
)
_ENDLESS = f"{_TOO_LONG}: if a quote in it is never closed, close it; what follows was not read"


@dataclass(frozen=True)
class Record:
    """A record, the number of its first line, and why it can't be used, if so."""

    line: int
    cells: list[str]
    problem: str | None = None


class _BadLine(Exception):
    """A line that no record can have; the text says why."""


class Records(Iterator[Record]):
    """The records of CSV (RFC 4180): a cell in quotes may hold line ends, and ``""`` is a quote."""

    def __init__(self, lines: Lines, delimiter: str) -> None:
        self._lines, self._reading = lines, iter(lines)
        self._delimiter = delimiter
        self._size = 0
        self._is_over = False
        self._reader = self._begun()
        csv.field_size_limit(max(csv.field_size_limit(), 2 * LONGEST_ROW))

    def __next__(self) -> Record:
        while not self._is_over:
            line, self._size = self._lines.number + 1, 0
            try:
                cells = next(self._reader)
            except _BadLine as exc:
                self._reader = self._begun()
                return Record(self._lines.number, [], str(exc))
            except csv.Error as exc:
                self._reader = self._begun()
                self._is_over = self._size > LONGEST_ROW
                return Record(line, [], _ENDLESS if self._is_over else _in_words(exc))
            if cells:
                return Record(line, cells)
        raise StopIteration

    def _begun(self) -> Iterator[list[str]]:
        return csv.reader(self._texts(), delimiter=self._delimiter, strict=True)

    def _texts(self) -> Iterator[str]:
        for line in self._reading:
            self._size += len(line.text) + 1
            if line.problem is not None:
                raise _BadLine(line.problem)
            if self._size > LONGEST_ROW:
                raise csv.Error
            yield line.text + "\n"


def _in_words(error: csv.Error) -> str:
    """Return what is wrong with a record, as the end of a sentence."""
    said = str(error)
    if "unexpected end" in said:
        return "a quote is opened in it and never closed"
    if "expected after" in said:
        return 'text follows a quote that was closed; a quote in a cell is written ""'
    if "new-line character" in said:
        return "it has a carriage return outside of quotes"
    return said
