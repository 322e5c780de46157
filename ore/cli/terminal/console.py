"""The only writer: the answer to stdout, everything else to stderr.

What reaches a terminal is neutralised, and only ORE's own words are coloured; what goes to a pipe
or a file is verbatim. Knows nothing about flags, sessions or backends.
"""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from ore.cli.terminal.streams import Streams, make_blocking, paint_label, redirect_to_null
from ore.cli.terminal.text import AnswerText, amount, laid_out, list_lines, pairs, summary
from ore.errors import ReasonerContractError, UsageError
from ore.files.neutral import neutralise

if TYPE_CHECKING:
    from pathlib import Path

    from ore.cli.terminal.editing import LineEditor
    from ore.cli.terminal.markdown import Markdown

ANSWER_LABEL = "[AYA]: "
PROMPT_LABEL = "You: "
MORE_LABEL = "...  "
"""The prompt inside a text of several lines."""

REDRAW_EVERY = 0.1
"""Seconds between two looks of the same bar."""
MOST_RECALLED = 12
"""Lines of the last answer that are shown when its session is resumed."""


class Console(Streams):
    """The three standard streams, and what may be written to them.

    What writes to stdout may raise ``OutputError`` or ``ReaderGoneError``.
    """

    markdown = False  # whether answers on a terminal are shown as Markdown
    _line_is_open = False
    _label_is_due = False
    _shown: AnswerText | Markdown | None = None
    _editor: LineEditor | None = None
    _step = ""
    _drawn_at = 0.0
    _bar_width = 0

    @classmethod
    def from_system(cls) -> Console:
        """Return a console on the process's own streams, UTF-8 whatever the locale."""
        make_blocking(sys.stdin, sys.stdout, sys.stderr)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
        if isinstance(sys.stdin, io.TextIOWrapper):  # what readline's lines are decoded with
            sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")
        stdout, stderr = (getattr(sys, name) for name in ("stdout", "stderr"))  # None where closed
        return cls(getattr(sys.stdin, "buffer", None), stdout, stderr, os.environ)

    # The answer

    def begin_answer(self) -> None:
        """Say that an answer follows: its first text is labelled where a person reads along."""
        self._label_is_due = self.stdout_is_terminal
        if self.stdout_is_terminal and self.markdown:
            from ore.cli.terminal.markdown import Markdown

            self._shown = Markdown(self._columns(self.stdout) or 80, self.stdout_has_colour)
        elif self.stdout_is_terminal:
            self._shown = AnswerText(self._columns(self.stdout), len(ANSWER_LABEL))

    def chunk(self, text: str) -> None:
        """Write a part of the answer at once; on a terminal, as far as its words are complete."""
        if not text:
            return
        self._line_is_open = True
        if self._shown is not None:
            self._shown.width = self._columns(self.stdout) or self._shown.width
            text = self._label() + self._shown.feed(text)
        if text:
            self._write(text, flush=True)

    def end_answer(self) -> None:
        """Write what is left of the answer, and the newline after it."""
        rest = self._shown.end() if self._shown is not None else ""
        self._shown = None
        self._write(f"{self._label()}{rest}\n", flush=True)
        self._line_is_open = False

    def _label(self) -> str:
        label = self._painted(ANSWER_LABEL) if self._label_is_due else ""
        self._label_is_due = False
        return label

    def _painted(self, label: str) -> str:
        return paint_label(label) if self.stdout_has_colour else label

    def break_answer(self) -> None:
        """After a failure in mid-answer: show what was held, and begin a new line."""
        if self._line_is_open:
            self.end_answer()

    # Documents and lists

    def document(self, text: str) -> None:
        """Write a whole document, ending in one newline."""
        if self.stdout_is_terminal:
            text = neutralise(text)
        self._write(text if text.endswith("\n") else text + "\n", flush=True)

    def json(self, value: object) -> None:
        """Write one JSON document; raise ``ReasonerContractError`` for a value that has no JSON."""
        import json

        try:
            self.document(json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as exc:
            raise ReasonerContractError(f"The answer can't be written as JSON: {exc}.") from exc

    def rows(self, rows: Sequence[Sequence[str]]) -> None:
        """Write a list: aligned columns on a terminal, tab-separated ones in a pipe."""
        lines = list_lines(rows, self.stdout_is_terminal)
        self._write("".join(f"{line}\n" for line in lines), flush=True)

    def transcript(self, head: str, parts: Sequence[tuple[str, str]]) -> None:
        """Write a conversation: a line about it, then each text after its speaker's label."""
        paragraphs = [head, *(label + text for label, text in parts)]
        if self.stdout_is_terminal:
            width = self._columns(self.stdout)
            said = [
                self._painted(label) + laid_out(text, width, len(label)) for label, text in parts
            ]
            paragraphs = [neutralise(head), *said]
        self._write("\n\n".join(paragraphs) + "\n", flush=True)

    def abandon_stdout(self) -> None:
        """Stop writing to stdout, and keep the interpreter's last flush from failing."""
        if self.stdout is not None and self.stdout is sys.stdout:
            redirect_to_null(self.stdout)
        self.stdout = None

    # Everything else

    def notice(self, text: str) -> None:
        """Write one line to stderr, dim where colour is allowed, unless ORE is to be quiet."""
        if not self.quiet:
            self._tell(text, is_dim=True)

    def recall(self, label: str, text: str) -> None:
        """Write an earlier message to stderr, the end of a long one, unless ORE is to be quiet."""
        if self.quiet:
            return
        lines = self._wrapped(text, len(label)).split("\n")
        if len(lines) > MOST_RECALLED:
            lines = ["…", *lines[-MOST_RECALLED:]]
        self._tell("\n".join(lines), label=label)

    def reply(self, text: str) -> None:
        """Write lines to stderr, even when ORE is to be quiet: what was asked for, the usage."""
        self._tell(text)

    def warning(self, text: str) -> None:
        """Write one line to stderr, even when ORE is to be quiet: the answer is not what was asked for.

        The model has not seen all of the prompt, the answer was cut off, or another backend than
        the user's usual one gives it; everything else is a notice.
        """
        self._tell(text, label="ore: warning: ")

    def error(self, text: str) -> None:
        """Write one error to stderr."""
        self._tell(text, label="ore: ")

    def metadata(self, response_id: str, model_id: str, values: Mapping[str, object]) -> None:
        """Write ``[Metadata]:``, for a person on a terminal and as ``key=value`` elsewhere."""
        if self.quiet:
            return
        if self.stderr_is_terminal:
            text = summary(response_id, model_id, values)
        else:
            text = pairs({"id": response_id, "model": model_id})
            text = f"{text} {pairs(values)}".rstrip()
        self._tell(text, label="[Metadata]: ")

    def progress(self, step: str, done: int, total: int) -> None:
        """Show how far a step is, in bytes: a bar where one can be drawn, else a line a step."""
        if self.quiet:
            return
        now = time.monotonic()
        if step == self._step and (not self._can_redraw or now - self._drawn_at < REDRAW_EVERY):
            return
        self._step, self._drawn_at = step, now
        if not self._can_redraw:
            self._tell(step)
            return
        bar = f"{step}: {amount(done, total)}"
        self._tell(bar.ljust(self._bar_width), end="\r")
        self._bar_width = len(bar)

    def end_progress(self) -> None:
        """Take the bar away, if one is shown."""
        if self._bar_width:
            self._tell(" " * self._bar_width, end="\r")
        self._step, self._bar_width = "", 0

    # The terminal's prompt

    def edit_lines(self, history: Path | None, complete: Callable[[str], list[str]]) -> None:
        """Read lines through an editor with history from here on, where that is possible.

        That is: stdin and stdout are the process's own and a terminal, and there is ``readline``.

        Args:
            history: The file that entries are kept in; None keeps them in memory.
            complete: Given the line up to the cursor, returns the words that can end it.
        """
        ours = self.stdin is getattr(sys.stdin, "buffer", None) and self.stdout is sys.stdout
        if not (ours and self.stdin_is_terminal and self.stdout_is_terminal):
            return
        from ore.cli.terminal import editing
        from ore.cli.terminal.history import History

        if editing.IS_AVAILABLE:
            self._editor = editing.LineEditor(History(history), complete)

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
            self.error(problem)
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

    def stopped(self, text: str) -> None:
        """Say what Ctrl-C did, in place of the ``^C`` that the terminal itself has shown."""
        if self._can_redraw:
            self._put("\r\x1b[K")
        self.notice(text)

    def end_line(self) -> None:
        """Leave the line that the terminal's cursor stands in."""
        self._tell("")
