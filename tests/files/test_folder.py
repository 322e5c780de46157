"""The private folder: who may write to it, what is read from it, and replacing a file whole."""

from __future__ import annotations

import errno
import os
import stat

import pytest

from ore.errors import FileAccessError
from ore.files import UnfitFileError, reason
from ore.files.folder import Folder
from tests.support.faults import Intercepted, failing
from tests.support.sessions import SPECIAL, make_special


@pytest.fixture
def folder(tmp_path):
    with Folder(tmp_path / "private", make=True) as folder:
        yield folder


def mode_of(path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_folders_and_files_are_made_for_their_owner_only(tmp_path, umask):
    before = os.umask(umask)
    try:
        with Folder(tmp_path / "a" / "b", make=True) as folder:
            folder.replace("file", ".tmp", [b"x"], 0o600)
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "a") == mode_of(tmp_path / "a" / "b") == 0o700
    assert mode_of(tmp_path / "a" / "b" / "file") == 0o600


def test_a_folder_that_is_not_there_is_made_only_when_asked(tmp_path):
    with pytest.raises(FileNotFoundError), Folder(tmp_path / "a"):
        pass
    assert not (tmp_path / "a").exists()


def test_a_folder_is_made_also_where_the_file_system_syncs_files_only(tmp_path):
    def make(name: str, at: int = 0) -> list[str]:
        path = tmp_path / name
        with Intercepted(at, failing(errno.EINVAL)) as calls, Folder(path, make=True):
            assert path.is_dir()
        return calls.names

    make("refused", make("synced").index("fsync") + 1)


@pytest.mark.parametrize("mode", [0o702, 0o722, 0o777])
def test_a_folder_that_others_can_write_to_is_refused(tmp_path, mode):
    tmp_path.chmod(mode)
    with pytest.raises(FileAccessError, match="is used: others can write to it; run chmod go-w "):
        with Folder(tmp_path):
            pass


def test_a_file_that_others_can_write_to_is_refused(tmp_path, folder):
    folder.replace("file", ".tmp", [b"x"], 0o600)
    assert folder.read("file", 10)[0] == b"x"
    (tmp_path / "private/file").chmod(0o606)
    with pytest.raises(UnfitFileError, match="others can write to it; run chmod go-w "):
        folder.read("file", 10)


def test_a_folder_is_closed_when_its_block_ends_and_when_it_is_refused(tmp_path):
    before = len(os.listdir("/dev/fd"))
    with Folder(tmp_path):
        assert len(os.listdir("/dev/fd")) == before + 1
    assert len(os.listdir("/dev/fd")) == before
    tmp_path.chmod(0o777)
    with pytest.raises(FileAccessError), Folder(tmp_path):
        pass
    assert len(os.listdir("/dev/fd")) == before


def test_a_folder_that_was_not_opened_is_of_no_use(tmp_path):
    with pytest.raises(AttributeError):
        Folder(tmp_path).names()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_folder_of_another_user_is_refused(tmp_path):
    os.chown(tmp_path, 12345, -1)
    with (
        pytest.raises(FileAccessError, match="belongs to another user.*ORE_MODEL_DIR"),
        Folder(tmp_path),
    ):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give links away")
def test_a_folder_behind_a_link_of_another_user_is_refused(tmp_path):
    (tmp_path / "real/ore").mkdir(parents=True, mode=0o700)
    (tmp_path / "link").symlink_to("real")
    with Folder(tmp_path / "link/ore"):
        os.chown(tmp_path / "link", 12345, -1, follow_symlinks=False)
    with (
        pytest.raises(FileAccessError, match=f"run chown -h 0 {tmp_path}/link.$"),
        Folder(tmp_path / "link/ore"),
    ):
        pass


def test_a_folder_of_ore_s_home_is_refused_where_others_can_write_to_that_by_now(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("ORE_HOME", str(tmp_path))
    with Folder(tmp_path / "sessions", make=True):
        tmp_path.chmod(0o777)
    with (
        pytest.raises(FileAccessError, match=f"others can write to it; run chmod go-w {tmp_path};"),
        Folder(tmp_path / "sessions"),
    ):
        pass


@pytest.mark.parametrize("kind", ["link", "dangling link", "file"])
def test_a_path_that_is_not_a_folder_is_refused(tmp_path, kind):
    path, target = tmp_path / "sessions", tmp_path / "target"
    if kind == "link":
        target.mkdir()
    if kind == "file":
        path.write_bytes(b"")
    else:
        path.symlink_to(target)
    with pytest.raises(FileAccessError, match="is a symbolic link or not a folder"):
        with Folder(path, make=True):
            pass
    assert kind == "link" or not target.exists()


def test_a_path_with_a_label_in_it_is_shown_on_one_line(tmp_path):
    path = tmp_path / "x\nYou: hi\x1b[2J"
    path.write_bytes(b"")
    with pytest.raises(FileAccessError) as caught:
        with Folder(path):
            pass
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("kind", SPECIAL)
def test_only_a_regular_file_is_read(folder, kind):
    make_special(folder.path / "x", kind)
    with pytest.raises(UnfitFileError) as caught:
        folder.read("x", 100)
    link = "link" in kind
    assert reason(caught.value) == "it is " + ("a symbolic link" if link else "not a regular file")


def test_a_file_larger_than_the_limit_is_refused_and_not_cut(folder):
    (folder.path / "x").write_bytes(b"12345")
    assert folder.read("x", 5)[0] == b"12345"
    with pytest.raises(UnfitFileError, match="it is larger than 4 bytes$"):
        folder.read("x", 4)


def test_writing_never_follows_a_link(folder):
    make_special(folder.path / "x", "link")
    with pytest.raises(OSError):
        folder.open("x", os.O_WRONLY)
    (folder.path / ".tmp").symlink_to(folder.path / "elsewhere")
    folder.replace("y", ".tmp", [b"new"], 0o600)
    assert (folder.path / "elsewhere").read_bytes() == b"private"


def test_replacing_puts_all_chunks_under_the_name_and_leaves_no_other_file(folder):
    (folder.path / ".tmp").write_bytes(b"left by a kill")
    (folder.path / "x").write_bytes(b"old")
    status, is_confirmed = folder.replace(
        "x", ".tmp", [b"a" * 100_000, bytearray(b"b"), b""], 0o600
    )
    assert is_confirmed
    assert (folder.path / "x").read_bytes() == b"a" * 100_000 + b"b"
    assert folder.names() == ["x"]
    assert os.path.samestat(status, folder.stat("x")) and status.st_size == 100_001


def test_a_chunk_that_fails_leaves_the_old_file_and_nothing_else(folder):
    def chunks():
        yield b"half"
        raise RuntimeError

    (folder.path / "x").write_bytes(b"old")
    with pytest.raises(RuntimeError):
        folder.replace("x", ".tmp", chunks(), 0o600)
    assert (folder.path / "x").read_bytes() == b"old"
    assert folder.names() == ["x"]


def test_the_folder_that_was_opened_is_used_even_when_its_path_is_another_by_now(folder, tmp_path):
    folder.path.rename(tmp_path / "moved")
    (tmp_path / "victim").mkdir()
    folder.path.symlink_to(tmp_path / "victim")
    folder.replace("x", ".tmp", [b"x"], 0o600)
    assert folder.has("x") and (tmp_path / "moved" / "x").exists()
    assert os.listdir(tmp_path / "victim") == []


def test_has_tells_a_missing_file_from_one_that_is_there(folder):
    assert not folder.has("x")
    (folder.path / "x").mkdir()
    assert folder.has("x")
    folder.rename("x", "y")
    assert folder.names() == ["y"]
