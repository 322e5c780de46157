"""What was typed is kept for the next run, and is never a reason to stop."""

from __future__ import annotations

import os
import stat

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ore.cli.terminal.editing import MOST_BYTES, MOST_ENTRIES, History


def history(**environ: str) -> History:
    return History({**os.environ, **environ})


@pytest.fixture
def path(home):
    return home / ".ore" / "history"


def test_entries_come_back_in_order_even_those_of_several_lines(path):
    entries = ["one", "two\nlines\r\n", "back\\slash \\n", "語 \u2028 é"]
    for entry in entries:
        history().add(entry)
    assert history().entries() == entries
    assert path.read_text().count("\n") == len(entries)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=50))
def test_any_text_is_one_line_and_comes_back(path, entry):
    path.unlink(missing_ok=True)
    history().add(entry)
    assert history().entries() == [entry]
    assert path.read_bytes().count(b"\n") == 1


def test_only_this_user_can_read_it_whatever_the_umask_and_its_mode_before(path):
    before = os.umask(0)
    try:
        history().add("secret")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    history().add("more")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_last_thousand_are_kept(path):
    path.parent.mkdir(mode=0o700)
    path.write_text("".join(f"entry {n}\n" for n in range(MOST_ENTRIES + 5)))
    assert history().entries()[0] == "entry 5"
    assert len(path.read_text().splitlines()) == MOST_ENTRIES
    assert os.listdir(path.parent) == ["history"]


def test_an_entry_that_is_too_long_is_not_kept(path):
    history().add("x" * MOST_BYTES)
    assert not path.exists()


def test_the_history_can_be_switched_off(path):
    history().add("one")
    none = history(ORE_NO_HISTORY="1")
    none.add("two")
    assert (none.entries(), history().entries()) == ([], ["one"])


@pytest.mark.parametrize("kind", ["folder", "link", "fifo", "bytes", "no home"])
def test_something_else_in_place_of_the_history_is_left_alone(path, kind, tmp_path):
    path.parent.mkdir(mode=0o700)
    target = tmp_path / "target"
    target.write_text("mine")
    environ = {"ORE_HOME": "relative"} if kind == "no home" else {}
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(target)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "bytes":
        path.write_bytes(b"\xff\x00\n")
    kept = history(**environ)
    assert kept.entries() == (["\ufffd\x00"] if kind == "bytes" else [])
    kept.add("entry")
    assert target.read_text() == "mine"
