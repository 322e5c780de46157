"""Two folders side by side: runs that were asked the same, and where their answers differ."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from ore.report.run_facts import RunFacts

MOST_WORDS = 3000
"""The most words of an answer that are compared one by one."""
MOST_STEPS = 30_000_000
"""What comparing two answers may cost: every match, for every word found."""
MOST_SECONDS = 8.0
"""How long comparing all of them word by word may take."""

_WORD = re.compile(r"\w+|[^\w\s]")
_WORD_OR_SPACE = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass
class Pair:
    """Two runs that were asked the same, by their numbers in the report.

    Attributes:
        first, second: The run of each folder.
        is_same: Whether the answers are, but for the space around them.
        marks: Of the shown answers, how many UTF-16 units are alike, differ, are alike and so on;
            None where they are the same, or were not compared word by word.
    """

    first: int
    second: int
    is_same: bool
    marks: tuple[list[int], list[int]] | None = None


@dataclass
class SideBySide:
    """What two folders have in common, and where they differ.

    Attributes:
        pairs: In the order of the first folder.
        alone: How many runs of each folder have no other.
        same: How many pairs have the same answer.
        unmarked: How many pairs differ and were not compared word by word.
        choices: How many pairs are of words that were chosen.
        kappa: Cohen's kappa of those; None where there is none.
    """

    pairs: list[Pair] = field(default_factory=list)
    alone: tuple[int, int] = (0, 0)
    same: int = 0
    unmarked: int = 0
    choices: int = 0
    kappa: float | None = None


def side_by_side(runs: Sequence[RunFacts]) -> SideBySide:
    """Pair the runs of folder 0 with those of folder 1 that were asked the same, in their order."""
    waiting: dict[str, list[int]] = defaultdict(list)
    for at in reversed(range(len(runs))):
        if runs[at].folder == 1 and runs[at].is_read:
            waiting[runs[at].asked].append(at)
    found, ends = SideBySide(), time.monotonic() + MOST_SECONDS
    for at, run in enumerate(runs):
        if run.folder == 0 and run.is_read and waiting[run.asked]:
            found.pairs.append(_pair(at, waiting[run.asked].pop(), runs, ends))
    read = [sum(run.is_read and run.folder == side for run in runs) for side in (0, 1)]
    found.alone = (read[0] - len(found.pairs), read[1] - len(found.pairs))
    found.same = sum(pair.is_same for pair in found.pairs)
    found.unmarked = sum(not pair.is_same and pair.marks is None for pair in found.pairs)
    chosen = [
        (runs[pair.first].answer_key, runs[pair.second].answer_key)
        for pair in found.pairs
        if None not in (runs[pair.first].chosen, runs[pair.second].chosen)
    ]
    found.choices, found.kappa = len(chosen), kappa(chosen)
    return found


def _pair(first: int, second: int, runs: Sequence[RunFacts], ends: float) -> Pair:
    one, other = runs[first], runs[second]
    if one.answer_key == other.answer_key:
        return Pair(first, second, True)
    marks = differing(one.answer, other.answer) if time.monotonic() < ends else None
    return Pair(first, second, False, marks)


def kappa(labels: Sequence[tuple[str, str]]) -> float | None:
    """Return Cohen's kappa of two raters' labels: agreement beyond what chance would bring.

    ``(p_o - p_e) / (1 - p_e)`` with the observed agreement ``p_o`` and the one expected from how
    often each rater gives each label (Cohen 1960). None without labels, or where both give one and
    the same label only.
    """
    number = len(labels)
    if not number:
        return None
    first, second = Counter(one for one, _ in labels), Counter(other for _, other in labels)
    observed = sum(one == other for one, other in labels) / number
    expected = sum(first[label] * second[label] for label in first) / number**2
    return None if expected == 1 else (observed - expected) / (1 - expected)


def differing(one: str, other: str) -> tuple[list[int], list[int]] | None:
    """Return the marks of two texts, word by word; of the same words, the space between them.

    None where that would take too long.
    """
    for pattern in (_WORD, _WORD_OR_SPACE):
        found = list(pattern.finditer(one)), list(pattern.finditer(other))
        first, second = ([match.group() for match in matches] for matches in found)
        if first != second:
            break
    if max(len(first), len(second)) > MOST_WORDS:
        return None
    times = Counter(second)
    if sum(times[word] for word in first) * min(len(first), len(second)) > MOST_STEPS:
        return None
    blocks = SequenceMatcher(None, first, second, autojunk=False).get_opcodes()
    alike = [block[1:] for block in blocks if block[0] == "equal"]
    return (
        _marks(one, found[0], [(begin, end) for begin, end, _, _ in alike]),
        _marks(other, found[1], [(begin, end) for _, _, begin, end in alike]),
    )


def _marks(text: str, words: list[re.Match[str]], alike: list[tuple[int, int]]) -> list[int]:
    """Return how many units are alike and differ, in turns; what stands around words is alike."""
    marks, at, done = [0], 0, 0
    for begin, end in [*alike, (len(words), len(words))]:
        if begin > at:
            start, stop = words[at].start(), words[begin - 1].end()
            marks[-1] += _units(text[done:start])
            marks += [_units(text[start:stop]), 0]
            done = stop
        at = end
    marks[-1] += _units(text[done:])
    return marks


def _units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2
