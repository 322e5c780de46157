"""Changes to a JSON file such as damage, bugs and malice make."""

from __future__ import annotations

import random

PIECES = (
    *(bytes([byte]) for byte in b'{}[]",:\\\0\n\xff'),
    *b'true null {} NaN -Infinity 1e999 "\\ud800" "id":1, "role":"system", "messages":[],'.split(),
    *(b"9" * 5000, b"[" * 2000, b'{"a":' * 2000),
    *(b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xe2\x80\xa8"),
)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return ``data`` with one to three changes: bytes, pieces of JSON, cuts and copies."""
    for _ in range(rng.randint(1, 3)):
        start = rng.randrange(len(data) + 1)
        end = min(len(data), start + rng.choice((0, 1, 2, 10, 100, len(data))))
        kind = rng.randrange(6)
        if kind == 0:
            middle = rng.choice(PIECES)
        elif kind == 1:
            middle = bytes(rng.randrange(256) for _ in range(rng.randint(1, 4)))
        elif kind == 2:
            middle = b""
        elif kind == 3:
            middle = data[start:end] * 2
        elif kind == 4:
            start, end, middle = 0, len(data), data[:start]
        else:
            tokens = (b'"user"', b'"assistant"', b'"content"', b'"id"', b'"timestamp"', b'"role"')
            old, new = rng.sample(tokens, 2)
            start, end, middle = 0, len(data), data.replace(old, new, rng.randint(1, 3))
        data = data[:start] + middle + data[end:]
    return data
