"""Artifacts checked and compared by programs, and an answer judged by a schema."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ore.artifact import encode_artifact, read_artifact
from ore.artifact import verify as artifacts
from ore.artifact.compare import Difference, differences, known_to_one, not_known
from ore.artifact.many import check_each, files_of, has_folder
from ore.artifact.signers import Signature, Signers
from ore.artifact.verify import Checked
from ore.backends.schema import judge_of, parse_answer
from ore.errors import UsageError
from ore.types import ExecutionArtifact, Response


@dataclass(frozen=True)
class Verdict:
    """What was found of some artifacts.

    Attributes:
        checked: Each, in the order in which they were given, with its ``state`` and ``problems``; of
            a folder, each file in it. ``ore.artifact.verify.read_again`` reads the artifact of one.
    """

    checked: tuple[Checked, ...]

    @property
    def holds(self) -> bool:
        """Whether there are some, each has a seal and is as it was written, and is signed if asked."""
        return bool(self.checked) and all(c.state == artifacts.HOLDS for c in self.checked)

    @property
    def counts(self) -> dict[str, int]:
        """How many there are of each state that was found, by its name."""
        return dict(Counter(each.state for each in self.checked))

    def __bool__(self) -> bool:
        """Return whether it ``holds``."""
        return self.holds


def verify(
    given: Iterable[ExecutionArtifact | Path | str],
    *,
    allowed_signers: Path | str | None = None,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> Verdict:
    """Check artifacts, and the chain that they make, as ``--verify`` does.

    An artifact that is given as an object is checked as the file that it would be, and nobody signed
    it. Of a folder, each ``.json`` file in it and below it is checked. Never raises over what it finds.

    Args:
        given: Artifacts, or paths of their files, or of folders of them.
        allowed_signers: A file of those who may have signed them, as ``--allowed-signers`` takes it;
            what nobody of them signed does not hold. None does not look for signatures.
        told: Where a folder is given, called with how many files were read, and of how many.

    Raises:
        ArtifactError: ``allowed_signers`` can't be used, or there is no ssh-keygen; or a folder can't be
            read, or has no artifact.
    """
    signers = None if allowed_signers is None else Signers(allowed_signers)
    return Verdict(tuple(check_all(given, signers, told=told)))


def check_all(
    given: Iterable[ExecutionArtifact | Path | str],
    signers: Signers | None = None,
    *,
    stdin: io.BufferedIOBase | None = None,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> list[Checked]:
    """Return what is found of artifacts, and of the chain that they make: see ``verify``.

    Args:
        given: Artifacts, or paths of their files, or of folders of them; ``"-"`` is stdin.
        signers: Those who may have signed them; None does not look for signatures.
        stdin: What is read for ``"-"``.
        told: Where a folder is given, called with how many files were read, and of how many.

    Raises:
        ArtifactError: A folder can't be read, or has no artifact.
        UsageError: A folder is given together with stdin.
    """
    runs = [each if isinstance(each, ExecutionArtifact) else os.fspath(each) for each in given]
    paths = [each for each in runs if isinstance(each, str)]
    looked: Iterator[Checked]
    if not has_folder(paths):
        looked = (artifacts.look_at(path, stdin, signers) for path in paths)
    else:
        runs = [each for run in runs for each in _within(run)]
        paths = [each for each in runs if isinstance(each, str)]
        if "-" in paths:
            raise UsageError("A folder can't be checked together with stdin: leave - out.")
        looked = iter([*check_each(paths, lambda done: told(done, len(paths)), signers)])
    found = [
        next(looked) if isinstance(each, str) else _check_given(each, number, signers)
        for number, each in enumerate(runs, 1)
    ]
    return artifacts.in_chain(found)


def _within(run: ExecutionArtifact | str) -> Iterable[ExecutionArtifact | str]:
    """Return a run, or the paths of the files in a folder."""
    return [run] if isinstance(run, ExecutionArtifact) else files_of([run])


def _check_given(run: ExecutionArtifact, number: int, signers: Signers | None) -> Checked:
    checked = artifacts.check(encode_artifact(run).encode("ascii"), f"artifact {number}")
    if signers is not None:
        checked.signature = Signature(problem="nobody signed it: give the path of its file")
    return checked


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


@dataclass(frozen=True)
class FolderDiff:
    """How the artifacts of one name in two folders differ.

    Attributes:
        path: The name, below either folder.
        diff: How they differ; None where one folder has none of this name.
        only_in: The folder that alone has it, or None.
    """

    path: str
    diff: Diff | None = None
    only_in: str | None = None

    @property
    def same(self) -> bool | None:
        """Whether they are the same; None where that is not known."""
        return None if self.diff is None else self.diff.same


def diff_folders(
    old: Path | str, new: Path | str, told: Callable[[int, int], None] = lambda done, of: None
) -> Iterator[FolderDiff]:
    """Yield how the artifacts of each name in two folders differ, sorted by name, as ``--diff`` does.

    Args:
        old: A folder; the ``.json`` files in it and below it are compared.
        new: The other one.
        told: Called with how many names are done, and of how many.

    Raises:
        ArtifactError: A folder can't be read or has no artifact; or a file can't be used as one.
    """
    folders = (os.fspath(old), os.fspath(new))
    names = [{os.path.relpath(path, each) for path in files_of([each])} for each in folders]
    every = sorted(names[0] | names[1])
    for number, name in enumerate(every, 1):
        is_there = [name in each for each in names]
        if all(is_there):
            pair = [read_artifact(os.path.join(each, name)) for each in folders]
            yield FolderDiff(name, diff(pair[0], pair[1]))
        else:
            yield FolderDiff(name, only_in=folders[is_there.index(True)])
        told(number, len(every))


def validate(schema: Mapping[str, Any], text: str) -> Any:
    """Return the JSON value that ``text`` is, if it fits ``schema``, as ``--schema`` judges.

    Raises:
        SchemaMismatchError: It is no JSON, or does not fit.
        ExtraNotInstalledError: The package ``jsonschema`` is missing.
    """
    with judge_of(schema) as judge:
        return parse_answer(Response(text, ""), judge)
