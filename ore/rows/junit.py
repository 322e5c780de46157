"""Results as JUnit XML, as the readers of Jenkins, GitLab and GitHub take it.

One ``testcase`` for each run or row. It passed, or has one ``failure`` (a check did not hold), ``error``
(it could not be done) or ``skipped``. What was answered is its ``system-out``.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import IO
from xml.sax.saxutils import escape, quoteattr

from ore.errors import OutputError
from ore.files import reason
from ore.files.afterwards import add_later
from ore.files.neutral import neutralise, one_line
from ore.files.owned import check_owned, write_owned

LONGEST_TEXT = 1 << 16
"""Characters: of an answer, or of why a case did not pass, the most that is written."""

PASSED, FAILURE, ERROR, SKIPPED = "passed", "failure", "error", "skipped"
"""What may become of a case."""

_WHAT = "The JUnit report"
_BEGIN = b'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites '
_MOST_IN_MEMORY, _PART = 1 << 20, 1 << 16  # bytes
_LONGEST_MESSAGE = 1000
# What no XML 1.0 can hold, however it is written; the rest of the control characters are shown already.
_NOT_XML = re.compile("[\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class Case:
    """One result.

    Attributes:
        name: What tells it from the others: a path, a row.
        group: What it belongs to, shown above it.
        seconds: How long it took.
        result: ``PASSED``, ``FAILURE``, ``ERROR`` or ``SKIPPED``.
        message: Why it did not pass, in a sentence.
        details: The same at length: what was seen, a diff.
        output: What was answered.
    """

    name: str
    group: str
    seconds: float = 0.0
    result: str = PASSED
    message: str = ""
    details: str = ""
    output: str = ""


class Report:
    """A report that is being made: its cases are on disk, and not in memory."""

    def __init__(self, spool: IO[bytes]) -> None:
        self._spool = spool
        self.failure: OutputError | None = None  # after which half a case may be on disk
        self.counts: Counter[str] = Counter()
        self.seconds: float = 0.0

    def add(self, case: Case) -> None:
        """Add one case.

        Raises:
            OutputError: There is no room for it.
        """
        self.counts[case.result] += 1
        self.seconds += case.seconds
        try:
            self._spool.write(_as_xml(case).encode("utf-8"))
        except OSError as exc:
            self.failure = _not_kept(exc)
            raise self.failure from exc


@contextmanager
def junit_report(path: str, name: str) -> Generator[Report, None, None]:
    """Yield a report that is written to ``path`` in the end, whole, whatever ends it.

    A file that is there is replaced only if it is such a report, or empty.

    Args:
        path: The file.
        name: What the whole is called.

    Raises:
        OutputError: It can't be written; this is found out before anything is done, as far as it can.
            What else has ended the block is raised in its place, with it: see ``add_later``.
    """
    check_owned(path, _BEGIN, _WHAT)
    begun = time.time()
    spool = tempfile.SpooledTemporaryFile(max_size=_MOST_IN_MEMORY)
    report = Report(spool)
    ended: BaseException | None = None
    try:
        try:
            yield report
        except BaseException as exc:
            ended = exc
            raise
        finally:
            _write(path, name, begun, report, spool)
    except OutputError as exc:
        if ended is None or exc is ended:
            raise
        add_later(ended, exc)
        raise ended
    finally:
        with suppress(OSError):  # of a full disk, which was told
            spool.close()


def _write(path: str, name: str, begun: float, report: Report, spool: IO[bytes]) -> None:
    if report.failure is not None:
        raise report.failure
    counts = report.counts
    totals: dict[str, str | int] = {
        "name": name,
        "tests": counts.total(),
        "failures": counts[FAILURE],
        "errors": counts[ERROR],
        "time": _seconds(report.seconds),
    }
    began = datetime.fromtimestamp(begun, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    suite = {**totals, "skipped": counts[SKIPPED], "timestamp": began}
    head = f"{_attributes(totals)}>\n <testsuite {_attributes(suite)}>\n"
    try:
        spool.seek(0)
    except OSError as exc:
        raise _not_kept(exc) from exc
    parts = iter(lambda: spool.read(_PART), b"")
    end = b" </testsuite>\n</testsuites>\n"
    write_owned(path, _chained(_BEGIN + head.encode("utf-8"), parts, end), _BEGIN, _WHAT, 0o644)


def _not_kept(exc: OSError) -> OutputError:
    return OutputError(
        f"{_WHAT} can't be kept until it is complete: {reason(exc)}; free some space, or set TMPDIR to "
        f"another folder."
    )


def _chained(head: bytes, parts: Iterator[bytes], end: bytes) -> Iterator[bytes]:
    yield head
    yield from parts
    yield end


def _as_xml(case: Case) -> str:
    known = {"name": case.name, "classname": case.group, "time": _seconds(case.seconds)}
    inner = ""
    if case.result != PASSED:
        about = {"type": case.result, "message": case.message}
        inner = f"   <{case.result} {_attributes(about)}>{_text(case.details)}</{case.result}>\n"
    if case.output:
        inner += f"   <system-out>{_text(case.output)}</system-out>\n"
    return f"  <testcase {_attributes(known)}>\n{inner}  </testcase>\n"


def _attributes(values: Mapping[str, str | int]) -> str:
    return " ".join(f"{name}={quoteattr(_line(str(value)))}" for name, value in values.items())


def _line(text: str) -> str:
    return _legal(one_line(text[:_LONGEST_MESSAGE]))


def _text(text: str) -> str:
    cut = text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "\n(cut here)"
    return escape(_legal(neutralise(cut)))


def _legal(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)


def _seconds(value: float) -> str:
    return f"{value:.3f}"
