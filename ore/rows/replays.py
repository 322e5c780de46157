"""Recorded runs in files, each asked again of its own model and compared with before."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ore.artifact import read_artifact
from ore.artifact.canonical import text_digest
from ore.artifact.compare import Difference, unified
from ore.artifact.many import files_of
from ore.backends import Backend
from ore.backends.http import SPENT
from ore.backends.turn_errors import TurnFailedError
from ore.backends.unloading import beginnings
from ore.errors import (
    BackendTimeoutError,
    CapabilityError,
    ContextTruncatedError,
    ModelNotFoundError,
    OreError,
    UsageError,
)
from ore.files.neutral import one_line
from ore.glass.limits import became_another
from ore.glass.provenance import as_sent
from ore.glass.reopening import MOST_UNLOADS, Recalled, Reopening
from ore.glass.rerun import not_there
from ore.rows.expectations import Expectation, recorded_expectation
from ore.rows.judge import seen
from ore.rows.junit import ERROR, FAILURE, PASSED, Case, junit_report
from ore.rows.replaying import (
    DIGEST,
    WELL,
    Replay,
    answered,
    as_joined,
    compared,
    template_of,
    warnings_beside,
)
from ore.types import ExecutionArtifact
from ore.types.sent import listed

NOT_RUN = "not run"
"""The state of what could not be asked again."""
MODEL_CHANGED = "model changed"
"""How it is said, before all else, that the model is another one than then."""


@dataclass(frozen=True)
class Replayed:
    """What became of one artifact.

    Attributes:
        path: Its file.
        state: One of ``Replay.state``, or ``"not run"``.
        messages: ``"embedded"`` in the artifact, or ``"rebuilt"`` from what it names.
        differences: What is known of both runs and not the same, as texts.
        on_purpose: What is another one on purpose, in a few words each.
        unknown: What could not be compared.
        reason: Why it was not run.
        expectation: What holds of the new answer, where the run had an expectation.
    """

    path: str
    state: str
    messages: str | None = None
    differences: list[Difference] = field(default_factory=list[Difference])
    on_purpose: list[str] = field(default_factory=list[str])
    unknown: list[str] = field(default_factory=list[str])
    reason: str | None = None
    expectation: dict[str, Any] | None = None

    @property
    def holds(self) -> bool:
        """Whether it is the same, or as expected."""
        return self.state in WELL

    @property
    def details(self) -> str:
        """What there is to say of its state, on one line: why it was not run, or what differs."""
        if self.reason is not None:
            return self.reason
        names = [each.name for each in self.differences]
        parts = [MODEL_CHANGED if DIGEST in names else "", ", ".join(names)]
        if self.state == "not as expected" and self.expectation is not None:
            parts.append(seen(self.expectation))
        parts.append(f"messages {self.messages}")
        parts += [f"on purpose: {', '.join(self.on_purpose)}"] if self.on_purpose else []
        parts += [f"not known: {', '.join(self.unknown)}"] if self.unknown else []
        return "; ".join(part for part in parts if part)


def replay_files(given: Iterable[Path | str], opening: Reopening) -> Iterator[Replayed]:
    """Yield what becomes of each recorded run, asked again as ``--replay`` does.

    A run is one model call; where only the answer is another one, and nothing was changed or expected,
    a second call shows whether the model gives the same answer twice; if so, a third one shows whether
    it does when an Ollama server has just loaded it, or llama.cpp's leaves its cache out, and two more
    whether it does after other prompts.
    Where they show no other answer for three runs of a model in a row, there is no third one.

    Args:
        given: Paths of artifacts, or of folders of them.
        opening: Opens each run with its model; says what is to be another one.

    Raises:
        ArtifactError: A folder can't be read, or has no artifact.
        OreError: A backend can't be used; what is one run's own fault is a part of what is yielded.
    """
    for path in files_of([os.fspath(each) for each in listed("given", given)]):
        yield replay_file(path, opening)


def replay_file(
    path: Path | str,
    opening: Reopening,
    stdin: io.BufferedIOBase | None = None,
    warned: Callable[[str], None] | None = None,
) -> Replayed:
    """Return what becomes of one recorded run: see ``replay_files``.

    Args:
        path: Its file; ``"-"`` is stdin.
        opening: Opens it with its model; says what is to be another one.
        stdin: What is read for ``"-"``.
        warned: Told what of the new answer is not what was asked for; None is ``opening.notice``.

    Raises:
        OreError: A backend can't be used; what is the run's own fault is a part of what is returned.
    """
    name = os.fspath(path)
    try:
        old = read_artifact(name, stdin)
        recalled, expected = opening.recall(old), recorded_expectation(old)
    except OreError as exc:
        return _not_run(name, exc)
    backend = opening.backend(recalled)
    try:
        with _checked(recalled, backend):
            found = _asked(old, recalled, opening, expected)
    except ModelNotFoundError as exc:
        if opening.wanted.model is not None:
            raise
        return _not_run(name, exc)
    except CapabilityError as exc:
        return _not_run(name, exc, not_there(old, backend, exc))
    except (ContextTruncatedError, TurnFailedError, UsageError) as exc:
        return _not_run(name, exc)
    except BackendTimeoutError as exc:
        if not exc.partial:  # else the server answers, and not this run in time
            raise
        return _not_run(name, exc)
    texts = warnings_beside(old, found.artifact, opening.settings(recalled))
    another = became_another(found.artifact, recalled.rerun.model, recalled.rerun.pin)
    for text in [*texts, *([] if another is None else [another])]:
        (warned or opening.notice)(f"{one_line(name)}: {text}")
    return Replayed(
        name,
        found.state,
        messages=found.messages,
        differences=list(found.differences),
        on_purpose=[text for text in _changes(opening, old, found.artifact).values() if text],
        unknown=list(found.unknown),
        expectation=found.expectation,
    )


@contextmanager
def _checked(recalled: Recalled, backend: Backend) -> Iterator[None]:
    """Look whether the model can be the one that is asked for; a pin's check is a part of the deadline."""
    if recalled.rerun.pin is not None:
        backend.prepare()  # which takes nothing of it
    began = time.monotonic()
    recalled.rerun.check(backend)
    spent = SPENT.set(time.monotonic() - began)
    try:
        yield
    finally:
        SPENT.reset(spent)


def _asked(
    old: ExecutionArtifact,
    recalled: Recalled,
    opening: Reopening,
    expected: Expectation | None,
) -> Replay:
    backend, settings = opening.backend(recalled), opening.settings(recalled)
    messages = recalled.messages

    def ask() -> ExecutionArtifact:
        reasoner = opening.reasoner(recalled, settings)
        with opening.waiting(backend.phase):
            sources = [each.source for each in messages]
            given = (recalled.rerun.model, settings, as_sent(messages), sources)
            new = answered(old, reasoner, backend, *given)
        SPENT.set(0.0)  # a second turn has its whole deadline
        return new

    def changed(new: ExecutionArtifact) -> dict[str, str]:
        return _changes(opening, old, new)

    place = (recalled.rerun.backend, recalled.rerun.model)
    sent = as_joined(old, as_sent(messages))
    anew, *others = beginnings(backend, recalled.rerun.model, settings, sent)

    def first() -> bool:
        opening.unloads_in_vain[place] += 1
        return opening.unloads_in_vain[place] <= MOST_UNLOADS and anew()

    def after(other: Callable[[], bool]) -> bool:
        with opening.waiting(backend.phase):
            return other()

    again: list[Callable[[], bool]] = [first, *(partial(after, each) for each in others)]
    found = compared(old, ask, recalled.how, expected, changed, again=again)
    if found.state == "not repeatable":
        opening.unloads_in_vain[place] = 0
    return found


def _changes(opening: Reopening, old: ExecutionArtifact, new: ExecutionArtifact) -> dict[str, str]:
    """Return what is another one on purpose, by its name, each with a few words of it."""
    changed: dict[str, str] = {}
    if opening.wanted.model is not None and new.input.model_id != old.input.model_id:
        model = f"model {old.input.model_id} -> {new.input.model_id}"
        changed = {"model_id": model, DIGEST: ""}
    if opening.options:
        changed["options"] = "options " + " ".join(opening.option_texts)
    template = opening.chat_template
    if template is not None and text_digest(template) != template_of(old):
        changed["chat_template"] = "chat template"
    return changed


def case_of(outcome: Replayed, seconds: float) -> Case:
    """Return a run that was asked again as JUnit has it: what does not hold is a failure.

    Args:
        outcome: What became of it.
        seconds: How long that took.
    """
    folder, name = os.path.split(outcome.path)
    result = PASSED if outcome.holds else ERROR if outcome.state == NOT_RUN else FAILURE
    why = "" if outcome.holds else f"{outcome.state}: {outcome.details}"
    diff = unified(outcome.differences, outcome.path, "replay") if outcome.differences else why
    return Case(name, folder or "replay", seconds, result, why, diff)


def write_junit(path: Path | str, outcomes: Iterable[Replayed], name: str = "ore") -> None:
    """Write what became of runs as JUnit XML, as ``--replay --junit`` does.

    Args:
        path: The file; one that is no such report is never replaced.
        outcomes: What ``replay_files`` yields; each is timed as it is asked for.
        name: What the report is called.

    Raises:
        OutputError: It can't be written.
        OreError: What ``outcomes`` raises; what was done until then is written.
    """
    began = time.monotonic()
    with junit_report(os.fspath(path), name) as report:
        for outcome in outcomes:
            report.add(case_of(outcome, time.monotonic() - began))
            began = time.monotonic()


def _not_run(path: str, error: OreError, why: str | None = None) -> Replayed:
    return Replayed(path, NOT_RUN, reason=str(error) if why is None else why)
