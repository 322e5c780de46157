"""Work that several threads do, and what comes of it in its order."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from ore.errors import UsageError
from ore.rows.in_order import in_order

LARGE = 64 << 20


@pytest.mark.slow
def test_nothing_more_is_begun_while_much_waits_for_an_earlier_piece():
    begun, goes_on, seen = [], threading.Event(), []

    def do(number):
        begun.append(number)
        assert number or goes_on.wait(10)
        return number

    def tick():
        seen.append(len(begun))
        if len(seen) > 5:
            goes_on.set()

    found = in_order(iter(range(60)), do, 3, tick=tick, every=0.05, size=lambda number: LARGE)
    assert [*found] == [*range(60)] and sorted(begun) == [*range(60)]
    assert 5 <= seen[5] <= 8


def test_no_more_is_read_while_much_of_what_was_read_waits():
    read, done = [], threading.Event()

    def items():
        for number in range(60):
            read.append(number)
            yield number

    def do(number):
        assert done.wait(10)
        return number

    def weight(number):
        return LARGE if number else 0

    found = in_order(items(), do, 3, tick=done.set, every=0.05, weight=weight)
    assert next(found) == 0 and len(read) == 6
    assert [*found] == [*range(1, 60)]


@pytest.mark.slow
def test_threads_that_wait_for_an_earlier_piece_end_with_the_work():
    def do(number):
        time.sleep(0.3 if number == 0 else 0)
        return number

    found = in_order(iter(range(60)), do, 3, tick=int, every=0.05, size=lambda number: LARGE)
    assert next(found) == 0
    found.close()
    until = time.monotonic() + 5
    while any(each.name.startswith("row-") for each in threading.enumerate()):
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.slow
def test_what_was_taken_leaves_room_for_several_at_once():
    together = threading.Barrier(2, timeout=5)

    def do(number):
        if number >= 20:
            together.wait()
        return number

    found = in_order(iter(range(30)), do, 2, tick=int, every=0.05, size=lambda number: LARGE)
    assert [*found] == [*range(30)]


def test_a_forked_child_is_told_that_it_has_no_threads_to_wait_for():
    gate = threading.Event()
    found = in_order(iter(range(2)), lambda number: number and gate.wait(), 2, tick=int, every=0.05)
    assert next(found) == 0
    if (child := os.fork()) == 0:
        signal.alarm(10)  # else it would wait for ever
        try:
            next(found)
        except UsageError:
            os._exit(7)
        os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    gate.set()
    assert (next(found), code) == (True, 7)
