"""The request of a recorded run, made again: from the artifact, or from what it names.

An artifact is data: nothing that it names is run, and of files only the user's own persona and
skills are read. Knows nothing about backends, flags or comparing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ore.backends import Settings
from ore.backends.model_options import OPTIONS, parse_options
from ore.cli.record import Sent
from ore.core import build_messages, load_aya_system_prompt
from ore.errors import ArtifactError, UsageError
from ore.types import ExecutionArtifact

_ROLES = ("system", "user", "assistant")
_THINK = (True, False, "low", "medium", "high")


def messages_of(
    artifact: ExecutionArtifact, notice: Callable[[str], None]
) -> tuple[str, list[Sent]]:
    """Return how the messages of a run were got, ``"embedded"`` or ``"rebuilt"``, and them.

    Rebuilt are the persona as it is now, the skills as they are now, and the prompt.

    Args:
        notice: Told what a skill's loading has to say.

    Raises:
        ArtifactError: They can't be had, for a part of them is not in the artifact.
        OreError: The persona or a skill can't be read.
    """
    if artifact.output.metadata.get("images"):
        raise ArtifactError("it was asked with images, which no artifact holds")
    provenance = artifact.provenance or {}
    if provenance.get("messages") is not None:
        return "embedded", _embedded(provenance["messages"])
    if artifact.input.tools:
        raise ArtifactError(
            "what its tools returned is not in it: record such runs with --artifact-full"
        )
    system, source = _system_prompt(provenance)
    skills = list(dict.fromkeys(artifact.input.skills or ()))
    texts = _skill_texts(skills, notice)
    messages = build_messages(artifact.input.prompt, system_prompt=system, skill_context=texts)
    sources = [source] if system else []
    sources += [f"skill:{name}" for name in skills] + [_prompt_source(provenance)]
    pairs = zip(messages, sources, strict=True)
    return "rebuilt", [Sent(message.role, message.content, source) for message, source in pairs]


def settings_of(artifact: ExecutionArtifact, changed: dict[str, Any], **more: Any) -> Settings:
    """Return the settings of a run, with the model's options in ``changed`` instead of its own.

    Args:
        more: Settings that do not shape an answer.

    Raises:
        ArtifactError: What the artifact says of its options is none of ORE's.
    """
    recorded = (artifact.provenance or {}).get("options") or {}
    if not isinstance(recorded, dict):
        raise ArtifactError("its provenance.options is no object")
    think, schema = recorded.get("think"), recorded.get("format")
    if think is not None and not (isinstance(think, (bool, str)) and think in _THINK):
        raise ArtifactError("its option 'think' is none of ORE's")
    if schema is not None and not isinstance(schema, dict):
        raise ArtifactError("its option 'format' is no JSON Schema")
    named = {key: value for key, value in recorded.items() if key not in ("think", "format")}
    try:
        options = parse_options(_pairs(named))
    except UsageError as exc:
        raise ArtifactError(f"its options can't be used: {exc}") from exc
    return Settings(options={**options, **changed}, think=think, format=schema, **more)


def _embedded(messages: Any) -> list[Sent]:
    sent = []
    for message in messages if isinstance(messages, list) else [None]:
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            raise ArtifactError("its provenance.messages is no list of messages")
        content, source = message.get("content"), message.get("source")
        if not isinstance(content, str):
            raise ArtifactError("its provenance.messages is no list of messages")
        sent.append(Sent(message["role"], content, source if isinstance(source, str) else "?"))
    if not sent:
        raise ArtifactError("its provenance.messages is empty")
    return sent


def _system_prompt(provenance: dict[str, Any]) -> tuple[str, str]:
    """Return the system prompt as it is now, ``""`` where none was sent, and its source."""
    sources = _sources(provenance)
    if "system" in sources:
        raise ArtifactError("its system prompt is not in it: record such runs with --artifact-full")
    if sources and "persona" not in sources:
        return "", "persona"
    persona = provenance.get("persona")
    if not isinstance(persona, str):
        return load_aya_system_prompt(), "persona"
    from ore.cli.persona import load_persona

    return load_persona(persona), "persona"


def _skill_texts(names: list[str], notice: Callable[[str], None]) -> list[str]:
    if not names:
        return []
    from ore.skills import build_skill_registry, find_skill, skill_text

    registry = build_skill_registry(report=notice)
    return [skill_text(find_skill(registry, name), notice) for name in names]


def _prompt_source(provenance: dict[str, Any]) -> str:
    sources = _sources(provenance)
    return sources[-1] if sources else "prompt"


def _sources(provenance: dict[str, Any]) -> list[str]:
    sources = provenance.get("sources")
    entries = sources if isinstance(sources, list) else []
    found = [each.get("source") for each in entries if isinstance(each, dict)]
    return [source for source in found if isinstance(source, str)]


def _pairs(options: dict[str, Any]) -> list[str]:
    """Return options as the command line would have them, so that they are checked as strictly."""
    pairs = []
    for key, value in options.items():
        for item in value if key == "stop" and isinstance(value, list) else [value]:
            fits = isinstance(item, (str, int, float)) and isinstance(item, str) == (key == "stop")
            if key in OPTIONS and not fits:
                raise UsageError(f"The option '{key}' has a value of another type.")
            text = str(item).lower() if isinstance(item, bool) else str(item)
            pairs.append(f"{key}={text}")
    return pairs
