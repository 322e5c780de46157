"""Writing a text in the user's own editor.

Knows nothing about what the text is for.
"""

from __future__ import annotations

import os
import shlex
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ore.errors import FileAccessError, UsageError
from ore.files import read_regular, reason

_LIMIT = 1 << 20


def write_in_editor(text: str, environ: Mapping[str, str]) -> str:
    """Open ``$VISUAL``, else ``$EDITOR``, with ``text``; return what was saved, without its last newline.

    The text is in a file that only this user can read and that is gone afterwards.

    Raises:
        UsageError: Neither is set, what is set is no command, or what was saved is no text.
        FileAccessError: The editor failed, or its file can't be made, can't be read or is larger
            than 1 MiB.
    """
    import tempfile

    command = _command(environ)
    try:
        with tempfile.TemporaryDirectory(prefix="ore-") as folder:
            path = os.path.join(folder, "prompt.md")
            with open(path, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
            _run(command, path)
            data = read_regular(path, _LIMIT)
    except OSError as exc:
        raise FileAccessError(
            f"There can be no file for the editor: {reason(exc)}; free some space, or set TMPDIR "
            f"to another folder."
        ) from exc
    if b"\0" in data:
        raise UsageError(f"The text has a NUL at byte {data.index(0)}: nothing was sent.")
    try:
        written = data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise UsageError(f"The text is not UTF-8 at byte {exc.start}: nothing was sent.") from exc
    return written.removesuffix("\n")


def _run(command: list[str], path: str) -> None:
    import subprocess

    try:
        with _left_to_the_editor():
            code = subprocess.call([*command, path])
    except OSError as exc:
        raise FileAccessError(
            f"The editor {command[0]} can't be started: {reason(exc)}; set VISUAL or EDITOR."
        ) from exc
    if code:
        raise FileAccessError(f"The editor {command[0]} ended with {code}: nothing was sent.")


def _command(environ: Mapping[str, str]) -> list[str]:
    named = environ.get("VISUAL") or environ.get("EDITOR") or ""
    try:
        command = shlex.split(named)
    except ValueError:
        command = []
    if not command:
        raise UsageError("There is no editor to open: set VISUAL or EDITOR to a command.")
    return command


@contextmanager
def _left_to_the_editor() -> Iterator[None]:
    """Let Ctrl-C mean what the editor makes of it, and nothing to this process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: None)  # a child gets the default back
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
