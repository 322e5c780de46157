"""Whether a server's model has read all of a prompt, and what strict context makes of that."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from ore.backends.address import Host
from ore.backends.effective import parameters_of
from ore.backends.go_template import RUNS_LLAMA_CPP, Version, without_place
from ore.backends.joining import fewer_read, not_read
from ore.backends.model_options import natural
from ore.backends.ollama_models import if_known, is_of_cloud, trained_window
from ore.backends.turn_errors import TurnFailedError, TurnTooLargeError
from ore.backends.window import Estimate, estimate, most_of, outcome
from ore.errors import BackendError, ContextTruncatedError
from ore.files.strictjson import part
from ore.types import Message

if TYPE_CHECKING:  # imported by the first turn
    from ollama import ChatResponse

_KEPT_SECONDS = (0.5, 2.0)  # the second where strict; what is silent is waited for once
_FAR_FEWER = 4  # a prompt of so many times fewer tokens than its text can have was not read whole
_FITS_ANY = 1500  # tokens that hardly any window is too small for
_LARGE = 1 << 15  # a window, in tokens
_FEW, _MOST_REFUSED = 4, 1 << 20  # messages, and bytes times messages, that are refused fast
_ROUNDED = 256  # what llama.cpp makes a window a multiple of

Refuses = Callable[[], bool | None]
"""Asked whether a server refuses a prompt that does not fit; None is not known."""
Show = Callable[[float], dict[str, Any]]
"""What ``/api/show`` says of a model, in so many seconds."""


@dataclass
class Reading:
    """How a server was asked to read a turn's prompt, and what it said to that.

    Attributes:
        texts: Those of the messages, in UTF-8.
        is_strict: It must not cut the prompt.
        asks: It is asked to refuse a prompt which does not fit.
        find_out: Asked whether it is one that does as it is asked.
        refuses: What it has answered to that, if anything.
        is_cut: It has refused, and was asked again, to cut the prompt.
    """

    texts: list[bytes]
    is_strict: bool
    asks: bool
    find_out: Refuses
    refuses: bool | None = None
    is_cut: bool = False

    def parts(
        self, ask: Callable[[bool], Generator[ChatResponse, None, None]]
    ) -> Generator[ChatResponse, None, None]:
        """Yield the parts of the answer; ``ask`` sends the turn, with whether it may be refused.

        A server refuses before its model reads anything, so that one call of the model is made.
        """
        is_begun = False
        try:
            with closing(ask(self.asks)) as parts:
                for part in parts:
                    is_begun = True
                    yield part
            return
        except ContextTruncatedError as exc:
            if self.is_strict:
                raise
            if is_begun:
                raise TurnTooLargeError(str(exc), host=exc.host) from exc.__cause__
        self.asks, self.refuses, self.is_cut = False, False, True
        yield from ask(False)


def reading_of(
    messages: list[Message],
    texts: list[bytes],
    num_ctx: int | None,
    is_strict: bool,
    refuses: Refuses,
    window: Callable[[list[bytes]], int | None],
) -> Reading:
    """Return how to ask a server to read ``messages`` in a window of ``num_ctx``.

    A short prompt, which fits most windows, may be refused for what its Modelfile adds: for it nothing
    is looked up. A server that does not know how to refuse takes no notice of being asked to.

    Args:
        texts: Those of the messages, in UTF-8.
        window: Asked for the window that the model is loaded with, where it would take the server long
            to refuse a conversation: one that has more tokens for sure is not sent to be refused. Another
            program may have loaded it with a smaller one.
    """
    images = sum(len(message.images) for message in messages)
    is_long = most_of(texts, images) >= min(num_ctx or _FITS_ANY, _FITS_ANY)
    found = refuses() if is_long else None
    is_slow = len(texts) > _FEW and len(texts) * sum(map(len, texts)) > _MOST_REFUSED
    if found and is_slow and not is_strict:
        size = num_ctx or max(window(texts) or most_of(texts, images), _LARGE)
        found = estimate(texts, images).least <= size
    return Reading(texts, is_strict, is_strict or found is not False, refuses, found)


def context_of(
    messages: list[Message],
    reading: Reading,
    window: int | None,
    counts: Mapping[str, Any],
    asked: Mapping[str, Any],
    version: Version,
    show: Show,
) -> dict[str, Any]:
    """Return whether ``messages`` fitted this ``window``, as ``window.outcome`` does.

    ``told_by`` is ``"server"`` where it has said so itself. ``left_out`` is the role of a message that
    the model's template has no place for, where that is why fewer tokens were counted than the prompt
    can have.
    """
    shown = cache(lambda: if_known(show, _KEPT_SECONDS[reading.is_strict]) or {})
    numbers = cache(version)

    @cache
    def is_refusing() -> bool:
        known = reading.refuses
        if not (reading.asks and (reading.find_out() if known is None else known)):
            return False
        return not shown().get("remote_host")  # another server reads the prompt

    def judged(messages: list[Message], texts: list[bytes], share: int = 1) -> dict[str, Any]:
        images, is_first = sum(len(message.images) for message in messages), len(messages) == 1
        size = estimate(texts, images)
        return outcome(
            replace(size, least=size.least // share),
            window,
            counts["prompt_eval_count"],
            counts["eval_count"],
            before=most_of(texts[:-1], 0 if is_first else images),  # whoever cuts counts otherwise
            refuses=is_refusing,
            own=lambda: _own_of(asked, shown(), is_bare),
            may_add=is_bare,
            room=lambda: _room(window or 0, shown, numbers),
        )

    is_bare = [each.role for each in messages[:1]] != ["system"]  # else the Modelfile's is not read
    found = judged(messages, texts := reading.texts)
    if reading.is_cut:
        return {**found, "status": "truncated", "told_by": "server"}
    if found["status"] == "complete" and (reading.refuses or reading.is_strict):
        if (lost := _placed(messages, shown, numbers)[0]) is not None:  # too short to be counted
            return {**found, "status": "truncated", "left_out": lost.role}
        if reading.refuses and is_refusing():
            return {**found, "told_by": "server"}
    if found["status"] == "unknown" and found["prompt_tokens"] and not window and is_refusing():
        return {**found, "status": "complete", "told_by": "server"}  # the model was unloaded since
    if found["status"] != "truncated":
        return found
    lost, rest = _placed(messages, shown)
    if lost is None:
        # A text can have fewer tokens than usual: the server's word is worth more, up to a point.
        again = judged(messages, texts, _FAR_FEWER) if is_refusing() else found
        return {**again, "told_by": "server"} if again["status"] == "complete" else found
    left = judged([messages[at] for at in rest], [texts[at] for at in rest])
    return found if left["status"] == "truncated" else {**found, "left_out": lost.role}


def _placed(
    messages: list[Message], shown: Callable[[], dict[str, Any]], version: Version = tuple
) -> tuple[Message | None, list[int]]:
    """Return the first message that the model's template has no place for, and where the others stand.

    The template, which may take long to read, is read once for a role. Without a ``version`` (as for
    ``without_place``) the one that is shown is taken for it: the count says that something is missing.
    """
    of_role = {each.role: each for each in messages}
    lost = None if {*of_role} == {"user"} else without_place(shown(), messages, version)
    if lost is None:
        return None, []
    gone = {role for role, each in of_role.items() if without_place(shown(), [each])}
    return lost, [at for at, each in enumerate(messages) if each.role not in gone]


def does_refuse(ask: Callable[[dict[str, Any]], object], model: str) -> bool | None:
    """Return whether a server knows ``truncate`` where a turn arrives (a proxy may drop it), or None.

    What is sent can't be read as a turn; Ollama names the first thing that it can't read. If that is the
    messages, a proxy may have sorted the keys: then what is odd is ``truncate`` alone, and no model is named.
    """
    if is_of_cloud(model):  # another server reads the prompt
        return None
    odd: dict[str, Any] = {"truncate": "?", "model": model, "messages": 1}
    for question in (odd, {**odd, "model": "", "messages": []}):
        try:
            ask(question)
            return False
        except TurnFailedError as exc:
            if "ChatRequest.messages " not in (said := str(exc)):
                return "ChatRequest.truncate " in said
        except BackendError as exc:  # another's says that nobody has read it
            return False if "model is required" in str(exc) else None
    return False


def _room(size: int, shown: Callable[[], dict[str, Any]], version: Version) -> int:
    """Return how many tokens a model really has room for, in a window that is said to be of a size.

    Only a prompt is held against the size itself: see ``window.half_counts``.
    """
    rounded = -(-size // _ROUNDED) * _ROUNDED
    if rounded == size or version() < RUNS_LLAMA_CPP:
        return size
    is_gguf = part(shown(), "details").get("format") == "gguf"
    return min(rounded, trained_window(shown()) or size) if is_gguf else size


def _own_of(
    asked: Mapping[str, Any], shown: Mapping[str, Any], with_system: bool
) -> tuple[int | None, Estimate]:
    """Return ``num_keep`` as what is ``asked`` sets it, else the model's own, or None.

    With it comes how large the messages of its Modelfile are, ``with_system`` its system prompt too.
    """
    options = asked.get("options") or {}
    if "num_keep" not in options:
        options = parameters_of(shown.get("parameters"))
    own = shown.get("messages")
    messages = own if isinstance(own, list) else []
    said = (each.get("content") for each in messages if isinstance(each, dict))
    every = (shown.get("system") if with_system else None, *said)
    texts = (each.encode("utf-8", "replace") for each in every if isinstance(each, str) and each)
    return natural(options, "num_keep"), estimate(texts)


def check_context(host: Host, context: dict[str, Any], partial: str) -> None:
    """Raise what strict context asks for: the prompt was cut, or nobody knows whether it was.

    Args:
        context: What ``context_of``, or ``ore.backends.window.outcome``, found.
        partial: The answer.
    """
    status, window, why = context["status"], context["window"], None
    if role := context.get("left_out"):
        why = f"{not_read(role)}, or use another model."
    elif status == "truncated" and not window:
        why = (
            f"{fewer_read(context['prompt_tokens'])}: shorten it, give the model a larger window, or send "
            f"no system prompt (`system_prompt=''`)."
        )
    elif status == "truncated":
        why = (
            f"The prompt and its answer did not fit the context window of {window} tokens, and a part "
            f"was left out: shorten the prompt, or give the model a larger window."
        )
    elif status == "unknown":
        for_what = f"it may have more than the {window} tokens of the window: shorten it"
        if not context["prompt_tokens"]:
            for_what = "the server did not say how many tokens it read: use one that does"
        elif not window:
            for_what = "the server does not say how large its context window is: use one that does"
        why = (
            f"It is not known whether all of the prompt was read, because {for_what}, or leave "
            f"`strict_context=` out."
        )
    if why is not None:
        raise ContextTruncatedError(why, host=host.url, partial=partial)
