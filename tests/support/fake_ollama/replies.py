"""What an Ollama server answers at each endpoint, as long as all goes well.

Knows nothing about sockets, nor about what goes wrong on the way (the scenarios).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from tests.support.fake_ollama.rules import (
    NAME,
    Refused,
    check_abilities,
    check_format,
    check_options,
    check_types,
    count_tokens,
    decode,
    encode,
    fit,
    full_name,
    now,
    split_words,
)

JSON = "application/json; charset=utf-8"
BARE_JSON = "application/json"
NDJSON = "application/x-ndjson"
TEXT = "text/plain"

UNLOAD = (0, "0", "0s", "0m", "0h")
VERSION = "0.32.15"
REFUSES_FROM = (0, 12, 6)
PROMPT_NANOSECONDS = 1_000_000
EVAL_NANOSECONDS = 10_000_000
LOAD_NANOSECONDS = 5_000_000
EXPIRES = "2026-08-21T18:53:22.123456789Z"
TEMPLATE = "{{ range .Messages }}<|{{ .Role }}|>{{ .Content }}\n{{ end }}<|assistant|>"
MODIFIED = "2026-08-21T18:48:22.123456789Z"
PRIVATE_HOST = re.compile(
    r"localhost|.+\.(localhost|local|internal)|127\..*|10\..*|192\.168\..*|172\.(1[6-9]|2\d|3[01])"
    r"\..*|0\.0\.0\.0|::1?"
)


@dataclass
class Reply:
    """One answer: JSON objects, streamed as lines or sent as one body, or else a fixed ``text``.

    Attributes:
        delay: Seconds between two lines of a stream, or before the body of one that is not.
        flushed: Whether a body that is not streamed is sent without its length, since a stream was
            to come in its place.
        loading: A context in which the model is being loaded.
        kept: The messages that the model got to see, for a chat.
    """

    lines: Iterable[dict] = ()
    stream: bool = False
    status: int = 200
    content_type: str = JSON
    text: bytes = b""
    delay: float = 0.0
    flushed: bool = False
    loading: Callable[[], AbstractContextManager] = nullcontext
    kept: list[dict] | None = None

    def body(self) -> bytes:
        """The whole body of an answer that is not streamed."""
        return self.text or b"".join(encode(line) for line in self.lines)


def without_empty(**values: Any) -> dict:
    """Return what Go's ``omitempty`` leaves: nothing that is zero or empty."""
    return {name: value for name, value in values.items() if value}


@dataclass
class Ollama:
    """The state of a server and what it answers; see ``FakeOllama`` for the attributes."""

    models: list[str]
    reply: str | Callable[[dict], str]
    chunks: list[str] | None
    thinking: str | None
    num_ctx: int
    delay: float
    capabilities: tuple[str, ...]
    context_length: int = 131072
    loaded: dict[str, int] = field(default_factory=dict)
    loads: list[object] = field(default_factory=list)
    version: str = VERSION
    drops_truncate: bool = False  # as a proxy before it may
    sorts_keys: bool = False  # likewise
    copies: dict[str, str] = field(default_factory=dict)
    able: dict[str, list[str]] = field(default_factory=dict)
    """What single models can do, instead of ``capabilities``."""
    lists_abilities: bool = False
    """Whether ``/api/tags`` says what a model can do and its window, as since 0.33."""
    shown: dict = field(default_factory=dict)
    """What ``/api/show`` says of a model besides, or instead."""
    tokens: int | None = None
    """What it says that it counted of a prompt, instead of what it did."""

    @contextmanager
    def loading(self) -> Iterator[None]:
        """While a model is being loaded, /api/ps has to wait."""
        load = object()
        self.loads.append(load)
        try:
            yield
        finally:
            self.loads.remove(load)

    def find(self, name: str, shown: str | None = None) -> str:
        """Return a model's name as it is listed."""
        if not name.strip():
            raise Refused(400, "model is required")
        if not NAME.fullmatch(name):
            raise Refused(400, "invalid model name")
        for model in self.models:
            if full_name(model) == full_name(name):
                return model
        raise Refused(404, f"model '{shown or name}' not found")

    def entry(self, model: str) -> dict:
        """What every list says of a model."""
        details = {
            "parent_model": "",
            "format": "gguf",
            "family": "llama",
            "families": ["llama"],
            "parameter_size": "3.2B",
            "quantization_level": "Q4_K_M",
        }
        digest = hashlib.sha256(self.copies.get(model, model).encode()).hexdigest()
        start = {"name": model, "model": model}
        return start | {"size": 2_019_393_189, "digest": digest, "details": details}

    def tags(self) -> Reply:
        models = []
        for model in self.models:
            entry = self.entry(model)
            name = {"name": entry.pop("name"), "model": entry.pop("model")}
            if self.lists_abilities:
                entry["details"] |= {"context_length": self.context_length}
                entry["capabilities"] = self.abilities(model)
            models.append(name | {"modified_at": MODIFIED} | entry)
        return Reply([{"models": models}])

    def ps(self) -> Reply:
        return Reply(self.ps_lines())

    def ps_lines(self) -> Iterator[dict]:
        models = [
            self.entry(model)
            | {"expires_at": EXPIRES, "size_vram": 0, "context_length": self.loaded[model]}
            for model in self.models
            if model in self.loaded
        ]
        yield {"models": models}

    def show(self, request: dict) -> Reply:
        name = request.get("model") or request.get("name") or ""
        model = self.find(name, name if ":" in name else f"{name}:latest")
        info = {"general.architecture": "llama", "llama.context_length": self.context_length}
        body = {
            "modelfile": f"FROM {model}\nTEMPLATE {TEMPLATE}\n",
            "parameters": f"{'stop':<30} \"<|eot_id|>\"",
            "template": TEMPLATE,
            "details": self.entry(model)["details"],
            "model_info": info,
            "capabilities": self.abilities(model),
            "modified_at": MODIFIED,
        }
        return Reply([{**body, **self.shown}])

    def abilities(self, model: str) -> list[str]:
        if model in self.able:
            return self.able[model]
        thinks = self.thinking is not None and "thinking" not in self.capabilities
        return [*self.capabilities, *(["thinking"] if thinks else [])]

    def pull(self, request: dict) -> Reply:
        name = request.get("model") or request.get("name") or ""
        if not NAME.fullmatch(name):
            raise Refused(400, "invalid model name")
        lines = self.pull_lines(name)
        if request.get("stream") is False:
            last = (line for line in lines if line["status"] == "success")
            return Reply(last, content_type=BARE_JSON)
        return Reply(lines, stream=True, delay=self.delay)

    def pull_lines(self, name: str) -> Iterator[dict]:
        yield {"status": "pulling manifest"}
        for layer, total in (("model", 92_871_040), ("template", 1_024)):
            digest = hashlib.sha256(f"{name}/{layer}".encode()).hexdigest()
            line = {"status": f"pulling {digest[:12]}", "digest": f"sha256:{digest}"}
            for tenths in (0, 3, 7, 10):
                completed = total * tenths // 10
                yield line | {"total": total} | without_empty(completed=completed)
        yield {"status": "verifying sha256 digest"}
        yield {"status": "writing manifest"}
        if all(full_name(model) != full_name(name) for model in self.models):
            self.models.insert(0, name if ":" in name else f"{name}:latest")
        yield {"status": "success"}

    def chat(self, request: dict, overflow: str) -> Reply:
        if (
            tuple(map(int, re.findall(r"\d+", self.version)[:3])) < REFUSES_FROM
            or self.drops_truncate
        ):
            request = {**request, "truncate": None}  # it takes no notice of it
        check_types(dict(sorted(request.items())) if self.sorts_keys else request)
        if not request.get("model"):
            raise Refused(400, "model is required")
        model = self.find(request.get("model") or "")
        check_abilities(request, model, self.abilities(model))
        check_options(request)
        num_ctx = self.window(request, model)
        if not request.get("messages"):
            return Reply(self.load_lines(request, model, num_ctx), loading=self.loading)
        stream = request.get("stream") is not False
        try:
            check_format(request)
            kept, tokens = fit(request, num_ctx, overflow)
        except Refused as exc:
            kind = BARE_JSON if stream else JSON
            lines = [{"error": str(exc)}]
            return Reply(lines, status=exc.status, content_type=kind, flushed=stream)
        pieces, metrics = self.generate(request, num_ctx, tokens)
        lines = self.chat_lines(request, model, num_ctx, pieces, metrics)
        reply = Reply(lines, stream, loading=self.loading, kept=kept)
        if stream:
            return replace(reply, delay=self.delay)
        return replace(reply, lines=merged(lines), delay=self.delay * len(pieces))

    def window(self, request: dict, model: str) -> int:
        wanted = (request.get("options") or {}).get("num_ctx") or self.num_ctx
        least = 2048 if "vision" in self.abilities(model) else 4
        return min(max(int(wanted), least), self.context_length)

    def load_lines(self, request: dict, model: str, num_ctx: int) -> Iterator[dict]:
        reason = "unload" if request.get("keep_alive") in UNLOAD else "load"
        self.note_use(request, model, num_ctx)
        self.note_end(request, model)
        message = {"role": "assistant", "content": ""}
        yield start(request) | {"message": message, "done": True, "done_reason": reason}

    def note_use(self, request: dict, model: str, num_ctx: int) -> None:
        self.loaded[self.copies.get(model, model)] = num_ctx

    def note_end(self, request: dict, model: str) -> None:
        """After an answer the model may be unloaded."""
        if request.get("keep_alive") in UNLOAD:
            del self.loaded[self.copies.get(model, model)]

    def generate(
        self, request: dict, num_ctx: int, prompt: int
    ) -> tuple[list[tuple[str, str]], dict]:
        """Return the answer's pieces, ("thinking" or "content", text), and the final line's rest."""
        thinks = self.thinking is not None and request.get("think") is not False
        text = self.reply(request) if callable(self.reply) else self.reply
        words = split_words(text) if self.chunks is None else self.chunks
        pieces = [("thinking", word) for word in split_words(self.thinking)] if thinks else []
        pieces += [("content", word) for word in words]
        limit = (request.get("options") or {}).get("num_predict") or -1
        limits = [limit] if limit > 0 else []
        limits += [max(num_ctx - prompt, 1)] if request.get("shift") is False else []
        prompt = prompt if self.tokens is None else self.tokens
        tokens, said = 0, []
        for kind, word in pieces:
            tokens += max(count_tokens(word), 1)
            if limits and tokens > min(limits):
                return said, {"done_reason": "length"} | metrics(prompt, min(limits))
            said.append((kind, word))
        return said, {"done_reason": "stop"} | metrics(prompt, tokens)

    def chat_lines(
        self, request: dict, model: str, num_ctx: int, pieces: list[tuple[str, str]], end: dict
    ) -> Iterator[dict]:
        self.note_use(request, model, num_ctx)
        for kind, word in pieces:
            message = {"role": "assistant", "content": ""} | {kind: word}
            yield start(request) | {"message": message, "done": False}
        self.note_end(request, model)
        message = {"role": "assistant", "content": ""}
        yield start(request) | {"message": message, "done": True} | end

    def answer(self, method: str, path: str, host: str, body: bytes, overflow: str) -> Reply:
        """Return what the server says to one request, refusals included."""
        path = urlsplit(path).path
        if not PRIVATE_HOST.fullmatch(urlsplit(f"//{host}").hostname or ""):
            return Reply(status=403, content_type="")
        simple = {
            "/": lambda: Reply(text=b"Ollama is running", content_type=f"{TEXT}; charset=utf-8"),
            "/api/version": lambda: Reply([{"version": self.version}]),
            "/api/tags": self.tags,
            "/api/ps": self.ps,
        }
        posted = {
            "/api/chat": lambda request: self.chat(request, overflow),
            "/api/show": self.show,
            "/api/pull": self.pull,
        }
        if path not in simple and path not in posted:
            return Reply(status=404, content_type=TEXT, text=b"404 page not found")
        if method not in (("GET", "HEAD") if path in simple else ("POST",)):
            return Reply(status=405, content_type=TEXT, text=b"405 method not allowed")
        try:
            return simple[path]() if path in simple else posted[path](decode(body))
        except Refused as exc:
            return Reply([{"error": str(exc)}], status=exc.status)


def start(request: dict) -> dict:
    """What every line of a chat begins with."""
    return {"model": request["model"], "created_at": now()}


def metrics(prompt: int, tokens: int) -> dict:
    """What the final line measured: tokens and nanoseconds; what is zero is left out."""
    prompt_time, time = prompt * PROMPT_NANOSECONDS, tokens * EVAL_NANOSECONDS
    return without_empty(
        total_duration=LOAD_NANOSECONDS + prompt_time + time,
        load_duration=LOAD_NANOSECONDS,
        prompt_eval_count=prompt,
        prompt_eval_duration=prompt_time,
        eval_count=tokens,
        eval_duration=time,
    )


def merged(lines: Iterable[dict]) -> Iterator[dict]:
    """Yield one object for a whole stream: its texts joined, the rest from its last line."""
    texts = {"role": "assistant", "content": "", "thinking": ""}
    for line in lines:
        for kind in ("content", "thinking"):
            texts[kind] += line["message"].get(kind, "")
    yield line | {
        "message": {"role": "assistant", "content": texts["content"]}
        | without_empty(thinking=texts["thinking"])
    }
