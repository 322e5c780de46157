"""What a model of a shelf brings with it besides its weights: what is applied, and what is not.

Its parameters are the model's own. Its texts are not sent, for nobody asked for them, and its
template, in the syntax of Go, is not what the engine uses: that is the one in the GGUF file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ore.backends.engine_request import APPLIED, can_be
from ore.backends.http import shorten
from ore.backends.manifest import Manifest
from ore.backends.model_names import ModelName
from ore.backends.model_options import OPTIONS
from ore.backends.shelf import Shelf
from ore.errors import FileAccessError
from ore.files.neutral import one_line

_MOST_STOPS, _LONGEST_STOP = 64, 1000
_LEAST_WORDS, _MOST_SHOWN, _SHOWN = 3, 10, 40
_OPENING = re.compile(r"\{[{%#]")
_CLOSING = {"{{": "}}", "{%": "%}", "{#": "#}"}
_MOST_CHARACTERS, _MOST_OPEN = 1 << 16, 100
_QUOTED = {
    mark: re.compile(rf"{mark}([^{mark}\\]*(?:\\.[^{mark}\\]*)*){mark}", re.S) for mark in "\"'"
}
_MARK = re.compile(r"<\|[\w-]{1,40}\|>|\[/?[A-Z_]{2,20}\]|<</?SYS>>|</?[a-z]+_of_[a-z]+>")
_BEGINNINGS = {"<|begin_of_text|>", "<|startoftext|>", "[BOS]"}
"""Marks at the beginning of a text, which a tokenizer adds by itself."""
_OPENS = {"if", "range", "with", "define", "block", "for", "macro", "call", "filter"}


@dataclass(frozen=True)
class Modelfile:
    """What stands beside a model's weights.

    Attributes:
        parameters: The options that it sets and the engine has, by name, with typed values.
        template: Ollama's template; None also where code of Ollama's own writes the prompt in its place.
        notes: What of it is not applied, in sentences.
    """

    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    template: str | None = None
    notes: tuple[str, ...] = ()

    def about_template(self, used: str) -> tuple[str, ...]:
        """Return a sentence where Ollama's template writes other things than ``used``, the file's."""
        if self.template is None:
            return ()
        ollama, own = _Written(self.template), _Written(used)
        found = []
        if only := own.lacking_in(ollama):
            found.append(f"it can write {only!r}, which Ollama's does not")
        if only := ollama.lacking_in(own) or ", ".join(sorted(ollama.marks - own.marks)):
            found.append(f"Ollama's can write {only!r}, which it does not")
        if not found:
            return ()
        return (
            f"The prompt is made by the chat template of the model's file: {'; '.join(found)}.",
        )


def read_modelfile(shelf: Shelf, name: ModelName, manifest: Manifest) -> Modelfile:
    """Return what stands beside a model's weights.

    Raises:
        FileAccessError: A layer that would be applied can't be read.
    """
    applied, left = _judged(shelf.parameters(name, manifest))
    unsent = ["its system prompt"] * bool(manifest.of_kind("system"))
    unsent += ["its example messages"] * bool(manifest.of_kind("messages"))
    notes = []
    if unsent:
        are = "are" if len(unsent) > 1 or manifest.of_kind("messages") else "is"
        notes.append(f"{' and '.join(unsent)} {are} not sent")
    if left:
        names = ", ".join(one_line(each[:_SHOWN]) for each in left[:_MOST_SHOWN])
        names += f" and {len(left) - _MOST_SHOWN} more" * (len(left) > _MOST_SHOWN)
        notes.append(f"of its parameters, the engine does not apply {names}")
    if manifest.of_kind("projector"):
        notes.append("it can't look at images here")
    if manifest.of_kind("draft"):
        notes.append("its draft model is not used, which changes the speed and no answer")
    template = None
    try:
        if not shelf.config(name, manifest).get("renderer"):
            template = "".join(shelf.texts(name, manifest, "template")) or None
    except FileAccessError:
        notes.append("its template can't be read, and is not needed")
    said = (f"Of {name} as Ollama runs it: {'; '.join(notes)}.",) if notes else ()
    return Modelfile(applied, template, said)


def _judged(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the parameters that the engine has, and the names of the others and of wrong ones."""
    applied, left = {}, []
    for name, value in parameters.items():
        try:
            if name not in APPLIED:
                raise ValueError(name)
            applied[name] = _stops(value) if name == "stop" else _typed(name, value)
        except (KeyError, ValueError, RecursionError):
            left.append(name)
    return applied, left


def _typed(name: str, value: object) -> Any:
    if not isinstance(value, (int, float)):
        raise ValueError(name)
    read = OPTIONS[name][1](json.dumps(value))
    if not can_be(name, read):
        raise ValueError(name)
    return read


def _stops(value: object) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or len(texts) > _MOST_STOPS:
        raise ValueError("stop")
    if not all(isinstance(text, str) and 0 < len(text) <= _LONGEST_STOP for text in texts):
        raise ValueError("stop")
    return texts


class _Written:
    """What a template, Go's or Jinja's, can write by itself where there are no tools."""

    def __init__(self, template: str) -> None:
        literals = list(_literals(template[:_MOST_CHARACTERS]))
        self.marks = {mark for text in literals for mark in _MARK.findall(text)} - _BEGINNINGS
        phrases = [part for text in literals for part in _MARK.split(text)]
        lines = (" ".join(line.split()) for phrase in phrases for line in phrase.split("\n"))
        self.phrases = [
            line for line in lines if len(re.findall(r"[^\W\d_]+", line)) >= _LEAST_WORDS
        ]
        self.all = " ".join(" ".join(literals).split())

    def lacking_in(self, other: _Written) -> str:
        """Return the first phrase of this one that the other can't write; empty without one."""
        found = (phrase for phrase in self.phrases if phrase not in other.all)
        return one_line(shorten(next(found, "")))


def _literals(template: str) -> Iterator[str]:
    for_tools: list[bool] = []  # of the blocks that are open
    for piece, is_action in _pieces(template):
        if not is_action:
            if not any(for_tools):
                yield piece
            continue
        said = piece[2:-2].strip("-").strip()
        word = said.partition(" ")[0]
        if word.startswith("end") and for_tools:
            for_tools.pop()
        elif word in ("else", "elif") and for_tools:
            for_tools[-1] = "tool" in said.lower()
        elif word in _OPENS and len(for_tools) < _MOST_OPEN:
            for_tools.append("tool" in said.lower())
        elif not any(for_tools) and "raise_exception" not in said and piece[1] != "#":
            for text in _quoted(said):
                yield text.replace("\\n", "\n")


def _quoted(said: str) -> Iterator[str]:
    """Yield the quoted texts; after a quote that is never closed, none of its kind counts."""
    at, marks = 0, set(_QUOTED)
    while found := re.compile("[" + "".join(marks) + "]").search(said, at) if marks else None:
        if quoted := _QUOTED[found[0]].match(said, found.start()):
            yield quoted[1]
            at = quoted.end()
        else:
            marks.remove(found[0])


def _pieces(template: str) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of a template, and whether each is an action; one without an end is text."""
    at = 0
    while found := _OPENING.search(template, at):
        end = template.find(_CLOSING[found[0]], found.end())
        if end < 0:
            break
        yield template[at : found.start()], False
        yield template[found.start() : end + 2], True
        at = end + 2
    yield template[at:], False
