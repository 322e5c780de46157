"""A plan that ``--dry-run`` has written, read back to be taken as a turn.

Its messages are sent as they are there: no file, tool, skill or persona is read again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from ore.artifact.canonical import text_digest, value_or_text
from ore.artifact.sources import ANSWER_OF, PERSONA, SYSTEM, is_of_session, messages_digest
from ore.errors import ArtifactError
from ore.files import strictjson
from ore.files.neutral import one_line
from ore.files.strictjson import is_list, is_list_of_texts, is_object
from ore.types import (
    ExecutionArtifact,
    Message,
    Response,
    RoutingDecision,
    ToolResult,
)
from ore.types.turn_plan import PLAN_VERSION

MOST_BYTES = 64 << 20
"""The most bytes of a plan, which holds its prompt twice where it is rendered, or of a run file."""

_MOST_VALUES = 1_000_000
"""Of a plan, which has some ten for each message: a turn of 200,000 empty ones takes seconds."""

_PLAN = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"plan_version"\s*:')
_PIN = re.compile("[0-9a-f]{12,64}")
_THINK = ("None", "True", "False", "low", "medium", "high")
_SYSTEM, _SKILL, _TOOLS = (PERSONA, SYSTEM), "skill:", ("tool:", "file:")


@dataclass(frozen=True)
class Planned:
    """A turn that is to be taken as it was planned.

    Attributes:
        prompt: The user's text.
        source: Where it came from.
        system: The system prompt, ``""`` for none.
        is_own_system: Whether that is a text of the user's own, and no persona's.
        skill_context: The texts of the skills.
        skills: Their names.
        tool_results: What tools returned, and the texts of files.
        session: The messages of the conversation before it.
        session_source: The name of that conversation, or None.
        decision: What the router chose, or None.
    """

    prompt: str
    source: str
    system: str
    is_own_system: bool
    skill_context: list[str]
    skills: list[str]
    tool_results: list[ToolResult]
    session: list[Message]
    session_source: str | None
    decision: RoutingDecision | None


@dataclass(frozen=True)
class PlannedOptions:
    """The options of a turn that is to be taken as it was planned.

    Attributes:
        own: Those of the model, by name.
        think: Whether, or how much, the model thinks first; None leaves it to the model.
        schema: What the answer has to fit, or None.
        choices: The words that it is chosen from, or None.
    """

    own: dict[str, Any]
    think: bool | str | None
    schema: dict[str, Any] | None
    choices: list[str] | None


@dataclass(frozen=True)
class ParsedPlan:
    """What a plan says.

    Attributes:
        sha256: Of its bytes.
        backend, model_id: Where it was made, and for which model.
        messages: All of them, each with its ``role``, ``content`` and ``source``.
        options: The model's options, with ``think``, ``format`` and ``choices``.
        persona: The name of the persona, or None.
        grants: The permissions that were granted.
        expect: What is expected of the answer, by kind.
        turn: The turn itself.
        joined: The sources of those that would be sent as one, or None.
        pin: What the model's digest is to begin with, where it was pinned.
        is_apart: Whether the messages are to be sent as they are, whatever the template takes.
    """

    sha256: str
    backend: str
    model_id: str
    options: dict[str, Any]
    persona: str | None
    grants: tuple[str, ...]
    expect: dict[str, Any]
    messages: list[dict[str, str]]
    turn: Planned
    joined: Any
    pin: str | None = None
    is_apart: bool = False

    @property
    def model(self) -> str:
        """The model with its pin, as a flag names it."""
        return self.model_id if self.pin is None else f"{self.model_id}@sha256:{self.pin}"

    def asked(self) -> PlannedOptions:
        """Return the options of the model, and apart from them what ORE keeps among them."""
        own = dict(self.options)
        think, schema = own.pop("think", None), own.pop("format", None)
        return PlannedOptions(own, think, schema, own.pop("choices", None))

    def as_artifact(self) -> ExecutionArtifact:
        """Return the run that was planned, to be compared with others; it has no answer.

        Of the model's digest it has what a pin says: the beginning.
        """
        turn, sources = self.turn, [each["source"] for each in self.messages]
        tools = [each.removeprefix("tool:") for each in sources if each.startswith("tool:")]
        model = os.path.basename(self.model_id) if self.backend == "embedded" else self.model_id
        hashed = [(each["source"], text_digest(each["content"])) for each in self.messages]
        artifact = ExecutionArtifact.from_response(
            Response("", model), turn.prompt, model, turn.decision, tools, turn.skills
        )
        provenance = {
            "backend": self.backend,
            "model_digest": self.pin,
            "options": {name: value_or_text(value) for name, value in self.options.items()},
            "persona": self.persona,
            "grants": sorted(self.grants),
            "messages": self.messages,
            "messages_sha256": messages_digest(self.messages),
            "joined": self.joined,
            "sources": [{"source": source, "sha256": sha256} for source, sha256 in hashed],
        }
        output = replace(artifact.output, content=cast(str, None))  # not known, and not empty
        return replace(artifact, output=output, provenance=provenance)


def looks_like_plan(data: bytes) -> bool:
    """Return whether bytes begin as a plan that ``--dry-run`` has written."""
    return _PLAN.match(data) is not None


def is_plan(data: bytes, path: str) -> bool:
    """Return whether bytes are to be a plan, and no prompt: JSON by name, or as a plan begins."""
    return path.lower().endswith(".json") or looks_like_plan(data)


class _NotHeld(ValueError):
    """A plan is sound, and its turn needs what no plan holds."""

    def __init__(self, what: str, given: str) -> None:
        super().__init__(f"{what}: ask without a plan, with {given}")


def parse_plan(data: bytes, path: str) -> ParsedPlan:
    """Return the plan that ``data`` is; ``path`` is where it was read.

    Raises:
        ArtifactError: It is not a plan of this version, was changed, or its turn needs what a plan
            does not hold.
    """
    shown = one_line(path)
    try:
        plan = strictjson.parse(data, limit=MOST_BYTES, most=_MOST_VALUES)
        if not is_object(plan) or plan.get("plan_version") != PLAN_VERSION:
            raise ValueError(f"it is not a plan of the version {PLAN_VERSION}")
        _require(plan, str, "backend", "model_id", "messages_sha256")
        _require(plan, dict, "options")
        _require({"expect": {}, **plan}, dict, "expect")
        persona, grants = plan.get("persona"), plan.get("grants", [])
        if not is_list_of_texts(grants) or not isinstance(persona, (str, type(None))):
            raise ValueError("its grants are not a list of texts, or its persona is not text")
        pin = plan.get("pin")
        if pin is not None and not (isinstance(pin, str) and _PIN.fullmatch(pin)):
            raise ValueError("its pin is not part of a digest")
        think, schema = plan["options"].get("think"), plan["options"].get("format", {})
        if not is_object(schema) or str(think) not in _THINK:
            raise ValueError("its options have a think or a format that ORE does not have")
        if plan.get("chat_template") is not None:
            raise _NotHeld(
                "its turn has a chat template, of which it has the hash only", "`chat_template=`"
            )
        choices = plan["options"].get("choices", ["", ""])
        if not is_list_of_texts(choices) or len(choices) < 2:
            raise ValueError("its options have choices that are not words to choose from")
        messages = _messages(plan)
        turn = _turn(messages, plan.get("routing"))
    except ValueError as exc:
        way = "" if isinstance(exc, _NotHeld) else " Give one that was written with `ORE.plan()`."
        raise ArtifactError(f"{shown} can't be run as a plan: {exc}.{way}") from exc
    return ParsedPlan(
        hashlib.sha256(data).hexdigest(),
        plan["backend"],
        plan["model_id"],
        plan["options"],
        persona,
        tuple(grants),
        plan.get("expect", {}),
        messages,
        turn,
        plan.get("joined"),
        pin,
        plan.get("join_messages") == "never",
    )


def _messages(plan: Mapping[str, Any]) -> list[dict[str, str]]:
    messages = plan.get("messages")
    if not is_list(messages) or not messages:
        raise ValueError("it has no list of messages")
    for each in messages:
        if not is_object(each):
            raise ValueError("its messages are not objects")
        _require(each, str, "role", "content", "source")
        if "images" in each:
            raise _NotHeld("its turn has images, of which it has the hashes only", "`images=`")
        if each["source"].startswith(ANSWER_OF):
            raise _NotHeld("its turn goes on from an artifact", "`after=`")
    if messages_digest(messages) != plan["messages_sha256"]:
        raise ValueError("its messages are not those that it was written with")
    return messages


def _turn(messages: list[dict[str, str]], routing: Any) -> Planned:
    *before, last = messages
    system = before.pop(0) if before and before[0]["source"] in _SYSTEM else None
    skills = _taken(before, (_SKILL,), "system")
    results = _taken(before, _TOOLS, "user")
    if not all(is_of_session(each["source"]) for each in before) or last["role"] != "user":
        raise ValueError("its messages are not in the order of a turn")
    name = before[0]["source"].rpartition("#")[0].partition(":")[2] if before else ""
    return Planned(
        prompt=last["content"],
        source=last["source"],
        system=system["content"] if system else "",
        is_own_system=system is not None and system["source"] == SYSTEM,
        skill_context=[each["content"] for each in skills],
        skills=[each["source"].removeprefix(_SKILL) for each in skills],
        tool_results=[_result(each["content"]) for each in results],
        session=[Message(each["role"], each["content"]) for each in before],
        session_source=name or None,
        decision=_decision(routing),
    )


def _taken(
    messages: list[dict[str, str]], kinds: tuple[str, ...], role: str
) -> list[dict[str, str]]:
    """Take from the beginning of ``messages`` those of some kinds."""
    others = (
        at
        for at, each in enumerate(messages)
        if not each["source"].startswith(kinds) or each["role"] != role
    )
    count = next(others, len(messages))
    found, messages[:count] = messages[:count], []
    return found


def _result(content: str) -> ToolResult:
    head, separator, output = content.partition("]\n")
    if not separator or not head.startswith("[Tool:"):
        raise ValueError("what a tool returned does not begin with its name")
    return ToolResult(head.removeprefix("[Tool:"), output, "ok")


def _decision(routing: Any) -> RoutingDecision | None:
    try:
        return None if routing is None else RoutingDecision(**routing)
    except TypeError as exc:
        raise ValueError("its routing is not a router's decision") from exc


def _require(found: Mapping[str, Any], kind: type, *keys: str) -> None:
    for key in keys:
        if not isinstance(found.get(key), kind):
            what = "text" if kind is str else "an object"
            raise ValueError(f"its {key} is not {what}: {json.dumps(found.get(key))[:40]}")
