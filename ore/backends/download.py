"""One blob from a registry into a file: in parts side by side, hashed as they come, gone on with."""

from __future__ import annotations

import errno
import hashlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable

from ore.backends import Progress
from ore.backends import registry_failures as failures
from ore.backends.manifest import Layer
from ore.backends.parts import Parts
from ore.backends.registry import Body, Registry
from ore.backends.registry_failures import Tries, Trouble
from ore.files import sync
from ore.files.folder import Folder

AT_ONCE = 4
"""How many parts are fetched side by side."""
PART_BYTES = 16 << 20
HEAD_BYTES = 32 << 20
"""What comes before the numbers of a model is shorter: its keys, its tokens, the list of its tensors."""

_BLOCK = 1 << 20  # bytes that are noted, and hashed, at once
_LOOK_SECONDS = 0.1
_END_SECONDS = 2.0


class Download:
    """A blob on its way into a file of a folder.

    Threads write what they are given where it belongs, and note it; the thread that calls ``run``
    hashes what is there from the beginning, so that the hash is known when the last byte is there.

    Args:
        file: The file's name in the folder. It is there, and may be so in part.
        parts: What is there of it.
    """

    def __init__(
        self, registry: Registry, layer: Layer, folder: Folder, file: str, parts: Parts
    ) -> None:
        self._registry, self._layer = registry, layer
        self._folder, self._file, self._parts = folder, file, parts
        self._left = deque(parts.missing(PART_BYTES))
        self._workers: list[threading.Thread] = []
        self._most_workers = AT_ONCE
        self._came = threading.Condition()
        self._stopped = threading.Event()
        self._gives_parts = False  # whether the server is known to
        self._is_in_trouble = False
        self._error: BaseException | None = None
        self._lost: OSError | None = None  # what a disk says of bytes that it had taken

    def run(self, progress: Progress, look: Callable[[], None]) -> str:
        """Fetch what is missing; return the SHA-256 of the whole, which is on disk then.

        ``look`` is called once the first ``HEAD_BYTES`` are there, or all; what it raises ends this.

        Raises:
            BackendError: It can't be had; what has come is kept for another time.
            OSError: It can't be written.
        """
        source = self._folder.open(self._file, os.O_RDWR)
        try:
            try:
                self._begin()
                digest = self._hashed(source, progress, look)
                progress("writing to disk", self._layer.size, self._layer.size)
            finally:
                self._end()
            self._put_on_disk(source)
        except OSError:  # of a write: it may tell of bytes that the disk had taken before, and lost
            self._put_on_disk(source)
            raise
        finally:
            if self._lost is not None:
                self._parts.forget()  # nobody knows which of them the disk has
            os.close(source)
        if self._lost is not None:
            raise self._lost
        return digest

    def _end(self) -> None:
        """Let the threads end."""
        self._stopped.set()
        self._registry.stop()
        until = time.monotonic() + _END_SECONDS  # for all of them: a server may be silent
        for each in self._workers:
            each.join(max(until - time.monotonic(), 0.0))

    def _put_on_disk(self, source: int) -> None:
        try:
            sync(source)
        except OSError as exc:
            self._lost = exc

    def _begin(self) -> None:
        """Let one thread more fetch parts; where the system gives none, fetch them in this one."""
        worker = threading.Thread(target=self._work, daemon=True)
        try:
            worker.start()
        except RuntimeError:
            self._most_workers = 0
            if not self._workers:
                self._work()
            return
        self._workers.append(worker)

    def _hashed(self, source: int, progress: Progress, look: Callable[[], None]) -> str:
        """Hash what is there from the beginning while the rest comes; return the hash of the whole."""
        digest, done, block = hashlib.sha256(), 0, memoryview(bytearray(_BLOCK))
        head = min(self._layer.size, HEAD_BYTES)
        while done < self._layer.size:
            if self._gives_parts and self._left and len(self._workers) < self._most_workers:
                self._begin()
            begun = self._parts.begun
            step = "trying again" if self._is_in_trouble else "downloading"
            progress(step, self._parts.there, self._layer.size)
            if begun - done < _BLOCK and begun < self._layer.size:
                self._wait()
                continue
            count = os.preadv(source, [block[: begun - done]], done)
            if count == 0:
                raise OSError(errno.EIO, f"{self._file} was made shorter meanwhile")
            digest.update(block[:count])
            done += count
            if done - count < head <= done:
                look()
        return digest.hexdigest()

    def _wait(self) -> None:
        """Wait until something has come; raise why nothing will."""
        with self._came:
            is_over = not any(each.is_alive() for each in self._workers)
            if self._error is not None:
                raise self._error
            if is_over and self._parts.missing(PART_BYTES):
                raise failures.broken_off_error(self._registry.name.host, "a part is missing")
            self._came.wait(_LOOK_SECONDS)

    def _work(self) -> None:
        """Fetch one part after the other until none is left."""
        target = -1
        try:
            target = self._folder.open(self._file, os.O_WRONLY)
            while not self._stopped.is_set():
                self._fetch(target, *self._left.popleft())
        except IndexError:
            return
        except BaseException as exc:
            self._error = self._error or exc
        finally:
            try:
                if target >= 0:
                    os.close(target)
            except OSError as exc:
                self._lost = exc
            self._tell()

    def _fetch(self, target: int, first: int, end: int) -> None:
        """Fetch one part, however often it breaks off; all that is left, where a server gives no parts."""
        tries, part = Tries(), _Part(first, end)
        while part.first < part.end and not self._stopped.is_set():
            before = part.first
            try:
                with self._registry.blob(self._layer, part.first, part.end) as body:
                    if body.is_all:
                        self._left.clear()
                        part.end = self._layer.size
                    else:
                        self._gives_parts = True
                    self._take(target, part, body)
                if part.first < part.end and not self._stopped.is_set():
                    host = self._registry.name.host
                    raise Trouble(failures.broken_off_error(host, "it ended too early"))
            except Trouble as trouble:
                if part.first > before:
                    tries = Tries()
                self._is_in_trouble = True
                self._stopped.wait(tries.wait_after(trouble))

    def _take(self, target: int, part: _Part, body: Body) -> None:
        """Write what comes of a part, and note it."""
        noted, unwanted = part.first, part.first - body.first
        if self._stopped.is_set():  # while it was asked for: nobody ends the reading any more
            return
        try:
            for chunk in body.chunks:
                if self._stopped.is_set():
                    return
                chunk, unwanted = chunk[unwanted:], max(unwanted - len(chunk), 0)
                chunk = chunk[: part.end - part.first]
                _write_at(target, chunk, part.first)
                part.first += len(chunk)
                self._is_in_trouble = False
                if part.first == part.end:
                    return
                if part.first - noted >= _BLOCK:
                    self._parts.note(noted, part.first)
                    noted = part.first
                    self._tell()
        finally:
            self._parts.note(noted, part.first)
            self._tell()

    def _tell(self) -> None:
        with self._came:
            self._came.notify()


class _Part:
    """What is still to come of a part: from ``first`` to before ``end``."""

    def __init__(self, first: int, end: int) -> None:
        self.first, self.end = first, end


def _write_at(target: int, chunk: bytes, at: int) -> None:
    while chunk:
        count = os.pwrite(target, chunk, at)
        chunk, at = chunk[count:], at + count
