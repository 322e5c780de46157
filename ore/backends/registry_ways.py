"""The ways to a registry, and to where it redirects: each address through its own proxy, or directly."""

from __future__ import annotations

from typing import Any

import httpx

from ore.backends.address import stays_here
from ore.backends.pools import steady
from ore.backends.proxies import proxy_address, proxy_addresses


class Ways(httpx.BaseTransport):
    """Sends each request the way of its address; all directly where the registry is on this machine.

    Args:
        origin: The registry's address.
        made: What ``httpx.HTTPTransport`` takes.
    """

    def __init__(self, origin: str, **made: Any) -> None:
        proxies = {None} if stays_here(origin) else proxy_addresses()
        self._mounts = {
            proxy: httpx.HTTPTransport(trust_env=False, proxy=proxy, **made) for proxy in proxies
        }
        steady(self)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; where a redirect leads is put into the answer's ``extensions``.

        The HTTP library would quote what it can't read of it, which may be a password.
        """
        direct, proxy = self._mounts[None], proxy_address(str(request.url))
        response = self._mounts.get(proxy, direct).handle_request(request)
        response.extensions["location"] = response.headers.pop("location", "")
        return response

    def close(self) -> None:
        """Close the connections."""
        for each in self._mounts.values():
            each.close()
