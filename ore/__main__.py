"""The process's entry: loads ``.env`` files and hands over to the command line.

Knows nothing about flags but that ``--version`` and ``--help`` need no environment.
"""

from __future__ import annotations

import gc
import os
import sys

INTERRUPTED = 130


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
    that prompts are sent to.

    Returns:
        The file that each variable came from. A file that can't be read, or holds what can be no
        variable, stands for itself, with an empty text: ``{path: ""}``.
    """
    found: dict[str, str] = {}
    for path in filter(os.path.isfile, _env_files()):
        try:
            names = _set_all(_read(path))
        except (ImportError, OSError, ValueError):
            found[path] = ""
        else:
            found.update(dict.fromkeys(names, path))
    return found


def _read(path: str) -> dict[str, str | None]:
    """Return the variables of a file; one without a ``=`` has no value.

    Raises:
        ImportError: The package that reads such files is missing.
        OSError, ValueError: The file can't be read, or a line is none of such a file.
    """
    from dotenv.parser import parse_stream

    with open(path, encoding="utf-8-sig") as file:
        lines = list(parse_stream(file))
    if any(line.error for line in lines):
        raise ValueError(path)
    return {line.key: line.value for line in lines if line.key is not None}


def _set_all(values: dict[str, str | None]) -> list[str]:
    """Set each variable that is not set yet, or none of them; return the names of those that were.

    Raises:
        OSError, ValueError: One can't be set: a NUL in it, or a ``=`` in its name.
    """
    names: list[str] = []
    try:
        for name, value in values.items():
            if value is not None and name not in os.environ:
                os.environ[name] = value
                names.append(name)
    except (OSError, ValueError):
        for name in names:
            del os.environ[name]
        raise
    return names


def _env_files() -> list[str]:
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    files = [os.path.join(here, ".env")] if os.path.isfile(os.path.join(here, "main.py")) else []
    home = os.environ.get("ORE_HOME") or os.path.join(os.path.expanduser("~"), ".ore")
    return [*files, os.path.join(home, ".env")] if os.path.isabs(home) else files


if __name__ == "__main__":
    start()
