"""Artifacts to report on, and what a page says of them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

from ore.artifact.canonical import text_digest
from ore.artifact.seal import seal


def run(number: int, **given: Any) -> dict[str, Any]:
    """Return an artifact that holds.

    Args:
        given: ``prompt``, ``answer``, ``model``, ``metadata`` and ``provenance`` beside the usual.
    """
    prompt, answer = given.get("prompt", f"Question {number}?"), given.get("answer", "Paris.")
    model, said = given.get("model", "tiny"), f"{number:08x}-0000-4000-8000-000000000000"
    metadata = {
        **{"eval_count": 5, "prompt_eval_count": 20, "done_reason": "stop"},
        **{"eval_duration": 100_000_000 * number, "prompt_eval_duration": 50_000_000},
        "total_duration": 200_000_000 * number,
        "context": {"status": "complete", "window": 100, "prompt_tokens": 20},
        **given.get("metadata", {}),
    }
    when = 1764550000.25 + number
    output = {"id": said, "content": answer, "model_id": model, "timestamp": when}
    sources = [("persona", "aya"), ("prompt", prompt)]
    provenance = {
        "backend": "scripted",
        "options": {"seed": 1},
        "effective": {"parameters": {"seed": {"value": 1, "from": "user"}}},
        "sources": [{"source": name, "sha256": text_digest(text)} for name, text in sources],
        "parent": None,
        **given.get("provenance", {}),
    }
    return seal(
        {
            "artifact_version": "ore.exec.v1",
            "execution_id": said,
            "timestamp": when,
            "input": {"prompt": prompt, "model_id": model, "mode": "single_turn"},
            "output": {**output, "metadata": metadata},
            "continuation": {"requested": False, "reason": None},
            "provenance": provenance,
        }
    )


def write(folder: Path, *documents: dict[str, Any]) -> Path:
    """Write artifacts into a folder, which is made, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, document in enumerate(documents):
        (folder / f"{number:05}.json").write_text(json.dumps(document))
    return folder


def expected(word: str, answer: str) -> dict[str, Any]:
    """What the provenance says of an answer that was to be a word."""
    holds = word == answer
    failed = [] if holds else [{"kind": "equals", "seen": f"'{answer}' was seen"}]
    return {"expectation": {"wanted": {"equals": word}, "holds": holds, "failed": failed}}


def chosen(probability: float) -> dict[str, Any]:
    """What the metadata say of a word that was chosen."""
    return {"choice": {"probability": probability, "probabilities": {"yes": probability}}}


def data_of(page: str) -> dict[str, Any]:
    """Return what the page's script reads."""
    found = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert len(found) == 1
    return json.loads(found[0])


def runs_of(page: str) -> list[dict[str, Any]]:
    """Return each run that the page's script reads, by column, with the texts that it points to."""
    data = data_of(page)
    runs = [dict(zip(data["columns"], row, strict=True)) for row in data["runs"]]
    for each in runs:
        each["state"], each["model"] = (data["texts"][each[name]] for name in ("state", "model"))
        each["own"] = {data["texts"][name]: text for name, text in each["own"]}
        pairs = [data["pairs"][at] for at in data["groups"][each["shared"]]]
        each["shared"] = {data["texts"][name]: data["texts"][text] for name, text in pairs}
        each["messages"] = [tuple(data["texts"][at] for at in pair) for pair in each["messages"]]
    return runs


def hash_of(text: str) -> str:
    """Return a hash as a Content-Security-Policy writes it."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
