"""Which models an Ollama server has, and which of them answers when none is named.

Knows nothing about flags or about other backends.
"""

from __future__ import annotations

import os

from ore.backends.address import Host
from ore.backends.ollama import PREFERRED_MODELS as PREFERRED_MODELS
from ore.backends.ollama import choose_default
from ore.backends.ollama_host import as_host


def fetch_models(host: str | Host | None = None) -> list[str]:
    """Return the names of the installed models, as the server gives them and in its order.

    Raises:
        UsageError: ``host``, or ``OLLAMA_HOST``, is no address.
        BackendError: The server does not answer, or not as Ollama does.
    """
    from ore.backends import ollama_api

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
