"""Typing at the terminal: a line with ``readline``, and what is typed ahead.

Where there is no ``readline`` the terminal's own editing has to do.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import select
import signal
import struct
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any

from ore.cli.terminal.history import History
from ore.cli.terminal.streams import obeys
from ore.errors import Terminated
from ore.files.signals import being_raised, take_back

try:
    import readline
except ImportError:  # pragma: no cover  # not tested: a Python built without it
    readline = None  # type: ignore[assignment]  # IS_AVAILABLE is asked first

IS_AVAILABLE = readline is not None
_MARKS_PASTES = 0x0801  # GNU readline 8.1
_PASTE_ON, _PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"
_MOST_AHEAD = 2048
"""Bytes that may be typed ahead: a terminal that holds 4,095 takes no more, and no Ctrl-C either."""
_LOOK_SECONDS = 0.1
"""Between two looks at what is typed; two parts of a paste come sooner one after the other."""
_ANEW_SECONDS = 0.5  # when a signal is sent again; one that comes at once is not heard
_LONGEST_SECONDS = 2.0
"""How long what still comes is thrown away: a key that is held down would never end."""
_LOCAL = 3  # where the local modes stand in what ``termios`` says of a terminal


class LineEditor:
    """Reads lines from the terminal that is the process's stdin and stdout.

    Args:
        history: Where entries come from and go to.
        complete: Given the line up to the cursor, returns the words that can stand in the place
            of its last word.

    Attributes:
        history: Where entries are kept.
        ends_its_line: Whether readline leaves the line itself at the end of the input.
    """

    def __init__(self, history: History, complete: Callable[[str], list[str]]) -> None:
        self.history = history
        self._complete = complete
        self._words: list[str] = []
        self._is_left = False
        self._end: Terminated | None = None
        self.ends_its_line: bool = False
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
        for each in ("convert-meta off", "input-meta on", "output-meta on"):
            readline.parse_and_bind(f"set {each}")  # else other locales' letters are commands
        if obeys(os.environ):
            # Python switches it off, for its own prompt reads line by line.
            readline.parse_and_bind("set enable-bracketed-paste on")
            version = getattr(readline, "_READLINE_RUNTIME_VERSION", 0)
            self.ends_its_line = version >= _MARKS_PASTES

    def read(self, prompt: str, colour: Callable[[str], str]) -> bytes | None:
        """Return the next line with its line end, or None at the end of the input.

        A line may hold further line ends: a paste of several lines is one line. After Ctrl-C
        ``typed`` says what the line held. ``colour`` returns the prompt's words in colour.
        """
        # \x01 and \x02 keep what is between them out of the prompt's width.
        label = prompt.rstrip()
        painted = colour(label)
        if painted != label:
            painted = painted.replace(label, f"\x02{label}\x01").join("\x01\x02")
        held = ""
        while True:
            _until_in_front(0)
            # Nothing where nothing is held: readline drops what a signal raises in a hook.
            readline.set_startup_hook(partial(readline.insert_text, held) if held else None)
            try:
                self._is_left = False
                with _on_ctrl_z(self._leave_the_line):  # the terminal is as it was during the stop
                    text = input(painted + prompt[len(label) :])
            except EOFError:
                return None
            except Terminated as exc:
                raise self._end or exc from None
            except SystemError as exc:  # a second signal, not heard: Python tells the first so
                first = exc.__cause__
                raise (first if isinstance(first, Terminated) else KeyboardInterrupt) from None
            except _Stopped:
                held = self.typed
                self._hear_ctrl_z_as_before()  # it may have come where the block was being left
                os.kill(os.getpid(), signal.SIGTSTP)  # goes on here when it is continued
            else:
                return text.encode("utf-8", "surrogateescape") + b"\n"
            finally:
                readline.set_startup_hook(None)
                self._hear_ctrl_z_as_before()

    @property
    def typed(self) -> str:
        """What the line held when it was interrupted."""
        return readline.get_line_buffer()

    def remember(self, entry: str) -> None:
        """Keep an entry, unless it is the last one again."""
        length = readline.get_current_history_length()
        if not length or readline.get_history_item(length) != entry:
            _offer(entry)
            self.history.add(entry)

    def _leave_the_line(self, _: int, frame: FrameType | None) -> None:
        if (first := being_raised()) is not None:
            raise first
        if frame is None or frame.f_code is not LineEditor.read.__code__:
            return  # another signal is being heard, or what it raised is on its way
        signal.signal(signal.SIGTSTP, signal.SIG_IGN)  # another would come while the line is left
        self._is_left = True
        raise _Stopped

    def _hear_ctrl_z_as_before(self) -> None:
        if self._is_left or signal.getsignal(signal.SIGTSTP) == self._leave_the_line:
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)

    def _completion(self, word: str, number: int) -> str | None:
        if number == 0:
            self._words = []
            try:
                self._words = self._complete(readline.get_line_buffer()[: readline.get_endidx()])
            except (KeyboardInterrupt, Terminated) as exc:  # readline drops it: it is raised anew
                anew = signal.SIGINT
                if isinstance(exc, Terminated):
                    self._end, anew = exc, signal.SIGTERM
                threading.Timer(_ANEW_SECONDS, os.kill, (os.getpid(), anew)).start()
        return self._words[number] if number < len(self._words) else None


def _offer(entry: str) -> None:
    """Let the arrow keys bring an entry back, if a line can hold it."""
    with suppress(ValueError):  # it has a NUL, or a character that the locale does not have
        readline.add_history(entry)


class _Stopped(Exception):
    """Ctrl-Z was pressed in a line."""


@contextmanager
def hidden_typing(
    stdin: io.BufferedIOBase | None,
    show: Callable[[str], None],
    *,
    is_edited: bool,
    marks_pastes: bool = False,
    lost: Callable[[str], None] = lambda why: None,
) -> Iterator[None]:
    """Keep the terminal from showing what is typed in the block; who reads next gets it.

    That is so after Ctrl-C too. Ctrl-Z stops the process with the terminal as it was before; what
    was typed until then is thrown away, for a shell would take it for commands. A ``stdin`` that is
    not a terminal is left alone.

    Args:
        show: Writes to the terminal, at once, also in the middle of another writing.
        is_edited: Whether the next reader edits lines itself. Then the terminal does not.
        marks_pastes: Whether the terminal is to mark where a paste begins and ends for that reader
            (bracketed paste).
        lost: Called with what threw something away: Ctrl-Z, or that it was too much.
    """
    before = _modes(stdin)
    if before is None or stdin is None:
        yield
        return
    hidden = list(before)
    hidden[_LOCAL] &= ~(termios.ECHO | (termios.ICANON if is_edited else 0))
    hidden[_LOCAL] |= termios.NOFLSH  # else Ctrl-C throws away what was typed

    def stop(*_: object) -> None:
        if waiting_bytes(stdin):
            lost("Ctrl-Z took it")  # said first: Ctrl-C may end what follows
        _forget(stdin)
        if marks_pastes:
            show(_PASTE_OFF)
        _set_modes(stdin, before)
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)  # goes on here when it is continued
        signal.signal(signal.SIGTSTP, stop)
        _until_in_front(stdin.fileno())
        _set_modes(stdin, hidden)
        if marks_pastes:
            show(_PASTE_ON)

    try:
        _set_modes(stdin, hidden)
        if marks_pastes:
            show(_PASTE_ON)
        with _on_ctrl_z(stop), _never_full(stdin, lost):
            yield
    finally:
        marks = [lambda: show(_PASTE_OFF)] if marks_pastes else []
        take_back([*marks, lambda: _set_modes(stdin, before)])


@contextmanager
def _never_full(stdin: io.BufferedIOBase, lost: Callable[[str], None]) -> Iterator[None]:
    """Throw away all that is typed ahead in the block where it is too much, so that Ctrl-C gets through."""
    over, full = threading.Event(), threading.Event()

    def look() -> None:
        while not over.wait(_LOOK_SECONDS):
            if full.is_set() or waiting_bytes(stdin) > _MOST_AHEAD:
                full.set()
                lost(f"it was more than {_MOST_AHEAD:,} bytes")  # said first, as above
                _forget(stdin)

    looking = threading.Thread(target=look, name="typed-ahead", daemon=True)
    with suppress(RuntimeError):  # the system has no thread left
        looking.start()
    try:
        yield
    finally:
        over.set()
        with suppress(RuntimeError):  # it was not started
            looking.join(_LOOK_SECONDS)
        if full.is_set():
            _forget(stdin, is_coming=True)


def waiting_bytes(stdin: io.BufferedIOBase) -> int:
    """Return how many bytes were typed and not read yet: of whole lines, where it edits them itself."""
    with suppress(OSError, ValueError):  # the terminal is gone
        return int(struct.unpack("i", fcntl.ioctl(stdin.fileno(), termios.FIONREAD, bytes(4)))[0])
    return 0


@contextmanager
def _on_ctrl_z(handler: Callable[..., None]) -> Iterator[None]:
    """Have ``handler`` called in the block where Ctrl-Z would have stopped the process."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTSTP) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTSTP, handler)
    try:
        yield
    finally:
        take_back([lambda: signal.signal(signal.SIGTSTP, signal.SIG_DFL)])


def _until_in_front(number: int) -> None:
    """In a shell's background, stop until ``fg``: what the terminal's modes are is the shell's until then.

    Args:
        number: The file descriptor of stdin; nothing is done where that is not a terminal.
    """
    while True:
        try:
            termios.tcdrain(number)  # the system stops whoever may not
            return
        except termios.error as exc:
            if exc.args[0] != errno.EINTR:  # there is no shell; else SIGCONT has a handler
                return


def _modes(stdin: io.BufferedIOBase | None) -> list[Any] | None:
    """Return the terminal's modes, or None where ``stdin`` is not a terminal."""
    if stdin is None:
        return None
    with suppress(OSError, ValueError, termios.error):
        _until_in_front(stdin.fileno())
        return termios.tcgetattr(stdin.fileno())
    return None


def _set_modes(stdin: io.BufferedIOBase, modes: list[Any]) -> None:
    with suppress(OSError, ValueError, termios.error):  # the terminal is gone
        termios.tcsetattr(stdin.fileno(), termios.TCSANOW, modes)


def forget_typed(stdin: io.BufferedIOBase) -> None:
    """Throw away what was typed and not read yet, where stdin is a terminal."""
    if _modes(stdin) is not None:
        _forget(stdin)


def _forget(stdin: io.BufferedIOBase, is_coming: bool = False) -> None:
    """Throw away what was typed and not read yet, and what still comes of it.

    Args:
        is_coming: Whether some of it may still come, even if there is nothing now.
    """
    with suppress(OSError, ValueError, termios.error):  # the terminal is gone
        is_there = bool(select.select([stdin.fileno()], [], [], 0)[0])
        termios.tcflush(stdin.fileno(), termios.TCIFLUSH)  # a line without its end, too
        until = time.monotonic() + (_LONGEST_SECONDS if is_there or is_coming else 0)
        while time.monotonic() < until and select.select([stdin], [], [], _LOOK_SECONDS)[0]:
            termios.tcflush(stdin.fileno(), termios.TCIFLUSH)
