"""What a server keeps of earlier prompts: having Ollama or llama.cpp forget that, or keep something else."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from ore.backends import Backend
from ore.backends.address import Host
from ore.backends.http import Deadline
from ore.backends.look_ups import KNOWN_SECONDS
from ore.backends.ollama import OllamaBackend
from ore.backends.ollama_client import OllamaClient
from ore.backends.openai import OpenAIBackend
from ore.backends.openai_models import entry_of
from ore.backends.openai_request import AFRESH
from ore.backends.settings import Settings
from ore.errors import OreError
from ore.types import Message

_PAUSE = 0.05
_KEPT_SECONDS = 300  # as long as Ollama keeps a model if nothing is said
_QUESTIONS = ("Why?", "How?")  # short, of which the second is for who asks the first
_SYSTEM = "You are someone else. "  # most begin so
_SHORT = 400  # characters: a prompt of a few dozen tokens is computed otherwise than a longer one


def forget(backend: Backend, model: str) -> bool:
    """Have ``model`` compute its next prompts anew; return whether a server can be told to.

    Ollama unloads it, also where it was reached over the OpenAI protocol; llama.cpp's server is told so
    with each prompt, while ``AFRESH`` is true.
    """
    if isinstance(backend, OllamaBackend):
        return _unload(backend.address, model)
    if not isinstance(backend, OpenAIBackend):
        return False
    try:
        about = entry_of(backend.entries(Deadline(KNOWN_SECONDS)), (model,))
    except OreError:
        return False
    AFRESH.set(about.get("owned_by") == "llamacpp")
    # It may be one, or not: OLLAMA_API_KEY is not for it.
    above = Host(backend.host.removesuffix("/v1"), backend.address.source, is_ollama=False)
    return AFRESH.get() or _unload(above, model)


def _unload(host: Host, model: str) -> bool:
    """Have an Ollama server unload ``model``; return whether it has done so in ``KNOWN_SECONDS``."""
    request, ends = {"model": model, "messages": [], "keep_alive": 0}, Deadline(KNOWN_SECONDS)
    try:
        with closing(OllamaClient(host)) as client:
            if client.loaded(model, KNOWN_SECONDS) is None:  # it keeps nothing
                return True
            for _ in client.chat_parts(request, None, ends):
                pass
            while client.loaded(model, ends.within(KNOWN_SECONDS).seconds) is not None:
                time.sleep(_PAUSE)
    except OreError:  # it is no Ollama, the model is still in use, or it does not know how
        return False
    return True


def beginnings(
    backend: Backend, model: str, settings: Settings, messages: Sequence[Message]
) -> list[Callable[[], bool]]:
    """Return what to call before ``messages`` are asked again, each time from another beginning.

    The first has the server forget what it keeps; each of the others does, and has it begin to answer
    one of ``other_prompts``. They return whether they could. Afterwards, ``AFRESH`` is to be false.
    """

    def after(other: list[Message]) -> bool:
        is_kept = forget(backend, model) and keep_another(backend, model, settings, other)
        AFRESH.set(False)
        return is_kept

    others = (partial(after, each) for each in other_prompts(messages))
    return [partial(forget, backend, model), *others]


def other_prompts(messages: Sequence[Message]) -> list[list[Message]]:
    """Return what a model may have been asked before ``messages``, of which its cache can hold a part.

    First another question in place of the last one. Then one with another system prompt: what both begin
    with was computed as it is in a short prompt where ``messages`` are long, and in a long one where they
    are short.
    """
    *before, last = messages
    is_long = sum(len(each.content) for each in messages) > _SHORT
    question = next(each for each in _QUESTIONS if each != last.content)
    system = Message("system", _SYSTEM if is_long else _SYSTEM * (2 * _SHORT // len(_SYSTEM)))
    return [[*before, replace(last, content=question)], [system, Message("user", question)]]


def keep_another(
    backend: Backend, model: str, settings: Settings, messages: Sequence[Message]
) -> bool:
    """Have a model begin to answer ``messages``; return whether it could.

    Where the model was just loaded, its cache then holds them, as it does after an earlier prompt. One
    token is generated, be it of an answer or of the thinking before it.

    Args:
        backend: Where the model runs.
        model: The model.
        settings: What is asked of it in the run that is asked again next.
        messages: One of ``other_prompts``.
    """
    options = {**settings.options, "num_predict": 1}
    plain = replace(settings, options=options, strict_context=False, on_thinking=None)
    # That run may let the model go at once, and so may a server that is told nothing.
    kept = plain if plain.keep_alive is None else replace(plain, keep_alive=_KEPT_SECONDS)
    try:
        with closing(backend.reasoner(model, kept)) as reasoner:
            with closing(reasoner.stream_reason(list(messages))) as pieces:
                next(pieces, None)
    except OreError:
        return False
    return True
