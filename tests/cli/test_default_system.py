"""``ORE_SYSTEM``: which system prompt is sent where no flag says it, and what goes before it."""

from __future__ import annotations

import json

import pytest

from ore.core import load_aya_system_prompt


@pytest.fixture
def files(home, tmp_path):
    folder = home / ".ore/personas"
    folder.mkdir(parents=True)
    (folder / "critic.md").write_text("Find the flaw.")
    (folder / "blank.md").write_text("")
    (home / "mine.txt").write_text("Mine.\n")
    (tmp_path / "near.txt").write_text("Whose?")
    return home


def sent(result) -> list[str]:
    return [message.content for message in result.calls[0] if message.role == "system"]


@pytest.mark.parametrize(
    "value, text, label, said",
    [
        ("none", None, "[ANSWER]: ", "System prompt: none (ORE_SYSTEM)."),
        (" none\n", None, "[ANSWER]: ", "System prompt: none (ORE_SYSTEM)."),
        ("persona:critic", "Find the flaw.", "[CRITIC]: ", "persona 'critic' (ORE_SYSTEM)."),
        ("@~/mine.txt", "Mine.", "[ANSWER]: ", "System prompt: your own (ORE_SYSTEM)."),
        ("@{home}/mine.txt", "Mine.", "[ANSWER]: ", "System prompt: your own (ORE_SYSTEM)."),
        ("persona:aya", "aya", "[AYA]: ", "the persona 'aya' (ORE_SYSTEM)."),
        ("", "aya", "[AYA]: ", "Aya, ORE's own persona;"),
    ],
)
def test_the_variable_sets_the_default_and_the_dry_run_says_so(
    ore, files, monkeypatch, value, text, label, said
):
    monkeypatch.setenv("ORE_SYSTEM", value.format(home=files))
    expected = [] if text is None else [load_aya_system_prompt() if text == "aya" else text]
    result = ore("hi", "-v", terminal="out err")
    assert sent(result) == expected and result.out.startswith(label) and said in result.err
    plan = ore("hi", "--dry-run").json
    assert plan["system_from"] == ("ORE_SYSTEM" if value else "default")
    assert [each["content"] for each in plan["messages"][:-1]] == expected


@pytest.mark.parametrize(
    "flags, text",
    [
        (["--system", "Flag."], "Flag."),
        (["--persona", "aya"], "aya"),
        (["--no-system"], None),
    ],
)
@pytest.mark.parametrize("value", ["none", "persona:critic", "persona:gone", "nonsense"])
def test_a_flag_goes_before_it(ore, files, monkeypatch, flags, text, value):
    monkeypatch.setenv("ORE_SYSTEM", value)
    expected = [] if text is None else [load_aya_system_prompt() if text == "aya" else text]
    assert sent(ore("hi", *flags)) == expected
    assert ore("hi", "--dry-run", *flags).json["system_from"] == flags[0]


@pytest.mark.parametrize(
    "value, words",
    [
        ("critic", "ORE_SYSTEM is 'critic': set it to none, persona:NAME, or @FILE"),
        ("NONE", "set it to none"),
        ("persona:", "set it to none"),
        ("persona:gone", "ORE_SYSTEM can't be used: There is no persona 'gone'"),
        ("persona:../x", "ORE_SYSTEM can't be used: '../x' can't be a persona's name"),
        ("persona:blank", "ORE_SYSTEM can't be used: The persona in "),
        ("@", "set it to none"),
        ("@near.txt", "@FILE with the full path"),
        ("@./near.txt", "@FILE with the full path"),
        ("@/nowhere/x", "ORE_SYSTEM can't be used: /nowhere/x can't be read"),
        ("@~", "not a regular file"),
        ("You are brief.", "set it to none"),
    ],
)
def test_a_bad_value_is_asked_wrongly_before_anything_is_sent(
    ore, files, tmp_path, monkeypatch, value, words
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ORE_SYSTEM", value)
    for flags in ((), ("--dry-run",)):
        result = ore("hi", *flags)
        assert (result.code, result.out, result.calls) == (2, "", []) and words in result.err


@pytest.mark.parametrize(
    "flags, value, text",
    [
        (["--persona", "critic"], "none", "Find the flaw."),
        (["--no-system"], "persona:critic", None),
        (["--system", "Flag."], "none", "Flag."),
        ([], "none", "aya"),
    ],
)
def test_a_session_goes_on_as_it_was_begun_whatever_the_default_is_by_now(
    ore, files, monkeypatch, flags, value, text
):
    ore("one", "-S", "trip", *flags)
    monkeypatch.setenv("ORE_SYSTEM", value)
    expected = [] if text is None else [load_aya_system_prompt() if text == "aya" else text]
    result = ore("two", "-S", "trip")
    assert sent(result) == expected and "goes on as it was begun: " in result.err
    plan = ore("three", "-S", "trip", "--dry-run").json
    assert plan["system_from"] == "session:trip"


def test_a_session_that_was_begun_with_the_default_keeps_that(ore, files, monkeypatch):
    monkeypatch.setenv("ORE_SYSTEM", "persona:critic")
    ore("one", "-S", "trip")
    monkeypatch.setenv("ORE_SYSTEM", "none")
    assert sent(ore("two", "-S", "trip")) == ["Find the flaw."]


def test_one_of_which_nobody_knows_how_it_was_begun_has_the_default(ore, files, monkeypatch):
    ore("one", "-S", "trip")
    (files / ".ore/sessions/trip.meta.json").unlink()
    monkeypatch.setenv("ORE_SYSTEM", "persona:critic")
    assert sent(ore("two", "-S", "trip")) == ["Find the flaw."]


def test_an_artifact_names_the_persona_and_another_one_is_not_said_to_be_repeated(
    ore, files, monkeypatch, tmp_path
):
    run = tmp_path / "run.json"
    monkeypatch.setenv("ORE_SYSTEM", "persona:critic")
    ore("hi", "--artifact-out", str(run))
    assert json.loads(run.read_text())["provenance"]["persona"] == "critic"
    monkeypatch.setenv("ORE_SYSTEM", "none")
    again = ore("--artifact-in", str(run))
    assert "Not repeated from that run: persona critic." in again.err and sent(again) == []


@pytest.mark.parametrize(
    "value, default", [("", "aya"), ("persona:critic", "critic"), ("none", None)]
)
def test_the_list_of_personas_marks_the_default(ore, files, monkeypatch, value, default):
    monkeypatch.setenv("ORE_SYSTEM", value)
    rows = ore("--list-personas", "--json").json
    assert [row["name"] for row in rows if row["default"]] == ([default] if default else [])


@pytest.mark.parametrize("value, home", [("@~nobody.txt", "/"), ("@~/p", "rel")])
def test_a_path_that_is_relative_after_all_is_refused(ore, tmp_path, monkeypatch, value, home):
    for near in (tmp_path / "~nobody.txt", tmp_path / "rel/p"):
        near.parent.mkdir(exist_ok=True)
        near.write_text("Whose?")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ORE_SYSTEM", value)
    monkeypatch.setenv("HOME", home)
    monkeypatch.setenv("ORE_HOME", str(tmp_path / "home"))
    result = ore("hi")
    assert result.code == 2 and "full path" in result.err and not result.calls
