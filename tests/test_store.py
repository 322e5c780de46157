"""Sessions on disk: what is saved, what is refused, what is listed."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import pytest
from hypothesis import HealthCheck, given, settings

from ore.errors import (
    FileAccessError,
    HomeError,
    InvalidSessionError,
    SessionChangedError,
    SessionExistsError,
    SessionNameError,
    SessionNotFoundError,
    SessionNotSavedError,
)
from ore.store import FileSessionStore, SessionStore
from ore.store import session_text as text_module
from ore.types import Message, Session
from tests.store.test_session_text import SESSIONS
from tests.support.sessions import plain, turn


def file_of(store: FileSessionStore, name: str):
    return store.root / f"{name}.json"


@pytest.mark.invariant
def test_sessions_are_in_the_home_that_there_is_when_the_store_is_made(home, monkeypatch, tmp_path):
    store = FileSessionStore()
    monkeypatch.setenv("ORE_HOME", str(tmp_path / "other"))
    store.save(Session(), "talk")
    assert (home / ".ore" / "sessions" / "talk.json").is_file()
    assert FileSessionStore().root == tmp_path / "other" / "sessions"
    assert isinstance(store, SessionStore)


def test_without_a_home_there_is_no_store(monkeypatch):
    monkeypatch.setenv("HOME", "relative")
    with pytest.raises(HomeError):
        FileSessionStore()


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SESSIONS)
def test_what_is_saved_is_what_is_loaded(store, session):
    shutil.rmtree(store.root, ignore_errors=True)
    store.save(session, "talk")
    assert store.load("talk") == FileSessionStore(store.root).load("talk") == session


@pytest.mark.invariant
def test_the_file_is_plain_indented_json_after_every_save(store):
    session = Session()
    for number in range(5):
        store.save(session, "talk")
        assert file_of(store, "talk").read_bytes() == plain(session)
        assert list(json.loads(plain(session))) == ["id", "created_at", "messages"]
        session.messages += turn(f"naïve {number}")


@pytest.mark.invariant
def test_the_name_is_a_handle_and_the_id_stays(store):
    session = Session(turn())
    store.save(session, "talk")
    os.rename(file_of(store, "talk"), file_of(store, "other"))
    assert store.load("other") == session


def test_a_change_of_the_loaded_session_does_not_change_what_the_store_knows(store):
    store.save(Session(turn()), "talk")
    session = store.load("talk")
    del session.messages[1]
    with pytest.raises(SessionChangedError):
        store.save(session, "talk")


def test_a_session_that_lost_a_message_after_it_was_saved_is_not_saved(store):
    session = Session(turn())
    store.save(session, "talk")
    session.messages.pop(0)
    with pytest.raises(SessionChangedError):
        store.save(session, "talk")


def test_a_session_whose_messages_were_replaced_by_equal_ones_is_saved(store):
    session = Session([Message("user", "x", "1", 1)], "s", 1)
    store.save(session, "talk")
    before = plain(session)
    session.messages[0] = Message("user", "x", "1", 1.0)
    store.save(session, "talk")
    assert file_of(store, "talk").read_bytes() == before
    session.messages.append(Message("assistant", "y"))
    store.save(session, "talk")
    assert store.load("talk") == FileSessionStore(store.root).load("talk") == session


def test_files_are_private_and_a_stricter_mode_is_kept(store):
    session = Session(turn())
    store.save(session, "talk")
    assert stat.S_IMODE(store.root.stat().st_mode) == 0o700
    assert stat.S_IMODE(file_of(store, "talk").stat().st_mode) == 0o600
    for mode, kept in ((0o644, 0o600), (0o400, 0o400)):
        file_of(store, "talk").chmod(mode)
        session.messages += turn()
        store.save(session, "talk")
        assert stat.S_IMODE(file_of(store, "talk").stat().st_mode) == kept


@pytest.mark.invariant
def test_deleting_the_folder_breaks_nothing_and_the_next_save_makes_it_again(store):
    session = Session(turn())
    store.save(session, "talk")
    shutil.rmtree(store.root)
    assert store.list() == [] and not store.exists("talk")
    session.messages += turn()
    store.save(session, "talk")
    assert FileSessionStore(store.root).load("talk") == session


# What a save refuses


def other_conversation(store):
    return Session(turn())


def fewer_messages(store):
    session = store.load("talk")
    return Session(session.messages[:1], session.id, session.created_at)


def another_message(store):
    session = store.load("talk")
    return Session([session.messages[0], *turn()], session.id, session.created_at)


@pytest.mark.parametrize("make", [other_conversation, fewer_messages, another_message])
@pytest.mark.parametrize("is_fresh", [True, False])
def test_what_does_not_continue_the_file_is_not_saved(store, make, is_fresh):
    store.save(Session(turn()), "talk")
    before = file_of(store, "talk").read_bytes()
    session = make(store)
    with pytest.raises(SessionChangedError, match="'talk' changed on disk: not saved"):
        (FileSessionStore(store.root) if is_fresh else store).save(session, "talk")
    assert file_of(store, "talk").read_bytes() == before


def test_a_turn_that_another_process_saved_is_never_overwritten(store):
    session = Session(turn())
    store.save(session, "talk")
    other = FileSessionStore(store.root)
    theirs = other.load("talk")
    theirs.messages += turn("theirs")
    other.save(theirs, "talk")
    session.messages += turn("ours")
    for _ in range(2):
        with pytest.raises(SessionChangedError):
            store.save(session, "talk")
    assert store.load("talk") == theirs


def test_a_file_that_was_laid_out_anew_is_still_continued(store):
    session = Session(turn())
    store.save(session, "talk")
    file_of(store, "talk").write_text(json.dumps(json.loads(plain(session)), sort_keys=True))
    session.messages += turn()
    store.save(session, "talk")
    assert file_of(store, "talk").read_bytes() == plain(session)


def taken(use) -> None:
    """Hold that ``use`` is refused, for there is a session 'talk'."""
    with pytest.raises(SessionExistsError) as caught:
        use()
    assert caught.value.name == "talk"
    assert str(caught.value) == (
        "There is a session 'talk' already, and nothing is overwritten: resume it, or choose "
        "another name."
    )


def test_a_new_session_is_created_once(store):
    session = Session(turn())
    store.create(session, "talk")
    for again in (session, Session()):
        taken(lambda: store.create(again, "talk"))
    taken(lambda: store.refuse_existing("talk"))
    store.refuse_existing("other")
    assert store.load("talk") == session


def test_a_session_that_could_not_be_read_again_is_not_saved(store):
    session = Session(turn())
    store.save(session, "talk")
    session.messages.append(Message("system", "smuggled"))
    with pytest.raises(InvalidSessionError, match="'talk' was not saved.*role 'system'"):
        store.save(session, "talk")
    assert len(store.load("talk").messages) == 2


@pytest.mark.parametrize("use", ["save", "load", "exists", "details", "delete", "salvage", "lock"])
def test_an_illegal_name_never_reaches_a_path(store, use):
    arguments = (Session(), "../x") if use == "save" else ("../x",)
    with pytest.raises(SessionNameError):
        getattr(store, use)(*arguments)
    assert not store.root.exists()


@pytest.mark.parametrize("use", ["load", "details", "delete", "salvage"])
@pytest.mark.parametrize("is_made", [True, False])
def test_a_missing_session_is_named(store, use, is_made):
    if is_made:
        store.root.mkdir(mode=0o700)
    with pytest.raises(SessionNotFoundError, match="There is no session 'nope' in ") as caught:
        getattr(store, use)("nope")
    assert isinstance(caught.value, FileNotFoundError) and caught.value.name == "nope"
    assert not store.exists("nope") and store.list() == []


def test_a_folder_that_others_can_write_to_is_neither_read_nor_written(store):
    store.save(Session(), "talk")
    store.root.chmod(0o777)
    with pytest.raises(FileAccessError, match="run chmod go-w"):
        store.load("talk")
    with pytest.raises(SessionNotSavedError, match="run chmod go-w"):
        store.save(Session(), "new")
    with pytest.raises(FileAccessError):
        store.list()


@pytest.mark.invariant
def test_an_interrupt_anywhere_in_the_encoding_costs_no_turn(store):
    for steps in itertools.count():
        name, session = f"talk{steps}", Session(turn("first"))
        store.save(session, name)
        session.messages += turn("again")
        with suppress(KeyboardInterrupt), interrupted_in(text_module.__file__, after=steps):
            store.save(session, name)
            break
        store.save(session, name)
        assert file_of(store, name).read_bytes() == plain(session)
    assert steps > 20


@contextmanager
def interrupted_in(file: str, *, after: int) -> Iterator[None]:
    """Raise ``KeyboardInterrupt`` once that many lines of a file have been run."""
    lines = 0

    def trace(frame: FrameType, event: str, _: object) -> object:
        nonlocal lines
        if frame.f_code.co_filename != file:
            return None
        if event == "line":
            lines += 1
            if lines > after:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
