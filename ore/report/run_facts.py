"""What a report keeps of one run: figures, verdicts, and texts as they are shown."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ore.artifact.canonical import text_digest
from ore.artifact.show import when
from ore.artifact.sources import PERSONA, SYSTEM, answered_by, doubt_of_images, hashed_sources
from ore.artifact.verify import NOT_READ, Checked
from ore.files.neutral import as_utf8, neutralise, one_line
from ore.files.strictjson import part
from ore.types import ExecutionArtifact
from ore.types.artifact_fields import cut_off_by

LONGEST_TEXT = 20_000
"""The most characters of a prompt or an answer that a page shows."""
MOST_LISTED, LONGEST_VALUE, _MOST_WORDS = 100, 300, 20
"""Of a list the entries, of a value the characters, and of a choice the words, that a page shows."""

_OF_ALL = ("backend", "server_version", "model_digest", "ore_version", "persona", "join_messages")
_PARTS = ("threads", "batch_threads", "batch", "quantization", "parameter_count", "template_sha256")
"""What many runs have alike of their provenance, and of what was in force."""

Pairs = list[tuple[str, str]]


@dataclass
class RunFacts:
    """One run, as a report shows it; what is not known is None.

    Attributes:
        path: The file.
        state: What ``--verify`` says of it: see ``ore.artifact.verify``.
        why: Why it does not hold, or can't be read.
        folder: Which of the named paths it is of, from 0.
        prompt, answer: As they are shown: neutral, and cut at ``LONGEST_TEXT`` characters.
        prompt_length, answer_length: Characters before they were cut.
        prompt_is_cut, answer_is_cut: Whether they were.
        answer_key: What is the same for two runs with the same answer.
        prompt_tokens, answer_tokens: As the backend counted them.
        seconds: Of the whole turn.
        first: Seconds until the first token came.
        rate: Answer tokens a second, while they were written.
        window: The context window, in tokens.
        used: The share of it that prompt and answer fill.
        is_cut: Whether a limit, or the server's filter, cut the answer off.
        is_truncated: Whether the model has not seen all of the prompt.
        holds: Whether the answer is what was expected; None where nothing was.
        seen: What was seen of an answer that is not.
        is_right: Whether the word that was chosen is the expected one.
        chosen: How likely the chosen word was.
        asked: What is the same for two runs that were asked the same: see ``_asked``.
        own, shared: More to look at, each a label and a text: of this run, and what many have alike.
        messages: The source of each message, and its SHA-256.
    """

    path: str
    state: str
    why: str = ""
    folder: int = 0
    execution_id: str = ""
    timestamp: float | None = None
    prompt: str = ""
    answer: str = ""
    prompt_length: int = 0
    answer_length: int = 0
    prompt_is_cut: bool = False
    answer_is_cut: bool = False
    answer_key: str = ""
    model: str = ""
    prompt_tokens: float | None = None
    answer_tokens: float | None = None
    seconds: float | None = None
    first: float | None = None
    rate: float | None = None
    window: float | None = None
    used: float | None = None
    is_cut: bool = False
    is_truncated: bool = False
    holds: bool | None = None
    seen: str = ""
    is_right: bool | None = None
    chosen: float | None = None
    asked: str = ""
    own: Pairs = field(default_factory=list)
    shared: Pairs = field(default_factory=list)
    messages: Pairs = field(default_factory=list)

    @property
    def is_read(self) -> bool:
        """Whether it is a run at all, and not a file that nothing could be read of."""
        return bool(self.asked)


def facts_of(checked: Checked) -> RunFacts:
    """Return what a report keeps of one artifact, whole or not."""
    why = why_of(checked)
    artifact = checked.artifact
    if artifact is None:
        return RunFacts(checked.path, NOT_READ, why)
    prompt, answer = artifact.input.prompt, artifact.output.content
    facts = RunFacts(
        checked.path,
        checked.state,
        why,
        execution_id=_line(artifact.execution_id),
        timestamp=artifact.timestamp,
        prompt=shown(prompt, LONGEST_TEXT),
        answer=shown(answer, LONGEST_TEXT) if answer.strip() else "",
        prompt_length=len(prompt),
        answer_length=len(answer),
        prompt_is_cut=len(prompt) > LONGEST_TEXT,
        answer_is_cut=len(answer) > LONGEST_TEXT,
        answer_key=text_digest(answer.strip()),
        model=_line(answered_by(artifact)),
        asked=_asked(artifact),
    )
    _add_figures(facts, artifact.output.metadata)
    _add_verdict(facts, artifact)
    _add_details(facts, artifact)
    if checked.signature is not None and checked.signature.by is not None:
        facts.own.append(("signed by", _line(checked.signature.by)))
    return facts


def why_of(checked: Checked) -> str:
    """Return why an artifact does not hold, can't be read, or is not signed as it has to be."""
    signature = checked.signature
    why = signature.problem if signature is not None else None
    return _line("; ".join([*checked.problems, *([why] if why else [])]))


def shown(text: str, most: int) -> str:
    """Return a text of a run as a page holds it: nothing in it turns the writing or hides."""
    return neutralise(as_utf8(text[:most]))


def _line(value: Any) -> str:
    if type(value) in (int, float):
        return repr(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    cut = f"{text[:LONGEST_VALUE]}…" if len(text) > LONGEST_VALUE else text
    return one_line(as_utf8(cut))


def _asked(artifact: ExecutionArtifact) -> str:
    """Return a hash of what was asked: the prompt and all that was sent with it.

    The model, its options, and the system prompt are not part of that: they are what is compared.
    """
    sent = [
        [source.partition(":")[0], sha256]
        for source, sha256 in hashed_sources(artifact)
        if source not in (PERSONA, SYSTEM) and not source.startswith("prompt")
    ]
    images = artifact.output.metadata.get("images") or []
    return text_digest(json.dumps([artifact.input.prompt, sent, images]))


def _number(values: Mapping[str, Any], key: str) -> float | None:
    """Return a count or a time, None where nothing says it: a server may say anything.

    A number above 0 and below a billionth doesn't count, so that no quotient of two is infinite.
    """
    value = values.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if value == 0 or 1e-9 <= value < 1e18 else None


def _seconds(values: Mapping[str, Any], *keys: str) -> float | None:
    known = [each for each in (_number(values, key) for key in keys) if each is not None]
    return sum(known) / 1e9 if known else None


def _add_figures(facts: RunFacts, metadata: Mapping[str, Any]) -> None:
    context = part(metadata, "context")
    facts.answer_tokens = _number(metadata, "eval_count")
    facts.prompt_tokens = _number(metadata, "prompt_eval_count") or None
    if not facts.prompt_tokens and not facts.answer_tokens:  # a server that counts nothing
        facts.answer_tokens = None
    parts = ("load_duration", "prompt_eval_duration", "eval_duration")
    facts.seconds = _seconds(metadata, "total_duration") or _seconds(metadata, *parts)
    facts.first = _seconds(metadata, "first_token_duration")
    if facts.first is None and _number(metadata, "prompt_eval_duration"):
        facts.first = _seconds(metadata, *parts[:2])  # Ollama's: loading, and reading the prompt
    writing = _number(metadata, "eval_duration")
    if writing and facts.answer_tokens:
        facts.rate = facts.answer_tokens * 1e9 / writing
    facts.window = _number(context, "window") or None
    if facts.window and facts.prompt_tokens is not None:
        facts.used = (facts.prompt_tokens + (facts.answer_tokens or 0)) / facts.window
    facts.is_cut = cut_off_by(metadata) is not None
    facts.is_truncated = context.get("status") == "truncated"


def _add_verdict(facts: RunFacts, artifact: ExecutionArtifact) -> None:
    verdict = part(artifact.provenance or {}, "expectation")
    choice = part(artifact.output.metadata, "choice")
    share = _number(choice, "probability")
    facts.chosen = share if share is not None and share <= 1 else None
    if words := part(choice, "probabilities"):
        first = list(words.items())[:_MOST_WORDS]
        likely = [f"{_line(word)} {_share(each)}" for word, each in first]
        left = len(words) - _MOST_WORDS
        more = [f"{left:,} more"] if left > 0 else []
        facts.own.append(("chosen from", ", ".join([*likely, *more])))
    if not isinstance(verdict.get("holds"), bool):
        return
    facts.holds = verdict["holds"]
    wanted, failed = part(verdict, "wanted"), verdict.get("failed")
    parts = [each for each in failed if isinstance(each, dict)] if isinstance(failed, list) else []
    facts.seen = "; ".join(_line(each.get("seen")) for each in parts[:MOST_LISTED])
    facts.own += _listed("expected", list(wanted.items()))
    word = wanted.get("equals", wanted.get("choice"))
    if isinstance(word, str) and facts.chosen is not None:
        facts.is_right = artifact.output.content.strip() == word.strip()


def _share(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) and math.isfinite(value) else _line(value)


def _add_details(facts: RunFacts, artifact: ExecutionArtifact) -> None:
    provenance = artifact.provenance or {}
    own, shared = facts.own, facts.shared
    own.insert(0, ("id", _line(artifact.execution_id)))
    own.insert(1, ("answered", when(facts.timestamp)))
    if artifact.input.model_id != answered_by(artifact):
        own.append(("asked of", _line(artifact.input.model_id)))
    for name, key in (("row", "number"), ("row", "line"), ("parent", "execution_id")):
        if (value := part(provenance, name).get(key)) is not None:
            own.append((f"{name}: {key}".replace("_", " "), _line(value)))
    facts.messages = _listed("message", hashed_sources(artifact))
    for key in ("tools", "skills", "routing"):
        if value := getattr(artifact.input, key):
            own.append((key, _line(value)))
    if (doubt := doubt_of_images(artifact)) is not None:
        own.append(("images", doubt))
    if artifact.continuation.requested:
        own.append(("declares a continuation", _line(artifact.continuation.reason)))
    shared += [
        (key.replace("_", " "), _line(provenance[key])) for key in _OF_ALL if provenance.get(key)
    ]
    shared += _listed("asked for", list(part(provenance, "options").items()))
    told = part(provenance, "effective")
    shared += [(key.replace("_", " "), _line(told[key])) for key in _PARTS if told.get(key)]
    in_force = part(told, "parameters").items()
    known = [(k, v) for k, v in in_force if isinstance(v, dict) and v.get("value") is not None]
    shared += _listed("in force", known, _with_origin)


def _listed(
    kind: str, values: Sequence[tuple[Any, Any]], said: Callable[[Any], str] = _line
) -> Pairs:
    """Return the first of a run's own names and values, and how many more there are."""
    pairs = [(f"{kind}: {_line(name)}", said(value)) for name, value in values[:MOST_LISTED]]
    left = len(values) - MOST_LISTED
    return [*pairs, ("not shown", f"{left:,} more")] if left > 0 else pairs


def _with_origin(parameter: dict[str, Any]) -> str:
    by = f" ({_line(parameter['from'])})" if parameter.get("from") else ""
    return _line(parameter["value"]) + by
