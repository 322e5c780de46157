"""What the embedded engine is asked: a turn's messages and settings as its chat endpoint takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ore.backends.answer import encoded
from ore.backends.model_options import OPTIONS
from ore.backends.openai_request import form_of
from ore.backends.settings import Settings
from ore.errors import CapabilityError, UsageError
from ore.files.neutral import brief
from ore.types import Message

LEAST_WINDOW, MOST_WINDOW = 256, 1 << 20
"""The context window in tokens; the engine ends the process over one that holds no batch."""

MOST_AT_ONCE = 8
"""Turns: as many requests are answered at a time; each has memory for a window of its own."""

_ROLES = ("system", "user", "assistant")
_SAMPLING = {"temperature": 0, "repeat_penalty": 1.1}
LOADED_WITH, CARD_LAYERS = "num_ctx", "num_gpu"  # what is given when a model is loaded
_RENAMED = {"num_keep": "n_keep", "num_predict": "max_tokens"}
_REUSES = "cache_prompt"
_OPTIONS = {LOADED_WITH, CARD_LAYERS, _REUSES, *_RENAMED} | set(
    "frequency_penalty min_p presence_penalty repeat_last_n repeat_penalty seed stop temperature "
    "top_k top_p typical_p".split()
)
_MOST = 2**31 - 1
_ENDLESS = {"num_predict": -1, "num_keep": -1}
"""What stands for any number. To Ollama each negative value does; to the engine this one alone."""
_POSSIBLE: dict[str, tuple[Callable[[Any], bool], str]] = {
    LOADED_WITH: (
        lambda window: LEAST_WINDOW <= window <= MOST_WINDOW,
        f"{LEAST_WINDOW} to {MOST_WINDOW} tokens",
    ),
    CARD_LAYERS: (lambda layers: isinstance(layers, int), "a whole number of layers"),
    "repeat_last_n": (lambda tokens: tokens <= MOST_WINDOW, f"at most {MOST_WINDOW} tokens"),
    "repeat_penalty": (lambda penalty: penalty > 0, "a number above 0, where 1 is no penalty"),
}
"""Which values an option can have where not all of its kind do, and how that is said."""
APPLIED = frozenset(_OPTIONS - {CARD_LAYERS, _REUSES})
"""What a model may set for itself."""


def check_settings(settings: Settings) -> None:
    """Refuse settings that the engine does not have, and values that it can't have."""
    if settings.keep_alive is not None:
        raise CapabilityError(
            "The embedded model stays loaded while ORE runs: leave `keep_alive=` out, or use Ollama."
        )
    if (settings.at_once or 1) > MOST_AT_ONCE:
        raise UsageError(
            f"`at_once=` is {settings.at_once}: the embedded engine takes at most {MOST_AT_ONCE} turns "
            f"at once."
        )
    for name in settings.options:
        if name not in _OPTIONS:
            other = (
                ", or use Ollama" if name in OPTIONS else f"; it has {', '.join(sorted(_OPTIONS))}"
            )
            raise CapabilityError(
                f"The embedded engine has no option '{brief(str(name))}': leave it out{other}.",
                setting=name,
            )
    for name, value in settings.options.items():
        if value is None:  # it is not given, as Ollama has it
            continue
        if not can_be(name, value):
            raise UsageError(
                f"The option '{name}' is {brief(str(value))}: give {_POSSIBLE[name][1]}."
            )
        if not isinstance(value, (str, int, float, list)):
            kind = type(value).__name__
            raise UsageError(f"The option '{name}' must be {OPTIONS[name][0]}, not {kind}.")


def can_be(name: str, value: Any) -> bool:
    """Return whether the engine can work with an option's value, where not every number will do."""
    return name not in _POSSIBLE or (_is_number(value) and _POSSIBLE[name][0](value))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def request_of(
    settings: Settings, longest: int, own: Mapping[str, Any] | None = None, window: int = 0
) -> dict[str, Any]:
    """Return what is asked of the engine besides the messages.

    Args:
        longest: The most tokens of an answer, where nobody says it; -1 is any number.
        own: The options that the model sets for itself.
        window: The model's context window, in tokens.
    """
    options = {**sampling_of(settings, longest), **(own or {}), **settings.options}
    for name, endless in (*_ENDLESS.items(), ("repeat_last_n", window)):
        if _is_number(options.get(name)):  # of what else there is, the engine tells
            options[name] = endless if options[name] < 0 else min(options[name], _MOST)
    for name in (LOADED_WITH, CARD_LAYERS):
        options.pop(name, None)
    request = {_RENAMED.get(name, name): value for name, value in options.items()}
    request[_REUSES] = settings.conversation and options.get(_REUSES, True)
    request["reasoning_format"] = "auto"  # thinking comes apart from the text, where there is any
    return request | form_of(settings)


def sampling_of(settings: Settings, longest: int) -> dict[str, Any]:
    """Return the options that ORE sends where the user set none, by the user's names for them."""
    reuses = settings.conversation and settings.options.get(_REUSES, True)
    return {"num_predict": longest, **_SAMPLING, _REUSES: reuses}


def check_messages(messages: list[Message]) -> None:
    """Refuse messages that the engine does not take; it would answer nothing, or any role."""
    if not messages:
        raise UsageError("There is no message to answer: give a prompt.")
    for message in messages:
        if message.role not in _ROLES:
            raise UsageError(
                f"A message has the role {message.role!r}: use one of {', '.join(_ROLES)}."
            )
        if message.images:
            raise CapabilityError(
                "The embedded engine can't look at images: leave `images=` out, or use an Ollama "
                "model that can."
            )
    encoded(messages)


def thinking_of(think: bool | str | None, template: str) -> dict[str, Any]:
    """Return what tells a model's chat template whether, or how much, the model is to think."""
    if think is None or (think is False and "enable_thinking" not in template):
        return {}
    can, name, other = "think first", "enable_thinking", "<think>"
    if isinstance(think, str):
        can, name, other = "be told how much to think", "reasoning_effort", "reasoning_effort"
    if name not in template and other not in template:
        raise CapabilityError(
            f"The model can't {can}: leave `think=` out, say `think=False`, or use another model.",
            setting="think",
        )
    return {"chat_template_kwargs": {name: think}}
