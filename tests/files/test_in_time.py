"""A call that is waited for so long and no longer."""

from __future__ import annotations

import threading
import time

import pytest

from ore.files.in_time import OutOfTime, in_time


@pytest.mark.parametrize("seconds", [None, 60.0])
def test_what_is_done_in_time_is_returned_or_raised(seconds):
    assert in_time(seconds, lambda: "done") == "done"
    assert in_time(seconds, lambda: None) is None
    with pytest.raises(KeyError, match="missing"):
        in_time(seconds, lambda: {}["missing"])


def test_what_takes_longer_is_left_behind():
    over, started = threading.Event(), time.monotonic()
    with pytest.raises(OutOfTime, match=r"^nothing came for 0\.05 s$"):
        in_time(0.05, over.wait)
    assert time.monotonic() - started < 30
    over.set()


def test_without_a_thread_it_is_waited_for(monkeypatch):
    def start(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", start)
    assert in_time(0.001, lambda: time.sleep(0.01) or "done") == "done"
