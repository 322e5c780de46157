"""A GGUF model in a process of its own, asked over a Unix socket in a private folder.

Whatever the file makes native code do, that process can be ended, and ORE goes on.
"""

from __future__ import annotations

import json
import os
import secrets
import time
import weakref
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from socket import SHUT_WR, socket
from typing import Any

from ore.backends.engine_failures import (
    OTHER_MODEL,
    closed_error,
    crash_error,
    refusal_error,
    timeout_error,
    uncounted_error,
)
from ore.backends.engine_load import LOOK_SECONDS, EngineProcess
from ore.backends.engine_wire import DRAWN, Connection, parsed
from ore.backends.hardware import Stops
from ore.backends.http import LINE_LIMIT, REFUSAL_LIMIT, REPLY_LIMIT, Deadline
from ore.backends.llama_tokens import TOKENIZE
from ore.backends.turn_errors import TurnFailedError, TurnTookLongError
from ore.errors import BackendError, BackendTimeoutError
from ore.files.signals import is_ready
from ore.reasoner.stop import OwnLock, shut, woken_by

WINDOW = 4096  # the usual context window, in tokens
_ASK_SECONDS, _TEMPLATE_SECONDS = 60.0, 8.0
_BEGIN_SECONDS = 60.0
"""The longest that the engine may take to put a prompt together, which computes nothing yet."""
_STOP_SECONDS, _MOMENT = 3.0, 0.1
"""How long it may take to let go of a request that was given up, or to show a sign of life; and to end."""


class Engine:
    """One loaded model; constructing it loads the file, or raises what ``EngineProcess`` does.

    Attributes:
        window, longest: The context window, and the largest that the model can have, in tokens.
        properties: What the engine says of itself, its defaults among it.
        computes_with: Its threads and its batch, in tokens.
        device: What computes: ``"CPU"``, or the names of graphics cards.
        path: The model's file.
        template: The model's chat template: how messages become its prompt.
        has_given_template: Whether it was given in the place of the file's own.
        takes_system: Whether it takes system messages; else the engine makes them the user's.
        load_duration: How long loading took, in nanoseconds.
    """

    name = "The embedded engine"
    larger_window = "Raise the window with `options['num_ctx']`."

    def __init__(
        self,
        path: Path,
        *,
        window: int | None = None,
        slots: int = 1,
        template: str | None = None,
        layers: int | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        started, deadline = time.monotonic_ns(), deadline or Deadline(None)
        key = secrets.token_urlsafe(32)
        self._headers = {"Authorization": f"Bearer {key}", "Connection": "close"}
        self._headers["Content-Type"] = "application/json"
        self.path: Path = path
        self.has_given_template: bool = bool(template)
        self._template_name = f"chat template of {path}"
        self._remedy, self._failed, late = OTHER_MODEL, BackendError, BackendTimeoutError
        if template:
            self._template_name = "chat template"
            self._remedy = "correct the chat template, or leave `chat_template=` out"
            self._failed, late = TurnFailedError, TurnTookLongError
        self._owner, self._lock, self._asking = os.getpid(), OwnLock(), 0
        self._is_open, self._is_stuck, self._last_event = True, False, 0.0
        try:
            self._process = EngineProcess(
                path, window or WINDOW, slots, key, deadline, template, layers
            )
        except TimeoutError as exc:
            raise timeout_error(None, deadline, late) from exc
        self.computes_with: dict[str, int] = self._process.computes_with
        self.device: str = "CPU" if layers == 0 else ", ".join(self._process.cards) or "CPU"
        # For a program that does not close it: when it lets go of this object. Its end is the process's.
        self._unclosed = weakref.finalize(self, self._process.end)
        self._unclosed.atexit = False
        try:
            said: dict[str, Any] = self.ask("/props", deadline.wait(_ASK_SECONDS))
            window = int(said["default_generation_settings"]["n_ctx"])
            self.window, self.longest = window, max(window, self._process.longest)
            self.template, self.properties = str(said["chat_template"]), said
            self.takes_system: bool = bool(said["chat_template_caps"]["supports_system_role"])
        except (ConnectionError, FileNotFoundError, PermissionError) as exc:  # killed, moved
            error = self._cut_off(_Turn())
            self.close()
            raise error from exc
        except BaseException as exc:
            self.close()
            if isinstance(exc, TimeoutError) and deadline.passed:
                raise timeout_error(None, deadline, late) from exc
            if not isinstance(exc, (OSError, HTTPException, LookupError, TypeError, ValueError)):
                raise
            raise BackendError(
                f"The embedded engine was started on {path} and does not say what it has loaded, or "
                f"more than {REPLY_LIMIT >> 20} MiB of it: use another model."
            ) from exc
        self.load_duration: int = time.monotonic_ns() - started

    @property
    def is_asked(self) -> bool:
        """Whether it is at work for a turn."""
        return self._asking > 0

    def answers(self, deadline: Deadline) -> bool:
        """Return whether the model is there to be asked; else another engine has to load it."""
        is_ours = os.getpid() == self._owner  # a forked child asks an engine of its own
        if not (is_ours and self._is_open and self._process.is_alive):
            return False
        if self.is_asked:  # for another turn, which must not be ended
            return True
        with suppress(OSError, HTTPException, ValueError):
            return bool(self.ask("/health", deadline.wait(_STOP_SECONDS)))
        return False

    def events(
        self,
        request: dict[str, Any],
        *,
        silence: float | None,
        deadline: Deadline,
        path: str = "/v1/chat/completions",
        longest: int = LINE_LIMIT,
        is_marked: bool = True,
    ) -> Generator[dict[str, Any]]:
        """Send one request and yield the engine's events as they come, the last one included.

        Closing the generator stops the model after the batch that it is computing; where it does
        not stop, its process is ended.

        Args:
            silence: The longest time without an event, in seconds; None waits.
            longest: The most bytes of one event.
            is_marked: Whether the end of the stream has a mark, without which it is not whole.
        """
        begin = _BEGIN_SECONDS if silence is None else min(silence, _BEGIN_SECONDS)
        body = {**DRAWN, **request, "stream": True, "return_progress": True}
        with self._answering(path, body, begin, silence, deadline) as (response, opened):

            def wait() -> None:
                self._last_event = time.monotonic()
                opened.settimeout(deadline.wait(silence))

            yield from parsed(response, wait, longest, is_marked)

    def posted(
        self, path: str, request: dict[str, Any], longest: int, deadline: Deadline
    ) -> dict[str, Any]:
        """Return what the engine says to a question that computes nothing, in ``longest`` bytes.

        Raises:
            TurnRefusedError: The template refuses the messages.
            BackendError: The template has no end, or makes too much, or a text is too long.
        """
        begin = _BEGIN_SECONDS if path == TOKENIZE else _TEMPLATE_SECONDS
        with self._answering(path, request, begin, None, deadline) as (response, _):
            body = response.read(longest + 1)
            if len(body) > longest:
                what, step = f"The {self._template_name} makes", self._remedy
                if path == TOKENIZE:  # the file's texts of these tokens are long
                    what, step = f"The tokens of {self.path} make", OTHER_MODEL
                raise self._failed(f"{what} more than {longest:,} bytes of these messages: {step}.")
            return dict(json.loads(body))

    @contextmanager
    def _answering(
        self,
        path: str,
        request: dict[str, Any],
        begin: float,
        silence: float | None,
        deadline: Deadline,
    ) -> Iterator[tuple[HTTPResponse, socket]]:
        """Send a request; yield its answer, which may take ``begin`` seconds to begin, and its socket."""
        turn = _Turn()
        try:
            with self._connected(turn) as (connection, opened):
                opened.settimeout(deadline.wait(begin if self._asking == 1 else silence))
                turn.sent = json.dumps(request).encode()
                connection.request("POST", path, turn.sent, self._headers)
                self._wait(opened.fileno(), begin, silence, deadline)
                turn.answer = response = connection.getresponse()  # comes with the first event
                if response.status != 200:
                    raise self._refusal(response.read(REFUSAL_LIMIT))
                yield response, opened
        except TimeoutError as exc:
            has_begun = turn.answer is not None
            if deadline.passed or (silence is not None and (has_begun or begin == silence)):
                raise timeout_error(silence, deadline, TurnTookLongError) from exc
            if has_begun:
                raise closed_error() from exc
            if path == TOKENIZE:
                raise uncounted_error(begin) from exc
            kind, why = self._failed, f"the {self._template_name} may go round in circles"
            step = self._remedy
            if "response_format" in request:  # its schema becomes a grammar before that
                kind, why = TurnFailedError, f"the schema may be too large, or {why}"
                step = f"shorten the schema, or {step}"
            raise kind(
                f"The embedded engine did not begin with the prompt in {begin:g} seconds and was "
                f"ended: {why}; {step}."
            ) from exc
        except (OSError, HTTPException, ValueError) as exc:
            raise self._cut_off(turn) from exc

    def _wait(self, number: int, begin: float, silence: float | None, deadline: Deadline) -> None:
        """Wait for an answer's beginning; ``TimeoutError`` where it takes longer than it may."""
        silent, stops, started = Deadline(silence), Stops(self._process.pid), time.monotonic()
        while not is_ready(number, deadline.wait(silent.wait(LOOK_SECONDS))):
            now = time.monotonic() - stops.seconds()
            patience = begin if self._asking == 1 else _BEGIN_SECONDS  # others go before
            if now - started >= begin and now - self._last_event >= patience:
                raise TimeoutError

    def close(self) -> None:
        """Unload the model by ending its process; may be called twice, and while it computes."""
        self._is_open = False
        self._process.end()
        self._unclosed.detach()

    @contextmanager
    def _connected(self, turn: _Turn) -> Iterator[tuple[HTTPConnection, socket]]:
        """Connect for the block, and see afterwards that the engine has let go of the request."""
        with closing(Connection(self._process.socket)) as connection:
            opened = connection.sock
            with self._lock():  # before it connects: another turn may be about to end the engine
                if not self._is_open:
                    raise closed_error()
                self._asking += 1
            try:
                connection.connect()
                with woken_by(lambda: shut(opened)):
                    yield connection, opened
            finally:
                with self._lock():
                    self._asking -= 1
                    self._is_stuck |= (was_left := bool(turn.sent) and turn.answer is None)
                    if ends := self._is_stuck and not self._asking:
                        self._is_open = False
                if ends:
                    with closing(self):  # it puts a prompt together, which nothing stops
                        self._process.how_it_ended(_MOMENT)  # the system may have ended it
                elif was_left:
                    shut(opened)  # other turns go on: the last of them ends it
                else:
                    self._let_go(opened)
                if turn.answer is not None:
                    turn.answer.close()  # and with it the socket, which was waited for

    def _let_go(self, opened: socket) -> None:
        """Hang up and wait until the engine has done so too; end it where it does not."""
        if os.getpid() != self._owner:  # a forked child has the stream; the turn is its parent's
            return
        until = Deadline(_STOP_SECONDS)
        try:
            opened.shutdown(SHUT_WR)
            opened.settimeout(until.wait(None))
            while opened.recv(1 << 16):
                opened.settimeout(until.wait(None))
        except TimeoutError:
            self.close()
        except OSError:  # the other end was faster
            pass
        except BaseException:  # a second interrupt: there is no time to wait
            self.close()
            raise

    def ask(self, path: str, seconds: float | None = _STOP_SECONDS) -> Any:
        """Return what the engine answers to a question, as JSON; raises what connections raise."""
        with closing(Connection(self._process.socket, timeout=seconds)) as connection:
            connection.connect()
            connection.request("GET", path, headers=self._headers)
            return json.loads(connection.getresponse().read(REPLY_LIMIT))

    def _refusal(self, body: bytes) -> BackendError:
        error = refusal_error(body, self._remedy)
        if "bad_alloc" not in str(error):
            return error
        self.close()  # nobody knows in what state that left it
        return self._failed(
            f"The embedded engine needs more memory for this turn than the "
            f"{self._process.memory // 1_000_000:,} MB that ORE lets it have with {self.path}, "
            f"or than the system does (ulimit -v): shorten the prompt, or {self._remedy}."
        )

    def _cut_off(self, turn: _Turn) -> BackendError:
        if not (how := self._process.how_it_ended()):
            return closed_error()
        log, memory, unread = self._process.log(), self._process.memory, turn.answer is None
        given, size = self.has_given_template and unread, len(turn.sent) * unread
        return crash_error(self.path, log, how, memory, has_given_template=given, unread=size)


class _Turn:
    """How far a request has come: what was sent, and its answer, which the engine computes."""

    sent = b""
    answer: HTTPResponse | None = None
