"""The waiting indicator: there while nothing comes, gone before the first character."""

from __future__ import annotations

import io
import threading
import time
from contextlib import contextmanager

import pytest

from ore.cli.terminal import bytewise, waiting
from ore.cli.terminal.console import Console
from tests.support.harness import XTERM, Terminal
from tests.support.process import PATIENCE, until


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Count in hundredths of a second instead of seconds."""
    for name, seconds in (("FIRST", 0.02), ("STALLED", 0.06), ("TICK", 0.005), ("ASK_EVERY", 0.01)):
        monkeypatch.setattr(waiting, name, seconds)


def console(err: io.StringIO, environ: dict[str, str] = XTERM) -> Console:
    return Console(None, Terminal(), err, environ)


@contextmanager
def counting(target: Console, phase):
    target.begin_waiting(phase)
    try:
        yield
    finally:
        target.end_waiting()


def test_the_phase_and_the_seconds_are_shown_and_taken_away_before_the_answer():
    err = Terminal()
    target = console(err)
    target.begin_answer()
    with counting(target, lambda: "loading the model"):
        until(lambda: "loading the model · 0 s" in err.getvalue())
        target.chunk("Paris.")
        assert err.getvalue().endswith("\x1b[K")
    target.end_answer()
    assert target.stdout.getvalue() == "[AYA]: Paris.\n"


def test_a_stall_in_mid_answer_is_shown_and_taken_away():
    err = Terminal()
    target = console(err)
    with counting(target, lambda: "waiting"):
        target.chunk("Par")
        until(lambda: "no output for 0 s" in err.getvalue())
        target.chunk("is.")
        assert err.getvalue().endswith("\x1b[K")


def test_a_notice_before_an_answer_is_no_output_of_the_model():
    err = Terminal()
    target = console(err)
    with counting(target, lambda: "answering"):
        target.notice("It may go round in circles.")
        until(lambda: "answering · 0 s" in err.getvalue())
        target.notice("And on.")
        until(lambda: "answering · 0 s" in err.getvalue().partition("And on.")[2])
    assert "no output" not in err.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("is_thought", [False, True])
@pytest.mark.parametrize(
    "text",
    ["a" * 81, "a" * 80 + " ", "\u044f" * 80 + " ", "\u4eba" * 40],
    ids=["cut", "full", "of unknown width", "wide"],
)
def test_nothing_is_drawn_at_the_right_edge_where_a_letter_would_be_cleared(text, is_thought):
    """A terminal such as xterm clears the last column there, and goes on in it, not in a new line."""
    err = Terminal()
    target = console(err)
    target._columns = lambda stream: 80
    target.begin_answer()
    with counting(target, lambda: "waiting"):
        target.chunk("Hm ")
        (target.thinking if is_thought else target.chunk)("\n" + text)
        if is_thought:
            target.chunk("held")
        before = err.getvalue()
        time.sleep(0.15)
        assert err.getvalue() == before
        target.chunk("\nParis")
        until(lambda: "no output for 0 s" in err.getvalue())


def test_it_is_gone_when_the_turn_fails():
    err = Terminal()
    target = console(err)
    with pytest.raises(ZeroDivisionError), counting(target, lambda: "waiting"):
        until(lambda: "waiting" in err.getvalue())
        raise ZeroDivisionError
    shown = err.getvalue()
    assert shown.endswith("\x1b[K")
    time.sleep(0.05)
    assert err.getvalue() == shown


@pytest.mark.parametrize(
    "err, environ",
    [
        (io.StringIO(), XTERM),
        (Terminal(), {"TERM": "dumb"}),
        (Terminal(), {}),
    ],
)
def test_a_pipe_a_dumb_terminal_and_an_unnamed_one_get_no_indicator(err, environ):
    with counting(console(err, environ), lambda: "waiting"):
        time.sleep(0.05)
    assert err.getvalue() == ""


def test_without_a_free_thread_there_is_no_indicator_and_no_error():
    before = threading.stack_size(1 << 47)
    try:
        with counting(target := console(Terminal()), lambda: "waiting"):
            target.chunk("Paris.")
    finally:
        threading.stack_size(before)
    assert (target.stdout.getvalue(), target.stderr.getvalue()) == ("Paris.", "")


def test_quiet_shows_no_waiting_line():
    target = console(Terminal())
    target.quiet = True
    with counting(target, lambda: "waiting"):
        time.sleep(0.05)
    assert target.stderr.getvalue() == ""


def test_a_hostile_phase_is_shown_and_not_obeyed():
    err = Terminal()
    with counting(console(err), lambda: "\x1b]0;title\x07"):
        until(lambda: "^[]0;title^G" in err.getvalue())


def test_a_phase_is_no_command_of_a_terminal_that_takes_bytes(monkeypatch):
    monkeypatch.setattr(bytewise, "_ARE_THERE", True)
    err = Terminal()
    console(err)._draw("loading \u011b2J", "")
    console(err)._draw("loading \u011b2J", " · 7 s")
    assert r"loading \u011b2J" in err.getvalue() and "\u011b" not in err.getvalue()


@pytest.mark.parametrize(
    "columns, shown", [(20, "reading the p… · 7 s"), (0, "reading the prompt · 7 s")]
)
def test_a_narrow_terminal_cuts_the_phase_and_keeps_the_seconds(columns, shown):
    err = Terminal()
    target = console(err)
    target._columns = lambda stream: columns + 1 if columns else 0
    target._draw("reading the prompt", " · 7 s")
    assert err.getvalue() == f"\x1b[K\x1b7\x1b[?7l{shown}\x1b[?7h\x1b8"


def test_nothing_is_drawn_when_the_turn_ended_while_the_phase_was_asked():
    drawn, made, asked = [], threading.Event(), threading.Event()

    def phase() -> str:
        made.wait(PATIENCE)  # it is asked at once, on a thread of its own
        counted.stop()
        asked.set()
        return "late"

    counted = waiting.Waiting(lambda *text: drawn.append(text), phase)
    made.set()
    assert asked.wait(PATIENCE)
    time.sleep(0.05)
    assert not drawn or drawn[-1] == ("", "")


def test_a_phase_never_begins_a_new_line():
    err = Terminal()
    console(err)._draw("loading we\nore: run this", " · 7 s")
    assert "loading we^Jore: run this · 7 s" in err.getvalue()
