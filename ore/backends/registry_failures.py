"""What goes wrong between ORE and a registry, as our errors and their sentences: each written once."""

from __future__ import annotations

from contextlib import suppress

import httpx

from ore.backends.address import Host, stays_here
from ore.backends.failures import proxy_error, untrusted_words
from ore.backends.http import shorten
from ore.backends.model_names import ModelName
from ore.backends.proxies import proxy_for
from ore.errors import (
    BackendError,
    BackendTimeoutError,
    CapabilityError,
    IncompleteAnswerError,
    ModelNotFoundError,
    ServerUnreachableError,
)

GO_ON = "give the same command again, which goes on where this one ended"
NO_ADDRESS = "it is not a web address"
MOST_TRIES = 6
"""How often the same is asked for where nothing comes of it."""
_NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "record layer failure")


class Trouble(Exception):
    """What another try may mend: a lost network, a server that has too much to do.

    Attributes:
        error: What to raise where no try mends it.
        seconds: How long the server asks to wait; None leaves it to who asks.
    """

    def __init__(self, error: BackendError, seconds: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.seconds = seconds


class Tries:
    """How often something was asked for in vain, and how long is waited before it is asked again."""

    def __init__(self) -> None:
        self._failed = 0

    def wait_after(self, trouble: Trouble) -> float:
        """Return how many seconds to wait; raise what is wrong where it was tried often enough."""
        self._failed += 1
        if self._failed >= MOST_TRIES:
            raise trouble.error from trouble
        return 2.0 ** (self._failed - 2) if trouble.seconds is None else trouble.seconds


def way(exc: httpx.RequestError, origin: str) -> tuple[str, str]:
    """Return which host was asked, and the variable that names the proxy through which, if any."""
    url = httpx.URL(origin)
    with suppress(RuntimeError):  # it does not know
        url = exc.request.url
    return url.netloc.decode("ascii").lower(), "" if stays_here(origin) else proxy_for(str(url))


def _check(what: str, proxy: str) -> str:
    """Return what is to be checked; before it the proxy that the variable ``proxy`` names, if any."""
    way = f"the proxy of {proxy}, which it is asked through, and " if proxy else ""
    return f"check {way}{what}, then {GO_ON}"


def unreachable_error(host: str, why: str, proxy: str = "") -> ServerUnreachableError:
    """No connection to ``host`` came about."""
    if proxy and why.startswith("407"):  # what a proxy says that is asked for a tunnel
        return proxy_error(Host(f"https://{host}"))
    if untrusted := untrusted_words(host, why):
        return ServerUnreachableError(f"{untrusted}.", host=host)
    if any(sign in why for sign in _NOT_TLS):
        return ServerUnreachableError(
            f"{host} does not speak https: add `insecure=True` to ask it over http, where anybody "
            f"on the way can read along.",
            host=host,
        )
    return ServerUnreachableError(
        f"{host} can't be reached ({shorten(why)}): {_check('the network and the name', proxy)}.",
        host=host,
    )


def silence_error(host: str, seconds: float, proxy: str = "") -> BackendTimeoutError:
    """Nothing came for so many seconds."""
    return BackendTimeoutError(
        f"Nothing came from {host} for {seconds:g} s: {_check('the network', proxy)}.", host=host
    )


def slow_error(host: str) -> BackendTimeoutError:
    """What comes never comes to its end."""
    return BackendTimeoutError(
        f"{host} does not finish what it sends: check the network, then {GO_ON}.", host=host
    )


def broken_off_error(host: str, why: str, proxy: str = "") -> IncompleteAnswerError:
    """A connection ended before its answer did."""
    return IncompleteAnswerError(
        f"What {host} sends breaks off again and again ({shorten(why)}): "
        f"{_check('the network', proxy)}.",
        host=host,
    )


def busy_error(host: str, status: int, seconds: int | None = None) -> BackendError:
    """The server has too much to do, or fails; ``seconds`` is how long it asks to wait, if it does."""
    said = "asks for fewer requests" if status == 429 else f"fails (HTTP {status})"
    wait = "a while" if seconds is None else f"{seconds:,} s, as it asks"
    return BackendError(f"{host} {said}: wait {wait}, then {GO_ON}.", host=host)


def no_model_error(name: ModelName) -> ModelNotFoundError:
    """The registry does not have the model."""
    return ModelNotFoundError(
        f"There is no model {name} at {name.host}: check its name, and the tag after the colon.",
        model=str(name),
        host=name.host,
    )


def login_error(name: ModelName, why: str) -> CapabilityError:
    """The registry wants to know who asks."""
    return CapabilityError(
        f"{name.host} gives {name} only to those who log in ({shorten(why)}), and ORE logs in "
        f"nowhere: check the name, or fetch it with a program that has an account there.",
        host=name.host,
    )


def redirect_error(host: str, why: str) -> BackendError:
    """A redirect leads where none is followed."""
    return BackendError(
        f"{host} redirects to where ORE does not go ({why}): check the name, or fetch the "
        f"model from another registry.",
        host=host,
    )


def protocol_error(host: str, why: str) -> BackendError:
    """What came is not what a registry says."""
    return BackendError(
        f"{host} does not answer as a registry does ({shorten(why)}): check the name.", host=host
    )


def wrong_size_error(host: str, size: int, wanted: int) -> BackendError:
    """A blob has ``size`` bytes, and the manifest says that it has ``wanted``."""
    return protocol_error(host, f"it has {size:,} bytes where its manifest says {wanted:,}")


def wrong_bytes_error(host: str, digest: str) -> BackendError:
    """What came does not have the hash that it is named by."""
    return BackendError(
        f"What came from {host} is not what {digest[:19]}\u2026 names, so it was removed: give the "
        f"same command again; if that does not help, fetch the model from another registry.",
        host=host,
    )


def wrong_rest_error(digest: str) -> BackendError:
    """What an earlier pull began does not have the hash that it is named by, now that all is there."""
    return BackendError(
        f"A download that was begun earlier and is complete now is not what {digest[:19]}\u2026 names, "
        f"so it was removed: a power cut may have damaged it; give the same command again, which begins anew."
    )
