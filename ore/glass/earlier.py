"""The answers that recorded runs went on from, found in other runs by their hashes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from ore.artifact import read_artifact
from ore.artifact.canonical import text_digest
from ore.artifact.sources import ANSWER_OF, hashed_sources
from ore.errors import ArtifactError
from ore.types import ExecutionArtifact
from ore.types.sent import listed

_Other = ExecutionArtifact | Path | str


class Earlier:
    """Other runs, each read once: when a run is looked for that it may be.

    Of a file, its path and a hash are kept, besides the run that was found last.

    Args:
        others: The runs, or paths of their files. A pipe can be read once, and is not for this.
    """

    def __init__(self, others: Iterable[_Other]) -> None:
        self._others = listed("others", others)
        self._next = 0
        self._known: dict[bytes, _Other] = {}
        self._last: tuple[bytes, ExecutionArtifact] | None = None

    def before(self, artifact: ExecutionArtifact) -> ExecutionArtifact | None:
        """Return the run whose answer was sent, as the hash in ``artifact`` says, or None.

        Args:
            artifact: The run that went on from it.
        """
        sent = hashed_sources(artifact)
        wanted = dict.fromkeys(_key(*pair) for pair in sent if pair[0].startswith(ANSWER_OF))
        for key in wanted:
            if self._last is not None and self._last[0] == key:
                return self._last[1]
            if key in self._known and (found := self._again(key)):
                return found
        while self._next < len(self._others):
            other = self._others[self._next]
            read = _read(other)
            self._next += 1
            if read is None:
                continue
            key = _of(read)
            self._known.setdefault(key, other)
            if key in wanted:
                self._last = (key, read)
                return read
        return None

    def _again(self, key: bytes) -> ExecutionArtifact | None:
        """Return the run that had this hash when it was read, None where it is another one by now."""
        read = _read(self._known[key])
        if read is None or _of(read) != key:
            return None
        self._last = (key, read)
        return read


def _read(other: _Other) -> ExecutionArtifact | None:
    if isinstance(other, ExecutionArtifact):
        return other
    if os.path.isfile(other):
        with suppress(ArtifactError):
            return read_artifact(os.path.join(os.curdir, other))  # "-" is a file too
    return None


def _of(run: ExecutionArtifact) -> bytes:
    return _key(ANSWER_OF + run.execution_id, text_digest(run.as_text()))


def _key(source: str, digest: str) -> bytes:
    return sha256(f"{source}\0{digest}".encode("utf-8", "surrogatepass")).digest()
