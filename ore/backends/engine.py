"""A GGUF model in this process, driven over the engine's own loopback port with a secret key.

The port is the only way in that can be stopped in mid-prompt and torn down safely.
"""

from __future__ import annotations

import atexit
import json
import os
import secrets
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from socket import SHUT_RDWR, socket
from typing import Any

from ore.backends.loading import context_length, start_server
from ore.errors import (
    BackendError,
    BackendTimeoutError,
    ContextTruncatedError,
    IncompleteAnswerError,
)
from ore.files.signals import deferred_signals

WINDOW = 4096
"""The usual context window, in tokens."""
_LEAST, _BOUND = 16, 1 << 31
"""What a model may say of its own: the engine counts in 32 bits."""

_CHAT = "/v1/chat/completions"
_ERROR_BYTES = 1 << 16
_ASK_SECONDS = 60.0

_ABANDONED: list[Any] = []
"""Engines that never answered. Unloading one whose threads have not begun would wait for ever."""


class Engine:
    """One loaded model; constructing it loads the file, or raises what ``start_server`` does.

    Args:
        path: The model's file.
        window: The context window in tokens; a model that was made for less has its own.

    Attributes:
        window: The context window, in tokens.
        template: The model's chat template: how messages become its prompt.
        load_duration: How long loading took, in nanoseconds.
    """

    def __init__(self, path: Path, *, window: int | None = None) -> None:
        started = time.monotonic_ns()
        window = min(window or WINDOW, _made_for(path))
        self._process = os.getpid()
        self._key = secrets.token_urlsafe(32)
        self._headers = {
            "Authorization": f"Bearer {self._key}",
            "Content-Type": "application/json",
        }
        self._server: Any = None
        self._lock = threading.Lock()
        self._sockets: set[socket] = set()
        self._is_open = True
        try:
            with deferred_signals(starts_threads=True):  # half started it can't be stopped
                self._start(path, window)
        except BaseException:
            self.close()
            raise
        self.load_duration = time.monotonic_ns() - started

    def _start(self, path: Path, window: int) -> None:
        self._server = start_server(path, self._key, window)
        self._port = int(self._server.listening_address.rpartition(":")[2])
        try:
            self._ask("/lora-adapters")  # answered by the thread that computes
            properties = self._ask("/props")
            self.window = int(properties["default_generation_settings"]["n_ctx"])
            self.template = str(properties["chat_template"])
        except (OSError, HTTPException, LookupError, TypeError, ValueError) as exc:
            _ABANDONED.append(self._server)
            raise BackendError(
                f"The embedded engine was started on {path} and does not answer: try again."
            ) from exc
        atexit.register(self.close)

    def events(
        self, request: dict[str, Any], *, silence: float | None, end: float | None
    ) -> Generator[dict[str, Any]]:
        """Send one chat request and yield the engine's events as they come, the last one included.

        Closing the generator closes the connection, which stops the model after the batch that it
        is computing.

        Args:
            request: The body, as the engine's chat endpoint takes it.
            silence: The longest time without an event, in seconds; None waits.
            end: When to give up, in seconds of ``time.monotonic``; None waits.
        """
        wait = _Wait(silence, end)
        try:
            with self._connected() as (connection, opened):
                wait.bound(opened)
                body = json.dumps({**request, "stream": True, "return_progress": True})
                connection.request("POST", _CHAT, body.encode(), self._headers)
                response = connection.getresponse()
                if response.status != 200:
                    raise _refusal(response.read(_ERROR_BYTES))
                yield from _parsed(response, opened, wait)
        except TimeoutError as exc:
            raise wait.expired() from exc
        except (OSError, HTTPException, ValueError) as exc:
            raise _cut_off() from exc

    def close(self) -> None:
        """Stop and unload the model; may be called twice, and while the model computes.

        It waits for the batch that is being computed. The engine's threads must be gone before
        the process is torn down, or it crashes: at exit this is called in any case.
        """
        if os.getpid() != self._process:  # a forked child has the object, but not its threads
            return
        with self._lock:
            self._is_open = False
            for opened in self._sockets:  # the engine waits for every one that is still there
                with suppress(OSError):  # the other end was faster
                    opened.shutdown(SHUT_RDWR)
        self._server = None
        atexit.unregister(self.close)

    @contextmanager
    def _connected(self) -> Iterator[tuple[HTTPConnection, socket]]:
        """Connect for the block; ``close`` may hang up meanwhile in another thread."""
        with closing(HTTPConnection("127.0.0.1", self._port)) as connection:
            with self._lock:
                if not self._is_open:
                    raise _cut_off()
                connection.connect()
                opened = connection.sock
                self._sockets.add(opened)
            try:
                yield connection, opened
            finally:
                with self._lock, suppress(OSError):
                    self._sockets.remove(opened)
                    opened.shutdown(SHUT_RDWR)

    def _ask(self, path: str) -> Any:
        with closing(HTTPConnection("127.0.0.1", self._port, timeout=_ASK_SECONDS)) as connection:
            connection.request("GET", path, headers=self._headers)
            return json.loads(connection.getresponse().read())


class _Wait:
    """How long one request may still take, applied to its socket before each read."""

    def __init__(self, silence: float | None, end: float | None) -> None:
        self._silence = silence
        self._end = end

    def bound(self, opened: socket) -> None:
        left = None if self._end is None else self._end - time.monotonic()
        if left is not None and left <= 0:
            raise self.expired()
        bounds = [seconds for seconds in (left, self._silence) if seconds is not None]
        opened.settimeout(min(bounds, default=None))

    def expired(self) -> BackendTimeoutError:
        if self._end is not None and time.monotonic() >= self._end:
            return BackendTimeoutError(
                "The turn took longer than its deadline allows: nothing was kept of it; allow "
                "more time, or ask for less."
            )
        return BackendTimeoutError(
            f"The embedded model was silent for {self._silence:g} seconds: nothing was kept of "
            f"this turn; allow a longer silence, or none."
        )


def _parsed(response: HTTPResponse, opened: socket, wait: _Wait) -> Generator[dict[str, Any]]:
    """Yield the events of a stream of server-sent events, up to its end mark."""
    while True:
        wait.bound(opened)
        line = response.readline()
        if not line.endswith(b"\n"):
            raise _cut_off()
        field, _, value = line.rstrip(b"\n").partition(b": ")
        if value == b"[DONE]":
            return
        if field in (b"data", b"error"):
            event = json.loads(value)
            if field == b"error" or "error" in event:
                raise _refusal(value)
            yield event


def _made_for(path: Path) -> int:
    """Return how large a window the model allows; the engine would abort over an absurd one."""
    window = context_length(path)
    if window is None:
        return _BOUND
    if not _LEAST <= window < _BOUND:
        raise BackendError(
            f"{path} can't be loaded: it says that the model's context window has {window} tokens."
        )
    return window


def _refusal(body: bytes) -> BackendError:
    """Return the error that the engine's own words stand for."""
    said = ""
    with suppress(ValueError, AttributeError, TypeError):
        answer = json.loads(body)
        error = answer.get("error", answer)
        said = f": {error['message'][:300]}" if error.get("message") else ""
        if "n_prompt_tokens" in error:
            return ContextTruncatedError(
                f"The prompt has {error['n_prompt_tokens']} tokens and the model's window holds "
                f"{error.get('n_ctx')}: nothing was sent to the model. In a conversation the "
                f"prompt is all of it: go on with -o num_ctx=N, or in another one; else shorten it."
            )
    return BackendError(
        f"The embedded engine refused the turn{said}. Change the prompt, or use another model."
    )


def _cut_off() -> IncompleteAnswerError:
    return IncompleteAnswerError(
        "The embedded engine stopped before the answer was complete: nothing was kept of this "
        "turn; try again."
    )
