"""For programs: a reasoner by its name (``ollama:NAME``, ``embedded:NAME``), and a backend by its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from ore.backends import Backend
from ore.backends.choice import Choice, model_of, nobody, open_backend
from ore.backends.model_names import shown_name
from ore.backends.model_options import checked_seconds
from ore.backends.schema import SchemaReasoner
from ore.backends.settings import Settings
from ore.errors import UsageError
from ore.reasoner import Reasoner
from ore.types.sent import listed

KINDS = ("auto", "ollama", "embedded", "openai")


def reasoner(
    name: str,
    *,
    host: str | None = None,
    timeout: float | None = None,
    deadline: float | None = None,
    strict_context: bool = False,
    conversation: bool = False,
    options: Mapping[str, Any] | None = None,
    think: bool | str | None = None,
    format: Mapping[str, Any] | None = None,
    choices: Sequence[str] | None = None,
    logprobs: bool = False,
    keep_alive: float | str | None = None,
    on_thinking: Callable[[str], None] | None = None,
    on_warning: Callable[[str], None] | None = None,
    joins: bool = True,
    at_once: int | None = None,
    chat_template: str | None = None,
    rendered: bool = False,
) -> Reasoner:
    """Return what asks a model, by the backend's name and the model's: ``"ollama:llama3.2"``.

    With ``auto``, or no model (``"embedded:"``), it is chosen as by the command line. Nobody is asked
    before the first turn, but by ``auto``, to choose a model, and for a pin (``NAME@sha256:…``).

    Args:
        name: The backend and the model, with a colon between.
        host: The server's address; None is what the environment names, else the default one.
        format: A JSON schema for the answer: one that does not fit is a ``SchemaMismatchError``.
        choices: Words of which the answer is the likeliest; ``metadata["choice"]`` says how likely.
        timeout, deadline, strict_context, conversation, options: Fields of ``ore.Settings``.
        think, keep_alive, on_thinking, on_warning, joins: Fields of ``ore.Settings``.
        logprobs, at_once, chat_template, rendered: Fields of ``ore.Settings``.

    Raises:
        UsageError: It names no backend, or an argument has no meaning there.
        CapabilityError, ExtraNotInstalledError: The backend can't do it; its package is missing.
        CheckFailedError: The model is not the one that is pinned.
        OreError: Whatever the backend raises.
    """
    settings = Settings(
        timeout=timeout,
        deadline=deadline,
        strict_context=strict_context,
        conversation=conversation,
        options=options or {},
        think=think,
        format=format,
        choices=_words(choices, format),
        logprobs=logprobs,
        keep_alive=keep_alive,
        on_thinking=on_thinking,
        on_warning=on_warning,
        joins=joins,
        at_once=at_once,
        chat_template=chat_template,
        rendered=rendered,
    )
    return reasoner_with(*_split(name), host, settings)


def backend(
    kind: str = "auto", *, host: str | None = None, timeout: float | None = None
) -> Backend:
    """Return a place where models run: which there are (``models``), and what fetches one (``pull``).

    ``ore.backend("embedded").pull("smollm2:135m", print)`` fetches a model and prints how far it is.

    Args:
        kind: ``"ollama"``, ``"embedded"``, ``"openai"``, or ``"auto"``, as the command line chooses.
        host: The server's address; None is what the environment names, else the default one.
        timeout: The longest to wait for an answer about its models, in seconds.

    Raises:
        UsageError: There is no such backend, or an argument has no meaning there.
        ExtraNotInstalledError: The backend's package is missing.
    """
    if kind not in KINDS:
        named = shown_name(str(kind))
        raise UsageError(f"'{named}' names no backend: it is one of {', '.join(KINDS)}.")
    choice = Choice(
        backend=kind, model=None, host=host, seconds=checked_seconds("timeout", timeout)
    )
    return open_backend(choice, os.environ)


def reasoner_with(
    kind: str | None, model: str | None, host: str | None, settings: Settings
) -> Reasoner:
    """Return what asks a model with ``settings``: it chooses, or lets fitting answers through, as they say.

    Args:
        kind: The backend, as ``backend`` takes it; None is what ``ORE_BACKEND`` names.
        model: The model, maybe with its pin; None is chosen as the command line chooses.
        host: The server's address, or None.
        settings: What is asked of the model.

    Raises:
        OreError: What ``reasoner`` raises.
    """
    choice = Choice(backend=kind, model=model, host=host)
    chosen = open_backend(choice, os.environ, warning=settings.on_warning or nobody)
    model_id, pin = model_of(chosen, model, os.environ)
    if pin is not None:
        chosen.check_digest(model_id, pin)
    if settings.choices is not None:
        choosing: Reasoner = _choosing().reasoner_of(chosen, model_id, settings)
        return choosing
    made = chosen.reasoner(model_id, settings)
    return made if settings.format is None else SchemaReasoner(made, settings.format)


def _split(name: str) -> tuple[str, str | None]:
    """Return the backend and the model that a name has; None is a model to choose."""
    kind, colon, model = name.partition(":")
    if kind not in KINDS or not colon:
        forms = ", ".join(f"{each}:NAME" for each in KINDS[1:])
        raise UsageError(f"'{shown_name(name)}' names no backend: write {forms}, or auto:NAME.")
    return kind, model or None


def _words(choices: Sequence[str] | None, format: Mapping[str, Any] | None) -> Any:
    """Return the words to choose from, once they can be, and None for none."""
    if choices is None:
        return None
    if format is not None:
        raise UsageError(
            "A schema and words to choose from don't go together: leave one of them out."
        )
    return _choosing().checked_choices(listed("choices", choices), "`choices=`")


def _choosing() -> Any:
    """Return the module that makes a reasoner choose; it stands above this one, and few need it."""
    return import_module("ore.glass.choosing")
