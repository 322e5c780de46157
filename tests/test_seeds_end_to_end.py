"""What the seeds ask for beyond a plain turn, against a server on a socket."""

from __future__ import annotations

import pytest

from ore.backends.choice import open_backend
from tests.support.fake_ollama import FakeOllama
from tests.support.process import run

SKILL = "---\nname: rhyme\ndescription: Rhymes.\n---\nWrite in rhyme.\n"


@pytest.fixture
def server(monkeypatch, home):
    (home / ".ore/skills/rhyme").mkdir(parents=True)
    (home / ".ore/skills/rhyme/SKILL.md").write_text(SKILL)
    with FakeOllama() as fake:
        monkeypatch.setenv("OLLAMA_HOST", fake.url)
        yield fake


@pytest.mark.parametrize(
    "flags, role, content",
    [
        (["--tool", "echo", "--tool-arg", "a=1"], "user", "[Tool:echo]\na=1"),
        (["--skill", "rhyme"], "system", "[Skill:rhyme]\nWrite in rhyme."),
        (["--route", "--route-threshold", "0"], "user", "[Tool:echo]\nmsg=please echo"),
    ],
)
def test_what_a_turn_is_given_is_sent_before_the_prompt(ore, server, flags, role, content):
    result = ore("please echo", *flags, open_backend=open_backend)
    assert (result.code, result.out) == (0, "Paris.\n")
    assert server.chats[0].json["messages"][1] == {"role": role, "content": content}
    assert ("[Route]: echo" in result.err) == ("--route" in flags)


def test_a_denied_tool_sends_nothing(server):
    result = run("hi", "--tool", "read-file", "--tool-arg", "path=x")
    assert (result.code, result.out, server.chats) == (1, "", [])


def test_an_artifact_of_one_process_is_the_prompt_of_the_next(server):
    first = run("hi", "--artifact-out")
    second = run("--artifact-in", "-", stdin=first.out.encode())
    assert (second.code, second.out) == (0, "Paris.\n")
    assert server.chats[1].json["messages"][-1]["content"] == "hi"


def test_tools_and_skills_are_listed(server):
    assert run("--list-tools").out.startswith("echo\t-")
    assert run("--list-skills").out == "rhyme\tRhymes.\n"
