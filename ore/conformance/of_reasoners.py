"""The rules of a reasoner: one call a turn, both or neither, nothing kept, and an end when it is closed."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from io import BytesIO, StringIO
from types import FunctionType, ModuleType
from typing import Any

from ore.conformance.verdicts import Unknown, expect
from ore.core import ORE
from ore.reasoner import Reasoner
from ore.types import Message, Response, Session

SECRET = "zx-81-Qwertz-conformance"
"""A text that stands in no module: found in an object after a turn, the object has kept the turn."""
STOP_SECONDS = 10.0
"""How long a closed stream may take to let go of its threads."""

_SETTLES_SECONDS = 0.02
"""In which a thread that has read a stream waits for the next one, if it goes on at all."""

_MOST_OBJECTS = 500_000


def _messages(text: str = "What is the capital of France?") -> list[Message]:
    return [Message("system", "Answer in one word."), Message("user", text)]


def _read(chunks: Iterator[str]) -> tuple[list[str], object]:
    pieces = []
    while True:
        try:
            pieces.append(next(chunks))
        except StopIteration as end:
            return pieces, end.value


def answers_with_a_response(make: Callable[[], Reasoner]) -> None:
    """reason returns one Response, and leaves the messages as they are"""
    messages = _messages()
    before = list(messages)
    with make() as reasoner:
        response: object = reasoner.reason(messages)
    expect(isinstance(response, Response), f"it returned {type(response).__name__}")
    assert isinstance(response, Response)
    expect(isinstance(response.content, str), "its content is not text")
    expect(isinstance(response.model_id, str) and response.model_id, "its model_id is empty")
    expect(isinstance(response.metadata, dict), "its metadata is not a dict")
    expect(messages == before, "it changed the list of messages that it was given")


def streams_what_it_answers(make: Callable[[], Reasoner]) -> None:
    """stream_reason yields text, and returns the Response whose content it is"""
    messages = _messages()
    before = list(messages)
    with make() as reasoner:
        pieces, response = _read(reasoner.stream_reason(messages))
    expect(all(isinstance(piece, str) for piece in pieces), "a piece of the answer is not text")
    expect(isinstance(response, Response), f"its return value is {type(response).__name__}")
    assert isinstance(response, Response)
    expect("".join(pieces) == response.content, "the pieces together are not the content")
    expect(messages == before, "it changed the list of messages that it was given")


def calls_once(make: Callable[[], Reasoner]) -> None:
    """a turn is one call, whole or streamed"""
    for streams in (False, True):
        with make() as reasoner:
            entered = _counted(reasoner)
            before = getattr(reasoner, "calls", None)
            if streams:
                _read(ORE(reasoner, "").execute_stream("Hi"))
            else:
                ORE(reasoner, "").execute("Hi")
            for name, times in entered.items():
                expect(times <= 1, f"one turn called {name} {times} times")
            after = getattr(reasoner, "calls", None)
            if type(before) is type(after) is int:
                expect(after - before == 1, f"calls rose by {after - before} in one turn")


def _counted(reasoner: Reasoner) -> dict[str, int]:
    """Count from now on how often the methods of one object are entered."""
    entered = {"reason": 0, "stream_reason": 0}

    def count(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def entering(*given: Any) -> Any:
            entered[name] += 1
            return method(*given)

        return entering

    for name in entered:
        object.__setattr__(reasoner, name, count(name, getattr(reasoner, name)))
    return entered


def is_both_or_neither(make: Callable[[], Reasoner]) -> None:
    """a turn that is answered extends the session by two messages, one that is closed early by none"""
    session = Session()
    with make() as reasoner:
        engine = ORE(reasoner, "")
        chunks = engine.execute_stream("Count to a hundred.", session)
        if next(chunks, None) is None:
            raise Unknown("its stream has no piece after which it could be closed")
        chunks.close()
        expect(
            not session.messages, f"{len(session.messages)} messages after a turn that was closed"
        )
        engine.execute("Hi", session)
    roles = [message.role for message in session.messages]
    expect(roles == ["user", "assistant"], f"the session holds {roles} after one turn")


def is_pure(make: Callable[[], Reasoner]) -> None:
    """a used one answers as a new one does"""
    cold = []
    for _ in range(2):
        with make() as reasoner:
            cold.append(reasoner.reason(_messages()))
    with make() as reasoner:
        reasoner.reason(_messages(f"Remember the word {SECRET}."))
        reasoner.reason([*_messages("Hi"), Message("assistant", "Rome."), Message("user", "And?")])
        warm = reasoner.reason(_messages())
    keys = set(cold[0].metadata) ^ set(warm.metadata)
    expect(not keys, f"its metadata differ in {', '.join(sorted(map(str, keys)))}")
    if cold[0].content != cold[1].content:
        raise Unknown("two new ones differ: give it a temperature of 0, or a seed")
    expect(warm.content == cold[0].content, "after other turns it gives another answer")


def stops_when_closed(make: Callable[[], Reasoner]) -> None:
    """closing a stream stops the model, and the next turn is answered"""
    with make() as reasoner:
        _read(reasoner.stream_reason(_messages()))  # here begins what it keeps for later ones
        time.sleep(_SETTLES_SECONDS)
        threads = threading.active_count()
        chunks = reasoner.stream_reason(_messages("Count to a thousand."))
        next(chunks, None)
        during = threading.active_count()
        chunks.close()
        expect(next(chunks, None) is None, "a closed stream goes on")
        until = time.monotonic() + STOP_SECONDS
        while during > threads and threading.active_count() >= during:
            expect(time.monotonic() < until, f"its thread runs {STOP_SECONDS:g} s after the close")
            time.sleep(0.01)
        expect(isinstance(reasoner.reason(_messages()), Response), "the next turn has no answer")


def keeps_nothing(make: Callable[[], Reasoner]) -> None:
    """nothing of a system prompt, a session or an answer is kept"""
    with make() as reasoner:
        session = Session([Message("user", f"I am {SECRET}."), Message("assistant", "Hello.")])
        ORE(reasoner, f"You know {SECRET}.").execute(f"Who is {SECRET}?", session)
        where = _path_to(reasoner, SECRET)
    expect(where is None, f"{where} still holds a text of the turn")


def closes_twice(make: Callable[[], Reasoner]) -> None:
    """close may be called twice, and before the first turn"""
    reasoner = make()
    reasoner.close()
    reasoner.close()


def _path_to(found: object, text: str) -> str | None:
    """Return the name of what an object, or its class, holds with a text in it, or None."""
    seen, left = {id(found)}, [(type(found).__name__, found)]
    left += [(kind.__name__, dict(vars(kind))) for kind in type(found).__mro__]
    while left and len(seen) < _MOST_OBJECTS:
        path, each = left.pop()
        if isinstance(each, FunctionType):  # but not what its module has
            each = (each.__defaults__, each.__kwdefaults__, each.__closure__)
        if isinstance(each, (BytesIO, StringIO)):
            each = "" if each.closed else each.getvalue()
        elif isinstance(each, ContextVar):
            each = (each.get(None),)
        if isinstance(each, (str, bytes, bytearray)):
            if (text if isinstance(each, str) else text.encode()) in each:  # type: ignore[operator]
                return path
            continue
        named = each.items() if isinstance(each, dict) else getattr(each, "__dict__", {}).items()
        names = {id(value): f"{path}.{name}" for name, value in list(named)}
        for inner in gc.get_referents(each):
            if id(inner) not in seen and not isinstance(inner, (type, ModuleType)):
                seen.add(id(inner))
                left.append((names.get(id(inner), path), inner))
    return None
