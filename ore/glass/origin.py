"""Where a reasoner's answers come from: its backend, its model, and what is asked of that."""

from __future__ import annotations

from collections.abc import Iterator

from ore.backends import Backend, Progress
from ore.backends.embedded import EmbeddedBackend
from ore.backends.engine_turn import EmbeddedReasoner
from ore.backends.ollama import AyaReasoner, OllamaBackend
from ore.backends.openai import OpenAIReasoner
from ore.backends.settings import Settings
from ore.errors import CapabilityError
from ore.reasoner import Reasoner


def around(reasoner: Reasoner) -> Iterator[Reasoner]:
    """Yield a reasoner, the one that it is put around, and so on to the innermost one."""
    yield reasoner
    while isinstance(inner := getattr(reasoner, "inner", None), Reasoner):
        reasoner = inner
        yield reasoner


def backend_of(reasoner: Reasoner) -> Backend:
    """Return the backend that an innermost reasoner belongs to; making it touches no network."""
    if isinstance(reasoner, EmbeddedReasoner):
        return EmbeddedBackend(made=reasoner)
    if isinstance(reasoner, AyaReasoner):
        return OllamaBackend(reasoner.host)
    return reasoner.backend() if isinstance(reasoner, OpenAIReasoner) else _Own()


def model_of(reasoner: Reasoner) -> str:
    """Return the model that an innermost reasoner names; one that names none is called by its class."""
    named = getattr(reasoner, "model_id", None)
    return named if isinstance(named, str) and named else type(reasoner).__name__


def settings_of(reasoner: Reasoner) -> Settings:
    """Return what an innermost reasoner asks of its model besides the messages."""
    settings = getattr(reasoner, "settings", None)
    return settings if isinstance(settings, Settings) else Settings()


class _Own(Backend):
    """Where a reasoner of the program's own runs: nothing is known of it."""

    name = "python"

    def models(self) -> list[str]:
        """Return none."""
        return []

    def default_model(self) -> str | None:
        """Return None."""
        return None

    def pull(self, name: str, progress: Progress, *, insecure: bool = False) -> None:
        """Refuse."""
        raise CapabilityError("A reasoner of your own fetches no model.")

    def reasoner(self, model_id: str, settings: Settings) -> Reasoner:
        """Refuse."""
        raise CapabilityError("A reasoner of your own is made by you.")
