"""The data contracts: names, order, defaults and frozenness of every field."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import time
import uuid
from dataclasses import MISSING, FrozenInstanceError, fields, replace
from pathlib import Path

import pytest

from ore import types
from ore.types import (
    ExecutionArtifact,
    ExecutionArtifactContinuation,
    ExecutionArtifactInput,
    ExecutionArtifactOutput,
    Message,
    Response,
    RoutingDecision,
    RoutingTarget,
    Session,
    SkillMetadata,
    ToolResult,
)

NEW, NOW = "a new UUID4", "the time"

# Every field in its order, with the default where it has one.
CONTRACT = {
    Message: {"role": MISSING, "content": MISSING, "id": NEW, "timestamp": NOW, "images": ()},
    Response: {
        "content": MISSING,
        "model_id": MISSING,
        "id": NEW,
        "timestamp": NOW,
        "metadata": {},
    },
    Session: {"messages": [], "id": NEW, "created_at": NOW},
    ToolResult: {
        "tool_name": MISSING,
        "output": MISSING,
        "status": MISSING,
        "id": NEW,
        "timestamp": NOW,
        "metadata": {},
    },
    SkillMetadata: {"name": MISSING, "description": MISSING, "hints": MISSING, "path": MISSING},
    RoutingTarget: {
        "name": MISSING,
        "target_type": MISSING,
        "description": MISSING,
        "hints": MISSING,
    },
    RoutingDecision: {
        "target": MISSING,
        "target_type": MISSING,
        "confidence": MISSING,
        "args": MISSING,
        "reasoning": MISSING,
        "id": NEW,
        "timestamp": NOW,
    },
    ExecutionArtifact: {
        "artifact_version": MISSING,
        "execution_id": MISSING,
        "timestamp": MISSING,
        "input": MISSING,
        "output": MISSING,
        "continuation": MISSING,
        "provenance": None,
    },
    ExecutionArtifactInput: {
        "prompt": MISSING,
        "model_id": MISSING,
        "mode": "single_turn",
        "routing": None,
        "tools": None,
        "skills": None,
    },
    ExecutionArtifactOutput: {
        "id": MISSING,
        "content": MISSING,
        "model_id": MISSING,
        "timestamp": MISSING,
        "metadata": MISSING,
    },
    ExecutionArtifactContinuation: {"requested": False, "reason": None},
}
every_contract = pytest.mark.parametrize("kind", CONTRACT, ids=lambda kind: kind.__name__)


def made(kind: type):
    """Return an instance with text in every field that has no default."""
    return kind(*(name for name, default in CONTRACT[kind].items() if default is MISSING))


@pytest.mark.invariant
@every_contract
def test_the_fields_stand_in_their_order(kind):
    assert [field.name for field in fields(kind)] == list(CONTRACT[kind])


@every_contract
def test_a_field_has_the_default_of_the_contract(kind):
    before, first, after = time.time(), made(kind), time.time()
    second = made(kind)
    for name, default in CONTRACT[kind].items():
        value = getattr(first, name)
        if default is MISSING:
            assert value == name, "what is passed in place is stored as it is"
        elif default is NEW:
            read = uuid.UUID(value)
            assert (read.version, read.variant, str(read)) == (4, uuid.RFC_4122, value)
            assert value != getattr(second, name)
        elif default is NOW:
            assert before <= value <= after
        else:
            assert value == default and type(value) is type(default)
            shared = value is getattr(second, name)
            assert not (shared and isinstance(value, (dict, list))), "one default for all"


@every_contract
def test_a_field_without_a_default_is_required(kind):
    needed = [name for name, default in CONTRACT[kind].items() if default is MISSING]
    for count in range(len(needed)):
        with pytest.raises(TypeError):
            kind(*needed[:count])


@pytest.mark.invariant
@every_contract
def test_everything_but_the_messages_of_a_session_is_frozen(kind):
    instance = made(kind)
    for name in CONTRACT[kind]:
        if (kind, name) == (Session, "messages"):
            setattr(instance, name, "new")
            assert getattr(instance, name) == "new"
            continue
        before = getattr(instance, name)
        with pytest.raises(FrozenInstanceError, match=name):
            setattr(instance, name, "new")
        assert getattr(instance, name) is before


@pytest.mark.parametrize(
    "again",
    [copy.copy, copy.deepcopy, replace, lambda session: pickle.loads(pickle.dumps(session))],
)
def test_a_copy_of_a_session_has_its_identity(again):
    session = Session([Message("user", "hi")])
    assert again(session) == session


def test_every_public_name_is_a_contract_and_is_exported():
    classes = {kind.__name__ for kind in CONTRACT}
    assert set(types.__all__) == classes | {"ARTIFACT_VERSION"}
    assert types.__all__ == sorted(types.__all__)
    assert types.ARTIFACT_VERSION == "ore.exec.v1"


def test_the_contracts_load_nothing_that_opens_a_file_or_a_socket():
    script = "import sys; sys.path.insert(0, sys.argv[1]); import ore.types; print(*sys.modules)"
    root = str(Path(types.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-I", "-c", script, root],
        capture_output=True,
        text=True,
        check=True,
        env={},  # nobody measures this process, for that would load more
    )
    loaded = set(done.stdout.split())
    assert {"ore.types", "dataclasses"} <= loaded
    assert not loaded & {"ore.files", "ore.errors", "socket", "ollama", "yaml", "argparse"}


def test_an_artifact_as_json_shares_nothing_with_it():
    metadata = {"nested": {"list": [1, [2.5, None]]}, "odd": {1, 2}, "pair": ([3],)}
    made = ExecutionArtifact.from_response(Response("a", "m", metadata=metadata), "hi", "m")
    data = made.to_dict()
    assert data["output"]["metadata"] == metadata
    data["output"]["metadata"]["nested"]["list"][1].append("more")
    data["output"]["metadata"]["odd"].add(3)
    data["output"]["metadata"]["pair"][0].append(4)
    assert metadata == {"nested": {"list": [1, [2.5, None]]}, "odd": {1, 2}, "pair": ([3],)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "content, shown",
    [
        ("Paris.", "<Response of 'aya': 'Paris.'>"),
        ("one\ntwo", "<Response of 'aya': 'one\\ntwo'>"),
        ("x" * 10_000, f"<Response of 'aya': '{'x' * 60}…'>"),
        ("", "<Response of 'aya': ''>"),
    ],
)
def test_a_response_shows_itself_in_a_line_and_in_a_notebook_as_its_text(content, shown):
    response = Response(content, "aya")
    assert repr(response) == shown
    assert response._repr_markdown_() == content
