"""What a rule says when it does not hold, or can't be judged."""

from __future__ import annotations

from ore.files.neutral import said_by


class Broken(Exception):
    """A rule does not hold; the text says what was seen."""


class Unknown(Exception):
    """A rule can't be judged; the text says why."""


def expect(holds: object, why: str) -> None:
    """Raise ``Broken`` where something does not hold."""
    if not holds:
        raise Broken(why)


def in_words(error: BaseException) -> str:
    """Return what somebody else's code raised, on one line."""
    return f"{type(error).__name__}: {said_by(error)}".rstrip(": ")
