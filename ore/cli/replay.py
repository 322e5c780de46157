"""``--replay``: recorded runs asked again and compared with before.

Each is one model call; where only the answer is another one, a second call shows whether the server
gives the same answer twice.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from ore.artifact import read_artifact
from ore.artifact.canonical import text_digest
from ore.artifact.compare import Difference, unified
from ore.artifact.many import files_of
from ore.backends import Backend
from ore.backends.chat_template import read_chat_template
from ore.backends.model_options import parse_options
from ore.cli.options import Options
from ore.cli.rerun import Models, find_model
from ore.cli.terminal.console import Console
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

    Where the backend fails, what was done until then is written.
    """
    paths = list(files_of(options.replay))
    outcomes: list[Outcome] = []
    with ExitStack() as stack:
        report = None
        if options.junit is not None:
            report = stack.enter_context(junit_report(options.junit, "ore --replay"))
        again = _Replay(options, console, connect, stack.enter_context(ExitStack()))
        try:
            for number, path in enumerate(paths, 1):
                if len(paths) > 1:
                    console.notice(f"{number} of {len(paths)}: {one_line(path)}")
                began = time.monotonic()
                outcomes.append(again.once(path))
                if report is not None:
                    report.add(_case(outcomes[-1], time.monotonic() - began))
        finally:
            _write(outcomes, console, options.json)
    states = [each.state for each in outcomes]
    counts = [(states.count(state), text) for state, text in _FAILED.items()]
    found = [f"{count} of {len(states)} runs {text}" for count, text in counts if count]
    if found:
        raise CheckFailedError(f"{', and '.join(found)}: see above.")


class _Replay:
    """One ``--replay``; ``stack`` closes its last reasoner."""

    def __init__(
        self,
        options: Options,
        console: Console,
        connect: Callable[..., Backend],
        stack: ExitStack,
    ) -> None:
        self._options = options
        self._console = console
        self._models = Models(options, connect, stack)
        self._changed = parse_options(options.option)
        path = options.chat_template
        self._template = None if path is None else read_chat_template(path)

    def _all(self) -> Iterator[ExecutionArtifact]:
        """Yield the artifacts in files; a pipe can be read once, and is not for this."""
        for path in self._options.replay:
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


def _write(outcomes: list[Outcome], console: Console, as_json: bool) -> None:
    """Write the differences, then a line for each artifact."""
    if as_json:
        console.json([asdict(each) for each in outcomes])
        return
    for outcome in outcomes:
        if outcome.differences:
            console.document(unified(outcome.differences, outcome.path, "replay"))
    console.rows([(each.path, each.state, _details(each)) for each in outcomes])


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
