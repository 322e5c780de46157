"""What an Ollama server says of its models: how large they are, and what they can do."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import filterfalse, islice, pairwise
from typing import Any

from ore.backends import Model, by_choice, failures, is_preferred
from ore.backends.address import Host, ollama_authorization, text_without_key
from ore.backends.answer import COUNTS, count, known_count
from ore.backends.effective import parameters_of, template_digest
from ore.backends.go_template import Version, arriving, has_renderer, is_bare, without_place
from ore.backends.http import Deadline, shorten
from ore.backends.joining import joined
from ore.backends.look_ups import KNOWN_SECONDS, time_for
from ore.backends.model_names import can_be_sent, checked_models, holds_login
from ore.backends.model_options import natural
from ore.backends.window import find_model
from ore.errors import BackendError, BackendTimeoutError, OreError
from ore.files.neutral import word
from ore.files.strictjson import above_zero, part
from ore.types import Message

_MOST_ASKED = 200
"""Of how many models a server that lists little is asked for more."""
_LONGEST = 10.0
"""Seconds: when no further model is asked about."""
_MOST_ABLE, _LONGEST_ABLE = 50, 100
"""How many words are kept of what a model can do, and their letters: there are less than ten words."""
_MOST_LOADED = 4
"""How many loaded models are looked at for the weights of another."""
_LEAST_TO_SEE = 2048
"""Tokens: what Ollama gives every model that looks at images, whatever is asked for."""

_GIVEN_MORE = ("gptoss", "gpt-oss", "qwen3vl", "qwen3vlmoe")
"""Families that Ollama gives 8,192 tokens at least, where there is memory: ``scheduleRunner``."""

_WEIGHTS = re.compile(r"^FROM .*sha256[-:]([0-9a-f]{64})$", re.MULTILINE)

Entry = dict[str, Any]


def if_known(question: Callable[[float], Any], seconds: float = KNOWN_SECONDS) -> Any:
    """Return the answer to a question, or None where there is none in time."""
    try:
        return question(time_for(seconds))
    except OreError:
        return None


def all_known(*questions: Callable[[float], Any]) -> list[Any]:
    """Return the answer to each question, or None; they take no longer than one may."""
    ends = Deadline(KNOWN_SECONDS)
    return [if_known(question, ends.within(KNOWN_SECONDS).seconds) for question in questions]


def described(
    known: Mapping[str, Entry], show: Callable[[str], Entry], whole: bool = False
) -> list[Model]:
    """Return the models that ``/api/tags`` lists; what it leaves out is asked of ``show``.

    Servers before 0.33 list neither a window nor what a model can do, and none lists a template,
    which is asked for where the ``whole`` is wanted.
    """
    ask = _bounded(show)
    return [_described(name, entry, ask, whole) for name, entry in known.items()]


def default_of(
    known: Mapping[str, Entry],
    show: Callable[[str], Entry],
    untold: BackendTimeoutError | None = None,
) -> str | None:
    """Return ``choose_default``'s choice among the models that answer prompts, or None.

    One that runs elsewhere, as in Ollama's cloud, is never chosen: what is asked of it leaves the machine.
    Its entry says so, or its name, where something between drops that.
    Of several, neither is one of which it was not said in time what it can do, unless it is preferred.
    One whose name holds a login is passed over, for no turn may be asked of it.

    Args:
        untold: Raised where none is chosen and what some can do was not said in time.
    """
    left = {
        n: each for n, each in known.items() if not each.get("remote_host") and not is_of_cloud(n)
    }
    is_only, late, ask = len(left) == 1, set[str](), _bounded(show)

    def asked(name: str) -> Entry:
        try:
            return ask(name)
        except BackendTimeoutError:
            late.add(name)
            raise

    for name in islice(filterfalse(holds_login, by_choice(list(left))), _MOST_ASKED):
        model = _described(name, left[name], asked)
        is_known = model.capabilities is not None or name not in late
        if model.can_answer and (is_known or is_only or is_preferred(name)):
            return name
    if late and untold is not None:
        raise untold
    return None


def trained_window(shown: Entry) -> int | None:
    """Return the largest context, in tokens, that a model knows, as ``/api/show`` reports it."""
    facts = part(shown, "model_info")
    return known_count(facts.get(f"{facts.get('general.architecture')}.context_length")) or None


def given_window(wanted: int, shown: Entry) -> int:
    """Return the window, in tokens, that a server gives a model where so many are wanted.

    It is never more than the model was trained with, and has room for an image if it can see one.
    """
    able = shown.get("capabilities")
    sees = isinstance(able, list) and "vision" in able
    given = max(wanted, _LEAST_TO_SEE) if sees else wanted
    return min(given, trained_window(shown) or given)


def may_have_more(shown: Entry) -> bool:
    """Return whether a server may give a model more than is asked for, as only ``/api/ps`` tells."""
    return part(shown, "details").get("family") in _GIVEN_MORE


def to_arrive(
    show: Callable[[float], Entry], version: Version, messages: list[Message]
) -> tuple[list[Message], list[list[int]] | None]:
    """Return what is to be sent; the server is asked only where two neighbours have one role."""
    if all(before.role != after.role for before, after in pairwise(messages)):
        return messages, None
    return arriving(if_known(show) or {}, messages, version)


def prompt_facts(
    shown: Entry | None,
    window: int | None,
    messages: list[Message],
    is_set: bool,
    joins: bool,
    version: Version = tuple,
) -> dict[str, Any]:
    """Return what is known of a model's prompt: see ``Backend.prompt_facts``.

    Args:
        shown: What ``/api/show`` says of the model, None where it says nothing.
        window: The context window in tokens that was asked for, or that a loaded model has.
        is_set: Whether it was asked for; else the model's own comes before it.
        joins: Whether messages are joined where the template would lose one.
        version: As for ``without_place``.

    Raises:
        BackendError: The template has no place for a message of a turn that has to be joined.
    """
    if shown is None:
        return {"window": window, "why": "The server does not say what it knows of the model."}
    template, parameters = _text(shown.get("template")), _text(shown.get("parameters"))
    own = natural(parameters_of(parameters), "num_ctx")
    if own and not (window and is_set):  # another may have loaded the model with its own
        window = own
    has_neighbours = joined(messages)[1] is not None
    return {
        "window": given_window(window, shown) if window else None,
        "template": template,
        "parameters": parameters,
        "groups": arriving(shown, messages, version)[1] if joins and has_neighbours else None,
        "notes": tuple(_notes(shown, messages, version)),
        "why": "An Ollama server does not show the prompt that it makes of the messages, or count it.",
    }


def _notes(shown: Entry, messages: list[Message], version: Version) -> Iterator[str]:
    """Yield what a model reads besides the messages, or does not read of them, in sentences."""
    if (lost := without_place(shown, messages, version)) is not None:
        yield f"The model's chat template has no place for a message of the role '{lost.role}'."
    if _text(shown.get("system")) and messages[0].role != "system":
        text = shorten(shown["system"])
        yield f"The model reads the system prompt of its Modelfile: {text!r}."
    if isinstance(own := shown.get("messages"), list) and own:
        yield f"The model reads messages of its Modelfile before these: {len(own)}."
    if is_bare(shown, version):
        yield (
            "The model has no chat template, perhaps because it was not trained to chat: it "
            "is sent the text of the prompt alone."
        )


def told_at_the_end(last: Any, asked: str, url: str) -> dict[str, Any]:
    """Return what the last part of an answer says: counts, durations, and why it is the last.

    Args:
        asked: The model that was asked; with another one's name ``response_model`` is returned.
        url: The server's; the key that goes there is kept in no name that it gives.
    """
    key = ollama_authorization(url)
    is_other = last.model and find_model([{"name": last.model}], asked) is None
    also = {
        "total_duration": known_count(last.total_duration),
        "load_duration": known_count(last.load_duration),
        "done_reason": last.done_reason,
        "response_model": shorten(last.model) if is_other else None,
    }
    counts = {name: count(getattr(last, name)) for name in COUNTS}
    for name in ("done_reason", "response_model"):
        if also[name]:
            also[name] = text_without_key(also[name], key)
    return counts | {name: value for name, value in also.items() if value is not None}


def entries_of(host: Host, value: Entry) -> list[Entry]:
    """Return the models that a server's answer lists, but for those whose names can't be sent back."""
    models = value.get("models")
    models = [] if models is None else models  # on its way through some servers it becomes null
    if not isinstance(models, list) or not all(isinstance(entry, dict) for entry in models):
        raise failures.protocol_error(host, "it gives no list of models", failures.OLLAMA)
    try:
        listed = checked_models(models)
    except ValueError as exc:
        raise failures.protocol_error(host, str(exc), failures.OLLAMA) from exc
    return [each for each in listed if all(map(can_be_sent, map(each.get, ("name", "model"))))]


def is_of_cloud(model: str) -> bool:
    """Whether a model's tag says that it runs in Ollama's cloud."""
    last = model.lower().rpartition("/")[2]
    return ":" in last and last.endswith((":cloud", "-cloud"))


def weights_of(shown: Entry) -> str | None:
    """Return the SHA-256 of a model's weights, as ``/api/show`` names their file, or None."""
    found = _WEIGHTS.search(str(shown.get("modelfile")))
    return found[1] if found else None


def of_same_weights(running: list[Entry], model: str, show: Callable[[str], Entry]) -> Entry | None:
    """Return which of the loaded models has the weights of ``model``, or None."""
    weights = weights_of(show(model))
    if weights is None:
        return None
    names = ((str(each.get("name")), each) for each in running[:_MOST_LOADED])
    return next((each for name, each in names if weights_of(show(name)) == weights), None)


def numbers_of(version: str | None) -> tuple[int, ...]:
    """Return the numbers of a version, to be compared; none where they are not known."""
    found = re.match(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})", version or "")
    return tuple(map(int, found.groups())) if found else ()


def in_force(shown: Entry | None, user: Mapping[str, Any]) -> Entry:
    """Return what ``effective`` takes of a turn, as ``/api/show`` says it, if it does."""
    if not shown:
        return {}
    info, details = part(shown, "model_info"), part(shown, "details")
    model = parameters_of(shown.get("parameters"))
    is_set = {**model, **user}
    facts = {
        "threads": is_set.get("num_thread"),
        "batch": is_set.get("num_batch"),
        "quantization": word(details.get("quantization_level")),
        "parameter_count": above_zero(info.get("general.parameter_count")),
        "template_sha256": None if has_renderer(shown) else template_digest(shown.get("template")),
    }
    return {"model": model, "server": {}, "facts": facts}


def _described(name: str, entry: Entry, show: Callable[[str], Entry], whole: bool = False) -> Model:
    details = part(entry, "details")
    able, window = entry.get("capabilities"), above_zero(details.get("context_length"))
    shown: Entry = {}
    if whole or not isinstance(able, list) or window is None:
        with suppress(BackendError):
            shown = show(name)
        able = able if isinstance(able, list) else shown.get("capabilities")
        window = window or trained_window(shown)
    words = able[:_MOST_ABLE] if isinstance(able, list) else []
    texts = tuple(each for each in words if isinstance(each, str) and len(each) < _LONGEST_ABLE)
    return Model(
        name,
        size=above_zero(entry.get("size")),
        parameters=_text(details.get("parameter_size")),
        quantization=_text(details.get("quantization_level")),
        window=window,
        capabilities=texts if isinstance(able, list) else None,
        digest=_text(entry.get("digest")),
        template_sha256=template_digest(shown.get("template")),
    )


def _bounded(show: Callable[[str], Entry]) -> Callable[[str], Entry]:
    """Return a ``show`` that knows nothing any more after so many questions, or so long."""
    end, left = time.monotonic() + _LONGEST, iter(range(_MOST_ASKED))

    def ask(name: str) -> Entry:
        may_ask = next(left, None) is not None and time.monotonic() < end
        if not may_ask:
            raise BackendTimeoutError("no more is asked of the models")
        return show(name)

    return ask


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
