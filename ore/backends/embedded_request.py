"""What the embedded engine is sent for a turn: messages, sampling, limits and a grammar.

Refuses what the engine does not have. Knows nothing about how it is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ore.backends import Settings
from ore.backends.messages import encoded
from ore.errors import CapabilityError, UsageError
from ore.types import Message

ROLES = ("system", "user", "assistant")
LOADED_WITH = "num_ctx"
"""The one option that is given when a model is loaded."""
LEAST_WINDOW, MOST_WINDOW = 256, 1 << 20
"""The context window in tokens; the engine ends the process over one that holds no batch."""

_SAMPLING = {"temperature": 0, "repeat_penalty": 1.1}
_SAME_NAME = (
    "frequency_penalty",
    "min_p",
    "presence_penalty",
    "repeat_last_n",
    "repeat_penalty",
    "seed",
    "stop",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
)
_ANOTHER_NAME = {"num_keep": "n_keep", "num_predict": "max_tokens"}


def check_settings(settings: Settings) -> None:
    """Refuse settings that the engine does not have.

    Raises:
        CapabilityError: One that was set; the message names it.
        UsageError: ``num_ctx`` is no size of a window.
    """
    if settings.keep_alive is not None:
        raise CapabilityError(
            "The embedded model stays loaded as long as ORE runs: leave --keep-alive out, or use "
            "Ollama."
        )
    for name in settings.options:
        if name not in (*_SAME_NAME, *_ANOTHER_NAME, LOADED_WITH):
            raise CapabilityError(
                f"The embedded engine has no option '{name}': leave it out, or use Ollama."
            )
    window = settings.options.get(LOADED_WITH)
    if window is not None and not LEAST_WINDOW <= window <= MOST_WINDOW:
        raise UsageError(
            f"The option 'num_ctx' is {window}: give {LEAST_WINDOW} to {MOST_WINDOW} tokens."
        )


def request_of(messages: list[Message], settings: Settings, longest: int) -> dict[str, Any]:
    """Return the request for ``messages``, as the engine's chat endpoint takes it.

    Sampling is temperature 0 with a repeat penalty of 1.1 unless an option says otherwise.

    Args:
        longest: The most tokens of the answer, unless ``num_predict`` says how many.

    Raises:
        UsageError: The messages are none that a model can be given.
        CapabilityError: There is an image in them.
    """
    request: dict[str, Any] = {"messages": _checked(messages), **_SAMPLING, "max_tokens": longest}
    for name, value in settings.options.items():
        if name == LOADED_WITH:
            continue
        request[_ANOTHER_NAME.get(name, name)] = value
    request["cache_prompt"] = settings.conversation
    request["reasoning_format"] = "auto"  # thinking comes apart from the text, where there is any
    if settings.format is not None:
        schema = {"name": "answer", "schema": settings.format}
        request["response_format"] = {"type": "json_schema", "json_schema": schema}
    return request


def thinking_of(think: bool | str | None, template: str) -> dict[str, Any]:
    """Return what a model's chat template has to be told so that the model thinks, or does not.

    Raises:
        CapabilityError: The template has no place for it.
    """
    if think is None or (think is False and "enable_thinking" not in template):
        return {}
    level = isinstance(think, str)
    marks = ("reasoning_effort",) if level else ("enable_thinking", "<think>")
    if not any(mark in template for mark in marks):
        raise CapabilityError(
            f"The model can't {'be told how much to think' if level else 'think first'}: leave "
            f"--think out, or use another one."
        )
    told: Mapping[str, Any] = {"reasoning_effort" if level else "enable_thinking": think}
    return {"chat_template_kwargs": told}


def _checked(messages: list[Message]) -> list[dict[str, str]]:
    """Return the messages as the engine takes them; it would answer nothing, or any role."""
    if not messages:
        raise UsageError("There is no message to answer: give a prompt.")
    for message in messages:
        if message.role not in ROLES:
            raise UsageError(
                f"A message has the role {message.role!r}: use one of {', '.join(ROLES)}."
            )
        if message.images:
            raise CapabilityError(
                "The embedded engine can't look at images: leave --image out, or use a model of "
                "Ollama's that can."
            )
    encoded(messages)
    return [{"role": message.role, "content": message.content} for message in messages]
