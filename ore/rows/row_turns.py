"""One row as one turn: one call, one artifact; or what is there of it from an earlier run."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ore.artifact import encode_artifact
from ore.artifact.canonical import text_digest
from ore.backends.settings import Settings
from ore.core import ORE
from ore.errors import OreError, UsageError
from ore.glass.limits import fit_of
from ore.glass.provenance import MadeWith, Sourced, TurnFacts, artifact_of, sent_digest
from ore.glass.turn_facts import in_force
from ore.rows.judge import judged, judged_anew, judging_of, not_as_asked
from ore.rows.kept import RowFolder, asked_digest, kept_otherwise
from ore.rows.placeholders import Template
from ore.rows.tables import Row
from ore.types import Response, ToolResult

if TYPE_CHECKING:  # rows that are not signed do not load it
    from ore.artifact.signing import Signer

_CHARACTER_BYTES = 8  # what one of a turn takes while it is asked: its text, and the request


@dataclass(frozen=True)
class Outcome:
    """What became of a row.

    Attributes:
        row: The row.
        content: The answer, or None where there is none.
        artifact: Where its artifact is, or None.
        error: Why there is no answer, or why it could not be kept.
        metadata: What the reasoner said of the turn.
        is_new: Whether the model was asked in this run.
        warnings: What the answer does not show by itself, a sentence each.
    """

    row: Row
    content: str | None = None
    artifact: Path | None = None
    error: OreError | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    is_new: bool = True
    warnings: tuple[str, ...] = ()

    @property
    def is_answered(self) -> bool:
        """Whether there is an answer, kept as it was to be."""
        return self.error is None


@dataclass(frozen=True)
class Question:
    """What all rows are asked alike.

    Attributes:
        template: The prompt, with a place for the value of each column it names.
        before: The messages before the prompt, with their sources.
        tool_results, skill_context, skills: What every turn is given besides.
        source: Where the prompt comes from, as artifacts name it.
        more: What ``provenance`` says of every row besides its number.
        values: What has a place in the prompt and is no column.
    """

    template: Template
    before: Sequence[Sourced] = ()
    tool_results: list[ToolResult] | None = None
    skill_context: list[str] | None = None
    skills: list[str] | None = None
    source: str = "prompt"
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])
    values: Mapping[str, str] = field(default_factory=dict[str, str])

    def prompt_of(self, row: Row) -> str:
        """Return the prompt of a ``row``.

        Raises:
            UsageError: A place has no value, or the prompt is blank, too long, or can't be sent.
        """
        prompt = self.template.fill({**self.values, **row.values})
        if not prompt.strip():
            raise UsageError("its prompt is blank")
        try:
            prompt.encode("utf-8")
        except UnicodeEncodeError as exc:
            raise UsageError(f"it has half a character (a lone surrogate at {exc.start})") from exc
        return prompt


class RowQuestion(NamedTuple):
    """What is asked of a row.

    Attributes:
        row: The row.
        prompt: The prompt, with the row's values.
        messages: All that is sent, and where each message comes from.
        digest: The hash of what is asked: see ``ore.rows.kept.asked_digest``.
    """

    row: Row
    prompt: str
    messages: list[Sourced]
    digest: str


class Warned(threading.local):
    """What a reasoner warns of in the middle of a turn: each thread's own."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def begin(self) -> list[str]:
        """Return an empty list, which what this thread is warned of is added to from here on."""
        self._texts = []
        return self._texts

    def add(self, text: str) -> None:
        """Take in the ``text`` of a warning."""
        self._texts.append(text)


def told_once(
    ask: Callable[[], Mapping[str, Any]], settings: Settings
) -> Callable[[Response], Mapping[str, Any]]:
    """Return a function that says what was in force in a turn, and asks the backend for it once.

    Args:
        ask: Returns what ``Backend.in_force`` does.
        settings: What was asked of the model.
    """
    by_window: dict[int | None, dict[str, Any]] = {}
    lock = threading.Lock()

    def told(response: Response) -> Mapping[str, Any]:
        window = fit_of(response).get("window")
        with lock:
            if window not in by_window:
                by_window[window] = in_force(settings, response, ask())
            return by_window[window]

    return told


class Asking:
    """Asks rows, several at once: nothing of a turn is kept here.

    Args:
        engine: What answers.
        made: What all artifacts say, with ``known``.
        question: What is asked.
        jobs: How many calls may be under way at once.
        folder: Where each row has its artifact, or None.
        told: Returns what was in force in a turn: see ``ore.backends.effective``.
        also: Told of each answer, and of its artifact's bytes; may raise ``OreError``.
        warned: What the reasoner warns with.
        signer: What signs each artifact in the folder, or None.
    """

    def __init__(
        self,
        engine: ORE,
        made: MadeWith,
        question: Question,
        *,
        jobs: int,
        folder: RowFolder | None,
        told: Callable[[Response], Mapping[str, Any]],
        also: Callable[[Response, bytes], None] | None = None,
        warned: Warned | None = None,
        signer: Signer | None = None,
    ) -> None:
        self.made: MadeWith = made
        self.jobs: int = jobs
        self._engine, self._question = engine, question
        self._calls = threading.Semaphore(jobs)
        self._folder, self._told, self._also = folder, told, also
        self._warned, self._signer = warned or Warned(), signer
        self._judging = judging_of(engine.reasoner)
        self._keeping, self._before = _Count(), sum(len(each.content) for each in question.before)

    def size_of(self, row: Row) -> int:
        """Return how many bytes a ``row`` and the turn that asks it take, about."""
        values = {**self._question.values, **row.values}
        characters = self._before + self._question.template.length(values)
        size = sum(map(sys.getsizeof, (*row.values.values(), row.expected)))
        return size + _CHARACTER_BYTES * characters

    def question_of(self, row: Row) -> RowQuestion:
        """Return what is asked of a ``row``.

        Raises:
            UsageError: It can't be asked.
        """
        prompt = self._question.prompt_of(row)
        messages = [*self._question.before, Sourced("user", prompt, self._question.source)]
        template = self.made.settings.chat_template
        known = {
            **(self.made.known or {}),
            **self._question.more,
            "model_id": self.made.backend.name_of(self.made.model_id),
            "messages_sha256": sent_digest(messages),
            "chat_template": template and {"sha256": text_digest(template)},
        }
        return RowQuestion(row, prompt, messages, asked_digest(known))

    def found(self, asked: RowQuestion) -> Outcome | None:
        """Return the answer that an earlier run has kept of what is ``asked`` of a row, if it holds."""
        if self._folder is None:
            return None
        row, path = asked.row, self._folder.path_of(asked.row.number, asked.digest)
        artifact = self._folder.find(path, asked.digest)
        if artifact is None:
            return None
        output = artifact.output
        there = Response(output.content, output.model_id, metadata=dict(output.metadata))
        asked_for = self.made.settings
        is_unknown = asked_for.strict_context and fit_of(there).get("status") != "complete"
        if is_unknown or (asked_for.logprobs and "logprobs" not in there.metadata):
            return None  # an earlier run has not asked for that
        warnings = (*not_as_asked(there, asked_for), *kept_otherwise(artifact, self.made))
        there = judged_anew(there, self._judging, row.expected)  # what is expected may be new
        return Outcome(
            row, output.content, path, None, there.metadata, is_new=False, warnings=warnings
        )

    def outcome_of(self, row: Row) -> Outcome:
        """Ask a ``row``, unless an earlier run has; what goes wrong is a part of what is returned."""
        try:
            asked = self.question_of(row)
            there = self.found(asked)
            return there if there is not None else self._answered(asked)
        except OreError as exc:
            return Outcome(row, error=exc)

    def wait_for_files(self, seconds: float) -> None:
        """Wait until no thread is writing an artifact, but for no more than so many ``seconds``."""
        self._keeping.wait(seconds)

    def _answered(self, asked: RowQuestion) -> Outcome:
        question, row = self._question, asked.row
        warnings = self._warned.begin()
        with self._calls:
            response = self._engine.execute(
                asked.prompt, None, question.tool_results, question.skill_context
            )
            self._keeping.begin()
        try:
            if row.expected is not None:
                response = judged(response, row.expected)
            warnings += not_as_asked(response, self.made.settings)
            outcome = Outcome(
                row, response.content, None, None, response.metadata, warnings=tuple(warnings)
            )
            if self._folder is None and self._also is None:
                return outcome
            return self._kept(outcome, asked, response)
        finally:
            self._keeping.end()

    def _kept(self, outcome: Outcome, asked: RowQuestion, response: Response) -> Outcome:
        """Write the artifact of an answer; an answer that can't be kept is not lost."""
        row, question = outcome.row, self._question
        turn = TurnFacts(
            asked.prompt,
            asked.messages,
            self._told(response),
            skills=question.skills,
            more={**question.more, "row": {"number": row.number, "line": row.line}},
        )
        try:
            data = encode_artifact(artifact_of(self.made, turn, response)).encode("ascii")
            try:
                if self._also is not None:
                    self._also(response, data)
            finally:  # one place has it where the other can't
                if self._folder is not None:
                    path = self._folder.path_of(row.number, asked.digest)
                    self._folder.write(path, data)
                    if self._signer is not None:
                        self._signer.sign_written(path, data)
                    outcome = replace(outcome, artifact=path)
        except OreError as exc:
            return replace(outcome, error=exc)
        return outcome


class _Count:
    """How many threads are in the middle of something that is to be done whole."""

    def __init__(self) -> None:
        self._number = 0
        self._changed = threading.Condition()

    def begin(self) -> None:
        with self._changed:
            self._number += 1

    def end(self) -> None:
        with self._changed:
            self._number -= 1
            self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        with suppress(RuntimeError), self._changed:
            self._changed.wait_for(lambda: self._number == 0, seconds)
