"""What an OpenAI-compatible server is sent for a turn: messages, options, thinking and format."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from ore.backends.chat_template import not_here
from ore.backends.images import media_type
from ore.backends.settings import Settings
from ore.errors import CapabilityError
from ore.files.neutral import brief
from ore.types import Message

_NAMES = {
    "frequency_penalty": "frequency_penalty",
    "num_predict": "max_tokens",
    "presence_penalty": "presence_penalty",
    "seed": "seed",
    "stop": "stop",
    "temperature": "temperature",
    "top_p": "top_p",
}

AFRESH: ContextVar[bool] = ContextVar("AFRESH", default=False)
"""Whether a server, which has to be llama.cpp's, is asked to use nothing that it keeps of earlier prompts."""


def check_settings(settings: Settings) -> None:
    """Raise ``CapabilityError`` for a setting that the protocol does not have."""
    if settings.chat_template is not None:
        raise not_here("A server of the OpenAI protocol")
    for name in settings.options:
        if name not in _NAMES:
            raise CapabilityError(
                f"The OpenAI protocol has no option '{brief(str(name))}': leave it out; it has "
                f"{', '.join(_NAMES)}.",
                setting=name,
            )
    if isinstance(settings.think, bool):
        raise CapabilityError(
            "The OpenAI protocol says only how much a model thinks: use `think=` low, medium or "
            "high, or leave it out.",
            setting="think",
        )
    if settings.keep_alive is not None:
        raise CapabilityError(
            "The OpenAI protocol does not say how long a model stays loaded: leave `keep_alive=` "
            "out."
        )


def request_of(model: str, messages: list[Message], settings: Settings) -> dict[str, Any]:
    """Return the request for ``messages``, as ``/chat/completions`` takes it."""
    request: dict[str, Any] = {
        "model": model,
        "messages": [_sent(message) for message in messages],
        "stream_options": {"include_usage": True},
    }
    request |= {_NAMES[name]: value for name, value in sent_of(settings.options).items()}
    if settings.think is not None:
        request["reasoning_effort"] = settings.think
    request |= {"cache_prompt": False} if AFRESH.get() else {}
    return request | form_of(settings)


def sent_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return which of ``options`` are sent: no limit of an answer where there is to be none."""
    sent = dict(options)
    longest = sent.get("num_predict")
    if isinstance(longest, (int, float)) and longest < 0:  # what is no number, the server judges
        del sent["num_predict"]
    return sent


def form_of(settings: Settings) -> dict[str, Any]:
    """Return what is asked of the form of an answer: its tokens' log-probabilities, and its schema."""
    asked: dict[str, Any] = {"logprobs": True} if settings.logprobs else {}
    if settings.format is not None:
        schema = {"name": "answer", "schema": settings.format}
        asked["response_format"] = {"type": "json_schema", "json_schema": schema}
    return asked


def _sent(message: Message) -> dict[str, Any]:
    if not message.images:
        return {"role": message.role, "content": message.content}
    parts: list[dict[str, Any]] = [{"type": "text", "text": message.content}]
    parts += [{"type": "image_url", "image_url": {"url": _url(data)}} for data in message.images]
    return {"role": message.role, "content": parts}


def _url(data: bytes) -> str:
    return f"data:{media_type(data)};base64,{b64encode(data).decode('ascii')}"
