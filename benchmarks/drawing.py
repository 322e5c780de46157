"""One picture a topic, as SVG: ORE's ratio to what stands beside it, and the limit that is wanted.

Needs matplotlib (``benchmarks/requirements-drawing.txt``), which is loaded only to draw. Run as a program,
it reads a list of charts as JSON from stdin and draws them into the folder that is named.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.measure import Comparison
from benchmarks.place import Topic

INK, GRID, KEPT, MISSED, NO_LIMIT = "#24292f", "#d0d7de", "#2f7d4f", "#c8511b", "#6b8cae"


@dataclass(frozen=True)
class Bar:
    """One comparison, as it is drawn: what was done, the two figures, ratio, control and limit."""

    what: str
    figures: str
    ratio: float
    control: float | None
    limit: float | None
    is_kept: bool


@dataclass(frozen=True)
class Chart:
    """A topic as a picture: the file's name without its ending, and the bars from above."""

    name: str
    bars: tuple[Bar, ...]


def charts(results: Iterable[tuple[Topic, Sequence[Comparison] | str]]) -> list[Chart]:
    """Return what is to be drawn of a run: the numbers that the page's tables show."""
    return [
        Chart(file_name(topic), tuple(map(_bar, found)))
        for topic, found in results
        if not isinstance(found, str)
    ]


def file_name(topic: Topic) -> str:
    """Return the name of a topic's picture, without its ending."""
    return f"performance-{topic.name}"


def _bar(row: Comparison) -> Bar:
    what, ours, beside, theirs, *_ = (cell.replace("`", "") for cell in row.cells())
    limit = row.most if row.most is not None else row.least
    figures = f"{ours.split(' ±')[0]}, {beside}: {theirs.split(' ±')[0]}"
    return Bar(what, figures, row.ratio, row.control, limit, row.is_kept)


def as_text(found: Iterable[Chart]) -> str:
    """Return charts as the JSON that this program reads."""
    return json.dumps([asdict(chart) for chart in found])


def draw(chart: Chart, folder: Path) -> None:
    """Draw one chart as SVG: the same bytes for the same numbers.

    The axis is logarithmic and the bars begin at 1, so that half and twice are as long. Black is the
    limit; grey is what the other differs from itself by, where that was measured.
    """
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update(
        {"svg.hashsalt": "ore", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9}
    )
    from matplotlib import pyplot

    bars = chart.bars[::-1]
    figure, axes = pyplot.subplots(figsize=(8, 0.7 + 0.48 * len(bars)), layout="constrained")
    for at, bar in enumerate(bars):
        colour = NO_LIMIT if bar.limit is None else KEPT if bar.is_kept else MISSED
        axes.barh(at, bar.ratio - 1, left=1, height=0.34, color=colour)
        if bar.control is not None:
            axes.plot([bar.control], [at], "D", color="#8c959f", markersize=3.5)
        if bar.limit is not None:
            axes.plot([bar.limit] * 2, [at - 0.3, at + 0.3], color="black", linewidth=2)
        axes.annotate(
            f"{bar.ratio:.2f} · {bar.figures}",
            (1, at),
            xycoords=("axes fraction", "data"),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color=INK,
        )
    seen = [1.0, *(bar.ratio for bar in bars), *(bar.limit for bar in bars if bar.limit)]
    axes.set_xscale("log")
    axes.set_xlim(min(0.5, min(seen) * 0.8), max(2.0, max(seen) * 1.25))
    axes.set_ylim(-0.6, len(bars) - 0.4)
    axes.set_yticks(range(len(bars)), [bar.what for bar in bars], color=INK)
    marks = [each for each in (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 10, 50) if _inside(axes, each)]
    axes.set_xticks(marks, [f"{each:g}×" for each in marks], color=INK)
    axes.minorticks_off()
    axes.axvline(1, color=INK, linewidth=0.8)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    file = folder / f"{chart.name}.svg"
    figure.savefig(file, format="svg", facecolor="white", metadata={"Date": None})
    pyplot.close(figure)
    lines = [line.rstrip() for line in file.read_text(encoding="utf-8").splitlines()]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _inside(axes: object, mark: float) -> bool:
    low, high = axes.get_xlim()  # type: ignore[attr-defined]
    return bool(low <= mark <= high)


def main() -> None:
    """Draw what stdin holds into the folder that is named."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for each in json.load(sys.stdin):
        draw(Chart(each["name"], tuple(Bar(**bar) for bar in each["bars"])), folder)


if __name__ == "__main__":
    main()
