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
        UsageError: Neither is set, what is set is no command, or the text is not UTF-8.
        FileAccessError: The editor failed, or its file can't be read or is larger than 1 MiB.
    """
    import subprocess
    import tempfile

    command = _command(environ)
    with tempfile.TemporaryDirectory(prefix="ore-") as folder:
        path = os.path.join(folder, "prompt.md")
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        try:
            with _left_to_the_editor():
                code = subprocess.call([*command, path])
        except OSError as exc:
            raise FileAccessError(
                f"The editor {command[0]} can't be started: {reason(exc)}; set VISUAL or EDITOR."
            ) from exc
        if code:
            raise FileAccessError(f"The editor {command[0]} ended with {code}: nothing was sent.")
        data = read_regular(path, _LIMIT)
    try:
        written = data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise UsageError(f"The text is not UTF-8 at byte {exc.start}: nothing was sent.") from exc
    return written.removesuffix("\n")


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
