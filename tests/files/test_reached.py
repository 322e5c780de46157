"""Whether it can be told what is at a path, or in it."""

from __future__ import annotations

import errno
import os

import pytest

from ore.errors import FileAccessError
from ore.files import UnfitFileError
from ore.files.reached import why_unknown, why_unread


@pytest.mark.parametrize(
    "path, why",
    [
        ("file", ""),
        ("nothing", ""),
        ("file/below", ""),
        ("n\0", ""),
        ("n" * 300, ""),
        ("loop/below", "too many levels of symbolic links"),
    ],
    ids=["file", "nothing", "below a file", "zero byte", "too long", "loop"],
)
def test_what_is_not_there_is_known_and_what_can_not_be_looked_at_is_not(path, why, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    assert why_unknown(f"{tmp_path}/{path}") == why


@pytest.mark.parametrize(
    "cause, why",
    [
        (PermissionError(errno.EACCES, os.strerror(errno.EACCES)), "permission denied"),
        (OSError(errno.EIO, os.strerror(errno.EIO)), "input/output error"),
        (OSError(errno.ELOOP, os.strerror(errno.ELOOP)), ""),  # a link, which is not followed
        (FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)), ""),
        (UnfitFileError(errno.EPERM, "it is not a regular file"), ""),
        (OSError("it came apart"), ""),
        (ValueError("it is no JSON"), ""),
        (None, ""),
    ],
)
def test_only_what_the_system_says_is_why_a_file_was_not_read(cause, why):
    error = FileAccessError("a.json can't be read.", "a.json")
    error.__cause__ = cause
    assert why_unread(error) == why
