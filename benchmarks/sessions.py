"""What saving and loading a session cost, beside the least that a disk and a parser can do."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from benchmarks.measure import Comparison, interleaved
from benchmarks.place import Place, Topic
from ore.store import FileSessionStore
from ore.types import Message, Session

SIZES = (10, 1_000, 10_000, 100_000)
"""Messages in a session that is saved."""
LOADED = ((1_000, 200), (10_000, 200), (100_000, 200), (1_000, 2_000), (10_000, 2_000))
"""Messages in a session that is loaded, and the characters of each."""
QUICK = 1_000
"""The largest session when few and small cases are enough."""

CHARACTERS = 200
NEW_BELOW = 1_000
"""A session with fewer messages is begun anew for each save, for by growing it would be another."""
MORE_RUNS_TO = 1_000
"""A session of so many messages at most is saved more often: its save is short, its disk is not."""
WORDS = "a prompt becomes an answer with naïve words, “quotes” and\nlines of text".split(" ")
TEXT = """\
A save stands beside the fewest calls that leave the same bytes on disk: make a file, write, sync,
rename, sync the folder. "Locked" is a session that the process holds, as a REPL does. A message is
encoded once in a process, and the whole file is written each time. A load, with every check, stands
beside `json.loads` of the same bytes. Messages have 200 characters, unless the row says otherwise.

Each save comes right after another save, and the calls beside it right after the same calls. So both
find what they have just left."""


def measure(place: Place) -> list[Comparison]:
    """Measure saves and loads of every size on the disk of the place."""
    random.seed(1)
    root = place.folder / "sessions"
    largest = QUICK if place.is_quick else SIZES[-1]
    rows = [
        saves(root, messages, place.runs * (8 if messages <= MORE_RUNS_TO else 1), is_held)
        for messages in SIZES
        if messages <= largest
        for is_held in (True, False)
    ]
    return rows + [loads(root, *size, place.runs) for size in LOADED if size[0] <= largest]


def saves(root: Path, messages: int, runs: int, is_held: bool) -> Comparison:
    """Measure saves that bring a session to about that many messages, each beside the floor."""
    store, written = FileSessionStore(root), root / "talk.json"
    is_new = messages < NEW_BELOW
    runs = min(runs, QUICK // 4)
    session = session_of(messages - 2 if is_new else messages - 2 * runs)
    turns = iter([session_of(2).messages for _ in range(2 * runs)])

    def save() -> float:
        nonlocal session
        if is_new:
            written.unlink(missing_ok=True)
            session = Session(session.messages[: messages - 2])
        else:
            session.messages += next(turns)
        store.save(session, "talk")
        session.messages += next(turns)
        return seconds(lambda: store.save(session, "talk"))

    def least() -> float:
        data = written.read_bytes()
        floor(root, data)
        return seconds(lambda: floor(root, data))

    with store.lock("talk") if is_held else nullcontext():
        times = interleaved({"ore": save, "floor": least, "again": least}, runs)
    store.delete("talk")
    return Comparison(
        f"save, {messages:,} messages{', locked' if is_held else ''}",
        "ms",
        times["ore"],
        "the fewest calls",
        times["floor"],
        times["again"],
        most=2.0 if is_new else 1.3,
    )


def loads(root: Path, messages: int, characters: int, runs: int) -> Comparison:
    """Measure strict loads of a session, each beside ``json.loads`` of the same bytes."""
    store = FileSessionStore(root)
    store.save(session_of(messages, characters), "talk")
    data = (root / "talk.json").read_bytes()

    def load() -> float:
        return seconds(lambda: store.load("talk"))

    def parse() -> float:
        return seconds(lambda: json.loads(data))

    times = interleaved({"ore": load, "floor": parse, "again": parse}, runs)
    store.delete("talk")
    size = "" if characters == CHARACTERS else f" of {characters:,} characters"
    return Comparison(
        f"load, {messages:,} messages{size}",
        "ms",
        times["ore"],
        "`json.loads`",
        times["floor"],
        times["again"],
        most=2.5,
    )


def session_of(messages: int, characters: int = CHARACTERS) -> Session:
    """Return a session of that many messages of about that many characters."""
    return Session([message(number, characters) for number in range(messages)])


def message(number: int, characters: int) -> Message:
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


TOPIC = Topic("sessions", "Saving and loading a session", TEXT, measure)
