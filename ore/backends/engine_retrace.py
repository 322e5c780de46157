"""A recorded answer followed token by token: where would the model have gone on otherwise?

The model answers greedily, with the options of the recorded turn. Where its token is not the text's,
it is asked by how much it preferred its own, and is put back onto the text.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from ore.backends.llama_score import ONE_LETTER, Asking
from ore.backends.llama_tokens import tokens_of
from ore.errors import CapabilityError
from ore.files.neutral import one_line

_NOT_SENT = ("max_tokens", "stop", "response_format", "chat_template_kwargs", "reasoning_format")
"""What is asked of a turn and not here: where it ends is the text's business."""

_ALTERNATIVES = 1000
"""How many of the model's likeliest tokens the text's is looked for among."""
_DRAWS = 4
"""How often another token is drawn where the engine is silent of one."""
_FIRST_PART = 16
"""How many tokens are asked for at first, then twice as many: to stop the engine in the middle may take
long on a busy machine."""
_UNSHAPED = {"temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0, "typical_p": 1}
"""With these a token is as likely as the model and the penalties make it."""


@dataclass(frozen=True)
class Departure:
    """A place where the model would not have gone on as a text does.

    Attributes:
        at: Where, in characters.
        said: What the text has there, as long as one token; empty at its end.
        instead: What the model would have said; empty where it would have ended.
        gap: By how many nats it preferred that, with the penalties that were in force.
        is_bound: Whether the gap is at least so large: the text's token is not among the likeliest.
    """

    at: int
    said: str
    instead: str
    gap: float
    is_bound: bool = False


@dataclass(frozen=True)
class _Token:
    """A token of the model's: its number, what it stands for, and how likely it is."""

    number: int
    data: bytes
    logprob: float


@dataclass(frozen=True)
class _Retracing:
    """What is asked beside the tokens: the options of the recorded turn, by the engine's names."""

    asking: Asking
    options: Mapping[str, Any]

    def events(self, tokens: list[int], **more: Any) -> Generator[dict[str, Any]]:
        """Yield what the engine says after the prompt and these tokens, up to its last word."""
        asking = self.asking
        prompt = [*asking.prompt, *tokens]
        request = {**self.options, "prompt": prompt, "return_tokens": True, **more}
        events = asking.engine.events(
            request, silence=asking.silence, deadline=asking.deadline, path="/completion"
        )
        with closing(events):
            for event in events:
                if "prompt_progress" not in event:
                    yield event
                if event.get("stop"):
                    return


def retraced(
    asking: Asking, request: Mapping[str, Any], text: str, was_cut: bool, most: float
) -> list[Departure]:
    """Return the places where the model would have departed from ``text``, from its beginning on.

    Args:
        request: What the recorded turn sent besides its messages.
        text: The answer.
        was_cut: Whether a limit cut it off: ``num_predict``, or the window.
        most: The first place with a larger gap, in nats, is the last one that is looked for.

    Raises:
        CapabilityError: The engine does not say by which tokens the model went on.
        BackendError: The engine failed; see ``Engine.events``.
    """
    longest, room = request["max_tokens"], asking.engine.window - len(asking.prompt)
    limit = (room if longest < 0 else min(longest, room)) if was_cut else None
    options = {name: value for name, value in request.items() if name not in _NOT_SENT}
    retracing, whole = _Retracing(asking, options), text.encode()
    found: list[Departure] = []
    followed, done, ended = _follow(retracing, [], whole, 0, limit)
    while not ended:
        departure, forced = _departure(retracing, followed, whole, done)
        found.append(departure)
        if forced is None or departure.gap > most:
            break
        followed, done = [*followed, forced.number], done + len(forced.data)
        followed, done, ended = _follow(retracing, followed, whole, done, limit)
    return found


def _follow(
    retracing: _Retracing, followed: list[int], whole: bytes, done: int, limit: int | None
) -> tuple[list[int], int, bool]:
    """Let the model go on as long as it says what the text says.

    Returns:
        The tokens up to there, the bytes, and whether the text is all that the model says.
    """
    size = _FIRST_PART
    while True:
        left = len(whole) - done + 1 if limit is None else limit - len(followed)
        if left <= 0:
            return followed, done, done == len(whole)
        count, size = min(size, left), size * 2
        written, how, is_the_text = 0, "", True
        for event in retracing.events(followed, n_predict=count, cache_prompt=bool(followed)):
            fresh, written = event["tokens_predicted"] - written, event["tokens_predicted"]
            if event["stop"]:
                how = event["stop_type"]
            elif is_the_text and event["content"]:  # else it is the end
                said = event["content"].encode()
                is_the_text = whole.startswith(said, done)
                if is_the_text:
                    followed = [*followed, *_numbers(retracing.asking, event, fresh)]
                    done += len(said)
        if not is_the_text:
            return followed, done, False
        if how != "limit" or not written == count < left:
            return followed, done, done == len(whole) and (how != "limit" or limit is not None)


def _numbers(asking: Asking, event: dict[str, Any], fresh: int) -> list[int]:
    """Return the tokens of what was said since the last event: the engine leaves parts of characters out."""
    found: list[int] = event["tokens"]
    if len(found) == fresh:
        return found
    found = [
        each
        for each, _ in tokens_of(asking.engine, event["content"], asking.deadline, is_prompt=False)
    ]
    if len(found) != fresh:
        raise CapabilityError(
            f"The engine does not say which tokens {one_line(event['content'])!r} is made "
            f"of, so the answer can't be followed any further."
        )
    return found


def _departure(
    retracing: _Retracing, followed: list[int], whole: bytes, done: int
) -> tuple[Departure, _Token | None]:
    """Return by how much the model prefers its own token, and the text's, None where it is unlikely."""
    likeliest, left = _likeliest(retracing, followed), whole[done:]
    fits = [each for each in likeliest if _begins(left, each.data)]
    forced = max(fits, key=lambda each: each.logprob, default=None)
    own = likeliest[0]
    gap = own.logprob - (forced or likeliest[-1]).logprob
    said = left[: len(forced.data)] if forced else left[:1]
    at = len(_text(whole[:done]))
    found = Departure(at, _text(said), _text(own.data), max(gap, 0.0), forced is None)
    return found, forced if left else None


def _likeliest(retracing: _Retracing, followed: list[int]) -> list[_Token]:
    """Return the tokens that the model may go on with, the likeliest first.

    The engine is silent of a token that begins a character and does not end it: then another one is
    drawn, and in the end one is forced, of which it says how likely it is without the penalties.
    """
    asked = {**_UNSHAPED, "n_predict": 1, "cache_prompt": True, "n_probs": _ALTERNATIVES}
    shapes: list[dict[str, Any]] = [{"post_sampling_probs": True, "seed": n} for n in range(_DRAWS)]
    for shape in (*shapes, {"grammar": ONE_LETTER}):
        for event in retracing.events(followed, **asked, **shape):
            for entry in event.get("completion_probabilities") or ():
                if "top_logprobs" in entry:
                    pairs = [(each, each["logprob"]) for each in entry["top_logprobs"]]
                else:
                    likely = [each for each in entry["top_probs"] if each["prob"] > 0]
                    pairs = [(each, math.log(each["prob"])) for each in likely]
                return [_Token(each["id"], bytes(each["bytes"]), value) for each, value in pairs]
    raise LookupError("no token is said to be likely")


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _begins(text: bytes, token: bytes) -> bool:
    """Whether a text can go on with a token, the end of the answer where nothing is left of it."""
    return text.startswith(token) and bool(token) if text else not token
