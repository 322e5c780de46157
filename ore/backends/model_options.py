"""The options of a model, mostly as Ollama names them: which there are, and what values they take."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ore.backends.chat_template import not_here
from ore.errors import CapabilityError, UsageError
from ore.files.neutral import brief
from ore.files.spelling import nearest

_LEAST, _MOST = -(2**31), 2**32 - 1
"""What a whole number may be: a server counts in 32 bits, a seed without a sign."""

_UNITS = r"(?:ns|us|µs|ms|s|m|h)"
_DURATION = re.compile(rf"-?(?:(?:\d+\.?\d*|\.\d+){_UNITS})+", re.ASCII)
_AT_ONCE = re.compile(rf"[+-]?0+(\.0*)?{_UNITS}?")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
_DIGITS = re.compile(r"[+-]?\d+", re.ASCII)
_MOST_DIGITS = 40
_MOST_SECONDS = 366 * 24 * 3600


def _whole(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,20}", text, re.ASCII) or not _LEAST <= int(text) <= _MOST:
        raise ValueError(text)
    return int(text)


def _number(text: str) -> float:
    if len(text) > _MOST_DIGITS or not _NUMBER.fullmatch(text) or not math.isfinite(float(text)):
        raise ValueError(text)
    return float(text)


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


_WHOLE = ("a whole number", _whole)
_FLOAT = ("a number", _number)
_TRUE_OR_FALSE = ("true or false", _boolean)
_TEXTS = ("a text", str)

OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "cache_prompt": _TRUE_OR_FALSE,
    "draft_num_predict": _WHOLE,
    "frequency_penalty": _FLOAT,
    "main_gpu": _WHOLE,
    "min_p": _FLOAT,
    "num_batch": _WHOLE,
    "num_ctx": _WHOLE,
    "num_gpu": _WHOLE,
    "num_keep": _WHOLE,
    "num_predict": _WHOLE,
    "num_thread": _WHOLE,
    "presence_penalty": _FLOAT,
    "repeat_last_n": _WHOLE,
    "repeat_penalty": _FLOAT,
    "seed": _WHOLE,
    "stop": _TEXTS,
    "temperature": _FLOAT,
    "top_k": _WHOLE,
    "top_p": _FLOAT,
    "typical_p": _FLOAT,
    "use_mmap": _TRUE_OR_FALSE,
}
"""Every option: what its value is, in words, and how it is read. ``stop`` may be given again."""


def parse_options(pairs: Iterable[str]) -> dict[str, Any]:
    """Return ``KEY=VALUE`` texts as options with typed values; ``stop`` becomes a list of texts.

    Raises:
        UsageError: A text has no ``=``, names an unknown option (the nearest one is named), has a
            value of another type, or gives an option twice.
    """
    options: dict[str, Any] = {}
    for pair in pairs:
        key, separator, text = pair.partition("=")
        if not separator or not key:
            raise UsageError(
                f"`options=` takes KEY=VALUE, as in temperature=0.2, not '{brief(pair)}'."
            )
        if key not in OPTIONS:
            raise UsageError(f"There is no option '{brief(key)}'{_nearest(key)}.")
        value = _parsed(key, text)
        if key == "stop":
            options.setdefault(key, []).append(value)
        elif key in options:
            raise UsageError(f"`options=` gives '{key}' twice: leave one of them out.")
        else:
            options[key] = value
    return options


def as_pairs(options: Mapping[str, Any]) -> list[str]:
    """Return options as the command line would have them, so that they are checked as strictly."""
    pairs = []
    for key, value in options.items():
        for item in value if key == "stop" and isinstance(value, list) else [value]:
            fits = isinstance(item, (str, int, float)) and isinstance(item, str) == (key == "stop")
            if key in OPTIONS and not fits:
                raise UsageError(
                    f"The option '{key}' must be {OPTIONS[key][0]}, not {type(item).__name__}."
                )
            text = str(item).lower() if isinstance(item, bool) else str(item)
            pairs.append(f"{key}={text}")
    return pairs


def check_ollama(options: Iterable[str], chat_template: str | None = None) -> None:
    """Raise ``CapabilityError`` for what Ollama does not have; an option would be passed over."""
    if chat_template is not None:
        raise not_here("An Ollama server")
    if "cache_prompt" in options:
        raise CapabilityError(
            "Ollama has no option 'cache_prompt', and decides for itself what it computes anew: leave "
            "it out, or use `reasoner('embedded:NAME')`.",
            setting="cache_prompt",
        )


def parse_think(text: str | None) -> bool | str | None:
    """Return whether, or how much, the model is to think, of ``on``, ``off`` or a word for how much."""
    return {"on": True, "off": False}.get(text or "", text)


def parse_keep_alive(text: str) -> float | str:
    """Return how long a model stays loaded: a number of seconds, or a duration such as ``1h30m``.

    A negative value keeps it for ever, 0 unloads it at once.
    """
    try:
        return _number(text)
    except ValueError:
        if len(text) <= _MOST_DIGITS and _DURATION.fullmatch(text):
            return text
    raise UsageError(
        f"`keep_alive=` takes seconds, or a duration such as 5m or 1h30m, not '{brief(text)}'."
    )


def lets_go_at_once(keep_alive: float | str | None) -> bool:
    """Return whether a server with that ``keep_alive`` lets go of a model once it has answered."""
    return _AT_ONCE.fullmatch(str(keep_alive)) is not None


def _parsed(key: str, text: str) -> Any:
    kind, read = OPTIONS[key]
    try:
        value = read(text)
    except (KeyError, ValueError):
        if read is _whole and _DIGITS.fullmatch(text):
            kind = f"from {_LEAST:,} to {_MOST:,}"
        raise UsageError(f"The option '{key}' must be {kind}, not '{brief(text)}'.") from None
    if value == "":
        raise UsageError(f"The option '{key}' needs a value.")
    return value


def _nearest(key: str) -> str:
    near = nearest(key, OPTIONS)
    return f"; the nearest is '{near}'" if near else f": there are {', '.join(OPTIONS)}"


def natural(options: Mapping[str, Any], name: str) -> int | None:
    """Return an option's value where it is a number that is not negative, else None.

    What follows a decimal point is left out, as a server does with it.
    """
    value = options.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if 0 <= value < float("inf") else None


def checked_seconds(name: str, value: float | None) -> float | None:
    """Return a time limit, or None for no limit; raise ``UsageError`` for anything else."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UsageError(f"The {name} must be a number of seconds, not {value!r}.")
    if not 0 < value <= _MOST_SECONDS:
        raise UsageError(f"The {name} must be above 0 seconds and at most a year, not {value!r}.")
    return float(value)
