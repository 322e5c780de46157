"""A stand-in for a server that speaks the OpenAI protocol: real HTTP, a table of scenarios.

By hand: ``python -m tests.support.fake_openai``. Knows nothing about what asks it.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tests.support.fake_ollama.connection import CHUNKED, Connection, Recorded, Server, head
from tests.support.fake_ollama.scenarios import FOREVER, Chunk, Cut, Pause, Raw, Step, Whole

EVENTS = "text/event-stream"
JSON = "application/json"
CHAT = "/v1/chat/completions"


class EventConnection(Connection):
    """A connection whose streams are streams of events."""

    def stream_head(self) -> bytes:
        self.begun = True
        return head(200, EVENTS, CHUNKED | self.closing)


class FakeOpenAI:
    """A server on a loopback port, for as long as the ``with`` block runs.

    Args:
        reply: What every chat answers: its pieces.
        scenario: A name of ``SCENARIOS``.
        models: What ``/v1/models`` lists.
        key: The key that is wanted; None wants none.
        thinking: What comes as ``reasoning_content`` first.
        about: What ``/v1/models`` says of each model besides its name.
        serves_any: Whether a chat may ask for a model that is not listed.

    Attributes:
        play: What every chat is answered with, instead of the scenario.
        asked: What is answered beside the protocol: a path, and what makes a value of a request.
        listing: What ``/v1/models`` is answered with, instead of its list.
        template: Makes a prompt of the texts of messages, as llama.cpp's server does; None refuses
            them. Without it nobody knows the question.
        beside: What other paths are answered with, made of what was sent.
        requests: Every request, in order.
    """

    def __init__(
        self,
        reply: tuple[str, ...] = ("Paris", "."),
        *,
        scenario: str = "happy",
        models: tuple[str, ...] = ("small",),
        key: str | None = None,
        thinking: str = "",
        about: dict[str, Any] | None = None,
        serves_any: bool = False,
    ) -> None:
        self.about, self.serves_any = about or {}, serves_any
        self.play: list[Step] | None = None
        self.listing: list[Step] | None = None
        self.beside: dict[str, Callable[[Any], Iterable[Step]]] = {}
        self.template: Callable[[list[str]], Any] | None = None
        self.asked: dict[str, Callable[[dict[str, Any]], Any]] = {}
        self.reply, self.models, self.key, self.thinking = reply, models, key, thinking
        self.scenario = scenario
        self.requests: list[Recorded] = []
        self.stopping = False
        self._connections = 0
        self._lock = threading.Lock()
        self._server = Server(0, self)
        self._server.RequestHandlerClass = EventConnection
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._server.begin()

    @property
    def chats(self) -> list[Recorded]:
        return [seen for seen in self.requests if seen.path == CHAT]

    def __enter__(self) -> FakeOpenAI:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stopping = True
        self._server.end()
        self._server.drop_connections()

    def next_connection(self) -> int:
        with self._lock:
            self._connections += 1
            return self._connections

    def steps_for(self, seen: Recorded) -> tuple[Iterator[Step], int | None, bool]:
        with self._lock:
            self.requests.append(seen)
        return played(self._steps(seen)), None, False

    def _steps(self, seen: Recorded) -> Iterable[Step]:
        if self.key is not None and seen.headers.get("authorization") != f"Bearer {self.key}":
            return [refusal(401, "Incorrect API key provided")]
        if seen.path == "/v1/models":
            row = {"object": "model", "max_model_len": 4096} | self.about
            rows = [{"id": name} | row for name in self.models]
            return self.listing or [whole({"object": "list", "data": rows})]
        if seen.path in self.beside:
            return self.beside[seen.path](seen.json)
        if seen.path == "/apply-template" and self.template is not None:
            made = self.template([each["content"] for each in seen.json["messages"]])
            return [refusal(400, "No.") if made is None else whole({"prompt": made})]
        if seen.path in self.asked:
            return [whole(self.asked[seen.path](seen.json))]
        if seen.path != CHAT:
            return [Whole(404, "text/plain", b"404 page not found")]
        if seen.json.get("model") not in self.models and not self.serves_any:
            return [refusal(404, f"The model '{seen.json.get('model')}' does not exist")]
        return self.play or SCENARIOS[self.scenario](self)

    def events(self, finish: str | None = "stop") -> list[Chunk]:
        """The answer as chunks, without the mark at its end."""
        parts = [{"role": "assistant", "content": ""}]
        parts += [{"reasoning_content": self.thinking}] if self.thinking else []
        parts += [{"content": piece} for piece in self.reply]
        rows = [event(delta=delta) for delta in parts]
        return rows + ([event(delta={}, finish=finish)] if finish else [])


def played(steps: Iterable[Step]) -> Iterator[Step]:
    yield from steps


def event(delta: Any = None, finish: str | None = None, **more: Any) -> Chunk:
    """One event of a stream."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    value = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "small"}
    return data(json.dumps(value | {"choices": choices} | more))


def data(text: str) -> Chunk:
    return Chunk(f"data: {text}\n\n".encode())


def whole(value: Any, status: int = 200) -> Whole:
    return Whole(status, JSON, json.dumps(value).encode())


def refusal(status: int, message: str, **more: Any) -> Whole:
    return whole({"error": {"message": message, "type": "invalid_request_error", **more}}, status)


USAGE = {"prompt_tokens": 21, "completion_tokens": 7, "total_tokens": 28}
DONE = data("[DONE]")
Play = Callable[[FakeOpenAI], Any]


def endless(fake: FakeOpenAI) -> Iterator[Step]:
    while True:
        yield from fake.events(None)
        yield Pause(0.01)


SCENARIOS: dict[str, Play] = {
    "happy": lambda fake: [*fake.events(), event(usage=USAGE), DONE],
    "length": lambda fake: [*fake.events("length"), event(usage=USAGE), DONE],
    "refusal": lambda fake: [event(delta={"refusal": "No."}), event(delta={}, finish="stop"), DONE],
    "fingerprint": lambda fake: [
        *fake.events(None),
        event(delta={}, finish="stop", system_fingerprint="b4567-abc"),
        DONE,
    ],
    "odd-names": lambda fake: [
        *fake.events(None),
        event(delta={}, finish="\ud800", system_fingerprint="\ud800"),
        DONE,
    ],
    "full": lambda fake: [*fake.events(), event(usage={**USAGE, "prompt_tokens": 4096}), DONE],
    "no-delta": lambda fake: [
        data('{"choices": [{"index": 0, "delta": null}]}'),
        *fake.events(),
        DONE,
    ],
    "keyed-choices": lambda fake: [*fake.events(None), data('{"choices": {"a": 1}}')],
    "gzip": lambda fake: [
        Whole(200, EVENTS, b"", {"Content-Encoding": "gzip"}),
    ],
    "no-usage": lambda fake: [*fake.events(), DONE],
    "no-mark": lambda fake: fake.events(),
    "eof": lambda fake: fake.events(None),
    "cut": lambda fake: [*fake.events(None), Cut()],
    "reset": lambda fake: [*fake.events(None), Cut(reset=True)],
    "closed": lambda fake: [Cut()],
    "silent": lambda fake: [Pause(FOREVER)],
    "stalls": lambda fake: [*fake.events(None), Pause(FOREVER)],
    "endless": endless,
    "error-event": lambda fake: [*fake.events(None), data('{"error": {"message": "it broke"}}')],
    "bad-json": lambda fake: [*fake.events(None), data('{"choices": [')],
    "null-event": lambda fake: [*fake.events(None), data("null")],
    "list-event": lambda fake: [*fake.events(None), data("[1]")],
    "number-choices": lambda fake: [*fake.events(None), data('{"choices": 3}')],
    "object-content": lambda fake: [event(delta={"content": {"a": 1}}), DONE],
    "huge-line": lambda fake: [Chunk(b"data: " + b"x" * (1 << 20) + b"x")] * 2,
    "endless-event": lambda fake: itertools.repeat(Chunk(b"data: x\n" * 10_000), 1_000),
    "endless-comments": lambda fake: itertools.repeat(Chunk(b": x\n\n" * 10_000), 1_000),
    "html-200": lambda fake: [Whole(200, "text/html", b"<html>hello</html>")],
    "json-200": lambda fake: [whole({"choices": []})],
    "no-http": lambda fake: [Raw(b"nonsense\r\n\r\n"), Cut()],
    "redirect": lambda fake: [Whole(302, "", b"", {"Location": "/v1/elsewhere"})],
    "busy": lambda fake: [refusal(429, "Rate limit reached")],
    "broken": lambda fake: [refusal(500, "CUDA out of memory")],
    "html-502": lambda fake: [Whole(502, "text/html", b"<html>Bad Gateway</html>")],
    "too-long": lambda fake: [refusal(400, "m", code="context_length_exceeded")],
    "no-images": lambda fake: [refusal(500, "image input is not supported")],
}


def main() -> None:
    """Serve by hand until interrupted; the first line that is printed is the address."""
    with FakeOpenAI() as fake:
        print(fake.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
