"""The three standard streams: what they can show, and what goes wrong with them.

Beside what is written stand the waiting indicator and the model's thinking; whatever else is written
takes the one away and ends the other. Knows nothing about answers or prompts.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Mapping

from ore.cli.terminal.style import QUIET, allows_colour, obeys, paint
from ore.errors import OreError, OutputError, ReaderGoneError
from ore.files.neutral import one_line

TYPE_CHECKING = False  # not typing's, which would cost every start
if TYPE_CHECKING:  # imported when they are needed
    from ore.cli.terminal.trace import Trace
    from ore.cli.terminal.waiting import Waiting


class Streams:
    """Writes to stdout, where a failure is an error, and to stderr, where it is survived.

    Args:
        stdin: Bytes, or None when it is closed.
        stdout: Text, or None when it is closed.
        stderr: Text, or None when it is closed.
        environ: What says what a terminal shows besides text; None is nothing.

    Attributes:
        quiet: Whether stderr carries errors only.
    """

    def __init__(
        self,
        stdin: io.BufferedIOBase | None,
        stdout: io.TextIOBase | None,
        stderr: io.TextIOBase | None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.quiet = False
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.stdin_is_terminal = _is_terminal(stdin)
        self.stdout_is_terminal = _is_terminal(stdout)
        self.stderr_is_terminal = _is_terminal(stderr)
        environ = {} if environ is None else environ
        self.stdout_has_colour = allows_colour(self.stdout_is_terminal, environ)
        self.stderr_has_colour = allows_colour(self.stderr_is_terminal, environ)
        self._can_redraw = self.stderr_is_terminal and obeys(environ)
        self._waiting: Waiting | None = None
        self._trace: Trace | None = None

    @staticmethod
    def _columns(stream: io.TextIOBase | None) -> int:
        """The width of the terminal that a stream is, or 0 where it has none."""
        try:
            return os.get_terminal_size(stream.fileno()).columns if stream is not None else 0
        except (OSError, ValueError):
            return 0

    def begin_waiting(self, phase: Callable[[], str]) -> None:
        """Count the seconds on stderr until something is written, and while nothing comes.

        Only where stderr is a terminal that can, and ORE is not to be quiet.

        Args:
            phase: What is being waited for, in a few words; asked from another thread.
        """
        if self.quiet or not self._can_redraw:
            return
        from ore.cli.terminal.waiting import Waiting

        try:
            self._waiting = Waiting(self._draw, phase)
        except RuntimeError:
            pass  # the system has no thread left

    def end_waiting(self) -> None:
        """Count no more; may be called twice."""
        if self._waiting is not None:
            self._waiting.stop()
            self._waiting = None

    def _draw(self, text: str, end: str) -> None:
        text = one_line(text)
        room = self._columns(self.stderr) - 1 - len(end)
        if 0 < room < len(text):
            text = text[: room - 1] + "…"
        # Kept: the cursor (7, 8); off meanwhile: wrapping, so that the text can't make a new line.
        drawn = f"\x1b7\x1b[?7l{self._dimmed(text + end)}\x1b[?7h\x1b8" if end else ""
        self._put("\x1b[K" + drawn)

    def _dimmed(self, text: str) -> str:
        return paint(text, QUIET) if self.stderr_has_colour else text

    def thinking(self, text: str) -> None:
        """Write a part of the model's thinking to stderr; whatever else is written ends it."""
        if self._trace is None:
            from ore.cli.terminal.trace import Trace

            self._trace = Trace(
                self.stderr_is_terminal, self.stderr_has_colour, self._columns(self.stderr)
            )
        self._put_apart(self._trace.feed(text))

    def end_thinking(self) -> None:
        """End the model's thinking, if any was written; may be called twice."""
        trace, self._trace = self._trace, None
        if trace is not None:
            self._put_apart(trace.end())

    def flush(self) -> None:
        """Put everything that was written where it belongs.

        Raises:
            OutputError: It could not be written.
            ReaderGoneError: Nobody reads stdout any more.
        """
        if self.stdout is not None:
            self._write("", flush=True)

    def _write(self, text: str, flush: bool = False) -> None:
        if self._trace is not None:
            self.end_thinking()
        if self.stdout is None:
            raise OutputError("The answer can't be written: stdout is closed.")
        if self._waiting is not None:
            stdout = self.stdout
            self._waiting.output(lambda: _write_now(stdout, text, flush))
        else:
            _write_now(self.stdout, text, flush)

    def _tell(
        self,
        text: str,
        end: str = "\n",
        label: str = "",
        how: str = QUIET,
        is_dim: bool = False,
    ) -> None:
        self.end_thinking()
        if self.stderr_is_terminal:
            text = self._cut(text) if end == "\r" else self._wrapped(text, len(label))
        if is_dim:
            text = self._dimmed(text)
        if self.stderr_has_colour and label:
            label = paint(label.rstrip(), how) + " "
        self._put_apart(label + text + end)

    def _wrapped(self, text: str, column: int) -> str:
        from ore.cli.terminal.answer_text import laid_out

        return laid_out(text, self._columns(self.stderr), column or 1)  # line 1 is ORE's own

    def _cut(self, text: str) -> str:
        """Return what one line can show of a text, so that the next one can be drawn over it."""
        text, room = one_line(text), self._columns(self.stderr) - 1
        return text[:room] if room > 0 else text

    def _put_apart(self, text: str) -> None:
        """Write to stderr where the waiting indicator is not."""
        if self._waiting is not None:
            self._waiting.output(lambda: self._put(text))
        else:
            self._put(text)

    def _put(self, text: str) -> None:
        if self.stderr is None:
            return
        try:
            self.stderr.write(text)
            self.stderr.flush()
        except (OSError, ValueError):
            lead_nowhere(self.stderr)
            self.stderr = None  # nobody can be told that nobody can be told


def lead_nowhere(stream: io.TextIOBase) -> None:
    """Have what was not written yet end in no file, so that the interpreter's last flush can't fail."""
    try:
        descriptor = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
    except (OSError, ValueError):
        pass  # it is no file, so nothing is flushed to one


def wait_on(*streams: object) -> None:
    """Have reading and writing wait, also where whoever opened a stream asked for none that do."""
    for stream in streams:
        try:
            os.set_blocking(stream.fileno(), True)  # type: ignore[attr-defined]  # None has no fileno
        except (AttributeError, OSError, ValueError):
            pass  # closed, in memory, or on a system that can't be asked


def _write_now(stream: io.TextIOBase, text: str, flush: bool) -> None:
    raw = getattr(stream, "buffer", None)
    try:
        if isinstance(raw, io.RawIOBase):  # python -u, which drops what a full disk did not take
            data = text.encode("utf-8", "backslashreplace")
            while data:
                data = data[raw.write(data) :]
            return
        stream.write(text)
        if flush:
            stream.flush()
    except OSError as exc:
        raise _output_error(exc) from exc


def _is_terminal(stream: io.IOBase | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except (OSError, ValueError):
        return False


def _output_error(exc: OSError) -> OreError:
    broken = exc.errno == errno.EPIPE or (os.name == "nt" and exc.errno == errno.EINVAL)
    if broken:
        return ReaderGoneError("Nobody reads the answer any more.")
    return OutputError(f"The answer can't be written: {exc.strerror or exc}.")
