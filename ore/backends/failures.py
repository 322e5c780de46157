"""How a connection to a server fails, whatever its protocol, as our errors and their sentences.

Judges what it is told only. Knows nothing about sockets, or about what a server refuses.
"""

from __future__ import annotations

import json
import re

from ore.backends.address import Host
from ore.errors import (
    BackendError,
    BackendTimeoutError,
    ContextTruncatedError,
    IncompleteAnswerError,
    ServerUnreachableError,
)

MOST_SHOWN = 400
"""How many characters of a server's own words go into a message."""


def untrusted(host: Host, why: str) -> ServerUnreachableError:
    """The server's certificate can't be trusted; ``why`` is TLS's own reason."""
    return ServerUnreachableError(
        f"The certificate of {host} can't be trusted ({shorten(why)}): name the authority that "
        f"signed it with SSL_CERT_FILE, or another server with --host.",
        host=host.url,
    )


def no_client(host: Host, why: str) -> BackendError:
    """Nothing can be asked: a proxy or a file that the environment names can't be used."""
    return BackendError(
        f"No connection to {host} can be made ({why}): check the proxies and certificates that "
        f"the environment names.",
        host=host.url,
    )


def silent(host: Host, seconds: float | None) -> BackendTimeoutError:
    """Nothing came for ``seconds``; with None, for as long as the system waits for a dead peer."""
    if seconds is None:
        what = f"Nothing came from {host}, and the connection was given up: ask again"
    else:
        what = f"Nothing came from {host} for {seconds:g} s: give it longer with --timeout"
    return BackendTimeoutError(f"{what}, or look at the server's log.", host=host.url)


def no_reply(host: Host, seconds: float) -> BackendTimeoutError:
    """A look-up was not answered within ``seconds``, which nobody can set."""
    return BackendTimeoutError(
        f"The server at {host} did not answer within {seconds:g} s: try again, or look at its log.",
        host=host.url,
    )


def too_slow(host: Host, seconds: float) -> BackendTimeoutError:
    """The turn was not done after ``seconds``."""
    return BackendTimeoutError(
        f"The answer from {host} was not complete after {seconds:g} s, and the turn was ended: "
        f"give it longer with --deadline.",
        host=host.url,
    )


def broken_off(host: Host, why: str) -> IncompleteAnswerError:
    """The connection ended before the answer did."""
    return IncompleteAnswerError(
        f"The answer from {host} broke off ({shorten(why)}): nothing of it counts. "
        f"Ask again; the server's log may say why.",
        host=host.url,
    )


def not_done(host: Host) -> IncompleteAnswerError:
    """The stream ended in good order, but nothing in it said that the answer was done."""
    return IncompleteAnswerError(
        f"The server at {host} ended the answer without saying that it was done, "
        f"as it does when a model repeats itself: nothing of it counts. Ask again.",
        host=host.url,
    )


def too_large(host: Host, what: str, limit: int) -> BackendError:
    """The server sent more than ORE takes: ``what`` is larger than ``limit`` bytes."""
    return BackendError(
        f"The server at {host} sent {what} larger than {limit >> 20} MiB, and the turn was ended: "
        f"check the address.",
        host=host.url,
    )


def truncated(host: Host, window: int | None, partial: str) -> ContextTruncatedError:
    """With strict context: prompt and answer did not fit a window of so many tokens."""
    return ContextTruncatedError(
        f"The prompt and its answer did not fit the context window of {window} tokens, and a part "
        f"was left out: shorten the prompt, or give the model a larger window.",
        host=host.url,
        partial=partial,
    )


def shorten(text: str) -> str:
    """Return ``text`` on one line, without punctuation at its end, cut to ``MOST_SHOWN``."""
    line = " ".join(text[: 2 * MOST_SHOWN].split()).rstrip(" .:-")
    return line if len(line) <= MOST_SHOWN else f"{line[:MOST_SHOWN]}…"


def in_words(error: BaseException) -> str:
    """Return what an exception says happened, without the names of things inside Python."""
    if isinstance(error, json.JSONDecodeError):
        return "that is no JSON"
    if isinstance(error, RecursionError):
        return "its JSON is nested too deep"
    if isinstance(error, (AttributeError, TypeError)):
        return "its JSON is not of the right shape"
    text = re.sub(r"^\[Errno -?\d+\] ", "", shorten(str(error)))
    return text[:1].lower() + text[1:] if text else type(error).__name__
