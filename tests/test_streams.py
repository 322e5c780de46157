"""Streams as objects: closed from any thread, awaited, cancelled; the model is told to stop."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import gc
import inspect
import os
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from importlib import import_module

import pytest

import ore
from ore import (
    ORE,
    AyaReasoner,
    BackendError,
    OpenAIReasoner,
    Reasoner,
    Response,
    Session,
    Settings,
)
from ore.errors import CapabilityError, OreError, UsageError
from ore.reasoner.stop import STOP, Stop, shut
from ore.store import FileSessionStore
from tests.support.fake_ollama import FakeOllama
from tests.support.fake_openai import FakeOpenAI
from tests.support.harness import ScriptedReasoner
from tests.support.house import ROOT
from tests.support.process import PATIENCE, until

WORDS = "word " * 400


class Slow(Reasoner):
    """Gives two pieces, and waits between them for as long as it is told to."""

    def __init__(self):
        self.waits, self.goes_on, self.is_closed = threading.Event(), threading.Event(), False

    def reason(self, messages):
        raise NotImplementedError

    def stream_reason(self, messages):
        try:
            yield "one "
            self.waits.set()
            assert self.goes_on.wait(PATIENCE)
            yield "two"
            return Response("one two", "slow")
        finally:
            self.is_closed = True


@contextmanager
def waiting_for(server, kind):
    """A reader of a stream in a thread, which waits for a server that answers with one piece at most."""
    with server:
        made = AyaReasoner("llama3.2", server.url) if kind == "ollama" else None
        reasoner = made or OpenAIReasoner("small", server.url)
        session = Session()
        stream = ORE(reasoner, "").stream("Hello", session)
        read, failed = [], []

        def loop():
            try:
                read.extend(stream)
            except Exception as exc:
                failed.append(exc)

        thread = threading.Thread(target=loop)
        thread.start()
        until(lambda: bool(server.chats))
        yield stream, server
        thread.join(PATIENCE)
        assert not thread.is_alive() and failed == [] and session.messages == []
        assert stream.is_closed and list(stream) == []
        with pytest.raises(UsageError):
            stream.response


@pytest.mark.invariant
@pytest.mark.parametrize(
    "kind, fake, scenario",
    [
        ("ollama", FakeOllama, "silent"),
        ("ollama", FakeOllama, "stall"),
        ("ollama", FakeOllama, "slow-start"),
        ("openai", FakeOpenAI, "silent"),
        ("openai", FakeOpenAI, "stalls"),
    ],
)
def test_another_thread_closes_a_stream_while_it_waits_for_the_server(kind, fake, scenario):
    with waiting_for(fake(scenario=scenario), kind) as (stream, server):
        stream.close()
        until(lambda: server.chats[0].disconnected_at is not None)


def test_closing_a_stream_that_has_ended_leaves_the_next_turn_s_connection_alone():
    with FakeOllama(reply="one two") as server, AyaReasoner("llama3.2", server.url) as reasoner:
        engine = ORE(reasoner, "")
        first = engine.stream("Hello")
        assert "".join(first) == first.response.content == "one two"
        second = engine.stream("Hello")
        assert next(second)
        first.close()
        assert "".join(second) and second.response.content == "one two" and not first.is_closed


def test_a_stream_of_any_reasoner_ends_where_it_comes_back():
    reasoner = Slow()
    stream, read = ORE(reasoner, "").stream("Hello"), []
    thread = threading.Thread(target=lambda: read.extend(stream))
    thread.start()
    assert reasoner.waits.wait(PATIENCE)
    stream.close()
    assert not reasoner.is_closed
    reasoner.goes_on.set()
    thread.join(PATIENCE)
    assert (read, reasoner.is_closed, stream.is_closed) == (["one "], True, True)


@pytest.mark.invariant
def test_who_reads_a_stream_that_is_being_read_takes_nothing_of_it():
    reasoner, session = Slow(), Session()
    stream, read = ORE(reasoner, "").stream("Hello", session), []
    thread = threading.Thread(target=lambda: read.extend(stream))
    thread.start()
    assert reasoner.waits.wait(PATIENCE)
    with pytest.raises(UsageError, match="being read already"):
        next(stream)
    reasoner.goes_on.set()
    thread.join(PATIENCE)
    assert (read, stream.response.content) == (["one ", "two"], "one two")
    assert [message.content for message in session.messages] == ["Hello", "one two"]


class Deaf(Slow):
    """Answers once it is told to go on, whatever has become of its turn."""

    def reason(self, messages):
        self.waits.set()
        assert self.goes_on.wait(PATIENCE)
        return Response("late", "deaf")

    def stream_reason(self, messages):
        yield "la"
        return self.reason(messages)


@pytest.mark.invariant
def test_a_signal_s_handler_may_close_a_stream_that_is_being_closed():
    stop, woken = Stop(), []

    def hang_up():
        if not woken:
            woken.append(True)
            stop.ask()  # as the handler of a second signal does, in the same thread

    def close():
        with stop.waking(hang_up):
            stop.ask()
        woken.append(stop.is_asked)

    threading.Thread(target=close, daemon=True).start()
    until(lambda: woken == [True, True])


def test_a_closed_stream_keeps_nothing_even_if_its_reasoner_answers_later():
    reasoner, session = Deaf(), Session()
    stream, read = ORE(reasoner, "").stream("Hello", session), []
    thread = threading.Thread(target=lambda: read.extend(stream))
    thread.start()
    assert reasoner.waits.wait(PATIENCE)
    stream.close()
    reasoner.goes_on.set()
    thread.join(PATIENCE)
    assert (read, session.messages, stream.is_closed) == (["la"], [], True)


@pytest.mark.invariant
def test_a_cancelled_turn_keeps_nothing_even_if_its_reasoner_answers_later():
    reasoner, session = Deaf(), Session()

    async def cancel():
        task = asyncio.create_task(ORE(reasoner, "").aexecute("Hello", session))
        while not reasoner.waits.is_set():
            await asyncio.sleep(0.01)
        (turn,) = (each for each in threading.enumerate() if each.name == "ore-turn")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        reasoner.goes_on.set()
        turn.join(PATIENCE)

    asyncio.run(cancel())
    assert session.messages == []


@pytest.mark.invariant
def test_a_turn_that_is_cancelled_when_its_thread_is_done_keeps_nothing():
    session = Session()

    async def cancel():
        task = asyncio.create_task(ORE(ScriptedReasoner(["Hi."]), "").aexecute("Hello", session))
        await asyncio.sleep(0)
        for thread in threading.enumerate():
            if thread.name == "ore-turn":
                thread.join(PATIENCE)  # while the loop does not hear of it
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert session.messages == []


def test_two_turns_at_once_with_one_answer_leave_a_session_that_can_be_saved(tmp_path):
    class Cached(Reasoner):
        answer = Response("Hi.", "m")

        def reason(self, messages):
            return self.answer

    async def ask(session):
        turns = [asyncio.ensure_future(ORE(Cached(), "").aexecute(each, session)) for each in "ab"]
        await asyncio.sleep(0)
        for thread in threading.enumerate():
            if thread.name == "ore-turn":
                thread.join(PATIENCE)  # both have ended before the loop hears of one
        await asyncio.gather(*turns)

    session = Session()
    asyncio.run(ask(session))
    assert [message.content for message in session.messages[1::2]] == ["Hi.", "Hi."]
    FileSessionStore(tmp_path / "sessions").save(session, "two")


@pytest.mark.invariant
@pytest.mark.parametrize("reads_on", [False, True])
def test_a_stream_that_its_thread_has_read_is_kept_only_once_the_loop_has(reads_on):
    session = Session()

    async def read():
        async with ORE(ScriptedReasoner([["a", "b"]]), "").astream("Hello", session) as stream:
            first = await stream.__anext__()
            for thread in threading.enumerate():
                if thread.name == "ore-turn":
                    thread.join(PATIENCE)
            assert first == "a" and session.messages == []
            with pytest.raises(UsageError, match="read the stream to its end"):
                stream.response
            if reads_on:
                assert [text async for text in stream] == ["b"]
        return stream

    stream = asyncio.run(read())
    assert len(session.messages) == (2 if reads_on else 0) and stream.is_closed != reads_on


def test_leaving_the_block_of_a_stream_stops_the_model():
    with FakeOllama(delay=0.05, reply=WORDS) as server:
        with ORE(AyaReasoner("llama3.2", server.url), "") as engine:
            with engine.stream("Hello") as stream:
                assert next(stream)
            assert list(stream) == [] and stream.is_closed
        until(lambda: server.chats[0].disconnected_at is not None)


def test_a_stream_raises_what_the_turn_raises():
    with FakeOllama(scenario="cut") as server:
        stream = ORE(AyaReasoner("llama3.2", server.url), "").stream("Hello")
        with pytest.raises(BackendError):
            list(stream)
        assert list(stream) == []


def awaited(kind, engine, session):
    """What waits for an answer: its whole, or its pieces."""
    if kind == "aexecute":
        return engine.aexecute("Hello", session)

    async def read():
        return [part async for part in engine.astream("Hello", session)]

    return read()


both = pytest.mark.parametrize("kind", ["aexecute", "astream"])


@pytest.mark.invariant
@both
@pytest.mark.parametrize("scenario", ["silent", "stall"])
def test_cancelling_a_task_stops_the_model_at_once(kind, scenario):
    async def cancel(server):
        session = Session()
        task = asyncio.create_task(
            awaited(kind, ORE(AyaReasoner("llama3.2", server.url), ""), session)
        )
        while not server.chats:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while server.chats[0].disconnected_at is None:
            await asyncio.sleep(0.01)
        assert session.messages == []

    with FakeOllama(scenario=scenario) as server:
        asyncio.run(asyncio.wait_for(cancel(server), PATIENCE))


@both
def test_an_awaited_turn_answers_and_extends_its_session(kind):
    async def ask(server):
        session = Session()
        engine = ORE(AyaReasoner("llama3.2", server.url), "")
        found = await awaited(kind, engine, session)
        text = found.content if kind == "aexecute" else "".join(found)
        assert text == session.messages[1].content == "one two three"

    with FakeOllama(reply="one two three") as server:
        asyncio.run(ask(server))


@both
def test_an_awaited_turn_raises_what_it_raises(kind):
    with FakeOllama(scenario="cut") as server:
        with pytest.raises(BackendError):
            asyncio.run(awaited(kind, ORE(AyaReasoner("llama3.2", server.url), ""), None))


@both
def test_a_turn_without_a_thread_for_it_is_an_error_of_ours(kind, monkeypatch):
    async def ask_twice(server):
        engine = ORE(AyaReasoner("llama3.2", server.url), "")
        stream = engine.astream("Hello")
        for _ in range(2):
            with pytest.raises(OreError, match=r"\(can't start new thread\): .* execute or stream"):
                await (anext_of(stream) if kind == "astream" else engine.aexecute("Hello"))

    def refuse(*_, **__):
        raise RuntimeError("can't start new thread")

    with FakeOllama() as server:
        for name in ("_start_new_thread", "_start_joinable_thread"):  # until Python 3.12, and since
            monkeypatch.setattr(threading, name, refuse, raising=False)
        asyncio.run(asyncio.wait_for(ask_twice(server), PATIENCE))


def test_an_interrupt_as_a_stream_begins_to_read_stops_no_later_turn(monkeypatch):
    class Interrupted:
        """What stops a turn, with Ctrl-C right after it is set."""

        get, reset = STOP.get, STOP.reset

        def set(self, stop):
            token = STOP.set(stop)
            if stop is not None:
                raise KeyboardInterrupt
            return token

    engine, session = ORE(ScriptedReasoner(["one"]), ""), Session()
    with monkeypatch.context() as patched, engine.stream("Hello", session) as stream:
        patched.setattr("ore.reasoner.stream.STOP", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            next(stream)
    assert engine.execute("Hello", session).content == "one" and len(session.messages) == 2


def test_a_program_can_read_any_stream_in_a_loop():
    async def read():
        stream = ore.AsyncStream(ORE(ScriptedReasoner([["a", "b"]]), "").stream("Hello"))
        return [piece async for piece in stream], stream.response.content

    assert asyncio.run(read()) == (["a", "b"], "ab")


@pytest.mark.slow
def test_turns_of_one_loop_wait_side_by_side():
    async def ask(server):
        engine = ORE(AyaReasoner("llama3.2", server.url), "")
        return await asyncio.gather(*(engine.aexecute("Hello") for _ in range(8)))

    together = threading.Barrier(8, timeout=PATIENCE)
    with FakeOllama(reply=lambda request: together.wait() and "one" or "one") as server:
        assert [each.content for each in asyncio.run(ask(server))] == ["one"] * 8


def test_a_dropped_stream_stops_the_model():
    async def drop(server):
        stream = ORE(AyaReasoner("llama3.2", server.url), "").astream("Hello")
        assert await anext_of(stream)
        del stream
        while server.chats[0].disconnected_at is None:
            await asyncio.sleep(0.01)

    with FakeOllama(scenario="stall") as server:
        asyncio.run(asyncio.wait_for(drop(server), PATIENCE))


class Counting(Reasoner):
    """Gives pieces for ever, until it is closed."""

    def __init__(self):
        self.is_closed = threading.Event()

    def reason(self, messages):
        raise NotImplementedError

    def stream_reason(self, messages):
        try:
            while True:
                yield "one "
                self.is_closed.wait(0.001)
        finally:
            self.is_closed.set()


def test_a_stream_that_outlives_its_loop_stops_the_model():
    reasoner, kept = Counting(), []

    async def leave():
        kept.append(ORE(reasoner, "").astream("Hello"))
        assert await anext_of(kept[0])

    asyncio.run(leave())
    assert reasoner.is_closed.wait(PATIENCE)


@pytest.mark.parametrize("thrown", [GeneratorExit, KeyError, KeyboardInterrupt])
def test_a_coroutine_that_nobody_goes_on_with_stops_the_model(thrown):
    async def begin(server):
        turn = ORE(AyaReasoner("llama3.2", server.url), "").aexecute("Hello")
        turn.send(None)
        await asyncio.to_thread(until, lambda: server.chats)
        with pytest.raises(thrown):
            turn.throw(thrown())
        await asyncio.to_thread(until, lambda: server.chats[0].disconnected_at is not None)

    with FakeOllama(scenario="stall") as server:
        asyncio.run(begin(server))


@pytest.mark.parametrize("thrown", [GeneratorExit, KeyError, KeyboardInterrupt])
def test_a_stream_that_nobody_waits_for_any_more_stops_the_model(thrown):
    async def begin(server):
        stream = ORE(AyaReasoner("llama3.2", server.url), "").astream("Hello")
        waiting = anext_of(stream)
        waiting.send(None)
        await asyncio.to_thread(until, lambda: server.chats)
        with pytest.raises(thrown):
            waiting.throw(thrown())
        await asyncio.to_thread(until, lambda: server.chats[0].disconnected_at)
        assert stream.is_closed

    with FakeOllama(scenario="stall") as server:
        asyncio.run(begin(server))


class Failing(Deaf):
    """Fails once it is told to go on."""

    def reason(self, messages):
        raise BackendError(super().reason(messages).content)


@pytest.mark.slow
def test_nobody_is_told_of_the_error_of_a_coroutine_that_nobody_goes_on_with():
    reasoner, heard, told = Failing(), [], []

    async def begin():
        asyncio.get_running_loop().set_exception_handler(lambda _, known: told.append(known))
        turn = ORE(reasoner, "").aexecute("Hello", Session())
        heard.append(turn.send(None))
        (thread,) = (each for each in threading.enumerate() if each.name == "ore-turn")
        turn.close()
        reasoner.goes_on.set()
        await asyncio.to_thread(thread.join, PATIENCE)
        await asyncio.sleep(0)

    asyncio.run(begin())
    heard.clear()
    gc.collect()
    assert told == []


async def anext_of(stream):
    return await stream.__anext__()


def test_an_async_stream_has_its_response_at_its_end():
    async def read(server):
        async with ORE(AyaReasoner("llama3.2", server.url), "").astream("Hello") as stream:
            parts = [part async for part in stream]
        assert "".join(parts) == stream.response.content and not stream.is_closed

    with FakeOllama() as server:
        asyncio.run(read(server))


@pytest.mark.parametrize("name", ["llama3.2:1b", "llama3.2", "", "cloud:x"])
def test_a_reasoner_s_name_names_its_backend(name):
    with pytest.raises(UsageError, match="ollama:NAME"):
        ore.reasoner(name)


def test_a_reasoner_is_made_by_its_name():
    with FakeOllama(reply="one two") as server:
        with ORE(ore.reasoner("ollama:llama3.2", host=server.url, options={"seed": 7}), "") as aya:
            assert aya.execute("Hello").content == "one two"
        assert server.chats[0].json["options"] == {"seed": 7}
    assert import_module("ore.reasoner").Reasoner is ore.reasoner.Reasoner is Reasoner


def test_a_reasoner_by_its_name_chooses_from_words_where_the_backend_can():
    words = {"choices": ["Paris", "Rome"]}
    with FakeOllama() as server:
        with pytest.raises(CapabilityError, match="how likely"):
            ore.reasoner("ollama:llama3.2", host=server.url, **words)
    with pytest.raises(UsageError, match="only, so there is nothing to choose"):
        ore.reasoner("ollama:llama3.2", choices=["Paris"])
    with pytest.raises(UsageError, match="leave one of them out"):
        ore.reasoner("ollama:llama3.2", format={}, **words)


@pytest.mark.embedded
def test_a_reasoner_by_its_name_takes_every_field_of_settings(model_dir):
    words = {"choices": ["Paris", "Rome"]}
    with ORE(ore.reasoner("embedded:smollm2:135m", **words)) as engine:
        answer = engine.execute("What is the capital of Italy?")
    assert answer.content in words["choices"] and answer.metadata["choice"]["probability"] > 0
    template = "{{ messages[-1].content }}"
    more = {"chat_template": template, "rendered": True, "logprobs": True}
    options = {"num_predict": 3}
    with ORE(ore.reasoner("embedded:smollm2:135m", options=options, **more), "") as engine:
        answer = engine.execute("One two three")
        known = engine.record(answer, full=True).provenance
    assert answer.metadata["rendered"] == "One two three" and answer.metadata["logprobs"]
    assert known["chat_template"]["text"] == template


def test_a_reasoner_s_keywords_are_the_fields_of_settings():
    named = inspect.signature(import_module("ore.backends.named").reasoner).parameters
    fields = [each.name for each in dataclasses.fields(Settings)]
    assert sorted(named) == sorted(["name", "host", *fields])
    given = {"timeout": 5.0, "deadline": 60.0, "options": {"seed": 7}, "keep_alive": "5m"}
    given |= {"on_thinking": print, "on_warning": repr, "think": False, "at_once": 3}
    given |= dict.fromkeys(["strict_context", "conversation", "logprobs", "rendered"], True)
    with FakeOllama() as server:
        made = ore.reasoner("ollama:llama3.2", host=server.url, joins=False, **given)
    assert made.settings == Settings(joins=False, **given)


@pytest.mark.parametrize(
    "kind", [StopIteration, StopAsyncIteration, GeneratorExit, asyncio.CancelledError]
)
def test_an_end_of_iteration_that_a_reasoner_raises_is_not_the_end_of_its_answer(kind):
    class Ending(Reasoner):
        def reason(self, messages):
            raise kind

    async def read():
        return [part async for part in ORE(Ending(), "").astream("Hello")]

    async def ask():
        try:
            await ORE(Ending(), "").aexecute("Hello")
        finally:
            await asyncio.sleep(0)  # what the program has to put right

    for take in (read, ask):
        with pytest.raises(RuntimeError, match="^(generator raised .*)?$") as told:
            asyncio.run(take())
        assert isinstance(told.value.__cause__, kind)


@pytest.mark.slow
def test_an_asynchronous_stream_that_can_t_be_copied_leaves_no_second_error(monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", seen.append)
    stream = ORE(ScriptedReasoner([["a"]]), "").astream("Hello")
    with pytest.raises(TypeError, match="generator"):
        copy.deepcopy(stream)
    gc.collect()
    assert seen == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "kept",
    [
        "ore.ORE(ore.AyaReasoner('small'))",
        "ore.ORE(ore.AyaReasoner('small')).astream('Why?')",
        "ore.backends.schema.judge_of({'pattern': 'a+b'})",
    ],
)
def test_what_a_program_still_has_at_its_end_goes_without_a_word(kept):
    """A hook of Python's keeps a program's names until the modules are gone that they need."""
    program = f"import ore.backends.schema, sys; kept = {kept}; sys.excepthook = lambda *a: None"
    argv = [sys.executable, "-c", program]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_forked_child_that_closes_a_stream_breaks_off_no_connection_of_its_parents():
    stop, (ours, other) = Stop(), socket.socketpair()
    with ours, other, stop.waking(lambda: shut(ours)):
        if (child := os.fork()) == 0:
            stop.ask()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        ours.sendall(b"still there")
        assert other.recv(11) == b"still there"
        stop.ask()
        assert other.recv(1) == b""
