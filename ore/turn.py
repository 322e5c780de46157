"""What a turn is taken with, where its parts came from, and what became of it.

Knows nothing about how a turn is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

from ore.asked import Asked
from ore.backends import Backend, Settings
from ore.console import Console
from ore.context import ContextSource
from ore.conversation import Conversation
from ore.core import ORE
from ore.errors import OreError
from ore.options import Options
from ore.types import Response


@dataclass(frozen=True)
class Origin:
    """Where the parts of a turn that the flags choose came from.

    Attributes:
        system: The source of the system message: ``"persona"`` or ``"system"``.
        persona: The name of the persona that was asked for, or None.
        session: The name of the session whose messages are sent, or None.
        prompt: ``"prompt"``, ``"stdin"``, or ``"prompt+stdin"`` where both make one message.
        parent: ``{"execution_id", "sha256"}`` of the artifact whose prompt is asked, or None.
    """

    system: str
    persona: str | None
    session: str | None
    prompt: str
    parent: dict[str, str] | None

    @classmethod
    def of(cls, options: Options, asked: Asked, session: str | None) -> Origin:
        """Return the origin of what is asked, in a session of that name or in none."""
        return cls(
            system="persona" if options.system is None else "system",
            persona=options.persona,
            session=session,
            prompt=asked.source,
            parent=asked.parent,
        )


@dataclass(frozen=True)
class Run:
    """What a mode works with; ``backend`` and ``settings`` are what made the engine's reasoner."""

    options: Options
    console: Console
    backend: Backend
    settings: Settings
    engine: ORE
    model_id: str
    context: ContextSource
    conversation: Conversation
    images: tuple[bytes, ...]
    origin: Origin


@dataclass(frozen=True)
class Turn:
    """A turn that was answered; ``not_kept`` says why it is not on disk as it was to be, if so."""

    response: Response
    not_kept: OreError | None
