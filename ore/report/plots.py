"""Plots of a report: where their bars and points stand. The page's template draws them as SVG."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import quantiles

from ore.report.run_facts import RunFacts

WIDTH, HEIGHT = 320, 150
"""Of a plot without its axis, in units of the drawing."""
MOST_BINS = 24
MOST_SERIES = 5
"""Models that have a colour of their own; the others share one."""
_LONG_TAIL = 30
"""How many times the median the largest value is, above which the axis is logarithmic."""
_SHARES = 10
"""Bins of probabilities."""


@dataclass
class Bar:
    """A rectangle of a plot; ``series`` is its colour, ``title`` what it says of itself."""

    x: float
    y: float
    width: float
    height: float
    series: int
    title: str


@dataclass
class Plot:
    """A plot: its bars or points, the marks of its two axes, and what it is made of in words."""

    title: str
    said: str
    bars: list[Bar] = field(default_factory=list)
    points: list[Bar] = field(default_factory=list)
    x_marks: list[tuple[float, str]] = field(default_factory=list)
    y_marks: list[tuple[float, str]] = field(default_factory=list)
    has_diagonal: bool = False


def series_of(runs: Iterable[RunFacts]) -> list[str]:
    """Return the models that have a colour of their own: those of most runs, the first first."""
    counts = Counter(run.model for run in runs if run.is_read)
    return [model for model, _ in counts.most_common(MOST_SERIES)]


def plots_of(runs: Sequence[RunFacts]) -> list[Plot]:
    """Return the plots of what is known of some runs; what nothing is known of has none."""
    found = [
        _histogram(runs, "Answer tokens", "", lambda run: run.answer_tokens),
        _histogram(runs, "Time to first token", "s", lambda run: run.first),
        _histogram(runs, "Whole time", "s", lambda run: run.seconds),
        _histogram(runs, "Tokens a second", "", lambda run: run.rate),
        _histogram(runs, "Window used", "%", lambda run: _percent(run.used)),
        _histogram(runs, "Confidence of the chosen word", "%", lambda run: _percent(run.chosen)),
        _calibration(runs),
    ]
    return [plot for plot in found if plot is not None]


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _histogram(
    runs: Sequence[RunFacts], title: str, unit: str, value: Callable[[RunFacts], float | None]
) -> Plot | None:
    models = {model: at for at, model in enumerate(series_of(runs))}
    known = [
        (each, models.get(run.model, MOST_SERIES))
        for run in runs
        if (each := value(run)) is not None
    ]
    if not known:
        return None
    values = sorted(each for each, _ in known)
    edges, is_log = _edges(values, unit)
    counts = [Counter[int]() for _ in edges[1:]]
    for each, series in known:
        counts[_bin(each, edges)][series] += 1
    most = max(each.total() for each in counts)
    plot = Plot(title, _said(values, unit, is_log))
    plot.x_marks = [
        (at * WIDTH / len(counts), _figure(edges[at], unit)) for at in _marked(len(counts))
    ]
    plot.y_marks = [(HEIGHT - HEIGHT * n / most, f"{n:,}") for n in sorted({most, most // 2} - {0})]
    wide = WIDTH / len(counts)
    for at, of_bin in enumerate(counts):
        top = float(HEIGHT)
        for series, number in sorted(of_bin.items()):
            high = HEIGHT * number / most
            top -= high
            span = f"{_figure(edges[at], unit)} to {_figure(edges[at + 1], unit)}"
            plot.bars.append(
                Bar(
                    round(at * wide + 0.5, 2),
                    round(top, 2),
                    round(wide - 1, 2),
                    round(high, 2),
                    series,
                    f"{span}: {number:,}",
                )
            )
    return plot


def _edges(values: Sequence[float], unit: str) -> tuple[list[float], bool]:
    """Return where the bins of sorted values begin and end, and whether they grow."""
    low, high, middle = values[0], values[-1], values[len(values) // 2]
    bins = min(MOST_BINS, max(6, math.ceil(math.sqrt(len(values)))))
    if unit == "%":
        top = 100.0 if high <= 100 else high
        return [top * at / 20 for at in range(21)], False
    if low > 0 and high > _LONG_TAIL * middle:
        ratio = (high / low) ** (1 / bins)
        return [low * ratio**at for at in range(bins)] + [high], True
    step = _nice(high / bins) if high > 0 else 1.0
    if all(float(each).is_integer() for each in values):
        step = max(step, 1.0)
    return [step * at for at in range(int(high / step) + 2)], False


def _nice(step: float) -> float:
    """Return the least of 1, 2, 2.5, 5, 10 times a power of ten that is not below ``step``."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(each * power for each in (1, 2, 2.5, 5, 10) if each * power >= step * 0.999999)


def _bin(value: float, edges: Sequence[float]) -> int:
    for at in range(len(edges) - 2):
        if value < edges[at + 1]:
            return at
    return len(edges) - 2


def _marked(bins: int) -> list[int]:
    step = max(1, math.ceil(bins / 5))
    return [*range(0, bins, step), *([bins] if bins % step == 0 else [])]


def _said(values: Sequence[float], unit: str, is_log: bool) -> str:
    parts = [f"{len(values):,} runs" if len(values) > 1 else "1 run"]
    if len(values) > 1:
        cuts = quantiles(values, n=20, method="inclusive")
        parts += [f"median {_figure(cuts[9], unit)}", f"95 % up to {_figure(cuts[18], unit)}"]
    parts.append(f"most {_figure(values[-1], unit)}")
    return ", ".join(parts) + ("; logarithmic" if is_log else "")


def _figure(value: float, unit: str) -> str:
    size = abs(value)
    is_whole = size >= 100 or float(value).is_integer()
    digits = 0 if is_whole else 1 if size >= 10 else 2 if size >= 0.1 else 3
    text = f"{value:,.{digits}f}"
    return f"{text} {unit}" if unit else text


def _calibration(runs: Sequence[RunFacts]) -> Plot | None:
    """Return how often a word that was chosen is right, by how likely it was said to be."""
    known = [
        (run.chosen, run.is_right)
        for run in runs
        if run.chosen is not None and run.is_right is not None
    ]
    if not known:
        return None
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(_SHARES)]
    for chosen, is_right in known:
        bins[min(int(chosen * _SHARES), _SHARES - 1)].append((chosen, is_right))
    marks = [(0.0, "0 %"), (0.5, "50 %"), (1.0, "100 %")]
    plot = Plot("Calibration", "", has_diagonal=True)
    plot.x_marks = [(WIDTH * at, said) for at, said in marks]
    plot.y_marks = [(HEIGHT - HEIGHT * at, said) for at, said in marks]
    gap = 0.0
    for each in filter(None, bins):
        mean = sum(chosen for chosen, _ in each) / len(each)
        right = sum(is_right for _, is_right in each) / len(each)
        gap += abs(mean - right) * len(each) / len(known)
        size = 3 + 9 * math.sqrt(len(each) / len(known))
        said = f"said {100 * mean:.1f} %, right {100 * right:.1f} %: {len(each):,}"
        plot.points.append(
            Bar(
                round(WIDTH * mean, 2),
                round(HEIGHT - HEIGHT * right, 2),
                round(size, 2),
                0,
                0,
                said,
            )
        )
    are_right = sum(is_right for _, is_right in known)
    plot.said = (
        f"{are_right:,} of {len(known):,} right; across: how likely the word was said to be, up: how "
        f"often it was right; on the line they are the same. Mean gap {100 * gap:.1f} %"
    )
    return plot
