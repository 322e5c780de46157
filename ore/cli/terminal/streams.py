"""The three standard streams: what they can show, and what goes wrong with them.

Beside what is written stand the waiting indicator and the model's thinking; whatever else is
written takes the one away and ends the other.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from ore.cli.terminal.bytewise import on_terminal, write_text
from ore.cli.terminal.documents import document_parts
from ore.cli.terminal.labels import LABELS
from ore.cli.terminal.text import AnswerText, cut_to, laid_out
from ore.cli.terminal.waiting import Waiting
from ore.errors import OutputError, ReaderGoneError
from ore.files.neutral import one_line
from ore.files.signals import is_ready
from ore.files.whole import WhileRead, is_stalled

THINKING_LABEL = "[THINKING]: "
DIM = "2"
ANSWER = "1;36"
COLOURS = {
    **{"You:": "1;32", "...": "1;32", "[Metadata]:": DIM},
    **{"ore:": "1;31", "ore: warning:": "1;33"},
}
"""Of ORE's labels but the answer's. An answer's text has none: so a person tells whose words it is."""


class Streams:
    """Writes to stdout, where a failure is an error, and to stderr, where it is survived.

    Args:
        stdin, stdout, stderr: Bytes, text, text; None for one that is closed.
        environ: What says what a terminal shows besides text; None is nothing.
    """

    is_stopped: Callable[[], bool] = staticmethod(lambda: False)  # then nobody is waited for
    quiet = False  # whether stderr carries errors and warnings only
    labels: Sequence[str] = LABELS  # what no line of a text begins with, in lower case
    _waiting: Waiting | None = None
    _is_thinking = False
    _thought: AnswerText | None = None  # on a terminal
    _ends_line = False
    _is_writing = False  # or a write was cut short: nobody knows where the cursor is
    _bar_width = 0  # of the bar that is shown
    _may_fill_line = False  # whether the cursor may wait at the right edge: nothing is drawn there
    _held: list[Callable[[], None]] | None = None  # lines for stderr that wait

    def __init__(
        self,
        stdin: io.BufferedIOBase | None,
        stdout: io.TextIOBase | None,
        stderr: io.TextIOBase | None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        environ = environ or {}
        self.stdin: io.BufferedIOBase | None = stdin
        self.stdout: io.TextIOBase | None = stdout
        self.stderr: io.TextIOBase | None = stderr
        self._while_read = WhileRead(write_text)
        self.stdin_is_terminal: bool = _is_terminal(stdin)
        self.stdout_is_terminal: bool = _is_terminal(stdout)
        self.stderr_is_terminal: bool = _is_terminal(stderr)
        self.stdout_has_colour: bool = allows_colour(self.stdout_is_terminal, environ)
        self.stderr_has_colour: bool = allows_colour(self.stderr_is_terminal, environ)
        self.can_redraw: bool = self.stderr_is_terminal and obeys(environ)

    def _columns(self, stream: io.TextIOBase | None) -> int:
        """Return the width of the terminal that a stream is, or 0 where it has none."""
        with suppress(AttributeError, OSError, ValueError):
            return os.get_terminal_size(stream.fileno()).columns if stream is not None else 0
        return 0

    def begin_waiting(self, phase: Callable[[], str]) -> None:
        """Count the seconds on stderr until something is written, and while nothing comes.

        Only where stderr is a terminal that can redraw a line, and ORE is not to be quiet.
        ``phase`` says what is being waited for, in a few words; it is asked from another thread.
        """
        if self.quiet or not self.can_redraw:
            return
        self._may_fill_line = False
        with suppress(RuntimeError):  # the system has no thread left
            self._waiting = Waiting(self._draw, phase)

    def end_waiting(self) -> None:
        """Count no more; may be called twice."""
        if self._waiting is not None:
            self._waiting.stop()
            self._waiting = None

    def _draw(self, text: str, end: str) -> None:
        if self._may_fill_line or (self.stderr is not None and is_stalled(self.stderr, 0.0)):
            return  # the thread that counts would hold up the others
        text = on_terminal(one_line(text))
        room = self._columns(self.stderr) - 1 - len(end)
        if 0 < room < len(text):
            text = text[: room - 1] + "…"
        # Kept: the cursor (7, 8); off meanwhile: wrapping, so that the text can't make a new line.
        drawn = f"\x1b7\x1b[?7l{self._dimmed(text + end)}\x1b[?7h\x1b8" if end else ""
        self._put("\x1b[K" + drawn)

    def _dimmed(self, text: str) -> str:
        return paint(text, DIM) if self.stderr_has_colour else text

    def _painted(self, label: str) -> str:
        return paint_label(on_terminal(label)) if self.stdout_has_colour else on_terminal(label)

    def thinking(self, text: str) -> None:
        """Write a part of the model's thinking to stderr; whatever else is written ends it."""
        label = ""
        if not self._is_thinking:
            self._is_thinking, label = True, THINKING_LABEL
            if self.stderr_is_terminal:
                self._thought = AnswerText(self._columns(self.stderr), label, self.labels)
        if self._thought is not None:
            self._thought.width = self._columns(self.stderr) or self._thought.width
            text = self._thought.feed(text)
        self._think(label + text)

    def end_thinking(self) -> None:
        """End the model's thinking, if any was written; may be called twice."""
        if self._is_thinking:
            self._think(self._thought.end() if self._thought and not self._is_writing else "")
            self._is_thinking, self._thought = False, None
            if not self._ends_line:
                self._put_apart("\n")

    def _think(self, text: str) -> None:
        if text:
            self._ends_line = False
            self._put_apart(self._dimmed(text))
            self._ends_line = text.endswith("\n")
            self._may_fill_line = self._thought is not None and self._thought.may_fill_line

    def _as_shown(self, text: str, is_json: bool = False) -> Iterable[str]:
        """Return lines for stdout: on a terminal in parts, as they are laid out."""
        shown = document_parts(text, self._width, self.labels, is_json)
        return shown if self.stdout_is_terminal else (text,)

    def _width(self) -> int:
        return self._columns(self.stdout)

    def flush(self) -> None:
        """Write out everything that is still buffered for stdout."""
        if self.stdout is not None:
            self._write("", flush=True)

    def _write(self, text: str, flush: bool = False) -> None:
        if self._is_thinking:
            self.end_thinking()
        stdout = self.stdout
        if stdout is None:
            raise OutputError("The answer can't be written: stdout is closed.")
        write = self._while_read if self.is_stopped() else write_text
        self._apart(lambda: _write_now(write, stdout, text, flush))

    @contextmanager
    def telling_below(self) -> Iterator[None]:
        """Hold lines for stderr back until the end: the last line of an answer is not complete."""
        self._held = held = list[Callable[[], None]]()
        try:
            yield
        finally:
            self._held = None
            for tell in held:
                tell()

    def _tell(self, text: str, end: str = "\n", label: str = "", is_dim: bool = False) -> None:
        if self._held is not None:
            self._held.append(lambda: self._tell(text, end, label, is_dim))
            return
        self.end_thinking()
        if self._bar_width and end != "\r":  # nothing of it is left beside a shorter text
            self._put_apart(self._cut(" " * self._bar_width) + "\r")
            self._bar_width = 0
        if self.stderr_is_terminal:
            text = self._cut(text) if end == "\r" else self._wrapped(text, label)
        text = self._dimmed(text) if is_dim else text
        if self.stderr_has_colour and label:
            label = paint_label(label)
        self._put_apart(label + text + end, is_answer=False)

    def _wrapped(self, text: str, label: str) -> str:
        first = "" if label else on_terminal(text[:1])  # of a line that is ORE's own
        rest = text if label else text[1:]
        return first + laid_out(rest, self._columns(self.stderr), label or first, self.labels)

    def _cut(self, text: str) -> str:
        """Return what one line can show of a text, so that the next one can be drawn over it."""
        text = laid_out(one_line(text), 0, "", self.labels).replace("\n", "")
        room = self._columns(self.stderr) - 1
        return cut_to(text, room) if room > 0 else text

    def _apart(self, write: Callable[[], None], is_answer: bool = True) -> None:
        """Write where the waiting indicator is not."""
        self._is_writing = True
        if self._waiting is not None:
            self._waiting.output(write, is_answer)
        else:
            write()
        self._is_writing = False

    def _put_apart(self, text: str, is_answer: bool = True) -> None:
        self._apart(lambda: self._put(text), is_answer)

    def _put(self, text: str) -> None:
        if self.stderr is None:
            return
        try:
            write_text(self.stderr, text)
        except (OSError, ValueError):
            redirect_to_null(self.stderr)
            self.stderr = None  # nobody can be told that nobody can be told


def redirect_to_null(stream: io.TextIOBase) -> None:
    """Discard what was not written yet, so that the interpreter's last flush can't fail."""
    with suppress(AttributeError, OSError, ValueError):  # not a file, so nothing is flushed to one
        descriptor = stream.fileno()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, descriptor)
        os.close(null)


class PatientInput(io.RawIOBase):
    """Reads a file that other processes share, and waits even where one of them made it non-blocking.

    Else what is not there yet would be taken for the end of the input. What the reader holds already,
    for a program has read a part, comes first.
    """

    def __init__(self, source: io.BufferedReader) -> None:
        self._source = source
        # Asked for more than its buffer takes, a reader waits for more though it has some already.
        self._most = io.DEFAULT_BUFFER_SIZE
        with suppress(OSError):  # it is no file
            self._most = min(self._most, os.fstat(source.fileno()).st_blksize)

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._source.fileno()

    def isatty(self) -> bool:
        return self._source.isatty()

    def readinto(self, buffer: Any) -> int | None:
        some = memoryview(buffer)[: self._most]
        while (count := self._source.readinto1(some)) is None:
            is_ready(self.fileno(), None)
        return int(count)


class TextInput(PatientInput):
    """Reads on, as UTF-8, where a program has read a part of the text."""

    def __init__(self, text: io.TextIOWrapper) -> None:
        super().__init__(text.buffer)  # type: ignore[arg-type]  # a reader: it is stdin
        self._text = text

    def readinto(self, buffer: Any) -> int | None:
        try:
            data = self._text.readline(len(buffer) // 4).encode("utf-8", "surrogateescape")
        except UnicodeDecodeError as exc:
            raise OSError(errno.EILSEQ, f"it is not {exc.encoding}") from exc
        buffer[: len(data)] = data
        return len(data)


def _write_now(write: Callable[..., None], stream: io.TextIOBase, text: str, flush: bool) -> None:
    try:
        write(stream, text, flush)
    except OSError as exc:
        if exc.errno == errno.EPIPE:
            raise ReaderGoneError("Nobody reads the answer any more.") from exc
        raise OutputError(f"The answer can't be written: {exc.strerror or exc}.") from exc
    except ValueError as exc:  # what a program has put there is closed, or of another encoding
        raise OutputError(f"The answer can't be written: {exc}.") from exc


def _is_terminal(stream: io.IOBase | None) -> bool:
    with suppress(AttributeError, OSError, ValueError):  # an object that only takes text; closed
        return stream is not None and stream.isatty()
    return False


def allows_colour(is_terminal: bool, environ: Mapping[str, str]) -> bool:
    """Return whether a stream may be coloured: a terminal that understands it, and no wish not to.

    ``NO_COLOR`` wins over ``FORCE_COLOR``, which wins over what ``TERM`` says; a pipe or a file is
    never coloured.
    """
    if not is_terminal or environ.get("NO_COLOR"):
        return False
    return environ.get("FORCE_COLOR") not in (None, "", "0") or obeys(environ)


def obeys(environ: Mapping[str, str]) -> bool:
    """Return whether a terminal obeys sequences, as far as the environment says what it is."""
    return (environ.get("TERM") or "dumb") != "dumb"


def paint(text: str, style: str) -> str:
    """Return ``text`` in a style of this module, and the plain style after it."""
    return f"\x1b[{style}m{text}\x1b[0m" if text else ""


def paint_label(label: str) -> str:
    """Return a label of ORE's in its colour; the space after it stays plain."""
    words = label.rstrip()
    return paint(words, COLOURS.get(words, ANSWER)) + label[len(words) :]
