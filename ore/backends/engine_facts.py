"""What the embedded engine says of a turn: its counts, and what was in force."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPException
from typing import Any

from ore.backends import gguf
from ore.backends.effective import PARAMETERS, template_digest
from ore.backends.engine import WINDOW, Engine
from ore.backends.engine_request import LOADED_WITH, sampling_of
from ore.backends.settings import Settings
from ore.errors import IncompleteAnswerError, OreError
from ore.files.neutral import word
from ore.files.strictjson import above_zero, part

_OTHER_NAMES = {"num_keep": "n_keep"}
_UNSAID: dict[str, Any] = {"seed": None, "stop": []}
"""What is not read of the engine's defaults: it draws a seed for each turn, and stops at no text."""

_IN_FILE = {
    "temperature": "temp",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "repeat_penalty": "penalty_repeat",
    "repeat_last_n": "penalty_last_n",
}
"""The options that a GGUF file may set, and how it names them after ``general.sampling.``."""


def in_force(
    engine: Engine, settings: Settings, longest: int, own: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return what ``effective`` takes of the last turn.

    ``longest`` is an answer's, in tokens; ``own`` are the options that the model sets for itself.
    """
    own = own or {}
    generation = engine.properties["default_generation_settings"]
    params = part(generation, "params")
    server = {name: _number(params.get(_OTHER_NAMES.get(name, name))) for name in PARAMETERS}
    head: dict[str, Any] = {}
    with suppress(OreError):
        head = gguf.read_head(engine.path)
    written = {name: _number(head.get(f"general.sampling.{key}")) for name, key in _IN_FILE.items()}
    written = {name: v for name, v in written.items() if v is not None and v == server[name]}
    sent = {**sampling_of(settings, longest), LOADED_WITH: WINDOW}
    return {
        "user": {name: v for name, v in settings.options.items() if sent.get(name) is not False},
        "ore": {name: value for name, value in sent.items() if name not in own},
        "model": {**written, **own},
        "server": {**server, **_UNSAID},
        "facts": {
            **engine.computes_with,
            "quantization": gguf.quantization(head) or word(engine.properties.get("model_ftype")),
            "parameter_count": _parameter_count(engine),
            "template_sha256": template_digest(settings.chat_template or engine.template),
        },
    }


def _parameter_count(engine: Engine) -> int | None:
    with suppress(OSError, HTTPException, LookupError, TypeError, ValueError, RecursionError):
        return above_zero(engine.ask("/v1/models")["data"][0]["meta"]["n_params"])
    return None


def _number(value: object) -> int | float | None:
    """Return a number as it was written before it was kept in 32 bits."""
    if type(value) is float:
        return float(f"{value:.7g}")
    return value if type(value) is int else None


def metadata_of(last: dict[str, Any], window: int) -> dict[str, Any]:
    """Return the counts (tokens) and durations (nanoseconds) of a finished answer."""
    timings = last.get("timings")
    if not timings or "finish_reason" not in last:
        raise IncompleteAnswerError(
            "The embedded engine ended its answer without saying that it was done: nothing was "
            "kept of this turn; try again."
        )
    read, cached, written = (
        int(timings.get(f"{n}_n") or 0) for n in ("prompt", "cache", "predicted")
    )
    reading, writing = (timings.get(f"{n}_ms") or 0 for n in ("prompt", "predicted"))
    return {
        "eval_count": written,
        "prompt_eval_count": read + cached,
        "eval_duration": int(writing * 1_000_000),
        "prompt_eval_duration": int(reading * 1_000_000),
        "cached_tokens": cached,
        "done_reason": last["finish_reason"],
        "context": {"status": "complete", "window": window, "prompt_tokens": read + cached},
    }
