"""Artifacts of turns that a program took: as full as those of the command line, and checked alike."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math

import pytest

import ore
from ore import (
    ORE,
    AyaReasoner,
    ExecutionArtifact,
    Reasoner,
    Response,
    RoutingDecision,
    Session,
    ToolResult,
)
from ore.backends.schema import SchemaReasoner
from ore.backends.settings import Settings
from ore.core import load_aya_system_prompt
from ore.errors import ArtifactError, SchemaMismatchError, UsageError
from ore.glass.choosing import reasoner_of
from ore.skills import build_skill_registry, skill_text
from ore.types import ExecutionArtifactContinuation
from tests.support.fake_ollama import FakeOllama
from tests.support.runs import record

CHOOSE = ("--backend", "embedded", "--choose", "Paris,Rome", "-n")


class Echo(Reasoner):
    def reason(self, messages):
        return Response(messages[-1].content, "echo")


def test_a_program_s_artifact_says_what_the_command_line_s_says(tmp_path, monkeypatch, capsys):
    path = tmp_path / "run.json"
    with FakeOllama() as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        given = ["Hello", "-m", "llama3.2", "-o", "seed=7", "--artifact-out", str(path)]
        assert ore.main([*given, "-n"]) == 0
        with ORE(AyaReasoner("llama3.2", options={"seed": 7})) as engine:
            mine = engine.record(engine.execute("Hello"))
    theirs = ExecutionArtifact.from_dict(json.loads(path.read_text()))
    varying = {"self_sha256", "values_sha256"}
    for name in theirs.provenance.keys() - varying:
        assert mine.provenance[name] == theirs.provenance[name], name
    assert mine.provenance.keys() == theirs.provenance.keys()
    assert ore.verify([mine, path]).holds and ore.diff(mine, theirs).same


def test_the_images_of_a_turn_are_named_whoever_answered_it():
    engine = ORE(Echo(), "")
    cat, dog = (
        engine.record(engine.execute("Hi", images=[data]), full=True)
        for data in (b"\x89PNG", b"\x89PNG2")
    )
    assert cat.output.metadata["images"] == [hashlib.sha256(b"\x89PNG").hexdigest()]
    assert [each.name for each in ore.diff(cat, dog).differences] == ["images"]
    assert ore.verify([cat, dog]).holds
    with pytest.raises(ArtifactError, match="asked with images, which an artifact does not hold"):
        ore.replay(cat, Echo())


def test_each_message_of_a_turn_has_its_source():
    engine, session = ORE(Echo(), "Be kind."), Session()
    first = engine.execute("Hi", session)
    parent = engine.record(first)
    response = engine.execute(
        "And?",
        session,
        [ToolResult("echo", "x=1", "ok")],
        ["Be brief."],
        after=parent,
    )
    found = engine.record(response, full=True).provenance
    assert [each["source"] for each in found["sources"]] == [
        "system",
        "skill:1",
        "tool:echo",
        f"artifact:{parent.execution_id}",
        "session#1",
        "session#2",
        "prompt",
    ]
    assert [each["content"] for each in found["messages"]][-3:] == ["Hi", "Hi", "And?"]
    assert (found["backend"], found["model_digest"]) == ("python", None)


@pytest.mark.parametrize(
    "claim, kept", [("5" * 64, ["own"]), ("\ud800", []), ("x" * 20_000_000, [])]
)
def test_what_defines_a_tool_is_a_digest_or_is_not_recorded(claim, kept):
    engine = ORE(Echo())
    result = ToolResult("own", "x", "ok", metadata={"definition_sha256": claim})
    made = engine.record(engine.execute("Hi", tool_results=[result]))
    assert list(made.provenance.get("tool_definitions") or ()) == kept
    assert ore.verify([made]).holds


@pytest.mark.parametrize(
    "text, persona, source",
    [(None, None, "persona"), ("Be kind.", None, "system"), ("Be kind.", "kind", "persona")],
)
def test_a_persona_is_told_from_a_text(text, persona, source):
    engine = ORE(Echo(), text)
    found = engine.record(engine.execute("Hi"), persona=persona).provenance
    assert found["sources"][0]["source"] == source and found["persona"] == persona
    assert found["system_prompt"] == (text or load_aya_system_prompt())


def test_a_reasoner_around_another_is_recorded_as_the_inner_one():
    with FakeOllama(reply="[1]") as server:
        inner = AyaReasoner("llama3.2", server.url, format={"type": "array"})
        engine = ORE(SchemaReasoner(inner, {"type": "array"}), "")
        found = engine.record(engine.execute("Hi")).provenance
    assert (found["backend"], found["options"]) == ("ollama", {"format": {"type": "array"}})


@pytest.mark.embedded
@pytest.mark.slow
def test_a_choice_is_recorded_as_the_command_line_records_it(model_dir, tmp_path, capsys):
    path, settings = tmp_path / "run.json", Settings(choices=("Paris", "Rome"))
    assert ore.main(["Capital?", *CHOOSE, "--artifact-out", str(path)]) == 0
    with ORE(reasoner_of(ore.backend("embedded"), "smollm2:135m", settings)) as engine:
        mine = engine.record(engine.execute("Capital?")).provenance
    theirs = json.loads(path.read_text())["provenance"]
    assert mine["backend"] == "embedded" and mine["options"] == {"choices": ["Paris", "Rome"]}
    varying = {"self_sha256", "values_sha256"}
    for name in theirs.keys() - varying:
        assert mine[name] == theirs[name], name


def test_a_stream_s_response_is_recorded_and_a_copy_is_not():
    engine = ORE(Echo(), "")
    stream = engine.stream("Hi")
    assert list(stream) == ["Hi"]
    assert engine.record(stream.response).output.content == "Hi"
    with pytest.raises(UsageError, match="can't be recorded"):
        engine.record(dataclasses.replace(stream.response))


def test_a_response_that_a_reasoner_returns_in_several_turns_is_recorded_with_each_of_them():
    class Cached(Reasoner):
        """Returns one object for all, as a cache does."""

        answer = Response("Ask the office.", "faq")

        def reason(self, messages):
            return self.answer

    engine, session = ORE(Cached(), ""), Session()
    turns = [engine.execute(prompt, session) for prompt in ("Anna's question", "Ben's", "Cleo's")]
    found = [engine.record(each) for each in turns]
    assert [each.input.prompt for each in found] == ["Anna's question", "Ben's", "Cleo's"]
    assert len({each.execution_id for each in found}) == 3
    assert [each.id for each in session.messages[1::2]] == [each.id for each in turns]
    assert {each.content for each in turns} == {"Ask the office."}


@pytest.mark.parametrize("name", ["format", "think", "options", "expectation", "joined", "own"])
def test_metadata_of_any_kind_is_kept_or_can_t_be(name):
    class Odd(Reasoner):
        def reason(self, messages):
            return Response("Yes.", "odd", metadata={name: self.value})

    engine = ORE(Odd(), "")
    for engine.reasoner.value in ([1], [[99]], [["a"]]):
        assert ore.verify([engine.record(engine.execute("Why?"))]).holds
    for engine.reasoner.value in (object(), {"a": object()}, [object()], [[math.inf]]):
        with pytest.raises(ArtifactError, match="can't be kept as an artifact: .* not JSON"):
            engine.record(engine.execute("Why?"))


def test_a_response_of_a_class_of_a_program_s_own_is_recorded_and_judged(tmp_path):
    class Short(Response):
        def __init__(self, content):
            super().__init__(content, "short")

    class Brief(Reasoner):
        def reason(self, messages):
            return Short("Yes.")

    engine = ORE(Brief(), "")
    assert ore.verify([engine.record(engine.execute("Why?"))]).holds
    (tmp_path / "rows.csv").write_text("word,expected\nwater,Yes.\n")
    with (
        ore.open_table(str(tmp_path / "rows.csv")) as table,
        ore.open_table(str(tmp_path / "rows.csv")) as expected,
        ore.over_rows(engine, "Is {{word}} wet?", table, expected=expected) as rows,
    ):
        assert [each.metadata["expectation"]["holds"] for each in rows.outcomes()] == [True]
    (tmp_path / "run.ore").write_text("---\nexpect: {contains: 'Yes'}\n---\nWhy?")
    taken = ore.run_file(tmp_path / "run.ore", reasoner=Brief())
    assert taken.provenance["expectation"]["holds"]


def test_what_was_sent_is_no_part_of_a_response():
    engine = ORE(Echo(), "")
    response = engine.execute("Hi")
    copy = dataclasses.replace(response)
    assert response == copy and dataclasses.asdict(response) == dataclasses.asdict(copy)


def test_a_changed_artifact_does_not_hold_and_none_do_not_either(tmp_path):
    engine = ORE(Echo(), "")
    whole = engine.record(engine.execute("Hi"))
    changed = dataclasses.replace(whole, output=dataclasses.replace(whole.output, content="Ho"))
    verdict = ore.verify([whole, changed])
    assert not verdict and [each.state for each in verdict.checked] == ["holds", "broken"]
    assert not ore.verify([]) and not ore.verify([tmp_path / "none.json"])
    assert ore.diff(whole, changed).differences[0].name == "answer"
    assert ore.diff(whole, changed).same is False


def test_a_text_is_judged_by_a_schema():
    assert ore.validate({"type": "integer"}, " 3 ") == 3
    for text in ("three", "3.5", "3 4"):
        with pytest.raises(SchemaMismatchError):
            ore.validate({"type": "integer"}, text)


def test_a_turn_that_goes_on_from_a_run_names_it_as_its_parent(tmp_path):
    engine = ORE(Echo(), "")
    ore.write_artifact(engine.record(engine.execute("Hi")), tmp_path / "first.json")
    first = ore.read_artifact(tmp_path / "first.json")
    second = engine.record(engine.execute("And?", after=first))
    parent = second.provenance["parent"]
    assert parent["execution_id"] == first.execution_id and parent["relation"] == "answer"
    assert parent["sha256"] == hashlib.sha256((tmp_path / "first.json").read_bytes()).hexdigest()
    ore.write_artifact(second, tmp_path / "second.json")
    found = ore.verify([tmp_path / "first.json", tmp_path / "second.json"]).checked
    assert found[1].notes == [f"child of {tmp_path / 'first.json'}"]


def test_a_program_names_the_parent_that_only_it_knows(tmp_path):
    engine, session, path = ORE(Echo(), ""), Session(), tmp_path / "first.json"
    ore.write_artifact(engine.record(engine.execute("Hi", session)), path)
    laid_out = json.dumps(json.loads(path.read_text()))
    path.write_text(laid_out)
    in_session = engine.record(engine.execute("And?", session), parent=path)
    again = engine.record(engine.execute("Hi"), parent=str(path))
    for made, relation in ((in_session, "session"), (again, "prompt")):
        parent = made.provenance["parent"]
        assert parent["relation"] == relation
        assert parent["sha256"] == hashlib.sha256(laid_out.encode()).hexdigest()
    assert ore.verify([path, in_session, again]).holds
    assert [each.notes for each in ore.verify([path, in_session]).checked][1] == [
        f"child of {path}"
    ]
    with pytest.raises(UsageError, match="was not made from the run"):
        engine.record(engine.execute("Ho"), parent=path)
    with pytest.raises(ArtifactError):
        engine.record(engine.execute("Ho"), parent=tmp_path / "none.json")


def test_a_turn_of_a_session_is_not_made_from_a_run_of_another_one():
    engine, session = ORE(Echo(), ""), Session()
    other = engine.record(engine.execute("Ho"))
    engine.execute("Hi", session)
    with pytest.raises(UsageError):
        engine.record(engine.execute("And?", session), parent=other)


def test_what_only_the_program_knows_is_in_the_artifact():
    engine, session = ORE(Echo(), ""), Session()
    engine.execute("Hi", session)
    decision = RoutingDecision("echo", "tool", 0.64, {}, "a hint")
    made = engine.record(
        engine.execute("And?", session),
        session="talk",
        routing=decision,
        grants=["shell", "network"],
        continuation="more to come",
    )
    known = made.provenance
    assert [each["source"] for each in known["sources"]] == [
        "session:talk#1",
        "session:talk#2",
        "prompt",
    ]
    assert made.input.routing == dataclasses.asdict(decision)
    assert known["grants"] == ["network", "shell"]
    assert made.continuation == ExecutionArtifactContinuation(True, "more to come")


def test_skills_and_files_are_named_as_the_command_line_names_them(home, writing, tmp_path):
    (home / "note.txt").write_text("a note")
    path = tmp_path / "run.json"
    theirs = record(path, "Hi", "-f", str(home / "note.txt"), "--skill", "writing", "--no-system")
    skill = skill_text(build_skill_registry()["writing"])
    engine = ORE(Echo(), "")
    response = engine.execute("Hi", None, ore.read_files([home / "note.txt"]), [skill])
    mine = engine.record(response).to_dict()
    for name in ("sources", "skills", "tools", "messages_sha256"):
        assert mine["provenance"][name] == theirs["provenance"][name], name
    assert mine["input"]["skills"] == theirs["input"]["skills"] == ["writing"]
    assert {"file:~/note.txt", "skill:writing"} <= {
        each["source"] for each in mine["provenance"]["sources"]
    }


@pytest.mark.parametrize(
    "text, wish, is_kept",
    [
        ("Be kind.", None, True),
        ("Be kind.", False, False),
        ("x" * 70_000, None, False),
        ("x" * 70_000, True, True),
        ("", True, False),
    ],
)
def test_the_text_of_a_system_prompt_is_kept_as_the_program_wishes(text, wish, is_kept):
    engine = ORE(Echo(), text)
    made = engine.record(engine.execute("Hi"), system_text=wish)
    assert made.provenance["system_prompt"] == (text if is_kept else None)
    assert ore.verify([made]).holds
