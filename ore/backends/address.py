"""The address of a server and the key for it: read leniently, normalised once, with who named it.

Opens no connection and resolves no name. A key is never shown.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from socket import inet_aton
from typing import NamedTuple
from urllib.parse import urlsplit

from ore.errors import UsageError
from ore.files.neutral import AT

OLLAMA_URL = "http://127.0.0.1:11434"
OLLAMA_PORT = 11434
ARGUMENT = "`host=`"
"""What names a server that was given as an argument."""

_OLLAMA_CLOUD = "ollama.com"
SCHEME_PORTS = {"http": 80, "https": 443}
_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_SHOWABLE = r"(?ai)([a-z0-9+]{1,8}://)?[\w.-]{1,80}(?=[:/?#]|$)"  # compiled where it is needed
_LEAST_KEY = 8  # characters
_MOST_ESCAPED = 1 << 17  # bytes: no refusal is larger, and the pattern is slow
_PORT = re.compile(r"[0-9]{0,5}")
_LONGEST_NAME = 253
_AMBIGUOUS = frozenset("\u00df\u1e9e\u03c2\u200c\u200d")
"""What IDNA of 2003, which Python has, and of 2008, which browsers have, make different names of."""
_NAME = re.compile(r"(?!.*(\.\.|[^.]{64}))[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?")


class Host(NamedTuple):
    """Where the server is: ``url`` as ``normalised`` returns it, ``source`` says who named it.

    ``source`` is ``ARGUMENT``, a variable, ``"default"``, or ``"host"``, of which nothing is said.
    ``OLLAMA_API_KEY`` goes there only if it ``is_ollama``.
    """

    url: str
    source: str = "host"
    is_ollama: bool = True

    def __str__(self) -> str:
        if self.source == "host":
            return self.url
        return (
            f"{self.url} ({'the default' if self.source == 'default' else f'from {self.source}'})"
        )


class Key(str):
    """A key, or the header with it: what shows the variables of a call, as logs do, shows none of it."""

    def __repr__(self) -> str:
        return "'[the key]'"


def normalised(text: str, source: str, default_port: int) -> str:
    """Return ``scheme://host:port[/path]`` for what a user may write as a server's address.

    Blanks and quotes around it are dropped, the scheme defaults to http, the port to
    ``default_port`` (80 and 443 where a scheme is given), a bare IPv6 address is one. ``0.0.0.0``
    and ``::`` are addresses to listen on; the loopback address is asked instead.

    Raises:
        UsageError: It is not an address; the message names ``source`` and, where it can be told
            from a name and password, the host.
    """
    if re.search(AT, text):
        raise _bad(source, "", "it can't hold a user name or password")
    scheme, named, rest = unquoted(text).rpartition("://")
    scheme = scheme.lower() if named else "http"
    if not named and re.match(r"https?(:?/|:$)", rest, re.IGNORECASE):
        raise _bad(source, "", "http or https is followed by something other than ://")
    if scheme not in SCHEME_PORTS:
        raise _bad(source, text, "only http and https are understood")
    authority, _, path = rest.partition("/")
    if re.search(r"[^!-~]|[?#\\%\"<>^`{|}]", rest.removeprefix(authority)):
        raise _bad(source, text, "its path holds illegal characters")
    host, port = _host_and_port(authority, source, text)
    port = port or (SCHEME_PORTS[scheme] if named else default_port)
    shown = f"[{host}]" if ":" in host else host
    path = path.rstrip("/")
    return f"{scheme}://{shown}:{port}/{path}" if path else f"{scheme}://{shown}:{port}"


def is_loopback(url: str) -> bool:
    """Tell whether an address stays on this machine: ``localhost``, or a number of its own, as 127.1."""
    host = urlsplit(url).hostname or ""
    return host == "localhost" or _is_own_number(host)


def stays_here(url: str) -> bool:
    """Tell whether an address is one of this machine, however it is written: it takes no proxy."""
    return leads_here(urlsplit(url).hostname or "")


def leads_here(host: str) -> bool:
    """Tell whether a host is this machine however it is written: ``127.1``, ``0.0.0.0``, ``localhost.``.

    What a name server says of a name is not asked.
    """
    name = host.rstrip(".").lower()
    return name == "localhost" or name.endswith(".localhost") or _is_own_number(name)


def _is_own_number(name: str) -> bool:
    address: ipaddress.IPv4Address | ipaddress.IPv6Address
    try:
        address = ipaddress.IPv4Address(inet_aton(name))  # as the system reads numbers
    except (OSError, ValueError):
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        address = getattr(address, "ipv4_mapped", None) or address
    return address.is_loopback or address.is_unspecified


def sendable(key: str, variable: str, url: str) -> Key | None:
    """Return what ``checked_key`` does, or None where the way is open.

    A key is sent over https, or on this machine, only.
    """
    if not (is_loopback(url) or url.startswith("https:")):
        return None
    return checked_key(key, variable)


def checked_key(key: str, source: str) -> Key | None:
    """Return a key without blanks around it, or None where it is empty.

    Raises:
        UsageError: It holds illegal characters; ``source`` is named, the key is not shown.
    """
    key = key.strip()
    if key and not re.fullmatch(r"[!-~]+", key):
        raise UsageError(
            f"{source} can't be sent: it holds blanks, line ends or letters beyond ASCII. Set it "
            f"again, or unset it."
        )
    return Key(key) if key else None


def without_key(said: bytes, header: str | None) -> bytes:
    """Return what a server said without the key that it was sent in a header: some repeat it.

    A short one is no secret, but what a server on this machine is given for one.
    """
    key = _key_of(header)
    if len(key) < _LEAST_KEY:
        return said
    if len(said) > _MOST_ESCAPED or "\\" in key:
        return said.replace(key.encode(), b"[the key]")
    escaped = (
        rf"\\{{0,3}}(?:{re.escape(each)}|(?:u00|%)(?i:{ord(each):02x}))" for each in key
    )  # in JSON, or in an address
    return re.sub("".join(escaped).encode(), b"[the key]", said)


def _key_of(header: str | None) -> str:
    return (header or "").rpartition(" ")[2]


def text_without_key(said: str, header: str | None) -> str:
    """Return what ``without_key`` leaves of a text, which may hold half a character, or be cut in a key."""
    text, key = without_key(said.encode("utf-8", "replace"), header).decode(), _key_of(header)
    if "…" in text and len(text) <= _MOST_ESCAPED:
        for size in range(len(key) - 1, _LEAST_KEY - 1, -1):
            text = text.replace(f"{key[:size]}…", "[the key]…")
    return text


def unquoted(text: str) -> str:
    """Return an address without the blanks and quotes around it."""
    return text.strip().strip("\"'").strip()


def resolve_ollama(flag: str | None = None, environ: Mapping[str, str] | None = None) -> Host:
    """Return the server to ask: ``flag``, else ``OLLAMA_HOST``, else the default address.

    A blank ``OLLAMA_HOST`` counts as not set; a blank ``flag`` is an error.
    """
    if flag is not None:
        return Host(normalise_ollama(flag, ARGUMENT), ARGUMENT)
    named = (os.environ if environ is None else environ).get("OLLAMA_HOST", "")
    if unquoted(named):
        return Host(normalise_ollama(named, "OLLAMA_HOST"), "OLLAMA_HOST")
    return Host(OLLAMA_URL, "default")


def as_host(host: str | Host | None) -> Host:
    """Return ``host`` as a ``Host``; None is what ``resolve_ollama`` finds in the environment."""
    if isinstance(host, Host):
        return host
    return resolve_ollama() if host is None else Host(normalise_ollama(host, "host"))


def normalise_ollama(text: str, source: str = "host") -> str:
    """Return ``scheme://host:port[/path]`` for what a user may write as an Ollama server's address.

    As Ollama's own command line does: the port defaults to 11434, ``ollama.com`` means https; the
    rest is as in ``normalised``.
    """
    named = unquoted(text).partition("/")[0].removesuffix(":").lower()
    return normalised(
        f"https://{unquoted(text)}" if named == _OLLAMA_CLOUD else text, source, OLLAMA_PORT
    )


def ollama_authorization(url: str, environ: Mapping[str, str] | None = None) -> str | None:
    """Return the ``Authorization`` header for a server: ``OLLAMA_API_KEY``, if it can be sent."""
    named = (os.environ if environ is None else environ).get("OLLAMA_API_KEY", "")
    try:
        key = sendable(named, "OLLAMA_API_KEY", url)
    except UsageError:
        if is_loopback(url):
            return None
        raise
    return Key(f"Bearer {key}") if key else None


def resolve_openai(flag: str | None, environ: Mapping[str, str]) -> Host:
    """Return the server to ask: ``flag``, else ``OPENAI_BASE_URL``; ``/v1`` is its usual path.

    There is no default: where prompts go has to be said.
    """
    source = ARGUMENT if flag is not None else "OPENAI_BASE_URL"
    text = unquoted(flag if flag is not None else environ.get(source, ""))
    if not text:
        raise UsageError(
            "The openai backend needs a server: name it with `host=` URL or OPENAI_BASE_URL, as in "
            "http://127.0.0.1:8000/v1."
        )
    url = normalised(text, source, 80)
    return Host(url if urlsplit(url).path else f"{url}/v1", source)


def openai_key(url: str, environ: Mapping[str, str]) -> str | None:
    """Return ``OPENAI_API_KEY`` if it can be sent: see ``sendable``."""
    return sendable(environ.get("OPENAI_API_KEY", ""), "OPENAI_API_KEY", url)


def _host_and_port(authority: str, source: str, text: str) -> tuple[str, int]:
    """Split ``host:port``; port 0 stands for "not given"."""
    if authority.startswith("["):
        inner, closed, port_text = authority[1:].partition("]")
        host, colon = _ipv6(inner), port_text[:1]
        if not closed or not host or colon not in ("", ":"):
            raise _bad(source, text, "the part in brackets is not an IPv6 address")
        port_text = port_text[1:]
    elif authority.count(":") > 1:
        host, port_text = _ipv6(authority), ""
        if not host:
            raise _bad(source, text, "it is neither host:port nor an IPv6 address")
    else:
        host, _, port_text = authority.partition(":")
        if not host and not port_text:
            raise _bad(source, text, "it names no host")
        host = _name(host, source, text) if host else "127.0.0.1"
    if not _PORT.fullmatch(port_text) or not 0 < int(port_text or 1) < 65536:
        raise _bad(source, text, "the port is not a number from 1 to 65535")
    return _ANY_ADDRESS.get(host, host), int(port_text or 0)


def _ipv6(text: str) -> str:
    try:
        return str(ipaddress.IPv6Address(text)) if "%" not in text else ""
    except ValueError:
        return ""


def _name(host: str, source: str, text: str) -> str:
    if _AMBIGUOUS.intersection(host):
        why = "its name is not the same everywhere in ASCII; write the form that begins with xn--"
        raise _bad(source, "", why)
    try:
        if len(host) > _LONGEST_NAME:
            raise UnicodeError
        name = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        name = ""
    if not _NAME.fullmatch(name):
        raise _bad(source, text, "it is not a host name")
    return name.lower()


def _bad(source: str, text: str, why: str) -> UsageError:
    named = "The server's address" if source == "host" else source
    found = re.match(_SHOWABLE, unquoted(text))
    begins = f", which begins with {found[0]}," if found else ""
    return UsageError(
        f"{named}{begins} can't be used ({why}): write it like 127.0.0.1:11434 or "
        f"https://example.com."
    )
