"""The only writer: the answer to stdout, everything else to stderr.

What reaches a terminal is neutralised, and only ORE's own words are coloured; what goes to a pipe
or a file is verbatim. Knows nothing about flags, sessions or backends.
"""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from ore.cli.terminal.apart import given_back
from ore.cli.terminal.asking import Asking
from ore.cli.terminal.bytewise import look_for_bytewise, may_be_bytewise, on_terminal
from ore.cli.terminal.documents import in_parts, json_encoder, laying_out
from ore.cli.terminal.labels import with_own
from ore.cli.terminal.measured import pairs, summary
from ore.cli.terminal.pace import Pace, amount
from ore.cli.terminal.streams import PatientInput, TextInput, redirect_to_null
from ore.cli.terminal.text import AnswerText, list_lines, most_columns
from ore.errors import OreError, ReasonerContractError
from ore.files.signals import hear_no_more, on_continue
from ore.files.whole import flush_whole, is_stalled, make_blocking

if TYPE_CHECKING:
    from ore.cli.terminal.markdown import Markdown

REDRAW_EVERY = 0.1
"""Seconds between two looks of the same bar."""
MOST_RECALLED = 12
"""Lines of the last answer that are shown when its session is resumed."""
_RECALLED = 1 << 16
"""Characters at the end of it that are looked at: laying out 16 MiB would take half a minute."""


def apart() -> AbstractContextManager[object]:
    """Return a block in which what the code of a tool prints goes to stderr: stdout is ORE's."""
    return given_back(sys.stdout, sys.stderr)


class Console(Asking):
    """The three standard streams, and what may be written to them.

    What writes to stdout may raise ``OutputError`` or ``ReaderGoneError``.
    """

    said: Callable[[str | OreError], str] = str  # how a sentence of the library's is said here
    markdown: bool = False  # whether answers on a terminal are shown as Markdown
    answer_label: str = "[AYA]: "
    is_last = False  # whether the process ends with it
    _line_is_open = False
    _label_is_due = False
    _shown: AnswerText | Markdown | None = None
    _lay_out: Callable[..., Any] | None = None
    _step, _pace = "", Pace()
    _drawn_at = 0.0
    _change = ""

    @classmethod
    def from_system(cls) -> Console:
        """Return a console on the process's own streams, UTF-8 whatever the locale."""
        make_blocking(sys.stdin, sys.stdout, sys.stderr)
        look_for_bytewise(sys.stdout, sys.stderr, environ=os.environ)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
        stdin = getattr(sys.stdin, "buffer", None)
        if isinstance(stdin, io.BufferedReader):
            stdin = io.BufferedReader(PatientInput(stdin))
        if isinstance(sys.stdin, io.TextIOWrapper):
            try:  # what readline's lines are decoded with
                sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")
            except io.UnsupportedOperation:  # a program has read a part of it
                stdin = io.BufferedReader(TextInput(sys.stdin))
        stdout, stderr = (getattr(sys, name) for name in ("stdout", "stderr"))  # None where closed
        if isinstance(sys.stdin, io.StringIO) and not sys.stdin.closed:  # put there by a program
            stdin = io.BytesIO(sys.stdin.read().encode("utf-8", "surrogatepass"))
        console = cls(stdin, stdout, stderr, os.environ)
        console.is_of_process = True
        return console

    # The answer

    def answers_as(self, name: str) -> None:
        """Label the answers from here on with a name, which no line of a text may pass for."""
        self.answer_label = f"[{name.upper()}]: "
        self.labels: Sequence[str] = with_own(self.answer_label)

    def begin_answer(self) -> None:
        """Say that an answer follows: its first text is labelled where a person reads along."""
        self.break_answer()  # the last one's line, where nobody read it as it was stopped
        self._label_is_due, width = self.stdout_is_terminal, self._columns(self.stdout)
        if self.stdout_is_terminal and self.markdown and not may_be_bytewise():
            from ore.cli.terminal.markdown import Markdown, bounded

            self._lay_out = self._lay_out or bounded()
            self._shown = Markdown(width, self.stdout_has_colour, self.labels, self._lay_out)
        elif self.stdout_is_terminal:
            self._shown = AnswerText(width, self.answer_label, self.labels)

    def chunk(self, text: str) -> None:
        """Write a part of the answer at once; on a terminal, as far as its words are complete."""
        for part in filter(None, (text,)) if self._shown is None else in_parts(text):
            self._line_is_open, shown = True, part
            if self._shown is not None:
                self._shown.width = self._columns(self.stdout) or self._shown.width
                shown = self._label() + self._shown.feed(part)
            if shown:
                self._write(shown, flush=True)
                plain = self._shown if isinstance(self._shown, AnswerText) else None
                self._may_fill_line = plain is not None and plain.may_fill_line

    def thinking(self, text: str) -> None:
        """Write a part of the model's thinking; in mid-answer both go on in lines of their own."""
        is_in_answer = self._line_is_open and not self._is_thinking
        if is_in_answer and self.stdout_is_terminal and self.stderr_is_terminal:
            self._put_apart("\n")
            if isinstance(self._shown, AnswerText):
                self._shown.is_moved = True
        super().thinking(text)

    def following_stops(self) -> AbstractContextManager[None]:
        """Return a context in which an answer goes on in a line of its own after Ctrl-Z and ``fg``."""

        def begin_line() -> None:
            for shown in (self._thought, None if self._label_is_due else self._shown):
                if isinstance(shown, AnswerText):
                    shown.is_moved, shown.is_lost = True, self._is_writing

        return on_continue(begin_line) if self.stdout_is_terminal else nullcontext()

    def end_answer(self) -> None:
        """Write what is left of the answer, and the newline after it; on a terminal, its own is enough."""
        shown, self._shown = self._shown, None
        rest = shown.end() if shown is not None and not self._is_writing else ""
        is_over = shown.begins_line if isinstance(shown, AnswerText) else rest.endswith("\n")
        self._write(self._label() + rest + ("" if is_over else "\n"), flush=True)
        self._line_is_open = False
        if getattr(shown, "is_plain", False):
            self.notice("A part of the answer can't be laid out, and is shown as it was written.")

    def _label(self) -> str:
        is_due, self._label_is_due = self._label_is_due, False
        return self._painted(self.answer_label) if is_due else ""

    def break_answer(self) -> None:
        """After a failure in mid-answer: show what was held, and begin a new line."""
        if self._line_is_open and self.stdout is not None:
            self.end_answer()

    # Documents and lists

    def document(self, text: str, is_json: bool = False) -> None:
        """Write a whole document, ending in one newline; on a terminal, while it is laid out."""
        text = text if text.endswith("\n") else text + "\n"
        for part in self._as_shown(text, is_json):
            self._write(part, flush=True)

    def json(self, value: object) -> None:
        """Write one JSON document; raise ``ReasonerContractError`` for a value that has no JSON."""
        try:
            self.document(json_encoder()(value), is_json=True)
        except (TypeError, ValueError, RecursionError) as exc:
            raise ReasonerContractError(f"The answer can't be written as JSON: {exc}.") from exc

    def json_list(self, values: Iterable[object]) -> None:
        """Write one JSON document, a list, value by value, so that it is never whole in memory."""
        encode, separator = json_encoder(), "[\n  "
        for value in values:
            for part in self._as_shown(separator + encode(value).replace("\n", "\n  "), True):
                self._write(part)
            separator = ",\n  "
        self._write("[]\n" if separator[0] == "[" else "\n]\n", flush=True)

    def rows(self, rows: Sequence[Sequence[str]]) -> None:
        """Write a list: aligned columns on a terminal, tab-separated ones in a pipe."""
        text = "".join(f"{line}\n" for line in list_lines(rows, self.stdout_is_terminal))
        if text:
            self.document(text)
        else:
            self._write("", flush=True)

    def transcript(self, head: str, parts: Sequence[tuple[str, str]]) -> None:
        """Write a conversation: a line about it, then each text after its speaker's label."""
        if not self.stdout_is_terminal:
            paragraphs = [head, *(label + text for label, text in parts)]
            self._write("\n\n".join(paragraphs) + "\n", flush=True)
            return
        for label, text in (("", head), *parts):
            self._write(f"\n{self._painted(label)}" if label else "")
            for shown in laying_out(text, self._width, label, self.labels):
                self._write(shown, flush=True)
            self._write("\n", flush=True)

    def abandon_stdout(self) -> None:
        """Stop writing to stdout, and keep the interpreter's last flush from failing."""
        if self.stdout is not None and self.stdout is sys.stdout:
            redirect_to_null(self.stdout)
        self.stdout: io.TextIOBase | None = None

    def give_up_stalled(self) -> None:
        """Write no more to a stream that nobody reads: who was told to end would wait for ever."""
        if is_stalled(self.stdout):
            self.abandon_stdout()
        if self.stderr is not None and is_stalled(self.stderr):
            redirect_to_null(self.stderr)
            self.stderr: io.TextIOBase | None = None

    def end(self) -> None:
        """Where the process ends with this console, hear Ctrl-C no more.

        The interpreter writes out what is left, and waits where nobody reads: so that is done
        before, and Ctrl-C still drops it.
        """
        if not self.is_last:
            return
        try:
            with suppress(OSError, ValueError):  # the interpreter says what is wrong
                if self.stdout is not None:
                    flush_whole(self.stdout)
        except KeyboardInterrupt:
            self.abandon_stdout()
        hear_no_more()

    # Everything else

    def notice(self, text: str) -> None:
        """Write one line to stderr, dim where colour is allowed, unless ORE is to be quiet."""
        if not self.quiet:
            self._tell(self.said(text), is_dim=True)

    def notice_in_answer(self, text: str) -> None:
        """Write a notice between two lines of an answer; where it is rendered, the label's is open."""
        if not (self.quiet or self._shown is None or isinstance(self._shown, AnswerText)):
            self._write("\n", flush=True)
        self.notice(text)

    def change(self, text: str) -> None:
        """Write one line as ``notice`` does, unless it is the one that was written last so."""
        if text != self._change:
            self._change = text
            self.notice(text)

    def recall(self, label: str, text: str) -> None:
        """Write an earlier message to stderr, the end of a long one, unless ORE is to be quiet."""
        if self.quiet:
            return
        if len(text) > _RECALLED:
            text = "…\n" + text[-_RECALLED:]
        lines = self._wrapped(text, label).split("\n")
        if len(lines) > MOST_RECALLED:
            lines = ["…", *lines[-MOST_RECALLED:]]
        self._tell("\n".join(lines), label=on_terminal(label) if self.stderr_is_terminal else label)

    def reply(self, text: str) -> None:
        """Write lines to stderr, even when ORE is to be quiet: what was asked for, the usage."""
        self._tell(text)

    def warning(self, text: str) -> None:
        """Write one line to stderr, even when ORE is to be quiet: the answer is not what was asked for.

        The model has not seen all of the prompt, the answer was cut off, or another backend than
        the user's usual one gives it; everything else is a notice.
        """
        self._tell(self.said(text), label="ore: warning: ")

    def error(self, text: str | OreError) -> None:
        """Write one error to stderr."""
        self._tell(self.said(text), label="ore: ")

    def metadata(self, response_id: str, model_id: str, values: Mapping[str, object]) -> None:
        """Write ``[Metadata]:``, for a person on a terminal and as ``key=value`` elsewhere."""
        if self.quiet:
            return
        if self.stderr_is_terminal:
            text = summary(response_id, model_id, values)
        else:
            text = f"{pairs({'id': response_id, 'model': model_id})} {pairs(values)}".rstrip()
        self._tell(text, label="[Metadata]: ")

    def progress(self, step: str, done: int, total: int) -> None:
        """Show how far a step is, in bytes: a bar where one can be drawn, else a line a step."""
        if self.quiet:
            return
        now = time.monotonic()
        if step == self._step and (not self.can_redraw or now - self._drawn_at < REDRAW_EVERY):
            return
        if step != self._step:
            self._pace = Pace()
        self._step, self._drawn_at = step, now
        if not self.can_redraw:
            self._tell(self._cut(step))
            return
        room = (self._columns(self.stderr) or 80) - len(step) - 3
        self.bar(f"{step}: {amount(done, total, self._pace.after(now, done, total), room)}")

    def bar(self, text: str) -> bool:
        """Show a text in the place of the bar that is shown; return whether one can be drawn."""
        if self.quiet or not self.can_redraw:
            return False
        self._tell(text.ljust(self._bar_width), end="\r")
        self._bar_width = most_columns(self._cut(text))
        return True

    def end_progress(self) -> None:
        """Take the bar away, if one is shown."""
        if self._bar_width:
            self._tell(" " * self._bar_width, end="\r")
        self._step, self._bar_width = "", 0

    def stopped(self, text: str) -> None:
        """Say what Ctrl-C did, in place of the ``^C`` that the terminal itself has shown."""
        if self.can_redraw:
            self._put("\r\x1b[K")
        self.notice(text)
