"""A table, read a row at a time and as often as it is needed: CSV, TSV, JSON Lines, or plain text.

What is wrong with a row is a part of what is read: nothing is guessed, and the rows after it are read.
"""

from __future__ import annotations

import errno
import io
import json
import os
import stat
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from ore.backends.http import MOST_VALUES
from ore.errors import FileAccessError, UsageError
from ore.files import reason, strictjson
from ore.files.neutral import one_line
from ore.files.strictjson import is_object
from ore.rows.placeholders import quoted
from ore.rows.table_lines import LONGEST_ROW, Line, Lines, Records

FORMATS = ("csv", "tsv", "jsonl", "text")
"""How a table is written."""

ENDINGS = {
    **{".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"},
    ".txt": "text",
}
"""Which format the name of a file says."""

LINE = "line"
"""The name of the one column of plain text."""

MOST_COLUMNS = 10_000
"""Names of columns that are known of a table."""

_DELIMITERS = {"csv": ",", "tsv": "\t"}
_PART, _BLOCK = 1 << 20, 1 << 16
MOST_COPIED = 1 << 30
"""Bytes of what is no file (a pipe, a device): it is copied to the disk first, and may never end."""


@dataclass(frozen=True)
class Row:
    """One row.

    Attributes:
        number: Counted from 1, without the header and blank lines.
        line: The number of the line that it begins in.
        values: The text in each column.
        problem: Why it can't be used, as the end of a sentence; None where it can.
        expected: The text that its answer is to be, where that was said.
    """

    number: int
    line: int
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    problem: str | None = None
    expected: str | None = None

    @property
    def shown(self) -> str:
        """What it is called in an error."""
        return f"row {self.number} (line {self.line})"


class _FromBeginning(io.RawIOBase):
    """A file that is read from its beginning, also while others read it: each at a place of its own."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._at = file, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = os.pread(self._file.fileno(), len(buffer), self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class Table:
    """A table in a ``file`` that is open; ``open_table`` opens one.

    Attributes:
        shown: What it is called in an error.
        format: One of ``FORMATS``.
        columns: The names of its columns, in their order; of JSON Lines those of the rows that were
            read so far.
    """

    def __init__(self, file: BinaryIO, format: str, shown: str) -> None:
        self.shown = shown
        self.format = format
        self._file = file
        self._read_from: tuple[int, int] | None = None
        self.columns: dict[str, None] = {LINE: None} if format == "text" else {}

    def rows(self) -> Iterator[Row]:
        """Yield every row, from the first.

        Raises:
            UsageError: The header is missing or can't be used, or the bytes are no text of UTF-8.
            FileAccessError: It can't be read, or was changed since it was read for the first time.
        """
        try:
            self._require_same()
            lines = Lines(io.BufferedReader(_FromBeginning(self._file), _BLOCK), self.shown)
            read = {"jsonl": self._objects, "text": self._texts}.get(self.format, self._records)
            for row in read(lines):
                self._require_same()  # before it is used: what is appended meanwhile may never end
                yield row
            self._require_same()
        except OSError as exc:
            raise FileAccessError(
                f"{self.shown} can't be read: {reason(exc)}.", self.shown
            ) from exc

    def is_same_file(self, descriptor: int) -> bool:
        """Return whether the open file ``descriptor`` is the table's own."""
        return os.path.sameopenfile(self._file.fileno(), descriptor)

    def _require_same(self) -> None:
        """Refuse a table that somebody writes to: a row would be asked that nobody has looked at."""
        status = os.fstat(self._file.fileno())
        now = (status.st_size, status.st_mtime_ns)
        if self._read_from is not None and self._read_from != now:
            raise FileAccessError(
                f"{self.shown} was changed while it was read: run it again when it is complete.",
                self.shown,
            )
        self._read_from = now

    def _texts(self, lines: Lines) -> Iterator[Row]:
        for number, line in _numbered(lines):
            yield Row(number, line.number, {LINE: line.text}, line.problem)

    def _objects(self, lines: Lines) -> Iterator[Row]:
        for number, line in _numbered(lines):
            values, problem = dict[str, str](), line.problem
            if problem is None:
                try:
                    values = _texts_of(line.text)
                except ValueError as exc:
                    problem = str(exc)
            if len(self.columns) < MOST_COLUMNS:
                self.columns.update(dict.fromkeys(values))
            yield Row(number, line.number, values, problem)

    def _records(self, lines: Lines) -> Iterator[Row]:
        records = Records(lines, _DELIMITERS[self.format])
        header = next(records, None)
        if header is None:
            raise UsageError(
                f"{self.shown} is empty: its first line must name its columns, as in name,age."
            )
        if header.problem is not None:
            raise UsageError(f"{self.shown}, line {header.line}: {header.problem}.")
        names = header.cells
        self.columns = dict.fromkeys(_checked_names(names, self.shown))
        for number, record in enumerate(records, 1):
            problem = record.problem
            if problem is None and len(record.cells) != len(names):
                count, of = len(record.cells), len(names)
                cells = "1 cell" if count == 1 else f"{count:,} cells"
                problem = f"it has {cells}, and the header {of:,}"
            values = {} if problem else dict(zip(names, record.cells, strict=True))
            yield Row(number, record.line, values, problem)


def _numbered(lines: Lines) -> Iterator[tuple[int, Line]]:
    """Yield each row's number and its line; a blank line is not a row."""
    return enumerate((each for each in lines if each.problem or each.text.strip()), 1)


def rows_in_words(count: int) -> str:
    """Return ``count`` rows as people say it."""
    return "1 row" if count == 1 else f"{count:,} rows"


def format_of(path: str) -> str | None:
    """Return how the file at ``path`` is written, if its name says so."""
    return ENDINGS.get(os.path.splitext(path)[1].lower())


@contextmanager
def open_table(
    path: os.PathLike[str] | str,
    format: str | None = None,
    stdin: io.BufferedIOBase | None = None,
    most: int = MOST_COPIED,
) -> Generator[Table, None, None]:
    """Open a table; what can be read once only is copied into a temporary file first.

    Args:
        path: The file, or ``-`` for stdin.
        format: One of ``FORMATS``; None is what the file's name says.
        stdin: A binary stream; None is a closed one.
        most: How many bytes may be copied.

    Raises:
        UsageError: Nobody says how it is written, there is nothing on stdin, or it has no end.
        FileAccessError: It can't be read.
    """
    path = os.fspath(path)
    if format not in (None, *FORMATS):
        raise UsageError(f"`format=` must be one of {', '.join(FORMATS)}, not {format!r}.")
    shown = "stdin" if path == "-" else one_line(path)
    found = format or format_of(path)
    try:
        if path != "-" and stat.S_ISDIR(os.stat(path).st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if found is None:
            named = "" if path == "-" else f"end its name in {' or '.join(ENDINGS)}, or "
            raise UsageError(
                f"Nothing says what format {shown} has: {named}give `format=`, which is one of "
                f"{', '.join(FORMATS)}."
            )
        file = _opened(path, stdin, most)
    except (OSError, ValueError) as exc:  # no file has a name with a NUL
        raise FileAccessError(f"{shown} can't be read: {reason(exc)}.", path) from exc
    try:
        yield Table(file, found, shown)
    finally:
        with suppress(OSError):  # of a disk that has gone: all was read
            file.close()


def _opened(path: str, stdin: io.BufferedIOBase | None, most: int) -> BinaryIO:
    if path == "-":
        if stdin is None or stdin.closed or stdin.isatty():
            raise UsageError("There is no table on stdin: pipe one in, or name its file.")
        return _copied(stdin, "stdin", most)
    file = open(path, "rb")
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    with file:
        return _copied(file, one_line(path), most)


def _copied(source: io.BufferedIOBase | BinaryIO, shown: str, most: int) -> BinaryIO:
    """Return a file without a name that holds all that is left of ``source``."""
    with _kept(shown):
        copy, left = tempfile.TemporaryFile(prefix="ore-rows-"), most
    try:
        while part := source.read(_PART):
            if (left := left - len(part)) < 0:
                raise UsageError(
                    f"{shown} has more than {most:,} bytes, the most that is read from what is not "
                    f"a file: write the table to a file, and name that. Nothing was sent."
                )
            with _kept(shown):
                copy.write(part)
        with _kept(shown):
            copy.flush()
    except BaseException:
        with suppress(OSError):  # of a full disk, which was told
            copy.close()
        raise
    return copy


@contextmanager
def _kept(shown: str) -> Generator[None, None, None]:
    try:
        yield
    except OSError as exc:
        raise FileAccessError(
            f"{shown} can't be kept while it is read: {reason(exc)}; free some space, or set TMPDIR to "
            f"another folder."
        ) from exc


def _checked_names(names: list[str], shown: str) -> list[str]:
    """Return the names of columns, or say which can't be one.

    Raises:
        UsageError: One is empty, or is there twice.
    """
    empty = [number for number, name in enumerate(names, 1) if not name.strip()]
    if empty:
        raise UsageError(
            f"{shown} has no name for column {', '.join(map(str, empty[:10]))}: its first line "
            f"must name every column."
        )
    twice = [name for name, number in Counter(names).items() if number > 1]
    if twice:
        raise UsageError(f"{shown} has more than one column {quoted(twice)}: rename them.")
    return names


def _texts_of(text: str) -> dict[str, str]:
    """Return the values of an object as texts; other values are written as JSON."""
    try:
        found = strictjson.parse(text.encode("utf-8"), limit=LONGEST_ROW, most=MOST_VALUES)
    except ValueError as exc:
        # Its lines count from this one; the table's own number is said elsewhere.
        raise ValueError(str(exc).replace(" at line 1, column", " at column")) from exc
    if not is_object(found):
        raise ValueError("it is JSON, but not an object: write one with a value for each column")
    # Numbers stay as they are written: 1.10 is no 1.1, and -0 no 0.
    written = json.loads(text.removeprefix("\ufeff"), parse_float=str, parse_int=str)
    return {
        name: w if isinstance(w := written[name], str) else _json(v) for name, v in found.items()
    }


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
