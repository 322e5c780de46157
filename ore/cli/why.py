"""``--why``: which of its sources a recorded answer rests on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict

from ore.artifact import read_artifact
from ore.backends import Backend
from ore.cli.options import Options
from ore.cli.reopen import reopening
from ore.cli.terminal.console import Console
from ore.files.neutral import one_line
from ore.glass.influence import Explained, Influence, explain

_BAR = 20
"""The characters of the longest bar."""
_EIGHTHS = " ▏▎▍▌▋▊▉"


def why(options: Options, console: Console, connect: Callable[..., Backend]) -> None:
    """Write how much less likely the answer at ``options.why`` is without each of its sources.

    Raises what ``explain`` does.
    """
    path = one_line(str(options.why))
    artifact = read_artifact(str(options.why), console.stdin)
    doing = ["scoring"]

    def tell(number: int, of: int, source: str) -> None:
        without = f" without {one_line(source)}" if source else ""
        doing[0] = f"scoring {number} of {of}{without}"
        if number == 1:
            console.begin_waiting(lambda: doing[0])
            console.notice(
                f"Scoring the answer {of} times, once for each source and once with all."
            )

    with reopening(options, console, connect, others=None) as opening:
        try:
            whole, parts = explain(artifact, opening, tell=tell, name=path)
        finally:
            console.end_waiting()
    _write(whole, parts if options.by else [], console, options)


def _write(
    whole: Explained, parts: Sequence[Explained], console: Console, options: Options
) -> None:
    if options.json:
        shown = asdict(whole)
        console.json(shown | ({"sentences": [asdict(each) for each in parts]} if parts else {}))
        return
    if not parts:
        console.rows(_rows(whole, console))
    for number, part in enumerate(parts):
        if console.stdout_is_terminal:
            console.document(f"{chr(10) if number else ''}{part.text.strip()}\n")
            console.rows(_rows(part, console))
        else:
            console.rows([(str(number + 1), *row) for row in _rows(part, console)])


def _rows(part: Explained, console: Console) -> list[tuple[str, ...]]:
    widest = max((abs(each.drop) for each in part.sources), default=0.0)
    return [
        (
            each.source,
            f"{each.drop:.2f} nats" if console.stdout_is_terminal else f"{each.drop:.4f}",
            _share(each, console.stdout_is_terminal),
            *((_bar(each.drop, widest),) if console.stdout_is_terminal else ()),
        )
        for each in part.sources
    ]


def _share(influence: Influence, is_for_a_person: bool) -> str:
    if influence.share is None:
        return ""
    return f"{influence.share:.0%}" if is_for_a_person else f"{influence.share:.4f}"


def _bar(drop: float, widest: float) -> str:
    """Return a bar for a drop; without it the answer is likelier where that is below 0: no bar."""
    eighths = round(8 * _BAR * drop / widest) if widest and drop > 0 else 0
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
