"""What a session was begun with, in a file beside it: kept whole, read strictly, taken along."""

from __future__ import annotations

import json
import os
import stat

import pytest

from ore.errors import InvalidSessionError, SessionNameError
from ore.store import Beginning, FileSessionStore
from ore.store.pages import in_words
from ore.types import Session
from tests.support.sessions import turn

BEGUN = Beginning("1", "ollama", "llama3.2", "pirate", None, ("temperature=0", "stop=\u2028"))


@pytest.fixture
def store(tmp_path):
    reported: list[str] = []
    store = FileSessionStore(tmp_path / "sessions", report=reported.append)
    store.reported = reported
    return store


def begun_session(store: FileSessionStore, name: str) -> Session:
    session = Session(turn())
    store.create(session, name)
    store.begin(name, Beginning(session.id, "ollama", "llama3.2", system="Be\n\u202ebrief\0."))
    return session


@pytest.mark.parametrize("beginning", [BEGUN, Beginning("1"), Beginning("1", system="")])
def test_what_is_kept_is_read_equal_and_is_private(store, beginning):
    store.create(Session(turn()), "trip")
    store.begin("trip", beginning)
    path = store.root / "trip.meta.json"
    assert store.beginning("trip") == beginning and store.reported == []
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and path.read_bytes().isascii()
    assert sorted(os.listdir(store.root)) == [".trip.lock", "trip.json", "trip.meta.json"]
    assert store.list() == ["trip"] and store.latest() == "trip"


def test_a_session_of_which_nothing_is_kept_has_no_beginning(store):
    assert store.beginning("none") is None
    store.create(Session(turn()), "trip")
    assert store.beginning("trip") is None


VALUE = {"id": "1", "backend": None, "model": None, "persona": None, "system": None, "options": []}
BAD = {
    "empty": (b"", "it is empty"),
    "cut": (b'{"id": "1"', "it is not JSON"),
    "list": (b"[]", "it is not an object"),
    "not UTF-8": (b'{"id": "\xff"}', "it is not UTF-8 at byte 8"),
    "twice": (b'{"id": "1", "id": "2"}', "twice"),
    "deep": (b"[" * 100_000, "nested"),
    "countless": (b'{"options": [' + b"[]," * 100_000 + b"0]}", "more than 100,000 values"),
    "large": (b" " * ((8 << 20) + 1), "larger than"),
    "no id": (b"{}", "its id is not text"),
    **{
        key: (json.dumps(VALUE | {key: value}).encode(), said)
        for key, value, said in (
            ("model", 1, "its model is not text"),
            ("backend", [], "its backend is not text"),
            ("system", {}, "its system is not text"),
            ("persona", "../aya", "its persona is not a name"),
            ("options", "temperature=0", "its options are not a list of texts"),
            ("more", "x", "the key 'more', which ORE does not write"),
        )
    },
}


@pytest.mark.invariant
@pytest.mark.parametrize("data, said", BAD.values(), ids=BAD)
def test_a_bad_file_is_a_sentence_and_stays_as_it_is(store, data, said):
    store.create(Session(turn()), "trip")
    path = store.root / "trip.meta.json"
    path.write_bytes(data)
    with pytest.raises(InvalidSessionError) as caught:
        store.beginning("trip")
    assert said in str(caught.value) and str(path) in str(caught.value)
    assert caught.value.name == "trip" and "\n" not in str(caught.value)
    store.begin("trip", BEGUN)  # is not replaced
    assert "is not kept, but its turns are" in store.reported[0]
    assert path.read_bytes() == data and store.list() == ["trip"]


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_what_is_no_regular_file_is_not_read_and_stays(store, kind, tmp_path):
    store.create(Session(turn()), "trip")
    path = store.root / "trip.meta.json"
    if kind == "link":
        (tmp_path / "other.json").write_text(json.dumps(VALUE))
        path.symlink_to(tmp_path / "other.json")
    else:
        os.mkfifo(path) if kind == "fifo" else path.mkdir()
    with pytest.raises(InvalidSessionError, match="can't be used"):
        store.beginning("trip")
    store.begin("trip", BEGUN)
    assert len(store.reported) == 1 and not stat.S_ISREG(path.lstat().st_mode)


def test_it_goes_where_its_session_goes(store):
    begun_session(store, "old")
    beginning = store.beginning("old")
    (store.root / "new.meta.json").write_text(json.dumps(VALUE))
    store.rename("old", "new")
    assert store.beginning("old") is None and store.beginning("new") == beginning
    store.create(Session(turn()), "plain")
    store.delete("new")
    (store.root / "new.meta.json").write_text(json.dumps(VALUE))
    store.rename("plain", "new")
    assert store.beginning("new") is None, "what an earlier session has left says nothing of it"
    store.delete("new")
    assert [name for name in os.listdir(store.root) if not name.startswith(".")] == []


def test_a_salvaged_session_was_begun_as_the_damaged_one(store):
    begun_session(store, "trip")
    path = store.root / "trip.json"
    path.write_bytes(path.read_bytes()[:-3])
    new = store.salvage("trip").name
    kept = store.beginning(new)
    assert kept is not None and kept.id == store.load(new).id
    assert (kept.model, kept.system) == ("llama3.2", "Be\n\u202ebrief\0.")
    (store.root / "trip.meta.json").write_text("{")
    assert store.beginning(store.salvage("trip").name) is None and len(store.reported) == 1


@pytest.mark.parametrize("name", ["trip.meta", "Trip.META", "a.b.meta"])
def test_a_session_can_not_have_the_name_of_what_stands_beside_another(store, name):
    with pytest.raises(SessionNameError, match="can't be a session's name"):
        store.save(Session(turn()), name)
    assert store.save(Session(turn()), "meta") is None


def test_what_a_session_was_begun_with_is_no_session_where_its_name_is_spelled_anew(store):
    """A disk that takes ``trip`` and ``Trip`` for one renames the session's file alone."""
    store.save(Session(turn()), "Trip")
    (store.root / "trip.meta.json").write_text(json.dumps(VALUE))
    assert (store.list(), store.reported) == (["Trip"], [])


def test_a_file_of_that_name_without_its_session_is_named(store):
    store.create(Session(turn()), "trip")
    (store.root / "lost.meta.json").write_text(json.dumps(VALUE))
    assert store.list() == ["trip"]
    assert store.reported == [
        f"'lost.meta.json' in {store.root} is left out: it is not a session's name."
    ]


@pytest.mark.parametrize("length", [245, 246, 249])
def test_the_longest_names_have_their_turns_and_not_always_a_beginning(store, length):
    name = ("文" * 83)[: length // 3] + "a" * (length % 3)
    assert len(name.encode()) == length
    begun_session(store, name)
    assert (store.beginning(name) is not None) == (length == 245)
    assert len(store.reported) == (length != 245)
    store.rename(name, "short")
    assert store.list() == ["short"]
    store.rename("short", name)
    store.delete(name)
    assert store.list() == []


@pytest.mark.parametrize(
    "options, said",
    [
        (["a=1", "b=2"], "a=1, b=2"),
        (["a=1"] * 12, ", ".join(["a=1"] * 12)),
        (["a=1"] * 13, ", ".join(["a=1"] * 12) + ", …"),
        (["x" * 80, "b=2"], "x" * 80 + ", b=2"),
        (["x" * 81, "b=2"], "x" * 80 + "…, b=2"),
        (["a=\n\x1b[2J"], "a=^J^[[2J"),
    ],
    ids=["short", "twelve", "thirteen", "long", "too long", "controls"],
)
def test_what_it_was_begun_with_is_a_line_of_twelve_things_and_the_rest_is_dots(options, said):
    assert in_words(Beginning("1", options=tuple(options))) == said
