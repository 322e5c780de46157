"""The Ollama backend: models on a server, asked over HTTP.

Knows nothing about flags, sessions or terminals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ore.backends import Backend, Progress, Settings
from ore.backends.address import Host
from ore.backends.ollama_host import as_host
from ore.backends.ollama_reasoner import AyaReasoner
from ore.errors import OreError
from ore.reasoner import Reasoner

_LOOK_UP_SECONDS = 2.0

PREFERRED_MODELS = ("llama3.2", "llama3.1", "llama3", "mistral", "llama2", "qwen2.5")


class OllamaBackend(Backend):
    """The models of one Ollama server; making it touches no network.

    Args:
        host: The server's address; None is ``OLLAMA_HOST``, else the default one.
        model: What ``default_model`` answers; None chooses among what is installed.
        seconds: How long to wait for the list of models; None is as long as for any look-up.

    Raises:
        UsageError: The host is no address.
    """

    name = "ollama"

    def __init__(
        self,
        host: str | Host | None = None,
        model: str | None = None,
        *,
        seconds: float | None = None,
    ) -> None:
        self.address = as_host(host)
        self.host = self.address.url
        self._model = model
        self._seconds = seconds

    def answers(self) -> bool:
        """Tell whether an Ollama server answers at the address."""
        from ore.backends import ollama_api

        return ollama_api.answers(self.address)

    def models(self) -> list[str]:
        from ore.backends import ollama_api

        most = ollama_api.ANSWER_SECONDS
        return ollama_api.names(self.address, seconds=min(self._seconds or most, most))

    def default_model(self) -> str | None:
        """Return the model that was named, else the one of ``ore.models.choose_default``."""
        return self._model or choose_default(self.models())

    def pull(self, name: str, progress: Progress) -> None:
        from ore.backends import ollama_api

        ollama_api.pull(self.address, name, progress)

    def prepare(self) -> None:
        """Import what the client is made of, which is most of what its import costs."""
        from ore.backends.ollama_importing import import_parts

        import_parts()

    def provenance(self, model_id: str) -> dict[str, str | None]:
        """Return what ``/api/version`` and ``/api/tags`` say; see ``Backend.provenance``."""
        from ore.backends import ollama_api
        from ore.backends.ollama_context import find_model

        version = _asked(ollama_api.version, self.address)
        tags = _asked(ollama_api.tags, self.address) or []
        digest = (find_model(tags, model_id) or {}).get("digest")
        return {
            "server_version": version,
            "model_digest": digest if isinstance(digest, str) else None,
        }

    def reasoner(self, model_id: str, settings: Settings) -> Reasoner:
        """Return a reasoner; only the server knows whether it has the model, and the turn asks it.

        A conversation needs nothing of its own here: the server keeps its prompt cache anyway.
        """
        made = AyaReasoner(
            model_id,
            self.address,
            timeout=settings.timeout,
            deadline=settings.deadline,
            strict_context=settings.strict_context,
            on_thinking=settings.on_thinking,
            **settings.asked(),
        )
        self._phase = made.phase
        return made


def _asked(question: Callable[..., Any], address: Host) -> Any:
    """Return the answer to a question of ``ore.backends.ollama_api``, or None where there is none."""
    try:
        return question(address, seconds=_LOOK_UP_SECONDS)
    except OreError:
        return None


def choose_default(names: Iterable[str]) -> str | None:
    """Return the first of ``PREFERRED_MODELS`` among ``names``, else the first name, else None.

    A name's part before ``:`` counts; of several, the one tagged ``latest`` (or not at all) wins.
    """
    names = list(names)
    for preferred in PREFERRED_MODELS:
        tagged: dict[str, str] = {}
        for name in names:
            base, _, tag = name.partition(":")
            if base == preferred:
                tagged.setdefault(tag or "latest", name)
        if tagged:
            return tagged.get("latest") or next(iter(tagged.values()))
    return names[0] if names else None
