"""A real browser for tests: headless Chromium, driven through the two pipes of its DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
"""The browser, None where none is found."""

PATIENCE = 60.0
"""Seconds to wait for an answer, and for a page."""


class Browser:
    """One page of a browser.

    Attributes:
        events: What the browser told meanwhile, each as the protocol has it.
    """

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._buffer, self._number, self._session = b"", 0, ""
        self.events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one command and return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            told = self._told(PATIENCE)
            if told.get("id") == self._number:
                assert "error" not in told, (method, told["error"])
                return told["result"]
            self.events.append(told)

    def _told(self, seconds: float) -> dict[str, Any]:
        until = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], max(until - time.monotonic(), 0))
            assert ready, "the browser says nothing"
            part = os.read(self._from, 1 << 20)
            assert part, "the browser has ended"
            self._buffer += part
        first, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(first)

    def open(self, path: Path) -> None:
        """Open a file and wait until it is loaded."""
        self.events.clear()
        self.ask("Page.navigate", url=path.resolve().as_uri())
        until = time.monotonic() + PATIENCE
        while not any(each.get("method") == "Page.loadEventFired" for each in self.events):
            self.events.append(self._told(until - time.monotonic()))

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page; a promise is waited for."""
        said = self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in said, said["exceptionDetails"]
        return said["result"].get("value")

    def emulate(self, *, width: int, height: int) -> None:
        """Set the size of the window, and the light theme."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            **{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        theme = {"name": "prefers-color-scheme", "value": "light"}
        self.ask("Emulation.setEmulatedMedia", features=[theme])

    def picture(self, path: Path) -> None:
        """Write what the window shows as PNG."""
        said = self.ask("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(said["data"]))


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Yield a browser whose files are in the folder ``profile``; it ends with the block."""
    assert CHROMIUM is not None
    (their_in, our_out), (our_in, their_out) = os.pipe(), os.pipe()

    def placed() -> None:
        for own, there in ((their_in, 100), (their_out, 101), (100, 3), (101, 4)):
            os.dup2(own, there)

    child = subprocess.Popen(
        [CHROMIUM]
        + ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        + [f"--user-data-dir={profile}", "--no-first-run", "about:blank"],
        preexec_fn=placed,
        close_fds=False,  # the others are not inheritable
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for each in (their_in, their_out):
        os.close(each)
    try:
        yield Browser(our_out, our_in)
    finally:
        os.killpg(child.pid, signal.SIGKILL)  # its own processes too
        child.wait()
        for each in (our_out, our_in):
            os.close(each)
