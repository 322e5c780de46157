"""The most memory that a turn holds, beside the bare client's script and the peer."""

from __future__ import annotations

from functools import partial

from benchmarks import bare
from benchmarks.measure import Comparison, warmed
from benchmarks.place import MODEL, PEER_MODEL, Place, Topic, server
from benchmarks.processes import peak
from benchmarks.streaming import CHUNKS, FEWER

MOST_OF_PEER = 0.6
TEXT = f"""\
The most resident memory of a whole process: one short turn, and a stream of {CHUNKS:,} chunks."""


def measure(place: Place) -> list[Comparison]:
    """Take the peak of a turn and of a long stream."""
    chunks = FEWER if place.is_quick else CHUNKS
    with server() as url:
        rows = _compared(place, url, "one turn", (), bare.CALL)
    with server("--scenario", "prerendered", "--option", f"prerendered={chunks}") as url:
        rows += _compared(place, url, f"{chunks:,} chunks", ("-s",), bare.STREAM)
    return rows


def _compared(
    place: Place, url: str, what: str, flags: tuple[str, ...], script: str
) -> list[Comparison]:
    bare_command = place.script(script, url)
    ours = place.ore("--host", url, "--model", MODEL, *flags, "Hi")
    commands = {"ore": ours, "script": bare_command, "script again": bare_command}
    if place.peer:
        commands["llm"] = commands["llm again"] = (place.peer, "-m", PEER_MODEL, "Hi")
    environ = place.for_peer(url)
    cases = {name: partial(peak, command, environ) for name, command in commands.items()}
    found = warmed(cases, max(place.runs // 3, 3))
    others = [("script", "a script", None), ("llm", "`llm`", MOST_OF_PEER)]
    return [
        Comparison(what, "MB", found["ore"], shown, found[name], found[f"{name} again"], most=most)
        for name, shown, most in others
        if name in found
    ]


TOPIC = Topic("memory", "Memory", TEXT, measure)
