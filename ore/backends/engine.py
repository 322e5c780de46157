"""A GGUF model in this process, driven over the engine's own loopback port with a secret key.

The port is the only way in that can be stopped in mid-prompt and torn down safely. The only module
that imports the engine's package, and only when a model is loaded.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import secrets
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from socket import SHUT_RDWR, socket
from typing import Any

from ore.backends.http import REFUSAL_LIMIT, Deadline
from ore.backends.weights import longest_window
from ore.errors import (
    BackendError,
    BackendTimeoutError,
    CapabilityError,
    ContextTruncatedError,
    ExtraNotInstalledError,
    IncompleteAnswerError,
)
from ore.files.extras import distribution, install_command
from ore.files.signals import deferred_signals

WINDOW = 4096  # the usual context window, in tokens
_BATCH_TOKENS = 64
"""How many are computed in one go. Nothing stops a batch, not even the end of the process, and half
as many cost a tenth more processor time a prompt."""

_PACKAGE = "xllamacpp"
_NEEDED = {"avx2", "bmi2", "f16c", "fma"}  # what the engine's wheels for x86-64 are built with
_CPU_INFO, _CPU_QUOTA = Path("/proc/cpuinfo"), Path("/sys/fs/cgroup/cpu.max")
_ASK_SECONDS = 60.0

_ABANDONED: list[Any] = []
"""Engines that never answered. Unloading one whose threads have not begun would wait for ever."""


class Engine:
    """One loaded model; constructing it loads the file, or raises what ``start_server`` does.

    Attributes:
        window: The context window, in tokens: what was asked for, or less if the model has less.
        template: The model's chat template: how messages become its prompt.
        load_duration: How long loading took, in nanoseconds.
    """

    def __init__(self, path: Path, *, window: int | None = None) -> None:
        started = time.monotonic_ns()
        window = min(window or WINDOW, longest_window(path))
        key = secrets.token_urlsafe(32)
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self._process = os.getpid()
        self._server: Any = None
        self._lock = threading.Lock()
        self._sockets: set[socket] = set()
        self._is_open = True
        try:
            with deferred_signals(starts_threads=True):  # half started it can't be stopped
                self._start(path, key, window)
        except BaseException:
            self.close()
            raise
        self.load_duration = time.monotonic_ns() - started

    def _start(self, path: Path, key: str, window: int) -> None:
        self._server = start_server(path, key, window)
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
        self, request: dict[str, Any], *, silence: float | None, deadline: Deadline
    ) -> Generator[dict[str, Any]]:
        """Send one chat request and yield the engine's events as they come, the last one included.

        Closing the generator closes the connection, which stops the model after the batch that it
        is computing. ``silence`` is the longest time without an event, in seconds; None waits.
        """
        try:
            with self._connected() as (connection, opened):
                opened.settimeout(deadline.wait(silence))
                body = json.dumps({**request, "stream": True, "return_progress": True})
                connection.request("POST", "/v1/chat/completions", body.encode(), self._headers)
                response = connection.getresponse()
                if response.status != 200:
                    raise _refusal_error(response.read(REFUSAL_LIMIT))
                yield from _parsed(response, lambda: opened.settimeout(deadline.wait(silence)))
        except TimeoutError as exc:
            raise _timeout_error(silence, deadline) from exc
        except (OSError, HTTPException, ValueError) as exc:
            raise _cut_off_error() from exc

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
                    raise _cut_off_error()
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


def _parsed(response: HTTPResponse, before_read: Callable[[], None]) -> Generator[dict[str, Any]]:
    """Yield the events of a stream of server-sent events, up to its end mark."""
    while True:
        before_read()
        line = response.readline()
        if not line.endswith(b"\n"):
            raise _cut_off_error()
        field, _, value = line.rstrip(b"\n").partition(b": ")
        if value == b"[DONE]":
            return
        if field in (b"data", b"error"):
            event = json.loads(value)
            if field == b"error" or "error" in event:
                raise _refusal_error(value)
            yield event


def _refusal_error(body: bytes) -> BackendError:
    said = ""
    with suppress(ValueError, AttributeError, TypeError):
        answer = json.loads(body)
        error = answer.get("error", answer)
        said = f": {error['message'][:300]}" if error.get("message") else ""
        if "n_prompt_tokens" in error:
            return ContextTruncatedError(
                f"The prompt has {error['n_prompt_tokens']} tokens and the model's window holds "
                f"{error.get('n_ctx')}: nothing was sent to the model. Shorten it, or raise the "
                f"window with -o num_ctx=N."
            )
    return BackendError(
        f"The embedded engine refused the turn{said}. Change the prompt, or use another model."
    )


def _cut_off_error() -> IncompleteAnswerError:
    return IncompleteAnswerError(
        "The embedded engine stopped before the answer was complete: nothing was kept of this "
        "turn; try again."
    )


def _timeout_error(silence: float | None, deadline: Deadline) -> BackendTimeoutError:
    what, flag = "The turn took longer than its deadline allows", "--deadline"
    if not deadline.passed:
        what, flag = f"The embedded model was silent for {silence:g} seconds", "--timeout"
    return BackendTimeoutError(f"{what}: nothing was kept of it; allow more time with {flag}.")


def start_server(path: Path, key: str, window: int) -> Any:
    """Load a model and return the engine's server, which listens on a loopback port of its own.

    Every request must carry ``key``; ``window`` is in tokens and not larger than the model's.
    Raises ``ExtraNotInstalledError``, ``CapabilityError`` (of the processor) or ``BackendError``.
    """
    xllamacpp = _import_engine()
    try:
        parameters = _parameters(xllamacpp, path, key, window)
    except (AttributeError, TypeError) as exc:
        raise BackendError(
            f"ORE does not know this release of {_PACKAGE}: {install_command('embedded')}"
        ) from exc
    except UnicodeEncodeError as exc:
        raise BackendError(
            f"The engine can't open a file named {os.fsencode(path)!r}: rename the file."
        ) from exc
    try:
        return xllamacpp.Server(parameters)
    except (RuntimeError, ValueError) as exc:
        raise BackendError(
            f"{path} can't be loaded: it is damaged, of a kind that the engine does not know, or "
            f"too large for this machine's memory."
        ) from exc


def check_installed() -> None:
    """Raise ``ExtraNotInstalledError`` where the engine's package is missing; import nothing."""
    if find_spec(_PACKAGE) is None:
        text = f"The embedded engine is not installed: {install_command('embedded')}"
        raise ExtraNotInstalledError(text, "embedded")


def engine_version() -> str | None:
    """Return the engine's package and release, or None where it is not installed."""
    installed = distribution(_PACKAGE)
    return f"{_PACKAGE} {installed.version}" if installed else None


def _import_engine() -> Any:
    check_installed()
    if missing := missing_features(_text_of(_CPU_INFO)):  # an illegal instruction can't be caught
        needed = ", ".join(sorted(missing)).upper()
        raise CapabilityError(
            f"The embedded engine needs {needed}, which this processor lacks: use Ollama."
        )
    # Threads that spin while they wait bring a busy machine to a standstill. Read at the import.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")  # an aborting engine would start a debugger
    try:
        return import_module(_PACKAGE)
    except ImportError as exc:
        step = install_command("embedded", again=True)
        if "libgomp" in str(exc):
            step = "install OpenMP (Debian and Ubuntu: apt-get install libgomp1)."
        text = f"The embedded engine can't be loaded ({exc}): {step}"
        raise ExtraNotInstalledError(text, "embedded") from exc


def _parameters(xllamacpp: Any, path: Path, key: str, window: int) -> Any:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.verbosity = -1
    parameters.offline = True
    # The port is there in any case: loopback only, a key for everything, no page, no foreign site.
    parameters.api_keys = [key]
    parameters.ui = parameters.cors_credentials = parameters.endpoint_slots = False
    parameters.cors_origins = ""
    parameters.sse_ping_interval = -1
    parameters.n_ctx = window
    parameters.n_parallel = 1
    parameters.cache_ram_mib = 0
    parameters.n_batch = parameters.n_ubatch = _BATCH_TOKENS
    parameters.ctx_shift = parameters.warmup = parameters.prefill_assistant = False
    cores = thread_count()
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = cores
    return parameters


def missing_features(cpu_info: str) -> set[str]:
    """Return what the engine needs and a processor lacks, from the text of ``/proc/cpuinfo``."""
    flags = _values(cpu_info, "flags")  # there are none on other processors than x86-64
    return _NEEDED - set(flags[0].split()) if flags else set()


def thread_count() -> int:
    """Return how many threads to compute with; a second one on a core slows the engine down."""
    usable = len(os.sched_getaffinity(0))
    physical = physical_cores(_text_of(_CPU_INFO)) or usable
    return min(usable, physical, quota_cores(_text_of(_CPU_QUOTA)) or usable)


def physical_cores(cpu_info: str) -> int:
    """Return how many physical cores ``/proc/cpuinfo`` lists; 0 where it does not say."""
    return len(set(zip(_values(cpu_info, "physical id"), _values(cpu_info, "core id"))))


def _values(cpu_info: str, name: str) -> list[str]:
    pairs = (line.partition(":") for line in cpu_info.splitlines())
    return [value.strip() for key, _, value in pairs if key.strip() == name]


def quota_cores(cpu_max: str) -> int:
    """Return a control group's limit in whole cores, from the text of ``cpu.max``; 0 without one."""
    with suppress(ValueError, ZeroDivisionError):
        quota, period = map(int, cpu_max.split())
        return max(1, math.ceil(quota / period))
    return 0


def _text_of(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""
