"""Signals that come while something must be done whole are delivered, later."""

from __future__ import annotations

import _thread
import asyncio
import faulthandler
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator

import pytest

from ore.cli import _signals_raise
from ore.errors import Terminated
from ore.files import signals
from ore.files.signals import comes_again, deferred_signals
from tests.support.faults import in_child
from tests.support.process import PATIENCE


@pytest.fixture(params=["alone", "beside a thread"], autouse=True)
def threads(request) -> Iterator[None]:
    """Whether the thread that defers is the only one, for that is done in two ways."""
    if request.param == "alone":
        limit = time.monotonic() + PATIENCE  # a server of an earlier test may still be ending
        while threading.active_count() > 1 and time.monotonic() < limit:
            time.sleep(0.01)
        assert threading.active_count() == 1
        yield
        return
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    yield
    done.set()
    other.join()


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_waits_for_the_end_of_the_block_and_is_delivered_once(number):
    heard = []
    before = signal.signal(number, lambda *_: heard.append("handler"))
    try:
        with deferred_signals():
            send(number)
            send(number)
            heard.append("block")
        heard.append("after")
        assert signal.getsignal(number).__name__ == "<lambda>"
    finally:
        signal.signal(number, before)
    assert heard == ["block", "handler", "after"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_the_program_waits_for_the_end_of_the_block(number, request, tmp_path):
    def held() -> None:
        if "beside a thread" in request.node.name:
            threading.Thread(target=time.sleep, args=(PATIENCE,), daemon=True).start()
        signal.signal(number, signal.SIG_DFL)  # whoever runs the tests may have it ignored
        with deferred_signals():
            send(number)
            (tmp_path / "whole").touch()

    assert in_child(held).signal == number and (tmp_path / "whole").exists()


def test_where_no_handler_can_be_installed_the_block_runs(monkeypatch):
    def refuse(*_):  # as Python does in a subinterpreter
        raise ValueError("signal only works in main thread of the main interpreter")

    monkeypatch.setattr(signal, "signal", refuse)
    done = []
    with deferred_signals():
        done.append(True)
    assert done


def test_an_interrupt_is_raised_after_the_block():
    done = []
    with pytest.raises(KeyboardInterrupt):
        with deferred_signals():
            send(signal.SIGINT)
            done.append("block")
    assert done == ["block"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    "file, name",
    [
        ("<frozen importlib._bootstrap>", "cb"),
        ("<frozen importlib._bootstrap>", "remove"),
        (weakref.__file__, "remove"),
    ],
)
def test_a_signal_in_a_callback_that_drops_errors_of_its_handler_is_raised_behind_it(file, name):
    of_python = {"signal": signal}
    exec(compile(f"def {name}(_): signal.raise_signal(signal.SIGTERM)", file, "exec"), of_python)
    held = {1}
    with pytest.raises(Terminated), _signals_raise():
        watched = weakref.ref(held, of_python[name])
        del held
        assert watched() is None
        time.sleep(5.0)


def test_a_signal_below_a_callback_is_raised_behind_it_too():
    """On a busy machine it comes again while the callback still starts what sends it."""
    of_python = {"waits": lambda: signal.raise_signal(signal.SIGTERM)}
    exec(compile("def remove(_): waits()", weakref.__file__, "exec"), of_python)
    held = {1}
    with pytest.raises(Terminated), _signals_raise():
        watched = weakref.ref(held, of_python["remove"])
        del held
        assert watched() is None
        time.sleep(5.0)


def test_what_a_signal_in_a_callback_would_lose_is_raised_at_once(monkeypatch):
    first = Terminated()
    monkeypatch.setattr("ore.cli.being_raised", lambda: first)
    monkeypatch.setattr("ore.cli.comes_again", lambda *_: True)
    with _signals_raise(), pytest.raises(Terminated) as caught:
        signal.raise_signal(signal.SIGTERM)
    assert caught.value is first


def test_a_signal_elsewhere_is_not_sent_again():
    assert not comes_again(signal.SIGTERM, sys._getframe())
    assert not comes_again(signal.SIGTERM, None)


def test_a_terminated_process_ends_by_the_signal_after_the_block(tmp_path):
    def block():
        with deferred_signals():
            send(signal.SIGTERM)
            (tmp_path / "done").touch()
        (tmp_path / "after").touch()

    assert in_child(block).signal == signal.SIGTERM
    assert set(os.listdir(tmp_path)) == {"home", "done"}


def test_both_signals_are_delivered():
    heard = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append("terminated"))
    try:
        with pytest.raises(KeyboardInterrupt):
            with deferred_signals():
                send(signal.SIGINT)
                send(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == ["terminated"]


def test_an_error_of_the_block_goes_through_and_the_handlers_are_back():
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(ValueError):
        with deferred_signals():
            raise ValueError
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with deferred_signals():
            send(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM, signal.SIGHUP])
def test_a_handler_that_python_does_not_know_of_is_there_afterwards(number, tmp_path):
    before = signal.signal(number, signal.SIG_DFL)  # whoever runs the tests may have it ignored
    with open(tmp_path / "dump.txt", "w+", encoding="utf-8") as dump:
        faulthandler.register(number, file=dump)
        try:
            with deferred_signals():
                pass
            assert in_child(lambda: send(number)).signal == 0
        finally:
            faulthandler.unregister(number)
            signal.signal(number, before)
        dump.seek(0)
        assert "most recent call first" in dump.read()


def test_another_thread_does_the_block_without_touching_handlers():
    seen = []

    def block():
        with deferred_signals():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=block)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


def test_threads_that_the_block_starts_never_take_the_signals():
    masks = []
    with deferred_signals(starts_threads=True):
        begun = threading.Thread(
            target=lambda: masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        )
        begun.start()
        begun.join()
    assert {signal.SIGINT, signal.SIGTERM} <= masks[0]
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()


def test_a_thread_that_python_does_not_count_takes_no_signal_in_the_block():
    def held():
        heard, may_end = [], _thread.allocate_lock()
        may_end.acquire()
        _thread.start_new_thread(may_end.acquire, ())  # as those of NumPy
        signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
        with deferred_signals():
            os.kill(os.getpid(), signal.SIGUSR1)
            sum(range(1000))
            early = len(heard)
        may_end.release()
        return early, len(heard)

    assert in_child(held).value == (0, 1)


@pytest.mark.parametrize("ignored", [False, True])
def test_a_program_that_the_block_starts_takes_the_signals(ignored):
    code = "import signal as s; print(len(s.pthread_sigmask(0, ())), s.getsignal(1) == s.SIG_IGN)"
    before = signal.getsignal(signal.SIGHUP)
    signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else lambda *_: None)
    try:
        with pytest.raises(KeyboardInterrupt):
            with deferred_signals(starts_program=True):
                send(signal.SIGINT)
                said = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE).stdout
    finally:
        signal.signal(signal.SIGHUP, before)
    assert said.decode() == f"0 {ignored}\n"


@pytest.mark.slow
@pytest.mark.parametrize("others", [0, 1])
def test_a_flood_of_interrupts_leaves_mask_and_handlers_as_they_were(others):
    def flooded():
        sys.settrace(None)  # an interrupt in a tracer, as coverage's, leaves its lock held
        for _ in range(others):
            threading.Thread(target=threading.Event().wait, daemon=True).start()
        is_armed, raised, parent = False, 0, os.getpid()

        def handler(*_):
            nonlocal is_armed
            if is_armed:
                is_armed = False
                raise KeyboardInterrupt

        signal.signal(signal.SIGINT, handler)
        on_term = signal.getsignal(signal.SIGTERM)
        sender = os.fork()
        if sender == 0:
            limit = time.monotonic() + 1.5
            while time.monotonic() < limit:
                os.kill(parent, signal.SIGINT)
            os._exit(0)
        until = time.monotonic() + 1.6
        while time.monotonic() < until:
            try:
                is_armed = True
                for _ in range(100):
                    with deferred_signals():
                        pass
                is_armed = False
            except KeyboardInterrupt:
                raised += 1
        os.waitpid(sender, 0)
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        return raised > 0, handlers == [handler, on_term], mask

    assert in_child(flooded).value == (True, True, set())


def test_a_loop_of_asyncio_hears_of_a_signal_once():
    async def waits() -> list[int]:
        loop, heard = asyncio.get_running_loop(), []
        loop.add_signal_handler(signal.SIGTERM, heard.append, signal.SIGTERM)
        with deferred_signals():
            send(signal.SIGTERM)
        await asyncio.sleep(0.1)
        return heard

    assert asyncio.run(waits()) == [signal.SIGTERM]


def test_a_programs_end_that_waits_for_its_threads_is_held_up_once(monkeypatch):
    slept: list[float] = []
    monkeypatch.setattr(signals, "_exits", [])
    monkeypatch.setattr(signals, "sleep", slept.append)
    monkeypatch.setattr(signals, "monotonic", lambda: 7.0 + 4 * len(slept))
    signals._note_exit()
    thread = threading.Thread(target=lambda: [signals.end_with_program() for _ in range(4)])
    thread.start()
    thread.join()
    assert slept == [5, 1, 0, 0]
