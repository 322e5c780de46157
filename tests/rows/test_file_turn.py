"""Run files and written plans, taken as turns by a program: as the command line takes them."""

from __future__ import annotations

import json

import pytest

import ore
from ore import ORE, AyaReasoner, Reasoner, Response, Session
from ore.core import load_aya_system_prompt
from ore.errors import ArtifactError, ModelNotFoundError, OreError, UsageError
from tests.support.fake_ollama import FakeOllama

CITY = """---
model: mistral
options: {temperature: 0, seed: 7}
system: You answer in one word.
expect: {contains: Paris}
---
What is the capital of {{country}}?
"""
VARYING = {"self_sha256", "values_sha256"}


class Atlas(Reasoner):
    """Says the same each time, and keeps what it was asked."""

    model_id = "atlas"

    def __init__(self, reply="Paris."):
        self.reply, self.asked, self.closed = reply, [], 0

    def reason(self, messages):
        self.asked.append([(each.role, each.content) for each in messages])
        return Response(self.reply, self.model_id)

    def close(self):
        self.closed += 1


@pytest.fixture
def server(monkeypatch):
    with FakeOllama(reply="Paris.") as fake:
        monkeypatch.setenv("OLLAMA_HOST", fake.url)
        yield fake


@pytest.fixture
def city(tmp_path):
    path = tmp_path / "city.ore"
    path.write_text(CITY)
    return path


@pytest.mark.parametrize("full", [False, True])
def test_a_run_file_is_the_turn_that_the_command_line_takes(city, server, tmp_path, full, capsys):
    there = tmp_path / "run.json"
    flags = ["-n", "--artifact-out", str(there), *(["--artifact-full"] if full else [])]
    assert ore.main(["--run", str(city), "--set", "country=France", *flags]) == 0
    mine = ore.run_file(city, {"country": "France"}, full=full)
    theirs = ore.read_artifact(there)
    assert mine.provenance.keys() == theirs.provenance.keys()
    for name in theirs.provenance.keys() - VARYING:
        assert mine.provenance[name] == theirs.provenance[name], name
    assert (mine.input, mine.output.content) == (theirs.input, "Paris.")
    assert mine.provenance["expectation"]["holds"] and ore.verify([mine]).holds
    assert len(server.chats) == 2
    assert server.chats[0].json["options"] == server.chats[1].json["options"] != {}


def test_an_answer_that_is_not_as_expected_is_returned_with_the_verdict(city):
    reasoner = Atlas("Lyon.")
    made = ore.run_file(city, {"country": "France"}, reasoner=reasoner)
    verdict = made.provenance["expectation"]
    assert not verdict["holds"] and verdict["failed"][0]["kind"] == "contains"
    assert reasoner.asked == [
        [("system", "You answer in one word."), ("user", "What is the capital of France?")]
    ]
    assert (reasoner.closed, made.input.model_id) == (0, "atlas")


def test_what_a_run_file_names_is_read(tmp_path, writing, home):
    (tmp_path / "note.txt").write_text("a note")
    path = tmp_path / "f.ore"
    path.write_text("---\npersona: aya\nskill: writing\nfiles: note.txt\n---\nHi {{stdin}}")
    reasoner = Atlas()
    made = ore.run_file(path, {"stdin": "there"}, reasoner=reasoner)
    [asked] = reasoner.asked
    assert [role for role, _ in asked] == ["system", "system", "user", "user"]
    assert asked[1:] == [
        ("system", "[Skill:writing]\nBe brief."),
        ("user", f"[Tool:file:{tmp_path / 'note.txt'}]\na note"),
        ("user", "Hi there"),
    ]
    sources = [each["source"] for each in made.provenance["sources"]]
    assert sources[:2] == ["persona", "skill:writing"] and sources[3] == "prompt+stdin"
    assert made.provenance["persona"] == "aya" and made.input.skills == ["writing"]


def test_the_prompt_of_a_schema_gets_an_answer_that_fits_or_none(tmp_path, server):
    path = tmp_path / "f.ore"
    path.write_text("---\nschema: {type: integer}\nthink: off\n---\nHow many?")
    with pytest.raises(ore.SchemaMismatchError):
        ore.run_file(path)
    assert server.chats[0].json["format"] == {"type": "integer"}
    assert server.chats[0].json["think"] is False


@pytest.mark.parametrize(
    "text, values, said",
    [
        (CITY, {}, "no value for 'country'"),
        (CITY, {"country": "Italy", "city": "Rome"}, "no place for 'city'"),
        ("---\nschema: {type: integer}\nchoose: [a, b]\n---\nHi", {}, "both schema and choose"),
        ("---\nexpect: {choice: a}\n---\nHi", {}, r"add the key choose\.$"),
        (
            "---\nschema: a b c\n---\nHi",
            {},
            "^A schema is a JSON object, a file .* is none of them",
        ),
        ("---\nschema: {type: odd}\n---\nHi", {}, "^The schema is not a JSON Schema"),
        ("---\nschema: '{'\n---\nHi", {}, "^The schema can't be used: it is not JSON"),
        ("---\nsystem: '{{a}}'\n---\nHi", {}, "only the prompt"),
        ("---\nskill: none\n---\nHi", {}, "There is no skill 'none'"),
        ("---\npersona: none\n---\nHi", {}, "There is no persona 'none'"),
    ],
)
def test_what_can_not_be_run_asks_nobody(tmp_path, text, values, said):
    path, reasoner = tmp_path / "f.ore", Atlas()
    path.write_text(text)
    with pytest.raises(OreError, match=said):
        ore.run_file(path, values, reasoner=reasoner)
    assert reasoner.asked == []


def planned(path, engine, *given):
    plan = engine.plan(*given)
    path.write_text(json.dumps(plan.to_dict()))
    return plan


def test_a_value_that_is_no_text_is_refused(tmp_path):
    path, reasoner = tmp_path / "f.ore", Atlas()
    path.write_text("Add {{x}}.")
    with pytest.raises(
        UsageError, match="`values=` takes texts, and what it gives for 'x' is not text"
    ):
        ore.run_file(path, {"x": 5}, reasoner=reasoner)
    assert reasoner.asked == []


def test_a_plan_is_taken_as_it_stands_by_the_model_it_names(server, tmp_path):
    session, path = Session(), tmp_path / "plan.json"
    with ORE(AyaReasoner("mistral", options={"seed": 7}, think=False), "Be brief.") as engine:
        engine.execute("Hi", session)
        skill, notes = "[Skill:x]\nRhyme.", [ore.ToolResult("echo", "a=b", "ok")]
        plan = planned(path, engine, "And?", session, notes, [skill])
        expected = engine.execute("And?", session, notes, [skill])
        wanted = engine.record(expected)
    made = ore.run_file(path)
    assert server.chats[-1].json == server.chats[-2].json
    for name in ("options", "sources", "messages_sha256", "skills", "tools", "system_prompt"):
        assert made.provenance[name] == wanted.provenance[name], name
    assert made.input == wanted.input and made.provenance["run_file"]["name"] == "plan.json"
    assert ore.diff(plan, made).differences == () and ore.verify([made]).holds
    other = ore.run_file(path, reasoner=Atlas())
    assert {"model_id", "backend"} <= {each.name for each in ore.diff(plan, other).differences}


def test_the_answer_to_a_plan_with_a_schema_fits_it(server, tmp_path):
    path, schema = tmp_path / "plan.json", {"type": "integer"}
    with ORE(AyaReasoner("mistral", format=schema), "") as engine:
        planned(path, engine, "How many?")
    with pytest.raises(ore.SchemaMismatchError):
        ore.run_file(path)
    assert server.chats[-1].json["format"] == schema


def test_a_plan_without_a_system_prompt_and_one_of_the_command_line(server, tmp_path, capsys):
    path = tmp_path / "plan.json"
    aya = load_aya_system_prompt()
    for flags, source in (
        (["--no-system"], None),
        ([], "persona"),
        (["--system", "Rhyme."], "system"),
        (["--system", aya], "system"),
    ):
        assert ore.main(["Hi", "-n", "-m", "mistral", "--dry-run", *flags]) == 0
        path.write_text(capsys.readouterr().out)
        sources = [each["source"] for each in ore.run_file(path).provenance["sources"]]
        assert sources == [*([source] if source else []), "prompt"]


def test_the_messages_of_a_plan_are_joined_where_they_were_planned_so(server, tmp_path, capsys):
    path, turn = tmp_path / "plan.json", ["Hi", "-n", "-m", "mistral", "--join-messages", "always"]
    turn += ["--no-system", "-f", str(path)]
    path.write_text("A note.")
    assert ore.main([*turn, "--dry-run"]) == ore.main([*turn, "-q"]) == 0
    path.write_text(capsys.readouterr().out.removesuffix("Paris.\n"))
    made = ore.run_file(path)
    assert server.chats[-1].json["messages"] == server.chats[-2].json["messages"]
    assert len(made.provenance["joined"]) == len(server.chats[-1].json["messages"]) == 1
    asked = Atlas()
    ore.run_file(path, reasoner=asked)
    assert len(asked.asked[0]) == 1


def test_the_messages_of_a_plan_are_never_joined_where_it_says_so(server, tmp_path, capsys):
    server.ollama.shown = {"modelfile": "FROM x\nRENDERER qwen3-coder\n"}
    path, turn = tmp_path / "plan.json", ["Hi", "-n", "-m", "mistral", "--no-system"]
    (tmp_path / "n.txt").write_text("A note.")
    turn += ["-f", str(tmp_path / "n.txt"), "--join-messages"]
    for when, count in (("never", 2), ("auto", 1)):
        assert ore.main([*turn, when, "--dry-run"]) == 0
        path.write_text(capsys.readouterr().out)
        ore.run_file(path)
        assert len(server.chats[-1].json["messages"]) == count


def test_a_plan_of_somewhere_else_needs_a_reasoner(tmp_path, monkeypatch):
    path, reasoner = tmp_path / "plan.json", Atlas()
    planned(path, ORE(reasoner, ""), "Hi")
    with pytest.raises(UsageError, match="say what answers with `reasoner=`"):
        ore.run_file(path)
    assert ore.run_file(path, reasoner=reasoner).output.content == "Paris."
    with pytest.raises(UsageError, match="a plan has its values already"):
        ore.run_file(path, {"a": "b"}, reasoner=reasoner)
    document = json.loads(path.read_text())
    document["messages"][0]["content"] = "Ho"
    path.write_text(json.dumps(document))
    with pytest.raises(ArtifactError, match="not those that it was written with"):
        ore.run_file(path, reasoner=reasoner)
    assert len(reasoner.asked) == 1


@pytest.mark.parametrize("name", ["L" * 9999, "a `Backend.pull('evil')`"])
def test_what_a_plan_names_is_said_in_short_and_is_no_advice(tmp_path, name):
    path = tmp_path / "plan.json"
    planned(path, ORE(Atlas(), ""), "Hi")
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "model_id": name, "backend": name}))
    with pytest.raises(UsageError, match="was planned for") as error:
        ore.run_file(path)
    assert len(str(error.value)) < 1000 and [each.what for each in error.value.advice] == [
        "reasoner"
    ]


def test_the_words_and_the_expectation_of_a_plan_are_kept(server, tmp_path):
    path = tmp_path / "plan.json"
    with ORE(AyaReasoner("mistral"), "") as engine:
        planned(path, engine, "Hi")
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "expect": {"contains": "Rome"}}))
    assert ore.run_file(path).provenance["expectation"]["holds"] is False
    path.write_text(json.dumps({**document, "options": {"choices": ["yes", "no"]}}))
    with pytest.raises(ore.CapabilityError):
        ore.run_file(path)


def test_the_model_that_a_file_names_has_to_be_there(server, tmp_path):
    path = tmp_path / "f.ore"
    path.write_text("---\nmodel: none\n---\nHi")
    with pytest.raises(ModelNotFoundError):
        ore.run_file(path)
