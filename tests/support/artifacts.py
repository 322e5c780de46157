"""A good artifact, and ways to spoil one."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

GOOD = {
    "artifact_version": "ore.exec.v1",
    "execution_id": "6f1f",
    "timestamp": 1234567890.5,
    "input": {
        "prompt": "Why is the sky blue?",
        "model_id": "llama3.2:latest",
        "mode": "single_turn",
        "routing": {"target": "echo", "target_type": "tool", "confidence": 0.4},
        "tools": ["echo"],
        "skills": ["writing"],
    },
    "output": {
        "id": "6f1f",
        "content": "Rayleigh.",
        "model_id": "llama3.2:latest",
        "timestamp": 1234567890.5,
        "metadata": {"eval_count": 7, "options": {"stop": ["a", "b"]}},
    },
    "continuation": {"requested": False, "reason": None},
}

ODD_VALUES = (
    None,
    True,
    0,
    -1.5,
    10**400,
    float("nan"),
    float("inf"),
    "",
    "ore.exec.v1",
    "\x1b[2J\u202e",
    "\ud800",
    "x" * 5000,
    [],
    ["echo", 1],
    {},
    {"": {"a": []}},
)


def changed(name: str, value: Any) -> dict[str, Any]:
    """Return the good artifact with one field, ``section.key`` or ``key``, set to ``value``."""
    data = copy.deepcopy(GOOD)
    section, _, key = name.rpartition(".")
    (data[section] if section else data)[key] = value
    return data


def without(name: str) -> dict[str, Any]:
    """Return the good artifact without one field."""
    data = copy.deepcopy(GOOD)
    section, _, key = name.rpartition(".")
    del (data[section] if section else data)[key]
    return data


def encoded(data: Any) -> bytes:
    return json.dumps(data).encode()


def nested(levels: int) -> list:
    """Return lists inside each other; the innermost is empty."""
    value: list = []
    for _ in range(levels - 1):
        value = [value]
    return value


def spoiled(rng: random.Random, good: dict[str, Any] = GOOD) -> bytes:
    """Return a good artifact after one to three changes to its structure, text or bytes."""
    data = copy.deepcopy(good)
    for _ in range(rng.randint(0, 2)):
        _change_structure(rng, data)
    text = json.dumps(data, ensure_ascii=rng.random() < 0.5)
    if rng.random() < 0.2:
        key = rng.choice(["artifact_version", "prompt", "id", "requested", "eval_count"])
        text = text.replace(f'"{key}":', f'"{key}": null, "{key}":', 1)
    raw = bytearray(text.encode("utf-8", "surrogatepass"))
    if rng.random() < 0.3:
        _change_bytes(rng, raw)
    return bytes(raw)


def _change_structure(rng: random.Random, data: dict[str, Any]) -> None:
    holders = [data]
    for holder in holders:
        holders.extend(value for value in holder.values() if isinstance(value, dict))
    holder = rng.choice([holder for holder in holders if holder] or [data])
    if not holder:
        return
    key = rng.choice(list(holder))
    how = rng.randrange(5)
    if how == 0:
        del holder[key]
    elif how == 1:
        holder[key] = rng.choice(ODD_VALUES)
    elif how == 2:
        holder[key + rng.choice(["", "\x00", "2"])] = holder.pop(key)
    elif how == 3:
        holder[key] = nested(rng.choice([2, 60, 70, 400])) + [holder[key]]
    else:
        holder[rng.choice(["new", "\ud83d", "id"])] = copy.deepcopy(rng.choice(ODD_VALUES))


def _change_bytes(rng: random.Random, raw: bytearray) -> None:
    at = rng.randrange(len(raw))
    how = rng.randrange(5)
    if how == 0:
        del raw[at:]
    elif how == 1:
        raw[at] = rng.randrange(256)
    elif how == 2:
        raw[at:at] = rng.choice([b"\x00", b"\xff", b"\xef\xbb\xbf", b"[[", b"1e999", b"NaN", b'"'])
    elif how == 3:
        raw[:0] = rng.choice([b"\xef\xbb\xbf", b"\xff\xfe", b" \n", b"[" * 2000])
    else:
        raw += rng.choice([b"\n", b"{}", b"\x00"])
