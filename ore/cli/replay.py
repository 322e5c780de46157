"""``--replay``: recorded runs asked again and compared with before.

Each is one model call; where only the answer is another one, a second call shows whether the server
gives the same answer twice.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from ore.artifact import read_artifact
from ore.artifact.canonical import text_digest
from ore.artifact.compare import Difference, unified
from ore.artifact.many import files_of, has_folder
from ore.backends import Backend
from ore.backends.chat_template import read_chat_template
from ore.backends.model_options import parse_options
from ore.cli.options import Options
from ore.cli.rerun import Models, find_model
from ore.cli.terminal.console import Console
from ore.cli.terminal.pace import REDRAW_SECONDS, in_words
from ore.errors import (
    ArtifactError,
    CapabilityError,
    CheckFailedError,
    ContextTruncatedError,
    ModelNotFoundError,
    OreError,
    UsageError,
)
from ore.files.neutral import one_line
from ore.glass.recall import recorded_messages, recorded_settings, recorded_template
from ore.rows.expectations import recorded_expectation
from ore.rows.judge import seen
from ore.rows.junit import ERROR, FAILURE, PASSED, Case, junit_report
from ore.rows.replaying import DIGEST, WELL, answered, as_sent, compared
from ore.types import ExecutionArtifact

MODEL_CHANGED = "model changed"
"""How it is said, before all else, that the model is another one than then."""

LOG_SECONDS = 60.0
"""How often a line says how far a folder is where no bar can be drawn."""

_FAILED = {
    "different": "are not the same",
    "not as expected": "are not as expected",
    "not repeatable": "have two answers when asked twice",
    "not run": "could not be repeated",
}


@dataclass(frozen=True)
class Outcome:
    """What became of one artifact.

    ``state`` is one of ``Replay``'s, or ``"not run"``.

    Attributes:
        messages: ``"embedded"`` or ``"rebuilt"``.
        on_purpose: What the flags changed, in a few words each.
        unknown: What could not be compared.
        reason: Why it was not run.
        expectation: What holds of the new answer, where the run had an expectation.
    """

    path: str
    state: str
    messages: str | None = None
    differences: list[Difference] = field(default_factory=list)
    on_purpose: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    reason: str | None = None
    expectation: dict[str, Any] | None = None


def replay(options: Options, console: Console, connect: Callable[..., Backend]) -> None:
    """Run the artifacts that ``options.replay`` names, or whose folders, and write what differs.

    Of each no more is kept than its line. Where the backend fails, what was done until then is written.
    """
    paths = list(files_of(options.replay))
    states: Counter[str] = Counter()
    lines: list[tuple[str, str, str]] = []
    failure: BaseException | None = None
    with ExitStack() as stack:
        report = None
        if options.junit is not None:
            report = stack.enter_context(junit_report(options.junit, "ore --replay"))
        shown = _Shown(console, len(paths), has_folder(options.replay), options.json)
        again = _Replay(options, console, connect, paths, stack.enter_context(ExitStack()), shown)

        def outcomes() -> Iterator[Outcome]:
            nonlocal failure
            try:
                for path in paths:
                    shown.begin(path, states)
                    began = time.monotonic()
                    outcome = again.once(path)
                    states[outcome.state] += 1
                    if report is not None:
                        report.add(_case(outcome, time.monotonic() - began))
                    yield outcome
            except BaseException as exc:  # it is raised when what was done is written
                failure = exc
            finally:
                console.end_progress()

        if options.json:
            console.json_list(asdict(each) for each in outcomes())
        else:
            for each in outcomes():
                if each.differences:
                    console.end_progress()
                    console.document(unified(each.differences, each.path, "replay"))
                lines.append((each.path, each.state, _details(each)))
            console.rows(lines)
        if failure is not None:
            raise failure
    found = [
        f"{states[state]} of {len(paths)} runs {text}"
        for state, text in _FAILED.items()
        if states[state]
    ]
    if found:
        raise CheckFailedError(f"{', and '.join(found)}: see above.")


class _Shown:
    """How far a replay is: a line for each artifact that was named; of folders a bar, or a line a minute.

    Where a list of JSON is written to the same terminal, nothing is shown in the middle of it.
    """

    def __init__(self, console: Console, count: int, is_of_folder: bool, as_json: bool) -> None:
        self._console, self._count, self._is_of_folder = console, count, is_of_folder
        self._is_mixed = as_json and console.stdout_is_terminal and count > 1
        self._begun = self._told = time.monotonic()
        self._number = 0

    @property
    def waits(self) -> bool:
        """Whether it is shown of a single run that it is waited for."""
        return not (self._is_mixed or self._is_of_folder)

    def begin(self, path: str, states: Counter[str]) -> None:
        """Show which one is next."""
        done, self._number = self._number, self._number + 1
        if self._is_mixed:
            return
        if not self._is_of_folder:
            if self._count > 1:
                self._console.notice(f"{self._number} of {self._count}: {one_line(path)}")
            return
        now, failed = time.monotonic(), sum(states[state] for state in _FAILED)
        every = REDRAW_SECONDS if self._console.can_redraw else LOG_SECONDS
        if done and now - self._told < every:
            return
        self._told = now
        parts = [f"{done:,} of {self._count:,} run again"]
        parts += [f"{failed:,} not as before"] if failed else []
        if done:
            parts.append(f"{in_words((now - self._begun) / done * (self._count - done))} left")
        text = ", ".join(parts)
        if not self._console.bar(text):
            self._console.notice(f"{text}.")


class _Replay:
    """One ``--replay``; ``stack`` closes its last reasoner."""

    def __init__(
        self,
        options: Options,
        console: Console,
        connect: Callable[..., Backend],
        paths: Sequence[str],
        stack: ExitStack,
        shown: _Shown,
    ) -> None:
        self._options, self._paths, self._shown = options, paths, shown
        self._console = console
        self._models = Models(options, connect, stack)
        self._changed = parse_options(options.option)
        path = options.chat_template
        self._template = None if path is None else read_chat_template(path)

    def _all(self) -> Iterator[ExecutionArtifact]:
        """Yield the artifacts in files; a pipe can be read once, and is not for this."""
        for path in self._paths:
            if os.path.isfile(path):
                with suppress(ArtifactError):
                    yield read_artifact(path)

    def once(self, path: str) -> Outcome:
        """Run one artifact again; raises what is not the fault of the artifact."""
        try:
            old = read_artifact(path, self._console.stdin)
            rerun = find_model(old, "It", self._options, follows=True)
            settings = recorded_settings(
                old,
                self._changed,
                timeout=self._options.timeout,
                deadline=self._options.deadline,
                strict_context=self._options.strict_context,
                chat_template=recorded_template(old, self._template),
            )
            how, messages = recorded_messages(old, self._console.notice, self._all)
            expected = recorded_expectation(old)
        except OreError as exc:
            return Outcome(path, "not run", reason=self._console.said(exc))
        backend = self._models.backend(rerun)
        if backend.name != "ollama":
            settings = replace(settings, keep_alive=None)

        def ask() -> ExecutionArtifact:
            reasoner = self._models.reasoner(backend, rerun.model, settings)
            if self._shown.waits:
                self._console.begin_waiting(backend.phase)
            try:
                sources = [each.source for each in messages]
                given = (rerun.model, settings, as_sent(messages), sources)
                return answered(old, reasoner, backend, *given)
            finally:
                self._console.end_waiting()

        try:
            rerun.check(backend)
            found = compared(old, ask, how, expected, partial(self._changes, old), twice=True)
        except (CapabilityError, ModelNotFoundError) as exc:
            if self._options.model is not None:
                raise
            return Outcome(path, "not run", reason=self._console.said(exc))
        except (ContextTruncatedError, UsageError) as exc:
            return Outcome(path, "not run", reason=self._console.said(exc))
        return Outcome(
            path,
            found.state,
            messages=found.messages,
            differences=list(found.differences),
            on_purpose=[text for text in self._changes(old, found.artifact).values() if text],
            unknown=list(found.unknown),
            expectation=found.expectation,
        )

    def _changes(self, old: ExecutionArtifact, new: ExecutionArtifact) -> dict[str, str]:
        """Return what the flags changed, each with a few words of it."""
        changed: dict[str, str] = {}
        if self._options.model is not None and new.input.model_id != old.input.model_id:
            model = f"model {old.input.model_id} -> {new.input.model_id}"
            changed = {"model_id": model, DIGEST: ""}
        if self._changed:
            changed["options"] = "options " + " ".join(self._options.option)
        if self._template is not None and text_digest(self._template) != _template_of(old):
            changed["chat_template"] = "chat template"
        return changed


def _template_of(artifact: ExecutionArtifact) -> object:
    """Return the hash of the chat template that a run was given, or None."""
    recorded = (artifact.provenance or {}).get("chat_template")
    return recorded.get("sha256") if isinstance(recorded, dict) else None


def _case(outcome: Outcome, seconds: float) -> Case:
    folder, name = os.path.split(outcome.path)
    is_well = outcome.state in WELL
    result = PASSED if is_well else ERROR if outcome.state == "not run" else FAILURE
    why = "" if is_well else f"{outcome.state}: {_details(outcome)}"
    diff = unified(outcome.differences, outcome.path, "replay") if outcome.differences else why
    return Case(name, folder or "replay", seconds, result, why, diff)


def _details(outcome: Outcome) -> str:
    if outcome.reason is not None:
        return outcome.reason
    names = [each.name for each in outcome.differences]
    parts = [MODEL_CHANGED if DIGEST in names else "", ", ".join(names)]
    if outcome.state == "not as expected" and outcome.expectation is not None:
        parts.append(seen(outcome.expectation))
    parts.append(f"messages {outcome.messages}")
    parts += [f"on purpose: {', '.join(outcome.on_purpose)}"] if outcome.on_purpose else []
    parts += [f"not known: {', '.join(outcome.unknown)}"] if outcome.unknown else []
    return "; ".join(part for part in parts if part)
