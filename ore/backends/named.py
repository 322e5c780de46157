"""For programs: a reasoner by its name (``ollama:NAME``, ``embedded:NAME``), and a backend by its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from ore.backends import Backend, Settings
from ore.backends.choice import Choice, model_of, open_backend
from ore.backends.schema import SchemaReasoner
from ore.errors import UsageError
from ore.reasoner import Reasoner

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
    keep_alive: float | str | None = None,
    on_thinking: Callable[[str], None] | None = None,
    on_warning: Callable[[str], None] | None = None,
    joins: bool = True,
) -> Reasoner:
    """Return what asks a model, by the backend's name and the model's: ``"ollama:llama3.2"``.

    With ``auto``, or without a model (``"embedded:"``), it is chosen as the command line chooses. A
    model may be pinned, as ``"ollama:llama3.2@sha256:…"``: then its digest is looked up here. Else
    nothing is asked of a server before the first turn, but by ``auto`` and for a model to choose.

    Args:
        name: The backend and the model, with a colon between.
        host: The server's address; None is what the environment names, else the default one.
        format: A JSON schema for the answer: one that does not fit is a ``SchemaMismatchError``.
        timeout, deadline, strict_context, conversation, options: Fields of ``ore.Settings``.
        think, keep_alive, on_thinking, on_warning, joins: Fields of ``ore.Settings``.

    Raises:
        UsageError: It names no backend, or an argument has no meaning there.
        ExtraNotInstalledError: The backend's package is missing.
        CheckFailedError: The model is not the one that is pinned.
        OreError: Whatever the backend raises.
    """
    kind, colon, model = name.partition(":")
    if kind not in KINDS or not colon:
        raise UsageError(
            f"{name!r} names no backend: write {', '.join(f'{each}:NAME' for each in KINDS[1:])}, "
            f"or auto:NAME."
        )
    settings = Settings(
        timeout=timeout,
        deadline=deadline,
        strict_context=strict_context,
        conversation=conversation,
        options=options or {},
        think=think,
        format=format,
        keep_alive=keep_alive,
        on_thinking=on_thinking,
        on_warning=on_warning,
        joins=joins,
    )
    made = _made(kind, model, host, settings)
    return made if format is None else SchemaReasoner(made, format)


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
        raise UsageError(f"{kind!r} names no backend: it is one of {', '.join(KINDS)}.")
    choice = Choice(backend=kind, model=None, host=host, seconds=timeout)
    return open_backend(choice, os.environ, {}, _nobody, _nobody)


def _made(kind: str, model: str, host: str | None, settings: Settings) -> Reasoner:
    choice = Choice(backend=kind, model=model or None, host=host)
    chosen = open_backend(choice, os.environ, {}, _nobody, settings.on_warning or _nobody)
    model_id, pin = model_of(chosen, model or None, os.environ)
    if pin is not None:
        chosen.check_digest(model_id, pin)
    return chosen.reasoner(model_id, settings)


def _nobody(told: str) -> None:
    """Tell nobody: a library writes to no stream."""
