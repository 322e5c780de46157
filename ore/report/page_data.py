"""What the script of a report's page reads: the runs as JSON, in which nothing stands twice."""

from __future__ import annotations

from typing import Any

from ore.report.collecting import Collected
from ore.report.overview import Overview
from ore.report.pairs import Pair, SideBySide
from ore.report.run_facts import Pairs, RunFacts

COLUMNS = (
    *("path", "folder", "state", "why", "prompt", "promptCut", "answer", "answerCut", "model"),
    *("promptTokens", "tokens", "seconds", "first", "rate", "window", "used", "cut", "truncated"),
    *("holds", "seen", "chosen", "question", "own", "shared", "messages"),
)
"""What stands of a run, in this order."""


class _Pool:
    """Values by their numbers, each once."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._at: dict[Any, int] = {}

    def at(self, value: Any) -> int:
        """Return the number of a value."""
        if value not in self._at:
            self._at[value] = len(self.values)
            self.values.append(value)
        return self._at[value]


def document(collected: Collected, overview: Overview, sides: SideBySide | None) -> dict[str, Any]:
    """Return the runs of a report and their pairs as what JSON can hold."""
    texts, pairs, groups = _Pool(), _Pool(), _Pool()
    runs = [
        _row(run, overview.disagreeing.get(at, 0), texts, pairs, groups)
        for at, run in enumerate(collected.runs)
    ]
    return {
        "columns": COLUMNS,
        "texts": texts.values,
        "pairs": pairs.values,
        "groups": groups.values,
        "runs": runs,
        "folders": collected.named,
        "sides": None if sides is None else [_side(pair) for pair in sides.pairs],
    }


def _row(run: RunFacts, question: int, texts: _Pool, pairs: _Pool, groups: _Pool) -> list[Any]:
    def group(of: Pairs) -> int:
        return groups.at(tuple(pairs.at((texts.at(name), texts.at(text))) for name, text in of))

    return [
        run.path,
        run.folder,
        texts.at(run.state),
        run.why,
        run.prompt,
        run.prompt_length if run.prompt_is_cut else 0,
        run.answer,
        run.answer_length if run.answer_is_cut else 0,
        texts.at(run.model),
        run.prompt_tokens,
        run.answer_tokens,
        _rounded(run.seconds, 4),
        _rounded(run.first, 4),
        _rounded(run.rate, 2),
        run.window,
        _rounded(run.used, 4),
        int(run.is_cut),
        int(run.is_truncated),
        None if run.holds is None else int(run.holds),
        run.seen,
        _rounded(run.chosen, 4),
        question,
        [[texts.at(name), text] for name, text in run.own],
        group(run.shared),
        [[texts.at(source), texts.at(sha256)] for source, sha256 in run.messages],
    ]


def _side(pair: Pair) -> list[Any]:
    marks = [None, None] if pair.marks is None else list(pair.marks)
    return [pair.first, pair.second, int(pair.is_same), *marks]


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
