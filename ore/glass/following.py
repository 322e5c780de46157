"""What can follow an answer token by token."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ore.types import Message

if TYPE_CHECKING:  # the engine is needed by those who ask it
    from ore.backends.engine_retrace import Departure


@runtime_checkable
class Follower(Protocol):
    """A reasoner that can follow an answer: see ``EmbeddedReasoner.departures``."""

    def departures(
        self, messages: list[Message], text: str, *, was_cut: bool = False, most: float = math.inf
    ) -> list[Departure]:
        """Return where the model would not have said what ``text`` says, up to a gap above ``most``.

        It is the answer to ``messages``; ``was_cut`` says that it did not end by itself.
        """
        ...
