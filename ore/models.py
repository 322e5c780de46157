"""Which models an Ollama server has, and which of them answers when none is named."""

from __future__ import annotations

import os
from contextlib import closing

from ore.backends import PREFERRED_MODELS as PREFERRED_MODELS
from ore.backends import choose_default as choose_default
from ore.backends.address import Host, as_host
from ore.backends.ollama_client import OllamaClient


def fetch_models(host: str | Host | None = None) -> list[str]:
    """Return the names of the installed models, as the server gives them and in its order.

    Args:
        host: The server's address; None is ``OLLAMA_HOST``, else the default one.

    Raises:
        UsageError: ``host``, or ``OLLAMA_HOST``, is not an address.
        BackendError: The server does not answer, or not as Ollama does.
    """
    with closing(OllamaClient(as_host(host))) as client:
        return client.names()


def default_model(host: str | Host | None = None) -> str | None:
    """Return the model to use when none is named: ``ORE_MODEL``, else ``choose_default``'s choice.

    A model for embeddings alone is never chosen, and neither is one of Ollama's cloud. Where
    ``ORE_MODEL`` is set, nobody is asked whether that model is there.

    Args:
        host: The server's address; None is ``OLLAMA_HOST``, else the default one.

    Raises:
        UsageError: ``host``, or ``OLLAMA_HOST``, is not an address.
        BackendError: The server does not answer, or not as Ollama does.
    """
    if named := os.environ.get("ORE_MODEL", "").strip():
        return named
    with closing(OllamaClient(as_host(host))) as client:
        return client.default_model()
