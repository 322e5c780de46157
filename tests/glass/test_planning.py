"""Plans of turns that a program would take: those of ``--dry-run``, and what the turn then sends."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import subprocess
import sys

import pytest

import ore
from ore import ORE, AyaReasoner, Reasoner, Response, Session, ToolResult
from ore.backends.joining import JoiningReasoner
from ore.errors import UsageError
from tests.support.engine import needs_engine
from tests.support.fake_ollama import FakeOllama
from tests.support.fake_openai import FakeOpenAI
from tests.support.gguf import write_model
from tests.support.process import ROOT


class Echo(Reasoner):
    def __init__(self):
        self.asked = []

    def reason(self, messages):
        self.asked.append(messages)
        return Response(messages[-1].content, "echo")


def test_a_program_s_plan_is_the_command_line_s(monkeypatch, capsys):
    with FakeOllama() as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        given = ["Why?", "-m", "llama3.2", "-o", "seed=7", "-o", "num_ctx=512", "--think", "low"]
        assert ore.main([*given, "--dry-run", "-n"]) == 0
        options = {"seed": 7, "num_ctx": 512}
        with ORE(AyaReasoner("llama3.2", options=options, think="low")) as engine:
            plan = engine.plan("Why?")
        assert all(request.path != "/api/chat" for request in server.requests)
    theirs = json.loads(capsys.readouterr().out)
    assert {**plan.to_dict(), "system_from": "default"} == theirs
    assert list(plan.to_dict()) == list(theirs)


@pytest.mark.invariant
def test_what_is_planned_is_what_the_turn_sends_and_nothing_is_kept():
    reasoner, session = Echo(), Session()
    engine = ORE(reasoner, "Be kind.")
    parent = engine.record(engine.execute("Hi", session))
    kept, reasoner.asked = list(session.messages), []
    given = ("And?", session, [ToolResult("echo", "x=1", "ok")], ["Be brief."])
    plan = engine.plan(*given, images=[b"\x89PNG"], after=parent)
    assert reasoner.asked == [] and session.messages == kept
    response = engine.execute(*given, images=[b"\x89PNG"], after=parent)
    assert [(each.role, each.content) for each in plan.messages] == [
        (each.role, each.content) for each in reasoner.asked[0]
    ]
    found = engine.record(response).provenance
    assert plan.messages_sha256 == found["messages_sha256"]
    sources = [each["source"] for each in found["sources"]]
    assert (
        [each.source for each in plan.messages] == [part.source for part in plan.parts] == sources
    )
    assert plan.messages[-1].images == (hashlib.sha256(b"\x89PNG").hexdigest(),)
    assert (plan.backend, plan.model_id, plan.fits) == ("python", "Echo", None)
    assert plan.not_rendered and plan.tokens_least < plan.tokens < plan.tokens_most
    json.dumps(plan.to_dict(), allow_nan=False)


def test_messages_that_are_joined_are_named_as_one_part():
    plan = ORE(JoiningReasoner(Echo()), "Be kind.").plan("Why?", skill_context=["Be brief."])
    assert [part.source for part in plan.parts] == ["system + skill:1", "prompt"]
    assert plan.joined == [["system", "skill:1"]] and len(plan.messages) == 3


def test_what_a_turn_would_refuse_is_refused():
    with pytest.raises(UsageError):
        ORE(Echo(), "").plan("\ud800")


def test_a_plan_of_an_openai_server_sends_its_key():
    with FakeOpenAI() as server:
        with ORE(ore.OpenAIReasoner("llama3.2", server.url, "secret")) as engine:
            assert engine.plan("Why?").backend == "openai"
        assert server.requests
        assert all(r.headers.get("authorization") == "Bearer secret" for r in server.requests)
        assert not any(request.path.endswith("/chat/completions") for request in server.requests)


SLOW_IMPORT = """
import sys, time
from importlib.abc import MetaPathFinder
class Slow(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "openai":
            time.sleep(1.2)
sys.meta_path.insert(0, Slow())
import ore
print(ore.ORE(ore.OpenAIReasoner("llama3.2", sys.argv[1], "secret")).plan("Why?").backend)
"""


@pytest.mark.slow
def test_a_package_that_takes_long_to_import_costs_the_server_no_time():
    with FakeOpenAI() as server:
        command = [sys.executable, "-c", SLOW_IMPORT, server.url]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert done.stdout == "openai\n", done.stderr
        assert [request.path for request in server.requests][:1] == ["/v1/models"]


@needs_engine
def test_the_embedded_engine_counts_with_the_model_that_the_turn_is_asked_of(home, tmp_path):
    path = write_model(tmp_path / "m.gguf")
    with ore.EmbeddedReasoner(str(path), ore.Settings(options={"num_predict": 2})) as reasoner:
        engine = ORE(reasoner, "")
        plan = engine.plan("Hi")
        loaded = reasoner._engine
        response = engine.execute("Hi")
        assert reasoner._engine is loaded is not None
    assert plan.exact and plan.tokens == response.metadata["prompt_eval_count"]
    assert plan.rendered_sha256 == response.metadata["rendered_sha256"] and plan.answer_limit == 2
    assert "".join(part.text for part in plan.parts) == plan.rendered


def test_a_plan_is_a_value():
    engine = ORE(Echo(), "")
    assert engine.plan("Why?") == engine.plan("Why?") != engine.plan("How?")
    with pytest.raises(dataclasses.FrozenInstanceError):
        engine.plan("Why?").tokens = 1


def test_a_program_s_plan_is_run_by_the_command_line(tmp_path, monkeypatch, capsys):
    path = tmp_path / "plan.json"
    with FakeOllama() as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        plan = ORE(AyaReasoner("llama3.2"), "Be kind.").plan("Why?", skill_context=["Be brief."])
        path.write_text(json.dumps(plan.to_dict()))
        assert ore.main(["--run", str(path)]) == 0
        sent = server.chats[-1].json["messages"]
    assert [each["content"] for each in sent] == [each.content for each in plan.messages]
