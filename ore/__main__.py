"""The process's entry: loads ``.env`` files and hands over to the command line."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress

from ore.errors import INTERRUPTED


def start() -> None:
    """Load the environment and run the command line; ends the process with its exit code."""
    try:
        from ore.cli import run

        if {"--version", "--help", "-h"} & set(sys.argv[1:]):
            run()
        else:
            run(env_files=load_env_files())
    except KeyboardInterrupt:  # before the command line was there to catch it
        raise SystemExit(INTERRUPTED) from None
    finally:
        # The process ends: looking through all its objects for unused ones would take longer than
        # most of what ORE does (https://docs.python.org/3/library/gc.html#gc.freeze).
        gc.freeze()


def load_env_files() -> dict[str, str]:
    """Read ``.env`` beside ``main.py``, then ``~/.ore/.env``; real variables win over both.

    A file of the current folder is never read: whoever made that folder would choose the server
    that prompts are sent to. A line that is not a variable, or can't be set as one, is left out.

    Returns:
        The file that each variable came from. A file that can't be read stands for itself, with an
        empty text: ``{path: ""}``.
    """
    found: dict[str, str] = {}
    for path in filter(os.path.isfile, _env_files()):
        try:
            values = _read(path)
        except (ImportError, OSError, ValueError):
            found[path] = ""
            continue
        for name, value in values.items():
            if value is None or name in os.environ:
                continue
            with suppress(OSError, ValueError):  # a NUL in it, or a "=" in its name
                os.environ[name] = value
                found[name] = path
    return found


def _read(path: str) -> dict[str, str | None]:
    """Return the variables of a file; one without a ``=`` has no value.

    Raises:
        ImportError: The package that reads such files is missing.
        OSError, ValueError: The file can't be read, or is not UTF-8.
    """
    from dotenv.main import dotenv_values, logger

    logger.disabled = True  # it would write to stderr
    return dotenv_values(path, interpolate=True, encoding="utf-8-sig")


def _env_files() -> list[str]:
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    files = [os.path.join(here, ".env")] if os.path.isfile(os.path.join(here, "main.py")) else []
    home = os.environ.get("ORE_HOME") or os.path.join(os.path.expanduser("~"), ".ore")
    return [*files, os.path.join(home, ".env")] if os.path.isabs(home) else files


if __name__ == "__main__":
    start()
