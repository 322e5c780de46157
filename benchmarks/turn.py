"""What one turn costs as a whole process, and until its first byte, over the bare client's.

The server is a stand-in that answers at once, so that only what asks it is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from benchmarks import bare
from benchmarks.measure import Comparison, warmed
from benchmarks.place import MODEL, PEER_MODEL, Place, Topic, server
from benchmarks.processes import first_byte, seconds

SCRIPT = "a script with one call"
PEER = "`llm`"
MOST_OF_SCRIPT = 1.0
MOST_OF_PEER = 0.37  # 2.7 times as fast
WHOLE = """\
From the start of the process to its end. The script imports `ollama`, makes one call and prints the
answer. `ore` also looks up the default model, unless it is named. After the turn, it asks how large the
context window was, so that it can say what did not fit. `llm` streams and logs to its database, as it
does by default. A ratio of 0.37 is 2.7 times as fast."""
FIRST = """\
From the start of the process to the first byte of a streamed answer (`ore -s`, with the model named)."""


def measure(place: Place) -> list[Comparison]:
    """Time a whole turn, with and without ``--model``."""
    with server() as url:
        ours = {
            "`ore PROMPT`": place.ore("--host", url, "Hi"),
            "`ore --model NAME PROMPT`": place.ore("--host", url, "--model", MODEL, "Hi"),
        }
        script = place.script(bare.CALL, url)
        return compared(place, seconds, ours, script, url)


def measure_first(place: Place) -> list[Comparison]:
    """Time the first byte of a streamed answer whose words come 20 ms apart."""
    with server("--delay", "0.02", "--reply", "one two three four five six") as url:
        ours = {"`ore -s PROMPT`": place.ore("--host", url, "--model", MODEL, "-s", "Hi")}
        script = place.script(bare.STREAM, url)
        return compared(place, first_byte, ours, script, url)


def compared(
    place: Place,
    figure: Callable[[Sequence[str], dict[str, str]], float],
    ours: dict[str, Sequence[str]],
    script: Sequence[str],
    url: str,
) -> list[Comparison]:
    """Take a figure of ORE's command lines, the script and the peer; compare the first with both."""
    commands = {**ours, SCRIPT: script, "script again": script}
    if place.peer:
        commands[PEER] = commands["peer again"] = (place.peer, "-m", PEER_MODEL, "Hi")
    environ = place.for_peer(url)
    cases = {name: partial(figure, command, environ) for name, command in commands.items()}
    found = warmed(cases, place.runs)
    others = [(SCRIPT, "script again", MOST_OF_SCRIPT), (PEER, "peer again", MOST_OF_PEER)]
    return [
        Comparison(what, "ms", found[what], other, found[other], found[again], most=most)
        for other, again, most in others
        if other in found
        for what in ours
    ]


TOPIC = Topic("turn", "One turn", WHOLE, measure)
FIRST_TOPIC = Topic("first-token", "The first token", FIRST, measure_first)
