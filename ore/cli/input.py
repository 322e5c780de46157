"""What is asked: argv and stdin as UTF-8, and the prompt that they make together.

Reads stdin only where it is a pipe, a regular file or a socket, so that no inherited terminal or
device is ever waited on. Knows nothing about modes.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Sequence

from ore.errors import UsageError

PATIENCE = 2.0
"""Seconds without a byte on stdin after which ORE says that it is reading it."""


def decode_argv(argv: Sequence[str]) -> list[str]:
    """Return the arguments as UTF-8 text, whatever locale the interpreter decoded them with.

    Raises:
        UsageError: An argument is not UTF-8; the message names the byte's offset.
    """
    return [_decode(_bytes(argument), "An argument") for argument in argv]


def _bytes(argument: str) -> bytes:
    try:
        return os.fsencode(argument)
    except UnicodeEncodeError as exc:
        raise UsageError(f"An argument is not text at character {exc.start}.") from exc


def decode_line(line: bytes) -> str:
    """Return one line of a REPL's input without its line end.

    Raises:
        UsageError: It is not UTF-8.
    """
    return _decode(line, "The line").rstrip("\r\n")


def is_readable(stdin: io.BufferedIOBase) -> bool:
    """Return whether stdin is a pipe, a regular file or a socket."""
    try:
        mode = os.fstat(stdin.fileno()).st_mode
    except (OSError, ValueError):  # in memory: a library's caller passed it on purpose
        return not stdin.closed and not stdin.isatty()
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def read_prompt(
    prompt: str | None, stdin: io.BufferedIOBase | None, notice: Callable[[str], None]
) -> str:
    """Return the prompt, what is piped in, or both: the prompt, a blank line, then stdin.

    Args:
        prompt: The argument, or None.
        stdin: Bytes; read to its end where ``is_readable``.
        notice: Told once, from another thread, when nothing has come for ``PATIENCE`` seconds.

    Raises:
        UsageError: There is neither, stdin is blank and there is no prompt, or it is not UTF-8.
    """
    piped = _read_all(stdin, notice) if stdin is not None and is_readable(stdin) else None
    if piped is not None and piped.strip():
        return piped if prompt is None else f"{prompt}\n\n{piped}"
    if prompt is not None:
        return prompt
    if piped is None:
        raise UsageError('There is no prompt: write one, as in ore "Why is the sky blue?".')
    raise UsageError("There is no prompt: none was written and stdin is empty.")


def _read_all(stdin: io.BufferedIOBase, notice: Callable[[str], None]) -> str:
    import threading

    text = "ore is reading stdin; to ask without it, add </dev/null."
    timer = threading.Timer(PATIENCE, notice, (text,))
    timer.daemon = True
    timer.start()
    try:
        first = stdin.read(1)
        timer.cancel()
        data = first + stdin.read()
    except OSError as exc:
        from ore.files import reason

        raise UsageError(f"stdin can't be read: {reason(exc)}.") from exc
    finally:
        timer.cancel()
    return _decode(data, "stdin")


def _decode(data: bytes, what: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise UsageError(
            f"{what} is not UTF-8 at byte {exc.start}: convert it first; it was not sent."
        ) from exc
