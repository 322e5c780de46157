"""What a server of the OpenAI protocol says of its models, in its list of them."""

from __future__ import annotations

import re
from contextlib import closing
from typing import Any

from ore.backends import Model
from ore.backends.address import Host
from ore.backends.answer import known_count
from ore.backends.http import Deadline
from ore.backends.model_names import can_be_sent, holds_login
from ore.backends.openai_client import Call, load_packages
from ore.errors import BackendError
from ore.files.neutral import word
from ore.files.strictjson import is_list_of_texts, part

_REFUSING = ("llamacpp", "sglang", "vllm")
"""Owners of models: servers that refuse a prompt which does not fit."""
_OLD_BUILDS = range(1000, 6000)
"""Of llama.cpp's server, as it names them (``b4567-…``): until August 2025 it cut such a prompt."""

_KINDS = ("capabilities", "categories", "labels", "model_type", "type")
"""Where lists say what a model is for: Infinity's, GPUStack's, Lemonade's, Xinference's, Together's."""
_EMBEDS = frozenset(("embed", "embedding", "embeddings"))
_ANSWERS_NOTHING = _EMBEDS.union(
    ("audio_embed", "classification", "classify", "image_embed", "rerank", "reranker", "reranking"),
    ("audio", "image", "realtime-transcription", "speech_to_text", "text_to_speech"),
    ("transcription", "tts", "video"),
)
_NO_LIST = (404, 405, 501)
_LONGEST_PATH = 4096

LOOK_UP_SECONDS = 10.0
"""How long the list may take where something is asked of it alone."""


class NoListError(BackendError):
    """The server knows of no list of models, or it is another server."""


def listed(
    host: Host, key: str | None, deadline: Deadline, seconds: float | None = None
) -> list[dict[str, Any]]:
    """Return what the server says of each of its models, before the deadline.

    Args:
        seconds: How long it may take; what is imported for it first does not count.

    Raises:
        NoListError: Nothing is at the address of the list.
    """
    load_packages()
    if seconds is not None:
        deadline = deadline.within(seconds)
    with closing(Call(host, key, deadline=deadline)) as call:
        try:
            return [entry for entry in call.models() if can_be_sent(entry["id"])]
        except BackendError as exc:
            if call.status not in _NO_LIST:
                raise
            raise NoListError(
                f"{exc} If the address is right, name the model with `model_id=`: not every server lists "
                f"its models.",
                host=host.url,
            ) from exc


def entry_of(models: list[dict[str, Any]], names: tuple[str | None, ...]) -> dict[str, Any]:
    """Return what a list says of the model with one of the names; of its only one, else nothing."""
    only = models[0] if len(models) == 1 else {}
    return next((entry for entry in models if not names_of(entry).isdisjoint(names)), only)


def names_of(entry: dict[str, Any]) -> set[str]:
    """Return what a model is called; llama.cpp's server has several names for one."""
    also = entry.get("aliases")
    others = also if isinstance(also, list) else ()
    return {entry["id"], *(name for name in others if isinstance(name, str))}


def is_one_model(models: list[dict[str, Any]], asked: str, answered: str | None) -> bool:
    """Return whether a list says that the name asked for is another of the model that answered.

    vLLM's server lists a model once for each of its names, each time with its ``root``, and answers with
    the first of them.
    """
    if asked == answered:
        return False
    of_vllm = [each for each in models if each.get("owned_by") == "vllm"]
    roots = {each["id"]: word(each.get("root"), _LONGEST_PATH) for each in of_vllm}
    is_served = bool(roots.get(asked)) and roots.get(asked) == roots.get(answered or "")
    return is_served or any(names_of(each).issuperset((asked, answered)) for each in models)


def described(entry: dict[str, Any]) -> Model:
    """Return what a list says of a model; most servers give only its name."""
    about, quantization = meta_of(entry), word(part(entry, "meta").get("ftype"))
    size, number = about.get("size"), about.get("n_params")
    parameters = _in_short(number) if number else None
    able = _abilities(entry)
    return Model(entry["id"], size, parameters, quantization, window_of(entry), able)


def only_one(models: list[Model]) -> str | None:
    """Return the name of a list's only model, if it answers prompts and its name holds no login."""
    asked = [each.name for each in models if each.can_answer and not holds_login(each.name)]
    return asked[0] if len(models) == len(asked) == 1 else None


def _abilities(entry: dict[str, Any]) -> tuple[str, ...] | None:
    """Return what a model does, as Ollama names it, where a list says that it answers no prompts."""
    for name in _KINDS:
        kinds = [value] if isinstance(value := entry.get(name), str) else value
        if is_list_of_texts(kinds) and kinds:
            words = [kind.lower() for kind in kinds]
            if _ANSWERS_NOTHING.issuperset(words):
                named = ("embedding" if word in _EMBEDS else word for word in words)
                return tuple(dict.fromkeys(named))  # a server may repeat one as often as it likes
    return None


def _in_short(number: int) -> str:
    """Return a number of parameters as Ollama writes it: ``134.52M``, ``3.2B``."""
    if number < 10**9:
        return f"{number / 1e6:.2f}M"
    return f"{number / 1e9:.1f}B"


def window_of(entry: dict[str, Any]) -> int | None:
    """Return the context window in tokens, where the server's list of models says it."""
    length = meta_of(entry).get("n_ctx") or known_count(entry.get("max_model_len"))
    return length or None


def cuts_no_prompt(entry: dict[str, Any], fingerprint: str | None) -> bool:
    """Whether a server refuses what does not fit: its list says which it is, ``fingerprint`` its build."""
    build = re.match(r"b(\d{1,9})-", fingerprint or "")
    is_old = build is not None and int(build[1]) in _OLD_BUILDS
    return entry.get("owned_by") in _REFUSING and not is_old


def meta_of(entry: dict[str, Any]) -> dict[str, int]:
    """Return the numbers that llama.cpp's server says of a model: its size, its window."""
    about = part(entry, "meta").items()
    return {name: n for name, value in about if (n := known_count(value)) is not None}
