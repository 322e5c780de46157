"""What was in force in a turn: each parameter with its value, and where that came from."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from ore.backends.model_options import OPTIONS

USER, ORE, MODEL, SERVER = "user", "ore", "model", "server default"
"""Where a parameter came from; None where nobody says."""

PARAMETERS = (
    *("temperature", "top_k", "top_p", "min_p", "typical_p", "repeat_penalty", "repeat_last_n"),
    *("presence_penalty", "frequency_penalty", "seed", "stop", "num_predict", "num_keep"),
)
"""What is listed for every turn, known or not; other options only where they were set."""

FACTS = ("threads", "batch_threads", "batch", "quantization", "parameter_count", "template_sha256")
"""What else is listed: threads that write and that read; the tokens of a batch; what the model is."""

_WINDOW = "num_ctx"
_LOADING = frozenset((_WINDOW, "num_batch", "num_gpu", "num_thread", "main_gpu", "use_mmap"))
_MOST_CHARACTERS, _LONGEST_FACT = 1 << 16, 48
_IN_FULL = " (`ORE.record()` lists all)"
_LARGE = re.compile(r"-?\d(?:\.\d{1,20})?e\+\d\d", re.ASCII)
"""How Ollama shows a number of seven digits and more, whole or not: ``1.234567e+06``."""


def effective(
    user: Mapping[str, Any],
    *,
    ore: Mapping[str, Any] | None = None,
    model: Mapping[str, Any] | None = None,
    server: Mapping[str, Any] | None = None,
    facts: Mapping[str, Any] | None = None,
    window: int | None = None,
) -> dict[str, Any]:
    """Return ``parameters``, each ``{"value", "from"}``, and ``FACTS``; what is not known is None.

    Args:
        user: The options that the user set.
        ore: Those that ORE sends where the user set none.
        model: Those that stand in the model's own file.
        server: The defaults of what runs it, as far as they are known; None where it is not even
            known whether they hold.
        facts: Some of ``FACTS``.
        window: The context window of the turn, in tokens, or None.
    """
    layers = ((USER, user), (ORE, ore or {}), (MODEL, model or {}))
    others = sorted({name for _, layer in layers for name in layer} - {*PARAMETERS, _WINDOW})
    found = {}
    for name in (*PARAMETERS, _WINDOW, *others):
        chosen = next(((where, each) for where, each in layers if name in each), None)
        origin, value = (chosen[0], chosen[1][name]) if chosen else (None, None)
        if origin is None and server is not None:
            origin, value = SERVER, server.get(name)
        found[name] = {"value": value, "from": origin}
    if window is not None:
        asked, origin = found[_WINDOW]["value"], found[_WINDOW]["from"]
        if asked != window:  # no model has more than it was made for
            origin = MODEL if type(asked) is int and window < asked else SERVER
        found[_WINDOW] = {"value": window, "from": origin}
    known = facts or {}
    return {"parameters": found, **{name: known.get(name) for name in FACTS}}


def without_sampling(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``effective`` takes, of a turn in which nothing is sampled: how the model is loaded."""
    kept = {
        layer: {name: value for name, value in (told.get(layer) or {}).items() if name in _LOADING}
        for layer in (USER, ORE, MODEL)
    }
    return {**told, **kept, "server": None}


def parameters_of(modelfile: object) -> dict[str, Any]:
    """Return the options that ``parameters`` of ``/api/show`` sets, by name.

    A line that is no option of ours is left out; ``stop`` is a list.
    """
    found: dict[str, Any] = {}
    text = modelfile[:_MOST_CHARACTERS] if isinstance(modelfile, str) else ""
    for line in text.split("\n"):
        name, _, written = line.strip().partition(" ")
        if name not in OPTIONS:
            continue
        try:
            value = OPTIONS[name][1](_unquoted(_digits(written.strip())))
        except (ValueError, KeyError):
            continue
        found[name] = [*found.get(name, []), value] if name == "stop" else value
    return found


def template_digest(template: object) -> str | None:
    """Return the SHA-256, in hexadecimal digits, of a chat ``template``; None where there is none."""
    if not isinstance(template, str) or not template:
        return None
    return sha256(template.encode("utf-8", "surrogatepass")).hexdigest()


def in_short(count: int | None) -> str | None:
    """Return the ``count`` of a model's parameters as Ollama writes it: ``"134.52M"``, ``"3.21B"``."""
    for size, letter in ((10**12, "T"), (10**9, "B"), (10**6, "M")):
        if count is not None and count >= size:
            return f"{count / size:.2f}".rstrip("0").rstrip(".") + letter
    return None if count is None else str(count)


def in_words(told: Mapping[str, Any], *, samples: bool) -> str:
    """Return what ``effective`` has ``told`` as one line for a person.

    What the user or the model chose comes first, with its value; defaults and unknowns are counted,
    but for those of sampling in a turn that ``samples`` no text.
    """
    known = {name: each for name, each in told["parameters"].items() if each["value"] is not None}
    chosen = [name for origin in (USER, MODEL) for name in known if known[name]["from"] == origin]
    said = [f"{name}={json.dumps(known[name]['value'])} ({known[name]['from']})" for name in chosen]
    facts = [f"{name}={told[name]}" for name in FACTS if told[name] is not None]
    said += [fact[:_LONGEST_FACT] for fact in facts]
    folded, unknown = len(known) - len(chosen), len(FACTS) - len(facts)
    unknown += sum(
        name not in known and (samples or name in _LOADING) for name in told["parameters"]
    )
    counts = [f"{folded} default{'s' * (folded != 1)}"] if folded else []
    counts += [f"{unknown} not known"] if unknown else []
    rest = " and ".join(counts)
    return (
        f"In force: {', '.join(said)}{' and ' * bool(said and rest)}{rest}{_IN_FULL * bool(rest)}."
    )


def _digits(text: str) -> str:
    """Return a text; one that Ollama made of a large whole number, as its digits."""
    is_whole = _LARGE.fullmatch(text) is not None and float(text).is_integer()
    return str(int(float(text))) if is_whole else text


def _unquoted(text: str) -> str:
    """Return a value as it is meant: texts are written with quotes, mostly as JSON does."""
    if len(text) < 2 or not text.startswith('"'):
        return text
    try:
        return str(json.loads(text))
    except ValueError:
        return text[1:-1]
