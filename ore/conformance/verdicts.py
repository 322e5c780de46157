"""What a rule says when it does not hold, or can't be judged."""

from __future__ import annotations


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
    try:
        said = " ".join(str(error).split())
    except Exception:  # its text is theirs, too
        said = ""
    return f"{type(error).__name__}: {said}".rstrip(": ")
