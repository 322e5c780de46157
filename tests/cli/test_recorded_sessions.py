"""Turns of a conversation as artifacts: what they hold, their parents, and how they are repeated."""

from __future__ import annotations

import json
import time

import pytest

from ore.store import FileSessionStore
from tests.support.runs import record, rows, sha256


@pytest.fixture(autouse=True)
def place(folder):
    return folder


def turn(folder, number: int, *flags: str, name: str = "talk", **more):
    """Take a recorded turn in a session, ``N.json``: ``QN`` is answered with ``AN``."""
    more.setdefault("replies", [f"A{number}"])
    return record(folder / f"{number}.json", f"Q{number}", "--session", name, *flags, **more)


def parent_of(path) -> dict[str, str]:
    """What the artifact that follows the one at ``path`` says of it."""
    execution_id = json.loads(path.read_text())["execution_id"]
    return {
        "execution_id": execution_id,
        "sha256": sha256(path.read_bytes()),
        "relation": "session",
    }


@pytest.mark.invariant
def test_a_turn_of_a_session_is_an_artifact_with_the_hashes_of_its_messages(folder):
    turn(folder, 1)
    second = turn(folder, 2)
    assert second["input"] == {
        "prompt": "Q2",
        "model_id": "scripted",
        "mode": "conversational",
        "routing": None,
        "tools": None,
        "skills": None,
    }
    assert second["provenance"]["sources"][1:] == [
        {"source": "session:talk#1", "sha256": sha256("Q1")},
        {"source": "session:talk#2", "sha256": sha256("A1")},
        {"source": "prompt", "sha256": sha256("Q2")},
    ]
    assert [m.content for m in FileSessionStore().load("talk").messages] == ["Q1", "A1", "Q2", "A2"]


@pytest.mark.invariant
def test_a_turn_and_its_artifact_find_each_other(folder):
    found = [turn(folder, number) for number in (1, 2)]
    answers = FileSessionStore().load("talk").messages[1::2]
    assert [answer.id for answer in answers] == [each["execution_id"] for each in found]
    assert [each["output"]["id"] for each in found] == [each["execution_id"] for each in found]


def test_the_parent_is_the_last_turn_that_was_recorded(ore, folder):
    first = turn(folder, 1)
    assert first["provenance"]["parent"] is None
    assert turn(folder, 2)["provenance"]["parent"] == parent_of(folder / "1.json")
    ore("not recorded", "--session", "talk")
    assert turn(folder, 3)["provenance"]["parent"] == parent_of(folder / "2.json")
    result = ore("--verify", "3.json", "1.json", "2.json")
    assert result.code == 0
    assert rows(result.out)["3.json"] == ["holds", "child of 2.json"]
    assert rows(result.out)["2.json"] == ["holds", "child of 1.json"]


def test_an_artifact_on_stdout_is_a_parent_too(ore, folder):
    (folder / "1.json").write_text(ore("Q1", "--session", "talk", "--artifact-out").out)
    assert turn(folder, 2)["provenance"]["parent"] == parent_of(folder / "1.json")


def test_a_fork_follows_where_it_comes_from(ore, folder):
    turn(folder, 1)
    flags = ["--resume-session", "talk", "--save-session", "fork"]
    second = record(folder / "2.json", "Q2", *flags)
    assert second["provenance"]["parent"] == parent_of(folder / "1.json")
    assert turn(folder, 3, name="fork")["provenance"]["parent"] == parent_of(folder / "2.json")
    assert turn(folder, 4)["provenance"]["parent"] == parent_of(folder / "1.json")


def test_a_session_that_is_only_resumed_keeps_no_turn_and_notes_none(ore, folder):
    turn(folder, 1)
    for number in (2, 3):
        path = folder / f"{number}.json"
        found = record(path, "Q", "--resume-session", "talk")
        assert found["provenance"]["parent"] == parent_of(folder / "1.json")


def test_what_is_noted_goes_with_the_session(ore, folder, home):
    turn(folder, 1)
    ore("--rename-session", "talk", "other")
    assert turn(folder, 2, name="other")["provenance"]["parent"] == parent_of(folder / "1.json")
    ore("--delete-session", "other", "--yes")
    assert not list((home / ".ore/sessions").glob("*.runs"))
    assert turn(folder, 3, name="other")["provenance"]["parent"] is None


def test_notes_of_another_session_of_that_name_mean_nothing(ore, folder, home):
    turn(folder, 1)
    for ending in ("json", "meta.json"):
        (home / f".ore/sessions/talk.{ending}").unlink(missing_ok=True)
    assert turn(folder, 2)["provenance"]["parent"] is None


@pytest.mark.parametrize("notes", [b"", b"\xff\x00\n", b"a b c\n", b"x" * 1000, None])
def test_bad_notes_are_as_good_as_none(ore, folder, home, notes):
    turn(folder, 1)
    file = home / ".ore/sessions/talk.runs"
    file.unlink()
    file.mkdir() if notes is None else file.write_bytes(notes)
    result = ore("Q2", "--session", "talk", "--artifact-out", "2.json")
    assert result.out == "Paris.\n" and result.code == (1 if notes is None else 0)
    assert json.loads((folder / "2.json").read_text())["provenance"]["parent"] is None
    assert notes is not None or "not noted beside the session 'talk'" in result.err


def test_the_answer_of_another_run_is_the_parent_where_it_is_gone_on_from(ore, folder):
    turn(folder, 1)
    record(folder / "draft.json", "Draft", replies=["A title."])
    found = turn(folder, 2, "--after", "draft.json")
    assert found["provenance"]["parent"]["relation"] == "answer"
    assert rows(ore("--verify", "2.json", "draft.json").out)["2.json"][0] == "holds"


def test_a_child_without_its_parents_turn_is_broken(ore, folder):
    turn(folder, 1)
    turn(folder, 2, name="other")
    from tests.support.runs import rewrite

    parent = parent_of(folder / "1.json")
    rewrite(folder / "2.json", lambda found: found["provenance"].update(parent=parent))
    result = ore("--verify", "2.json", "1.json")
    assert result.code == 3
    assert "does not hold the turn of its parent 1.json" in rows(result.out)["2.json"][1]


def test_a_replay_sends_the_messages_of_the_session_as_they_were(ore, folder):
    turn(folder, 1)
    turn(folder, 2)
    turn(folder, 3)
    result = ore("--replay", "2.json", replies=["A2"])
    assert result.code == 0 and rows(result.out)["2.json"][:2] == ["same", "messages rebuilt"]
    assert [message.content for message in result.calls[0]][1:] == ["Q1", "A1", "Q2"]


@pytest.mark.parametrize("change", ["gone", "edited", "renamed"])
def test_a_replay_needs_the_session_or_the_messages(ore, folder, home, change):
    turn(folder, 1)
    turn(folder, 2)
    turn(folder, 3, "--artifact-full")
    file = home / ".ore/sessions/talk.json"
    if change == "gone":
        file.unlink()
    elif change == "edited":
        file.write_text(file.read_text().replace('"A1"', '"secret"'))
    else:
        ore("--rename-session", "talk", "other")
    result = ore("--replay", "2.json", "3.json", replies=["A3"])
    found = rows(result.out)
    assert result.code == 3 and found["3.json"][:2] == ["same", "messages embedded"]
    assert found["2.json"][0] == "not run" and "--artifact-full" in found["2.json"][1]
    assert ", and There" not in found["2.json"][1]
    assert len(result.calls) == 1


@pytest.mark.invariant
def test_no_artifact_chooses_what_is_sent_of_a_session(ore, folder):
    from tests.support.runs import rewrite

    turn(folder, 1)
    turn(folder, 2)
    turn(folder, 3, name="private", replies=["secret"])

    def steal(document):
        for each in document["provenance"]["sources"]:
            each["source"] = each["source"].replace(":talk#", ":private#")

    rewrite(folder / "2.json", steal)
    result = ore("--replay", "2.json")
    assert result.code == 3 and result.calls == []
    assert "the session 'private' has changed since" in result.out


@pytest.mark.slow
def test_an_artifact_with_a_hundred_thousand_turns_takes_no_time(ore, folder):
    from tests.support.runs import rewrite

    turn(folder, 1)
    turns = [{"source": f"session:talk#{n}", "sha256": "0" * 64} for n in range(1, 100_001)]
    rewrite(folder / "1.json", lambda document: document["provenance"]["sources"].extend(turns))
    began = time.process_time()
    assert "the session 'talk' has changed since" in ore("--replay", "1.json").out
    assert time.process_time() - began < 10


@pytest.mark.parametrize("name", ["../x", "a/b", "", "#", "\u202e", "con"])
def test_a_session_s_name_in_an_artifact_is_hostile(ore, folder, name):
    from tests.support.runs import rewrite

    turn(folder, 1)
    turn(folder, 2)

    def spoil(document):
        for each in document["provenance"]["sources"]:
            each["source"] = each["source"].replace(":talk#", f":{name}#")

    rewrite(folder / "2.json", spoil)
    result = ore("--replay", "2.json")
    assert result.code == 3 and result.calls == [] and "Traceback" not in result.err


def test_an_answer_that_is_not_saved_is_recorded_and_said(ore, folder, home, monkeypatch):
    turn(folder, 1)
    file = home / ".ore/sessions/talk.json"

    def change(_):
        file.write_text("{}")
        return "A2"

    result = ore("Q2", "--session", "talk", "--artifact-out", "2.json", replies=[change])
    assert (result.code, result.out) == (1, "A2\n") and "'talk' was not saved" in result.err
    assert json.loads((folder / "2.json").read_text())["output"]["content"] == "A2"


@pytest.mark.parametrize(
    "flags",
    [["-i"], ["-c"], ["-c", "hi"], ["--session", "talk"], ["--session", "talk", "hi", "-s"]],
    ids=str,
)
def test_a_repl_and_a_stream_write_no_artifact(ore, flags):
    result = ore(*flags, "--artifact-out", "run.json")
    assert (result.code, result.calls) == (2, [])


def test_without_a_session_all_stays(ore, folder, home):
    found = record(folder / "1.json", "Q1")
    assert found["input"]["mode"] == "single_turn" and found["provenance"]["parent"] is None
    assert not (home / ".ore").exists()
