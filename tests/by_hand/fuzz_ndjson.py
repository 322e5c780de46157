"""Damaged answers by the thousand: ``python -m tests.by_hand.fuzz_ndjson [COUNT] [SEED]``.

The suite runs the same function with fewer. The bytes go through everything but the socket: the
line mending, the HTTP client's decoding, the ``ollama`` package and the reasoner.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from typing import Any

from ore.backends.ollama_client import OllamaClient
from ore.errors import OreError
from ore.reasoner import AyaReasoner
from ore.types import Message, Response
from tests.support.mutations import mutated

STREAM = (
    b'{"model":"m","created_at":"2026-08-21T18:48:22.12Z","message":{"role":"assistant",'
    b'"content":"","thinking":"Hm."},"done":false}\n'
    b'{"model":"m","created_at":"2026-08-21T18:48:22.13Z","message":{"role":"assistant",'
    b'"content":"Paris \xc2\x85 \xe2\x82\xac"},"done":false}\n'
    b'{"model":"m","created_at":"2026-08-21T18:48:22.14Z","message":{"role":"assistant",'
    b'"content":" it is","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]},'
    b'"done":false}\n'
    b'{"model":"m","created_at":"2026-08-21T18:48:22.15Z","message":{"role":"assistant",'
    b'"content":"."},"done":true,"done_reason":"stop","total_duration":69000000,'
    b'"load_duration":5000000,"prompt_eval_count":14,"prompt_eval_duration":14000000,'
    b'"eval_count":5,"eval_duration":50000000}\n'
)
ERROR = b'{"error":"an error was encountered while running the model: unexpected EOF"}\n'
REFUSAL = (
    b'{"error":"{\\"error\\":{\\"message\\":\\"exceeds\\",\\"n_ctx\\":4096}}","signin_url":"u"}'
)
CASES = (
    (200, STREAM),
    (200, STREAM),
    (200, STREAM.replace(b"\n", b"\r\n")),
    (200, STREAM[: STREAM.rindex(b"{", 0, -1) // 2] + ERROR),
    (200, STREAM[STREAM.rindex(b"\n", 0, -1) + 1 :]),
    (400, REFUSAL),
)


class Canned(AyaReasoner):
    """Asks nobody: each turn is answered with the bytes that ``chunks`` and ``status`` hold."""

    status = 200
    chunks: list[bytes] = []

    def __init__(self, model_id: str, host: str, **settings: Any) -> None:
        super().__init__(model_id, host, **settings)
        import httpx

        def answer(request: httpx.Request) -> httpx.Response:
            return httpx.Response(self.status, content=iter(self.chunks))

        self._client = OllamaClient(self.host, transport=httpx.MockTransport(answer))


def damaged(rng: random.Random) -> tuple[int, list[bytes]]:
    """Return a status and a body that was changed, in chunks as the network may cut it."""
    status, data = rng.choice(CASES)
    data = mutated(data, rng)
    size = rng.choice((1, 2, 7, 100, len(data) + 1))
    return status, [data[start : start + size] for start in range(0, len(data), size)]


def outcome(reasoner: Canned, streams: bool) -> Response | OreError:
    """Take a turn; anything but a response or one of our errors goes through."""
    try:
        if not streams:
            return reasoner.reason([Message("user", "Hello?")])
        chunks = reasoner.stream_reason([Message("user", "Hello?")])
        while True:
            try:
                next(chunks).encode("utf-8")
            except StopIteration as end:
                return end.value
    except OreError as exc:
        return exc


def fuzz(count: int, seed: int) -> Counter[str]:
    """Take ``count`` turns with damaged answers, and count what they end with.

    Raises:
        AssertionError: An answer that never said that it was done became a response, or an
            error's message is more than one line.
        Exception: Whatever was raised that is no error of ours.
    """
    # Nothing listens at this port: a model that is said to be missing is looked up in vain.
    reasoner = Canned("m", "http://127.0.0.1:9", options={"num_ctx": 4096})
    seen: Counter[str] = Counter()
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        reasoner.status, reasoner.chunks = damaged(rng)
        data = b"".join(reasoner.chunks)
        try:
            result = outcome(reasoner, streams=rng.random() < 0.7)
            if isinstance(result, Response):
                assert reasoner.status == 200 and b'"done"' in data
                result.content.encode("utf-8")
            else:
                assert len(str(result).splitlines()) == 1
        except BaseException as exc:
            exc.args = (*exc.args, f"seed {seed}, number {number}: {data[:2000]!r}")
            raise
        seen[type(result).__name__] += 1
    return seen


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    started = time.monotonic()
    seen = fuzz(count, seed)
    print(f"{count:,} damaged answers in {time.monotonic() - started:.0f} s, seed {seed}:")
    for name, times in seen.most_common():
        print(f"{times:9,} {name}")


if __name__ == "__main__":
    main()
