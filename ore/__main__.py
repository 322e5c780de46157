"""The process's entry: loads ``.env`` files and hands over to the command line."""

from __future__ import annotations

import gc
import os
import sys
from io import StringIO

from ore.errors import INTERRUPTED, NO_MEMORY, SHORT_OF_MEMORY, is_shortage


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
    except SHORT_OF_MEMORY as exc:
        if not is_shortage(exc):
            raise
        raise SystemExit(f"ore: {NO_MEMORY}") from None
    finally:
        # The process ends: looking through all its objects for unused ones would take longer than
        # most of what ORE does (https://docs.python.org/3/library/gc.html#gc.freeze).
        gc.freeze()


def load_env_files() -> dict[str, str]:
    """Read ``.env`` beside ``main.py``, then ``~/.ore/.env``; real variables win over both.

    A file of the current folder is never read: whoever made that folder would choose the server
    that prompts are sent to. A line that can't be used is ignored, and the others are used.

    Returns:
        The file that each variable came from. What can't be used stands for itself, with an empty
        text: ``{path: ""}``, ``{"line 3 of PATH": ""}``.
    """
    found: dict[str, str] = {}
    for path in filter(os.path.isfile, _env_files()):
        try:
            values, bad = _read(path)
        except (ImportError, OSError, ValueError):
            found[path] = ""
            continue
        found.update({f"line {line} of {path}": "" for line in bad})
        for name, value in values.items():
            if value is None or name in os.environ:
                continue
            try:
                os.environ[name] = value
            except (OSError, ValueError):  # a NUL in it, or a "=" in its name
                found[f"the variable {name!r} of {path}"] = ""
            else:
                found[name] = path
    return found


def _read(path: str) -> tuple[dict[str, str | None], list[int]]:
    """Return the variables of a file, None for one without a ``=``, and the lines that are bad.

    Raises:
        ImportError: The package that reads such files is missing.
        OSError, ValueError: The file can't be read, or is not UTF-8.
    """
    from dotenv.main import dotenv_values, logger
    from dotenv.parser import parse_stream

    logger.disabled = True  # it would write to stderr
    with open(path, encoding="utf-8-sig") as file:
        text = file.read()
    bad = [each.original.line for each in parse_stream(StringIO(text)) if each.error]
    return dotenv_values(stream=StringIO(text), interpolate=True), bad


def _env_files() -> list[str]:
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    files = [os.path.join(here, ".env")] if os.path.isfile(os.path.join(here, "main.py")) else []
    home = os.environ.get("ORE_HOME") or os.path.join(os.path.expanduser("~"), ".ore")
    return [*files, os.path.join(home, ".env")] if os.path.isabs(home) else files


if __name__ == "__main__":
    start()
