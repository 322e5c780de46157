"""The verbs on saved sessions; none of them needs a model."""

from __future__ import annotations

import json
import os
import tracemalloc

import pytest

from tests.support.terminal import OnTerminal


@pytest.fixture
def sessions(ore, home):
    """Two sessions, ``old`` and ``new``, and what makes a result without a backend."""
    ore("--session", "old", "Where is Rome?", replies=["In Italy."])
    ore("--session", "new", stdin="Who?\nWhy\nnot?\n", replies=["I.", "So.", "Hm."])
    folder = home / ".ore/sessions"
    os.utime(folder / "old.json", (1_000_000_000, 1_000_000_000))
    return folder


def no_backend(*_):
    raise AssertionError("a verb on sessions asked for a backend")


@pytest.fixture
def verb(ore):
    return lambda *args, **more: ore(*args, open_backend=no_backend, **more)


def test_the_list_is_newest_first_with_the_name_first(verb, sessions):
    lines = [line.split("\t") for line in verb("--list-sessions").out.splitlines()]
    assert [line[0] for line in lines] == ["new", "old"]
    assert [line[1] for line in lines] == ["3 turns", "1 turn"]
    assert lines[1][2].startswith("2001-09-0") and lines[1][3] == "Where is Rome?"


def test_the_list_as_json(verb, sessions):
    rows = verb("--list-sessions", "--json").json
    assert [row["name"] for row in rows] == ["new", "old"]
    assert list(rows[0]) == ["name", "turns", "last_used", "first_prompt"]


def test_an_empty_list_says_so_on_stderr(verb):
    result = verb("--list-sessions")
    assert (result.code, result.out) == (0, "") and "--session NAME" in result.err


def test_a_bad_file_is_skipped_and_reported_in_one_line(verb, sessions):
    (sessions / "bad.json").write_text("{")
    result = verb("--list-sessions")
    assert [line.split("\t")[0] for line in result.out.splitlines()] == ["new", "old"]
    assert len(result.err.splitlines()) == 1 and "bad" in result.err


def test_where_a_session_can_t_be_read_it_is_not_said_that_there_are_none(verb, home):
    (home / ".ore/sessions").mkdir(parents=True, mode=0o700)
    (home / ".ore/sessions/bad.json").write_text("{")
    result = verb("--list-sessions")
    assert (result.code, result.out, result.err.count("\n")) == (0, "", 1)
    assert "bad" in result.err and "There are no sessions" not in result.err


def test_showing_is_readable_and_its_json_is_the_file(verb, sessions):
    shown = verb("--show-session", "old").out
    assert "You: Where is Rome?\n\n[AYA]: In Italy.\n" in shown
    assert verb("--show-session", "old", "--json").json == json.loads(
        (sessions / "old.json").read_text()
    )


def test_searching_finds_in_any_case(verb, sessions):
    assert verb("--search-sessions", "ROME").out == "old\t1\tuser\tWhere is Rome?\n"
    assert verb("--search-sessions", "italy", "--json").json[0]["number"] == 2
    assert len(verb("--search-sessions", "x" * 100_000).err) < 1_000


def test_what_was_found_is_shown_behind_letters_that_are_two_in_lower_case(verb, ore):
    ore("--session", "s", "Große Straße. " * 200 + "A needle.", replies=["Hm."])
    assert verb("--search-sessions", "NEEDLE").out.endswith("Große Straße. A needle.\n")


@pytest.mark.slow
def test_a_search_holds_one_session_at_a_time(verb, ore, home):
    ore("--session", "0", "x" * 1_000_000, replies=["Hm."])
    folder = home / ".ore/sessions"
    for number in range(1, 15):
        (folder / f"{number}.json").write_bytes((folder / "0.json").read_bytes())
    tracemalloc.start()
    try:
        assert verb("--search-sessions", "xxx").out.count("\n") == 15
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_what_a_search_leaves_out_is_told_below_its_list(sessions):
    (sessions / "bad.json").write_text("{")
    with OnTerminal("--search-sessions", "e", "--json") as terminal:
        code, shown = terminal.end()
    assert code == 0 and b"]\r\n" in shown.partition(b"can't be read")[0]


@pytest.mark.parametrize("flags, out", [([], ""), (["-q"], ""), (["--json"], "[]\n")])
def test_a_search_without_a_hit_fails_as_grep_does(verb, sessions, flags, out):
    result = verb("--search-sessions", "nothing like it", *flags)
    assert (result.code, result.out) == (1, out) and "No message" in result.err
    assert verb("--search-sessions", "rome").code == 0


def test_renaming_keeps_everything_but_the_name(verb, sessions):
    before = (sessions / "old.json").read_bytes()
    assert verb("--rename-session", "old", "rome").code == 0
    assert (sessions / "rome.json").read_bytes() == before
    assert not (sessions / "old.json").exists()


@pytest.mark.parametrize(
    "old, new, code", [("old", "new", 1), ("none", "x", 1), ("old", "../x", 2)]
)
def test_renaming_wrongly_changes_nothing(verb, sessions, old, new, code):
    before = {path: path.read_bytes() for path in sessions.glob("*.json")}
    assert verb("--rename-session", old, new).code == code
    assert {path: path.read_bytes() for path in sessions.glob("*.json")} == before


def test_deleting_needs_yes_where_nobody_can_be_asked(verb, sessions):
    result = verb("--delete-session", "old")
    assert result.code == 2 and "--yes" in result.err and (sessions / "old.json").exists()
    assert verb("--delete-session", "old", "--yes").code == 0
    assert not (sessions / "old.json").exists()


@pytest.mark.parametrize(
    "typed, is_there", [("y\n", False), ("YES\n", False), ("n\n", True), ("", True)]
)
def test_deleting_asks_on_a_terminal(verb, sessions, typed, is_there):
    result = verb("--delete-session", "old", stdin=typed, terminal="in out err")
    assert result.code == 0 and "[y/N]" in result.err
    assert (sessions / "old.json").exists() == is_there


@pytest.mark.parametrize(
    "flag", ["--show-session", "--delete-session", "--export-session", "--salvage-session"]
)
def test_a_missing_session_is_1_and_named(verb, flag):
    result = verb(flag, "nowhere")
    assert (result.code, result.out) == (1, "") and "nowhere" in result.err


def test_exporting_is_markdown(verb, sessions):
    text = verb("--export-session", "old").out
    assert text.startswith("# old\n\n1 turn, begun ")
    assert text.endswith("## You\n\nWhere is Rome?\n\n## Aya\n\nIn Italy.\n")


def test_salvaging_names_the_new_session_and_leaves_the_damaged_file(verb, ore, sessions):
    damaged = (sessions / "new.json").read_bytes()[:-40]
    (sessions / "new.json").write_bytes(damaged)
    result = verb("--salvage-session", "new")
    assert (result.code, result.out) == (0, "new.salvaged\n")
    assert (sessions / "new.json").read_bytes() == damaged
    assert verb("--salvage-session", "new").out == "new.salvaged-2\n"
    assert ore("--resume-session", "new.salvaged", "on", replies=["!"]).code == 0


def test_the_outcomes_are_one_json_document_too(verb, sessions):
    assert verb("--rename-session", "old", "rome", "--json").json == {"old": "old", "new": "rome"}
    assert verb("--delete-session", "rome", "--yes", "--json").json == {"deleted": "rome"}
    (sessions / "new.json").write_text((sessions / "new.json").read_text()[:-200])
    salvaged = verb("--salvage-session", "new", "--json").json
    assert salvaged["name"] != "new" and salvaged["turns"] == 2


def test_an_export_is_not_json_and_names_what_is(verb, sessions):
    result = verb("--export-session", "new", "--json")
    assert (result.code, result.out) == (2, "") and "--show-session" in result.err


def test_an_impossible_time_is_shown_as_unknown(verb, sessions):
    document = json.loads((sessions / "new.json").read_text())
    (sessions / "new.json").write_text(json.dumps({**document, "created_at": 1e300}))
    assert "begun at an unknown time" in verb("--show-session", "new").out
