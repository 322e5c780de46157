"""How fast a streamed answer goes through ORE into a pipe, beside a bare loop and the peer."""

from __future__ import annotations

from functools import partial

from benchmarks import bare
from benchmarks.measure import Comparison, warmed
from benchmarks.place import MODEL, PEER_MODEL, Place, Topic, server
from benchmarks.processes import between

CHUNKS = 20_000
FEWER = 2_000
LOOP = "a loop that flushes each"
TEXT = f"""\
Chunks a second of {CHUNKS:,}, from the first byte in the reader's pipe to the last. The server has them
ready as bytes. Each program flushes every chunk that it writes."""


def measure(place: Place) -> list[Comparison]:
    """Stream very many chunks into a pipe and take the rate."""
    chunks = FEWER if place.is_quick else CHUNKS
    runs = max(place.runs * 2 // 3, 3)
    with server("--scenario", "prerendered", "--option", f"prerendered={chunks}") as url:
        script = place.script(bare.STREAM, url)
        ours = place.ore("--host", url, "--model", MODEL, "-s", "Hi")
        commands = {"ore": ours, "loop": script, "loop again": script}
        if place.peer:
            commands["llm"] = commands["llm again"] = (place.peer, "-m", PEER_MODEL, "Hi")
        environ = place.for_peer(url)
        cases = {name: partial(between, command, environ) for name, command in commands.items()}
        found = warmed(cases, runs)
    rates = {name: [chunks / value for value in values] for name, values in found.items()}
    others = [("loop", LOOP, 0.9), ("llm", "`llm`", None)]
    return [
        Comparison(
            "`ore -s`", "/s", rates["ore"], shown, rates[name], rates[f"{name} again"], least=least
        )
        for name, shown, least in others
        if name in rates
    ]


TOPIC = Topic("streaming", "Streaming", TEXT, measure)
