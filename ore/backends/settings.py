"""What a turn needs beyond its messages, whichever backend takes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from types import NoneType
from typing import Any

from ore.backends.model_options import checked_seconds
from ore.errors import UsageError


def plain(value: Any) -> Any:
    """Return a copy of ``value`` of dicts and lists, whatever mappings and sequences are in it."""
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value


@dataclass(frozen=True)
class Settings:
    """What a turn needs beyond its messages; every backend refuses what it does not have.

    Attributes:
        timeout: The longest silence to accept, in seconds; None waits.
        deadline: The longest a whole turn may take, in seconds; None waits.
        strict_context: A prompt that does not fit the context window is an error.
        conversation: Turns of one conversation follow each other, so a prompt cache pays.
        options: The model's options as Ollama names them: see ``ore.backends.model_options``.
        think: Whether, or how much (``"low"``, ``"medium"``, ``"high"``), the model thinks first;
            None leaves it to the model.
        format: A JSON schema for the answer.
        keep_alive: How long a server keeps the model loaded: seconds, or text like ``"5m"``.
        on_thinking: Called with the model's thinking as it arrives.
        on_warning: Called before the answer with a sentence that it will not be what was asked for.
        choices: The words of which one is the answer; see ``ore.glass.choosing``.
        logprobs: Whether the metadata has the log-probability of each token of the answer.
        joins: Whether messages are joined where the backend finds that the model's chat template
            would leave one out, or refuse them, as they are.
        at_once: How many turns of one run over many rows may be under way at once, so that what is
            the same for all of them is asked once; None is no such run.
        chat_template: A Jinja template in the place of the model's own.
        rendered: Whether ``metadata["rendered"]`` is to hold the text that the model read, where it
            is known.

    Raises:
        UsageError: ``timeout`` or ``deadline`` is no time to wait; the options are no mapping, or the
            template is no text.
    """

    timeout: float | None = None
    deadline: float | None = None
    strict_context: bool = False
    conversation: bool = False
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    think: bool | str | None = None
    format: Mapping[str, Any] | None = None
    choices: tuple[str, ...] | None = None
    logprobs: bool = False
    keep_alive: float | str | None = None
    on_thinking: Callable[[str], None] | None = None
    on_warning: Callable[[str], None] | None = None
    joins: bool = True
    at_once: int | None = None
    chat_template: str | None = None
    rendered: bool = False

    def __post_init__(self) -> None:
        for name in ("timeout", "deadline"):
            checked_seconds(name, getattr(self, name))
        if not isinstance(self.options, Mapping):
            kind = type(self.options).__name__
            raise UsageError(f"The options are a dict, as in {{'temperature': 0}}, not {kind}.")
        if not isinstance(self.chat_template, (str, NoneType)):
            kind = type(self.chat_template).__name__
            raise UsageError(f"A chat template is text, as its file holds it, not {kind}.")
        for name in ("options", "format"):  # whatever kind of mapping it is, it is sent as JSON
            object.__setattr__(self, name, plain(getattr(self, name)))

    def asked(self) -> dict[str, Any]:
        """Return what was set of ``options``, ``think``, ``format`` and ``keep_alive``."""
        asked = {name: getattr(self, name) for name in ("think", "format", "keep_alive")}
        asked["options"] = dict(self.options) or None
        return {name: deepcopy(value) for name, value in asked.items() if value is not None}
