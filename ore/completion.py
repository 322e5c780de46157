"""Completion of ORE's own command line in a shell, through the optional package ``shtab``.

Knows nothing about what the flags mean.
"""

from __future__ import annotations

import argparse
import importlib.util

from ore.errors import ExtraNotInstalledError

SHELLS = ("bash", "zsh", "fish")

_FILES = ("PATH", "FILE", "FILE|JSON")
"""The names of values that are completed as files."""


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the script that teaches a shell of ``SHELLS`` the parser's flags.

    Raises:
        ExtraNotInstalledError: ``shtab`` is missing.
    """
    if importlib.util.find_spec("shtab") is None:
        raise ExtraNotInstalledError(
            "--print-completion needs the package shtab: pip install -r "
            "requirements-completion.txt.",
            "completion",
        )
    import shtab

    for action in parser._actions:
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        if metavar in _FILES:
            action.complete = shtab.FILE
    return shtab.complete(parser, shell)
