"""A model's name as Ollama writes it: ``llama3.2``, ``llama3.2:1b``, ``hf.co/USER/REPO:Q4_K_M``.

And the names in lists of models: how many there may be, and how they are shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from ore.errors import UsageError
from ore.files.neutral import AT, brief, one_line

DEFAULT_HOST, DEFAULT_NAMESPACE, DEFAULT_TAG = "registry.ollama.ai", "library", "latest"
"""What a name means where it does not say so."""

_PARTS = {
    "host": re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,349}"),
    "namespace": re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,79}"),
    "model": re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}"),
    "tag": re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}"),
}
_NO_PORT = r"[^/]*:(?![0-9]*(?:/|$))"
_LOGIN = re.compile(
    rf"(?is)\A((?:[^/:]*:?//|[a-z][a-z0-9+.-]{{1,15}}[:\uff1a][/\\\uff0f]{{1,8}}(?=[^/:]*:.*{AT})"
    r"|(?:https?|socks\w{0,2})(?:[^\w\s/:]?//|[:\uff1a][/\\\uff0f]{0,8}(?![^/:@]*@sha256:))){1,2})"
    rf"(?=[^/]*{AT}|{_NO_PORT}|(?:(?<=\Ahttp://)|(?<=\Ahttps://))(?=.*{AT}(?!sha256:)))"
    rf".*{AT}(?:{_NO_PORT}[^/]*)?"
)
"""A key, or a user name and a password, beside an address's registry; a password may have a ``/`` in it.

Its ``://`` may be mistyped, but ``http:TAG`` with a pin is a model called http.
"""
_MOST_CHARACTERS = 350 + 3 * 80 + 3
_SHOWN_CHARACTERS = 80
_MOST_SHOWN = 20
_MOST_MODELS = 200_000


class ModelName(NamedTuple):
    """A whole name, its parts in the order of the folders that its model is kept in.

    ``str`` leaves out what is as usual, as ``llama3.2`` does.

    Attributes:
        host: The registry that has the model, with its port if it has one (``registry.ollama.ai``).
        namespace: Whose it is there (``library``).
        model: What it is called.
        tag: Which of its sizes and builds it is (``latest``).
    """

    host: str
    namespace: str
    model: str
    tag: str

    def __str__(self) -> str:
        is_usual_host = self.host.casefold() == DEFAULT_HOST
        text = self.model
        if not is_usual_host or self.namespace.casefold() != DEFAULT_NAMESPACE:
            text = f"{self.namespace}/{text}"
        if not is_usual_host:
            text = f"{self.host}/{text}"
        return text if self.tag.casefold() == DEFAULT_TAG else f"{text}:{self.tag}"

    def is_same(self, other: ModelName) -> bool:
        """Return whether both name one model: names differ in no more than upper and lower case."""
        return [part.casefold() for part in self] == [part.casefold() for part in other]


def parse_name(text: str) -> ModelName:
    """Return ``[HOST/][NAMESPACE/]MODEL[:TAG]`` with what it leaves out.

    Raises:
        UsageError: It is no such name.
    """
    path, colon, tag = text.rpartition(":")
    if not colon or "/" in tag:
        path, colon, tag = text, "", DEFAULT_TAG
    parts = path.split("/")
    if len(text) > _MOST_CHARACTERS or "://" in text or not 1 <= len(parts) <= 3:
        raise _illegal(text)
    host, namespace, model = [DEFAULT_HOST, DEFAULT_NAMESPACE][: 3 - len(parts)] + parts
    name = legal_name(host, namespace, model, tag)
    if name is None:
        raise _illegal(text)
    return name


def legal_name(host: str, namespace: str, model: str, tag: str) -> ModelName | None:
    """Return the name of four parts, or None where one of them is not legal."""
    parts = (host, namespace, model, tag)
    is_legal = all(kind.fullmatch(part) for kind, part in zip(_PARTS.values(), parts))
    return ModelName(*parts) if is_legal else None


def is_name(text: str) -> bool:
    """Return whether ``text`` can be a model's name, so that one may be fetched by it."""
    try:
        parse_name(text)
    except UsageError:
        return False
    return True


def can_be_sent(name: object) -> bool:
    """Return whether a server can be asked by a name that it gave: half a character can't be sent."""
    return not isinstance(name, str) or name.encode("utf-8", "ignore").decode() == name


def checked_models(found: list[Any]) -> list[Any]:
    """Return the models that a server lists: each takes far more memory than it has bytes.

    Raises:
        ValueError: They are too many; its text is the end of a sentence.
    """
    if len(found) > _MOST_MODELS:
        raise ValueError(f"it lists more than {_MOST_MODELS:,} models")
    return found


def holds_login(name: str) -> bool:
    """Return whether a name is an address that holds a key, or a user name and a password."""
    return _LOGIN.match(name) is not None


def checked_name(text: str) -> str:
    """Return a name that plans and artifacts may hold.

    Raises:
        UsageError: It is an address that holds a key, or a user name and a password.
    """
    if holds_login(text):
        raise UsageError(
            f"'{shown_name(text)}' can't be a model's name: it holds a user name or a password. Name "
            f"the model alone, and its server with `host=`."
        )
    return text


def shown_name(text: str) -> str:
    """Return what was given as a name as a sentence shows it: on one line, not too long, no password."""
    *folders, last = _LOGIN.sub("\\1\u2026@", text).split("/")
    text = "/".join([*map(_without_login, folders), last])
    shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}\u2026"
    return one_line(shown).replace("`", "'")  # between backticks stands what is to be done


def _without_login(part: str) -> str:
    """Return a part of a name without a user name and a password, which stand before a registry only."""
    login, _, registry = part.rpartition("@")
    return f"\u2026@{registry}" if ":" in login else part


def shown_names(names: Sequence[str]) -> str:
    """Return how a sentence lists the models that are there: others may have chosen what they are called."""
    shown = [brief(name) for name in names[:_MOST_SHOWN]]
    return ", ".join(shown) + (", \u2026" if len(names) > _MOST_SHOWN else "")


def _illegal(text: str) -> UsageError:
    return UsageError(
        f"'{shown_name(text)}' can't be a model's name: Ollama's are NAME, NAMESPACE/NAME or "
        f"HOST/NAMESPACE/NAME, each with :TAG or without, of letters, digits and the signs . _ - "
        f"(a part has at most 80, and no scheme stands before it). One of Hugging Face is "
        f"hf.co/USER/REPO:QUANT."
    )


def full_name(name: str) -> str:
    """Return a model's name as Ollama compares it: with what it implies, and in small letters."""
    name = name.lower().removeprefix(f"{DEFAULT_HOST}/").removeprefix(f"{DEFAULT_NAMESPACE}/")
    return name if ":" in name.rpartition("/")[2] else f"{name}:{DEFAULT_TAG}"
