"""What is read from the terminal: the next prompt's line, and the answer to a question."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ore.cli.terminal.bytewise import ask_for_utf8, on_terminal
from ore.cli.terminal.streams import Streams
from ore.errors import UsageError
from ore.files.neutral import one_line

if TYPE_CHECKING:
    from pathlib import Path

    from ore.cli.terminal.editing import LineEditor

PROMPT_LABEL = "You: "
MORE_LABEL = "...  "
"""The prompt inside a text of several lines."""

LONGEST_LINE = 16 << 20
"""Bytes: the longest line that a REPL reads."""
_TERMINAL_LINE = 4096
"""Bytes of a line, its end too, that Linux's terminals pass on; they drop the rest of it."""
_PART = 1 << 16
"""Bytes of a line that is skipped: how many are read at once."""


class LineTooLong(UsageError):
    """A line is longer than ``LONGEST_LINE``; what is left of it is skipped when the next is read."""

    def __init__(self) -> None:
        super().__init__(
            f"A line is longer than {LONGEST_LINE >> 20} MiB, so it was skipped: put a long text into "
            f"a file, for -f PATH."
        )


class Asking(Streams):
    """Asks on the terminal and reads what is typed, or what is piped in instead."""

    is_of_process = False  # whether the streams are the process's own
    _editor: LineEditor | None = None
    _skips = False  # whether the rest of a line is to be skipped
    _unseen = 0  # bytes of the lines typed ahead that the terminal has not shown
    _waiting_bytes: Callable[[io.BufferedIOBase], int] = staticmethod(lambda stdin: 0)
    _lost = ""  # why something that was typed ahead was thrown away, if it was

    def edit_lines(self, kept_in: Path | None, complete: Callable[[str], list[str]]) -> None:
        """Read lines through an editor with history from here on, where that is possible.

        That is: stdin and stdout are the process's own and a terminal, stderr is not closed, without
        which Python edits none, and there is ``readline``.

        Args:
            kept_in: The file that entries are kept in; None keeps them in memory.
            complete: Given the line up to the cursor, returns the words that can end it.
        """
        is_seen = self.stdin_is_terminal and self.stdout_is_terminal
        if is_seen:
            ask_for_utf8(self.stdout)  # what is typed is shown, too
        if not (self.is_of_process and is_seen and self.stderr is not None):
            return
        from ore.cli.terminal import editing, history

        if editing.IS_AVAILABLE:
            kept = history.History(kept_in)
            self._editor = editing.LineEditor(kept, complete)
            if kept.problem:
                self._tell(f"What you type is kept in memory only: {one_line(kept.problem)}")

    @property
    def history(self) -> str:
        """Where what is typed is kept, as a person reads it."""
        if self._editor is None:
            return "none: lines are not edited here"
        path = self._editor.history.path
        return "in memory" if path is None else f"kept in {path}"

    def ask(self, prompt: str = PROMPT_LABEL) -> bytes | None:
        """Return the next line of stdin with its line end, or None at its end.

        The prompt goes to the terminal when stdin is one: to stdout, or to stderr when stdout is
        redirected.

        Raises:
            LineTooLong: It is skipped.
        """
        if self.stdin is None:
            return None
        if self._lost:
            why, self._lost = self._lost, ""
            self._tell(f"What was typed ahead is gone: {why}.")
        if self._editor is not None:
            line = self._editor.read(prompt, self._painted)
            if line is None and not self._editor.ends_its_line:
                self.end_line()
            if line is not None and len(line) > LONGEST_LINE:
                raise LineTooLong
            return line
        if self.stdin_is_terminal and self.stdout_is_terminal:
            self._write(self._painted(prompt), flush=True)
        elif self.stdin_is_terminal:
            self._tell(prompt, end="")
        # Ctrl-C may have taken some of it.
        self._unseen = min(self._unseen, self._waiting_bytes(self.stdin))
        line = self._read_line(self.stdin)
        if line and self._unseen:
            self._unseen = max(self._unseen - len(line), 0)
            self._show_typed(on_terminal(line.decode("utf-8", "replace").rstrip("\r\n")))
        return line or None

    def _show_typed(self, text: str) -> None:
        """Show a line behind its prompt, where that was written to a terminal."""
        if self.stdout_is_terminal:
            self._write(text + "\n", flush=True)
        elif self.stderr_is_terminal:
            self._tell(text)

    def _read_line(self, stdin: io.BufferedIOBase) -> bytes:
        try:
            line = self._bounded_line(stdin)
        except OSError as exc:
            problem = f"stdin can't be read: {exc.strerror or exc}."
            if not self.stdin_is_terminal:
                raise UsageError(problem) from exc
            self._tell(problem, label="ore: ")
            line = b""  # the terminal is lost: that is the end of the input
        if not line and self.stdin_is_terminal:
            self.end_line()
        if self.stdin_is_terminal and len(line) == _TERMINAL_LINE:
            raise UsageError(
                f"The line has {_TERMINAL_LINE - 1:,} bytes, the most that a terminal passes on: "
                f"any more would be lost, so nothing was sent. Put a long text into a file, for -f "
                f"PATH."
            )
        return line

    def _bounded_line(self, stdin: io.BufferedIOBase) -> bytes:
        while self._skips:
            part = stdin.readline(_PART)
            self._skips = bool(part) and not part.endswith(b"\n")
        line = stdin.readline(LONGEST_LINE + 1)
        self._skips = len(line) > LONGEST_LINE and not line.endswith(b"\n")
        if self._skips:
            raise LineTooLong
        return line

    @contextmanager
    def hide_typing(self) -> Iterator[None]:
        """Keep the terminal from showing what is typed in the block; it is read, and shown, later."""
        from ore.cli.terminal.editing import hidden_typing, waiting_bytes

        is_edited = self._editor is not None
        marks_pastes = self._editor is not None and self._editor.ends_its_line

        def lost(why: str) -> None:
            self._lost = why

        try:
            with hidden_typing(
                self.stdin,
                self._put_mark,
                is_edited=is_edited,
                marks_pastes=marks_pastes,
                lost=lost,
            ):
                yield
        finally:
            if self.stdin is not None and self.stdin_is_terminal and not is_edited:
                self._waiting_bytes = waiting_bytes
                self._unseen = waiting_bytes(self.stdin)

    def _put_mark(self, mark: str) -> None:
        """Send the terminal a sequence that shows nothing, past whatever is being written."""
        with suppress(OSError, ValueError):  # the terminal is gone
            if self.stdout is not None:
                os.write(self.stdout.fileno(), mark.encode())

    def remember(self, entry: str) -> None:
        """Keep what was typed for the next time, where lines are edited."""
        if self._editor is not None:
            self._editor.remember(entry)

    @property
    def typed(self) -> str:
        """What an interrupted line held, as far as that is known."""
        return self._editor.typed if self._editor is not None else ""

    def confirm(self, question: str) -> bool | None:
        """Ask a question on the terminal; anything but ``y`` or ``yes`` is no.

        None means that nobody can be asked: stdin or stderr is not a terminal.
        """
        if self.stdin is None or not (self.stdin_is_terminal and self.stderr_is_terminal):
            return None
        from ore.cli.terminal.editing import forget_typed

        forget_typed(self.stdin)  # what was typed before the question does not answer it
        self._tell(f"{question} [y/N] ", end="")
        return self._read_line(self.stdin).strip().lower() in (b"y", b"yes")

    def blank_line(self) -> None:
        """Leave a line free on the terminal, between an answer and the next prompt."""
        if self.stdin_is_terminal and self.stdout_is_terminal:
            self._write("\n", flush=True)
        elif self.stdin_is_terminal:
            self.end_line()

    def end_line(self) -> None:
        """Leave the line that the terminal's cursor stands in, where the prompt was written."""
        if self.stdin_is_terminal and self.stdout_is_terminal and not self.stderr_is_terminal:
            self._write("\n", flush=True)
        else:
            self._tell("")
