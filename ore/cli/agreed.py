"""Asking before something is removed for good."""

from __future__ import annotations

from ore.cli.options import Options
from ore.cli.terminal.console import Console
from ore.errors import UsageError


def is_agreed(options: Options, console: Console, question: str, doing: str, done: str) -> bool:
    """Return whether to go on: ``--yes`` says so, or whoever is asked on the terminal.

    Args:
        doing: What needs an answer, as the subject of a sentence.
        done: What is not done otherwise, in a word.

    Raises:
        UsageError: Nobody can be asked.
    """
    answer = True if options.yes else console.confirm(question)
    if answer is None:
        raise UsageError(f"{doing} needs --yes where nobody can be asked.")
    if not answer:
        console.notice(f"Nothing was {done}.")
    return answer
