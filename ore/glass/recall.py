"""A recorded turn read back, to be asked again: its messages and its settings.

An artifact is data: nothing that it names is run, and of files only the user's own persona and
skills are read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ore.artifact import parsed
from ore.artifact.canonical import DIGITS_SHOWN, text_digest
from ore.artifact.sources import (
    ANSWER_OF,
    PERSONA,
    SESSION,
    SYSTEM,
    hashed_sources,
    is_of_session,
    kept_system_prompt,
    messages_digest,
    sources_of,
)
from ore.backends.model_options import as_pairs, parse_keep_alive, parse_options
from ore.backends.settings import Settings
from ore.core import build_messages, load_aya_system_prompt
from ore.errors import ArtifactError, FileAccessError, PersonaError, SessionError, UsageError
from ore.files.neutral import one_line
from ore.files.strictjson import is_list, is_list_of_texts, is_object
from ore.glass.choosing import checked_choices
from ore.glass.earlier import Earlier
from ore.glass.personas import load_persona
from ore.glass.provenance import Sourced, sourced
from ore.skills import build_skill_registry, find_skill, skill_text
from ore.store import FileSessionStore
from ore.types import ExecutionArtifact, Session

_ROLES = ("system", "user", "assistant")
_NOT_HELD = {
    "file:": "the text of its files is",
    "tool:": "what its tools returned is",
}
"""The sources of messages whose text no other place has."""
_KEEP_ALL = "record such runs with `ORE.record(full=True)`"
_KEEP_TEXT = "record such runs with `ORE.record(system_text=True)`"
_THINK = (True, False, "low", "medium", "high")


def recorded_messages(
    artifact: ExecutionArtifact,
    notice: Callable[[str], None],
    others: Earlier | None,
) -> tuple[str, list[Sourced]]:
    """Return the messages of a run, after whether they are ``"embedded"`` in it or ``"rebuilt"``.

    They are rebuilt from the prompt, and from the persona, the skills and the session as they are
    now; what it went on from is looked for among ``others``, None where none can be named.
    """
    if artifact.output.metadata.get("images"):
        raise ArtifactError("it was asked with images, which an artifact does not hold")
    provenance = artifact.provenance or {}
    if provenance.get("messages") is not None:
        return "embedded", _embedded(provenance["messages"], provenance.get("messages_sha256"))
    sources = sources_of(artifact) + [f"tool:{name}" for name in artifact.input.tools or ()]
    for kind, what in _NOT_HELD.items():
        if any(source.startswith(kind) for source in sources):
            raise ArtifactError(f"{what} not in it: {_KEEP_ALL}")
    source, system = _recorded_system_prompt(artifact, notice)
    skills = list(dict.fromkeys(artifact.input.skills or ()))
    registry = build_skill_registry(report=notice) if skills else {}
    texts = [skill_text(find_skill(registry, name), notice) for name in skills]
    known = sources_of(artifact)
    earlier = [source for source in known if is_of_session(source)]
    after = [source for source in known if source.startswith(ANSWER_OF)][:1]
    messages = build_messages(
        artifact.input.prompt,
        system_prompt=system,
        skill_context=texts,
        session=_recorded_session(artifact, earlier) if earlier else None,
        after=_gone_on_from(artifact, others) if after else None,
    )
    sources = [source] if system else []
    sources += [f"skill:{name}" for name in skills] + after + earlier + (known[-1:] or ["prompt"])
    return "rebuilt", sourced(messages, sources)


def _gone_on_from(artifact: ExecutionArtifact, others: Earlier | None) -> ExecutionArtifact:
    """Return the one of ``others`` whose answer was sent, as its hash says."""
    other = None if others is None else others.before(artifact)
    if other is not None:
        return other
    raise ArtifactError(
        "the answer it went on from is not in it: "
        + ("name that artifact as well, or " if others is not None else "")
        + _KEEP_ALL
    )


def _recorded_session(artifact: ExecutionArtifact, sources: list[str]) -> Session:
    """Return the messages of the session that a turn was asked with, as they were.

    A session that holds others by now is not read: no artifact chooses what is sent of it.
    """
    name = sources[0].removeprefix(SESSION).removeprefix(":").rpartition("#")[0]
    if not name:
        raise ArtifactError(f"its conversation was not saved, and is not in it: {_KEEP_ALL}")
    try:
        messages = FileSessionStore().load(name).messages[: len(sources)]
    except (SessionError, FileAccessError) as exc:
        raise ArtifactError(f"its conversation is not in it: {_KEEP_ALL}. {exc}") from exc
    now = [(f"{SESSION}:{name}#{n}", text_digest(m.content)) for n, m in enumerate(messages, 1)]
    sent = set(sources)
    if now != [pair for pair in hashed_sources(artifact) if pair[0] in sent]:
        raise ArtifactError(f"the session '{name}' has changed since: {_KEEP_ALL}")
    return Session(messages)


def recorded_settings(
    artifact: ExecutionArtifact, changed: dict[str, Any], **more: Any
) -> Settings:
    """Return the settings of a run, where ``changed`` replaces some of the model's options."""
    recorded: Any = (artifact.provenance or {}).get("options") or dict[str, Any]()
    if not is_object(recorded):
        raise ArtifactError("its provenance.options is not an object")
    think, schema = recorded.get("think"), _recorded_schema(recorded.get("format"))
    if think is not None and not (isinstance(think, (bool, str)) and think in _THINK):
        raise ArtifactError("its option 'think' has a value that ORE does not have")
    if schema is not None and not is_object(schema):
        raise ArtifactError("its option 'format' is not a JSON Schema")
    choices = recorded.get("choices")
    if choices is not None:
        choices = _recorded_choices(choices)
    apart = ("think", "format", "choices")
    named = {key: value for key, value in recorded.items() if key not in apart}
    try:
        options = parse_options(as_pairs(named))
    except UsageError as exc:
        raise ArtifactError(f"its options can't be used: {exc}") from exc
    if "stop" in named:  # one text, or none at all, is sent as it was
        options["stop"] = named["stop"]
    keep_alive = _recorded_keep_alive(artifact)
    return Settings(
        options={**options, **changed},
        think=think,
        format=schema,
        choices=choices,
        keep_alive=keep_alive,
        **more,
    )


def recorded_template(artifact: ExecutionArtifact, given: str | None) -> str | None:
    """Return the chat template that a run was given, ``given`` where the user names one now.

    Raises:
        ArtifactError: It is not in the artifact, or not the one that its hash says.
    """
    recorded = (artifact.provenance or {}).get("chat_template")
    if given is not None or recorded is None:
        return given
    sha256, text = (
        (recorded.get("sha256"), recorded.get("text")) if is_object(recorded) else ("", 0)
    )
    if isinstance(text, str) and text_digest(text) == sha256:
        return text
    if text is not None:
        raise ArtifactError("the chat template in it is not the one that its hash says")
    raise ArtifactError(
        f"its chat template (SHA-256 {one_line(str(sha256))[:DIGITS_SHOWN]}…) is not in it: name the "
        f"file with `chat_template=`, or {_KEEP_ALL}"
    )


def _recorded_choices(kept: Any) -> tuple[str, ...]:
    """Return the words that were chosen from; none of them is the name of a file here."""
    if not is_list_of_texts(kept):
        raise ArtifactError("its option 'choices' is not a list of words")
    try:
        return checked_choices(kept, "its option 'choices'")
    except UsageError as exc:
        raise ArtifactError(str(exc)) from exc


def _recorded_keep_alive(artifact: ExecutionArtifact) -> float | str | None:
    """Return how long a server was to keep the model: no part of the answer, but of its cache."""
    kept = artifact.output.metadata.get("keep_alive")
    try:
        return None if kept is None else parse_keep_alive(str(kept))
    except UsageError as exc:
        raise ArtifactError(f"its keep_alive can't be used: {exc}") from exc


def _recorded_schema(kept: Any) -> Any:
    """Return a schema as it was sent; one without canonical JSON is kept as its text."""
    if not isinstance(kept, str):
        return kept
    try:
        return parsed(kept.encode("ascii"))
    except ValueError:  # it is refused like any other value that is no schema
        return kept


def _embedded(messages: Any, sha256: object) -> list[Sourced]:
    fits = is_list(messages) and all(
        is_object(each) and each.get("role") in _ROLES and isinstance(each.get("content"), str)
        for each in messages
    )
    if not fits:
        raise ArtifactError("its provenance.messages is not a list of messages")
    if not messages:
        raise ArtifactError("its provenance.messages is empty")
    try:
        is_other = sha256 is not None and messages_digest(messages) != sha256
    except ValueError as exc:
        raise ArtifactError(str(exc)) from exc
    if is_other:
        raise ArtifactError("the messages in it are not those that their hash says")
    return [Sourced(each["role"], each["content"], _source(each)) for each in messages]


def _source(message: dict[str, Any]) -> str:
    source = message.get("source")
    return source if isinstance(source, str) and source else "?"


def _recorded_system_prompt(
    artifact: ExecutionArtifact, notice: Callable[[str], None]
) -> tuple[str, str]:
    """Return the source of the system prompt, and its text, ``""`` where none was sent.

    A persona is as it is now, so that a replay shows what a change of it does. What is not here is
    taken from the artifact, where that keeps it.
    """
    sources = sources_of(artifact)
    try:
        kept = kept_system_prompt(artifact)
    except ValueError as exc:
        raise ArtifactError(str(exc)) from exc
    if SYSTEM in sources:
        if kept is None:
            raise ArtifactError(f"its system prompt is not in it: {_KEEP_TEXT}")
        return SYSTEM, kept
    if sources and PERSONA not in sources:
        return PERSONA, ""
    persona = (artifact.provenance or {}).get("persona")
    if not isinstance(persona, str):
        return PERSONA, load_aya_system_prompt()
    try:
        return PERSONA, load_persona(persona)
    except UsageError as exc:  # the artifact's words, and not the user's
        raise ArtifactError(str(exc)) from exc
    except PersonaError as exc:
        if kept is None:
            raise ArtifactError(f"{exc} Otherwise {_KEEP_TEXT}.") from exc
        notice(f"The persona {one_line(persona)} is not here: the text in the artifact is used.")
        return PERSONA, kept
