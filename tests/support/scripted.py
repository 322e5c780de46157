"""ORE as a process with a scripted model: ``python -m tests.support.scripted REPLIES [arguments]``.

REPLIES is a JSON list with one item per turn: a text, a list of chunks, ``{"slow": TEXT}``, which comes and
then goes on for ever, or ``{"late": TEXT}``, which comes half a second late.
"""

from __future__ import annotations

import json
import sys
import time

from ore.cli import main
from tests.support.harness import ScriptedBackend


class Endless(list):
    """Chunks that do not end."""

    def __iter__(self):
        yield from super().__iter__()
        while True:
            time.sleep(0.02)
            yield ""


class Late(list):
    """Chunks that come late."""

    def __iter__(self):
        time.sleep(0.5)
        yield from super().__iter__()


def replies(items: list) -> list:
    """What the script of a reasoner holds for each item."""
    kinds = {"slow": Endless, "late": Late}
    return [
        kinds[kind]([text]) if isinstance(item, dict) else item
        for item in items
        for kind, text in (item.items() if isinstance(item, dict) else [("", "")])
    ]


if __name__ == "__main__":
    backend = ScriptedBackend(replies(json.loads(sys.argv[1])), ("scripted", "second"))
    sys.exit(main(sys.argv[2:], open_backend=lambda *_: backend))
