"""The private folder of an engine's process, and what of others' is removed beside it."""

from __future__ import annotations

import errno
import os
import socket
import stat
import subprocess
import sys
import tempfile

import pytest

from ore.backends import engine_folder
from ore.backends.engine_folder import LOG, SOCKET, open_log, private_folder
from ore.errors import BackendError
from tests.support.process import PATIENCE, ROOT, environment

# The handler comes while the package looks for the folder of temporary files, once, and holds a lock.
WHILE_IT_LOOKS = """
import os, signal, sys
from ore.backends.engine_folder import private_folder

made = []
signal.signal(signal.SIGALRM, lambda *_: made.append(private_folder()))

def look(event, given):
    if event == "open" and not heard and str(given[0]).startswith(os.environ["TMPDIR"]):
        heard.append(True)
        signal.raise_signal(signal.SIGALRM)

heard = []
sys.addaudithook(look)
made.append(private_folder())
sys.stdout.write(str(len(set(made))))
"""


@pytest.fixture
def parent(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def left(parent, name="ore-engine-left", files=(LOG, SOCKET), age=3600.0, mode=0o700):
    """Make what a killed process leaves; return its path."""
    folder = parent / name
    folder.mkdir()
    folder.chmod(mode)
    for file in files:
        (folder / file).touch()
    status = folder.stat()
    os.utime(folder, (status.st_atime, status.st_mtime - age))
    return folder


def test_it_is_for_its_user_alone_and_has_a_path_that_a_socket_can_have(tmp_path, monkeypatch):
    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    folder = private_folder()
    try:
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        with socket.socket(socket.AF_UNIX) as mine:
            mine.bind(os.path.join(folder, SOCKET))
        assert os.listdir(deep) == []
    finally:
        os.unlink(os.path.join(folder, SOCKET))
        os.rmdir(folder)


def test_a_path_that_is_too_long_is_to_be_shorter_where_tmp_can_t_be_written_to(
    tmp_path, monkeypatch
):
    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    make = tempfile.mkdtemp

    def made(prefix, dir=None):
        if dir == "/tmp":
            raise OSError(errno.EROFS, "Read-only file system")
        return make(prefix=prefix)

    monkeypatch.setattr("tempfile.mkdtemp", made)
    with pytest.raises(BackendError, match="in /tmp .*: name a folder with a shorter path"):
        private_folder()


@pytest.mark.parametrize("umask", [0, 0o177, 0o477, 0o777])
def test_it_can_be_entered_and_its_log_read_whatever_the_umask(tmp_path, monkeypatch, umask):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = os.umask(umask)
    try:
        folder = private_folder()
        open_log(folder).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(os.path.join(folder, LOG)).st_mode) == 0o600


@pytest.mark.slow
def test_a_signal_s_handler_may_make_one_while_another_is_made(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WHILE_IT_LOOKS],
        env=environment(PYTHONPATH=str(ROOT), TMPDIR=str(tmp_path)),
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
    )
    assert done.stdout == "2"


@pytest.mark.parametrize("files", [(), (LOG,), (LOG, SOCKET), (SOCKET,)])
def test_what_a_killed_process_left_is_removed(parent, files):
    gone = left(parent, files=files)
    made = private_folder()
    assert not gone.exists() and os.path.isdir(made)


@pytest.mark.parametrize(
    "kind",
    [
        {"age": 1.0},
        {"files": (LOG, "notes.txt")},
        {"files": (), "mode": 0o755},
        {"files": (), "name": "ore-k2f9xq"},
        {"name": "other"},
    ],
    ids=["being made", "somebody's own", "made by hand", "made by mktemp", "another name"],
)
def test_what_may_be_anybody_s_is_left_alone(parent, kind):
    folder = left(parent, **kind)
    before = os.listdir(folder)
    private_folder()
    assert os.listdir(folder) == before


def test_a_folder_whose_log_a_process_has_open_is_in_use(parent):
    folder = private_folder()
    with open_log(folder):
        os.utime(folder, (0, 0))
        private_folder()
        assert os.listdir(folder) == [LOG]
    private_folder()
    assert not os.path.exists(folder)


def test_a_disk_with_another_clock_than_the_system_s_keeps_what_was_made_just_now(
    parent, monkeypatch
):
    other, gone = left(parent, files=(), age=1.0), left(parent, name="ore-engine-old")
    monkeypatch.setattr("time.time", lambda: 0.0)
    folder = private_folder()
    assert os.path.isdir(folder) and other.exists() and not gone.exists()


def test_a_link_is_not_followed(parent, tmp_path_factory):
    real = left(tmp_path_factory.mktemp("elsewhere"))
    (parent / "ore-engine-link").symlink_to(real)
    (parent / "ore-engine-log").mkdir()
    (parent / "ore-engine-log" / LOG).symlink_to(real / LOG)
    os.utime(parent / "ore-engine-log", (0, 0))
    private_folder()
    assert set(os.listdir(real)) == {LOG, SOCKET}
    assert os.path.lexists(parent / "ore-engine-log" / LOG)


def test_a_log_that_has_no_room_is_the_folder_s_fault_not_the_engine_s(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(engine_folder, "open", full, raising=False)
    with pytest.raises(BackendError, match="No space left on device.*TMPDIR"):
        engine_folder.open_log(str(tmp_path))
