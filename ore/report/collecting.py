"""Artifacts of files and folders, read once for a report; what is kept of them is bounded."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from ore.artifact.many import files_of, looked_at
from ore.artifact.signers import Signers
from ore.artifact.verify import NOT_READ, Checked, in_chain, let_go, look_at
from ore.errors import ArtifactError, UsageError
from ore.files.neutral import brief, one_line
from ore.report.run_facts import RunFacts, facts_of, shown, why_of
from ore.types.sent import listed

Kept = TypeVar("Kept")

MOST_RUNS = 100_000
"""The most files of one report: a browser has to hold what is kept of all."""
MOST_TEXT = 9_000_000
"""What the prompts and the answers of a page take together, in bytes of UTF-8."""
MOST_BESIDE, _LITTLE = 20_000_000, 2000
"""Characters: the room for what runs have beside their texts, and what each may have in any case."""
_ALWAYS = ("id", "answered", "signed by")
_NO_ROOM = ("not shown", "more than the page has room for")


@dataclass
class Collected:
    """What a report is made of.

    Attributes:
        named: The paths that were named, as they are shown.
        runs: What was found, in the order of the files.
        is_two: Whether two folders were named, of which the runs are held side by side.
        longest: The most bytes of UTF-8 that are left of a prompt or an answer; None where none is
            cut for the page.
    """

    named: list[str]
    runs: list[RunFacts] = field(default_factory=list)
    is_two: bool = False
    longest: int | None = None


def collect(
    paths: Iterable[os.PathLike[str] | str],
    stdin: io.BufferedIOBase | None = None,
    told: Callable[[int, int], None] = lambda done, of: None,
    signers: Signers | None = None,
) -> Collected:
    """Read the artifacts of files and folders, and check them as ``--verify`` does.

    Two folders, and nothing else, are two sides of one comparison.

    Args:
        stdin: What ``-`` among the paths is.
        told: Called with how many have been read, of how many.
        signers: Those who may have signed them; None does not look for signatures.

    Raises:
        ArtifactError: A folder can't be read or has no artifact; or there is none in all of them.
        UsageError: There are more than ``MOST_RUNS`` files.
    """
    named = [os.fspath(path) for path in listed("paths", paths)]
    asked = [(at, file) for at, path in enumerate(named) for file in files_of([path])]
    if len(asked) > MOST_RUNS:
        raise UsageError(
            f"There are {len(asked):,} files, and a page holds at most {MOST_RUNS:,}: name fewer."
        )
    is_two = len(named) == 2 and all(map(os.path.isdir, named))
    collected = Collected([shown(one_line(path), 1000) for path in named], is_two=is_two)
    files = [file for _, file in asked]
    looks = looked_at(files, partial(_look, signers=signers))
    if "-" in files:
        looks = (_look(path, stdin, signers) for path in files)
    checks, room = [], _Room(collected)
    for (at, _), (checked, facts) in zip(asked, looks, strict=True):
        facts.folder = at
        facts.path = _below(facts.path, named[at])
        checks.append(checked)
        room.add(facts)
        told(len(checks), len(asked))
    for checked, facts in zip(in_chain(checks), collected.runs, strict=True):
        facts.state, facts.why = checked.state, why_of(checked)
    if not asked:
        raise UsageError("There is nothing to report on: name artifacts, or folders of them.")
    if not any(run.is_read for run in collected.runs):
        first = collected.runs[0]
        where = "" if first.state == NOT_READ else f"{first.path}: "  # its reason says which file
        raise ArtifactError(f"There is no run to report on: {where}{first.why.rstrip('.')}.")
    room.fit()
    return collected


def _look(
    path: str, stdin: io.BufferedIOBase | None = None, signers: Signers | None = None
) -> tuple[Checked, RunFacts]:
    checked = look_at(path, stdin, signers)
    facts = facts_of(checked)
    let_go(checked)
    return checked, facts


def _below(path: str, named: str) -> str:
    """Return a path as it is shown: below the folder that was named, if it is a folder."""
    inside = os.path.relpath(path, named) if path != named else path
    return shown(one_line(inside), 1000)


class _Room:
    """The texts that are kept: together they stay within twice ``MOST_TEXT``, the longest cut first."""

    def __init__(self, collected: Collected) -> None:
        self._collected = collected
        self._size = self._beside = 0
        self._known: dict[object, object] = {}

    def add(self, facts: RunFacts) -> None:
        """Keep a run; what many have alike is kept once."""
        self._leave_out(facts)
        facts.shared = [self._once(pair) for pair in facts.shared]
        facts.messages = [self._once(pair) for pair in facts.messages]
        facts.model = self._once(facts.model)
        self._collected.runs.append(facts)
        self._size += _size(facts.prompt) + _size(facts.answer)
        if self._size > 2 * MOST_TEXT:
            self.fit()

    def _leave_out(self, facts: RunFacts) -> None:
        """Leave out what a run has beside its texts, where that is much and others have taken the room."""
        alike = (each for each in (*facts.shared, *facts.messages) if each not in self._known)
        size = len(facts.seen) + sum(len(name) + len(text) for name, text in (*facts.own, *alike))
        if size <= _LITTLE:
            return
        if self._beside + size <= MOST_BESIDE:
            self._beside += size
            return
        facts.own = [*(each for each in facts.own if each[0] in _ALWAYS), _NO_ROOM]
        facts.shared, facts.messages = [_NO_ROOM], [_NO_ROOM]
        facts.seen = brief(facts.seen)

    def _once(self, value: Kept) -> Kept:
        return self._known.setdefault(value, value)  # type: ignore[return-value]  # it is equal

    def fit(self) -> None:
        """Cut the longest texts so that all of them take no more than ``MOST_TEXT`` bytes."""
        runs = self._collected.runs
        sizes = sorted(_size(text) for run in runs for text in (run.prompt, run.answer))
        left, longest = MOST_TEXT, None
        for at, size in enumerate(sizes):
            share = left // (len(sizes) - at)
            if size > share:
                longest = share
                break
            left -= size
        if longest is None:
            self._size = sum(sizes)
            return
        self._collected.longest = longest
        for run in runs:
            if _size(run.prompt) > longest:
                run.prompt, run.prompt_is_cut = _cut(run.prompt, longest), True
            if _size(run.answer) > longest:
                run.answer, run.answer_is_cut = _cut(run.answer, longest), True
        self._size = sum(min(size, longest) for size in sizes)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8"))


def _cut(text: str, most: int) -> str:
    return text.encode("utf-8")[:most].decode("utf-8", "ignore")
