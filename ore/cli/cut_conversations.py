"""Whether a server cut a conversation: what the counts of its earlier prompts tell."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import NamedTuple

from ore.backends.window import LARGER_WINDOW, estimate, most_of
from ore.cli.runs import Run
from ore.files.strictjson import above_zero
from ore.glass.limits import fit_of
from ore.types import Message, Response
from ore.types.sent import sent_with

_ONE_TURN = 2
"""The messages of a session of one turn."""


class Compared(NamedTuple):
    """What the counts of earlier prompts tell of a conversation's prompt.

    Attributes:
        is_known: Whether there is one that it can be compared with.
        cut: The sentence that the prompt was cut, or None.
    """

    is_known: bool = False
    cut: str | None = None


def compare_counts(run: Run, response: Response) -> Compared:
    """Compare a prompt with what it goes on from and adds; in the response, one that has less is truncated."""
    fit = fit_of(response)
    tokens = fit.get("prompt_tokens", 0)
    if run.conversation.session is None or not tokens or not _may_be_cut(run, response):
        return Compared()
    most, added, at_most = _longest_prompt(run, response, _beside_conversation(response))
    at_most += most_of((), len(run.asked.images))
    # Where even all of it fits, the model is made otherwise by now: it adds less itself.
    fits = fit["status"] == "complete" and most + at_most < fit.get("window", 0)
    if tokens >= most + added or fits:
        return Compared(most > 0)
    response.metadata["context"] = {**response.metadata["context"], "status": "truncated"}
    more = f", and what this one adds to it has {added} at least" if added else ""
    cut = (
        f"The server counted {tokens} tokens. An earlier prompt, which this one goes on from, had "
        f"{most}{more}: the model has not seen all of the conversation. Go on with a larger window "
        f"({run.console.said(LARGER_WINDOW)}), or in another conversation."
    )
    return Compared(True, cut)


def _may_be_cut(run: Run, response: Response) -> bool:
    """Whether nobody knows if the prompt was cut, or a server was taken to have read all of one for
    which the window may be too small: a text can have more tokens than it usually has.
    """
    fit, sent = fit_of(response), sent_with(response)
    if fit.get("told_by") == "server":
        return False
    if fit.get("status") != "complete" or sent is None or run.backend.name == "embedded":
        return fit.get("status") == "unknown"
    texts = [each.content.encode("utf-8", "surrogatepass") for each in sent.messages]
    return bool(most_of(texts, 0) >= fit.get("window", 0))


def tell_of_cut(run: Run, response: Response, found: Compared) -> None:
    """Say what was found of a conversation's prompt, and note how many tokens it has."""
    fit, conversation = fit_of(response), run.conversation
    tokens = fit.get("prompt_tokens", 0)
    if not tokens:
        return
    if conversation.session is not None and not run.asked.images:  # which later prompts do not have
        made_of = _made_of(run, response, _beside_conversation(response))
        if (error := conversation.note_size(tokens, made_of)) is not None:
            run.console.warning(str(error))
    if found.cut is not None:
        run.console.warning(found.cut)
    elif fit.get("status") == "unknown" and not found.is_known and fit.get("window"):
        _tell_of_doubt(run, response)


def _tell_of_doubt(run: Run, response: Response) -> None:
    """Say of a single turn that nothing tells of a cut; of a conversation that no earlier prompt does,
    once for a model, and what it is asked with.
    """
    fit, written = fit_of(response), above_zero(response.metadata.get("eval_count")) or 0
    if fit["prompt_tokens"] + written > fit["window"]:  # which is said
        return
    if run.conversation.length <= _ONE_TURN:
        run.console.notice(
            f"It is not known whether the model has seen all of the prompt, which may have more tokens "
            f"than the window of {fit['window']}: what stands first, such as a system prompt or a file, may "
            f"have been left out. Shorten it, or give the model a larger window "
            f"({run.console.said(LARGER_WINDOW)})."
        )
        return
    made_of, doubted = _made_of(run, response, ()), run.conversation.doubted
    if made_of not in doubted:
        doubted.add(made_of)
        run.console.notice(
            f"It is not known whether the model has seen all of the conversation, which may have more "
            f"tokens than the window of {fit['window']}: no earlier prompt can be compared "
            f"with this one. Go on with a larger window ({run.console.said(LARGER_WINDOW)}), or in "
            f"another conversation."
        )


def _longest_prompt(
    run: Run, response: Response, beside: Sequence[Message]
) -> tuple[int, int, int]:
    """Return the tokens of an earlier prompt that this one has all of, and how many it adds: at least
    and at most.

    It had the same ``beside`` the conversation, or nothing. Without a system prompt a skill may be
    read in the place of the model's own, so that a prompt with one has not all of one without.
    """
    longest = run.conversation.longest_prompt
    most, added, at_most = longest(_made_of(run, response, beside))
    if beside and (run.asked.system_prompt or all(each.role != "system" for each in beside)):
        alone, least, since = longest(_made_of(run, response, ()))
        size = estimate(each.content.encode("utf-8", "surrogatepass") for each in beside)
        if alone and alone + least + size.least > most + added:
            return alone, least + size.least, since + size.most
    return most, added, at_most


def _beside_conversation(response: Response) -> Sequence[Message]:
    """Return what a turn sent between its system prompt and its conversation: skills, tools, a run."""
    sent = sent_with(response)
    if sent is None:
        return ()
    return sent.messages[bool(sent.system_prompt) : -1 - (sent.earlier or 0)]


def _made_of(run: Run, response: Response, beside: Sequence[Message]) -> str:
    """Return a hash of what a prompt has beside its messages, and of what counts its tokens."""
    asked, settings = run.asked, run.asked.settings
    answered = str(response.metadata.get("response_model") or response.model_id)
    model = answered.removesuffix(":latest")
    more: list[object] = [settings.think, settings.format, settings.choices]
    more += [settings.chat_template, *([each.role, each.content] for each in beside)]
    text = json.dumps([run.backend.name, model, asked.system_prompt, *more], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
