"""What a turn of a REPL costs, and what importing the client at the first prompt saves."""

from __future__ import annotations

import os
import subprocess
import time
from functools import partial

from benchmarks import bare
from benchmarks.measure import Comparison, warmed
from benchmarks.place import MODEL, PEER_MODEL, NotHere, Place, Topic, server
from benchmarks.processes import turns

TURNS = 50
ANSWER = b"Paris."
TYPING = 1.5
"""Seconds that a person takes to type a prompt."""
LOOP = "a loop over one client"
MOST_OF_LOOP = 2.0
TEXT = f"""\
The median of {TURNS} turns on a pipe, without the first. A turn takes from the line that goes in to the line
of the answer. Both programs keep their connection, and take the answer as a stream. ORE also asks, after
each turn, how large the context window was."""
FIRST = f"""\
On a terminal, from the Return key to the end of the first answer. One person has typed the prompt for
{TYPING:g} seconds; the other has pasted it. ORE imports the client before it asks."""


def measure(place: Place) -> list[Comparison]:
    """Take turns on a pipe."""
    with server() as url:
        loop = place.script(bare.LOOP, url)
        ours = place.ore("--host", url, "--model", MODEL, "-q")
        commands = {
            "ore -i": (*ours, "-i"),
            "ore -c": (*ours, "-c"),
            "loop": loop,
            "loop again": loop,
            "conversation": (*loop, "conversation"),
            "conversation again": (*loop, "conversation"),
        }
        if place.peer:
            chat = (place.peer, "chat", "-m", PEER_MODEL)
            commands["llm chat"] = commands["llm chat again"] = chat
        environ, count = place.for_peer(url), 10 if place.is_quick else TURNS
        cases = {
            name: partial(turns, command, environ, count, ANSWER)
            for name, command in commands.items()
        }
        found = warmed(cases, max(place.runs // 3, 3))
    pairs = [
        ("ore -i", "loop", f"{LOOP}, each turn on its own", MOST_OF_LOOP),
        ("ore -c", "conversation", f"{LOOP}, a conversation", MOST_OF_LOOP),
        ("ore -c", "llm chat", "`llm chat`", None),
    ]
    return [
        Comparison(
            f"`{what}`", "ms", found[what], shown, found[name], found[f"{name} again"], most=most
        )
        for what, name, shown, most in pairs
        if name in found
    ]


def measure_first(place: Place) -> list[Comparison]:
    """Take the first turn on a terminal, with and without a pause before it."""
    if os.name == "nt":
        raise NotHere("it needs a pseudo-terminal")
    with server() as url:
        command = place.ore("--host", url, "--model", MODEL, "-c")
        pauses = {"typed": TYPING, "pasted": 0.0, "pasted again": 0.0}
        cases = {
            name: partial(first_turn, command, place.environ, pause)
            for name, pause in pauses.items()
        }
        found = warmed(cases, max(place.runs // 2, 3))
    first, other, again = (found[name] for name in cases)
    return [Comparison("typed prompt", "ms", first, "pasted prompt", other, again)]


def first_turn(command: tuple[str, ...], environ: dict[str, str], pause: float) -> float:
    """Return the seconds from a line typed ``pause`` seconds after the prompt to its answer."""
    import pty

    ours, theirs = pty.openpty()
    environ = {**environ, "TERM": "xterm", "NO_COLOR": "1"}
    process = subprocess.Popen(
        command, env=environ, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    try:
        _read_until(ours, b"You: ")
        time.sleep(pause)
        started = time.perf_counter()
        os.write(ours, b"Hi\r")
        _read_until(ours, ANSWER)
        return time.perf_counter() - started
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _read_until(terminal: int, text: bytes) -> None:
    seen = b""
    while text not in seen:
        seen += os.read(terminal, 4096)


TOPIC = Topic("repl", "A turn of a REPL", TEXT, measure)
FIRST_TOPIC = Topic("first-turn", "The first turn of a REPL", FIRST, measure_first)
