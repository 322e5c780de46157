"""What became of a turn that was interrupted, as one sentence: it is dropped, or answered and kept."""

from __future__ import annotations

from ore.cli.keep import is_recorded, is_signed
from ore.cli.runs import Run
from ore.errors import OreError
from ore.types import Response

_DROPPED = "Stopped: the turn was dropped."


def outcome_of_stop(run: Run, length_before: int) -> str:
    """Return what became of a turn, after saving its session if it was answered.

    Args:
        length_before: How many messages the session had before the turn.
    """
    if run.conversation.length == length_before:
        return _DROPPED
    error = run.conversation.keep()
    if error is None:
        return "Stopped: the turn was answered already, and is part of the session."
    run.console.error(error)
    return "Stopped: the turn was answered already, and is not saved."


def outcome_of_record(run: Run, response: Response, not_kept: OreError | None) -> str:
    """Return what became of a turn without a session, whose answer is there and was not all shown.

    Args:
        not_kept: Why its artifact is not as it was to be, if so; it is told here.
    """
    if not_kept is not None:
        run.console.error(not_kept)
    elif is_recorded(run, response):
        how = "written" if is_signed(run, response) else "written, and not signed"
        return f"Stopped: the turn was answered already, and its artifact is {how}."
    return _DROPPED
