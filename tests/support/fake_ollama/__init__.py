"""A stand-in for an Ollama server: real HTTP on a loopback port, with a table of scenarios.

By hand: ``python -m tests.support.fake_ollama --scenario NAME``; ``--list`` shows the names. Knows nothing
about what is said (the replies), nor about what goes wrong (the scenarios).
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.support.fake_ollama import bad_bodies, troubles
from tests.support.fake_ollama.connection import Recorded, Server
from tests.support.fake_ollama.replies import VERSION, Ollama, Reply
from tests.support.fake_ollama.scenarios import SCENARIOS, Pause, Scenario, Step, healthy

TABLES = (bad_bodies, troubles)  # importing them filled the table
CUTS = "0.12.5"
"""The last version that can't be asked to refuse a prompt: whether it cut one is judged by signs."""
SHARED_OPTIONS = ("on", "wait", "cut_at", "reset", "overflow")


@dataclass(frozen=True)
class Act:
    """A scenario with its options."""

    scenario: Scenario
    options: dict[str, Any]

    def applies_to(self, path: str) -> bool:
        """Whether a request to a path is treated by this scenario."""
        return self.options.get("on", self.scenario.path) in (path.partition("?")[0], "*")

    def steps(self, reply: Reply) -> Iterator[Step]:
        """Yield what happens instead of the healthy reply; refusals are only ever replaced."""
        yield Pause(self.options.get("wait", 0.0))
        if reply.status >= 400 and not self.scenario.replaces:
            yield from healthy(reply)
        else:
            own = {key: self.options[key] for key in self.options if key not in SHARED_OPTIONS}
            yield from self.scenario.play(reply, **own)


class FakeOllama:
    """An Ollama server on a loopback port, for as long as the ``with`` block runs.

    Args:
        models: The names that are installed.
        reply: What every chat answers, or a function of the request's JSON.
        chunks: The pieces of a streamed answer; None cuts the reply into words.
        scenario: A name of the table, or a list of names and (name, options) pairs, one for each
            POST /api/chat; the last one stays.
        port: 0 takes a free one.
        thinking: What the model thinks first, unless the request says ``think: false``.
        num_ctx: The context window in tokens, unless a request sets it.
        delay: Seconds between two lines of a stream; as much in all before a single body.
        capabilities: What the models can do, as /api/show lists it.
        version: The server's version.
        copies: Second names of models: each is listed, and loaded under the first name.
        **options: Of the scenario. Every scenario takes ``on`` (another path, ``"question"`` of what
            it knows, or ``"*"``), ``wait`` (seconds of silence before the reply), ``cut_at`` (cut the
            connection after so many bytes of the body; more than there are cut nothing), ``reset``
            (cut by RST) and ``overflow`` (``"rendered"``, ``"native"`` or ``"old"``: how a too long
            prompt is cut). ``raw``, ``body`` and ``prerendered`` choose the scenarios of these names.

    Attributes:
        url: The address, without a slash at its end.
        requests: Every request, in order.
    """

    def __init__(
        self,
        *,
        models: tuple[str, ...] = ("llama3.2:latest", "mistral:latest"),
        reply: str | Callable[[dict], str] = "Paris.",
        chunks: list[str] | None = None,
        scenario: str | list = "happy",
        port: int = 0,
        thinking: str | None = None,
        num_ctx: int = 4096,
        delay: float = 0.0,
        capabilities: tuple[str, ...] = ("completion",),
        version: str = VERSION,
        copies: dict[str, str] | None = None,
        **options: Any,
    ) -> None:
        self.ollama = Ollama(
            [*models, *(copies or ())],
            reply,
            chunks,
            thinking,
            num_ctx,
            delay,
            tuple(capabilities),
            version=version,
            copies=copies or {},
        )
        self.requests: list[Recorded] = []
        self.stopping = False
        self._connections = 0
        self._lock = threading.Lock()
        self._server: Server | None = None
        self.port = port
        self.use(scenario, **options)
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def chats(self) -> list[Recorded]:
        """The requests that were POST /api/chat, but for questions of what the server knows."""
        return [seen for seen in self.requests if _is_chat(seen)]

    def use(self, scenario: str | list, **options: Any) -> None:
        """Change what happens from the next request on."""
        rows = scenario if isinstance(scenario, list) else [(scenario, options)]
        rows = [(row, options) if isinstance(row, str) else row for row in rows]
        self._script = [_act(name, own) for name, own in rows]

    def start(self) -> None:
        """Listen, on the same port as before if there was one."""
        self.stopping = False
        self._server = Server(self.port, self)
        self.port = self._server.server_address[1]
        self._server.begin()

    def stop(self) -> None:
        """Drop the listening socket and every connection, as if the server had been killed."""
        if self._server is None:
            return
        self.stopping = True
        self._server.end()
        self._server.drop_connections()
        self._server = None

    def __enter__(self) -> FakeOllama:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def next_connection(self) -> int:
        with self._lock:
            self._connections += 1
            return self._connections

    def steps_for(self, seen: Recorded) -> tuple[Iterator[Step], int | None, bool]:
        """Record a request; return what to do, where to cut the body, and whether by a reset."""
        with self._lock:
            self.requests.append(seen)
            act = self._script[0]
            if _is_chat(seen) and len(self._script) > 1:
                self._script.pop(0)
        host = seen.headers.get("host", "localhost")
        overflow = act.options.get("overflow", act.scenario.overflow)
        reply = self.ollama.answer(seen.method, seen.path, host, seen.body, overflow)
        seen.kept = reply.kept
        if not act.applies_to("question" if is_question(seen) else seen.path):
            return self._plain(seen, reply), None, False
        return act.steps(reply), act.options.get("cut_at"), act.options.get("reset", False)

    def _plain(self, seen: Recorded, reply: Reply) -> Iterator[Step]:
        while seen.path == "/api/ps" and self.ollama.loads:
            yield Pause(0.005)
        yield from healthy(reply)


def _is_chat(seen: Recorded) -> bool:
    return (seen.method, seen.path) == ("POST", "/api/chat") and not is_question(seen)


def is_question(seen: Recorded) -> bool:
    """Whether a request asks what the server knows: it can't be read as a turn."""
    ends = (b'"messages":1}', b'"model":"","messages":[]}')
    return seen.body.startswith(b'{"truncate":"?",') and seen.body.endswith(ends)


def _act(name: str, options: dict[str, Any]) -> Act:
    chosen = next((key for key in ("raw", "body", "prerendered") if key in options), name)
    scenario = SCENARIOS[chosen if name == "happy" else name]
    own = {key: value for key, value in options.items() if key not in SHARED_OPTIONS}
    inspect.signature(scenario.play).bind(None, **own)
    return Act(scenario, dict(options))


def main() -> None:
    """Serve by hand until interrupted; the first line that is printed is the address."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.fake_ollama", allow_abbrev=False)
    parser.add_argument("--list", action="store_true", help="print the scenarios and exit")
    parser.add_argument("--scenario", default="happy", choices=sorted(SCENARIOS), metavar="NAME")
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    parser.add_argument("--model", action="append", metavar="NAME", help="may be repeated")
    parser.add_argument("--reply", default="Paris.", help="what every chat answers")
    parser.add_argument("--thinking", help="what the model thinks first")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds between two lines")
    parser.add_argument("--num-ctx", type=int, default=4096, help="context window in tokens")
    parser.add_argument(
        "--option", action="append", default=[], metavar="KEY=JSON", help="of the scenario"
    )
    args = parser.parse_args()
    if args.list:
        for row in sorted(SCENARIOS.values(), key=lambda row: row.name):
            print(f"{row.name:<20} {row.path:<10} {row.text}")
        return
    options = {key: json.loads(value) for key, _, value in (o.partition("=") for o in args.option)}
    settings = {"reply": args.reply, "thinking": args.thinking, "delay": args.delay}
    settings |= {"scenario": args.scenario, "port": args.port, "num_ctx": args.num_ctx}
    if args.model:
        settings["models"] = tuple(args.model)
    with FakeOllama(**settings, **options) as fake, contextlib.suppress(KeyboardInterrupt):
        print(fake.url, flush=True)
        threading.Event().wait()
