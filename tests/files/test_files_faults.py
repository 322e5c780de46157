"""Reading and replacing files while any one system call fails, or somebody swaps what is opened."""

from __future__ import annotations

import errno
import os
from itertools import count

import pytest

from ore import files
from tests.support.faults import Intercepted, in_child


def failing(code: int):
    """Let the call fail as the system would."""

    def act(name, real, args, kwargs):
        raise OSError(code, os.strerror(code))

    return act


def outcome(action, at: int, act) -> tuple[str, str]:
    """What ``action`` raises when its call number ``at`` is acted on, or ``""``; and that call.

    It is for a forked process: a call that fails may leave something open.
    """
    with Intercepted(at, act) as seen:
        try:
            action()
            raised = ""
        except Exception as exc:
            raised = f"{type(exc).__name__}: {exc}"
    return raised, seen.names[at - 1] if seen.has_acted else ""


STEPS = ["open", "write", "fsync", "fstat", "close", "replace", "open", "fsync", "close"]
"""The calls that replace a file: the last three put its folder on disk."""
IN_FOLDER = STEPS.index("replace") + 1
FORGIVEN = {
    errno.EIO: [],
    errno.EACCES: [IN_FOLDER],
    errno.EINVAL: [IN_FOLDER + 1],
    errno.ENOTSUP: [IN_FOLDER + 1],
}
"""Which steps may fail so: a folder may be unreadable, or not be one that can be synced."""


@pytest.mark.invariant
@pytest.mark.parametrize("code", FORGIVEN, ids=errno.errorcode.get)
def test_a_file_is_the_old_or_the_new_one_whatever_call_fails(tmp_path, code):
    path = tmp_path / "folder" / "file"
    path.parent.mkdir()

    def replaced(at: int, act) -> tuple[str, str]:
        return outcome(lambda: files.replace_file(path, [b"new"]), at, act)

    def check() -> None:
        for step, expected in enumerate(STEPS):
            path.write_bytes(b"old")
            raised, call = replaced(step + 1, failing(code))
            assert call == expected
            assert raised == "" if step in FORGIVEN[code] else os.strerror(code) in raised
            assert path.read_bytes() == (b"old" if step < IN_FOLDER else b"new")
            assert os.listdir(path.parent) == ["file"]
        assert replaced(len(STEPS) + 1, None) == ("", "")

    in_child(check)


@pytest.mark.parametrize("read", [files.read_regular, files.read_confined])
def test_a_call_that_fails_while_reading_is_one_sentence(tmp_path, read):
    (tmp_path / "file").write_bytes(b"text")
    arguments = (tmp_path / "file",) if read is files.read_regular else (tmp_path, "file")

    def check() -> None:
        failed = set()
        for at in count(1):
            raised, call = outcome(lambda: read(*arguments, 100), at, failing(errno.EIO))
            if not call:
                break
            failed.add(call)
            if call == "close":  # everything was read by then
                assert raised == ""
                continue
            assert raised.startswith("FileAccessError: ") and raised.endswith("nput/output error.")
        assert failed >= {"open", "fstat", "read", "close"}

    in_child(check)


@pytest.mark.parametrize("swapped", ["a link", "a FIFO"])
def test_a_file_that_is_swapped_before_it_is_opened_is_refused(tmp_path, swapped):
    secret, path = tmp_path / "secret", tmp_path / "root" / "file"
    path.parent.mkdir()
    secret.write_text("secret")

    def swap(name, real, args, kwargs):
        path.unlink()
        path.symlink_to(secret) if swapped == "a link" else os.mkfifo(path)
        return real(*args, **kwargs)

    path.write_text("mine")
    # The calls: open the folder, look at the file, open it.
    found = in_child(
        lambda: outcome(lambda: files.read_confined(path.parent, "file", 100), 3, swap)
    )
    raised, call = found.value
    assert call == "open"
    assert raised.startswith("PermissionError" if swapped == "a link" else "FileAccessError")
