"""Reading what others may have prepared: real files, real links, a real race."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ore import files
from ore.errors import FileAccessError, OutputError
from ore.files.owned import check_owned, write_owned

LIMIT = 1024
ON_LINUX = sys.platform == "linux"
RENAME_EXCHANGE = 2
AT_FDCWD = -100


@pytest.fixture
def root(tmp_path) -> Path:
    """A folder with a file, a folder and links, and a secret beside it."""
    (tmp_path / "secret").write_text("secret")
    folder = tmp_path / "root"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("a")
    (folder / "sub" / "b.txt").write_text("b")
    (folder / "out").symlink_to(tmp_path / "secret")
    (folder / "in").symlink_to("a.txt")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "loop").symlink_to("loop")
    (folder / "up").symlink_to(tmp_path)
    (folder / "down").symlink_to("sub")
    return folder


def open_descriptors() -> int:
    return len(os.listdir("/dev/fd"))


# Regular files


def test_a_file_of_exactly_the_limit_is_read_whole(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * LIMIT)
    assert files.read_regular(path, LIMIT) == b"x" * LIMIT
    assert files.read_regular(str(path), 5 * LIMIT) == b"x" * LIMIT


def test_a_file_larger_than_a_chunk_is_read_whole(tmp_path):
    data = os.urandom(3_000_001)
    (tmp_path / "file").write_bytes(data)
    assert files.read_regular(tmp_path / "file", len(data)) == data


@pytest.mark.skipif(not ON_LINUX, reason="/proc is there on Linux only")
def test_a_file_that_reports_size_zero_is_read_and_still_bounded():
    assert b"\0" in files.read_regular("/proc/self/environ", 1 << 20)
    with pytest.raises(FileAccessError, match="larger than 4 bytes"):
        files.read_regular("/proc/self/status", 4)


def make_special(folder: Path, kind: str) -> Path:
    path = folder / "special"
    if kind == "folder":
        path.mkdir()
    elif kind == "FIFO":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            here = os.getcwd()
            os.chdir(folder)  # a socket's path may be 108 bytes long at most
            try:
                server.bind("special")
            finally:
                os.chdir(here)
    elif kind == "device":
        path = Path("/dev/zero")
    elif kind == "too large":
        path.write_bytes(b"x" * (LIMIT + 1))
    elif kind == "huge":
        with open(path, "wb") as file:
            file.truncate(10 << 30)
    return path


SPECIAL = [
    ("folder", "it is not a regular file"),
    ("FIFO", "it is not a regular file"),
    ("socket", "it is not a regular file"),
    ("device", "it is not a regular file"),
    ("too large", "it is larger than 1,024 bytes"),
    ("huge", "it is larger than 1,024 bytes"),
]


@pytest.mark.invariant
@pytest.mark.parametrize(("kind", "reason"), SPECIAL)
@pytest.mark.parametrize("confined", [False, True])
def test_what_is_not_a_small_regular_file_is_refused_at_once(tmp_path, kind, reason, confined):
    path = make_special(tmp_path, kind)
    before = open_descriptors()
    with pytest.raises(FileAccessError, match=f"^{path} can't be read: ({reason}).$") as caught:
        if confined:
            files.read_confined(path.parent, path.name, LIMIT)
        else:
            files.read_regular(path, LIMIT)
    assert Path(caught.value.path) == path
    assert open_descriptors() == before


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing", "no such file or directory"),
        ("a\0b", "no file can have that name"),
        ("\ud800", "no file can have that name"),
        ("x" * 300, "file name too long"),
    ],
)
def test_a_name_that_can_not_be_opened_is_one_printable_sentence(tmp_path, name, reason):
    with pytest.raises(FileAccessError, match=f"can't be read: {reason}.$") as caught:
        files.read_regular(f"{tmp_path}/{name}", LIMIT)
    assert str(caught.value).isprintable()


def test_a_name_with_control_characters_is_shown_not_obeyed(tmp_path):
    with pytest.raises(FileAccessError) as caught:
        files.read_regular(f"{tmp_path}/\x1b[2J\n", LIMIT)
    assert "\\x1b[2J\\n" in str(caught.value)


def test_a_link_is_followed_only_where_that_is_allowed(root):
    assert files.read_regular(root / "out", LIMIT) == b"secret"
    with pytest.raises(FileAccessError, match="out can't be read: it is a symbolic link.$"):
        files.read_regular(root / "out", LIMIT, follow=False)


# Confined files


@pytest.mark.parametrize(
    ("relative", "outcome"),
    [
        ("a.txt", b"a"),
        ("sub/b.txt", b"b"),
        ("out", "link"),
        ("in", "link"),
        ("dangling", "link"),
        ("loop", "link"),
        ("down/b.txt", "link"),
        ("up/secret", "link"),
        ("up/root/a.txt", "link"),
        ("down/missing", "link"),
        ("missing", FileNotFoundError),
        ("sub/missing", FileNotFoundError),
        ("missing/a.txt", FileNotFoundError),
        ("a.txt/b.txt", FileAccessError),
    ],
)
def test_what_is_below_a_folder_is_read_and_no_link_is_followed(root, relative, outcome):
    before = open_descriptors()
    if isinstance(outcome, bytes):
        assert files.read_confined(root, relative, LIMIT) == outcome
    elif outcome == "link":
        with pytest.raises(PermissionError) as caught:
            files.read_confined(root, relative, LIMIT)
        assert caught.value.errno == errno.ELOOP
    else:
        with pytest.raises(outcome):
            files.read_confined(root, relative, LIMIT)
    assert open_descriptors() == before


@pytest.mark.parametrize("relative", ["a.txt", "./a.txt", "sub//b.txt", "sub/./b.txt"])
def test_a_path_below_the_root_is_read(root, relative):
    assert files.read_confined(str(root), relative, LIMIT) == (b"b" if "b" in relative else b"a")


def test_the_root_itself_may_be_a_link(root, tmp_path):
    (tmp_path / "alias").symlink_to(root)
    assert files.read_confined(tmp_path / "alias", "sub/b.txt", LIMIT) == b"b"


def test_only_the_beginning_is_read_where_that_is_enough_and_the_limit_still_holds(root):
    (root / "long").write_bytes(b"x" * LIMIT)
    assert files.read_confined(root, "long", LIMIT, head=7) == b"x" * 7
    with pytest.raises(FileAccessError, match="larger than 1,023 bytes"):
        files.read_confined(root, "long", LIMIT - 1, head=7)


@pytest.mark.invariant
@pytest.mark.parametrize(
    ("relative", "reason"),
    [
        ("../secret", "leads out of the folder"),
        ("sub/../../secret", "leads out of the folder"),
        ("sub/..", "leads out of the folder"),
        ("/etc/passwd", "leads out of the folder"),
        ("//etc/passwd", "leads out of the folder"),
        ("", "leads out of the folder"),
        (".", "leads out of the folder"),
        ("out", "leads through a symbolic link"),
        ("in", "leads through a symbolic link"),
        ("up/secret", "leads through a symbolic link"),
        ("down/b.txt", "leads through a symbolic link"),
    ],
)
def test_a_path_that_leads_out_or_through_a_link_is_denied(root, relative, reason):
    with pytest.raises(PermissionError, match=reason):
        files.read_confined(root, relative, LIMIT)


@pytest.mark.parametrize(
    ("relative", "error"),
    [
        ("missing", FileNotFoundError),
        ("a.txt/b", FileAccessError),
        ("sub", FileAccessError),
        ("a\0b", FileAccessError),
        ("\ud800", FileAccessError),
        ("x" * 300, FileAccessError),
    ],
)
def test_what_is_in_the_folder_and_can_not_be_read_says_so(root, relative, error):
    with pytest.raises(error):
        files.read_confined(root, relative, LIMIT)


def test_a_file_used_as_a_folder_is_not_called_a_link_even_below_one(root, tmp_path):
    (tmp_path / "alias").symlink_to(root)
    with pytest.raises(FileAccessError, match="not a directory"):
        files.read_confined(tmp_path / "alias", "a.txt/b", LIMIT)


@given(st.text(alphabet="./ab\\~\0") | st.text(max_size=12))
def test_no_name_whatever_reads_the_file_outside(tmp_path_factory, relative):
    base = tmp_path_factory.getbasetemp() / "confined"
    (base / "a" / "b").mkdir(parents=True, exist_ok=True)
    (base / "b").write_text("secret")
    try:
        assert files.read_confined(base / "a", relative, LIMIT) != b"secret"
    except (PermissionError, FileNotFoundError, FileAccessError):
        pass


SWAP = """
import ctypes, sys
rename = ctypes.CDLL(None, use_errno=True).renameat2
one, other = (name.encode() for name in sys.argv[1:3])
while rename(-100, one, -100, other, 2) == 0:
    pass
"""


def can_exchange(folder: Path) -> bool:
    """Whether two names can be swapped in one step here; the two are left swapped back."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None) if ON_LINUX else None
    names = [os.fsencode(folder / name) for name in ("swapped", "other")]
    return rename is not None and all(
        rename(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) == 0 for _ in range(2)
    )


@pytest.mark.slow
@pytest.mark.invariant
@pytest.mark.parametrize("depth", ["file", "folder"])
def test_a_link_that_is_swapped_in_while_reading_never_leaks(tmp_path, depth):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("secret")
    inside = tmp_path / "root"
    inside.mkdir()
    if depth == "folder":
        (inside / "swapped").mkdir()
        (inside / "swapped" / "file").write_text("mine")
        (inside / "other").symlink_to(tmp_path / "outside")
    else:
        (inside / "swapped").write_text("mine")
        (inside / "other").symlink_to(tmp_path / "outside" / "file")
    if not can_exchange(inside):
        pytest.skip("names can't be exchanged on this file system")
    relative = "swapped/file" if depth == "folder" else "swapped"
    names = [str(inside / "swapped"), str(inside / "other")]
    seen = {"read": 0, "denied": 0}
    attacker = subprocess.Popen([sys.executable, "-I", "-S", "-c", SWAP, *names])
    try:
        deadline = time.monotonic() + 20
        while min(seen.values()) < 3_000 and time.monotonic() < deadline:
            try:
                assert files.read_confined(inside, relative, LIMIT) == b"mine"
                seen["read"] += 1
            except (PermissionError, FileAccessError):
                seen["denied"] += 1
    finally:
        attacker.kill()
        attacker.wait()
    assert min(seen.values()) > 0, "the swaps never met a read, so nothing was shown"


def test_a_file_that_goes_away_while_it_is_judged_is_no_traceback(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_bytes(b"<!doctype html>")

    def gone(path: str) -> int:
        os.unlink(path)
        return os.stat(path).st_size

    monkeypatch.setattr(os.path, "getsize", gone)
    write_owned(str(path), [b"<!doctype html>new"], b"<!doctype html>", "The report", 0o600)
    assert path.read_bytes() == b"<!doctype html>new"


def test_a_report_that_can_t_be_read_is_not_said_to_be_none(tmp_path):
    path = tmp_path / "report.html"
    path.write_bytes(b"<!doctype html>old")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        with pytest.raises(OutputError) as raised:
            check_owned(str(path), b"<!doctype html>", "The report")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert "there already and can't be read (too many open files); name" in str(raised.value)
