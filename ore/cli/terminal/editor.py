"""Writing a text in the user's own editor."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import termios
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from tempfile import mkdtemp

from ore.errors import FileAccessError, Terminated, UsageError
from ore.files import read_regular, reason
from ore.files.reached import why_unknown
from ore.files.signals import deferred_signals

_LIMIT = 1 << 20
_GRACE = 1.0
"""Seconds in which an editor ends that was told to."""


def write_in_editor(text: str, environ: Mapping[str, str]) -> str:
    """Open ``$VISUAL``, else ``$EDITOR``, with ``text``; return what was saved, without its last newline.

    The text is in a file that only this user can read and that is gone afterwards. The editor gets
    ``environ``: readline puts the terminal's size into the process's, where it soon is out of date.

    Raises:
        UsageError: Neither is set, what is set is not a command, or what was saved is not text.
        FileAccessError: The editor failed, or its file can't be made, can't be read or is larger
            than 1 MiB.
        Terminated: The process is to end. What was written is not lost: all three say where it is.
    """
    command = _command(environ.get("VISUAL") or environ.get("EDITOR") or "")
    with _file_of(text) as path:
        _run(command, path, environ)
        return _read(path)


@contextmanager
def _file_of(text: str) -> Iterator[str]:
    """Make a file with ``text`` for the block; it stays where the block fails and another text is in it."""
    begun, folder = text.encode(), ""
    try:
        folder = mkdtemp(prefix="ore-")
        path = os.path.join(folder, "prompt.md")
        with open(path, "wb") as file:
            file.write(begun)
    except OSError as exc:
        shutil.rmtree(folder, ignore_errors=True)
        raise FileAccessError(
            f"A file for the editor can't be made: {reason(exc)}; free some space, or set TMPDIR "
            f"to another folder."
        ) from exc
    try:
        yield path
    except (FileAccessError, UsageError, Terminated) as exc:
        kept = _kept(path, begun)
        if not kept:
            raise
        folder = ""
        raise type(exc)(f"{exc} {kept}".lstrip()) from exc
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _kept(path: str, begun: bytes) -> str:
    """Return where there is more than an empty file, or what it began with; "" where there is not."""
    try:
        if os.listdir(os.path.dirname(path)) not in ([], [os.path.basename(path)]):
            return f"What the editor kept is in {os.path.dirname(path)}."  # as it does when told to end
        if os.path.isfile(path) or why_unknown(path):
            with open(path, "rb") as file:
                if file.read(len(begun) + 1) not in (b"", begun):
                    return f"What you wrote is in {path}."
    except OSError:  # nobody knows that it is what it began with
        if why_unknown(path) or os.path.isfile(path) and os.path.getsize(path):
            return f"What you wrote may be in {path}."
    return ""


def _read(path: str) -> str:
    data = read_regular(path, _LIMIT)
    if b"\0" in data:
        raise UsageError(
            f"The text has a NUL at byte {data.index(0)}: take it out. Nothing was sent."
        )
    try:
        return data.decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError as exc:
        raise UsageError(
            f"The text is not UTF-8 at byte {exc.start}: save it as UTF-8. Nothing was sent."
        ) from exc


def _run(command: list[str], path: str, environ: Mapping[str, str]) -> None:
    editor = None
    try:
        with _interrupts_ignored(), _kept_modes():
            shown_on = None if os.isatty(1) else 2  # a file of answers is no place for its screen
            try:
                with deferred_signals(starts_program=True):  # else nobody might know of its process
                    editor = subprocess.Popen([*command, path], env=environ, stdout=shown_on)
                code = editor.wait()
            except Terminated:
                if editor is not None:
                    _end(editor)
                raise
    except OSError as exc:
        raise FileAccessError(
            f"The editor {command[0]} can't be started: {reason(exc)}; set VISUAL or EDITOR."
        ) from exc
    if code:
        raise FileAccessError(
            f"The editor {command[0]} ended with exit code {code}: nothing was sent."
        )


def _end(editor: subprocess.Popen[bytes]) -> None:
    """End an editor, which may keep first what it has: the terminal that is closed tells it so itself."""
    steps: tuple[Callable[[], object], ...] = (editor.poll, editor.terminate, editor.kill)
    for step in steps:
        step()
        with suppress(subprocess.TimeoutExpired):
            editor.wait(_GRACE)
            return


def _command(named: str) -> list[str]:
    with suppress(ValueError):
        if command := shlex.split(named):
            return command
    raise UsageError("There is no editor to open: set VISUAL or EDITOR to a command.")


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Leave Ctrl-C to the editor."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: None)  # a child gets the default back
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _kept_modes() -> Iterator[None]:
    """Have the terminal as it was after the block, even if a program in it was killed."""
    try:
        before = termios.tcgetattr(0)
    except termios.error:  # stdin is no terminal
        yield
        return
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(0, termios.TCSANOW, before)
