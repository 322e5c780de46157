"""What was typed is kept where it was asked for, and is never a reason to stop."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ore.cli.terminal.history import MOST_BYTES, MOST_ENTRIES, History
from ore.files.folder import Folder
from tests.support.process import ROOT


@pytest.fixture
def path(home):
    return home / ".ore" / "history"


def test_entries_come_back_in_order_even_those_of_several_lines(path):
    entries = ["one", "two\nlines\r\n", "back\\slash \\n", "語 \u2028 é"]
    for entry in entries:
        History(path).add(entry)
    assert History(path).entries() == entries
    assert path.read_text().count("\n") == len(entries)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=50))
def test_any_text_is_one_line_and_comes_back(path, entry):
    path.unlink(missing_ok=True)
    History(path).add(entry)
    assert History(path).entries() == [entry]
    assert path.read_bytes().count(b"\n") == 1


def test_only_this_user_can_read_it_whatever_the_umask_and_its_mode_before(path):
    before = os.umask(0)
    try:
        History(path).add("secret")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    History(path).add("more")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_entry_is_added_to_what_is_there_by_then_and_the_file_replaced_whole(path):
    one, other = History(path), History(path)
    one.add("one")
    with open(path, "rb") as old:
        other.add("two")
        assert old.read() == b"one\n"
    assert one.entries() == ["one", "two"]
    assert os.listdir(path.parent) == ["history"]


ADD = """
import sys
from pathlib import Path
from ore.cli.terminal.history import History
kept, name = History(Path(sys.argv[1])), sys.argv[2]
print("ready", flush=True)
sys.stdin.read()
for number in range(40):
    kept.add(f"{name} {number}")
"""


@pytest.mark.slow
def test_what_several_add_at_once_is_all_kept(path):
    names = ("one", "two", "three")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    several = [
        subprocess.Popen([sys.executable, "-c", ADD, path, name], cwd=ROOT, **pipes)
        for name in names
    ]
    assert [each.stdout.readline() for each in several] == [b"ready\n"] * 3
    for each in several:
        each.stdin.close()
    assert [each.wait() for each in several] == [0, 0, 0]
    entries = {f"{name} {number}" for name in names for number in range(40)}
    assert set(path.read_text().splitlines()) == entries
    for each in several:
        each.stdout.close()


@pytest.mark.slow
def test_one_that_was_stopped_while_it_adds_is_not_waited_for(path):
    History(path).add("one")
    with Folder(path.parent) as stopped:
        stopped.take_turns(0.1)
        History(path).add("two")
    assert History(path).entries() == ["one", "two"]


def test_the_last_thousand_are_kept(path):
    path.parent.mkdir(mode=0o700)
    path.write_text("".join(f"entry {n}\n" for n in range(MOST_ENTRIES + 5)))
    kept = History(path)
    assert kept.entries()[0] == "entry 5"
    kept.add("last")
    assert path.read_text().splitlines()[:: MOST_ENTRIES - 1] == ["entry 6", "last"]


@pytest.mark.parametrize("which", ["file", "folder"])
def test_what_others_can_write_to_is_said_and_not_read(which, path):
    path.parent.mkdir(mode=0o700)
    path.write_text("theirs\n")
    (path if which == "file" else path.parent).chmod(0o777)
    kept = History(path)
    assert kept.entries() == [] and kept.path is None and path.read_text() == "theirs\n"
    assert str(path if which == "file" else path.parent) in kept.problem
    assert "is used: others can write to it; run" in kept.problem.replace("not used", "used")
    path.parent.chmod(0o700)
    path.chmod(0o600)
    assert (kept := History(path)).entries() == ["theirs"] and not kept.problem


def test_an_entry_that_is_too_long_is_not_kept(path):
    History(path).add("x" * MOST_BYTES)
    assert not path.exists()


def test_an_entry_of_a_damaged_file_that_is_too_long_is_passed_over(path):
    path.parent.mkdir()
    path.write_bytes(b"x" * MOST_BYTES + b"\n" + b"short\n")
    assert History(path).entries() == ["short"]


def test_without_a_file_nothing_is_kept(home):
    none = History(None)
    none.add("two")
    assert none.entries() == [] and not (home / ".ore").exists()


def test_a_folder_that_one_s_own_link_leads_to_is_used(tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "ore").symlink_to("real")
    kept = History(tmp_path / "ore/history")
    kept.add("mine")
    assert kept.entries() == ["mine"] and (tmp_path / "real/history").read_text() == "mine\n"


def test_nothing_is_added_below_a_home_that_is_opened_to_others_meanwhile(tmp_path, monkeypatch):
    """A link of one's own leads to the home: behind it, its folders do not look like the home's."""
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "ore").symlink_to("real")
    monkeypatch.setenv("ORE_HOME", str(tmp_path / "ore"))
    kept = History(tmp_path / "ore/sessions/a.typed")
    kept.add("mine")
    (tmp_path / "real").chmod(0o777)
    kept.add("secret")
    assert kept.path is None and (tmp_path / "real/sessions/a.typed").read_text() == "mine\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give links away")
def test_a_folder_that_another_user_s_link_leads_to_is_not_used(tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "ore").symlink_to("real")
    History(tmp_path / "ore/history").add("mine")
    os.chown(tmp_path / "ore", 12345, -1, follow_symlinks=False)
    kept = History(tmp_path / "ore/history")
    assert kept.entries() == [] and "it belongs to another user" in kept.problem
    History(tmp_path / "ore/history").add("theirs")
    assert (tmp_path / "real/history").read_text() == "mine\n"


@pytest.mark.parametrize("kind", ["folder", "link", "fifo", "bytes", "open to others"])
def test_something_else_in_place_of_the_history_is_left_alone(path, kind, tmp_path):
    path.parent.mkdir(mode=0o700)
    target = tmp_path / "target"
    target.write_text("mine")
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(target)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "bytes":
        path.write_bytes(b"\xff\x00\n")
    else:
        path.parent.chmod(0o777)
    kept = History(path)
    assert kept.entries() == (["\ufffd\x00"] if kind == "bytes" else [])
    kept.add("entry")
    assert target.read_text() == "mine"
    if kind == "bytes":
        assert path.read_bytes() == b"\xff\x00\nentry\n"
    else:
        assert kept.path is None
