"""Interleaved measurements and the table that shows them.

Cases take turns run by run, and the order is reversed every other round, so that a machine which
slows down or warms up slows or warms every case alike. Knows nothing about what is measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

Measured = TypeVar("Measured")


def interleaved(cases: dict[str, Callable[[], Measured]], runs: int) -> dict[str, list[Measured]]:
    """Run every case ``runs`` times, taking turns, and return what each returned, in run order."""
    results: dict[str, list[Measured]] = {name: [] for name in cases}
    for number in range(runs):
        names = list(cases) if number % 2 == 0 else list(reversed(cases))
        for name in names:
            results[name].append(cases[name]())
    return results


def median(values: Sequence[float]) -> float:
    """Return the middle of the values."""
    return statistics.median(values)


def spread(values: Sequence[float]) -> float:
    """Return half the distance between the quartiles, as a share of the median."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / 2 / median(values) if median(values) else 0.0


def table(rows: Iterable[Sequence[object]]) -> str:
    """Return the rows as text in columns, the first row as the head; numbers align right."""
    texts = [[_cell(value) for value in row] for row in rows]
    if not texts:
        return ""
    widths = [max(len(row[column]) for row in texts) for column in range(len(texts[0]))]
    lines = [_line(row, widths) for row in texts]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _cell(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = (
        text.ljust(width) if column == 0 else text.rjust(width)
        for column, (text, width) in enumerate(zip(row, widths))
    )
    return "  ".join([first, *rest]).rstrip()
