"""Replacing files whole: the old one or the new one, and nothing beside it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ore import files


@pytest.fixture
def folder(tmp_path) -> Path:
    path = tmp_path / "folder"
    path.mkdir()
    return path


def test_a_file_is_replaced_whole_and_nothing_is_left_beside_it(folder):
    path = folder / ("n" * 250)
    files.replace_file(path, [b"one ", b"two"])
    files.replace_file(path, [b"three"])
    assert path.read_bytes() == b"three"
    assert os.listdir(folder) == [path.name]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_failure_while_writing_leaves_the_old_file_and_no_other(folder):
    def breaking():
        yield b"new"
        raise OSError("the disk is full")

    path = folder / "file"
    path.write_text("old")
    with pytest.raises(OSError, match="the disk is full"):
        files.replace_file(path, breaking())
    assert path.read_text() == "old"
    assert os.listdir(folder) == ["file"]


def test_a_name_that_can_not_be_taken_leaves_what_is_there(folder):
    (folder / "taken" / "inner").mkdir(parents=True)
    with pytest.raises(OSError):
        files.replace_file(folder / "taken", [b"new"])
    assert os.listdir(folder) == ["taken"]


def test_what_an_interrupted_process_left_is_not_in_the_way(folder):
    path = folder / "file"
    (folder / f".file.{os.getpid()}.tmp").write_text("left")
    files.replace_file(path, [b"new"])
    assert path.read_bytes() == b"new"
