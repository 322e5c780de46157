"""ORE's end of the process that Dask's client runs in: started, asked by several threads, ended."""

from __future__ import annotations

import os
import pickle
import re
import select
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any

from ore.errors import BackendError, BackendTimeoutError, UsageError
from ore.files import reason, strictjson
from ore.files.in_time import OutOfTime
from ore.files.signals import deferred_signals, is_ready

QUIET_SECONDS = 60.0
"""For how long nothing comes of any turn before that is said; from then on, for twice as long each time."""
SPARE_SECONDS = 2.0
"""How much longer than a turn's deadline is waited for a worker, which keeps to that deadline itself."""
_CODE = "import sys; sys.path[:] = sys.argv[1:]; from ore.backends.cluster_child import run; run()"
_MOST_REPLY = 1 << 28  # the process refuses a larger one earlier
_BLOCK = 1 << 16
_LOOK_SECONDS = 0.25
_END_SECONDS = 5.0
_ADDRESS = re.compile(
    r"(?!https?://)"  # of the dashboard, which is what is seen of a scheduler
    r"((?P<web>wss?://)|[a-z+-]{2,9}://)?([\w.-]+|\[[\w:.%]+\]):(?P<port>[0-9]{1,5})/?(?(web)[\w./-]*)"
)
_LOCAL = 3  # where the local modes stand in what ``termios`` says of a terminal


def refuse_no_address(address: str) -> None:
    """Refuse what no scheduler can have as its address; Dask would try it until the time is up.

    Raises:
        UsageError: It can't be one. Nothing of it is shown, for it may hold a password.
    """
    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found["port"]) < 1 << 16:
        raise UsageError(
            "The address of `scheduler=` can't be used: write a host and a port, as in tcp://HOST:8786. "
            "It can't hold a user name or password."
        )


class LostCall(Exception):
    """Nothing came of a call; the text says why, as Dask does."""


class ClusterLink:
    """A process with Dask's client in it. It ends with this one.

    Raises:
        BackendError: The system gives no process, or no thread.
    """

    def __init__(self) -> None:
        command = [sys.executable, "-I", "-c", _CODE, *sys.path]
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        self._numbers, self._writing, self._is_ended = count(), threading.Lock(), False
        self._waiting: dict[int, SimpleQueue[dict[str, Any]]] = {}
        self._shows_typing = _shows_typing()
        try:
            with deferred_signals(starts_threads=True):  # else nobody might know of its process
                self._child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=null)
                try:
                    threading.Thread(target=self._read, daemon=True).start()
                except RuntimeError:
                    self.close()
                    assert self._child.stdout is not None
                    self._child.stdout.close()  # which the thread would do
                    raise
        except (OSError, RuntimeError) as exc:
            raise _not_started(reason(exc)) from exc
        assert self._child.stdin is not None
        os.set_blocking(self._child.stdin.fileno(), False)

    def ask(self, what: str, *given: Any, look: Callable[[], None]) -> Any:
        """Have the process do something, and return what comes of it.

        Args:
            what: A method of ``ore.backends.cluster_child``, with what it is given.
            look: Called now and then while it is waited for; what it raises ends the waiting.

        Raises:
            LostCall: Dask raised something, or the process has ended.
        """
        number, replies = next(self._numbers), SimpleQueue[dict[str, Any]]()
        self._waiting[number] = replies
        reply = None
        try:
            if self._is_ended:
                raise LostCall("its process has ended")
            self._send((number, what, given), look)
            while reply is None:
                with suppress(Empty):
                    reply = replies.get(timeout=_LOOK_SECONDS)
                    continue
                look()
        finally:
            del self._waiting[number]
            if reply is None:
                with suppress(LostCall, OutOfTime):
                    self._send((number, "drop", ()), _no_time)
        if "failed" in reply:
            raise LostCall(str(reply["failed"]).partition("\nTraceback ")[0])
        return reply.get("value")

    def check_threads(self) -> None:
        """Raise ``BackendError`` where the process, which is closed, had ended for want of a thread."""
        if self._child.returncode == os.EX_OSERR:
            raise _not_started("can't start new thread")

    def close(self) -> None:
        """End the process; may be called twice."""
        self._child.kill()
        with suppress(subprocess.TimeoutExpired):  # it hangs in a disk: the system ends it later
            self._child.wait(_END_SECONDS)
        if self._shows_typing:  # it may have been asking for the passphrase of a key
            _shows_typing(again=True)
        with self._writing, suppress(OSError):
            if self._child.stdin is not None:
                self._child.stdin.close()

    def _send(self, asked: tuple[Any, ...], look: Callable[[], None]) -> None:
        data = left = memoryview(pickle.dumps(asked))
        while not self._writing.acquire(timeout=_LOOK_SECONDS):
            look()
        try:
            assert self._child.stdin is not None
            pipe = self._child.stdin.fileno()
            while left:
                if is_ready(pipe, _LOOK_SECONDS, select.POLLOUT):
                    left = left[os.write(pipe, left[:_BLOCK]) :]
                else:
                    look()
        except OutOfTime:  # an OSError, too: what ``look`` raises is as it is
            raise
        except (OSError, ValueError) as exc:  # it has ended, or was closed
            raise LostCall("its process has ended") from exc
        finally:
            if left and len(left) < len(data):
                self._child.kill()  # nothing that follows half a question is understood
            self._writing.release()

    def _read(self) -> None:
        """Give each reply to who waits for it, until the process ends."""
        assert self._child.stdout is not None
        with self._child.stdout as pipe:
            while (line := pipe.readline(_MOST_REPLY)).endswith(b"\n"):
                number, _, data = line.partition(b" ")
                try:
                    found = strictjson.parse(data, limit=_MOST_REPLY)
                except ValueError as exc:
                    found = {"failed": f"what came can't be read: {exc}"}
                replies = self._waiting.get(int(number))
                if replies is not None:
                    replies.put(found)
        self._is_ended = True
        for each in list(self._waiting.values()):
            each.put({"failed": "its process has ended"})


class Patience:
    """How long nothing has come of any turn: it is said, and with a deadline it has an end.

    Args:
        whom: What is waited for, as a sentence names it.
        notice: Told of it.
    """

    def __init__(self, whom: str, notice: Callable[[str], None]) -> None:
        self._whom, self._notice = whom, notice
        self._came, self._quiet = 0.0, QUIET_SECONDS
        self._lock = threading.Lock()

    def come(self) -> None:
        """Note that something has come."""
        with self._lock:
            self._came, self._quiet = time.monotonic(), QUIET_SECONDS

    def look_from_now(self, seconds: float | None) -> Callable[[], None]:
        """Return what is to be called while a turn is waited for.

        It raises ``BackendTimeoutError`` where no turn came back for ``seconds``, and a little, from
        now on: turns wait for each other.
        """
        began = time.monotonic()

        def look() -> None:
            with self._lock:
                silence = time.monotonic() - max(began, self._came)
                if seconds is not None and silence > seconds + SPARE_SECONDS:
                    raise BackendTimeoutError(
                        f"No answer came from {self._whom} in {seconds:g} s: give them longer with "
                        f"`deadline=`, or check what else they are doing."
                    )
                if silence < self._quiet:
                    return
                self._quiet *= 2
            self._notice(
                f"Still waiting for {self._whom}: nothing has come from them for {silence:.0f} s. "
                f"They may be busy with other work, or their model may be slow; `deadline=` limits "
                f"the waiting."
            )

        return look


def until(seconds: float) -> Callable[[], None]:
    """Return a ``look`` that raises ``OutOfTime`` once so many seconds have gone."""
    end = time.monotonic() + seconds

    def look() -> None:
        if time.monotonic() >= end:
            raise OutOfTime(f"nothing came for {seconds:.3g} s")

    return look


def _shows_typing(*, again: bool = False) -> bool:
    """Return whether the terminal shows what is typed, if there is one; have it do so ``again``."""
    with suppress(OSError, termios.error):
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            modes = termios.tcgetattr(terminal)
            is_in_front = os.tcgetpgrp(terminal) == os.getpgrp()  # else it would be stopped
            if again and is_in_front:
                modes[_LOCAL] |= termios.ECHO
                termios.tcsetattr(terminal, termios.TCSANOW, modes)
            return bool(modes[_LOCAL] & termios.ECHO)
        finally:
            os.close(terminal)
    return False


def _no_time() -> None:
    raise OutOfTime("there is no time")


def _not_started(why: str) -> BackendError:
    """Return the error for a system that gives Dask's client no process, or no thread."""
    return BackendError(
        f"Dask's client can't be started ({why}): end other programs, and try again."
    )
