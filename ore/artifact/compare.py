"""What went into two runs and what came out of them, compared value by value.

Ids, times and counts differ from run to run and are left out.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import Match, SequenceMatcher
from functools import partial
from itertools import accumulate, zip_longest
from typing import Any

from ore.artifact.sources import joined_messages
from ore.files.neutral import in_form, one_line
from ore.files.strictjson import part
from ore.types import ExecutionArtifact
from ore.types.artifact_fields import is_by_other_name, is_same_model, other_model

MOST_LINES = 5000  # of a text that is compared line by line: the time grows with their square

MOST_STEPS = 20_000_000
"""What comparing two artifacts line by line may cost, at most a few seconds: see ``_Matcher``. A value may
take half of what the ones before it have left."""

MOST_LAID_OUT = 1 << 18  # characters of a value's JSON: to lay out more by lines takes long
_MOST_LOOKED_AT = 500  # characters of a line of which it is said what the eye does not see
_SPACE = re.compile(r"\s")
_NO_INK = re.compile(
    r"[\0-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)

_HEAD = re.compile(r"^(?= *\[[^\n]*\]$)", re.MULTILINE)
"""Where a line of a message begins that could be the head of one, behind spaces or not."""

_TOO_LONG = "(too long to compare line by line)\n"

ANSWER = "answer"

_INPUT = ("prompt", "model_id")
_PROVENANCE = ("backend", "server_version", "model_digest", "options", "persona", "grants")
_NAMED = ("skills", "tools")
IN_FORCE = "effective"
_NOT_SHAPING = ("parameters", "threads")
"""What is left out: parameters are compared one by one, and how many threads write is the machine's."""
_MESSAGES = ("routing", "images", "messages", "joined")
NAMES = (*_INPUT, *_PROVENANCE, IN_FORCE, *_NAMED, *_MESSAGES, ANSWER)
"""What is compared, in the order in which it is shown; all but the last went in."""


@dataclass(frozen=True)
class Difference:
    """One value that is not the same in two artifacts.

    Attributes:
        name: What it is: ``"prompt"``, ``"model_digest"``, ``"answer"`` and so on.
        old, new: Its text in either.
    """

    name: str
    old: str
    new: str


def differences(old: ExecutionArtifact, new: ExecutionArtifact) -> list[Difference]:
    """Return what is known in both ``old`` and ``new`` and not the same, in the order of ``NAMES``."""
    found = []
    for name in NAMES:
        first, second = _both(name, old, new)
        is_same = first == second and _are_of_one_kind(first, second)
        if not is_same and None not in (first, second):
            found.append(Difference(name, _text(first), _text(second)))
    return found


def not_known(old: ExecutionArtifact, new: ExecutionArtifact) -> list[str]:
    """Return the names of what can't be compared, for ``old``, ``new`` or both do not know it.

    A run and its copy have nothing of that kind.
    """
    if old == new:
        return []
    looks = {name: _told if name == IN_FORCE else partial(_both, name) for name in NAMES}
    return [name for name, look in looks.items() if None in look(old, new)]


def known_to_one(old: ExecutionArtifact, new: ExecutionArtifact) -> list[str]:
    """Return the names of what only one of ``old`` and ``new`` knows."""
    return [name for name in not_known(old, new) if _both(name, old, new) != (None, None)]


def unified(found: Iterable[Difference], old: str, new: str) -> str:
    """Return the differences ``found`` as one unified diff; ``old`` and ``new`` name the artifacts.

    What would take too long is named and not compared line by line.
    """
    parts, left = [], MOST_STEPS
    old, new = one_line(old), one_line(new)
    for each in found:
        parts.append(f"--- {old} {each.name}\n+++ {new} {each.name}\n")
        if max(each.old.count("\n"), each.new.count("\n")) >= MOST_LINES:
            parts.append(_TOO_LONG)
            continue
        known: dict[str, str] = {}  # one object for each line, for two are compared by their text
        first, second = (
            [known.setdefault(line, line) for line in text.split("\n")]
            for text in (each.old, each.new)
        )
        matcher = _Matcher(first, second, left // 2)
        try:
            parts += [f"{line}\n" for line in _hunks(matcher, first, second)]
        except _TakesLongError:
            parts.append(_TOO_LONG)
        left -= matcher.taken
    return "".join(parts)


class _TakesLongError(Exception):
    """Two texts take more steps to compare than are left."""


class _Matcher(SequenceMatcher[str]):
    """Compares two texts line by line in at most ``most`` steps, and counts what it has ``taken``.

    For each match, ``difflib`` goes once more through the lines between two others, and through all
    lines of the other text that are the same as one of them: a step each.
    """

    b2j: dict[str, list[int]]

    def __init__(self, first: list[str], second: list[str], most: int) -> None:
        super().__init__(None, first, second)
        self.taken = 0
        self._most = most
        self._up_to = [0, *accumulate(1 + len(self.b2j.get(line, ())) for line in first)]

    def takes(self, steps: int) -> bool:
        """Count ``steps``, and return whether so many were left."""
        self.taken += steps
        is_within, self.taken = self.taken <= self._most, min(self.taken, self._most)
        return is_within

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> Match:
        if not self.takes(self._up_to[-1 if ahi is None else ahi] - self._up_to[alo]):
            raise _TakesLongError
        return super().find_longest_match(alo, ahi, blo, bhi)


def _hunks(matcher: _Matcher, first: list[str], second: list[str]) -> Iterator[str]:
    """Yield the lines of a unified diff without its head."""
    for group in matcher.get_grouped_opcodes():
        (_, old, _, new, _), (_, _, old_end, _, new_end) = group[0], group[-1]
        yield f"@@ -{_span(old, old_end)} +{_span(new, new_end)} @@"
        for tag, begin, end, new_begin, new_end in group:
            if tag == "equal":
                yield from (f" {line}" for line in first[begin:end])
                continue
            olds, news = first[begin:end], second[new_begin:new_end]
            yield from (f"-{line}" for line in olds)
            yield from (f"+{line}" for line in news)
            if said := next(filter(None, map(partial(_unseen, matcher), olds, news)), None):
                yield f"\\ {said}."


def _unseen(matcher: _Matcher, old: str, new: str) -> str | None:
    """Return what differs in two lines that look the same; None where they do not, or that takes long."""
    if old == new or max(len(old), len(new)) > _MOST_LOOKED_AT:
        return None
    first, second = old.expandtabs(), new.expandtabs()
    # Two steps a character: of marks above letters, each takes as long as two of the lines.
    if not matcher.takes(2 * len(first + second)) or _seen(first) != _seen(second):
        return None
    at = next(at for at, (a, b) in enumerate(zip_longest(old, new)) if a != b)
    first, second = (f"U+{ord(each[at]):04X}" if each[at:] else "its end" for each in (old, new))
    return (
        f"They look alike: character {at + 1} of a line is {first} in the old, {second} in the new"
    )


def _seen(line: str) -> str:
    """Return a line as it looks: letters whole, spaces of one kind, and without what has no ink."""
    return _NO_INK.sub("", _SPACE.sub(" ", in_form("NFC", line))).rstrip()


def _span(begin: int, end: int) -> str:
    """Return where lines stand, as a unified diff says it: from 1 on; of no lines, the one before them."""
    return f"{begin + 1}" if end - begin == 1 else f"{begin + (end > begin)},{end - begin}"


def _are_of_one_kind(first: Any, second: Any) -> bool:
    """Return whether two equal values are so in JSON as well, where ``true`` is not 1."""
    if isinstance(first, dict):
        return all(_are_of_one_kind(value, second[key]) for key, value in first.items())
    if isinstance(first, list):
        return all(map(_are_of_one_kind, first, second))
    return isinstance(first, bool) == isinstance(second, bool)


def _both(name: str, old: ExecutionArtifact, new: ExecutionArtifact) -> tuple[Any, Any]:
    if name == "messages":
        return _messages(old, new)
    if name == IN_FORCE:
        return _in_force(old, new)
    if name == "model_id" and (releases := _releases(old, new)):
        return releases
    if name == "persona" and old.provenance is not None and new.provenance is not None:
        return old.provenance.get(name) or "", new.provenance.get(name) or ""
    return _value(name, old), _value(name, new)


def _releases(old: ExecutionArtifact, new: ExecutionArtifact) -> tuple[str, str] | None:
    """Return what servers called the model that answered, where that tells more than its name."""
    first, second = (each.output.metadata.get("response_model") for each in (old, new))
    by_name = [each.input.model_id for each in (old, new) if is_by_other_name(each.output.metadata)]
    if not isinstance(first, str) or not isinstance(second, str) or by_name in ([first], [second]):
        return None  # the other run's model answered as what this one was asked for by
    is_one = first == second and old.input.model_id == new.input.model_id
    is_another = not is_same_model(first, second) and not is_same_model(second, first)
    return (os.path.basename(first), os.path.basename(second)) if is_one or is_another else None


def _in_force(old: ExecutionArtifact, new: ExecutionArtifact) -> tuple[Any, Any]:
    """Return what was in force in both runs, as far as it is known of both."""
    told = _told(old, new)
    if None in told:
        return told
    first, second = map(_flat, told)
    return _shared(first, second), _shared(second, first)


def _told(old: ExecutionArtifact, new: ExecutionArtifact) -> tuple[Any, Any]:
    """Return what each says was in force, None where only one says nothing: before 1.4 both did not."""
    told = [(each.provenance or {}).get(IN_FORCE) for each in (old, new)]
    first, second = (each if isinstance(each, dict) else None for each in told)
    return ({}, {}) if first is second is None else (first, second)


def _shared(flat: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return what is in both, in its order: to sort hundreds of thousands in another takes long."""
    return {name: value for name, value in flat.items() if name in other}


def _flat(told: dict[str, Any]) -> dict[str, Any]:
    """Return what is known of what was in force and shapes an answer, by name."""
    chosen = part(told, "parameters").items()
    flat = {name: each.get("value") for name, each in chosen if isinstance(each, dict)} | told
    return {name: v for name, v in flat.items() if v is not None and name not in _NOT_SHAPING}


def _value(name: str, artifact: ExecutionArtifact) -> Any:
    """Return a value, None where it is not known."""
    if name == ANSWER:
        return artifact.output.content
    if name == "routing":
        routing = artifact.input.routing or {}
        return {"target": routing.get("target"), "target_type": routing.get("target_type")}
    if name == "images":
        return artifact.output.metadata.get(name) or []
    if name == "joined":
        return joined_messages(artifact) if artifact.provenance else None
    if name == "tools":  # before 1.1 the files of a run were among them
        return [each for each in artifact.input.tools or [] if not each.startswith("file:")]
    if name in _NAMED:
        return getattr(artifact.input, name) or []
    if name == "model_id":  # of one that answers in its place, a file may be in another folder
        other = other_model(artifact.output.model_id, artifact.output.metadata)
        return os.path.basename(other) if other else artifact.input.model_id
    if name in _INPUT:
        return getattr(artifact.input, name)
    return (artifact.provenance or {}).get(name)


def _messages(old: ExecutionArtifact, new: ExecutionArtifact) -> tuple[Any, Any]:
    """Return the messages of both: whole where both have them, else by their hashes."""
    both = (old.provenance or {}, new.provenance or {})
    if all(_is_list(each.get("messages"), "role", "content") for each in both):
        first, second = ("\n\n".join(map(_with_head, each["messages"])) for each in both)
        return first, second
    old_hash, new_hash = (each.get("messages_sha256") for each in both)
    differ = None not in (old_hash, new_hash) and old_hash != new_hash
    if differ and all(_is_list(each.get("sources"), "source", "sha256") for each in both):
        old_lines, new_lines = (_lines(each["sources"]) for each in both)
        if old_lines != new_lines:
            return old_lines, new_lines
    return old_hash, new_hash


def _with_head(message: dict[str, str]) -> str:
    """Return a message below its role: what in it looks like such a line is indented by one space more.

    So no two lists of messages have the same text, and one message is never taken for two.
    """
    role, text = message["role"], message["content"]
    return f"[{role if role.isalpha() else json.dumps(role)}]\n{_HEAD.sub(' ', text)}"


def _is_list(value: Any, *keys: str) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, dict) and all(isinstance(each.get(key), str) for key in keys)
        for each in value
    )


def _lines(sources: Iterable[dict[str, str]]) -> str:
    return "\n".join(f"{each['source']} sha256:{each['sha256']}" for each in sources)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    if len(text) > MOST_LAID_OUT:
        return text
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
