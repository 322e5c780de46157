"""The tables of docs/glass.md: the artifact of a run has the keys that answer what is asked for."""

from __future__ import annotations

import json
import re

import pytest

from ore.backends.choice import open_backend
from tests.support.engine import needs_engine
from tests.support.gguf import write_model
from tests.support.harness import run_ore
from tests.support.pages import pages

pytestmark = needs_engine
PAGE = pages()["docs/glass.md"]
KEY = re.compile(r"(provenance|input|output|effective)(\.\w+)+|timestamp|\w+_sha256|batch\w*")
NOT_HERE = {"output.metadata.system_fingerprint", "provenance.expectation"}
"""What only a server says, and what stands there only where something was expected."""
MAY_BE_NULL = {"provenance.effective.quantization"}  # the tiny model's file does not say it


def rows() -> list[tuple[str, str]]:
    """What is asked for, and what answers it."""
    section = PAGE.text.partition("## What a publication")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line[:1] == "|" and "---" not in line]
    return [(first, second) for first, second in (line.strip("| ").split(" | ") for line in lines)]


def value(document: dict, key: str) -> object:
    for root in (document, document["provenance"], document["provenance"]["effective"]):
        found: object = root
        for name in key.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        if found is not None:
            return found
    return None


@pytest.mark.invariant
def test_the_artifact_of_a_run_answers_from_itself_alone_what_is_asked_for(home, tmp_path):
    path = tmp_path / "run.json"
    argv = ("Hi", "-m", str(write_model(tmp_path / "m.gguf")), "--artifact-out", str(path))
    done = run_ore(*argv, "--artifact-full", "-o", "num_predict=2", open_backend=open_backend)
    assert done.code == 0, done.err
    document = json.loads(path.read_text())
    asked = rows()
    assert len(asked) > 25
    named = [s for _, cell in asked for s in re.findall("`([^`]+)`", cell) if KEY.fullmatch(s)]
    assert len(named) > 30
    unanswered = [key for key in {*named} - NOT_HERE - MAY_BE_NULL if value(document, key) is None]
    assert unanswered == []
    for field, cell in asked:
        assert "`" in cell or "by hand" in cell or "asks for" in field, field
