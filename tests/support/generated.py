"""The parts of a page that follow from the code, between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``.

With ``UPDATE_DOCS`` in the environment they are written anew instead of compared.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path


def hold(page: Path, name: str, fresh: str, alike: Callable[[str], str] = str) -> None:
    """Compare a part of a page with what it should be, or write it.

    Args:
        fresh: What the code says, with a line end.
        alike: What is compared of both texts.
    """
    text = page.read_text(encoding="utf-8")
    found = re.search(rf"<!-- begin {name} -->\n(.*?)<!-- end {name} -->", text, re.DOTALL)
    assert found, f"{page.name} has no part '{name}'"
    if os.environ.get("UPDATE_DOCS"):
        page.write_text(text[: found.start(1)] + fresh + text[found.end(1) :], encoding="utf-8")
    else:
        told = f"{page.name} no longer fits the code: read its test's head"
        assert alike(found[1]) == alike(fresh), told
