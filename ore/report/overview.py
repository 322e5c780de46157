"""What a report says before its table: totals, and the runs that are worth a look."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from ore.artifact.show import when
from ore.artifact.verify import HOLDS
from ore.report.run_facts import RunFacts


@dataclass
class Total:
    """A figure, what it is of, and more about it."""

    name: str
    figure: str
    more: str = ""


@dataclass
class Finding:
    """Runs that are worth a look: ``kind`` names them to the page's script."""

    kind: str
    said: str


@dataclass
class Overview:
    """The totals, the findings, and which runs are of a question that models answer otherwise.

    Attributes:
        disagreeing: Of a run its number in the report, and the number of its question.
    """

    totals: list[Total] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    disagreeing: dict[int, int] = field(default_factory=dict)


def overview_of(runs: Sequence[RunFacts]) -> Overview:
    """Return what the page says of some runs together."""
    overview = Overview(_totals(runs))
    overview.disagreeing = _disagreeing(runs)
    overview.findings = _findings(runs, overview.disagreeing)
    return overview


def _totals(runs: Sequence[RunFacts]) -> list[Total]:
    read = [run for run in runs if run.is_read]
    models = Counter(run.model for run in read)
    most = ", ".join(f"{name} ({count:,})" for name, count in models.most_common(3))
    tokens = [run.answer_tokens for run in read if run.answer_tokens is not None]
    prompts = [run.prompt_tokens for run in read if run.prompt_tokens is not None]
    times = [run.seconds for run in read if run.seconds is not None]
    known = [run.timestamp for run in read if run.timestamp is not None]
    dates = sorted(at for at in known if when(at))
    judged = [run.holds for run in read if run.holds is not None]
    states = Counter(run.state for run in runs)
    others = ", ".join(f"{count:,} {state}" for state, count in states.items() if state != HOLDS)
    span = "" if not dates else f"{when(dates[0])} to {when(dates[-1])}"
    return [
        Total("Runs", f"{len(read):,}", span if len(read) > 1 else span.partition(" to ")[0]),
        Total("Models", f"{len(models):,}", most + ("…" if len(models) > 3 else "")),
        _tokens(tokens, prompts, len(read)),
        Total(
            "Time",
            duration(sum(times)) if times else "not known",
            f"known of {len(times):,} of {len(read):,} runs",
        ),
        Total(
            "Failed checks",
            f"{judged.count(False):,}" if judged else "none made",
            f"of {len(judged):,} answers that were checked" if judged else "",
        ),
        Total("Verified", f"{states[HOLDS]:,} of {len(runs):,}", others or "all hold"),
    ]


def _tokens(answers: Sequence[float], prompts: Sequence[float], runs: int) -> Total:
    more = []
    if 0 < len(answers) < runs:
        more.append(f"known of {len(answers):,} of {runs:,} runs")
    if prompts:
        of = f" (known of {len(prompts):,} of {runs:,} runs)" if len(prompts) < runs else ""
        more.append(f"{sum(prompts):,.0f} of prompts{of}")
    return Total(
        "Answer tokens", f"{sum(answers):,.0f}" if answers else "not known", ", ".join(more)
    )


def duration(seconds: float) -> str:
    """Return a time as a person reads it."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:,.1f} h"


def _disagreeing(runs: Sequence[RunFacts]) -> dict[int, int]:
    """Return the runs of each question that was asked of several models, and answered otherwise."""
    alike: dict[str, list[int]] = defaultdict(list)
    for at, run in enumerate(runs):
        if run.is_read:
            alike[run.asked].append(at)
    found: dict[int, int] = {}
    number = 0
    for group in alike.values():
        answers: dict[str, set[str]] = defaultdict(set)
        for at in group:
            answers[runs[at].model].add(runs[at].answer_key)
        if len(answers) > 1 and len(set.union(*answers.values())) > 1:
            number += 1
            found |= dict.fromkeys(group, number)
    return found


def _findings(runs: Sequence[RunFacts], disagreeing: dict[int, int]) -> list[Finding]:
    times = [run.seconds for run in runs if run.seconds is not None]
    found = []
    if len(times) > 1:
        found.append(Finding("slowest", f"The slowest: {duration(max(times))}"))
    for kind, said, number in (
        ("cut", "Answer cut off by a limit or a filter", sum(run.is_cut for run in runs)),
        ("truncated", "Prompt not read whole", sum(run.is_truncated for run in runs)),
        ("empty", "Empty answer", sum(run.is_read and not run.answer for run in runs)),
        ("failed", "Not as expected", sum(run.holds is False for run in runs)),
        ("unverified", "Does not verify", sum(run.state != HOLDS for run in runs)),
        ("disagree", "Questions on which models disagree", len(set(disagreeing.values()))),
    ):
        if number:
            found.append(Finding(kind, f"{said}: {number:,}"))
    return found
