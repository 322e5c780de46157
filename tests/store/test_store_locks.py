"""Who may save a session while somebody has it open."""

from __future__ import annotations

import os
import shutil
import time

import pytest

from ore.errors import InvalidSessionError, SessionInUseError, SessionNotSavedError
from ore.store import FileSessionStore
from ore.types import Message, Session
from tests.support.faults import Intercepted, in_child
from tests.support.process import until
from tests.support.sessions import turn


@pytest.fixture
def store(tmp_path):
    return FileSessionStore(tmp_path / "sessions", wait=0.05)


def in_other_process(store: FileSessionStore, action) -> int | str | None:
    """Act on the same folder in another process; the pid that it says is in the way, if any."""

    def act():
        try:
            action(FileSessionStore(store.root, wait=0.05))
        except SessionInUseError as exc:
            assert f"'talk' is in use by process {exc.pid}:" in str(exc)
            return exc.pid

    return in_child(act).value


def open_for_saving(other: FileSessionStore) -> None:
    with other.lock("talk"):
        pass


USES = {
    "lock": open_for_saving,
    "save": lambda other: other.save(Session(), "talk"),
    "create": lambda other: other.create(Session(), "talk"),
    "delete": lambda other: other.delete("talk"),
    "rename": lambda other: other.rename("talk", "new"),
    "rename to it": lambda other: other.rename("else", "talk"),
}

TRIES = {"lock": 1, "delete": 1, "rename": 1, "rename to it": 3}
"""How many calls try a lock, or let go of one, in a use that does not wait."""


@pytest.mark.parametrize("use", USES)
def test_a_session_that_is_open_is_in_use_for_every_other_process_at_once(store, use):
    store.save(Session(turn()), "talk")
    store.save(Session(), "else")
    with store.lock("talk"):
        assert in_other_process(store, USES[use]) == os.getpid()
    assert store.list() == ["else", "talk"]


@pytest.mark.parametrize(("use", "tries"), TRIES.items())
def test_a_lock_is_tried_once_unless_told_to_wait(store, use, tries):
    store.save(Session(turn()), "talk")
    store.save(Session(), "else")

    def act() -> int:
        with Intercepted() as calls, pytest.raises(SessionInUseError):
            USES[use](FileSessionStore(store.root))
        return calls.names.count("flock")

    with store.lock("talk"):
        assert in_child(act).value == tries


def test_a_session_that_is_open_can_be_read_and_others_can_be_saved(store):
    session = Session(turn())
    with store.lock("talk"):
        store.save(session, "talk")
        assert in_other_process(store, lambda other: other.details("talk")) is None
        assert in_other_process(store, lambda other: other.save(Session(), "other")) is None
    assert in_other_process(store, USES["delete"]) is None


def test_the_same_store_can_not_open_a_session_twice(store):
    with store.lock("talk"):
        with pytest.raises(SessionInUseError) as caught:
            with store.lock("talk"):
                pass
        assert caught.value.pid == os.getpid()
        store.save(Session(), "talk")


def test_the_lock_is_free_after_an_error(store):
    with pytest.raises(RuntimeError), store.lock("talk"):
        raise RuntimeError
    assert in_other_process(store, USES["lock"]) is None


@pytest.mark.slow
def test_waiting_gets_the_lock_as_soon_as_it_is_free(store, tmp_path):
    locked, end = tmp_path / "locked", tmp_path / "end"
    pid = os.fork()
    if pid == 0:
        with FileSessionStore(store.root).lock("talk"):
            locked.touch()
            until(end.exists)
            time.sleep(0.1)
        os._exit(0)
    until(locked.exists)
    with pytest.raises(SessionInUseError), store.lock("talk", wait=0.01):
        pass
    end.touch()
    with store.lock("talk", wait=60):
        pass
    assert os.waitpid(pid, 0)[1] == 0


def test_a_lock_leaves_no_file_where_no_session_was_made(store):
    with store.lock("talk"):
        assert os.listdir(store.root) == [".talk.lock"]
    assert os.listdir(store.root) == []
    with pytest.raises(InvalidSessionError):
        store.save(Session([Message("system", "x")]), "talk")
    assert os.listdir(store.root) == []
    store.save(Session(), "talk")
    assert set(os.listdir(store.root)) == {"talk.json", ".talk.lock"}


def test_a_folder_that_is_deleted_takes_the_lock_with_it_and_the_next_save_locks_again(store):
    session = Session(turn())
    with store.lock("talk"):
        store.save(session, "talk")
        shutil.rmtree(store.root)
        session.messages += turn()
        store.save(session, "talk")
        assert in_other_process(store, USES["lock"]) == os.getpid()
    assert in_other_process(store, USES["lock"]) is None
    assert FileSessionStore(store.root).load("talk") == session
    with store.lock("talk"):
        shutil.rmtree(store.root)
    assert not store.root.exists()


def test_who_takes_the_lock_after_the_folder_was_deleted_is_not_overwritten(store):
    other = FileSessionStore(store.root)
    with store.lock("talk"):
        store.save(Session(turn()), "talk")
        shutil.rmtree(store.root)
        with other.lock("talk"):
            other.save(Session(turn("theirs")), "talk")
            with pytest.raises(SessionInUseError):
                store.save(Session(turn("ours")), "talk")
        assert store.load("talk").messages[1].content == "answer theirs"


def test_a_forked_process_does_not_save_under_the_lock_of_its_parent(store):
    def save() -> int | None:
        try:
            store.save(Session(), "talk")
        except SessionInUseError as exc:
            return exc.pid

    with store.lock("talk"):
        assert in_child(save).value == os.getpid()
        assert not store.exists("talk")


@pytest.mark.parametrize("kind", ["a folder", "a link"])
def test_a_lock_that_can_not_be_made_is_reported_before_anything_is_asked(store, kind, tmp_path):
    store.root.mkdir(mode=0o700)
    if kind == "a folder":
        (store.root / ".talk.lock").mkdir()
    else:
        (store.root / ".talk.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(SessionNotSavedError, match="The session 'talk' can't be saved: ") as caught:
        with store.lock("talk"):
            pass
    assert f" ({store.root}). See to it, or use another folder." in str(caught.value)
    assert not (tmp_path / "victim").exists()


def test_only_a_store_in_the_home_folder_is_moved_with_it(tmp_path, monkeypatch):
    monkeypatch.setenv("ORE_HOME", str(tmp_path / "home"))
    for root, advice in ((None, "or set ORE_HOME to"), (tmp_path / "own", "or use")):
        store = FileSessionStore(root)
        store.root.parent.mkdir(exist_ok=True)
        store.root.symlink_to(tmp_path)
        with pytest.raises(SessionNotSavedError, match=f"{advice} another folder"):
            store.save(Session(turn()), "talk")


def test_a_first_save_that_fails_speaks_of_no_file(store):
    store.root.mkdir(mode=0o700)
    (store.root / ".talk.lock").mkdir()
    with pytest.raises(SessionNotSavedError, match="and what was there is as it was: "):
        store.save(Session(turn()), "talk")


def test_an_interrupt_as_a_lock_is_let_go_of_leaves_the_session_to_the_next_save(
    tmp_path, monkeypatch
):
    def interrupted(*_):
        raise KeyboardInterrupt

    store, session = FileSessionStore(tmp_path / "s", wait=0.0), Session()
    with monkeypatch.context() as patched:
        patched.setattr("ore.store.session_locks._release", interrupted)
        with pytest.raises(KeyboardInterrupt) as caught:
            store.save(session, "talk")
    FileSessionStore(tmp_path / "s", wait=0.0).save(session, "talk")
    assert caught.traceback  # who keeps the error, as a notebook does, keeps no lock with it


def test_a_session_in_use_by_this_very_process_is_not_told_to_end_it(store):
    """Two requests of one service: there is no other process to end."""
    with store.lock("talk"):
        with pytest.raises(
            SessionInUseError, match="by this process: wait until it is done"
        ) as seen:
            FileSessionStore(store.root, wait=0.0).save(Session(), "talk")
    assert seen.value.pid == os.getpid()
