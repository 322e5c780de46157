"""The long proofs that a session survives: ``python -m tests.by_hand.sweeps [POINTS]``.

The suite runs the same functions with fewer points.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ore.errors import InvalidSessionError, SessionNotSavedError
from ore.store import FileSessionStore
from ore.types import Message, Session
from tests.support.faults import Intercepted, in_child, kill_after, kill_before, kill_within
from tests.support.mutations import mutated
from tests.support.process import until
from tests.support.sessions import turn

NAME = "talk"
TURNS_PER_SESSION = 12
ALLOWED_FILES = {f"{NAME}.json", f".{NAME}.lock", f".{NAME}.tmp"}


def continue_session(root: Path, new: list[Message], is_held: bool) -> None:
    """Load the session, or begin it, and save it with ``new`` messages, as one ORE would."""
    store = FileSessionStore(root)
    if not is_held:
        _append(store, new)
        return
    with store.lock(NAME):
        _append(store, new)


def _append(store: FileSessionStore, new: list[Message]) -> None:
    session = store.load(NAME) if store.exists(NAME) else Session()
    session.messages += new
    store.save(session, NAME)


@dataclass
class Killed:
    """What a sweep of kills saw."""

    fired: int = 0
    acknowledged: int = 0
    taken_late: int = 0
    calls: set[str] = field(default_factory=set)


def kill_sweep(root: Path, points: int) -> Killed:
    """Kill ``points`` saves, at every system call, and check after each what is on disk.

    Raises:
        AssertionError: An acknowledged turn is lost, a turn is half there, a file is no JSON, a
            kill did not fire, or more than one temporary file was left.
    """
    seen = Killed()
    known: list[Message] = []
    kinds = [
        (act, held) for held in (True, False) for act in (kill_before, kill_within, kill_after)
    ]
    at, kind = 1, 0
    while seen.fired < points:
        if len(known) >= 2 * TURNS_PER_SESSION:
            shutil.rmtree(root)
            known = []
        new = turn(len(known) // 2)
        act, is_held = kinds[kind]

        def save() -> list[str]:
            with Intercepted(at, act) as calls:
                continue_session(root, new, is_held)
            return calls.names

        ended = in_child(save)
        stored = check_stored(root, known, new, is_acknowledged=ended.signal == 0)
        if ended.signal == 0:
            assert len(ended.value) < at, "the kill did not fire"
            seen.acknowledged += 1
            seen.calls |= set(ended.value)
            at, kind = 1, (kind + 1) % len(kinds)
        else:
            assert ended.signal == signal.SIGKILL
            seen.fired += 1
            seen.taken_late += len(stored) > len(known)
            at += 1
        known = stored
    return seen


def check_stored(
    root: Path, known: list[Message], new: list[Message], is_acknowledged: bool
) -> list[Message]:
    """Check that disk holds what was known and, all or nothing, what is new; return it."""
    if not (root / f"{NAME}.json").exists():
        assert not known and not is_acknowledged, "the session is gone"
        return []
    json.loads((root / f"{NAME}.json").read_bytes())
    stored = FileSessionStore(root).load(NAME).messages
    assert stored == known + new or (stored == known and not is_acknowledged)
    assert set(os.listdir(root)) <= ALLOWED_FILES
    return stored


def concurrency(root: Path, processes: int, turns: int, kills_per_second: float = 0) -> int:
    """Let processes save turns into one session, perhaps killing them; return how many kills fired.

    Every process notes a turn when it is acknowledged, and goes on until it has noted ``turns``.

    Raises:
        AssertionError: An acknowledged turn is missing, a turn is half there or cut in two, or a
            reader saw what is no session.
    """
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    acknowledged = root.parent / "acknowledged"
    acknowledged.mkdir(exist_ok=True)
    begin = root.parent / "begin"

    def work(number: int) -> None:
        until(begin.exists)
        _work(root, acknowledged / str(number), turns)

    workers = {_start(lambda: work(n)): n for n in range(processes)}
    if kills_per_second:  # one is killed for certain: on a busy machine the others may be faster
        os.kill(next(iter(workers)), signal.SIGKILL)
    begin.touch()
    reader = _start(lambda: _read_until_told(root, root.parent / "stop"))
    fired = 0
    try:
        while workers:
            unlucky = random.randrange(processes) if kills_per_second else None
            for pid in [pid for pid, number in workers.items() if number == unlucky]:
                os.kill(pid, signal.SIGKILL)
            time.sleep(1 / kills_per_second if kills_per_second else 0.05)
            while workers and (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                assert pid != reader, "a reader saw what is no session"
                if pid not in workers:  # of another test
                    continue
                number = workers.pop(pid)
                if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
                    fired += 1
                    workers[_start(lambda: work(number))] = number
                else:
                    assert status == 0, "a process that was not killed failed"
    finally:
        (root.parent / "stop").touch()
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
    assert os.waitpid(reader, 0)[1] == 0, "a reader saw what is no session"
    stored = FileSessionStore(root).load(NAME).messages
    questions, answers = stored[::2], stored[1::2]
    assert [message.content for message in questions] == [
        message.content.replace("answer", "question") + ": naïve?" for message in answers
    ]
    noted = {line for file in acknowledged.iterdir() for line in file.read_text().splitlines()}
    assert len(noted) == processes * turns
    assert noted <= {message.id for message in answers}
    return fired


def _start(action: Callable[[], None]) -> int:
    """Fork; the child runs ``action`` and ends with 0, or with 1 where it raises."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            action()
            code = 0
        except BaseException as exc:
            os.write(2, f"{type(exc).__name__}: {exc}\n".encode())
        finally:
            os._exit(code)
    return pid


def _work(root: Path, noted: Path, turns: int) -> None:
    store = FileSessionStore(root)
    done = noted.read_text().count("\n") if noted.exists() else 0
    with open(noted, "a") as notes:
        for number in range(done, turns):
            with store.lock(NAME, wait=300):
                session = store.load(NAME) if store.exists(NAME) else Session()
                label = f"{noted.name}.{number}"
                new = turn(label)
                session.messages += new
                store.save(session, NAME)
            notes.write(new[1].id + "\n")
            notes.flush()


def _read_until_told(root: Path, stop: Path) -> None:
    path = root / f"{NAME}.json"
    while not stop.exists():
        if path.exists():
            assert len(json.loads(path.read_bytes())["messages"]) % 2 == 0


def fuzz(root: Path, files: int, seed: int = 1) -> tuple[int, int]:
    """Load mutated session files; return how many were clean and how many were refused.

    Raises:
        AssertionError: Loading raised something else, or changed the file.
    """
    rng = random.Random(seed)
    store = FileSessionStore(root)
    session = Session([message for number in range(3) for message in turn(number)])
    store.save(session, NAME)
    path = root / f"{NAME}.json"
    original = path.read_bytes()
    clean = refused = 0
    for _ in range(files):
        data = mutated(original, rng)
        path.write_bytes(data)
        try:
            loaded = store.load(NAME)
        except InvalidSessionError as exc:
            assert str(exc).count("\n") == 0
            refused += 1
        else:
            assert all(message.role in ("user", "assistant") for message in loaded.messages)
            clean += 1
        assert path.read_bytes() == data
    return clean, refused


def fill(root: Path, make_room: Callable[[], object]) -> int:
    """Save turns until one is not saved, and all of them when there is room; return how many fit.

    Raises:
        AssertionError: What was acknowledged is not what is stored, or something else is left.
    """
    store, session = FileSessionStore(root), Session()
    for number in range(10_000):
        session.messages += turn(number)
        try:
            store.save(session, NAME)
        except SessionNotSavedError as exc:
            assert "too large" in str(exc) or "no space left" in str(exc)
            break
    else:
        raise AssertionError("nothing was full")
    assert FileSessionStore(root).load(NAME).messages == session.messages[:-2]
    assert set(os.listdir(root)) <= ALLOWED_FILES - {f".{NAME}.tmp"}
    session.messages += turn(number + 1)
    make_room()
    store.save(session, NAME)
    assert FileSessionStore(root).load(NAME) == session
    return number


def fill_disk(root: Path) -> str:
    """Do ``fill`` on a disk of 64 KiB that only a child process sees, where that is allowed."""
    root.mkdir(parents=True)
    run = f"from tests.by_hand.sweeps import *; print(fill_mounted(Path({str(root)!r})))"
    mounted = f"mount -t tmpfs -o size=64k none '{root}' && exec '{sys.executable}' -c \"{run}\""
    done = subprocess.run(["unshare", "-m", "sh", "-c", mounted], capture_output=True, text=True)
    return done.stdout.strip() or f"not run: {done.stderr.strip().splitlines()[-1]}"


def fill_mounted(disk: Path) -> int:
    """Do ``fill`` on a small disk; removing another file makes room."""
    ballast = disk / "ballast"
    ballast.write_bytes(b"x" * 40_960)
    return fill(disk / "sessions", ballast.unlink)


def main(points: int = 10_000) -> None:
    """Run every sweep at full length and say what was seen."""
    with tempfile.TemporaryDirectory() as folder:
        for name, sweep in {
            "kills": lambda root: kill_sweep(root, points),
            "8 processes, kills fired": lambda root: concurrency(root, 8, 200),
            "8 processes, killed at random, kills fired": lambda root: concurrency(
                root, 8, 200, 20
            ),
            "turns on a disk of 64 KiB": fill_disk,
            "fuzzed files (clean, refused)": lambda root: fuzz(root, 10 * points),
        }.items():
            start = time.monotonic()
            seen = sweep(Path(folder, name.replace(" ", "-"), "sessions"))
            sys.stdout.write(f"{name}: {seen} in {time.monotonic() - start:.0f} s\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
