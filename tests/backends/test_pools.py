"""An interrupt at any lock of the HTTP library's keeps no later turn waiting, and closes in time."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import warnings
from importlib import import_module
from pathlib import Path

import httpx
import pytest

from ore import __file__ as ORE_FILE
from ore import ORE, AyaReasoner, OpenAIReasoner, Session
from ore.backends.pools import steady
from tests.support.fake_ollama import FakeOllama
from tests.support.fake_openai import FakeOpenAI
from tests.support.faults import Ended, in_child

SECONDS = 20.0
PACKAGE = f"{Path(ORE_FILE).parent}/"


class Interrupted(BaseException):
    """What a signal's handler raises."""


def turns(engine: ORE, code: object, number: int) -> list[object]:
    """Take a turn, interrupted where ``code`` has returned for the nth time, and then another one."""
    said: list[object] = []

    def note(frame, event, _):
        nonlocal number
        if event == "return" and frame.f_code is code:
            number -= 1
            if number == 0:  # as the handler does before the block of the lock has begun
                raise Interrupted

    def take() -> None:
        session = Session()
        sys.setprofile(note)
        try:
            said.append(engine.execute("Why?", session).content)
        except Interrupted:
            said.append(len(session.messages))
        finally:
            sys.setprofile(None)
        said.append(engine.execute("Why?").content)
        engine.close()
        said.append("closed")

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    thread.join(SECONDS)
    return said


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, 7))
@pytest.mark.parametrize("lock", ["ThreadLock", "Lock"])
@pytest.mark.parametrize("backend", ["ollama", "openai"])
def test_an_interrupt_at_a_lock_keeps_no_later_turn_waiting(backend, lock, number):
    with FakeOllama() if backend == "ollama" else FakeOpenAI() as server:
        is_ollama = backend == "ollama"
        package = "httpcore" if is_ollama else "httpcore2"
        made = (
            AyaReasoner("llama3.2", server.url)
            if is_ollama
            else OpenAIReasoner("small", server.url)
        )
        engine = ORE(made, "")
        answer = engine.execute("Why?").content
        kind = getattr(import_module(f"{package}._synchronization"), lock)
        first, *others = turns(engine, kind.__enter__.__code__, number)
        assert first in (0, answer) and others == [answer, "closed"]
        del engine, made
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gc.collect()  # the connection that was interrupted


def test_the_pool_of_a_proxy_has_a_lock_that_no_interrupt_leaves_held(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with steady(httpx.Client(verify=False)) as client:
        ways = [client._transport, *filter(None, client._mounts.values())]
        kinds = {type(way._pool._optional_thread_lock) for way in ways}
    assert len(ways) > 1 and kinds == {type(threading.RLock())}


@pytest.mark.slow
def test_a_child_that_is_forked_while_a_thread_holds_the_lock_takes_a_turn_and_closes():
    with FakeOllama() as server:
        reasoner = AyaReasoner("llama3.2", server.url)
        engine = ORE(reasoner, "")
        answer = engine.execute("Why?").content
        lock = reasoner._client._made()._client._transport._pool._optional_thread_lock
        held, done = threading.Event(), threading.Event()

        def hold() -> None:
            with lock:
                held.set()
                done.wait(SECONDS)

        def take() -> str:
            signal.alarm(int(SECONDS))
            said = engine.execute("Why?").content
            engine.close()
            return said

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(SECONDS)
        ended = in_child(take)
        done.set()
        thread.join()
    assert ended == Ended(answer, 0)


@pytest.mark.slow
def test_no_lock_of_threading_is_taken_in_a_later_turn():
    """They are taken in Python, too: an interrupt would leave them held."""
    taken, lockless = [], ("current_thread", "main_thread")

    def note(frame, event, _):
        code = frame.f_code
        if (event, code.co_filename) == (
            "call",
            threading.__file__,
        ) and code.co_name not in lockless:
            taken.append(frame.f_back.f_code.co_filename)

    with FakeOllama() as server:
        engine = ORE(AyaReasoner("llama3.2", server.url), "")
        engine.execute("Why?")
        sys.setprofile(note)
        try:
            engine.execute("Why?")
        finally:
            sys.setprofile(None)
        engine.close()
    assert taken and not [name for name in taken if name.startswith(PACKAGE)]
