"""Ollama's wire protocol with a real model behind it: the embedded engine answers the chats.

So the client is also seen with real tokens, counts and timings. It is an emulation: what the server
itself does wrong is in ``tests/support/fake_ollama/__init__.py``. By hand: ``python -m tests.by_hand.real_wire``.
"""

from __future__ import annotations

import json
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ore.backends.embedded import EmbeddedBackend
from ore.backends.settings import Settings
from ore.errors import BackendError
from ore.types import Message

MODEL = "smollm2:135m"
CREATED = "2026-01-01T00:00:00Z"
METRICS = ("total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration")
METRICS += ("eval_count", "eval_duration")


class RealWire:
    """A server on a loopback port for as long as the ``with`` block runs."""

    def __init__(self) -> None:
        self.reasoner = EmbeddedBackend().reasoner(MODEL, Settings(conversation=True))
        self.turn = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.wire = self
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> RealWire:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.reasoner.close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        model = {"name": MODEL, "model": MODEL, "size": 98_362_432, "digest": "b179c952" * 8}
        known = {
            "/api/tags": {"models": [model]},
            "/api/ps": {"models": [{**model, "context_length": 4096}]},
            "/api/version": {"version": "0.0.0-embedded"},
        }
        if self.path in known:
            self.whole(200, known[self.path])
        else:
            self.whole(404, {"error": "not here"})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/api/chat":
            self.whole(404, {"error": "not here"})
        elif request["model"] not in (MODEL, MODEL.partition(":")[0]):
            self.whole(404, {"error": f"model '{request['model']}' not found"})
        else:
            with self.server.wire.turn:
                self.chat(request)

    def chat(self, request: dict) -> None:
        messages = [Message(m["role"], m.get("content", "")) for m in request["messages"]]
        streams, text, first = request.get("stream", True), [], True
        with closing(self.server.wire.reasoner.stream_reason(messages)) as chunks:
            try:
                while True:
                    text.append(next(chunks))
                    if streams:
                        self.line(self.part(text[-1]), first)
                        first = False
            except StopIteration as end:
                last = self.part("" if streams else "".join(text), end.value.metadata)
            except BackendError as exc:
                return self.whole(500, {"error": str(exc)})
        if not streams:
            return self.whole(200, last)
        self.line(last, first)
        self.wfile.write(b"0\r\n\r\n")

    def part(self, content: str, metadata: dict | None = None) -> dict:
        part = {"model": MODEL, "created_at": CREATED}
        part["message"] = {"role": "assistant", "content": content}
        if metadata is None:
            return {**part, "done": False}
        metrics = {name: metadata[name] for name in METRICS if metadata.get(name)}
        return {**part, "done": True, "done_reason": metadata["done_reason"], **metrics}

    def line(self, value: dict, first: bool) -> None:
        if first:
            self.send_response(200)
            self.send_header("Content-Type", "application/x-ndjson")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
        data = json.dumps(value, ensure_ascii=False).encode() + b"\n"
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def whole(self, status: int, value: dict) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    with RealWire() as wire:
        print(wire.url, flush=True)
        threading.Event().wait()
