"""What became of a turn that was interrupted, as one sentence: it is dropped, or answered and kept."""

from __future__ import annotations

from ore.cli.keep import is_recorded, is_signed
from ore.cli.runs import Run
from ore.errors import OreError, SessionError
from ore.types import Response

_DROPPED = "Stopped: the turn was dropped."


def outcome_of_stop(run: Run, length_before: int) -> str:
    """Return what became of a turn, after saving its session if it was answered.

    Args:
        length_before: How many messages the session had before the turn.
    """
    if run.conversation.length == length_before:
        return _DROPPED
    return _outcome_of_session(run)


def _outcome_of_session(run: Run, then: str = "") -> str:
    error = run.conversation.keep()
    if error is None:
        return f"Stopped: the turn was answered already, and is part of the session{then}."
    run.console.error(error)
    return f"Stopped: the turn was answered already, and is not saved{then}."


def is_unsaved(run: Run, not_kept: OreError) -> bool:
    """Return whether what was not kept is the session, which is to be saved once more."""
    return run.conversation.unsaved and isinstance(not_kept, SessionError)


def outcome_of_record(run: Run, response: Response, not_kept: OreError | None) -> str:
    """Return what became of a turn whose answer is there, and was not all shown or signed.

    Args:
        not_kept: Why it is not on disk as it was to be, if so; it is told here, but where that is a
            session, which is saved once more.
    """
    if not_kept is not None and not is_unsaved(run, not_kept):
        run.console.error(not_kept)
    is_written = is_recorded(run, response)
    is_unsigned = is_written and not is_signed(run, response)
    if run.conversation.session is not None:
        return _outcome_of_session(run, "; its artifact is not signed" if is_unsigned else "")
    if is_written:
        how = "written, and not signed" if is_unsigned else "written"
        return f"Stopped: the turn was answered already, and its artifact is {how}."
    return _DROPPED
