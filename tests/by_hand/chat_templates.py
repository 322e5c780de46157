"""Chat templates of others against ORE: ``python -m tests.by_hand.chat_templates FOLDER|URL``.

FOLDER holds files that end in ``.jinja``, as a checkout of an engine has them; a URL is that of such a
checkout as a ``.tar.gz``. Each template is given to a tiny model, and with it what a turn is made of is
rendered: a system prompt, a skill, a tool's result, a file, a session. Prints what became of each, and how
many there were of each kind. Nothing is kept.
"""

from __future__ import annotations

import io
import sys
import tarfile
import tempfile
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path, PurePosixPath

from ore.backends.engine_turn import EmbeddedReasoner
from ore.backends.settings import Settings
from ore.errors import BackendError
from ore.types import Message
from tests.support.gguf import write_model

SYSTEM = Message("system", "You are a clerk of the harbour.")
SKILL = Message("system", "[Skill:writing]\nWrite in short sentences, and no more than three.")
TOOL = Message("user", "[Tool:echo]\nThe tide is at 05:12.")
FILE = Message("user", "[Tool:file:notes.txt]\nThe bridge is open, the bread is not bought.")
SESSION = [Message("user", "Good evening."), Message("assistant", "Good evening to you.")]
PROMPT = Message("user", "When is high tide?")
CASES = {
    "prompt": [PROMPT],
    "system": [SYSTEM, PROMPT],
    "skill": [SYSTEM, SKILL, PROMPT],
    "tool": [SYSTEM, TOOL, PROMPT],
    "file": [SYSTEM, FILE, PROMPT],
    "session": [SYSTEM, *SESSION, PROMPT],
    "all": [SYSTEM, SKILL, TOOL, FILE, *SESSION, PROMPT],
}
WHOLE, JOINED, CAN_NOT, UNSAID = "as it is", "joined", "can't, and said", "LOST UNSAID"
LOSES, REFUSES = "leaves one out", "refuses"
_MOST_BYTES = 1 << 30


def templates(place: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each template in a folder, or in an archive at a URL."""
    if "://" not in place:
        for path in sorted(Path(place).rglob("*.jinja")):
            yield path.name, path.read_text(encoding="utf-8")
        return
    with urllib.request.urlopen(place) as reply:
        data = reply.read(_MOST_BYTES)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            if member.isfile() and member.name.endswith(".jinja"):
                file = archive.extractfile(member)
                assert file is not None
                yield PurePosixPath(member.name).name, file.read().decode()


def outcomes(model: Path, template: str) -> Iterator[tuple[str, str, str]]:
    """Yield each case, what becomes of it, and what would have without joining."""
    options = {"num_ctx": 1024}
    joins = EmbeddedReasoner(str(model), Settings(options=options, chat_template=template))
    apart = EmbeddedReasoner(
        str(model), Settings(options=options, chat_template=template, joins=False)
    )
    with closing(joins), closing(apart):
        for case, messages in CASES.items():
            try:
                reading = joins.reading(messages)
            except BackendError as exc:
                if "can't be loaded" in str(exc):
                    raise
                yield case, CAN_NOT, _apart(apart, messages)
                continue
            texts = [" ".join(each.content.split()) for each in messages]
            rendered = " ".join((reading.rendered or "").split())
            if any(text not in rendered for text in texts):
                yield case, UNSAID, ""
            elif reading.groups is None:
                yield case, WHOLE, WHOLE
            else:
                yield case, JOINED, _apart(apart, messages)


def _apart(reasoner: EmbeddedReasoner, messages: list[Message]) -> str:
    try:
        reasoner.reading(messages)
    except BackendError as exc:
        return LOSES if "leaves out" in str(exc) else REFUSES
    return WHOLE


def main(place: str) -> int:
    """Print a line for each template and the totals; return 1 where a message is lost unsaid."""
    totals: dict[str, Counter[str]] = {case: Counter() for case in CASES}
    apart: dict[str, Counter[str]] = {case: Counter() for case in CASES}
    unusable = count = 0
    with tempfile.TemporaryDirectory() as folder:
        model = write_model(Path(folder) / "m.gguf")
        for name, text in templates(place):
            count += 1
            try:
                found = list(outcomes(model, text))
            except BackendError as exc:
                unusable += 1
                print(f"{name}: {exc}")
                continue
            for case, became, without in found:
                totals[case][became] += 1
                apart[case][without] += 1
            not_whole = [f"{case} {became}" for case, became, _ in found if became != WHOLE]
            print(f"{name}: {', '.join(not_whole) or WHOLE}", flush=True)
    print(f"\n{count} templates, {unusable} of them the engine can't use")
    for case in CASES:
        print(f"{case}: {dict(totals[case])}; not joined: {dict(apart[case])}")
    return int(any(each[UNSAID] for each in totals.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
