"""Dask's client, in a process apart from ORE: whatever a scheduler sends, ORE goes on and can end it.

What is asked comes pickled on its standard input, what came of it goes as lines of JSON to its standard
output: a number, a space, and ``{"value": ...}`` or ``{"failed": WHY}``. When its input ends, so does it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pickle
import resource
import signal
import sys
import time
from contextlib import suppress
from importlib import import_module
from typing import Any

from ore.backends.cluster_worker import Where, about, in_force, take
from ore.files import reason, strictjson

MOST_MEMORY = 2 << 30
"""Bytes: the most memory of this process."""
MOST_REPLY = 128 << 20
"""The most bytes of one line."""
MOST_ABOUT = 4 << 20
"""The most bytes of what one worker says of itself."""
ALONE_SECONDS = 30.0
"""How long a turn waits where no worker that can be used is left."""
ASK_SECONDS = 15.0
"""How long the scheduler may take to say which workers it has."""
RETRIES = 3
"""How many lost workers a turn survives."""
_LOOK_SECONDS = 2.0
_FUNCTIONS = {"in_force": in_force, "take": take}


def run() -> None:
    """Do what is asked for until the input ends, which ends the process."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # a terminal sends them to all: ORE decides
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    replies = os.dup(1)
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 1)  # what others print is no reply
    asyncio.run(_Asked(replies).serve())


class _Asked:
    """What is asked, several questions at once, and the client that asks it of the scheduler."""

    def __init__(self, replies: int) -> None:
        self._replies = replies
        self._client: Any = None
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                asked = await loop.run_in_executor(None, pickle.load, sys.stdin.buffer)
            except (EOFError, pickle.UnpicklingError):
                os._exit(0)  # ORE has gone
            except RuntimeError:  # the system gives no thread to wait in
                os._exit(os.EX_OSERR)
            number, what, given = asked
            if what == "drop":
                if number in self._tasks:
                    self._tasks[number].cancel()
            else:
                self._tasks[number] = loop.create_task(self._do(number, what, given))

    async def _do(self, number: int, what: str, given: tuple[Any, ...]) -> None:
        try:
            found = {"value": await getattr(self, what)(*given)}
            line = json.dumps(found).encode("ascii")
            if len(line) > MOST_REPLY:
                raise ValueError("it is larger than can be taken")
        except (Exception, asyncio.CancelledError) as exc:  # the cluster's own, of many kinds
            line = json.dumps({"failed": _why(exc)}).encode("ascii")
        finally:
            del self._tasks[number]
        left = memoryview(b"%d %s\n" % (number, line))
        while left:
            left = left[os.write(self._replies, left) :]

    async def hello(self) -> None:
        """Load Dask; its settings may have faults."""
        _dask()
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters is said by ORE

    async def connect(self, address: str, seconds: float) -> None:
        """Connect to a scheduler."""
        self._client = await _dask().Client(
            address, timeout=seconds, set_as_default=False, asynchronous=True
        )

    async def about(self, where: Where, model: str | None) -> dict[str, Any]:
        """Return what each worker says of itself, by its address; why it can't, as text."""
        workers = list(await self.threads())
        run = self._client.run
        asked = (run(about, where, model, workers=[each], on_error="return") for each in workers)
        # Each by itself: one that says what can't be read hides no other.
        answers = await asyncio.gather(*asked, return_exceptions=True)
        return {
            each: _told(said if isinstance(said, BaseException) else said.get(each))
            for each, said in zip(workers, answers, strict=True)
        }

    async def threads(self) -> dict[str, int]:
        """Return how many threads each worker has, by its address."""
        ask = self._client.scheduler.identity(n_workers=-1)
        try:
            said = await asyncio.wait_for(ask, ASK_SECONDS)
        except asyncio.TimeoutError as exc:  # it has no text
            raise TimeoutError(f"nothing came for {ASK_SECONDS:g} s") from exc
        return {str(worker): int(each["nthreads"]) for worker, each in said["workers"].items()}

    async def call(self, name: str, given: tuple[Any, ...], workers: list[str]) -> list[Any] | None:
        """Call a function on a worker; return what it returns in a list, None where none is left."""
        alone_since, dropped, is_done = None, 0, asyncio.Event()
        loop = asyncio.get_running_loop()
        future = self._client.submit(
            _FUNCTIONS[name], *given, pure=False, retries=RETRIES, workers=workers
        )
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(is_done.set))
        try:
            while True:
                # Nothing is fetched before it is there: several turns are fetched at once, and one that
                # does not wait any longer takes the others with it.
                try:
                    await asyncio.wait_for(is_done.wait(), _LOOK_SECONDS)
                    return [await asyncio.shield(future.result(timeout=ALONE_SECONDS))]
                except (TimeoutError, asyncio.TimeoutError, _dask().TimeoutError):
                    if future.status == "error":  # the worker's own
                        raise
                except UnboundLocalError:  # Dask's, where what it fetched for several was dropped
                    dropped += 1
                    if dropped > RETRIES:
                        raise
                now = time.monotonic()
                alone_since = None if await self._is_any_left(workers) else alone_since or now
                if alone_since is not None and now - alone_since > ALONE_SECONDS:
                    return None
        finally:
            future.release()

    async def _is_any_left(self, workers: list[str]) -> bool:
        try:
            return not (await self.threads()).keys().isdisjoint(workers)
        except Exception:  # the scheduler has gone, or says nothing
            return False


def _dask() -> Any:
    """Return the package, which has no types."""
    return import_module("distributed")


def _told(said: Any) -> Any:
    """Return what a worker says of itself, or a text: why that can't be read."""
    if isinstance(said, BaseException):
        return _why(said)
    try:
        return strictjson.parse(json.dumps(said).encode(), limit=MOST_ABOUT)
    except (TypeError, ValueError, RecursionError) as exc:
        return reason(exc)


def _why(raised: BaseException) -> str:
    """Return what was raised in words; Dask gives what it can't make again as bytes."""
    is_read = not any(isinstance(each, bytes) for each in raised.args)
    return reason(raised) if is_read else "what was raised there can't be read"
