"""Unloading a model from an Ollama server, and with it what is kept there of earlier prompts."""

from __future__ import annotations

import time
from contextlib import closing

from ore.backends import Backend
from ore.backends.http import Deadline
from ore.backends.look_ups import KNOWN_SECONDS
from ore.backends.ollama import OllamaBackend
from ore.backends.ollama_client import OllamaClient
from ore.errors import OreError

_PAUSE = 0.05


def unload(backend: Backend, model: str) -> bool:
    """Have an Ollama server unload ``model``; return whether it has done so in ``KNOWN_SECONDS``.

    Other backends are left as they are.
    """
    if not isinstance(backend, OllamaBackend):
        return False
    request, ends = {"model": model, "messages": [], "keep_alive": 0}, Deadline(KNOWN_SECONDS)
    try:
        with closing(OllamaClient(backend.address)) as client:
            for _ in client.chat_parts(request, None, ends):
                pass
            while client.loaded(model, ends.within(KNOWN_SECONDS).seconds) is not None:
                time.sleep(_PAUSE)
    except OreError:  # it is still in use, or the server does not know how
        return False
    return True
