"""Errors that say whether other turns may have an answer: one turn's own, and those of every turn."""

from __future__ import annotations

from ore.errors import BackendError, BackendTimeoutError, CheckFailedError


class NotPinnedError(CheckFailedError):
    """No turn has an answer: the model is not the one that the user pinned."""


class NothingAnswersError(BackendError):
    """No turn has an answer, whatever is asked: the model can't be loaded, or a key is not accepted."""


class TurnFailedError(BackendError):
    """What was given for the turn alone made it fail, as a chat template may; other turns may work."""


class TurnTooLargeError(TurnFailedError):
    """The prompt is more than the window, or a server, takes; nobody asked for it to be a check."""


class TurnTookLongError(TurnFailedError, BackendTimeoutError):
    """The turn took longer than it may, or the model was silent over it for too long."""


class TurnRefusedError(TurnFailedError):
    """The chat template, or the engine, does not take the messages as they are.

    Attributes:
        said: The template's own words after a colon, or nothing.
    """

    said = ""
