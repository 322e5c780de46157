"""What is sent: every message in its place, verbatim, under the right persona."""

from __future__ import annotations

import copy
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ore.core
from ore.core import AYA_PROMPT_PATH, ORE, build_messages, load_aya_system_prompt
from ore.types import Message, Session, ToolResult
from tests.support.harness import ScriptedReasoner


def execute(engine: ORE, *args, **kwargs) -> None:
    engine.execute(*args, **kwargs)


def exhaust(engine: ORE, *args, **kwargs) -> None:
    list(engine.execute_stream(*args, **kwargs))


both_ways = pytest.mark.parametrize("take_turn", [execute, exhaust])


def talk(contents: list[str]) -> Session:
    """Return a session of these messages, the user's first."""
    roles = ["user", "assistant"] * len(contents)
    return Session([Message(role, content) for role, content in zip(roles, contents)])


def shown(messages: list[Message]) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in messages]


@both_ways
@pytest.mark.parametrize("prompt", ["", " \n", "  spaced\r\n", "[Tool:x]\n{}", "\x1b\U0001f30d"])
def test_a_prompt_is_sent_verbatim(take_turn, prompt):
    reasoner, session = ScriptedReasoner(["Paris."]), Session()
    take_turn(ORE(reasoner), prompt, session=session)
    assert reasoner.calls[0][-1].content == session.messages[0].content == prompt


@both_ways
def test_the_messages_stand_in_their_order(take_turn):
    reasoner = ScriptedReasoner(["Paris."])
    tools = [ToolResult("echo", "one\ntwo", "ok"), ToolResult("read-file", "", "ok")]
    skills = ["[Skill:a]\nBe brief.", "be exact"]
    take_turn(ORE(reasoner, "Be kind."), "Where?", talk(["a", "b"]), tools, skills)
    assert shown(reasoner.calls[0]) == [
        ("system", "Be kind."),
        ("system", "[Skill:a]\nBe brief."),
        ("system", "be exact"),
        ("user", "[Tool:echo]\none\ntwo"),
        ("user", "[Tool:read-file]\n"),
        ("user", "a"),
        ("assistant", "b"),
        ("user", "Where?"),
    ]


@both_ways
def test_images_go_with_the_prompt_and_with_no_other_message(take_turn):
    reasoner, session = ScriptedReasoner(["Paris.", "Rome."]), Session()
    engine = ORE(reasoner, "Be kind.")
    take_turn(engine, "Where?", session, images=[b"one", b"two"])
    take_turn(engine, "And?", session)
    assert [message.images for message in reasoner.calls[0]] == [(), (b"one", b"two")]
    assert [message.images for message in reasoner.calls[1]] == [(), (b"one", b"two"), (), ()]


texts = st.lists(st.text(), max_size=3)


@given(st.text(), st.text(), st.none() | texts, st.none() | texts, st.none() | texts)
def test_messages_are_built_from_what_is_given_and_change_nothing(
    prompt, system, history, outputs, skills
):
    session = None if history is None else talk(history)
    tools = None if outputs is None else [ToolResult("t", output, "ok") for output in outputs]
    given_before = copy.deepcopy((session, tools, skills))
    built = build_messages(
        prompt, system_prompt=system, session=session, tool_results=tools, skill_context=skills
    )
    assert (session, tools, skills) == given_before
    expected = [system] if system else []
    expected += skills or []
    expected += [f"[Tool:t]\n{output}" for output in outputs or []]
    expected += [*(history or []), prompt]
    assert [message.content for message in built] == expected
    kept = session.messages if session else []
    assert all(any(message is one for one in built) for message in kept)


# The persona


def test_without_a_system_prompt_aya_speaks():
    text = AYA_PROMPT_PATH.read_text(encoding="utf-8").strip()
    assert text and load_aya_system_prompt() == text
    assert ORE(ScriptedReasoner(["Paris."])).system_prompt == text


@both_ways
def test_an_empty_system_prompt_sends_no_system_message(take_turn):
    reasoner = ScriptedReasoner(["Paris."])
    take_turn(ORE(reasoner, system_prompt=""), "Where?")
    assert shown(reasoner.calls[0]) == [("user", "Where?")]


ASK = """
import sys; sys.path.insert(0, sys.argv[1])
from ore.core import ORE
from ore.errors import PersonaError
ORE(None, system_prompt=""), ORE(None, system_prompt="mine")
try:
    sys.stdout.write(ascii(ORE(None).system_prompt))
except PersonaError as exc:
    sys.stdout.write(str(exc))
"""


def asked_of(folder: Path, content: bytes | None) -> tuple[Path, str]:
    """Return where a copy of the package has its persona, and what it says with ``content`` there.

    The copy runs in a process whose locale knows no more than ASCII.
    """
    package = folder / "ore"
    shutil.copytree(Path(ore.core.__file__).parent, package)
    persona = package / "prompts" / "aya.txt"
    persona.unlink()
    if content is not None:
        persona.write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-I", "-X", "utf8=0", "-c", ASK, str(folder)],
        env={**os.environ, "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=True,
    )
    return persona, done.stdout


def test_the_persona_is_read_as_utf_8_whatever_the_locale(tmp_path):
    assert asked_of(tmp_path, " Naïve. 🌍\n".encode())[1] == r"'Na\xefve. \U0001f30d'"


@pytest.mark.parametrize("content, why", [(None, "No such file"), (b"\xff", "can't decode")])
def test_a_missing_or_broken_persona_is_an_error_that_names_its_path(tmp_path, content, why):
    persona, said = asked_of(tmp_path, content)
    assert said.startswith(f"Aya's prompt can't be read from {persona} (") and why in said
    assert said.endswith("): reinstall ORE, or give ORE(system_prompt=...) a text of your own.")
