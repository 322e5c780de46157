"""How far, how fast, how long still."""

from __future__ import annotations

import io

import pytest

from ore.cli.terminal.console import Console
from ore.cli.terminal.ended import counted
from ore.cli.terminal.pace import Counted, Pace, amount, in_words
from tests.support.harness import Terminal


def test_an_amount_is_a_bar_only_where_the_whole_is_known():
    assert amount(0, 0) == "…"
    assert amount(5_000_000, 0) == "5.0 MB"
    assert amount(5_000_000, 10_000_000) == f"[{'#' * 15}{'.' * 15}]  50% of 10.0 MB"
    assert amount(1_321_000_000, 1_321_000_000).endswith("] 100% of 1.32 GB")


@pytest.mark.parametrize("room", range(1, 80))
def test_a_bar_never_needs_more_than_there_is(room):
    shown = amount(500_000_000, 2_000_000_000, ", 23.1 MB/s, 65 s left", room)
    assert len(shown) <= room
    assert shown.endswith(" s left") or "MB/s" not in shown  # a speed is shown whole or not at all


def test_the_pace_is_that_of_the_last_seconds_and_what_was_there_before_does_not_count():
    pace = Pace()
    assert pace.after(100.0, 900_000_000, 1_000_000_000) == ""
    assert pace.after(100.5, 910_000_000, 1_000_000_000) == ""  # too early to tell
    assert pace.after(102.0, 920_000_000, 1_000_000_000) == ", 10.0 MB/s, 8 s left"
    for second in range(103, 130):  # it stands still
        last = pace.after(float(second), 920_000_000, 1_000_000_000)
    assert last == ""
    pace.after(130.0, 920_000_000, 1_000_000_000)
    assert pace.after(132.0, 1_000_000_000, 1_000_000_000).endswith("MB/s")


@pytest.mark.parametrize(
    "seconds, said",
    [(0.2, "0 s"), (99, "99 s"), (101, "2 min"), (3600, "60 min"), (7200, "2 h"), (4e5, "5 days")],
)
def test_a_time_is_said_as_a_person_does(seconds, said):
    assert in_words(seconds) == said


def test_what_is_counted_is_drawn_now_and_then_with_the_time_left():
    times, shown = iter([0.0, 0.1, 2.0, 2.1, 4.0]), []
    told = Counted(shown.append, "read", lambda: next(times))
    for number in (1, 1_000, 1_001, 2_000):
        told(number, 5_000)
    assert shown == ["1,000 of 5,000 read, 8 s left", "2,000 of 5,000 read, 6 s left"]


def test_a_bar_is_gone_whatever_ends_what_it_counts():
    err = Terminal()
    console = Console(None, io.StringIO(), err, {"TERM": "xterm"})
    with pytest.raises(KeyboardInterrupt), counted(console, "checked"):
        assert console.bar("checked 1 of 2")
        raise KeyboardInterrupt
    assert err.getvalue().endswith("\r" + " " * len("checked 1 of 2") + "\r")
