"""The fields of an execution artifact and their types: ``docs/artifact-schema.md`` as code."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

ARTIFACT_VERSION = "ore.exec.v1"
"""The one version of the execution artifact that is written and read."""

SINGLE_TURN, CONVERSATIONAL = "single_turn", "conversational"
MODES = (SINGLE_TURN, CONVERSATIONAL)
"""The values of ``input.mode``: a turn on its own, or one in a conversation."""

MAX_VALUES = 1_000_000
"""The most values of an artifact, objects and lists and what is in them, each counted."""

_CUTS = {
    word: what
    for what, words in {
        "a limit": "length error_limit max_tokens model_length model_context_window_exceeded",
        "the server's filter": "content_filter content_filtered guardrail_intervened refusal sensitive "
        "blocklist error_toxic prohibited_content recitation safety spii",
        "the server": "abort cancelled error insufficient_system_resource malformed_response "
        "network_error other parse_error repeat repetition timeout",
    }.items()
    for word in words.split()
}
"""What cut an answer off, by its ``done_reason``, as OpenAI, Anthropic, Cohere, Gemini and others name it."""

_HALF_A_PAIR = re.compile("[\ud800-\udfff]")


def cut_off_by(metadata: Mapping[str, Any]) -> str | None:
    """Return what cut off an answer with these metadata, in words; None where it ended by itself."""
    reason = metadata.get("done_reason")
    if not isinstance(reason, str):
        return None
    return _CUTS.get(reason.lower().replace("-", "_").removeprefix("finish_reason_"))


def has_uncounted_images(metadata: Mapping[str, Any]) -> bool:
    """Return whether images were sent with a prompt whose tokens the server did not count."""
    return bool(metadata.get("images")) and metadata.get("prompt_eval_count", 0) is None


def other_model(asked: str, metadata: Mapping[str, Any]) -> str | None:
    """Return which model gave an answer with these metadata, where it is another than ``asked``."""
    answered = metadata.get("response_model")
    if not isinstance(answered, str) or is_by_other_name(metadata):
        return None
    if is_same_model(asked, answered):
        return None
    return answered


def is_by_other_name(metadata: Mapping[str, Any]) -> bool:
    """Return whether a model was asked for by a name that is another of its own."""
    return metadata.get("asked_by_other_name") is True


def is_same_model(asked: str, answered: str) -> bool:
    """Whether two names are one model's: a file and its path, a name and its release or revision.

    A server passes on what is asked of a model in Ollama's cloud under its name there, and Open WebUI
    without the prefix that it lists it with. What ends in ``-latest``, as Anthropic has it, is whatever
    release is the last one.
    """
    asked, answered = (
        re.sub("[:-]latest$", "", os.path.basename(name.lower())) for name in (asked, answered)
    )
    in_cloud = re.sub("[:-]cloud$", "", asked)
    unreleased = re.sub(r"(-\d{4}-?\d\d-?\d\d|@main)\Z", "", answered)
    return any(
        name == each or bool(each) and name.endswith(f".{each}")
        for name in (asked, in_cloud)
        for each in (answered, unreleased)
    )


def _is_number(value: Any) -> bool:
    try:
        return type(value) is not bool and isinstance(value, (int, float)) and math.isfinite(value)
    except OverflowError:  # an integer beyond every float
        return False


def _is_sendable_text(value: Any) -> bool:
    # Half a surrogate pair can be written in JSON and can't be sent to any model as UTF-8.
    return isinstance(value, str) and (value.isascii() or not _HALF_A_PAIR.search(value))


def _is_list_of_text(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


_TEXT, _SENDABLE, _OBJECT = "text", "text that can be sent", "an object"
_NUMBER, _BOOLEAN, _TEXTS = "a finite number", "true or false", "a list of text"
_HOLDS: dict[str, Callable[[Any], bool]] = {
    _TEXT: lambda value: isinstance(value, str),
    _SENDABLE: _is_sendable_text,
    _OBJECT: lambda value: isinstance(value, dict),
    _NUMBER: _is_number,
    _BOOLEAN: lambda value: isinstance(value, bool),
    _TEXTS: _is_list_of_text,
}
# An object stands before what is in it.
_REQUIRED = {
    "execution_id": _TEXT,
    "timestamp": _NUMBER,
    "input": _OBJECT,
    "input.prompt": _SENDABLE,
    "input.model_id": _SENDABLE,
    "input.mode": _TEXT,
    "output": _OBJECT,
    "output.id": _TEXT,
    "output.content": _TEXT,
    "output.model_id": _TEXT,
    "output.timestamp": _NUMBER,
    "output.metadata": _OBJECT,
    "continuation": _OBJECT,
    "continuation.requested": _BOOLEAN,
}
_MAY_BE_NULL = {
    "input.routing": _OBJECT,
    "input.tools": _TEXTS,
    "input.skills": _TEXTS,
    "continuation.reason": _TEXT,
    "provenance": _OBJECT,
}


_Place = tuple[str, str, str, str]
_PLACED: tuple[list[_Place], list[_Place]] = (
    [(name, *name.rpartition(".")[::2], kind) for name, kind in _REQUIRED.items()],
    [(name, *name.rpartition(".")[::2], kind) for name, kind in _MAY_BE_NULL.items()],
)
"""The fields that are required, and those that may be null: name, section, key, and what it holds."""


def check_version(data: Any) -> None:
    """Raise ``ValueError``, one sentence, where ``data`` is not an artifact of this version."""
    if not isinstance(data, dict):
        raise ValueError(f"An artifact is a JSON object, not {kind_of(data)}.")
    version = data.get("artifact_version")
    if version == ARTIFACT_VERSION:
        return
    shown = repr(version[:40]) if isinstance(version, str) else kind_of(version)
    if "artifact_version" not in data:
        shown = "(there is none)"
    raise ValueError(f"Unsupported artifact version {shown}: this ORE reads {ARTIFACT_VERSION!r}.")


def check_fields(data: dict[str, Any]) -> None:
    """Raise ``ValueError``, one sentence, for the first wrong field; unknown keys are tolerated.

    So it does for what is too deep or too much to be looked at.
    """
    from ore.files import strictjson  # no turn reads an artifact

    try:
        strictjson.check(data, MAX_VALUES)
    except ValueError as exc:
        raise ValueError(f"The artifact can't be used: {exc}.") from exc
    check_types(data)


def check_parsed(data: Any, size: int) -> None:
    """Do what ``check_version`` and ``check_fields`` do, for what ``strictjson`` read of ``size`` bytes."""
    check_version(data)
    # Between two values there is a comma at least: fewer bytes can't hold too many.
    (check_types if size < 2 * MAX_VALUES else check_fields)(data)


def check_types(data: dict[str, Any]) -> None:
    """Do what ``check_fields`` does for an object that ``strictjson`` has read, of few values."""
    required, may_be_null = _PLACED
    for name, section, key, kind in required:
        holder = data[section] if section else data
        if key not in holder:
            raise ValueError(f"The artifact's {name} is missing.")
        _check_field(name, holder[key], kind)
    for name, section, key, kind in may_be_null:
        value = (data[section] if section else data).get(key)
        if value is not None:
            _check_field(name, value, kind)
    if data["input"]["mode"] not in MODES:
        raise ValueError(f"The artifact's input.mode is not {' or '.join(map(repr, MODES))}.")
    if data["execution_id"] != data["output"]["id"]:
        raise ValueError("The artifact's execution_id is not its output.id.")


def known(data: dict[str, Any], section: str) -> dict[str, Any]:
    """Return a section of a checked artifact without its unknown keys."""
    there = data[section]
    places = (each for part in _PLACED for each in part)
    return {key: there[key] for _, outer, key, _ in places if outer == section and key in there}


def kind_of(value: Any) -> str:
    """Return what JSON calls the type of a parsed value, with its article."""
    names = {dict: "an object", list: "a list", str: "text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number" if isinstance(value, (int, float)) else "not JSON")


def _check_field(name: str, value: Any, kind: str) -> None:
    if not _HOLDS[kind](value):
        raise ValueError(f"The artifact's {name} is {kind_of(value)}, not {kind}.")
