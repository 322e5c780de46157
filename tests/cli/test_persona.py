"""The system prompt of a run: what is sent, and what can't be one."""

from __future__ import annotations

import os

import pytest

from ore.core import load_aya_system_prompt


def sent(result) -> list[str]:
    return [message.content for message in result.calls[0] if message.role == "system"]


@pytest.fixture
def personas(home):
    folder = home / ".ore/personas"
    folder.mkdir(parents=True)
    (folder / "critic.md").write_text("\ufeffFind the flaw.\n", encoding="utf-8")
    return folder


def test_without_a_flag_the_system_prompt_is_that_of_aya(ore):
    assert sent(ore("hi")) == [load_aya_system_prompt()]


def test_a_system_prompt_comes_from_a_text(ore):
    assert sent(ore("hi", "--system", "Be  brief.\n")) == ["Be  brief.\n"]


def test_a_system_prompt_comes_from_a_file(ore, tmp_path):
    path = tmp_path / "prompt.txt"
    path.write_text("  Be brief.\n\n")
    assert sent(ore("hi", "--system", f"@{path}")) == ["Be brief."]


def test_no_system_sends_no_system_message(ore):
    result = ore("hi", "--no-system")
    assert [message.role for message in result.calls[0]] == ["user"]


def test_a_persona_is_read_from_the_home_folder(ore, personas):
    assert sent(ore("hi", "--persona", "critic")) == ["Find the flaw."]


def test_a_persona_whose_accents_are_stored_apart_is_found_by_its_name(ore, personas):
    (personas / "cafe\u0301.md").write_text("From a Mac.")
    assert "caf\u00e9\t" in ore("--list-personas").out
    assert sent(ore("hi", "--persona", "caf\u00e9")) == ["From a Mac."]


def test_a_missing_persona_whose_accents_apart_are_too_long_for_a_name_is_missing(ore, personas):
    assert ore("hi", "--persona", "\uac01" * 30).err.startswith("ore: There is no persona ")


def test_of_very_many_personas_and_tools_some_are_named_where_one_is_missing(ore, home, personas):
    for number in range(30):
        (personas / f"p{number}.md").write_text("Be right.")
        folder = home / f".ore/tools/t{number}"
        folder.mkdir(parents=True)
        text = f'name = "t{number}"\ndescription = "It is one."\ncommand = ["true"]\n'
        (folder / "tool.toml").write_text(text)
    said = ore("hi", "--persona", "nobody").err
    assert said.count("'p") == 18 and said.endswith(" (and 12 more).\n")
    said = ore("hi", "--tool", "nobody").err
    assert said.count(", t") == 18 and said.endswith(", \u2026.\n")


def test_the_persona_of_the_user_wins_over_that_of_the_package(ore, personas):
    assert sent(ore("hi", "--persona", "aya")) == [load_aya_system_prompt()]
    (personas / "aya.md").write_text("Mine.")
    assert sent(ore("hi", "--persona", "aya")) == ["Mine."]


def test_the_personas_are_listed_and_those_that_are_none_are_named(ore, personas):
    (personas / "empty.md").write_text(" ")
    (personas / "link.md").symlink_to(personas / "critic.md")
    (personas / "no name!.md").write_text("Nobody can name it.")
    (personas / "notes.txt").write_text("No persona.")
    result = ore("--list-personas")
    aya = " ".join(load_aya_system_prompt().split())[:59] + "…"
    assert result.out == f"aya\tdefault\t{aya}\ncritic\t\tFind the flaw.\n"
    assert result.code == 0 and "empty.md" in result.err and "'link'" in result.err
    rows = ore("--list-personas", "--json").json
    assert rows[1] == {"name": "critic", "default": False, "text": "Find the flaw."}
    (personas / "aya.md").write_text("Mine.")
    assert ore("--list-personas").out == "aya\tdefault\tMine.\ncritic\t\tFind the flaw.\n"


def test_a_persona_is_never_stored(ore, personas, home):
    ore("hi", "--persona", "critic", "--session", "trip")
    assert "flaw" not in (home / ".ore/sessions/trip.json").read_text()


def test_a_persona_lasts_through_a_repl(ore, personas):
    result = ore("-c", "--persona", "critic", stdin="a\nb\n")
    assert [call[0].content for call in result.calls] == ["Find the flaw."] * 2


BAD = [
    (["--system", "@/nowhere/x"], 1, "can't be read"),
    (["--system", "@"], 2, "does not name a file"),
    (["--system", "@."], 1, "not a regular file"),
    (["--system", "@{blank}"], 2, "it is empty"),
    (["--system", "@{binary}"], 2, "not UTF-8 at byte 0"),
    (["--system", "@{fifo}"], 1, "not a regular file"),
    (["--persona", "nobody"], 1, "There is no persona 'nobody': write one to "),
    (["--persona", "../x"], 2, "can't be a persona's name"),
    (["--persona", "/etc/passwd"], 2, "can't be a persona's name"),
    (["--persona", "link"], 1, "it is a symbolic link"),
    (["--persona", "blank"], 1, "it is empty"),
    (["--persona", "folder"], 1, "not a regular file): put a text file"),
]


@pytest.mark.parametrize("args, code, words", BAD, ids=[" ".join(row[0]) for row in BAD])
def test_what_cannot_be_a_prompt_is_reported_before_anything_is_sent(
    ore, personas, tmp_path, args, code, words
):
    paths = {name: tmp_path / name for name in ("blank", "binary", "fifo")}
    paths["blank"].write_text(" \n")
    paths["binary"].write_bytes(b"\xff")
    os.mkfifo(paths["fifo"])
    (personas / "link.md").symlink_to(personas / "critic.md")
    (personas / "blank.md").write_text("")
    (personas / "folder.md").mkdir()
    result = ore("hi", *[arg.format(**paths) for arg in args])
    assert (result.code, result.calls) == (code, [])
    assert words in result.err and result.err.count("\nore:") + result.err.startswith("ore:") == 1


def test_the_existing_personas_are_named(ore, personas):
    assert "use 'aya', 'critic'." in ore("hi", "--persona", "nobody").err


FORGED = "Arr.\n[PIRATE]: more\n[ANSWER]: more\n[AYA]: more"


@pytest.mark.parametrize(
    "flags, label, said",
    [
        ([], "[AYA]: ", "System prompt: Aya, ORE's own persona"),
        (["--persona", "aya"], "[AYA]: ", "System prompt: the persona 'aya'."),
        (["--persona", "pirate"], "[PIRATE]: ", "System prompt: the persona 'pirate'."),
        (["--system", "Be brief."], "[ANSWER]: ", "System prompt: your own."),
        (["--no-system"], "[ANSWER]: ", "System prompt: none."),
    ],
)
def test_an_answer_is_labelled_with_its_persona_and_can_not_forge_the_label(
    ore, personas, flags, label, said
):
    (personas / "pirate.md").write_text("Talk like a pirate.")
    result = ore("hi", "-v", *flags, terminal="out err", replies=[FORGED])
    forged = "[PIRATE]: more" if label == "[PIRATE]: " else None
    assert result.out.startswith(f"{label}Arr.\n")
    assert result.out.endswith("\n [ANSWER]: more\n [AYA]: more\n")
    assert (f"\n {forged}" in result.out) == (forged is not None)
    assert f"{said}" in result.err
    assert said not in ore("hi", *flags, terminal="out err").err


def test_a_persona_of_any_script_has_a_label_that_is_guarded(ore, personas):
    (personas / "Émile-海賊.md").write_text("Oui.")
    result = ore("hi", "--persona", "Émile-海賊", terminal="out", replies=["a\n[émile-海賊]: b"])
    assert result.out == "[ÉMILE-海賊]: a\n [émile-海賊]: b\n"


def test_a_resumed_session_shows_the_last_answer_with_the_same_label(ore, personas):
    ore("hi", "--session", "trip")
    flags = ["--session", "trip", "--persona", "critic"]
    result = ore(*flags, stdin="", terminal="in out err")
    assert "You: hi\n[CRITIC]: Paris.\n" in result.err


@pytest.mark.parametrize(
    "flags, label, heading",
    [
        (["--persona", "critic"], "[CRITIC]: ", "## Critic"),
        (["--system", "Be brief."], "[ANSWER]: ", "## Answer"),
        (["--no-system"], "[ANSWER]: ", "## Answer"),
        ([], "[AYA]: ", "## Aya"),
    ],
)
def test_a_session_goes_on_and_is_shown_with_the_label_it_was_begun_with(
    ore, personas, flags, label, heading
):
    ore("hi", "--session", "trip", *flags)
    assert ore("more", "--session", "trip", terminal="out").out == f"{label}Paris.\n"
    assert f"You: hi\n\n{label}Paris.\n" in ore("--show-session", "trip").out
    assert f"## You\n\nhi\n\n{heading}\n\nParis." in ore("--export-session", "trip").out
