"""What saving and loading a session cost, beside the least that a disk and a parser can do.

``python -m benchmarks.store [RUNS]``. A save is compared with making a file, writing the same
bytes, syncing, renaming and syncing the folder; a load with ``json.loads`` of the same bytes.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from benchmarks.measure import interleaved, median, spread, table
from ore.store import FileSessionStore
from ore.types import Message, Session

SIZES = (10, 1_000, 10_000, 100_000)
"""Messages in a session that is saved."""

LOADED = ((1_000, 200), (10_000, 200), (100_000, 200), (1_000, 2_000), (10_000, 2_000))
"""Messages in a session that is loaded, and the characters of each."""

CHARACTERS = 200
WORDS = "a prompt becomes an answer with naïve words, “quotes” and\nlines of text".split(" ")


def session_of(messages: int, characters: int = CHARACTERS) -> Session:
    """Return a session of that many messages of about that many characters."""
    return Session([message(number, characters) for number in range(messages)])


def message(number: int, characters: int = CHARACTERS) -> Message:
    """Return one message; even numbers are the user's."""
    words = " ".join(random.choices(WORDS, k=characters // 4))[:characters]
    return Message("user" if number % 2 == 0 else "assistant", words)


def seconds(action: Callable[[], object]) -> float:
    """Return how long an action took, in seconds."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def floor(folder: Path, data: bytes) -> None:
    """Replace a file with ``data`` in the fewest calls that leave it on disk."""
    descriptor = os.open(folder / "floor.tmp", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.write(descriptor, data)
    os.fsync(descriptor)
    os.close(descriptor)
    os.rename(folder / "floor.tmp", folder / "floor.json")
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def saves(root: Path, messages: int, runs: int, is_held: bool) -> list[object]:
    """Measure saves that bring a session to that many messages, each beside the floor.

    A small session is a new one each time; a large one grows by a turn each time.
    """
    store, written = FileSessionStore(root), root / "talk.json"
    session = session_of(messages - 2)

    def save() -> float:
        nonlocal session
        if messages <= 1_000:
            written.unlink(missing_ok=True)
            session = Session(session.messages[: messages - 2])
        store.save(session, "talk")
        session.messages += [message(0), message(1)]
        return seconds(lambda: store.save(session, "talk"))

    def least() -> float:
        data = written.read_bytes()
        return seconds(lambda: floor(root, data))

    with store.lock("talk") if is_held else nullcontext():
        times = interleaved({"what": save, "floor": least, "again": least}, runs)
    size = written.stat().st_size
    store.delete("talk")
    return row(f"save {messages:,} messages{', locked' if is_held else ''}", size, times)


def loads(root: Path, messages: int, characters: int, runs: int) -> list[object]:
    """Measure strict loads of a session, each beside ``json.loads`` of the same bytes."""
    store = FileSessionStore(root)
    store.save(session_of(messages, characters), "talk")
    data = (root / "talk.json").read_bytes()

    def load() -> float:
        return seconds(lambda: store.load("talk"))

    def parse() -> float:
        return seconds(lambda: json.loads(data))

    times = interleaved({"what": load, "floor": parse, "again": parse}, runs)
    store.delete("talk")
    return row(f"load {messages:,} of {characters:,} characters", len(data), times)


def row(what: str, size: int, times: dict[str, list[float]]) -> list[object]:
    """Return one line of the table; times in milliseconds."""
    middle = {case: median(values) for case, values in times.items()}
    return [
        what,
        f"{size:,}",
        middle["what"] * 1000,
        middle["floor"] * 1000,
        middle["what"] / middle["floor"],
        middle["again"] / middle["floor"],
        spread(times["what"]),
    ]


def main(runs: int = 15) -> None:
    """Print the table; the files are in the current folder, on the disk that is measured."""
    random.seed(1)
    rows: list[list[object]] = [
        ["what", "bytes", "ms", "floor ms", "ratio", "floor/floor", "spread"]
    ]
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        root = Path(folder, "sessions")
        for messages in SIZES:
            count = 4 * runs if messages <= 1_000 else runs
            rows += [saves(root, messages, count, is_held) for is_held in (True, False)]
        rows += [loads(root, messages, characters, runs) for messages, characters in LOADED]
    sys.stdout.write(table(rows) + "\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
