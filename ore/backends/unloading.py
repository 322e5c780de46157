"""What an Ollama server keeps of earlier prompts: having it forget that, or keep something else."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from ore.backends import Backend
from ore.backends.http import Deadline
from ore.backends.look_ups import KNOWN_SECONDS
from ore.backends.ollama import OllamaBackend
from ore.backends.ollama_client import OllamaClient
from ore.backends.settings import Settings
from ore.errors import OreError
from ore.types import Message

_PAUSE = 0.05
_QUESTIONS = ("Why?", "How?")  # short, of which the second is for who asks the first


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


def keep_another(
    backend: Backend, model: str, settings: Settings, messages: Sequence[Message]
) -> bool:
    """Have a model begin to answer other messages than ``messages``; return whether it could.

    The last one is another question. Where the model was just loaded, what is kept of those before it
    was then computed apart from the last of ``messages``, as it is after an earlier prompt. One token is
    generated, be it of an answer or of the thinking before it.

    Args:
        backend: Where the model runs.
        model: The model.
        settings: What is asked of it with ``messages``.
        messages: Those of the run that is asked again next, as they are sent.
    """
    *before, last = messages
    another = replace(last, content=next(each for each in _QUESTIONS if each != last.content))
    options = {**settings.options, "num_predict": 1}
    settings = replace(settings, options=options, strict_context=False, on_thinking=None)
    try:
        with closing(backend.reasoner(model, settings)) as reasoner:
            with closing(reasoner.stream_reason([*before, another])) as pieces:
                next(pieces, None)
    except OreError:
        return False
    return True
