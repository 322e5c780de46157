"""How long may be spent on what a turn can do without: with a deadline, little more than it in all."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

from ore.backends.http import Deadline

Given = ParamSpec("Given")
Found = TypeVar("Found")

KNOWN_SECONDS = 1.5
"""How long something may take to find out that a turn can do without, which may be over its deadline."""

_OF_TURN: ContextVar[Deadline | None] = ContextVar("OF_TURN", default=None)
"""The deadline of the turn beside which things are found out; None is none."""


def beside_turn(
    deadline: Deadline,
    ask: Callable[Given, Found],
    *args: Given.args,
    **more: Given.kwargs,
) -> Found:
    """Return what ``ask`` returns; all that it looks up ends ``KNOWN_SECONDS`` after a deadline."""
    before = _OF_TURN.set(deadline)
    try:
        return ask(*args, **more)
    finally:
        _OF_TURN.reset(before)


def briefly(ask: Callable[[], Found]) -> Found:
    """Return what ``ask`` returns; all that it looks up ends ``KNOWN_SECONDS`` from now."""
    return beside_turn(Deadline(0.0), ask)


def time_for(seconds: float) -> float:
    """Return how much a look-up may take of its ``seconds``."""
    deadline = _OF_TURN.get()
    return seconds if deadline is None else deadline.within(seconds, KNOWN_SECONDS).seconds
