"""Which models an Ollama server has, and which of them answers when none is named.

Knows nothing about flags or about other backends.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from ore.net.host import Host
from ore.ollama.host import as_host

PREFERRED_MODELS = ("llama3.2", "llama3.1", "llama3", "mistral", "llama2", "qwen2.5")


def fetch_models(host: str | Host | None = None) -> list[str]:
    """Return the names of the installed models, as the server gives them and in its order.

    Raises:
        UsageError: ``host``, or ``OLLAMA_HOST``, is no address.
        BackendError: The server does not answer, or not as Ollama does.
    """
    from ore.ollama import api as ollama_api

    return ollama_api.names(as_host(host))


def default_model(host: str | Host | None = None) -> str | None:
    """Return the model to use when none is named: ``ORE_MODEL``, else ``choose_default``'s choice.

    Where ``ORE_MODEL`` is set, nobody is asked whether that model is there.

    Raises:
        UsageError: ``host``, or ``OLLAMA_HOST``, is no address.
        BackendError: The server does not answer, or not as Ollama does.
    """
    named = os.environ.get("ORE_MODEL", "").strip()
    return named or choose_default(fetch_models(host))


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
