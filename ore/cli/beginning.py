"""A session goes on as it was begun: with its model, its system prompt and the model's options."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

from ore.backends import Backend, split_pin
from ore.backends.choice import ON_THIS_MACHINE
from ore.backends.model_options import parse_options
from ore.cli.conversation import Conversation
from ore.cli.options import Options
from ore.cli.prompt import Asked
from ore.errors import InvalidSessionError, ModelNotFoundError, PersonaError, UsageError
from ore.files import begins_with
from ore.files.neutral import one_line
from ore.glass.personas import load_persona
from ore.store.beginnings import Beginning
from ore.store.pages import on_one_line, said_of_model, said_of_prompt
from ore.types import Session
from ore.types.speakers import AYA, UNNAMED


def as_begun(
    options: Options, asked: Asked, conversation: Conversation, notice: Callable[[str], None]
) -> tuple[Options, Asked]:
    """Return the options and what is asked, with what the session was begun with and no flag gives.

    Raises:
        InvalidSessionError: The file that says it can't be used, or is of another session.
        PersonaError: The persona is gone.
        ModelNotFoundError: The model is a file, which only the user may choose.
    """
    store, name = conversation.store, conversation.source
    if store is None or name is None or conversation.source_id is None:  # it begins now
        return options, asked
    begun = store.beginning(name)
    if begun is None:
        return options, asked
    if begun.id != conversation.source_id:
        raise InvalidSessionError(
            f"The file beside the session '{name}' belongs to another session: move {name}.meta.json in "
            f"{store.root} away.",
            name,
        )
    conversation.beginning = begun
    changed: dict[str, Any] = {}
    said: list[str] = []
    chosen = options.backend or os.environ.get("ORE_BACKEND") or "auto"
    if options.model is None and begun.model and chosen in ("auto", begun.backend):
        chosen = "" if chosen == "auto" and not options.host else chosen
        changed = _model(begun, begun.model, name, chosen)
        asked = asked._replace(model=begun.model)
        said.append(said_of_model(begun.model))
    if not asked.system_from.startswith("--"):
        is_usual = asked.system_from == "default"
        shaped, asked = _system_prompt(begun, name, asked)
        changed |= shaped
        said += said_of_prompt(begun) or ([] if is_usual else [f"the persona '{AYA.lower()}'"])
    if begun.options and not options.option:
        changed["option"] = begun.options
        asked = asked._replace(settings=replace(asked.settings, options=_options(begun, name)))
        said += begun.options
    if said:
        notice(f"'{name}' goes on as it was begun: {on_one_line(said)}. Flags change it.")
    return options.replace(**changed), asked


def beginning_of(
    options: Options,
    asked: Asked,
    backend: Backend,
    model_id: str,
    session: Session | None,
    pin: str | None = None,
) -> Beginning:
    """Return what a session is begun with; where its model is pinned, it stays so."""
    id = session.id if session is not None else ""
    system = "" if options.no_system else asked.system_prompt if options.system else None
    is_file = backend.name == "embedded" and _is_file(model_id, "embedded")
    name = os.path.abspath(model_id) if is_file else model_id
    pinned = f"{name}@sha256:{pin}" if pin else name
    return Beginning(id, backend.name, pinned, options.persona, system, options.option)


def _model(begun: Beginning, model: str, name: str, chosen: str) -> dict[str, Any]:
    """Return the flags that name the model, and its backend unless one is ``chosen``.

    A name that is sent to an openai server is never a file of this machine.
    """
    try:
        file = split_pin(model)[0]
    except UsageError as exc:
        raise InvalidSessionError(
            f"What the session '{name}' was begun with can't be used: {exc} Name a model with "
            f"--model, or move {name}.meta.json away.",
            name,
        ) from exc
    if begun.backend == "openai" and not chosen:
        raise ModelNotFoundError(
            f"The session '{name}' was begun with the model {one_line(model)} of an openai server: "
            f"say --backend openai, or name another model with --model.",
            model=model,
        )
    if chosen != "openai" and _is_file(file, chosen or begun.backend):
        raise ModelNotFoundError(
            f"The session '{name}' was begun with the model in the file {one_line(model)}: name it "
            f"yourself with --model, or another one.",
            model=model,
        )
    if chosen:
        return {"model": model}
    return {"model": model} | (
        {"backend": begun.backend} if begun.backend in ON_THIS_MACHINE else {}
    )


def _is_file(model: str, backend: str | None) -> bool:
    """Whether a model is a file, as ``backend`` finds it: one here may be called as a model is."""
    if model.lower().endswith(".gguf") or os.path.isabs(model):
        return os.path.isfile(model)
    if not begins_with(model, b"GGUF"):
        return False
    if backend == "embedded":
        return not import_module("ore.backends.local_models").has(model)
    return os.sep in model  # a bare name is a server's


def _system_prompt(begun: Beginning, name: str, asked: Asked) -> tuple[dict[str, Any], Asked]:
    """Return the flags that a system prompt stands for, and what is asked with it.

    It goes before ``ORE_SYSTEM``, which is for what is begun anew; Aya's does, too.
    """
    asked = asked._replace(system_from=f"session:{name}")
    flags: dict[str, Any] = {"persona": None, "system": None, "no_system": False}
    if begun.persona is not None:
        try:
            text = load_persona(begun.persona)
        except PersonaError as exc:
            raise PersonaError(
                f"{exc} The session '{name}' was begun with it: --persona, --system and "
                f"--no-system choose another."
            ) from exc
        asked = asked._replace(system_prompt=text, speaker=begun.persona)
        return flags | {"persona": begun.persona}, asked
    if begun.system is None:
        return flags, asked._replace(system_prompt=None, speaker=AYA)
    flags |= {"system": begun.system} if begun.system else {"no_system": True}
    return flags, asked._replace(system_prompt=begun.system, speaker=UNNAMED)


def _options(begun: Beginning, name: str) -> dict[str, Any]:
    try:
        return parse_options(begun.options)
    except UsageError as exc:
        raise InvalidSessionError(
            f"What the session '{name}' was begun with can't be used: {exc} Give other options "
            f"with -o, or move {name}.meta.json away.",
            name,
        ) from exc
