"""Bad files, lists of good ones, and what can be done with sessions besides talking."""

from __future__ import annotations

import os
import shutil
import time

import pytest

from ore.artifact.log import RunLog
from ore.errors import (
    ArtifactError,
    FileAccessError,
    InvalidSessionError,
    SessionError,
    SessionExistsError,
    SessionNotFoundError,
    SessionNotSavedError,
)
from ore.store import FileSessionStore, Found, Salvaged, SessionDetails
from ore.types import Session
from tests.store.test_session_text import BAD
from tests.support.sessions import SPECIAL, make_special, plain, turn


def save_at(store: FileSessionStore, name: str, seconds: int, *texts: str) -> Session:
    """Save a session of turns, and date its file."""
    session = Session([message for text in texts for message in turn(text)])
    store.save(session, name)
    os.utime(store.root / f"{name}.json", (seconds, seconds))
    return session


# Bad files


def test_notes_beside_a_session_that_others_can_write_to_are_not_used_and_named(store, reported):
    store.save(Session(turn()), "talk")
    store.add_size("talk", "a1", 12, "0" * 64)
    store.add_runs("talk", {"a1": "1" * 64})
    assert store.sizes("talk") == {"a1": (12, "0" * 64)} and store.runs("talk") == {"a1": "1" * 64}
    for ending, read in ((".sizes", store.sizes), (".runs", store.runs)):
        assert reported == []
        file = store.root / f"talk{ending}"
        file.chmod(0o666)
        assert read("talk") == {}
        assert reported == [
            f"{file} is not used: others can write to it; run chmod go-w {file}; if that changes "
            f"nothing, use another disk."
        ]
        reported.clear()


def test_notes_beside_a_session_that_can_not_be_read_are_named(store, reported):
    """With them unread a cut conversation is not known for one, and an artifact names no parent."""
    store.save(Session(turn()), "talk")
    for ending, read in ((".sizes", store.sizes), (".runs", store.runs)):
        file = store.root / f"talk{ending}"
        assert read("talk") == {} and reported == []
        file.symlink_to(file.name)
        assert read("talk") == {}
        assert reported == [f"{file} is not used: it is a symbolic link."]
        reported.clear()


def test_a_file_whose_accents_are_stored_apart_is_named_for_no_name_finds_it(store, reported):
    store.save(Session(turn()), "caf\u00e9")
    whole, apart = store.root / "caf\u00e9.json", store.root / "cafe\u0301.json"
    shutil.copy(whole, apart)
    if os.path.samefile(whole, apart):
        pytest.skip("this disk takes both spellings for one")
    for names in (["caf\u00e9"], []):
        reported.clear()
        assert store.list() == names
        assert len(reported) == 1 and "cafe\u0301.json" in reported[0]
        assert "give the file another name" in reported[0]
        whole.unlink(missing_ok=True)


def test_a_file_whose_one_spelling_is_too_long_for_a_name_hides_no_other(store, reported):
    store.save(Session(turn()), "talk")
    (store.root / ("\u0958" * 80 + ".json")).write_text("{}")
    assert store.list() == ["talk"] and store.latest() == "talk"
    assert "is left out" in reported[0]


@pytest.mark.invariant
@pytest.mark.parametrize("data, problem", BAD, ids=[problem for _, problem in BAD])
def test_a_bad_file_is_one_sentence_and_untouched_whatever_is_tried(store, data, problem):
    store.save(Session(), "good")
    path = store.root / "bad.json"
    path.write_bytes(data)
    for use in (store.load, store.details, lambda name: store.save(Session(turn()), name)):
        with pytest.raises(InvalidSessionError) as caught:
            use("bad")
        said = str(caught.value)
        assert problem in said and str(path) in said
        has_answer = b'"assistant"' in data
        assert ("`FileSessionStore.salvage('bad')`" in said) is has_answer
        assert ("delete the session, or choose another name" in said) is (not has_answer)
        assert "\n" not in said
    assert path.read_bytes() == data


@pytest.mark.parametrize("kind", SPECIAL)
def test_what_is_not_a_regular_file_is_refused_and_left_alone(store, kind):
    store.save(Session(turn()), "good")
    path = store.root / "odd.json"
    make_special(path, kind)
    before = os.lstat(path)
    assert store.exists("odd")
    for use in (store.load, store.details, store.salvage, lambda n: store.save(Session(), n)):
        with pytest.raises(
            InvalidSessionError, match="'odd' .*: it is (not a regular file|a symbolic link). "
        ):
            use("odd")
    for use in (store.delete, lambda name: store.rename(name, "new")):
        with pytest.raises(SessionError) as caught:
            use("odd")
        assert caught.value.name == "odd"
        assert str(caught.value) == (
            f"The session 'odd' is not a regular file and is left as it is: see to {path} yourself."
        )
    with pytest.raises(SessionExistsError):
        store.create(Session(), "odd")
    after = os.lstat(path)
    assert (before.st_ino, before.st_mode, before.st_mtime_ns) == (
        after.st_ino,
        after.st_mode,
        after.st_mtime_ns,
    )
    assert len(store.load("good").messages) == 2


# Lists


def test_lists_leave_bad_files_out_and_report_each_in_one_sentence(store, reported):
    store.save(Session(turn()), "good")
    (store.root / "cut.json").write_bytes(plain(Session(turn()))[:50])
    make_special(store.root / "odd.json", "link")
    (store.root / "not a name.json").write_bytes(plain(Session()))
    os.mkfifo(store.root / "\x1b[2Jfifo.json")
    (store.root / "notes.txt").write_bytes(b"")
    (store.root / ".good.tmp").write_bytes(b"half")
    for listing in (store.list, store.details_of_all, lambda: store.search("answer")):
        reported.clear()
        assert {getattr(entry, "name", entry) for entry in listing()} == {"good"}
        assert len(reported) == 4
        assert all(sentence.isprintable() for sentence in reported)
        for name in ("'cut'", "'odd'", "'not a name.json'", "[2Jfifo.json"):
            assert sum(name in sentence for sentence in reported) == 1
    reported.clear()
    assert store.latest() in ("good", "cut")
    assert len(reported) == 2, "the latest is looked for among the names alone"


@pytest.mark.slow
def test_a_folder_of_very_many_files_takes_time_by_their_number_only(store, reported):
    store.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    for number in range(20_000):
        (store.root / f"s{number}.meta.json").touch()
    begun = time.process_time()
    assert store.latest() is None and len(reported) == 20_000
    assert time.process_time() - begun < 3


def test_names_are_listed_sorted(store):
    for name in ("b", "a", "ä", "B", "a.b", "10", "9"):
        store.save(Session(), name)
    assert store.list() == sorted(["b", "a", "ä", "B", "a.b", "10", "9"])


def test_details_are_the_last_used_first(store):
    save_at(store, "old", 1000, "1\n2", "second")
    save_at(store, "new", 2000)
    save_at(store, "also-old", 1000, "x")
    assert store.details_of_all() == [
        SessionDetails("new", 0, 2000.0, ""),
        SessionDetails("also-old", 1, 1000.0, "question x: naïve?"),
        SessionDetails("old", 2, 1000.0, "question 1\n2: naïve?"),
    ]
    assert store.details("old") == SessionDetails("old", 2, 1000.0, "question 1\n2: naïve?")


def test_the_latest_is_the_one_saved_last_even_if_it_is_damaged(store):
    assert store.latest() is None
    save_at(store, "a", 1000)
    save_at(store, "c", 2000)
    save_at(store, "b", 2000)
    assert store.latest() == "b"
    (store.root / "z.json").write_bytes(b"{")
    make_special(store.root / "zz.json", "folder")
    assert store.latest() == "z"


def test_search_finds_messages_in_any_case_and_spelling(store):
    session = save_at(store, "b", 1, "Caf\u00e9 au lait", "no", "STRASSE")
    save_at(store, "a", 2, "nothing")
    assert store.search("ANSWER cafe\u0301") == [Found("b", 2, session.messages[1])]
    assert [found.number for found in store.search("stra\u00dfe")] == [5, 6]
    assert [found.name for found in store.search("answer NO")] == ["a", "b"]
    assert store.search("absent") == []


# Rename, delete, salvage


def test_a_renamed_session_is_the_same_under_another_name(store):
    session = save_at(store, "old", 1000, "x")
    store.rename("old", "new")
    assert store.load("new") == session
    assert store.details("new").last_used == 1000
    assert set(os.listdir(store.root)) <= {"new.json", ".new.lock"}
    session.messages += turn()
    store.save(session, "new")
    store.save(Session(), "old")


@pytest.mark.parametrize("new", ["taken", "old"])
@pytest.mark.parametrize("is_locked_before", [True, False])
def test_renaming_overwrites_nothing(store, new, is_locked_before):
    old, taken = save_at(store, "old", 1, "x"), save_at(store, "taken", 1, "y")
    if not is_locked_before:  # as in a folder that was put back from elsewhere
        for lock in store.root.glob(".*.lock"):
            lock.unlink()
    with pytest.raises(SessionExistsError, match=f"There is a session '{new}' ") as caught:
        store.rename("old", new)
    assert caught.value.name == new
    assert store.load("old") == old and store.load("taken") == taken


@pytest.mark.parametrize("kind", ["file", "link", "folder", "none"])
def test_what_was_typed_goes_where_its_session_goes(store, kind, tmp_path):
    save_at(store, "old", 1, "Hello")
    typed = store.typed_file("old")
    if kind == "file":
        typed.write_text("Hello\n")
    elif kind == "link":
        typed.symlink_to(tmp_path)
    elif kind == "folder":
        typed.mkdir()
    store.rename("old", "new")
    assert not os.path.lexists(typed)
    assert os.path.lexists(store.typed_file("new")) == (kind != "none")
    store.delete("new")
    assert store.list() == []
    assert os.path.lexists(store.typed_file("new")) == (kind == "folder")


def test_a_missing_session_can_not_be_renamed(store):
    store.root.mkdir(mode=0o700)
    with pytest.raises(SessionNotFoundError, match="no session 'old'"):
        store.rename("old", "new")
    assert os.listdir(store.root) == []


def test_a_damaged_session_can_be_renamed_and_deleted(store):
    store.root.mkdir(mode=0o700)
    (store.root / "bad.json").write_bytes(b"{")
    store.rename("bad", "worse")
    assert (store.root / "worse.json").read_bytes() == b"{"
    store.delete("worse")
    assert os.listdir(store.root) == []


def test_a_deleted_session_leaves_nothing_and_its_name_is_free(store):
    save_at(store, "talk", 1, "x")
    save_at(store, "other", 1, "x")
    (store.root / ".talk.tmp").write_bytes(b"left by a kill")
    store.delete("talk")
    assert set(os.listdir(store.root)) == {"other.json", ".other.lock"}
    assert not store.exists("talk")
    store.create(Session(), "talk")


def test_whole_turns_of_a_damaged_session_become_new_sessions(store):
    session = save_at(store, "talk", 1, "one", "two", "three")
    path = store.root / "talk.json"
    damaged = path.read_bytes()[:-60]
    path.write_bytes(damaged)
    names = ["talk.salvaged", "talk.salvaged-2", "talk.salvaged-3", "talk.salvaged-4"]
    for name in names:
        salvaged = store.salvage("talk")
        assert salvaged == Salvaged(name, 2) and isinstance(salvaged.turns, int)
        assert store.load(name).messages == session.messages[:4]
    assert len({session.id, *(store.load(name).id for name in names)}) == 5
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("data", [b"", b"\0" * 100, plain(Session(turn()))[:250]])
def test_where_no_turn_is_whole_nothing_is_salvaged(store, data):
    store.root.mkdir(mode=0o700)
    (store.root / "talk.json").write_bytes(data)
    with pytest.raises(InvalidSessionError) as caught:
        store.salvage("talk")
    assert caught.value.name == "talk"
    assert str(caught.value) == (
        "Nothing was salvaged of the session 'talk': there is no complete turn in "
        f"{store.root}/talk.json, which is left as it is."
    )
    assert os.listdir(store.root) == ["talk.json"]


def test_a_folder_that_is_deleted_meanwhile_is_an_empty_one(store):
    store.save(Session(), "talk")
    shutil.rmtree(store.root)
    assert store.list() == [] and store.details_of_all() == [] and store.latest() is None


# Which turns are recorded


@pytest.mark.parametrize("folder", ["", "sessions"])
def test_nothing_is_noted_or_read_beside_a_session_where_others_can_write_by_now(
    folder, tmp_path, monkeypatch
):
    monkeypatch.setenv("ORE_HOME", str(tmp_path))
    reports = []
    store = FileSessionStore(report=reports.append)
    save_at(store, "talk", 1, "Hi")
    store.add_runs("talk", {"a": "a" * 64})
    store.add_size("talk", "a", 12, "0" * 64)
    before = {path.name: path.read_bytes() for path in store.root.iterdir()}
    (tmp_path / folder).chmod(0o777)
    says = f"others can write to it; run chmod go-w {tmp_path / folder};"
    with pytest.raises(OSError, match=f"nothing in its folder is used: {says}"):
        store.add_runs("talk", {"b": "b" * 64})
    with pytest.raises(OSError, match=says):
        store.add_size("talk", "b", 14, "0" * 64)
    assert {path.name: path.read_bytes() for path in store.root.iterdir()} == before
    assert not reports
    assert store.runs("talk") == store.sizes("talk") == {}
    assert [says in report for report in reports] == [True, True]


@pytest.mark.parametrize(
    "torn", ["ddd", f"ddd {'d' * 64}", f"ddd {'d' * 63}", "ddd ", "\n"], ids=range(5)
)
def test_a_line_that_is_torn_takes_no_other_run_with_it(store, torn):
    store.save(Session(), "talk")
    store.add_runs("talk", {"ccc": "c" * 64})
    with open(store.root / "talk.runs", "a", encoding="utf-8") as file:
        file.write(torn)
    store.add_runs("talk", {"eee": "e" * 64})
    whole = {"ddd": "d" * 64} if torn.endswith("d" * 64) else {}
    assert store.runs("talk") == {"ccc": "c" * 64, **whole, "eee": "e" * 64}
    store.add_runs("talk", {"fff": "f" * 64})
    assert list(store.runs("talk"))[-2:] == ["eee", "fff"]


def test_lines_of_runs_follow_each_other_without_an_empty_one(store):
    store.save(Session(), "talk")
    for name in "ab":
        store.add_runs("talk", {name: name * 64})
    assert (store.root / "talk.runs").read_text() == f"a {'a' * 64}\nb {'b' * 64}\n"


def test_a_run_is_not_noted_in_a_copy_that_was_made_of_links(store):
    store.save(Session(), "talk")
    store.add_runs("talk", {"a": "a" * 64})
    copy = store.root / "copy"
    copy.hardlink_to(store.root / "talk.runs")
    store.add_runs("talk", {"b": "b" * 64})
    assert copy.read_text() == f"a {'a' * 64}\n"
    assert store.runs("talk") == {"a": "a" * 64, "b": "b" * 64}
    (store.root / "other.runs").mkdir()
    with pytest.raises(OSError):
        store.add_runs("other", {"c": "c" * 64})


def test_a_run_is_noted_in_nothing_but_a_file(store):
    store.save(Session(), "talk")
    os.mkfifo(store.root / "talk.runs")
    (store.root / "talk.sizes").symlink_to(store.root / "elsewhere")
    with pytest.raises(OSError, match="it is not a regular file"):
        store.add_runs("talk", {"a": "a" * 64})
    with pytest.raises(OSError, match="it is not a regular file"):
        store.add_size("talk", "a", 7, "a" * 64)
    assert not (store.root / "elsewhere").exists()


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"])
def test_a_folder_that_none_can_be_called_is_an_error_of_ore_s(name, tmp_path):
    """A program may take the name from anywhere: a NUL, or half a character, is no fault of ORE's."""
    place = tmp_path / name
    with pytest.raises(FileAccessError, match="No folder can be called"):
        FileSessionStore(place).list()
    with pytest.raises(SessionNotSavedError, match="No folder can be called"):
        FileSessionStore(place).save(Session(), "a")
    for look in (RunLog(place).last, RunLog(place).check):
        with pytest.raises(ArtifactError, match="run log"):
            look()
