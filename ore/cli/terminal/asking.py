"""What is read from the terminal: the next prompt's line, and the answer to a question."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from ore.cli.terminal.streams import Streams
from ore.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from ore.cli.terminal.editing import LineEditor

PROMPT_LABEL = "You: "
MORE_LABEL = "...  "
"""The prompt inside a text of several lines."""


class Asking(Streams):
    """Asks on the terminal and reads what is typed, or what is piped in instead."""

    is_of_process = False  # whether the streams are the process's own
    _editor: LineEditor | None = None

    def edit_lines(self, kept_in: Path | None, complete: Callable[[str], list[str]]) -> None:
        """Read lines through an editor with history from here on, where that is possible.

        That is: stdin and stdout are the process's own and a terminal, and there is ``readline``.

        Args:
            kept_in: The file that entries are kept in; None keeps them in memory.
            complete: Given the line up to the cursor, returns the words that can end it.
        """
        if not (self.is_of_process and self.stdin_is_terminal and self.stdout_is_terminal):
            return
        from ore.cli.terminal import editing, history

        if editing.IS_AVAILABLE:
            self._editor = editing.LineEditor(history.History(kept_in), complete)

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
        """
        if self.stdin is None:
            return None
        if self._editor is not None:
            line = self._editor.read(prompt, self._painted)
            if line is None and not self._editor.ends_its_line:
                self.end_line()
            return line
        if self.stdin_is_terminal and self.stdout_is_terminal:
            self._write(self._painted(prompt), flush=True)
        elif self.stdin_is_terminal:
            self._tell(prompt, end="")
        return self._read_line(self.stdin) or None

    def _read_line(self, stdin: io.BufferedIOBase) -> bytes:
        try:
            line = stdin.readline()
        except OSError as exc:
            problem = f"stdin can't be read: {exc.strerror}."
            if not self.stdin_is_terminal:
                raise UsageError(problem) from exc
            self._tell(problem, label="ore: ")
            line = b""  # the terminal is lost: that is the end of the input
        if not line and self.stdin_is_terminal:
            self.end_line()
        return line

    def hide_typing(self) -> AbstractContextManager[None]:
        """Return a context in which the terminal does not show what is typed; it is read later."""
        from ore.cli.terminal.editing import hidden_typing

        marks_pastes = self._editor is not None and self._editor.ends_its_line
        return hidden_typing(
            self.stdin, lambda mark: self._write(mark, flush=True), is_edited=marks_pastes
        )

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

    def end_line(self) -> None:
        """Leave the line that the terminal's cursor stands in."""
        self._tell("")
