"""Locks between processes: one holder, who is named, and none left behind by the dead."""

from __future__ import annotations

import errno
import os
import signal
import stat
import time

import pytest

from ore.files.folder import Folder
from ore.files.locks import holder, try_lock
from tests.support.faults import in_child
from tests.support.sessions import SPECIAL, make_special

NAME = ".talk.lock"


@pytest.fixture
def folder(tmp_path):
    with Folder(tmp_path / "private", make=True) as folder:
        yield folder


def can_lock(folder) -> bool:
    """Whether another process gets the lock now."""
    return in_child(lambda: try_lock(folder, NAME) is not None).value


def test_a_lock_is_held_by_one_and_free_after_its_release(folder):
    lock = try_lock(folder, NAME)
    assert try_lock(folder, NAME) is None
    assert not can_lock(folder)
    lock.release()
    assert can_lock(folder)


def test_the_holder_of_a_lock_is_named(folder):
    assert holder(folder, NAME) is None
    lock = try_lock(folder, NAME)
    assert holder(folder, NAME) == os.getpid() == lock.pid
    assert in_child(lambda: holder(folder, NAME)).value == os.getpid()
    lock.release()


@pytest.mark.parametrize("text", [b"", b"x" * 100, b"-1", b"\xff\xfe", b"12 34"])
def test_a_lock_file_without_a_process_id_is_not_an_error(folder, text):
    (folder.path / NAME).write_bytes(text)
    assert holder(folder, NAME) is None
    try_lock(folder, NAME).release()
    assert holder(folder, NAME) == os.getpid()


def test_a_killed_holder_holds_nothing(folder):
    def hold_and_die():
        assert try_lock(folder, NAME) is not None
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(hold_and_die).signal == signal.SIGKILL
    try_lock(folder, NAME).release()


@pytest.mark.parametrize("how", ["release", "remove"])
def test_a_forked_process_that_ends_does_not_release_its_parents_lock(folder, how):
    lock = try_lock(folder, NAME)
    in_child(lock.release if how == "release" else lambda: lock.remove(folder))
    assert not can_lock(folder) and lock.is_current(folder)
    lock.release()


def test_a_process_that_was_forked_meanwhile_holds_no_lock_that_its_parent_has_let_go_of(folder):
    lock = try_lock(folder, NAME)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(write)
        os.read(read, 1)  # as a worker of a pool waits for work
        os._exit(0)
    try:
        lock.release()
        lock.release()
        assert can_lock(folder)
    finally:
        os.close(write)
        os.waitpid(pid, 0)
        os.close(read)


def test_a_holder_whose_file_was_removed_finds_out(folder):
    lock = try_lock(folder, NAME)
    assert lock.is_current(folder)
    folder.remove(NAME)
    assert not lock.is_current(folder)
    other = try_lock(folder, NAME)
    assert other is not None and not lock.is_current(folder)
    lock.remove(folder)  # not the other's
    assert other.is_current(folder)
    other.remove(folder)
    assert folder.names() == []


@pytest.mark.slow
def test_who_removes_locks_and_who_waits_for_them_never_hold_one_together(folder):
    """Many rounds of locking and removing in several processes: a counter loses no step."""
    counter = folder.path / "counter"
    counter.write_text("0")

    def step() -> None:
        while (lock := try_lock(folder, NAME)) is None:
            time.sleep(0.0001)
        counter.write_text(str(int(counter.read_text()) + 1))
        lock.remove(folder)

    pids = []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            try:
                for _ in range(100):
                    step()
                os._exit(0)
            finally:
                os._exit(1)
        pids.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * 4
    assert counter.read_text() == "400"


@pytest.mark.parametrize("kind", SPECIAL)
def test_an_odd_lock_file_is_an_error_and_left_as_it_is(folder, kind):
    make_special(folder.path / NAME, kind)
    before = set(folder.names())
    with pytest.raises(OSError):
        try_lock(folder, NAME)
    assert set(folder.names()) == before
    assert kind != "link" or (folder.path / "elsewhere").read_bytes() == b"private"


@pytest.mark.slow
@pytest.mark.parametrize("kept", [b"private", b"", b"x" * 100])
def test_nothing_is_written_through_a_hard_link_in_the_place_of_a_lock(folder, kept):
    elsewhere = folder.path / "elsewhere"
    elsewhere.write_bytes(kept)
    os.link(elsewhere, folder.path / NAME)
    lock = try_lock(folder, NAME)
    assert elsewhere.read_bytes() == kept and elsewhere.stat().st_nlink == 1
    assert lock.is_current(folder) and holder(folder, NAME) == os.getpid()
    assert not can_lock(folder)
    lock.release()
    assert can_lock(folder)


@pytest.mark.parametrize("odd", ["another file at each look", "more names than one"])
def test_a_disk_where_no_lock_is_ever_in_force_is_an_error_and_not_waited_for(
    folder, monkeypatch, odd
):
    real, numbers = os.fstat, iter(range(10_000))

    def fstat(descriptor):
        found = list(real(descriptor))
        if odd == "more names than one":
            found[3] = 2
        elif stat.S_ISREG(found[0]):
            found[1] = next(numbers)
        return os.stat_result(found)

    monkeypatch.setattr(os, "fstat", fstat)
    open_before = os.listdir("/dev/fd")
    with pytest.raises(OSError, match="can't be locked") as caught:
        try_lock(folder, NAME)
    assert caught.value.errno == errno.ENOLCK
    assert len(os.listdir("/dev/fd")) == len(open_before)
