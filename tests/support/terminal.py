"""ORE on a pseudo-terminal, typed into and read from as a person's terminal would."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from typing import Any

from ore.cli.terminal.documents import document_parts
from ore.cli.terminal.labels import LABELS
from tests.support.process import PATIENCE, ROOT, environment

OURS = re.compile(
    rb"\x1b\[[0-9;]*m"  # colours
    rb"|\x1b\[\?(?:2004|1034)[hl]"  # readline: bracketed paste, meta key
    rb"|\x1b\[\d*[ACDKPJ@]|\x1b\[\d*G|\x1b\[H\x1b\[2J"  # readline: moving in its line
    rb"|\x1b[78]|\x1b\[\?7[lh]"  # the waiting indicator
)
"""What ORE itself, or readline, may send to a terminal besides text."""


def document_of(text, width, is_json=False):
    """A document as a terminal of that width shows it."""
    return "".join(document_parts(text, lambda: width, LABELS, is_json))


class OnTerminal:
    """A process of ``tests.support.scripted`` whose three streams are one terminal.

    Args:
        args: ORE's arguments.
        replies: What the model answers: see ``tests.support.scripted``.
        size: Rows and columns.
        env: Changes to the environment; None takes a variable away.
        command: What to start instead.
    """

    def __init__(
        self,
        *args: str,
        replies: Sequence[Any] = (),
        size: tuple[int, int] = (24, 80),
        env: dict[str, str | None] | None = None,
        command: Sequence[str] = (),
    ) -> None:
        self._ours, theirs = pty.openpty()
        self.resize(*size)
        script = [sys.executable, "-m", "tests.support.scripted", json.dumps(list(replies)), *args]
        # The shell opens the terminal as the leader of a session, which makes it controlling.
        shell = ["sh", "-c", 'exec "$@" <"$0" >"$0" 2>"$0"', os.ttyname(theirs)]
        usual = {"TERM": "xterm-256color", "LANG": "C.UTF-8", "LC_ALL": None}
        variables = environment(**{**usual, "PYTHONPATH": str(ROOT), **(env or {})})
        self.process = subprocess.Popen(
            [*shell, *(command or script)], env=variables, start_new_session=True
        )
        self.seen = b""
        self._theirs = theirs

    def resize(self, rows: int, columns: int) -> None:
        """Change the terminal's size; the system tells the process."""
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str | bytes) -> None:
        """Type something."""
        os.write(self._ours, text.encode() if isinstance(text, str) else text)

    def interrupt(self, key: str) -> None:
        """Type a key that is a signal, once the process waits: readline misses it between two looks."""
        time.sleep(0.15)
        self.type(key)

    def wait_for(self, text: str | bytes, seconds: float = PATIENCE) -> bytes:
        """Read until something is shown that was not returned before; return all up to its end."""
        wanted = text.encode() if isinstance(text, str) else text
        limit = time.monotonic() + seconds
        while wanted not in self.seen:
            assert time.monotonic() < limit, f"{wanted!r} did not come: {self.seen!r}"
            self._read(0.05)
        place = self.seen.index(wanted) + len(wanted)
        seen, self.seen = self.seen[:place], self.seen[place:]
        return seen

    def end(self) -> tuple[int, bytes]:
        """Wait for the process to end; return its code and what was not returned before."""
        os.close(self._theirs)
        self._theirs = -1
        limit = time.monotonic() + PATIENCE
        while self._read(0.05) or self.process.poll() is None:
            assert time.monotonic() < limit, f"it did not end: {self.seen!r}"
        return self.process.wait(), self.seen

    def _read(self, seconds: float) -> bool:
        if not select.select([self._ours], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._ours, 1 << 16)
        except OSError:  # nobody has the other end open
            return False
        self.seen += data
        return bool(data)

    def __enter__(self) -> OnTerminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)
        if self._theirs >= 0:
            os.close(self._theirs)
