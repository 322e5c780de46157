"""How measured things are written: token counts, durations and sizes, for people and for programs.

Knows nothing about streams.
"""

from __future__ import annotations

from collections.abc import Mapping

_MOST = 2**63


def summary(model_id: str, values: Mapping[str, object]) -> str:
    """Return the metadata of a response as a person reads it; what is not known is left out."""
    asked, written = _number(values, "prompt_eval_count"), _number(values, "eval_count")
    writing = _number(values, "eval_duration")
    whole = _number(values, "total_duration") or writing + _number(values, "prompt_eval_duration")
    parts = [model_id, f"{asked:.0f} in", f"{written:.0f} out"]
    if writing:
        parts.append(f"{written * 1e9 / writing:.{0 if written * 1e8 >= writing else 1}f} tok/s")
    if whole:
        parts.append(f"{whole / 1e9:.{1 if whole >= 1e8 else 2}f} s")
    return " · ".join(parts)


def pairs(response_id: str, model_id: str, values: Mapping[str, object]) -> str:
    """Return the metadata of a response as ``key=value`` words, durations in readable units."""
    found = [("id", response_id), ("model", model_id), *_flat(values)]
    return " ".join(f"{key}={_shown(key, value)}" for key, value in found)


def amount(done: int, total: int) -> str:
    """Return how far something is, in bytes: a bar where it is known how much there is."""
    if total <= 0:
        return f"{done / 1e6:.1f} MB"
    part = min(done / total, 1.0)
    bar = ("#" * round(part * 30)).ljust(30, ".")
    return f"[{bar}] {part:4.0%} of {total / 1e6:.1f} MB"


def _number(values: Mapping[str, object], key: str) -> float:
    """Return what a key says, within what a float can hold: a server may say anything."""
    value = values.get(key)
    return min(max(value, 0), _MOST) if isinstance(value, (int, float)) else 0


def _flat(values: Mapping[str, object], prefix: str = "") -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            found += _flat(value, f"{prefix}{key}.")
        else:
            found.append((f"{prefix}{key}", value))
    return found


def _shown(key: str, value: object) -> str:
    if key.endswith("_duration") and isinstance(value, (int, float)) and abs(value) < _MOST:
        return f"{value / 1e9:.2f}s" if value >= 1e9 else f"{value / 1e6:.1f}ms"
    text = str(value)
    return repr(text) if not text or any(c.isspace() for c in text) else text
