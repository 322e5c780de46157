"""Calls that fail, and what others do to a store's files meanwhile."""

from __future__ import annotations

import errno
import itertools
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from ore.errors import FileAccessError, SessionChangedError, SessionError
from ore.store import FileSessionStore
from ore.types import Session
from tests.support.faults import Intercepted, failing
from tests.support.sessions import plain, turn

# Calls that fail

USES = {
    "load": lambda store: store.load("talk"),
    "exists": lambda store: store.exists("talk"),
    "details": lambda store: store.details("talk"),
    "list": lambda store: store.list(),
    "latest": lambda store: store.latest(),
    "rename": lambda store: store.rename("talk", "new"),
    "delete": lambda store: store.delete("talk"),
}
UNCONFIRMED = {"rename": "new", "delete": "talk"}
"""Of which session the disk may not confirm the change."""


@pytest.mark.parametrize("use", USES)
def test_whatever_call_fails_the_session_is_named(tmp_path, use):
    said: list[str] = []
    reported: list[str] = []
    for at in itertools.count(1):
        store = FileSessionStore(tmp_path / f"root{at}", report=reported.append)
        store.save(Session(turn()), "talk")
        with Intercepted(at, failing(errno.EIO)) as calls:
            try:
                USES[use](store)
            except SessionError as exc:
                assert exc.name == "talk"
                assert os.path.exists(store.root / "talk.json"), "what is gone is not unusable"
                said.append(str(exc))
            except FileAccessError:
                assert use in ("list", "latest"), "these don't know of a session yet"
        if not calls.has_acted:
            break
    failed = "The session 'talk' can't be used: input/output error ("
    refusals = reported if use == "list" else said
    assert refusals and all(sentence.startswith(failed) for sentence in refusals)
    assert all(sentence.endswith("/talk.json).") for sentence in refusals)
    if use in UNCONFIRMED:
        *left, unconfirmed = reported
        assert unconfirmed == (
            f"The disk did not confirm the change of the session '{UNCONFIRMED[use]}': it is made, "
            "but a power cut may undo it."
        )
        known = f"was not {use}d with its session: ".replace("delete", "remove")
        assert left and all(known in sentence for sentence in left)


# What others do meanwhile


@pytest.mark.parametrize("use", ["list", "details_of_all", "latest"])
def test_a_session_that_is_removed_while_it_is_listed_is_left_out(tmp_path, use):
    found = []
    for at in itertools.count(1):
        reported: list[str] = []
        store = FileSessionStore(tmp_path / f"root{at}", report=reported.append)
        for name, seconds in (("a", 2000), ("b", 1000)):
            store.save(Session(), name)
            os.utime(store.root / f"{name}.json", (seconds, seconds))

        def removing(name, real, args, kwargs):
            os.remove(store.root / "a.json")
            return real(*args, **kwargs)

        with Intercepted(at, removing) as calls:
            listed = getattr(store, use)()
        entries = [listed] if isinstance(listed, str) else listed
        found.append([getattr(entry, "name", entry) for entry in entries])
        assert reported == []
        if not calls.has_acted:
            break
    both = ["a"] if use == "latest" else ["a", "b"]
    gone = found.count(["b"])
    assert gone >= 3 and found == [["b"]] * gone + [both] * (len(found) - gone)


def test_a_session_whose_file_is_removed_while_it_is_saved_is_saved(tmp_path):
    for at in itertools.count(1):
        session = Session(turn())
        FileSessionStore(tmp_path / f"root{at}").save(session, "talk")
        store = FileSessionStore(tmp_path / f"root{at}")
        session.messages += turn("later")

        def removing(name, real, args, kwargs):
            os.remove(store.root / "talk.json")
            return real(*args, **kwargs)

        with Intercepted(at, removing) as calls:
            store.save(session, "talk")
        if "replace" not in calls.names[: at - 1]:
            assert store.load("talk") == session
        if not calls.has_acted:
            break


def spoil(path: Path, session: Session) -> Session:
    """Change a session's text in its file, of which the system says what it said before."""
    status = path.stat()
    changed = Session(
        [replace(one, content=one.content.replace("ours", "them")) for one in session.messages],
        session.id,
        session.created_at,
    )
    path.write_bytes(plain(changed))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    after = path.stat()
    assert (after.st_ino, after.st_size) == (status.st_ino, status.st_size)
    return changed


def deleted(store: FileSessionStore, session: Session) -> Session:
    """Delete the session; its file comes back with another text."""
    kept = store.root / "kept"
    os.link(store.root / "talk.json", kept)
    store.delete("talk")
    theirs = spoil(kept, session)
    kept.rename(store.root / "talk.json")
    return theirs


def renamed_from(store: FileSessionStore, session: Session) -> Session:
    """Rename the session; its file gets another text, and its name back from somebody else."""
    store.rename("talk", "new")
    theirs = spoil(store.root / "new.json", session)
    os.rename(store.root / "new.json", store.root / "talk.json")
    return theirs


def renamed_to(store: FileSessionStore, session: Session) -> Session:
    """Rename the session back, to which somebody else gave another name and another text."""
    os.rename(store.root / "talk.json", store.root / "new.json")
    theirs = spoil(store.root / "new.json", session)
    store.rename("new", "talk")
    return theirs


@pytest.mark.parametrize("act", [deleted, renamed_from, renamed_to])
def test_nothing_is_believed_of_a_file_whose_name_was_given_up(store, act):
    session = Session(turn("ours"))
    store.save(session, "talk")
    theirs = act(store, session)
    session.messages += turn()
    with pytest.raises(SessionChangedError):
        store.save(session, "talk")
    assert FileSessionStore(store.root).load("talk") == theirs


def test_two_spellings_that_are_one_file_are_one_session(store):
    session = Session(turn())
    store.save(session, "talk")
    # A second name of the lock's file stands in for a file system that ignores the case of names.
    with suppress(FileExistsError):
        os.link(store.root / ".talk.lock", store.root / ".TALK.lock")
    store.rename("talk", "TALK")
    assert store.load("TALK") == session and store.list() == ["TALK"]
