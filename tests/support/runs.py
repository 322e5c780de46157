"""Recorded runs to test with: artifacts that the command line wrote with the scripted model."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from ore.artifact.seal import seal
from tests.support.harness import run_ore


def record(path: Path, *args: str, **more: Any) -> dict[str, Any]:
    """Run ORE with ``--artifact-out path`` and return the artifact as JSON."""
    result = run_ore(*args, "--artifact-out", str(path), **more)
    assert result.code == 0, result.err
    return json.loads(path.read_text())


def rewrite(path: Path, change) -> dict[str, Any]:
    """Let ``change`` edit the artifact at ``path`` as JSON, and write it back as ORE lays it out."""
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document, indent=2) + "\n")
    return document


def forge(path: str | Path, word: str, other: str) -> None:
    """Put another word into the answer of an artifact, and seal it as if it had been there."""

    def change(document: dict[str, Any]) -> None:
        document["output"]["content"] = document["output"]["content"].replace(word, other)
        document["provenance"] = seal(document)["provenance"]

    rewrite(Path(path), change)


def sha256(data: str | bytes) -> str:
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def rows(text: str) -> dict[str, list[str]]:
    """The lines of a list in a pipe: what follows the first column, by the first column's end."""
    found = [line.split("\t") for line in text.splitlines() if "\t" in line]
    return {Path(name).name: rest for name, *rest in found}
