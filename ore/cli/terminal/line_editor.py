"""Editing a line on the process's terminal through ``readline``, with history and completion.

Where there is no ``readline`` the terminal's own editing has to do. Knows nothing about what the
lines mean.
"""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Callable

from ore.cli.terminal.history import History
from ore.cli.terminal.typing_ahead import on_ctrl_z

try:
    import readline
    import termios
except ImportError:  # pragma: no cover  # not tested: Windows, a Python built without it
    readline = termios = None  # type: ignore[assignment]  # IS_AVAILABLE is asked first

_WITH_PASTE = 0x0801  # GNU readline 8.1

IS_AVAILABLE = readline is not None


class LineEditor:
    """Reads lines from the terminal that is the process's stdin and stdout.

    Args:
        history: Where entries come from and go to.
        complete: Given the line up to the cursor, returns the words that can stand in the place
            of its last word.

    Attributes:
        ends_its_line: Whether readline leaves the line itself at the end of the input.
    """

    def __init__(self, history: History, complete: Callable[[str], list[str]]) -> None:
        self._history = history
        self._complete = complete
        self._words: list[str] = []
        self.ends_its_line = False
        readline.set_auto_history(False)
        readline.clear_history()
        for entry in history.entries():
            _offer(entry)
        readline.set_completer_delims(" ")
        readline.set_completer(self._completion)
        if "libedit" in (readline.__doc__ or ""):  # pragma: no cover  # not tested: macOS has it
            readline.parse_and_bind("bind ^I rl_complete")
            return
        readline.parse_and_bind("tab: complete")
        if os.environ.get("TERM", "dumb") != "dumb":
            # Python switches it off, for its own prompt reads line by line.
            readline.parse_and_bind("set enable-bracketed-paste on")
            version = getattr(readline, "_READLINE_RUNTIME_VERSION", 0)
            self.ends_its_line = version >= _WITH_PASTE

    def read(self, prompt: str, colour: Callable[[str], str]) -> bytes | None:
        """Return the next line with its line end, or None at the end of the input.

        A line may hold further line ends: a paste of several lines is one line.

        Args:
            prompt: What stands before the line.
            colour: Returns the prompt's words with their colour.

        Raises:
            KeyboardInterrupt: Ctrl-C; ``typed`` says what the line held.
        """
        # \x01 and \x02 keep what is between them out of the prompt's width.
        label = prompt.rstrip()
        painted = colour(label)
        if painted != label:
            painted = painted.replace(label, f"\x02{label}\x01").join("\x01\x02")
        held = ""
        while True:
            readline.set_startup_hook(lambda: readline.insert_text(held) if held else None)
            try:
                with on_ctrl_z(_leave_the_line):  # the terminal is as it was during the stop
                    text = input(painted + prompt[len(label) :])
            except EOFError:
                return None
            except _Stopped:
                held = self.typed
                os.kill(os.getpid(), signal.SIGTSTP)  # goes on here when it is continued
            else:
                return text.encode("utf-8", "surrogateescape") + b"\n"
            finally:
                readline.set_startup_hook(None)

    @property
    def typed(self) -> str:
        """What the line held when it was interrupted."""
        return readline.get_line_buffer()

    def remember(self, entry: str) -> None:
        """Keep an entry, unless it is the last one again."""
        length = readline.get_current_history_length()
        if length and readline.get_history_item(length) == entry:
            return
        _offer(entry)
        self._history.add(entry)

    def _completion(self, word: str, number: int) -> str | None:
        if number == 0:
            self._words = self._complete(readline.get_line_buffer()[: readline.get_endidx()])
        return self._words[number] if number < len(self._words) else None


def _offer(entry: str) -> None:
    """Let the arrow keys bring an entry back, unless it is none that a line can hold."""
    try:
        readline.add_history(entry)
    except ValueError:
        pass  # it has a NUL, or a character that the locale does not have


class _Stopped(Exception):
    """Ctrl-Z was pressed in a line."""


def _leave_the_line(*_: object) -> None:
    raise _Stopped


def forget_typed(stdin: io.BufferedIOBase) -> None:
    """Throw away what was typed and not read yet, where stdin is a terminal."""
    if termios is None:  # pragma: no cover  # not tested: Windows has none
        return
    try:
        termios.tcflush(stdin.fileno(), termios.TCIFLUSH)
    except (OSError, ValueError, termios.error):
        pass  # in memory
