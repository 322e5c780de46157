"""The only writer: the answer to stdout, everything else to stderr.

What reaches a terminal is neutralised; what goes to a pipe or a file is verbatim. Knows nothing
about flags, sessions or backends.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from ore.errors import OreError, OutputError, ReaderGoneError
from ore.neutral import neutralise

LABEL = "[AYA]: "
PROMPT = "You: "


class Console:
    """The three standard streams, and what may be written to them.

    Args:
        stdin: Bytes, or None when it is closed.
        stdout: Text, or None when it is closed.
        stderr: Text, or None when it is closed.

    Attributes:
        quiet: Whether stderr carries errors only.
    """

    def __init__(
        self,
        stdin: io.BufferedIOBase | None,
        stdout: io.TextIOBase | None,
        stderr: io.TextIOBase | None,
    ) -> None:
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.quiet = False
        self.stdin_is_terminal = _is_terminal(stdin)
        self.stdout_is_terminal = _is_terminal(stdout)
        self.stderr_is_terminal = _is_terminal(stderr)
        self._line_is_open = False
        self._label_is_due = False
        self._progress = ("", 0.0, 0)
        self._waiting = None

    @classmethod
    def from_system(cls) -> Console:
        """Return a console on the process's own streams, UTF-8 whatever the locale."""
        stdin = sys.stdin.buffer if sys.stdin is not None else None
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
        return cls(stdin, sys.stdout, sys.stderr)

    # The answer

    def begin_answer(self) -> None:
        """Say that an answer follows: its first text is labelled where a person reads along."""
        self._label_is_due = self.stdout_is_terminal

    def chunk(self, text: str) -> None:
        """Write a part of the answer at once."""
        if not text:
            return
        self._line_is_open = True
        if self.stdout_is_terminal:
            text = self._label() + neutralise(text)
        self._write(text, flush=True)

    def end_answer(self) -> None:
        """Write the newline after the answer."""
        self._write(self._label() + "\n", flush=True)
        self._line_is_open = False

    def _label(self) -> str:
        label = LABEL if self._label_is_due else ""
        self._label_is_due = False
        return label

    def break_answer(self) -> None:
        """After a failure in mid-answer: begin a new line, if one is open."""
        if self._line_is_open:
            self.end_answer()

    # Documents and lists

    def document(self, text: str) -> None:
        """Write a whole document that ORE made, ending in one newline."""
        self._write(text if text.endswith("\n") else text + "\n", flush=True)

    def json(self, value: object) -> None:
        """Write one JSON document: ASCII, indented, one newline."""
        import json

        try:
            self.document(json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False))
        except (TypeError, ValueError) as exc:
            raise OutputError(f"The answer can't be written as JSON: {exc}.") from exc

    def rows(self, rows: Sequence[Sequence[str]]) -> None:
        """Write a list: aligned columns on a terminal, tab-separated ones in a pipe."""
        if self.stdout_is_terminal:
            rows = [[neutralise(cell) for cell in row] for row in rows]
            widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
            lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        else:
            lines = ["\t".join(" ".join(cell.split()) for cell in row).rstrip() for row in rows]
        self._write("".join(f"{line}\n" for line in lines), flush=True)

    # Everything else

    def notice(self, text: str) -> None:
        """Write one line to stderr, unless ORE is to be quiet."""
        if not self.quiet:
            self._tell(text)

    def error(self, text: str) -> None:
        """Write one error to stderr."""
        self._tell(f"ore: {text}")

    def usage(self, text: str) -> None:
        """Write the usage line to stderr."""
        self._tell(text.rstrip())

    def metadata(self, response_id: str, model_id: str, values: Mapping[str, object]) -> None:
        """Write ``[Metadata]:`` with durations in readable units."""
        pairs = [("id", response_id), ("model", model_id), *_flat(values)]
        self.notice("[Metadata]: " + " ".join(f"{key}={_shown(key, v)}" for key, v in pairs))

    def progress(self, what: str, done: int, total: int) -> None:
        """Show how far something is, in bytes: a bar on a terminal, a line per step elsewhere."""
        doing, shown_at, width = self._progress
        now = time.monotonic()
        if self.quiet or (what == doing and (now - shown_at < 0.1 or not self.stderr_is_terminal)):
            return
        line = f"{what}: {_amount(done, total)}"
        if self.stderr_is_terminal:
            self._tell(line.ljust(width), end="\r")
        else:
            self._tell(what)
        self._progress = (what, now, len(line))

    def end_progress(self) -> None:
        """Take the bar away, if one is shown."""
        _, _, width = self._progress
        if width and self.stderr_is_terminal:
            self._tell(" " * width, end="\r")
        self._progress = ("", 0.0, 0)

    def begin_waiting(self, phase: Callable[[], str]) -> None:
        """Count the seconds on stderr until something is written, and while nothing comes.

        Only where stderr is a terminal that understands how to take a line away.

        Args:
            phase: What is being waited for, in a few words; asked from another thread.
        """
        if self.quiet or not self.stderr_is_terminal or os.environ.get("TERM") == "dumb":
            return
        from ore.waiting import Waiting

        self._waiting = Waiting(self._draw, phase)

    def end_waiting(self) -> None:
        """Count no more; may be called twice."""
        if self._waiting is not None:
            self._waiting.stop()
            self._waiting = None

    def _draw(self, text: str) -> None:
        # Kept: the cursor (7, 8); off meanwhile: wrapping, so that the text can't make a new line.
        drawn = f"\x1b7\x1b[?7l{neutralise(text)}\x1b[?7h\x1b8" if text else ""
        self._put("\x1b[K" + drawn)

    # The terminal's prompt

    def ask(self) -> bytes | None:
        """Return the next line of stdin with its line end, or None at its end.

        ``You: `` goes to the terminal when stdin is one: to stdout, or to stderr when stdout is
        redirected.
        """
        if self.stdin is None:
            return None
        if self.stdin_is_terminal:
            if self.stdout_is_terminal:
                self._write(PROMPT, flush=True)
            elif self.stderr is not None:
                self._tell(PROMPT, end="")
        line = self.stdin.readline()
        if not line and self.stdin_is_terminal:
            self.end_line()
        return line or None

    @property
    def can_confirm(self) -> bool:
        """Whether a person can be asked: stdin and stderr are terminals."""
        return self.stdin_is_terminal and self.stderr_is_terminal

    def confirm(self, question: str) -> bool:
        """Ask a question on the terminal; anything but ``y`` or ``yes`` is no."""
        self._tell(f"{question} [y/N] ", end="")
        return self.stdin.readline().strip().lower() in (b"y", b"yes")

    def end_line(self) -> None:
        """Leave the line that the terminal's cursor stands in."""
        self._tell("")

    # Below: the streams themselves

    def flush(self) -> None:
        """Put everything that was written where it belongs.

        Raises:
            OutputError: It could not be written.
            ReaderGoneError: Nobody reads stdout any more.
        """
        if self.stdout is not None:
            self._write("", flush=True)

    def abandon_stdout(self) -> None:
        """Stop writing to stdout, and keep the interpreter's last flush from failing."""
        if self.stdout is not None and self.stdout is sys.stdout:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.stdout.fileno())
        self.stdout = None

    def _write(self, text: str, flush: bool = False) -> None:
        if self.stdout is None:
            raise OutputError("The answer can't be written: stdout is closed.")
        if self._waiting is not None:
            self._waiting.output(lambda: self._write_now(text, flush))
        else:
            self._write_now(text, flush)

    def _write_now(self, text: str, flush: bool) -> None:
        try:
            self.stdout.write(text)
            if flush:
                self.stdout.flush()
        except OSError as exc:
            raise _output_error(exc) from exc

    def _tell(self, text: str, end: str = "\n") -> None:
        if self.stderr_is_terminal:
            text = neutralise(text)
        if self._waiting is not None:
            self._waiting.output(lambda: self._put(text + end))
        else:
            self._put(text + end)

    def _put(self, text: str) -> None:
        if self.stderr is None:
            return
        try:
            self.stderr.write(text)
            self.stderr.flush()
        except (OSError, ValueError):
            self.stderr = None  # nobody can be told that nobody can be told


def _is_terminal(stream: object) -> bool:
    try:
        return stream is not None and stream.isatty()
    except (OSError, ValueError):
        return False


def _output_error(exc: OSError) -> OreError:
    broken = exc.errno == errno.EPIPE or (os.name == "nt" and exc.errno == errno.EINVAL)
    if broken:
        return ReaderGoneError("Nobody reads the answer any more.")
    return OutputError(f"The answer can't be written: {exc.strerror or exc}.")


def _amount(done: int, total: int) -> str:
    if total <= 0:
        return f"{done / 1e6:.1f} MB"
    part = min(done / total, 1.0)
    bar = ("#" * round(part * 30)).ljust(30, ".")
    return f"[{bar}] {part:4.0%} of {total / 1e6:.1f} MB"


def _flat(values: Mapping[str, object], prefix: str = "") -> list[tuple[str, object]]:
    pairs: list[tuple[str, object]] = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            pairs += _flat(value, f"{prefix}{key}.")
        else:
            pairs.append((f"{prefix}{key}", value))
    return pairs


def _shown(key: str, value: object) -> str:
    if key.endswith("_duration") and isinstance(value, (int, float)):
        return f"{value / 1e9:.2f}s" if value >= 1e9 else f"{value / 1e6:.1f}ms"
    text = str(value)
    return repr(text) if not text or any(c.isspace() for c in text) else text
