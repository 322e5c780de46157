"""Through which proxy a server is asked, if through one; what the environment says of it.

HTTP libraries know different exceptions, and refuse every address for one that they can't read.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from contextlib import suppress
from urllib.parse import urlsplit

from ore.backends.address import SCHEME_PORTS, stays_here
from ore.files.environment import environment


def takes_no_proxy(url: str) -> bool:
    """Tell whether an address is asked directly: one of this machine, or of those in ``NO_PROXY``.

    These are names and what ends in them, addresses, networks, each with a scheme or a port or
    without, and ``*``.
    """
    here, host = urlsplit(url), urlsplit(url).hostname or ""
    at = here.netloc.rpartition("@")[2]
    at += "" if ":" in at.rpartition("]")[2] else f":{SCHEME_PORTS.get(here.scheme)}"
    there = environment()
    for item in there.get(_spelled("no_proxy", there), "").lower().split(","):
        scheme, _, name = item.strip(" \t/").rpartition("://")
        if scheme in ("", "all", here.scheme) and (name == "*" or _is_in(host, at, name)):
            return True
    return stays_here(url)


def _is_in(host: str, at: str, named: str) -> bool:
    name = named.partition("/")[0]  # an address may have a path; a network has its size there
    for each in (named, name):
        with suppress(ValueError):
            return ipaddress.ip_address(host) in ipaddress.ip_network(
                each.strip("[]"), strict=False
            )
    name = name.removeprefix("*").lstrip(".")
    return name != "" and any(f".{each}".endswith(f".{name}") for each in (host, at))


def proxy_for(url: str) -> str:
    """Return the variable that names the proxy through which an address is asked, or nothing."""
    return "" if takes_no_proxy(url) else _variable(urlsplit(url).scheme)


def proxy_address(url: str) -> str | None:
    """Return the address of the proxy through which an address is asked, or None."""
    return _address(proxy_for(url))


def proxy_addresses() -> set[str | None]:
    """Return the address of every proxy through which something may be asked; None is for none."""
    return {_address(_variable(scheme)) for scheme in SCHEME_PORTS} | {None}


def _variable(scheme: str) -> str:
    there = environment()
    if "REQUEST_METHOD" in there:  # in a CGI program, whoever asks it may set this one
        there.pop("HTTP_PROXY", None)
    for variable in (f"{scheme}_proxy", "all_proxy"):
        found = _spelled(variable, there)
        if there.get(found):
            return found
    return ""


def _spelled(variable: str, there: Iterable[str]) -> str:
    """Return how a variable is spelled; the one in small letters goes before the others."""
    return max((name for name in there if name.lower() == variable), default="")


def _address(variable: str) -> str | None:
    proxy = environment().get(variable)
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"
