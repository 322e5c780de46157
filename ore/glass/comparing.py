"""Artifacts checked and compared by programs, and an answer judged by a schema."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ore.artifact import encode_artifact
from ore.artifact import verify as artifacts
from ore.artifact.compare import Difference, differences, known_to_one, not_known
from ore.artifact.signers import Signature, Signers
from ore.artifact.verify import Checked
from ore.backends.schema import judge_of, parse_answer
from ore.types import ExecutionArtifact, Response


@dataclass(frozen=True)
class Verdict:
    """What was found of some artifacts.

    Attributes:
        checked: Each, in the order in which they were given, with its ``state`` and ``problems``.
    """

    checked: tuple[Checked, ...]

    @property
    def holds(self) -> bool:
        """Whether there are some, each has a seal and is as it was written, and is signed if asked."""
        return bool(self.checked) and all(c.state == artifacts.HOLDS for c in self.checked)

    def __bool__(self) -> bool:
        """Return whether it ``holds``."""
        return self.holds


def verify(
    given: Iterable[ExecutionArtifact | Path | str],
    *,
    allowed_signers: Path | str | None = None,
) -> Verdict:
    """Check artifacts, and the chain that they make, as ``--verify`` does.

    An artifact that is given as an object is checked as the file that it would be, and nobody signed
    it. Never raises over what it finds.

    Args:
        given: Artifacts, or paths of their files.
        allowed_signers: A file of those who may have signed them, as ``--allowed-signers`` takes it;
            what nobody of them signed does not hold. None does not look for signatures.

    Raises:
        ArtifactError: ``allowed_signers`` can't be used, or there is no ssh-keygen.
    """
    signers = None if allowed_signers is None else Signers(allowed_signers)
    looked = []
    for number, each in enumerate(given, 1):
        if isinstance(each, ExecutionArtifact):
            data = encode_artifact(each).encode("ascii")
            checked = artifacts.check(data, f"artifact {number}")
            if signers is not None:
                checked.signature = Signature(problem="nobody signed it: give the path of its file")
            looked.append(checked)
        else:
            looked.append(artifacts.look_at(os.fspath(each), None, signers))
    return Verdict(tuple(artifacts.in_chain(looked)))


@dataclass(frozen=True)
class Diff:
    """How two runs differ.

    Attributes:
        differences: What is known of both and not the same, as texts.
        not_known: The names of what only one of them knows; where nothing differs, of what not both
            know.
    """

    differences: tuple[Difference, ...]
    not_known: tuple[str, ...]

    @property
    def same(self) -> bool | None:
        """Whether the runs are the same; None where nothing differs of what is known of both."""
        return False if self.differences else None if self.not_known else True


def diff(old: ExecutionArtifact, new: ExecutionArtifact) -> Diff:
    """Compare what went into the runs ``old`` and ``new``, and what came out of them, as ``--diff``."""
    found = differences(old, new)
    unknown = known_to_one(old, new) if found else not_known(old, new)
    return Diff(tuple(found), tuple(unknown))


def validate(schema: Mapping[str, Any], text: str) -> Any:
    """Return the JSON value that ``text`` is, if it fits ``schema``, as ``--schema`` judges.

    Raises:
        SchemaMismatchError: It is no JSON, or does not fit.
        ExtraNotInstalledError: The package ``jsonschema`` is missing.
    """
    with judge_of(schema) as judge:
        return parse_answer(Response(text, ""), judge)
