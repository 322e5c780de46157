"""Answers judged by what is expected of them; the verdict goes into the metadata of the response."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any

from ore.artifact.canonical import canonical
from ore.backends.http import MOST_VALUES, REPLY_LIMIT, shorten
from ore.backends.schema import judge_of
from ore.backends.settings import Settings
from ore.errors import CheckFailedError
from ore.files import strictjson
from ore.files.neutral import one_line
from ore.files.strictjson import is_list, is_object, part
from ore.glass.limits import IN_CIRCLES, RepeatedLines, seldom_said, warnings_of
from ore.glass.origin import around
from ore.reasoner import Reasoner, require_response
from ore.rows.expectations import (
    AT_LEAST,
    KINDS,
    PATTERN_SECONDS,
    VERDICT,
    Expectation,
    pattern_finder,
)
from ore.types import ExecutionArtifact, Message, Response

_MOST_SHOWN = 300  # characters of an answer, or of what was expected
_MOST_NAMED = 20  # texts that are not in an answer


def require(response: Response) -> None:
    """Raise where an answer was judged and does not hold.

    Raises:
        CheckFailedError: It says what was seen.
    """
    verdict = response.metadata.get(VERDICT)
    if is_object(verdict) and not verdict.get("holds"):
        raise CheckFailedError(f"The answer is not what was expected: {seen(verdict)}.")


def not_as_asked(response: Response, settings: Settings) -> list[str]:
    """Return what of a row's answer is not what was asked for, a sentence each.

    It is what ``warnings_of`` yields, or it goes round in circles, or a word was chosen that the model
    would hardly say.
    """
    seldom = None if settings.choices is None else seldom_said(response)
    circles = IN_CIRCLES if RepeatedLines().closed_by(response.content + "\n") else None
    return [*warnings_of(response, settings), *(each for each in (circles, seldom) if each)]


def seen(verdict: Mapping[str, Any]) -> str:
    """Return what was seen of an answer that does not hold, on one line; nothing in it is advice."""
    said = "; ".join(f"{each['kind']}: {each['seen']}" for each in verdict["failed"])
    return said.replace("`", "'")


def verdict_of(expectation: Expectation, artifact: ExecutionArtifact) -> dict[str, Any]:
    """Return what holds of the answer in an artifact."""
    output = artifact.output
    with closing(Judging(expectation)) as judging:
        return judging.verdict(
            Response(output.content, output.model_id, metadata=dict(output.metadata))
        )


def value_of(text: str) -> Any:
    """Return an answer parsed as JSON; ``ValueError`` where it is not JSON."""
    data = text.encode("utf-8", "surrogatepass")
    return strictjson.parse(data, limit=REPLY_LIMIT, most=MOST_VALUES)


def _with(response: Response, metadata: dict[str, Any]) -> Response:
    """Return a response with other metadata, whatever class a program has made of it."""
    return Response(response.content, response.model_id, response.id, response.timestamp, metadata)


def judged(response: Response, expected: str) -> Response:
    """Return a response with the verdict on it: that its text is the one that is expected.

    What was judged of it before stays a part of the verdict.
    """
    with closing(Judging(Expectation({"equals": expected}))) as judging:
        verdict = judging.verdict(response)
    kept = part(response.metadata, VERDICT)  # an earlier run may have kept anything
    problems = kept.get("failed")
    failed = [
        each
        for each in (problems if is_list(problems) else ())
        if is_object(each) and {"kind", "seen"} <= each.keys() and each["kind"] != "equals"
    ]
    failed += verdict["failed"]
    both = {
        "wanted": part(kept, "wanted") | verdict["wanted"],
        "holds": not failed,
        "failed": failed,
    }
    return _with(response, {**response.metadata, VERDICT: both})


def judged_anew(response: Response, judging: Judging | None, expected: str | None) -> Response:
    """Return an answer that an earlier run has kept with the verdict of this run, and of no other.

    Args:
        response: The answer.
        judging: What judges answers in this run, or None.
        expected: The text that is expected of this one, or None.
    """
    metadata = {name: value for name, value in response.metadata.items() if name != VERDICT}
    if judging is not None:
        metadata[VERDICT] = judging.verdict(response)
    response = _with(response, metadata)
    return response if expected is None else judged(response, expected)


def judging_of(reasoner: Reasoner) -> Judging | None:
    """Return what judges the answers of a reasoner, or None."""
    found = (each.judging for each in around(reasoner) if isinstance(each, JudgingReasoner))
    return next(found, None)


class Judging:
    """Judges answers by one expectation; what it needs a process of its own for is made once.

    Several threads may ask it at once.
    """

    def __init__(self, expectation: Expectation) -> None:
        self._wanted = expectation.wanted
        self._held, self._lock = ExitStack(), threading.Lock()
        if "matches" in self._wanted:
            self._pattern = pattern_finder()
            self._held.callback(self._pattern.close)
        if "schema" in self._wanted:
            self._judge = self._held.enter_context(judge_of(self._wanted["schema"]))

    def close(self) -> None:
        """End the processes, if there are any."""
        self._held.close()

    def verdict(self, response: Response) -> dict[str, Any]:
        """Return what holds of an answer, and what was seen where it does not."""
        kinds = [kind for kind in KINDS if kind in self._wanted]
        with self._lock:
            found = [(kind, self._problem(kind, response)) for kind in kinds]
        failed = [{"kind": kind, "seen": problem} for kind, problem in found if problem]
        return {"wanted": dict(self._wanted), "holds": not failed, "failed": failed}

    def _problem(self, kind: str, response: Response) -> str:
        text, wanted = response.content, self._wanted[kind]
        if kind == "equals":
            is_same = text.strip() == wanted.strip()
            return "" if is_same else f"{_shown(wanted)} was expected, and {_shown(text)} was seen"
        if kind == "contains":
            return _not_there(wanted, text)
        if kind == "choice":
            return _choice_problem(response, wanted, self._wanted.get(AT_LEAST))
        judge: Callable[[str], str] = {
            "matches": self._not_found,
            "json": self._not_same,
            "schema": self._not_fitting,
        }[kind]
        try:
            return judge(text)
        except ValueError as exc:
            return f"{exc}, in {_shown(text)}"

    def _not_found(self, text: str) -> str:
        pattern = self._wanted["matches"]
        try:
            is_found = self._pattern(text, pattern)
        except TimeoutError:
            return (
                f"looking for {_shown(pattern)} takes longer than {self._pattern.seconds:g} seconds"
            )
        except OSError as exc:
            return f"{_shown(pattern)} can't be looked for: {shorten(str(exc))}"
        return "" if is_found else f"{_shown(pattern)} is not found in {_shown(text)}"

    def _not_same(self, text: str) -> str:
        value = value_of(text)
        wanted = canonical(self._wanted["json"])
        # What is not equal to Python has no canonical form in common, and the form of much takes long.
        if value == self._wanted["json"] and canonical(value) == wanted:
            return ""
        return f"{_shown(wanted.decode('utf-8'))} was expected, and {_shown(text)} was seen"

    def _not_fitting(self, text: str) -> str:
        value = value_of(text)
        problem = self._judge.violation(value)
        return f"{problem}, in {_shown(text)}" if problem else ""


class JudgingReasoner(Reasoner):
    """Asks another reasoner, and adds to each answer whether it is what was expected.

    Args:
        inner: The reasoner that answers; it is closed with this one.
        expectation: What is expected.

    Attributes:
        judging: What judges them.
    """

    def __init__(self, inner: Reasoner, expectation: Expectation) -> None:
        self.inner = inner
        self.judging: Judging = Judging(expectation)

    def reason(self, messages: list[Message]) -> Response:
        """Answer with one call of the inner reasoner."""
        return self._judged(self.inner.reason(messages))

    def stream_reason(self, messages: list[Message]) -> Generator[str, None, Response]:
        """Pass a stream of the inner reasoner on; what it returns is judged."""
        response = yield from self.inner.stream_reason(messages)
        return self._judged(response)

    def close(self) -> None:
        """Close the inner reasoner, and what judges."""
        self.judging.close()
        self.inner.close()

    def _judged(self, response: Response) -> Response:
        require_response(response)
        metadata = {**response.metadata, VERDICT: self.judging.verdict(response)}
        return _with(response, metadata)


def _not_there(wanted: Sequence[str], text: str) -> str:
    missing, ends = list[str](), time.monotonic() + PATTERN_SECONDS
    for each in wanted:
        if time.monotonic() > ends:
            return (
                f"looking for {len(wanted):,} texts takes longer than {PATTERN_SECONDS:g} seconds"
            )
        if each not in text:
            missing.append(each)
    named = " and ".join(map(_shown, missing[:_MOST_NAMED]))
    named += f" and {more:,} more" if (more := len(missing) - _MOST_NAMED) > 0 else ""
    return f"{named} is not in {_shown(text)}" if missing else ""


def _choice_problem(response: Response, wanted: str, at_least: float | None) -> str:
    chosen = response.content.strip()
    probability = part(response.metadata, "choice").get("probability")
    if chosen != wanted.strip():
        return f"{_shown(wanted)} was expected, and {_shown(chosen)} was chosen"
    if at_least is None:
        return ""
    if not isinstance(probability, (int, float)):
        return "nothing says how likely it is: nothing was chosen"
    if probability >= at_least:
        return ""
    return f"{_shown(chosen)} has the probability {probability:.4f}, and {at_least:g} was expected"


def _shown(text: str) -> str:
    cut = text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "…"
    return f"'{one_line(cut)}'"
