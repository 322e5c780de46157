"""What is expected of an answer, and whether it holds: six kinds, and no model judges.

Where several are given, all of them are to hold. The verdict is in the metadata of the response, and so
in whatever keeps the response.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ore.artifact.canonical import canonical
from ore.backends.http import REPLY_LIMIT, shorten
from ore.backends.schema import judge_of, read_schema
from ore.errors import ArtifactError, CheckFailedError, UsageError
from ore.files.bounded import Bounded
from ore.files.neutral import one_line
from ore.files.spelling import nearest
from ore.reasoner import Reasoner
from ore.types import ExecutionArtifact, Message, Response, strictjson

KINDS = ("equals", "contains", "matches", "json", "schema", "choice")
AT_LEAST = "at_least"
"""The least probability of a ``choice``."""

VERDICT = "expectation"
"""The key of the verdict in the metadata of a response."""

PATTERN_SECONDS = 3.0
"""How long a regular expression may look at an answer."""

_LONGEST_PATTERN = 10_000
_MOST_SHOWN = 300  # characters of an answer, or of what was expected
_QUOTE = "a text: put it in quotes"


@dataclass(frozen=True)
class Expectation:
    """What is expected, as it was written, after it was checked.

    Attributes:
        wanted: By kind; ``schema`` is the schema itself.
    """

    wanted: Mapping[str, Any]

    def around(self, reasoner: Reasoner) -> Reasoner:
        """Return a reasoner that judges every answer of another, and passes it on whatever it is."""
        return JudgingReasoner(reasoner, self)


def parse_expectation(wanted: Mapping[Any, Any], source: str) -> Expectation:
    """Return what is expected; everything is checked that can be before there is an answer.

    Args:
        wanted: By kind, as a file has it.
        source: What the file is called in an error.

    Raises:
        UsageError: A kind is unknown, or its value can't be judged by.
        ExtraNotInstalledError: ``schema`` needs a package that is not there.
    """
    known = (*KINDS, AT_LEAST)
    checked: dict[str, Any] = {}
    try:
        for kind, value in wanted.items():
            if kind not in known:
                near = nearest(str(kind), known)
                hint = f"; the nearest is '{near}'" if near else ""
                name = one_line(str(kind)[:40])
                raise UsageError(f"has '{name}'{hint}: there are {', '.join(known)}")
            checked[kind] = _CHECKS[kind](value)
        if AT_LEAST in checked and "choice" not in checked:
            raise UsageError("has at_least without choice: it is the probability of one")
        if not checked:
            raise UsageError(f"is empty: give one of {', '.join(KINDS)}")
        with closing(Judging(Expectation(checked))) as judging:
            judging.check()
    except UsageError as exc:
        raise UsageError(f"The expectation in {source} {str(exc).rstrip('.')}.") from exc
    return Expectation(checked)


def require(response: Response) -> None:
    """Raise where an answer was judged and does not hold.

    Raises:
        CheckFailedError: It says what was seen.
    """
    verdict = response.metadata.get(VERDICT)
    if isinstance(verdict, dict) and not verdict.get("holds"):
        raise CheckFailedError(f"The answer is not what was expected: {seen(verdict)}.")


def seen(verdict: Mapping[str, Any]) -> str:
    """Return what was seen of an answer that does not hold, on one line."""
    return "; ".join(f"{each['kind']}: {each['seen']}" for each in verdict["failed"])


def recorded_expectation(artifact: ExecutionArtifact) -> Expectation | None:
    """Return what was expected of a recorded run; None where nothing was. It names no file.

    Raises:
        ArtifactError: It can't be judged by.
    """
    kept = (artifact.provenance or {}).get(VERDICT)
    if kept is None:
        return None
    wanted = kept.get("wanted") if isinstance(kept, dict) else None
    if not isinstance(wanted, dict) or isinstance(wanted.get("schema"), str):
        raise ArtifactError("its provenance.expectation does not say what was expected")
    try:
        return parse_expectation(wanted, "it")
    except UsageError as exc:
        raise ArtifactError(f"its provenance.expectation can't be used: {exc}") from exc


def verdict_of(expectation: Expectation, artifact: ExecutionArtifact) -> dict[str, Any]:
    """Return what holds of the answer in an artifact."""
    output = artifact.output
    with closing(Judging(expectation)) as judging:
        return judging.verdict(
            Response(output.content, output.model_id, metadata=dict(output.metadata))
        )


class Judging:
    """Judges answers by one expectation; what it needs a process of its own for is made once.

    Several threads may ask it at once.
    """

    def __init__(self, expectation: Expectation) -> None:
        self._wanted = expectation.wanted
        self._held, self._lock = ExitStack(), threading.Lock()
        if "matches" in self._wanted:
            self._pattern = Bounded("ore.rows.patterns:finds", PATTERN_SECONDS)
            self._held.callback(self._pattern.close)
        if "schema" in self._wanted:
            self._judge = self._held.enter_context(judge_of(self._wanted["schema"]))

    def close(self) -> None:
        """End the processes, if there are any."""
        self._held.close()

    def check(self) -> None:
        """Find out whether the regular expression is one.

        Raises:
            UsageError: It is none, or can't be read in time.
        """
        if "matches" in self._wanted:
            try:
                self._pattern("", self._wanted["matches"])
            except (ValueError, OSError) as exc:
                raise UsageError(f"has a regular expression that can't be used: {exc}") from exc

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
            missing = [each for each in wanted if each not in text]
            named = " and ".join(map(_shown, missing))
            return f"{named} is not in {_shown(text)}" if missing else ""
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
            return f"looking for {_shown(pattern)} takes longer than {PATTERN_SECONDS:g} seconds"
        except OSError as exc:
            return f"{_shown(pattern)} can't be looked for: {shorten(str(exc))}"
        return "" if is_found else f"{_shown(pattern)} is not found in {_shown(text)}"

    def _not_same(self, text: str) -> str:
        value = strictjson.parse(text.encode("utf-8", "surrogatepass"), limit=REPLY_LIMIT)
        wanted = canonical(self._wanted["json"])
        if canonical(value) == wanted:
            return ""
        return f"{_shown(wanted.decode('utf-8'))} was expected, and {_shown(text)} was seen"

    def _not_fitting(self, text: str) -> str:
        value = strictjson.parse(text.encode("utf-8", "surrogatepass"), limit=REPLY_LIMIT)
        problem = self._judge.violation(value)
        return f"{problem}, in {_shown(text)}" if problem else ""


class JudgingReasoner(Reasoner):
    """Asks another reasoner, and adds to each answer whether it is what was expected.

    Args:
        inner: The reasoner that answers; it is closed with this one.
        expectation: What is expected.
    """

    def __init__(self, inner: Reasoner, expectation: Expectation) -> None:
        self.inner = inner
        self._judging = Judging(expectation)

    def reason(self, messages: list[Message]) -> Response:
        """Answer with one call of the inner reasoner."""
        return self._judged(self.inner.reason(messages))

    def stream_reason(self, messages: list[Message]) -> Generator[str, None, Response]:
        """Pass a stream of the inner reasoner on; what it returns is judged."""
        response = yield from self.inner.stream_reason(messages)
        return self._judged(response)

    def close(self) -> None:
        """Close the inner reasoner, and what judges."""
        self._judging.close()
        self.inner.close()

    def _judged(self, response: Response) -> Response:
        if not isinstance(response, Response):  # the core says so
            return response
        metadata = {**response.metadata, VERDICT: self._judging.verdict(response)}
        return replace(response, metadata=metadata)


def _choice_problem(response: Response, wanted: str, at_least: float | None) -> str:
    chosen, found = response.content.strip(), response.metadata.get("choice")
    probability = found.get("probability") if isinstance(found, dict) else None
    if chosen != wanted.strip():
        return f"{_shown(wanted)} was expected, and {_shown(chosen)} was chosen"
    if at_least is None:
        return ""
    if not isinstance(probability, (int, float)):
        return "nothing says how likely it is: nothing was chosen"
    if probability >= at_least:
        return ""
    return f"{_shown(chosen)} has the probability {probability:.4f}, and {at_least:g} was expected"


def _text(kind: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"has {kind} with no text: {kind} needs {_QUOTE}")
    return value


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, list) and value else [value]
    return [_text("contains", each) for each in values]


def _pattern(value: Any) -> str:
    if len(_text("matches", value)) > _LONGEST_PATTERN:
        raise UsageError(f"has a regular expression of more than {_LONGEST_PATTERN:,} characters")
    return str(value)


def _json(value: Any) -> Any:
    try:
        canonical(value)
    except ValueError as exc:
        raise UsageError(f"has json that is not JSON: {exc}") from exc
    return value


def _schema(value: Any) -> dict[str, Any]:
    text = json.dumps(value) if isinstance(value, dict) else _text("schema", value)
    try:
        return read_schema(text)
    except UsageError as exc:
        raise UsageError(f"can't be judged by: {exc}") from exc


def _probability(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise UsageError(f"has at_least {str(value)[:40]}: it is a number from 0 to 1")
    return float(value)


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "equals": partial(_text, "equals"),
    "contains": _texts,
    "matches": _pattern,
    "json": _json,
    "schema": _schema,
    "choice": partial(_text, "choice"),
    AT_LEAST: _probability,
}


def _shown(text: str) -> str:
    cut = text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "…"
    return f"'{one_line(cut)}'"
