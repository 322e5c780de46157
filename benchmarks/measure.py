"""Interleaved measurements, what they compare, and the tables that show it.

Cases take turns run by run, and the order is reversed every other round, so that a machine which
slows down or warms up slows or warms every case alike. Knows nothing about what is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import TypeVar

Measured = TypeVar("Measured")

HEAD = ("", "ORE", "beside", "it takes", "ratio", "same again", "wanted")
_UNITS = {"ms": 1e3, "s": 1.0, "MB": 1e-6, "/s": 1.0}
"""What a unit makes of seconds, bytes, or things a second."""


@dataclass(frozen=True)
class Comparison:
    """What ORE took beside what something else took for the same, run by run.

    Attributes:
        what: What was done.
        unit: How the figures are shown: ``ms`` or ``s`` (of seconds), ``MB`` (of bytes), ``/s``.
        ours: ORE's seconds, bytes, or things a second.
        beside: The name of the other.
        theirs: The same of the other.
        again: The same of the other once more, so that its ratio to ``theirs`` shows what this
            machine can tell apart; empty where that was not measured.
        most: The largest ratio that is wanted, or None.
        least: The smallest ratio that is wanted, or None.
    """

    what: str
    unit: str
    ours: Sequence[float]
    beside: str
    theirs: Sequence[float]
    again: Sequence[float] = ()
    most: float | None = None
    least: float | None = None

    @property
    def ratio(self) -> float:
        """ORE as a multiple of the other: the median of the rounds."""
        return _of_rounds(self.ours, self.theirs)

    @property
    def control(self) -> float | None:
        """The other as a multiple of itself: the median of the rounds."""
        return _of_rounds(self.again, self.theirs) if self.again else None

    @property
    def is_kept(self) -> bool:
        """Whether the ratio is what is wanted, or nothing is."""
        ratio = round(self.ratio, 2)
        return (self.most is None or ratio <= self.most) and (
            self.least is None or ratio >= self.least
        )

    def cells(self) -> tuple[str, ...]:
        """Return the row of a table whose head is ``HEAD``."""
        control = "" if self.control is None else f"{self.control:.2f}"
        return (
            self.what,
            shown(self.ours, self.unit),
            self.beside,
            shown(self.theirs, self.unit),
            f"{self.ratio:.2f}",
            control,
            self._wanted(),
        )

    def _wanted(self) -> str:
        if self.most is None and self.least is None:
            return ""
        limit = f"≤ {self.most:g}" if self.most is not None else f"≥ {self.least:g}"
        return f"{limit}: {'kept' if self.is_kept else 'MISSED'}"


def interleaved(cases: dict[str, Callable[[], Measured]], runs: int) -> dict[str, list[Measured]]:
    """Run every case ``runs`` times, taking turns, and return what each returned, in run order."""
    results: dict[str, list[Measured]] = {name: [] for name in cases}
    for number in range(runs):
        names = list(cases) if number % 2 == 0 else list(reversed(cases))
        for name in names:
            results[name].append(cases[name]())
    return results


def warmed(cases: dict[str, Callable[[], Measured]], runs: int) -> dict[str, list[Measured]]:
    """The same as ``interleaved`` after a round that does not count: files and bytecode are there."""
    interleaved(cases, 1)
    return interleaved(cases, runs)


def spread(values: Sequence[float]) -> float:
    """Return half the distance between the quartiles, as a share of the median."""
    if len(values) < 2:
        return 0.0
    low, _, high = quantiles(values, n=4, method="inclusive")
    return (high - low) / 2 / median(values) if median(values) else 0.0


def shown(values: Sequence[float], unit: str) -> str:
    """Return a median with its unit and its spread."""
    value = median(values) * _UNITS[unit]
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit} ± {spread(values):.0%}".replace(" /s", "/s")


def _of_rounds(values: Sequence[float], others: Sequence[float]) -> float:
    # What was measured within one round met the same machine, however that changes between rounds.
    return median(value / other for value, other in zip(values, others, strict=True))


def table(rows: Iterable[Sequence[str]]) -> str:
    """Return rows as text in columns; the first row is the head."""
    texts = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in texts]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def markdown(rows: Iterable[Sequence[str]]) -> str:
    """Return rows as a Markdown table; the first row is the head, and figures align right."""
    head, *body = rows
    rule = ["---" if name in ("", "beside") else "---:" for name in head]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *body))
