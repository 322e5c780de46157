"""A run as whoever gets its artifact reads it: as data, and as Markdown."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Any

from ore.artifact.canonical import DIGITS_SHOWN
from ore.artifact.sources import (
    MAY_BE_UNREAD,
    PERSONA,
    SYSTEM,
    answered_by,
    doubt_of_images,
    hashed_sources,
    is_of_session,
    kept_system_prompt,
)
from ore.artifact.verify import Checked
from ore.files.neutral import one_line
from ore.files.strictjson import part
from ore.types import ExecutionArtifact
from ore.types.artifact_fields import cut_off_by

_NAMED = {"skills": "skill:", "tools": "tool:", "files": "file:"}
_KEYS = (
    *("model_digest", "backend", "server_version", "ore_version", "options", "effective", "joined"),
    *("chat_template", "grants", "parent"),
)
_OF_FILES = ("run_file", "expectation")
"""What is only there where a file said what to ask, or what to expect."""
_MOST_LISTED = 100


def described(checked: Checked, artifact: ExecutionArtifact) -> dict[str, Any]:
    """Return what an artifact says of its run, as a JSON object, after whether it holds."""
    provenance, hashed = artifact.provenance or {}, hashed_sources(artifact)
    metadata = artifact.output.metadata
    choice, doubt = metadata.get("choice"), doubt_of_images(artifact)
    named = {
        kind: [
            {"name": source.removeprefix(prefix), "sha256": sha256}
            for source, sha256 in hashed
            if source.startswith(prefix)
        ]
        for kind, prefix in _NAMED.items()
    }
    return {
        "path": checked.path,
        "verdict": checked.state,
        "problems": checked.problems,
        "notes": checked.notes,
        "execution_id": artifact.execution_id,
        "timestamp": artifact.timestamp,
        "mode": artifact.input.mode,
        "model_id": artifact.input.model_id,
        "answered_by": answered_by(artifact),
        **{key: provenance.get(key) for key in _KEYS},
        "system_prompt": _system_prompt(artifact, hashed),
        **named,
        "earlier_messages": sum(is_of_session(source) for source, _ in hashed),
        "images": metadata.get("images") or [],
        **({"images_read": metadata.get("images_read")} if doubt is not None else {}),
        **_cuts(metadata),
        "routing": artifact.input.routing,
        "continuation": vars(artifact.continuation),
        **{key: provenance[key] for key in _OF_FILES if isinstance(provenance.get(key), dict)},
        **({"choice": choice} if isinstance(choice, dict) else {}),
        "prompt": artifact.input.prompt,
        "answer": artifact.output.content,
    }


def _cuts(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return what cut the answer off, and whether not all of the prompt was read; neither if it is whole."""
    cut, context = cut_off_by(metadata), part(metadata, "context")
    is_truncated = context.get("status") == "truncated"
    return ({"cut_off_by": cut} if cut else {}) | ({"is_truncated": True} if is_truncated else {})


def _system_prompt(
    artifact: ExecutionArtifact, hashed: list[tuple[str, str]]
) -> dict[str, Any] | None:
    """Return the name, the hash and the text of the system prompt; None where none was sent."""
    sent = [each for each in hashed if each[0] in (PERSONA, SYSTEM)]
    if not sent:
        return None
    source, sha256 = sent[0]
    try:
        text = kept_system_prompt(artifact)
    except ValueError:  # it is among the problems; what is not the text is not shown as such
        text = None
    name = (artifact.provenance or {}).get("persona") or ("aya" if source == PERSONA else None)
    return {"source": source, "name": name, "sha256": sha256, "text": text}


def as_markdown(run: dict[str, Any]) -> str:
    """Return what ``described`` returns as a page of Markdown; every text of the run is fenced."""
    why = "; ".join(run["problems"] or run["notes"])
    model, answered = run["model_id"], run["answered_by"]
    lines = [f"# Run {_code(run['execution_id'])}", ""]
    lines += [f"- Verdict: **{run['verdict']}**" + (f" ({_code(why)})" if why else "")]
    lines += [f"- Time: {when(run['timestamp']) or _code(run['timestamp'])}"]
    lines += [f"- Model: {_code(model)}{_digest(run['model_digest'])}"]
    lines += [f"- Answered by: {_code(answered)}"] if answered != model else []
    lines += _where(run)
    lines += _parameters(run["options"])
    lines += _in_force(run["effective"])
    lines += _prompt_made(run["chat_template"], run["joined"])
    lines += [f"- Permissions: {_codes(run['grants'])}"] if run["grants"] else []
    for kind in _NAMED:
        lines += _listed(kind, run[kind])
    doubt = f" ({MAY_BE_UNREAD})" if "images_read" in run else ""
    lines += [f"- Images: {_codes(run['images'])}{doubt}"] if run["images"] else []
    lines += ["- Prompt: the model has not seen all of it"] if run.get("is_truncated") else []
    lines += [f"- Answer: cut off by {run['cut_off_by']}"] if "cut_off_by" in run else []
    earlier = run["earlier_messages"]
    lines += [f"- Earlier messages of its session: {earlier}"] if earlier else []
    if isinstance(run["parent"], dict):
        lines.append(f"- Made from the run {_code(run['parent'].get('execution_id'))}")
    if run["continuation"]["requested"]:
        lines.append(f"- Declares a continuation: {_code(run['continuation']['reason'])}")
    lines += _of_file(run.get("run_file"), run.get("expectation"))
    lines += _chosen(run.get("choice"))
    lines += _system_section(run["system_prompt"])
    lines += _section("Prompt", run["prompt"]) + _section("Answer", run["answer"])
    return "\n".join(lines) + "\n"


def _chosen(choice: Any) -> list[str]:
    """Return the line of how likely each word was that could be chosen, the likeliest first."""
    found = (choice or {}).get("probabilities")
    if not isinstance(found, dict):
        return []
    pairs = [
        f"{_code(word)} {share:.4f}"
        for word, share in list(found.items())[:_MOST_LISTED]
        if isinstance(share, float)
    ]
    return [f"- Chosen from: {', '.join(pairs)}"]


def _of_file(file: Any, expectation: Any) -> list[str]:
    """Return the lines of what a file said; what somebody changed is shown as far as it is known."""
    lines = []
    if file is not None:
        values = file.get("values")
        known = values if isinstance(values, list) else []
        names = [each.get("name") for each in known if isinstance(each, dict)]
        with_values = f", with values for {_codes(names)}" if names else ""
        lines.append(
            f"- Run file: {_code(file.get('name'))}{_digest(file.get('sha256'))}{with_values}"
        )
    if expectation is not None:
        verdict = "holds" if expectation.get("holds") is True else "does not hold"
        lines.append(f"- Expectation: {verdict}; {_code(expectation.get('wanted'))}")
    return lines


def _listed(kind: str, entries: list[dict[str, str]]) -> list[str]:
    more = len(entries) - _MOST_LISTED
    lines = [
        f"- {kind.capitalize()[:-1]}: {_code(each['name'])}{_digest(each['sha256'])}"
        for each in entries[:_MOST_LISTED]
    ]
    return [*lines, f"- And {more} more {kind}"] if more > 0 else lines


def _where(run: dict[str, Any]) -> list[str]:
    places = [run[key] for key in ("backend", "server_version") if run[key] is not None]
    lines = [f"- Backend: {' '.join(map(_code, places))}"] if places else []
    version = run["ore_version"]
    return lines + ([f"- ORE: {_code(version)}"] if version is not None else [])


def _parameters(options: Any) -> list[str]:
    if not isinstance(options, dict):
        return []
    pairs = [f"{key}={value}" for key, value in options.items()]
    return [f"- Parameters: {_codes(pairs) or 'none were given, so the defaults hold'}"]


def _in_force(told: Any) -> list[str]:
    """Return what was in force, with who chose it; what is not known is left out."""
    parts = dict(told) if isinstance(told, dict) else {}
    parameters = parts.pop("parameters", None)
    chosen = parameters.items() if isinstance(parameters, dict) else ()
    pairs = [
        f"{name}={each['value']} ({each.get('from') or 'not known by whom'})"
        for name, each in chosen
        if isinstance(each, dict) and each.get("value") is not None
    ]
    pairs += [f"{name}={value}" for name, value in parts.items() if value is not None]
    return [f"- In force: {_codes(pairs)}"] if pairs else []


def _prompt_made(template: Any, joined: Any) -> list[str]:
    """Return which chat template was given, and which messages were sent as one."""
    given = template.get("sha256") if isinstance(template, dict) else None
    groups = [each for each in joined if isinstance(each, list)] if isinstance(joined, list) else []
    lines = [f"- Chat template: the user's own{_digest(given)}"] if given else []
    return lines + [f"- Sent as one message: {_codes(each)}" for each in groups[:_MOST_LISTED]]


def _system_section(system: dict[str, Any] | None) -> list[str]:
    if system is None:
        return []
    whose = "a text of the user's own" if system["name"] is None else _code(system["name"])
    about = [f"{whose}{_digest(system['sha256'])}"]
    if system["text"] is None:
        return ["", "## System prompt", "", f"{about[0]}; its text is not in the artifact."]
    return _section("System prompt", system["text"], about)


def _section(title: str, text: str, about: list[str] | None = None) -> list[str]:
    fence = fence_around(text)
    above = [*about, ""] if about else []
    return ["", f"## {title}", "", *above, fence, text, fence]


def _code(value: Any) -> str:
    """Return a value of the artifact on one line, in backticks that it can't leave."""
    text = one_line(str(value))
    if not text:  # two backticks would begin what the next two end
        return "(empty)"
    return in_ticks(text)


def in_ticks(text: str) -> str:
    """Return ``text``, which is not empty, in backticks that it can't leave."""
    longest = _longest_ticks(text)
    marks, space = "`" * (longest + 1), " " if longest else ""
    return f"{marks}{space}{text}{space}{marks}"


def fence_around(text: str) -> str:
    """Return a fence that ``text`` can't end."""
    return "`" * max(3, _longest_ticks(text) + 1)


def _longest_ticks(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def _codes(values: Any) -> str:
    if not isinstance(values, list):
        return _code(values)
    more = len(values) - _MOST_LISTED
    last = [f"and {more} more"] if more > 0 else []
    return ", ".join([*map(_code, values[:_MOST_LISTED]), *last])


def _digest(sha256: Any) -> str:
    is_known = isinstance(sha256, str) and sha256
    return f", SHA-256 {_code(sha256[:DIGITS_SHOWN] + '…')}" if is_known else ""


def when(timestamp: float | None) -> str:
    """Return a Unix ``timestamp`` as a date and a time in UTC, ``""`` where it can't be one."""
    try:
        at = datetime.fromtimestamp(timestamp or 0, timezone.utc)
        return at.strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, OSError, ValueError):  # somebody's number, and no time of ours
        return ""
