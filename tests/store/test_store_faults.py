"""Kills, failing calls, full disks, signals and many processes: no acknowledged turn is ever lost."""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections import Counter
from contextlib import nullcontext

import pytest

from ore.errors import SessionError, SessionNotSavedError
from ore.store import FileSessionStore
from ore.types import Session
from tests.by_hand.sweeps import concurrency, fill, fuzz, kill_sweep
from tests.support.faults import (
    Intercepted,
    failing,
    in_child,
    signal_after,
    signal_before,
    writing_half,
)
from tests.support.sessions import plain, turn

pytestmark = pytest.mark.slow

ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EACCES, errno.EMFILE)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "sessions"


@pytest.mark.invariant
def test_a_kill_at_any_call_of_a_save_loses_no_turn_and_halves_none(root):
    seen = kill_sweep(root, 250)
    assert seen.fired == 250
    assert seen.acknowledged >= 4 and seen.taken_late > 0
    # The folder is made once, by a save that is killed: those that end find it there.
    assert seen.calls >= {"open", "write", "fsync", "close", "replace", "flock"}


@pytest.mark.invariant
@pytest.mark.parametrize("kills_per_second", [0, 15])
def test_turns_of_many_processes_are_all_there_and_readers_see_whole_files(root, kills_per_second):
    kills = concurrency(root, 4, 12, kills_per_second)
    assert bool(kills) is bool(kills_per_second)


def test_fuzzed_files_load_cleanly_or_are_refused_and_stay_as_they_are(root):
    clean, refused = fuzz(root, 2000)
    assert clean > 50 and refused > 1000


def saved_under(root, at: int, number: int, how: str) -> dict:
    """Save a turn while the call number ``at`` fails, and again when nothing does."""
    reported = []
    store = FileSessionStore(root, report=reported.append)
    session = Session(turn(1))
    path = root / "talk.json"
    if how != "first":
        store.save(session, "talk")
        session.messages += turn(2)
    before = path.read_bytes() if path.exists() else None

    def save() -> str | None:
        try:
            with store.lock("talk") if how == "locked" else nullcontext():
                store.save(session, "talk")
        except SessionNotSavedError as exc:
            return str(exc)

    with Intercepted(at, failing(number)) as calls:
        said = save()
    stored = path.read_bytes() if path.exists() else None
    assert stored == (before if said else plain(session)), said
    left = set(os.listdir(root)) - {"talk.json", ".talk.lock"} if root.exists() else set()
    assert save() is None, "a later save writes everything"
    assert path.read_bytes() == plain(session)
    assert set(os.listdir(root)) == {"talk.json", ".talk.lock"}
    call = calls.names[at - 1] if calls.has_acted else None
    return {"call": call, "said": said, "left": left, "reported": reported}


@pytest.mark.parametrize("number", ERRORS, ids=errno.errorcode.get)
@pytest.mark.parametrize("how", ["first", "alone", "locked"])
def test_any_call_that_fails_means_saved_or_not_saved_and_never_damage(root, number, how):
    failed = Counter()
    for at in range(1, 200):
        seen = in_child(lambda: saved_under(root / str(at), at, number, how)).value
        if seen["call"] is None:
            break
        failed[seen["call"], "not saved" if seen["said"] else "saved"] += 1
        if seen["said"]:
            assert os.strerror(number).lower() in seen["said"].lower()
            at_saving = "The session 'talk' was not saved, and what was there is as it was: "
            at_locking = ("The session 'talk' can't be saved: ",) if how == "locked" else ()
            assert seen["said"].startswith((at_saving, *at_locking))
        assert len(seen["left"]) <= (seen["call"] == "unlink")
        unconfirmed = seen["call"] == "fsync" and not seen["said"]
        assert [sentence.split(":")[0] for sentence in seen["reported"]] == [
            "The disk did not confirm the change of the session 'talk'"
        ] * unconfirmed
    assert seen["call"] is None, "more calls than were tried"
    for call in ("open", "write", "fsync", "close", "replace"):
        assert failed[call, "not saved"] >= 1
    assert failed["fsync", "saved"] == 1  # the folder's


def test_a_write_that_takes_only_a_part_is_gone_on_with(root):
    store, session = FileSessionStore(root), Session()
    with store.lock("talk"):
        for at in range(1, 100):
            session.messages += turn(at)
            with Intercepted(at, writing_half) as calls:
                store.save(session, "talk")
            assert (root / "talk.json").read_bytes() == plain(session)
            if not calls.has_acted:
                break
    assert "write" in calls.names and at < 100


@pytest.mark.parametrize("number", ERRORS, ids=errno.errorcode.get)
def test_any_call_that_fails_while_loading_is_a_session_error(root, number):
    session = Session(turn())
    FileSessionStore(root).save(session, "talk")
    for at in range(1, 50):
        store = FileSessionStore(root)
        with Intercepted(at, failing(number)) as calls:
            try:
                assert store.load("talk") == session
            except SessionError as exc:
                assert os.strerror(number).lower() in str(exc).lower()
                assert calls.names[at - 1] != "close"
        if not calls.has_acted:
            break
    assert 3 < at < 50


def test_what_was_acknowledged_is_what_a_full_file_system_holds(root):
    def run() -> int:
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, most))
        return fill(root, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)))

    assert in_child(run).value > 5


def signalled(root, at: int, act) -> dict:
    """Save a second turn, with the lock held; a signal comes at the call number ``at``."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    store = FileSessionStore(root)
    session = Session(turn(1))
    with store.lock("talk"):
        store.save(session, "talk")
        session.messages += turn(2)
        is_interrupted = False
        with Intercepted(at, act) as calls:
            try:
                store.save(session, "talk")
            except KeyboardInterrupt:
                is_interrupted = True
        files = set(os.listdir(root))
        stored = len(store.load("talk").messages)
        store.save(session, "talk")
    return {
        "acted": calls.has_acted,
        "interrupted": is_interrupted,
        "files": files,
        "stored": stored,
        "commit": "write" in calls.names[:at],
    }


@pytest.mark.parametrize("when", [signal_before, signal_after])
def test_an_interrupt_at_any_call_of_a_save_waits_until_the_turn_is_on_disk(root, when):
    in_commit = 0
    for at in range(1, 100):
        seen = in_child(lambda: signalled(root / str(at), at, when(signal.SIGINT))).value
        assert seen["interrupted"] is seen["acted"]
        assert seen["files"] == {"talk.json", ".talk.lock"}
        assert seen["stored"] in (2, 4)
        if seen["acted"] and seen["commit"]:
            in_commit += 1
            assert seen["stored"] == 4
        if not seen["acted"]:
            break
    assert in_commit >= 5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("when", [signal_before, signal_after])
def test_a_termination_at_any_call_of_a_save_leaves_no_temporary_file(root, when, number):
    stored = Counter()
    for at in range(1, 100):
        folder = root / str(at)
        ended = in_child(lambda: signalled(folder, at, when(number)))
        assert set(os.listdir(folder)) == {"talk.json", ".talk.lock"}
        stored[len(FileSessionStore(folder).load("talk").messages)] += 1
        if not ended.signal:
            assert not ended.value["acted"]
            break
        assert ended.signal == number
    assert stored[2] + stored[4] == at and stored[4] > 6
