"""What a form needs to know of runs: for each field the values there are, and in how many runs."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from ore.artifact.canonical import text_digest
from ore.artifact.many import files_of, looked_at
from ore.artifact.signers import Signers
from ore.artifact.sources import (
    PERSONA,
    SYSTEM,
    answered_by,
    doubt_of_images,
    hashed_sources,
    is_of_session,
    joined_messages,
    kept_system_prompt,
)
from ore.artifact.verify import HOLDS, NOT_READ, Checked, in_chain, let_go, look_at, totals
from ore.errors import ArtifactError, UsageError
from ore.files.neutral import one_line
from ore.files.strictjson import part
from ore.report.form_values import (
    MOST_VALUES,
    NOT_KNOWN,
    Value,
    access,
    day,
    joined_value,
    line_of,
    of_value,
    pair_value,
    sums_of,
    text_of,
)
from ore.types import ExecutionArtifact
from ore.types.artifact_fields import other_model
from ore.types.sent import listed

_HARDWARE = ("threads", "batch_threads", "batch")

Each = TypeVar("Each")
Said = dict[str, list[Value]]
"""What one run says: the values of each field."""


@dataclass
class Facts:
    """What all runs say.

    Attributes:
        runs: How many there are.
        values: Of each field the values, and in how many runs they are.
        more: Of each field in how many runs there are further values.
        at: When they were answered, in Unix seconds.
        sums: Tokens, seconds, and how many runs are this or that.
        asked: The answers of each question that was asked in the same way.
        prompts: A hash of each prompt.
    """

    runs: int = 0
    values: dict[str, Counter[Value]] = field(default_factory=dict)
    more: Counter[str] = field(default_factory=Counter)
    at: list[float] = field(default_factory=list)
    sums: Counter[str] = field(default_factory=Counter)
    asked: dict[str, Counter[str]] = field(default_factory=dict)
    prompts: set[str] = field(default_factory=set)
    checked: list[Checked] = field(default_factory=list)

    def add(self, run: _Run) -> None:
        """Take in a run."""
        self.runs += 1
        self.at.append(run.at)
        self.prompts.add(run.prompt)
        self.sums.update(run.sums)
        self.asked.setdefault(run.asked, Counter())[run.answer] += 1
        for name, values in run.said.items():
            known, has_more = self.values.setdefault(name, Counter()), False
            for value in dict.fromkeys(values):
                if value in known or len(known) < MOST_VALUES:
                    known[value] += 1
                else:
                    has_more = True
            self.more[name] += has_more


@dataclass(frozen=True)
class _Run:
    said: Said
    at: float
    sums: Mapping[str, float]
    asked: str
    answer: str
    prompt: str


def gather(
    paths: Iterable[os.PathLike[str] | str],
    allowed_signers: str | None = None,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> Facts:
    """Read the artifacts of files and folders, and check them as ``--verify`` does.

    Args:
        allowed_signers: A file of those who may have signed them, or None.
        told: Called with how many have been read, of how many.

    Raises:
        ArtifactError: There is none, or a folder or the allowed signers can't be read.
        UsageError: One of the paths is stdin.
    """
    files = list(files_of(os.fspath(path) for path in listed("paths", paths)))
    if "-" in files:
        raise UsageError("A form is not filled from stdin: name the file of the artifact.")
    signers = None if allowed_signers is None else Signers(allowed_signers)
    facts, known = Facts(), set[object]()
    for checked, run in looked_at(files, partial(_look, signers=signers)):
        facts.checked.append(checked)
        if run is not None and (same := _same(checked)) not in known:
            known.add(same)
            facts.add(run)
        told(len(facts.checked), len(files))
    in_chain(facts.checked)
    if not files:
        raise UsageError("There is nothing to report on: name artifacts, or folders of them.")
    if not facts.runs:
        first = facts.checked[0]
        why = one_line("; ".join(first.problems)).rstrip(".")
        where = "" if first.state == NOT_READ else f"{one_line(first.path)}: "
        raise ArtifactError(f"There is no run to fill a form from: {where}{why}.")
    _add_checks(facts)
    return facts


def _same(checked: Checked) -> object:
    """Return what is the same for an artifact and its copies, which are one run."""
    return checked.sha256 if checked.problems else checked.content


def _look(path: str, signers: Signers | None) -> tuple[Checked, _Run | None]:
    checked = look_at(path, None, signers)
    artifact = checked.artifact
    let_go(checked)
    return checked, None if artifact is None else _run_of(artifact)


def _run_of(artifact: ExecutionArtifact) -> _Run:
    provenance, metadata = artifact.provenance or {}, artifact.output.metadata
    effective = part(provenance, "effective")
    sources, doubt = hashed_sources(artifact), doubt_of_images(artifact)
    model, digest = _answering(artifact, provenance)
    exact = joined_value(model, digest)
    file = part(provenance, "run_file")
    nothing = [] if provenance else [of_value(None)]  # a run without it says nothing of them
    said: Said = {
        "ore_version": [of_value(provenance.get("ore_version"))],
        "model": [of_value(artifact.input.model_id)],
        "answered_by": [of_value(answered_by(artifact))],
        "models": [Value((line_of(model), line_of(digest or NOT_KNOWN)))],
        "model_exact": [exact],
        "backend": [joined_value(provenance.get("backend"), provenance.get("server_version"))],
        "access": [access(provenance.get("backend"))],
        "date": [Value((day(artifact.timestamp),), of_run=False)],
        "options": [pair_value(*each) for each in _first(part(provenance, "options").items())]
        or nothing,
        "quantization": [of_value(effective.get("quantization"))],
        "parameter_count": [of_value(effective.get("parameter_count"))],
        "template": [of_value(_template(provenance, effective))],
        "fingerprint": [of_value(metadata.get("system_fingerprint"))],
        "window": [of_value(part(metadata, "context").get("window"))],
        "hardware": [pair_value(key, effective[key]) for key in _HARDWARE if effective.get(key)]
        or [of_value(None)],
        "inputs": _hashes(_inputs(sources)) or nothing,
        "earlier": _hashes(each for each in sources if is_of_session(each[0])) or nothing,
        "own_tools": _own_tools(provenance, exact),
        "tools": [of_value(name) for name in _listed(artifact.input.tools)],
        "skills": [of_value(name) for name in _listed(artifact.input.skills)],
        "run_file": [joined_value(file.get("name"), file.get("sha256"))] if file else nothing,
        "images": [
            of_value(each) if doubt is None else joined_value(each, doubt)
            for each in _listed(metadata.get("images"))
        ],
        "system_prompt": [Value((_system_prompt(artifact, sources),))],
        "prompt": [Value((text_of(artifact.input.prompt),))],
        "answer": [Value((text_of(artifact.output.content),))],
        **_parameters(effective, is_scored=bool(metadata.get("choice"))),
    }
    is_known = bool(provenance.get("messages_sha256"))
    asked = f"{line_of(digest or model)} {_asked(artifact)}"
    return _Run(
        said,
        artifact.timestamp,
        sums_of(artifact, sources),
        text_digest(asked if is_known else artifact.execution_id),
        text_digest(artifact.output.content),
        text_digest(artifact.input.prompt),
    )


def _asked(artifact: ExecutionArtifact) -> str:
    """Return what is the same for two turns that were asked in the same way, but for their model."""
    provenance = artifact.provenance or {}
    return json.dumps(
        [
            *(provenance.get(key) for key in ("messages_sha256", "options")),
            part(provenance, "chat_template").get("sha256"),
            joined_messages(artifact),
            artifact.output.metadata.get("images") or [],
        ]
    )


def _parameters(effective: Mapping[str, Any], *, is_scored: bool) -> Said:
    """Return the parameters in force: each a name, its value, and who chose it.

    Of a turn that scores words, those of sampling are none, and not unknown.
    """
    none, rows = of_value(None), []
    if is_scored:
        none = Value(("none, for words were scored, and no text was sampled",), of_run=False)
    for name, each in _first(part(effective, "parameters").items()):
        known = each if isinstance(each, dict) else {}
        value = NOT_KNOWN if known.get("value") is None else line_of(known["value"])
        if value != NOT_KNOWN or not is_scored:
            rows.append(Value((line_of(name), value, line_of(known.get("from") or NOT_KNOWN))))
    said = [row.words for row in rows if row.words[1] != NOT_KNOWN]
    heat = [Value((f"{value} ({by})",)) for name, value, by in said if name == "temperature"]
    others = [f"{name} = {value} ({by})" for name, value, by in said if name != "temperature"]
    if is_scored and not rows:
        rows.append(
            Value(("none", "words were scored, and no text was sampled", "-"), of_run=False)
        )
    return {
        "parameters": rows,
        "temperature": heat or [none],
        "other_parameters": [Value((each,)) for each in others] or [none],
    }


def _add_checks(facts: Facts) -> None:
    """Add what was found of all of them together."""
    by = dict.fromkeys(
        (_same(each), each.signature.by)
        for each in facts.checked
        if each.signature is not None and each.signature.by is not None
    )
    names = Counter(name for _, name in by)
    facts.values["signed_by"] = Counter(
        {Value((line_of(name),)): count for name, count in names.most_common(MOST_VALUES)}
    )
    facts.values["verified"] = Counter(
        {Value((totals([each.state for each in facts.checked]),), of_run=False): facts.runs}
    )
    facts.sums["hold"] = sum(each.state == HOLDS for each in facts.checked)
    again = [answers for answers in facts.asked.values() if sum(answers.values()) > 1]
    facts.sums["again"] = len(again)
    facts.sums["alike"] = sum(len(answers) == 1 for answers in again)


def _answering(artifact: ExecutionArtifact, provenance: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the model that answered, and its digest, which is that of the model that was asked."""
    other = other_model(artifact.output.model_id, artifact.output.metadata)
    return (other, None) if other else (artifact.input.model_id, provenance.get("model_digest"))


def _template(provenance: Mapping[str, Any], effective: Mapping[str, Any]) -> Any:
    return part(provenance, "chat_template").get("sha256") or effective.get("template_sha256")


def _own_tools(provenance: Mapping[str, Any], model: Value) -> list[Value]:
    """Return the tools of the user's own that ran, each after the ``model`` that it ran for."""
    names = _first(part(provenance, "tool_definitions"))
    return [Value((*model.words, *of_value(name).words)) for name in names]


def _listed(values: Any) -> list[Any]:
    return _first(values) if isinstance(values, list) else []


def _first(values: Iterable[Each]) -> list[Each]:
    """Return as many values of a run as are kept, and one more, so that it is known that there are."""
    return list(islice(values, MOST_VALUES + 1))


def _hashes(sources: Iterable[tuple[str, str]]) -> list[Value]:
    return [Value((line_of(name), line_of(sha256))) for name, sha256 in _first(sources)]


def _inputs(sources: list[tuple[str, str]]) -> list[tuple[str, str]]:
    kinds = ("file:", "tool:", "skill:", "artifact:", "stdin", "prompt+stdin")
    return [each for each in sources if each[0].startswith(kinds)]


def _system_prompt(artifact: ExecutionArtifact, sources: list[tuple[str, str]]) -> str:
    """Return the text of the system prompt, or what is known in its place."""
    sent = [sha256 for source, sha256 in sources if source in (PERSONA, SYSTEM)]
    if not sent:
        return "None" if sources else NOT_KNOWN
    try:
        text = kept_system_prompt(artifact)
    except ValueError:  # what does not fit its hash is not shown as the text
        text = None
    if text is None:
        return f"[not in the artifact; SHA-256 {line_of(sent[0])}]"
    return text_of(text)
