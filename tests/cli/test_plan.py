"""``--dry-run``: everything but the model call, and where each message came from."""

from __future__ import annotations

import json

import pytest

from ore.artifact.canonical import digest
from ore.core import load_aya_system_prompt
from tests.support.runs import record, sha256

KEYS = [
    *("plan_version", "backend", "model_id", "options", "system_from"),
    *("messages", "messages_sha256"),
]


def sources(result) -> list[str]:
    return [message["source"] for message in result.json["messages"]]


def test_the_plan_is_one_document_and_nothing_is_sent(ore):
    result = ore("Why?", "--dry-run", "-o", "seed=3", "--think", "low")
    assert (result.code, result.err, result.calls) == (0, "", [])
    plan = result.json
    assert list(plan) == KEYS
    assert plan["plan_version"] == "ore.plan.v1"
    assert (plan["backend"], plan["model_id"]) == ("scripted", "scripted")
    assert plan["options"] == {"seed": 3, "think": "low"}
    assert plan["messages"] == [
        {"role": "system", "content": load_aya_system_prompt(), "source": "persona"},
        {"role": "user", "content": "Why?", "source": "prompt"},
    ]
    assert result.out.isascii()


@pytest.mark.parametrize(
    "argv, stdin, expected",
    [
        (["hi"], None, ["persona", "prompt"]),
        (["hi"], "", ["persona", "prompt"]),
        ([], "hi", ["persona", "stdin"]),
        (["hi"], "more", ["persona", "prompt+stdin"]),
        (["hi", "--no-system"], None, ["prompt"]),
        (["hi", "--system", "Rhyme."], None, ["system", "prompt"]),
        (["hi", "--persona", "aya"], None, ["persona", "prompt"]),
        (["hi", "--tool", "echo"], None, ["persona", "tool:echo", "prompt"]),
        (["hi", "--skill", "writing"], None, ["persona", "skill:writing", "prompt"]),
        (["hi", "-s", "-v"], None, ["persona", "prompt"]),
        (
            ["echo it", "--route", "--route-threshold=0", "--skill", "writing"],
            None,
            ["persona", "skill:writing", "tool:echo", "prompt"],
        ),
    ],
)
def test_every_message_has_its_source(ore, writing, argv, stdin, expected):
    assert sources(ore(*argv, "--dry-run", stdin=stdin)) == expected


def test_the_source_of_a_file_is_its_path_with_the_home_shortened(ore, home, tmp_path, monkeypatch):
    for folder in (home, tmp_path):
        (folder / "a.txt").write_text("text")
    monkeypatch.chdir(tmp_path)
    result = ore("hi", "--dry-run", "-f", "a.txt", "-f", str(home / "a.txt"))
    assert sources(result) == ["persona", "file:a.txt", "file:~/a.txt", "prompt"]


def test_images_are_named_by_their_hash_beside_the_prompt(ore, tmp_path):
    (tmp_path / "cat.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    messages = ore("hi", "--dry-run", "--image", str(tmp_path / "cat.png")).json["messages"]
    assert messages[-1]["images"] == [sha256(b"\x89PNG\r\n\x1a\n")]
    assert "images" not in messages[0]


@pytest.mark.parametrize(
    "flags, name",
    [
        (["--session", "trip"], "trip"),
        (["--resume-session", "trip"], "trip"),
        (["--resume-session", "trip", "--save-session", "fork"], "trip"),
        (["--continue"], "trip"),
    ],
)
def test_earlier_messages_come_from_their_session_which_stays_as_it_is(ore, home, flags, name):
    ore("one", "--session", "trip")
    file = home / ".ore/sessions/trip.json"
    before = file.read_bytes()
    result = ore("two", *flags, "--dry-run")
    assert sources(result) == ["persona", f"session:{name}#1", f"session:{name}#2", "prompt"]
    assert [m["content"] for m in result.json["messages"]][1:] == ["one", "Paris.", "two"]
    assert file.read_bytes() == before and not (file.parent / "fork.json").exists()


def test_the_prompt_of_an_artifact_is_a_prompt(ore, tmp_path):
    record(tmp_path / "a.json", "hi")
    assert sources(ore("--artifact-in", str(tmp_path / "a.json"), "--dry-run"))[1:] == ["prompt"]


@pytest.mark.invariant
@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--no-system"],
        ["--tool", "echo", "--tool-arg", "a=1"],
        ["--skill", "writing"],
        ["--session", "trip"],
        ["--system", "Höre zu."],
    ],
    ids=" ".join,
)
def test_what_is_planned_is_what_the_turn_sends(ore, writing, flags):
    ore("earlier", "--session", "trip")
    plan = ore("naïve?", *flags, "--dry-run").json
    sent = ore("naïve?", *flags).calls[0]
    assert [(m["role"], m["content"]) for m in plan["messages"]] == [
        (message.role, message.content) for message in sent
    ]
    assert plan["messages_sha256"] == digest(
        [{"role": message.role, "content": message.content} for message in sent]
    )


@pytest.mark.parametrize(
    "argv, code",
    [
        (["hi", "--dry-run", "--artifact-out", "x.json"], 2),
        (["hi", "--dry-run", "--artifact-out=-"], 2),
        (["--dry-run", "-i"], 2),
        (["hi", "--dry-run", "-c"], 2),
        (["--dry-run", "--session", "s"], 2),
        (["--dry-run"], 2),
        (["hi", "--dry-run", "--model", "nope"], 1),
        (["hi", "--dry-run", "--tool", "read-file", "--tool-arg", "path=x"], 1),
        (["hi", "--dry-run", "--skill", "nope"], 1),
        (["hi", "--dry-run", "--resume-session", "nope"], 1),
    ],
    ids=str,
)
def test_what_a_turn_would_refuse_is_refused(ore, argv, code):
    result = ore(*argv)
    assert (result.code, result.out, result.calls) == (code, "", [])


def test_a_lone_surrogate_in_a_session_is_one_sentence(ore, home):
    ore("one", "--session", "trip")
    file = home / ".ore/sessions/trip.json"
    document = json.loads(file.read_text())
    document["messages"][1]["content"] = "\ud800"
    file.write_text(json.dumps(document))
    result = ore("two", "--session", "trip", "--dry-run")
    assert (result.code, result.out) == (2, "")
    assert "role 'assistant' holds half a character" in result.err.splitlines()[-1]


def test_the_plan_holds_the_decision_of_the_router(ore):
    plan = ore("echo this", "--route", "--route-threshold", "0.4", "--dry-run").json
    routing = plan["routing"]
    assert (routing["target"], routing["target_type"]) == ("echo", "tool")
    assert set(routing) == {
        *("target", "target_type", "confidence", "args", "reasoning", "id", "timestamp")
    }
    no_match = ore("Why is the sky blue?", "--route", "--dry-run").json["routing"]
    assert (no_match["target"], no_match["target_type"]) == (None, "fallback")
    assert "routing" not in ore("Why is the sky blue?", "--dry-run").json
