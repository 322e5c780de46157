"""Running a command as a fresh process, and what it took: time, its first byte, memory, turns.

Knows nothing about what the commands are.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

_PIECE = 1 << 16

_LAUNCHER = """
import os, sys
process = os.spawnv(os.P_NOWAIT, sys.argv[1], sys.argv[1:])
_, status, used = os.wait4(process, 0)
sys.stderr.write(f"\\n{used.ru_maxrss}")
sys.exit(os.waitstatus_to_exitcode(status))
"""
"""A small program in between: what a process is said to need at most is never less than what its
parent had when it was started."""


@dataclass(frozen=True)
class Finished:
    """A process that has ended well.

    Attributes:
        seconds: From its start to its end.
        first: Seconds from its start to the first byte of its stdout.
        last: Seconds from its start to the last byte of its stdout.
    """

    seconds: float
    first: float
    last: float


def finish(command: Sequence[str], environ: dict[str, str]) -> Finished:
    """Run a command to its end, reading its stdout through a pipe.

    Its stderr is a file: a pipe that nobody empties would stop a process that says much.

    Raises:
        RuntimeError: It did not end with 0.
    """
    with tempfile.TemporaryFile() as told:
        started = time.perf_counter()
        process = subprocess.Popen(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=told,
        )
        assert process.stdout is not None
        first = last = 0.0
        with _ended(process):
            while os.read(process.stdout.fileno(), _PIECE):
                last = time.perf_counter() - started
                first = first or last
            code = process.wait()
            seconds = time.perf_counter() - started
        if code:
            told.seek(0)
            why = told.read().decode(errors="replace")[-500:]
            raise RuntimeError(f"{' '.join(command)} ended with {code}: {why}")
    return Finished(seconds, first, last)


@contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Close what a process has open with us, and let none go on that is not waited for any more."""
    with process:
        try:
            yield
        except BaseException:
            process.kill()
            raise


def seconds(command: Sequence[str], environ: dict[str, str]) -> float:
    """Return how long a command takes as a whole process, in seconds."""
    return finish(command, environ).seconds


def first_byte(command: Sequence[str], environ: dict[str, str]) -> float:
    """Return the seconds from the start of a process to the first byte of its stdout."""
    return finish(command, environ).first


def between(command: Sequence[str], environ: dict[str, str]) -> float:
    """Return the seconds from the first byte of a process's stdout to the last."""
    done = finish(command, environ)
    return done.last - done.first


def peak(command: Sequence[str], environ: dict[str, str]) -> float:
    """Return the most memory that a process held at a time (resident), in bytes."""
    launched = [sys.executable, "-I", "-S", "-c", _LAUNCHER, *command]
    done = subprocess.run(launched, env=environ, stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr!r}")
    unit = 1 if sys.platform == "darwin" else 1024
    return float(done.stderr.split()[-1]) * unit


def turns(command: Sequence[str], environ: dict[str, str], count: int, answer: bytes) -> float:
    """Return the median seconds of a turn of a process that answers each line of its stdin.

    The first turn does not count.

    Args:
        answer: What an answer's line ends with.
    """
    process = subprocess.Popen(
        command,
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None and process.stdout is not None
    took = []
    with _ended(process):
        for _ in range(count + 1):
            started = time.perf_counter()
            process.stdin.write(b"Hi\n")
            process.stdin.flush()
            while not (line := process.stdout.readline()).rstrip().endswith(answer):
                if not line:
                    raise RuntimeError(f"{' '.join(command)} gave no answer")
            took.append(time.perf_counter() - started)
        process.stdin.close()
        process.stdout.read()
    return sorted(took[1:])[count // 2]
