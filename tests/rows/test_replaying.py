"""Recorded runs asked again by a program: the states of ``--replay``, by one call."""

from __future__ import annotations

import dataclasses
import json

import pytest

import ore
from ore import ORE, AyaReasoner, Message, Reasoner, Response, Session
from ore.artifact.compare import differences
from ore.backends.joining import JoiningReasoner
from ore.backends.ollama import OllamaBackend
from ore.backends.settings import Settings
from ore.backends.unloading import keep_another
from ore.errors import ArtifactError, ServerUnreachableError
from ore.rows.expectations import parse_expectation
from ore.rows.judge import JudgingReasoner
from tests.support.fake_ollama import FakeOllama


class Scripted(Reasoner):
    """Gives its replies in turn."""

    def __init__(self, *replies, model_id="scripted", metadata=None):
        self.replies, self.asked, self.named = list(replies), [], model_id
        self.metadata = metadata or {}

    def reason(self, messages):
        self.asked.append([(each.role, each.content) for each in messages])
        return Response(self.replies.pop(0), self.named, metadata=dict(self.metadata))


def recorded(reply="Paris.", full=True, **more):
    engine = ORE(Scripted(reply), "Be kind.")
    return engine.record(engine.execute("Why?", **more), full=full)


@pytest.mark.parametrize(
    "replies, twice, state, calls",
    [
        (["Paris."], False, "same", 1),
        (["Rome."], False, "different", 1),
        (["Paris."], True, "same", 1),
        (["Rome.", "Rome."], True, "different", 2),
        (["Rome.", "Bonn."], True, "not repeatable", 2),
    ],
)
def test_a_run_is_asked_again_by_one_call_with_its_own_messages(replies, twice, state, calls):
    old, reasoner = recorded(), Scripted(*replies)
    found = ore.replay(old, reasoner, twice=twice)
    assert (found.state, found.messages, len(reasoner.asked)) == (state, "embedded", calls)
    assert reasoner.asked[0] == [("system", "Be kind."), ("user", "Why?")]
    assert bool(found) is found.holds is (state == "same")
    assert [each.name for each in found.differences] == ([] if state == "same" else ["answer"])
    assert found.artifact.output.content == replies[0] and found.notes == ()
    assert list(found.differences) == differences(old, found.artifact)


def test_what_is_asked_to_fill_a_cache_is_no_turn_of_the_program():
    """Its thoughts are not the program's to hear, it may be cut, and the model stays for the next."""
    heard, able = [], ("completion", "thinking")
    settings = Settings(strict_context=True, think=True, on_thinking=heard.append, keep_alive=0)
    with FakeOllama(thinking="Well", chunks=[""], capabilities=able, version="0.29.9") as server:
        server.ollama.shown = {
            "template": "{{ .Prompt }}"
        }  # which has no place for the system prompt
        messages = [Message("system", "Rhyme."), Message("user", "Why?")]
        assert keep_another(OllamaBackend(server.url), "llama3.2", settings, messages)
        assert [each.json["messages"][-1]["content"] for each in server.chats] == ["Why?"]
        assert server.chats[0].json["keep_alive"] > 0
    assert heard == []


@pytest.mark.parametrize("cold, state", [("Paris.", "not repeatable"), ("Rome.", "different")])
def test_a_server_whose_cache_makes_another_answer_is_not_repeatable_by_one_call(
    cold, state, monkeypatch
):
    with FakeOllama(reply=lambda _: "Rome." if server.ollama.loaded else cold) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        with AyaReasoner("llama3.2") as reasoner:
            reasoner.reason([Message("user", "Hello")])
            assert (
                ore.replay(recorded(), reasoner, twice=True).state == "different"
            )  # its model too
            engine = ORE(reasoner, "Be kind.")
            run = engine.record(engine.execute("Why?"), full=True)
            output = dataclasses.replace(run.output, content="Paris.")
            old = dataclasses.replace(run, output=output)
            assert ore.replay(old, reasoner, twice=True).state == state
            after = [0, 1, 1] * 2 if cold == "Rome." else []
            assert [bool(chat.json["messages"]) for chat in server.chats[3:]] == [
                1,
                1,
                0,
                1,
                *after,
            ]


def test_the_command_line_says_the_same(tmp_path, monkeypatch, capsys):
    path = tmp_path / "run.json"
    said = ["Paris."]
    with FakeOllama(reply=lambda request: said[-1]) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        given = ["Why?", "-m", "llama3.2", "-o", "seed=7", "--artifact-full", "-n"]
        assert ore.main([*given, "--artifact-out", str(path)]) == 0
        old = ore.ExecutionArtifact.from_dict(json.loads(path.read_text()))
        for reply, option in (("Paris.", 7), ("Rome.", 7), ("Rome.", 8)):
            said.append(reply)
            capsys.readouterr()
            flags = [] if option == 7 else ["-o", f"seed={option}"]
            ore.main(["--replay", str(path), "--json", *flags])
            theirs = json.loads(capsys.readouterr().out)[0]
            with AyaReasoner("llama3.2", options={"seed": option}) as reasoner:
                mine = ore.replay(old, reasoner)
            names = [each.name for each in mine.differences]
            if option == 7:
                assert (mine.state, mine.messages) == (theirs["state"], theirs["messages"])
                assert names == [each["name"] for each in theirs["differences"]]
                assert list(mine.unknown) == theirs["unknown"]
            else:  # the flag says that it is on purpose; a reasoner says nothing
                assert names == ["options", "answer"]
                assert [each["name"] for each in theirs["differences"]] == ["answer"]


def test_messages_are_rebuilt_or_given_and_else_nothing_is_asked():
    reasoner = Scripted("Paris.", "Paris.")
    assert ore.replay(recorded(full=False), reasoner).messages == "rebuilt"
    given = [Message("user", "How?", images=(b"\x89PNG",))]
    found = ore.replay(recorded(), reasoner, (each for each in given))
    assert (found.messages, found.state) == ("given", "different")
    assert [each.name for each in found.differences] == ["messages"]
    assert reasoner.asked == [[("system", "Be kind."), ("user", "Why?")], [("user", "How?")]]
    reasoner = Scripted("Paris.")
    reasoner.model_id = "scripted"
    assert ore.replay(recorded(), reasoner, []).state == "different"
    session = Session([Message("user", "Hi"), Message("assistant", "Ho")])
    with pytest.raises(ArtifactError, match="conversation was not saved"):
        ore.replay(recorded(full=False, session=session), Scripted())


def test_what_it_went_on_from_is_looked_for_among_others():
    parent = recorded("First.")
    old = recorded(full=False, after=parent)
    with pytest.raises(ArtifactError):
        ore.replay(old, Scripted())
    assert ore.replay(old, Scripted("Paris."), others=[parent]).state == "same"


def test_an_expectation_decides_on_another_answer():
    wanted = parse_expectation({"contains": "Par"}, "capital.ore")
    with JudgingReasoner(Scripted("Paris."), wanted) as judging:
        engine = ORE(judging, "")
        old = engine.record(engine.execute("Why?"), full=True)
    for reply, state in (
        ("Paris.", "same"),
        ("Paris!", "as expected"),
        ("Rome.", "not as expected"),
    ):
        found = ore.replay(old, Scripted(reply, model_id=old.input.model_id))
        assert (found.state, found.holds) == (state, state != "not as expected")
        assert found.expectation["holds"] is found.holds


def test_another_model_is_a_difference():
    found = ore.replay(recorded(), Scripted("Paris.", model_id="other"))
    assert [each.name for each in found.differences] == ["model_id"]


def test_another_answer_of_another_release_or_device_says_so():
    run = recorded()
    about = run.provenance | {"server_version": "1.0", "backend": "old\n"}
    old = dataclasses.replace(run, provenance=about)
    found = ore.replay(old, Scripted("Rome."))
    said = "Then it was computed by old^J, and now by python: that may be why it differs."
    assert found.state == "different" and found.notes == (said,)
    assert ore.replay(old, Scripted("Paris.")).notes == ()
    for name in ("Rome.", "Paris."):
        nowhere = dataclasses.replace(run, provenance={"messages": about["messages"]})
        assert ore.replay(nowhere, Scripted(name)).notes == ()


@pytest.mark.parametrize(
    "window, is_said", [(4096, True), (256, False), (None, False), ("9", False)]
)
def test_another_answer_in_another_window_says_so(window, is_said):
    run = recorded()
    known = {"context": {"status": "truncated", "window": 256, "prompt_tokens": 9}}
    old = dataclasses.replace(run, output=dataclasses.replace(run.output, metadata=known))
    reasoner = Scripted("Rome.", metadata={"context": {"status": "complete", "window": window}})
    said = (
        "Then it was computed by python, in a window of 256 tokens, and now by python, in a window of "
        "4096 tokens: that may be why it differs."
    )
    assert ore.replay(old, reasoner).notes == ((said,) if is_said else ())


@pytest.mark.parametrize("threads, is_said", [(2, True), (1, False), (None, False), ("2", False)])
def test_another_answer_of_another_number_of_threads_says_so(threads, is_said):
    run = recorded()
    about = run.provenance | {"effective": {"threads": threads}}
    old, reasoner = dataclasses.replace(run, provenance=about), Scripted("Rome.")
    reasoner.metadata = {"threads": 1}
    said = (
        "Then it was computed by python, with 2 threads, and now by python, with 1 thread: that may "
        "be why it differs."
    )
    assert ore.replay(old, reasoner).notes == ((said,) if is_said else ())


def test_messages_that_were_joined_are_joined_again():
    engine = ORE(JoiningReasoner(Scripted("Paris.")), "Be kind.")
    old = engine.record(engine.execute("Why?", skill_context=["Be brief."]), full=True)
    reasoner = Scripted("Paris.")
    assert ore.replay(old, reasoner).state == "same"
    assert reasoner.asked == [[("system", "Be kind.\n\nBe brief."), ("user", "Why?")]]


def test_what_a_reasoner_raises_goes_through():
    with pytest.raises(ServerUnreachableError):
        ore.replay(recorded(), AyaReasoner("llama3.2", "http://127.0.0.1:9"))
