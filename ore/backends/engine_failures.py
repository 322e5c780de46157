"""What goes wrong in a turn of the embedded engine, in our sentences."""

from __future__ import annotations

import json
import re
import signal
from contextlib import suppress
from pathlib import Path

from ore.backends.http import Deadline, TooLarge, shorten
from ore.backends.load_failures import KILLED, UNREAD, out_of_time, shortage
from ore.backends.turn_errors import TurnFailedError, TurnRefusedError
from ore.errors import (
    BackendError,
    BackendTimeoutError,
    ContextTruncatedError,
    IncompleteAnswerError,
)
from ore.files.neutral import one_line

OTHER_MODEL = "use another model"
"""What may help where the model's file, or its template, may be what fails."""
_LONG_RUN = (
    "Or the prompt has a run that is too long for its tokenizer, such as 20,000 letters without a "
    "break: break it up"
)
"""The tokenizers of many healthy models go as deep as a run of letters, signs or blanks is long."""
_LONG_BYTES = 20_000


def refusal_error(body: bytes, remedy: str = OTHER_MODEL) -> BackendError:
    """Return the error for a request that the engine refused with ``body``.

    Args:
        remedy: What may be done in the place of another prompt.
    """
    said, is_of_schema = "", False
    with suppress(ValueError, AttributeError, TypeError):
        answer = json.loads(body)
        why = answer.get("error", answer)
        said = _last_line(why.get("message") or "")
        is_of_schema = "JSON schema conversion failed" in str(why.get("message"))
        if "n_prompt_tokens" in why:
            return ContextTruncatedError(
                f"The prompt has {why['n_prompt_tokens']} tokens and the model's window holds "
                f"{why.get('n_ctx')}: nothing was sent to the model. Shorten it, or raise the "
                f"window with `options['num_ctx']`."
            )
    change = f"Change the prompt, or {remedy}"
    if "Field '" in said or "samplers" in said:
        change = f"Change the option, or {OTHER_MODEL}"
    # The engine's samplers are made of a schema.
    if is_of_schema or re.search("grammar|JSON schema|min_value", said):
        change = f"Simplify the schema, or {OTHER_MODEL}"
    error = TurnRefusedError(f"The embedded engine refused the turn{said}. {change}.")
    error.said = said
    return error


def system_refused_error(said: str, *, has_given_template: bool) -> TurnRefusedError:
    """Return the error for a template that takes the messages without the system messages only.

    Args:
        said: The template's own words after a colon, or nothing.
        has_given_template: Whether it was given in the place of the model's own.
    """
    whose = "The model's"
    other = "give it another template (`chat_template=`), or use another model"
    if has_given_template:
        whose, other = "The", "correct the chat template, or leave `chat_template=` out"
    return TurnRefusedError(
        f"{whose} chat template refuses messages of the role 'system'{said}. So the model was "
        f"not asked: leave the system prompt and the skills out (`system_prompt=''`), {other}."
    )


def _last_line(text: str) -> str:
    """Return the last line of what the engine says, where it gives its reason, after a colon."""
    line = text.strip().rpartition("\n")[2]
    reason = one_line(shorten(line.removeprefix("Error: ").removeprefix("Jinja Exception: ")))
    return f": {reason}" if reason else ""


def closed_error() -> IncompleteAnswerError:
    """Return the error for an answer that ended early, and nobody knows why."""
    return IncompleteAnswerError(
        "The embedded engine stopped before the answer was complete: nothing was kept of this "
        "turn; try again."
    )


def uncounted_error(seconds: float) -> TurnFailedError:
    """Return the error for a prompt whose tokens took more than so many ``seconds`` to count."""
    return TurnFailedError(
        f"The embedded engine did not count the tokens in {seconds:g} seconds and was ended: "
        f"shorten the prompt."
    )


def too_large_error(exc: TooLarge) -> BackendError:
    """Return the error for an answer of more bytes than are accepted, or for a token of it."""
    what, step = "The answer", "ask for less"
    if exc.what == "an event":  # no prompt makes a token shorter
        what, step = "What comes of one token of the answer", OTHER_MODEL
    return BackendError(
        f"{what} is larger than {exc.limit:,} bytes, so the answer was stopped: nothing was kept of "
        f"this turn; {step}."
    )


def crash_error(
    path: Path,
    log: str,
    ended: str,
    memory: int,
    *,
    has_given_template: bool = False,
    unread: int = 0,
) -> BackendError:
    """Return the error for an engine that ended by itself in a turn.

    Args:
        path: The model's file.
        log: What the engine wrote: what it lacked, or nothing of use.
        ended: How its process ended, in a few words.
        memory: How many bytes it might have had.
        has_given_template: Whether a chat template took the place of the file's own, and was being used.
        unread: How many bytes it had been sent, where it had not begun to answer.
    """
    suspect = f"{path} or the chat template" if has_given_template else str(path)
    why = f"its process was killed, or {suspect} is damaged or made to do harm"
    if ended == signal.SIGSEGV.name and unread > _LONG_BYTES:
        why = f"{why}. {_LONG_RUN}"
    elif ended == signal.SIGBUS.name:
        why = f"it could not read all of {path}. {UNREAD}"
    elif ended == signal.SIGKILL.name:  # no file and no template can bring that about
        why = f"its {KILLED.format(signal='')}"
    why = shortage(log, memory) or out_of_time(ended) or why
    kind = TurnFailedError if has_given_template else IncompleteAnswerError
    return kind(
        f"The embedded engine ended in the middle of the turn ({ended}): nothing was kept of it. "
        f"{why[0].upper()}{why[1:]}."
    )


def timeout_error(
    silence: float | None,
    deadline: Deadline,
    kind: type[BackendTimeoutError] = BackendTimeoutError,
) -> BackendTimeoutError:
    """Return the error for a turn in which the ``deadline`` passed, or ``silence`` in seconds.

    Args:
        kind: ``TurnTookLongError`` where it was the turn that took long, and not the model's file.
    """
    what, flag = "The turn took longer than its deadline allows", "`deadline=`"
    if not deadline.passed:
        what, flag = f"The embedded model was silent for {silence:g} seconds", "`timeout=`"
    return kind(f"{what}: nothing was kept of it; allow more time with {flag}.")
