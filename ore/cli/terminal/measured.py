"""What was measured in a turn, as one line: for a person, or as ``key=value`` words for a program."""

from __future__ import annotations

from collections.abc import Mapping

_MOST = 2**63
_LOADING_NANOSECONDS = 100_000_000
"""What takes less is no loading: servers count the time in which they look whether a model is there."""


def summary(response_id: str, model_id: str, values: Mapping[str, object]) -> str:
    """Return the metadata of a response as a person reads it; what is not known is left out."""
    written, writing = _number(values, "eval_count"), _number(values, "eval_duration")
    whole = _number(values, "total_duration") or writing + _number(values, "prompt_eval_duration")
    counts = {"in": "prompt_eval_count", "out": "eval_count"}
    known = {way: key for way, key in counts.items() if values.get(key, 0) is not None}
    parts = [model_id, *(f"{_number(values, key):.0f} {way}" for way, key in known.items())]
    if (cached := _number(values, "cached_tokens")) and "in" in known:
        parts[1] += f" ({cached:.0f} cached)"
    if writing:
        parts.append(f"{written * 1e9 / writing:.{0 if written * 1e8 >= writing else 1}f} tok/s")
    if whole:
        parts.append(_in_seconds(whole))
    if (loading := _number(values, "load_duration")) >= _LOADING_NANOSECONDS:
        parts.append(f"loaded in {_in_seconds(loading)}")
    if first := _number(values, "first_token_duration"):
        parts.append(f"first token after {_in_seconds(first)}")
    if device := values.get("device"):
        parts.append(f"on {device}")
    return " · ".join([*parts, response_id])


def _in_seconds(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e9:.{1 if nanoseconds >= 1e8 else 2}f} s"


def _number(values: Mapping[str, object], key: str) -> float:
    """Return what a key says, within what a float can hold: a server may say anything."""
    value = values.get(key)
    return min(max(value, 0), _MOST) if isinstance(value, (int, float)) else 0


def pairs(values: Mapping[str, object], prefix: str = "") -> str:
    """Return the metadata of a response as ``key=value`` words, durations in readable units."""
    words = []
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            words.append(pairs(value, f"{name}."))
        else:
            words.append(f"{name}={_shown(name, value)}")
    return " ".join(filter(None, words))


def _shown(key: str, value: object) -> str:
    if key.endswith("_duration") and isinstance(value, (int, float)) and abs(value) < _MOST:
        return f"{value / 1e9:.2f}s" if value >= 1e9 else f"{value / 1e6:.1f}ms"
    text = str(value)
    return repr(text) if not text or any(c.isspace() for c in text) else text
