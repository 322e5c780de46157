"""Artifacts that are laid out alike, as those of one run over rows are: checked without parsing each.

What an artifact that holds has beside its values is learnt from it. Another one that consists of the
same bytes, with values of the same kinds between them, has the same keys in the same places: its
canonical JSON is put together from what was learnt and its values, and hashed. What does not fit that,
or has another hash, is for ``ore.artifact.verify.check`` to judge: nothing is refused here.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from ore.artifact import MAX_ARTIFACT_BYTES
from ore.artifact.canonical import canonical
from ore.artifact.seal import SELF, without_self
from ore.artifact.sources import PERSONA, SYSTEM
from ore.files import strictjson

_Path = tuple[str | int, ...]

_SEAL: _Path = ("provenance", SELF)
_IDS: tuple[_Path, _Path] = (("execution_id",), ("output", "id"))
_ABSENT = ("parent", "messages", "rendered", "chat_template")
"""What of the provenance is checked by more than its hash: an artifact that has it is not learnt."""

_MOST_KNOWN = 8
_MOST_BYTES = 1 << 16
"""Of an artifact that is learnt: what finds the values of a larger one takes too long to make."""
_FIRST_LESSONS, _HITS_A_LESSON = 32, 16

_USUAL = {str: rb'"[ !#-\[\]-~]*"', int: rb"(?:0|-?[1-9][0-9]{0,14})"}
"""How most values are written, which are so in canonical JSON, too."""
_TEXT = re.compile(rb'"(?:[ !#-\[\]-~]|\\["\\bfnrt]|\\u[0-9a-f]{4})*"').fullmatch
_WHOLE = re.compile(_USUAL[int]).fullmatch
_FLOAT = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:e[+-][0-9]+)?").fullmatch


class Alike:
    """What is known of artifacts that were seen; one thread's own."""

    def __init__(self) -> None:
        self._known: list[_Layout] = []
        self._hits = self._lessons = 0

    def seal_of(self, data: bytes) -> tuple[str, str] | None:
        """Return the id and the seal of an artifact that holds; None where it is to be parsed."""
        if len(data) > MAX_ARTIFACT_BYTES:
            return None
        for at, layout in enumerate(self._known):
            if found := layout.seal_of(data):
                self._hits += 1
                if at:
                    self._known.insert(0, self._known.pop(at))
                return found
        return None

    def learn(self, data: bytes) -> None:
        """Take in how an artifact is laid out, which holds and has no notes.

        What is learnt and never met again is not worth its time: soon nothing more is learnt.
        """
        most = _FIRST_LESSONS + self._hits // _HITS_A_LESSON
        if len(data) > _MOST_BYTES or self._lessons >= most:
            return
        self._lessons += 1
        document = strictjson.parse(data, limit=MAX_ARTIFACT_BYTES)
        provenance = document["provenance"]
        if any(provenance.get(name) is not None for name in _ABSENT):
            return
        if _laid_out(document) != data:
            return
        leaves = dict(_leaves(document))
        kinds = {path: _kind(value) for path, value in leaves.items()}
        kinds.update((path, leaves[path]) for path in _fixed(provenance) if path in leaves)
        varying = {_SEAL, *_IDS}
        for each in self._known:
            if each.kinds == kinds:
                varying = each.varying | {p for p in leaves if leaves[p] != each.leaves[p]}
                self._known.remove(each)
                break
        self._known.insert(0, _Layout(document, leaves, kinds, varying))
        del self._known[_MOST_KNOWN:]


class _Layout:
    """The bytes of an artifact around the values that vary, in a file and in its canonical JSON."""

    def __init__(
        self,
        document: dict[str, Any],
        leaves: dict[_Path, Any],
        kinds: dict[_Path, object],
        varying: set[_Path],
    ) -> None:
        self.leaves, self.kinds, self.varying = leaves, kinds, varying
        places = [path for path in leaves if path in varying]
        self._seal = places.index(_SEAL)
        self._ids = [places.index(path) for path in _IDS]
        self._of_text = [isinstance(leaves[path], str) for path in places]
        self._floats = [at for at, path in enumerate(places) if isinstance(leaves[path], float)]
        usual = (_USUAL.get(type(leaves[path]), rb"[^\n]*") for path in places)
        self._are_usual = re.compile(rb"\n".join(usual)).fullmatch
        word = hashlib.sha256(_laid_out(document)).hexdigest()  # no text can hold its own hash
        marked = _replaced(document, {path: f"{word}-{at}" for at, path in enumerate(places)})
        split = re.compile(f'"{word}-([0-9]+)"'.encode()).split
        parts = split(_laid_out(marked))
        assert [int(at) for at in parts[1::2]] == [*range(len(places))]
        self._around = parts[::2]
        self._lines = sum(each.count(b"\n") for each in self._around)
        self._canonical = split(canonical(without_self(marked)))
        self._order = [int(at) for at in self._canonical[1::2]]

    @cached_property
    def _values(self) -> Callable[[bytes], re.Match[bytes] | None]:
        """What finds the values: each is what stands in its line between what is always there."""
        return re.compile(rb"([^\n]*)".join(map(re.escape, self._around))).fullmatch

    def seal_of(self, data: bytes) -> tuple[str, str] | None:
        """Return the id and the seal of an artifact that is laid out so, and holds."""
        if data.count(b"\n") != self._lines or not (found := self._values(data)):
            return None
        values = list(found.groups())
        one, other = self._ids
        if values[one] != values[other]:
            return None
        if self._are_usual(b"\n".join(values)):
            by_text = {values[place]: b"" for place in self._floats}  # often one time, twice
            for value in by_text:
                by_text[value] = _canonical_number(value)
            for place in self._floats:
                values[place] = by_text[values[place]]
        else:
            values = [
                _canonical_text(value) if is_text else _canonical_number(value)
                for value, is_text in zip(values, self._of_text, strict=True)
            ]
        if not all(values):
            return None
        self._canonical[1::2] = [values[place] for place in self._order]
        seal = hashlib.sha256(b"".join(self._canonical)).hexdigest()
        if values[self._seal] != b'"%s"' % seal.encode():
            return None
        name = values[one]
        return json.loads(name) if b"\\" in name else name[1:-1].decode(), seal


def _canonical_text(value: bytes) -> bytes:
    """Return a text's canonical JSON; nothing where it is not a text, or has half a surrogate pair."""
    if not _TEXT(value):
        return b""
    try:
        return canonical(json.loads(value))
    except UnicodeEncodeError:
        return b""


def _canonical_number(value: bytes) -> bytes:
    """Return a number's canonical JSON; nothing where it is not one, or is written in another way."""
    if _WHOLE(value):
        return value
    if not _FLOAT(value):
        return b""
    number = float(value)
    if repr(number).encode() != value:
        return b""
    # Python and ECMAScript write the same digits; some with an exponent, or with a zero at the end.
    return canonical(number) if b"e" in value or value.endswith(b".0") else value


def _laid_out(document: dict[str, Any]) -> bytes:
    """Return the bytes that ``ore.artifact.encode_artifact`` writes."""
    return (json.dumps(document, indent=2) + "\n").encode("ascii")


def _fixed(provenance: dict[str, Any]) -> Iterator[_Path]:
    """Yield the places of what is checked by its value, and so is the same in what is alike."""
    yield from (("artifact_version",), ("input", "mode"))
    if provenance.get("system_prompt") is not None:
        yield ("provenance", "system_prompt")
        for at, each in enumerate(provenance["sources"]):
            if isinstance(each, dict) and each.get("source") in (PERSONA, SYSTEM):
                yield ("provenance", "sources", at, "source")
                yield ("provenance", "sources", at, "sha256")


def _kind(value: Any) -> object:
    """Return what a value has in common with those that may be in its place: None is in its own."""
    if isinstance(value, str):
        return str
    return float if type(value) in (int, float) else json.dumps(value)


def _leaves(value: Any, path: _Path = ()) -> Iterator[tuple[_Path, Any]]:
    """Yield every value that holds no other, and its place, in their order."""
    if isinstance(value, (dict, list)) and value:
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(part, (*path, key))
    else:
        yield path, value


def _replaced(value: Any, by_path: dict[_Path, str], path: _Path = ()) -> Any:
    """Return a copy with other values in some places."""
    if path in by_path:
        return by_path[path]
    if isinstance(value, dict):
        return {key: _replaced(part, by_path, (*path, key)) for key, part in value.items()}
    if isinstance(value, list):
        return [_replaced(part, by_path, (*path, at)) for at, part in enumerate(value)]
    return value
