"""What a worker of a cluster does for a run: says what it is, and takes turns with its own server."""

from __future__ import annotations

import os
import sys
import threading
from functools import lru_cache
from typing import Any

from ore import __version__, errors
from ore.backends import Backend, turn_errors
from ore.backends.choice import Choice, open_backend
from ore.backends.settings import Settings
from ore.errors import OreError
from ore.reasoner import Reasoner
from ore.types import Message

Where = tuple[str | None, str | None]
"""The backend and the host that were named; a worker's own environment says what was not."""
KNOWN = ("server_version", "model_digest")
"""What it says of its server and of the model."""

_WARNED = threading.local()  # what the turn of each thread is warned of


def about(where: Where, model: str | None) -> dict[str, Any]:
    """Return what this worker is: its versions, its models, and the digest of the one that is asked."""
    found: dict[str, Any] = {
        "ore": __version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "problem": None,
    }
    try:
        backend, is_named = _backend(where, model), model is not None
        model = model or backend.default_model()
        names = backend.models()
        found |= {"backend": backend.name, "models": names, "model": model}
        if model is not None and not is_named:
            found["about_default"] = backend.about_default(model)
        if model is not None:
            found |= backend.provenance(model)
            if not {model, f"{model}:latest"} & set(names):
                found["problem"] = f"it has no model '{model}'"
    except OreError as exc:
        found["problem"] = str(exc)
    return found


def kind_of(told: dict[str, Any]) -> tuple[Any, ...]:
    """Return what must be the same on all workers."""
    minor = str(told.get("python")).rpartition(".")[0]
    return told.get("backend"), told.get("model"), told.get("model_digest"), minor


def why_unusable(told: Any) -> str | None:
    """Return why a worker that says this of itself can't be used; None where it can."""
    if not isinstance(told, dict):
        return f"it can't say what it is ({told}): install ORE {__version__} there"
    if told.get("ore") != __version__:
        return f"it has ORE {told.get('ore')}, and this is {__version__}"
    if told.get("problem"):
        return str(told["problem"])
    names, texts = told.get("models"), [told.get(key) for key in ("backend", "model", *KNOWN)]
    is_right = isinstance(names, list) and all(isinstance(each, str) for each in names)
    is_right = is_right and all(each is None or isinstance(each, str) for each in texts)
    return None if is_right else "what it says of itself can't be read"


def in_force(where: Where, model: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return what ``Backend.in_force`` says here."""
    return _backend(where, model).in_force(model, Settings(**settings))


def take(
    where: Where, model: str, settings: dict[str, Any], messages: list[dict[str, Any]]
) -> dict[str, Any]:
    """Take one turn; return the response, or the error, and what was warned of."""
    warned = _WARNED.texts = list[str]()
    try:
        reasoner = _reasoner(where, model, _frozen(settings))
        sent = [Message(each["role"], each["content"], images=each["images"]) for each in messages]
        response = reasoner.reason(sent)
    except OreError as exc:
        names = (kind.__name__ for kind in type(exc).__mro__)
        known = (name for name in names if hasattr(errors, name) or hasattr(turn_errors, name))
        return {"error": next(known), "said": str(exc), "warned": warned}
    return {
        "content": response.content,
        "model_id": response.model_id,
        "id": response.id,
        "timestamp": response.timestamp,
        "metadata": response.metadata,
        "warned": warned,
    }


@lru_cache(maxsize=8)
def _backend(where: Where, model: str | None) -> Backend:
    kind, host = where
    choice = Choice(backend=kind or "ollama", model=model, host=host)
    return open_backend(choice, os.environ)


@lru_cache(maxsize=8)
def _reasoner(where: Where, model: str, settings: tuple[tuple[str, Any], ...]) -> Reasoner:
    """Return a reasoner that is kept: its connection stays open, its model loaded."""
    asked = Settings(**{k: v.value for k, v in settings}, on_warning=_warn)
    return _backend(where, model).reasoner(model, asked)


def _warn(text: str) -> None:
    _WARNED.texts.append(text)


class _Value:
    """A setting, by which reasoners are told apart."""

    def __init__(self, value: Any) -> None:
        self.value, self._text = value, repr(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Value) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


def _frozen(settings: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, _Value(value)) for name, value in sorted(settings.items()))
