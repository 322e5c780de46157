"""``--verify --with-model``: what the models of artifacts say of them; loaded where one is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from ore.artifact.verify import Checked, read_again
from ore.backends import Backend
from ore.cli.options import Options
from ore.cli.reopen import reopening
from ore.cli.terminal.console import Console
from ore.files.neutral import one_line
from ore.glass.judging import REJECT, Judgement, in_words, judge_checked


class Said(NamedTuple):
    """What the model of an artifact says of its answer, ``in_words`` for its line."""

    judgement: Judgement
    in_words: str
    is_rejected: bool


def judgements(
    found: Sequence[Checked],
    options: Options,
    console: Console,
    connect: Callable[..., Backend],
) -> tuple[list[Said | None], BaseException | None]:
    """Return what the models say of each artifact, None for what is no artifact; and what ended that.

    Where a backend can't be used, whatever the artifact, what was said until then is kept.
    """
    judged: list[Said | None] = []
    try:
        _judge(found, options, console, connect, judged)
    except BaseException as exc:  # it is raised when what was done is written
        return judged, exc
    return judged, None


def _judge(
    found: Sequence[Checked],
    options: Options,
    console: Console,
    connect: Callable[..., Backend],
    judged: list[Said | None],
) -> None:
    with reopening(options, console, connect, [each.path for each in found]) as opening:
        for number, each in enumerate(found, 1):
            if len(found) > 1:
                console.notice(f"{number} of {len(found)}: {one_line(each.path)}")
            judgement = judge_checked(each, opening)
            if judgement is not None and judgement.reason is not None:
                judgement = replace(judgement, reason=console.said(judgement.reason))
            judged.append(None if judgement is None else _said(each, judgement))


def _said(checked: Checked, judgement: Judgement) -> Said:
    artifact = read_again(checked)
    words = "" if artifact is None else in_words(judgement, artifact.output.content)
    return Said(judgement, words, judgement.verdict == REJECT)
