"""Completion of ORE's own command line in a shell, through the optional package ``shtab``."""

from __future__ import annotations

import argparse
import importlib.util

from ore.errors import ExtraNotInstalledError
from ore.files.extras import install_command

_FILES = ("PATH", "FILE", "FILE|JSON")
"""The names of values that are completed as files."""


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the script that teaches bash, zsh or fish the parser's flags."""
    if importlib.util.find_spec("shtab") is None:
        raise ExtraNotInstalledError(
            f"--print-completion needs the package shtab: {install_command('completion')}.",
            "completion",
        )
    import shtab

    for action in parser._actions:
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        if metavar in _FILES:
            setattr(action, "complete", shtab.FILE)  # how shtab is told
    return shtab.complete(parser, shell)
