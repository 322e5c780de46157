"""Loading a model into a process of its own: how it is started, bounded and ended.

Native code reads the file there. Whatever it does (crash, loop, take memory), ORE has the last word.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ore.backends import gguf, gguf_kinds, hardware
from ore.backends.engine_folder import LOG, SOCKET, open_log, private_folder, read_log, remove
from ore.backends.engine_package import PACKAGE, check_installed
from ore.backends.http import Deadline, shorten
from ore.backends.load_failures import (
    NO_THREADS,
    endless_load_error,
    load_error,
    no_python_error,
    python,
    read_outcome,
    signal_name,
)
from ore.backends.turn_errors import NothingAnswersError
from ore.errors import BackendError, CapabilityError, ExtraNotInstalledError
from ore.files.environment import environment
from ore.files.extras import install_command, runs_nowhere
from ore.files.signals import at_exit, deferred_signals, end_with_program, is_ready, not_at_exit
from ore.reasoner.stop import woken_by

_CHILD = Path(__file__).with_name("engine_child.py")
_INHERITED = ("GOMP_", "GGML_", "LD_", "DYLD_", "CUDA_", "LC_", "KMP_BLOCKTIME")
_ALSO_INHERITED = {*"LANG PATH TMPDIR OMP_WAIT_POLICY OMP_PROC_BIND OMP_PLACES".split()}
"""Of OpenMP's, how threads wait and where: how many there are is as the artifact says."""

_BATCH_TOKENS = 64
"""How many are computed in one go. Nothing stops a batch, not even the end of the process, and half
as many cost a tenth more processor time a prompt."""
_LOAD_SECONDS, _LOAD_BYTES_A_SECOND = 60.0, 20 << 20
"""The longest that loading may take: so many seconds, and more for a large file on a slow disk."""
_CIRCLES_SECONDS, LOOK_SECONDS = 5.0, 0.25
"""How long it may compute and get no further, in seconds of processor time, and how often one looks."""
_SPARE_BYTES = 1 << 30
"""The memory that a model gets beyond what its file and its window need."""
_LEAST, _BOUND = 16, 1 << 31  # a window in tokens: the engine counts in 32 bits
_END_SECONDS, _LOG_SECONDS = 5.0, 2.0
_LAST_WORDS = "exiting due to"


class EngineProcess:
    """A process with one loaded model, which ends when this one does.

    Args:
        path: The model's file.
        window: The context window that is wanted, in tokens, for each of its slots.
        slots: How many turns it takes at once.
        key: What every request must carry.
        deadline: When the turn that waits for it must be over.
        template: A chat template in the place of the file's own.
        layers: How many of the model's layers a graphics card computes; None is as many as it can.

    Attributes:
        computes_with: ``threads`` that write an answer, ``batch_threads`` that read a prompt, and
            ``batch``, the tokens that are computed at once.
        memory: How many bytes of its own it may have.
        cards: The graphics cards that it can compute with, by their names.
        pid: Its number.
        socket: The path of the Unix socket that the engine listens on.

    Raises:
        ExtraNotInstalledError: The engine's package is missing or incomplete.
        CapabilityError: The processor, or the model, can't do what is needed.
        BackendError: The model can't be loaded; the sentence says why.
        TimeoutError: The deadline has passed.
    """

    def __init__(
        self,
        path: Path,
        window: int,
        slots: int,
        key: str,
        deadline: Deadline,
        template: str | None = None,
        layers: int | None = None,
    ) -> None:
        packages = _check_engine()
        head = gguf.read_head(path)
        self.longest: int = longest_window(path, head)
        window = min(window, self.longest)
        if why := gguf_kinds.why_silent(path, head):
            raise CapabilityError(f"{path} {why}: use another model.")
        size = gguf.size_of(path)
        self._path, self._has_given_template = path, bool(template)
        self.memory: int = memory_limit(head, window * slots, size)
        self._child: subprocess.Popen[bytes] | None = None
        self._owner, self._is_ended, self._said = os.getpid(), False, ""
        self._folder = private_folder()
        self.socket: str = os.path.join(self._folder, SOCKET)
        threads = hardware.thread_count()
        self.computes_with: dict[str, int] = {
            "threads": hardware.generating_threads(threads, size),
            "batch_threads": threads,
            "batch": _BATCH_TOKENS,
        }
        asked = {
            "path": os.path.abspath(gguf.path_for_others(path)),
            "packages": packages,
            "window": window * slots,
            "slots": slots,
            "template": template or "",
            "layers": layers,
            "key": key,
            **self.computes_with,
            "memory": self.memory,
            "socket": SOCKET,
            "log": LOG,
            "parent": os.getpid(),
        }
        try:
            self._start(asked)
            with woken_by(self._kill):
                self._wait(deadline, _LOAD_SECONDS + size / _LOAD_BYTES_A_SECOND)
        except BaseException:
            self.end()
            end_with_program()  # which may have ended it first
            raise

    @property
    def is_alive(self) -> bool:
        """Whether the process is there, and its socket: old temporary files are removed by some."""
        is_there = self._child is not None and self._child.poll() is None
        return is_there and os.path.exists(self.socket)

    def how_it_ended(self, seconds: float = 1.0) -> str:
        """Return how the process ended by itself, in a few words; empty where it did not.

        Its sockets close a moment before it is gone: it is waited for.
        """
        assert self._child is not None
        with suppress(subprocess.TimeoutExpired):
            code = self._child.wait(seconds)
            if self._is_ended and code in (-signal.SIGKILL, 0):  # 0 where SIGCHLD is ignored
                end_with_program()  # else its thread would blame somebody, or go on
                return ""
            return signal_name(code) if code < 0 else f"exit code {code}"
        return ""

    def log(self) -> str:
        """Return what the engine has written about errors."""
        with suppress(OSError):  # it is removed with its folder, or is another's
            self._said = read_log(self._folder)
        return self._said

    def end(self) -> None:
        """End the process and remove its folder; may be called twice, and from any thread."""
        if os.getpid() != self._owner:  # a forked child has the object; the process is its parent's
            return
        self._kill()
        if (child := self._child) is not None:
            for pipe in filter(None, (child.stdin, child.stdout)):  # it ends with the first, too
                with suppress(OSError):
                    pipe.close()
                with suppress(subprocess.TimeoutExpired):  # in a disk: the system ends it later
                    child.wait(_END_SECONDS / 2)
        with suppress(MemoryError):  # for what it said; the folder is removed all the same
            self.log()
        with suppress(OSError):  # one that is not ours stands in its place
            remove(self._folder)
        not_at_exit(self.end)  # last: a thread that does this may be stopped

    def _kill(self) -> None:
        if self._child is None or self._child.poll() is None:  # else it ended by itself
            self._is_ended = True
        if self._child is not None:
            with suppress(PermissionError):  # this process has become another user meanwhile
                self._child.kill()

    def _start(self, asked: dict[str, Any]) -> None:
        try:
            line = json.dumps(asked).encode("ascii")
            os.fsencode(asked["path"]).decode("utf-8")
        except UnicodeError as exc:
            raise BackendError(
                f"The engine can't open a file named {os.fsencode(self._path)!r}: rename the file."
            ) from exc
        at_exit(self.end)  # a thread that waits for it does not outlive the main one
        try:
            # With an interrupt in the middle there would be a process that nobody knows of; it gets none.
            with deferred_signals(starts_threads=True), open_log(self._folder) as log:
                self._child = subprocess.Popen(
                    [python(), "-I", "-S", str(_CHILD)],
                    cwd=self._folder,
                    env=child_environment(environment()),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                )
            self.pid: int = self._child.pid
            assert self._child.stdin is not None
            self._child.stdin.write(line + b"\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended already: how is found out next
        except OSError as exc:
            if exc.errno == errno.EAGAIN:
                why = f"{NO_THREADS}."
            elif exc.errno in (errno.EMFILE, errno.ENFILE):
                why = "this process may open no more files; raise the limit (ulimit -n), or close some."
            else:
                raise no_python_error(exc.strerror or str(exc)) from exc
            raise NothingAnswersError(f"The embedded engine can't be started: {why}") from exc

    def _wait(self, deadline: Deadline, longest: float) -> None:
        """Wait until the model is loaded; raise what became of it, where it is not."""
        assert self._child is not None and self._child.stdout is not None
        pipe, said, started = self._child.stdout.fileno(), b"", time.monotonic()
        circles, stops = hardware.Circles(self.pid), hardware.Stops(self.pid)
        while not said.endswith(b"\n"):
            late = time.monotonic() - started - stops.seconds() >= longest
            if late or circles.seconds() > _CIRCLES_SECONDS:
                given = self._has_given_template
                raise endless_load_error(self._path, has_given_template=given, is_late=late)
            if is_ready(pipe, deadline.wait(LOOK_SECONDS)):
                if not (read := os.read(pipe, 1 << 16)):
                    raise self._load_error(self.log(), self.how_it_ended(), bool(said))
                said += read
        if not (became := read_outcome(said)).get("ready"):
            raise self._failure(str(became.get("failed")), str(became.get("said")))
        self.cards: tuple[str, ...] = tuple(map(str, became.get("cards") or ()))

    def _failure(self, kind: str, said: str) -> BackendError | ExtraNotInstalledError:
        """Return the error for an exception that the engine's package raised."""
        short = "\nout of memory" * (kind == "MemoryError" or "failed to map segment" in said)
        if kind in ("ImportError", "ModuleNotFoundError") and not short:
            openmp = "install OpenMP (Debian and Ubuntu: apt-get install libgomp1)."
            step = openmp if "libgomp" in said else install_command("embedded", again=True)
            text = f"The embedded engine can't be loaded ({shorten(said)}): {step}"
            return ExtraNotInstalledError(text, "embedded")
        if text := runs_nowhere(said):
            return BackendError(text)
        if kind == "LookupError":
            return CapabilityError(
                "The installed engine computes with no graphics card: leave "
                "`options['num_gpu']` out, or use Ollama."
            )
        if kind in ("AttributeError", "TypeError"):
            text = f"ORE does not know this release of {PACKAGE}: {install_command('embedded')}"
            return BackendError(text)
        return self._load_error((self._whole_log() or said) + short, "")

    def _load_error(self, log: str, how: str, began: bool = True) -> BackendError:
        if self._is_ended or not os.path.isdir(self._folder):
            said = "the engine's process or temporary folder was removed meanwhile. Try again"
            return NothingAnswersError(f"{self._path} can't be loaded: {said}.")
        given = self._has_given_template
        return load_error(self._path, log, how, self.memory, has_given_template=given, began=began)

    def _whole_log(self) -> str:
        """Return the log with its last line, which the engine writes in a thread of its own."""
        limit = time.monotonic() + _LOG_SECONDS
        while _LAST_WORDS not in (log := self.log()) and time.monotonic() < limit:
            time.sleep(0.01)
        return log


def longest_window(path: Path, head: dict[str, Any]) -> int:
    """Return the largest context window to load a model with, in tokens."""
    length = gguf.architecture_value(head, "context_length")
    if type(length) is not int:
        return _BOUND
    if not _LEAST <= length < _BOUND:  # the engine would end the process, or take no prompt
        raise BackendError(
            f"{path} can't be loaded, because it claims a window of {length} tokens: use another model."
        )
    return length


def memory_limit(head: dict[str, Any], window: int, size: int) -> int:
    """Return how many bytes of its own a model's process may have; its file is not among them.

    Enough for a copy of the weights in another order, twice what the window's keys and values take,
    and a GiB; never more than the machine has. A layer has more bytes than its width squared.
    """
    layers, width = (gguf.architecture_value(head, n) for n in ("block_count", "embedding_length"))
    cells = min(layers * width, size // (width or 1)) if type(layers) is type(width) is int else 0
    needed = _SPARE_BYTES + size * 3 // 2 + 8 * window * max(cells, 0)  # 2 a key, 2 a value, twice
    return min(needed, hardware.memory_bytes())


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what the engine's process gets of the environment: nothing that is not its business."""
    kept = {
        name: value
        for name, value in environ.items()
        if name.startswith(_INHERITED) or name in _ALSO_INHERITED
    }
    # Threads that spin for long while they wait bring a busy machine to a standstill, and those that
    # sleep at once read a prompt slower: they spin for microseconds. An aborting engine would start
    # a debugger.
    waiting = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "1000"}
    return {**({} if waiting.keys() & kept else waiting), "GGML_NO_BACKTRACE": "1", **kept}


def _check_engine() -> str:
    packages = check_installed()
    if missing := hardware.lacking():  # said before native code ends its process over it
        needed = ", ".join(sorted(missing)).upper()
        raise CapabilityError(
            f"The embedded engine needs {needed}, which this processor lacks: use Ollama."
        )
    return packages
