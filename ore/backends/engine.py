"""A GGUF model in this process, driven over the engine's own loopback port with a secret key.

The port is the only way in that can be stopped in mid-prompt and torn down safely. Knows nothing
about what messages mean, about sessions, or about where models are kept.
"""

from __future__ import annotations

import atexit
import os
import secrets
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from ore.backends import hardware
from ore.errors import (
    BackendError,
    BackendTimeoutError,
    CapabilityError,
    ContextTruncatedError,
    ExtraNotInstalledError,
    IncompleteAnswerError,
)

WINDOW = 4096
"""The context window in tokens; a model that was made for less has its own."""

INSTALL = "pip install -r requirements-embedded.txt"

_PACKAGE = "xllamacpp"
_BATCH_TOKENS = 64  # computed in one go: no request and no end of the process interrupts a batch
_READ_BYTES = 1 << 16
_ERROR_BYTES = 1 << 16
_ASK_SECONDS = 10.0


class Engine:
    """One loaded model; constructing it loads the file.

    Attributes:
        window: The context window, in tokens.
        load_duration: How long loading took, in nanoseconds.

    Raises:
        ExtraNotInstalledError: The engine's package, or a library that it needs, is missing.
        CapabilityError: The processor can't run the engine.
        BackendError: The file can't be loaded.
    """

    def __init__(self, path: Path) -> None:
        started = time.monotonic_ns()
        self._key = secrets.token_urlsafe(32)
        self._process = os.getpid()
        self._server = _load(path, self._key)
        self._port = int(self._server.listening_address.rpartition(":")[2])
        atexit.register(self.close)
        try:
            self.window = self._ask_window(path)
        except BaseException:
            self.close()
            raise
        self.load_duration = time.monotonic_ns() - started

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

        Raises:
            ContextTruncatedError: The prompt does not fit the window; nothing was computed.
            BackendTimeoutError: ``silence`` or ``end`` was reached.
            IncompleteAnswerError: The connection ended before the engine's last event.
            BackendError: The engine refused the request, or failed.
        """
        import http.client
        import json

        body = json.dumps({**request, "stream": True, "return_progress": True}).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self._port)
        wait = _Wait(connection, silence, end)
        try:
            wait.bound()
            connection.request("POST", "/v1/chat/completions", body, self._headers())
            response = connection.getresponse()
            if response.status != 200:
                raise _refusal(response.read(_ERROR_BYTES))
            yield from _parsed(response, wait)
        except TimeoutError as exc:
            raise wait.expired() from exc
        except (OSError, http.client.HTTPException, ValueError) as exc:
            raise _cut_off() from exc
        finally:
            connection.close()

    def close(self) -> None:
        """Stop and unload the model; may be called twice, and while the model computes.

        It waits for the batch that is being computed. The engine's threads must be gone before
        the process is torn down, or it crashes: at exit this is called in any case.
        """
        atexit.unregister(self.close)
        if os.getpid() == self._process:  # a forked child has the object, but not its threads
            self._server = None

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}

    def _ask_window(self, path: Path) -> int:
        import http.client
        import json

        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_ASK_SECONDS)
        try:
            connection.request("GET", "/props", headers=self._headers())
            properties = json.loads(connection.getresponse().read())
            return int(properties["default_generation_settings"]["n_ctx"])
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as exc:
            raise BackendError(
                f"The embedded engine was started on {path} and does not answer: try again."
            ) from exc
        finally:
            connection.close()


class _Wait:
    """How long one request may still take, applied to its connection before each read."""

    def __init__(self, connection: Any, silence: float | None, end: float | None) -> None:
        connection.connect()
        self._socket = connection.sock  # kept: the connection may give it to its response
        self._silence = silence
        self._end = end

    def bound(self) -> None:
        left = None if self._end is None else self._end - time.monotonic()
        if left is not None and left <= 0:
            raise self.expired()
        self._socket.settimeout(
            min((s for s in (left, self._silence) if s is not None), default=None)
        )

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


def _parsed(response: Any, wait: _Wait) -> Generator[dict[str, Any]]:
    """Yield the events of a stream of server-sent events, up to its end mark."""
    import json

    rest = b""
    while True:
        wait.bound()
        data = response.read1(_READ_BYTES)
        if not data:
            raise _cut_off()
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            field, _, value = line.partition(b": ")
            if value == b"[DONE]":
                return
            if field in (b"data", b"error"):
                event = json.loads(value)
                if field == b"error" or "error" in event:
                    raise _refusal(value)
                yield event


def _refusal(body: bytes) -> BackendError:
    """Return the error that the engine's own words stand for."""
    import json

    try:
        answer = json.loads(body)
        error = answer.get("error", answer)
        tokens, window = error.get("n_prompt_tokens"), error.get("n_ctx")
        said = str(error.get("message", ""))
    except (ValueError, AttributeError):
        tokens, window, said = None, None, ""
    if tokens is not None:
        return ContextTruncatedError(
            f"The prompt has {tokens} tokens and the model's window holds {window}: nothing was "
            f"sent to the model; shorten it, or use a model with a larger window."
        )
    return BackendError(
        f"The embedded engine refused the turn{f': {said[:300]}' if said else ''}. Change the "
        f"prompt, or use another model."
    )


def _cut_off() -> IncompleteAnswerError:
    return IncompleteAnswerError(
        "The embedded engine stopped before the answer was complete: nothing was kept of this "
        "turn; try again."
    )


def _load(path: Path, key: str) -> Any:
    xllamacpp = _import_engine()
    try:
        parameters = _parameters(xllamacpp, path, key)
    except (AttributeError, TypeError) as exc:
        raise BackendError(
            f"This release of {_PACKAGE} is not the one that ORE knows: {INSTALL}."
        ) from exc
    except UnicodeEncodeError as exc:
        raise BackendError(
            f"{os.fsencode(path)!r} is no name that the engine can open: rename the file."
        ) from exc
    try:
        return xllamacpp.Server(parameters)
    except (RuntimeError, ValueError) as exc:
        raise BackendError(
            f"{path} can't be loaded: it is damaged, of a kind that the engine does not know, or "
            f"too large for this machine's memory."
        ) from exc


def check_installed() -> None:
    """Raise ``ExtraNotInstalledError`` where the engine's package is missing; imports nothing."""
    from importlib.util import find_spec

    if find_spec(_PACKAGE) is None:
        raise ExtraNotInstalledError(
            f"The embedded engine is not installed: {INSTALL}.", "embedded"
        )


def _import_engine() -> Any:
    from importlib import import_module

    check_installed()
    if not hardware.can_import(_PACKAGE):
        raise CapabilityError(
            "This processor can't run the embedded engine, which needs AVX2, FMA, F16C and BMI2: "
            "use Ollama."
        )
    # Threads that spin while they wait bring a busy machine to a standstill. Read at the import.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        return import_module(_PACKAGE)
    except ImportError as exc:
        if "libgomp" in str(exc):
            step = (
                "install the system's OpenMP library (Debian and Ubuntu: apt-get install libgomp1)"
            )
        else:
            step = f"{INSTALL} --force-reinstall"
        raise ExtraNotInstalledError(
            f"The embedded engine can't be loaded ({exc}): {step}.", "embedded"
        ) from exc


def _parameters(xllamacpp: Any, path: Path, key: str) -> Any:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.verbosity = -1
    parameters.offline = True
    # The port is there in any case: loopback only, a key for everything, no page, no foreign site.
    parameters.api_keys = [key]
    parameters.ui = False
    parameters.cors_origins = ""
    parameters.cors_credentials = False
    parameters.endpoint_slots = False
    parameters.sse_ping_interval = -1
    parameters.n_ctx = WINDOW
    parameters.ctx_shift = False
    parameters.n_parallel = 1
    parameters.cache_ram_mib = 0
    parameters.n_batch = parameters.n_ubatch = _BATCH_TOKENS
    parameters.warmup = False
    parameters.prefill_assistant = False
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = hardware.thread_count()
    return parameters
