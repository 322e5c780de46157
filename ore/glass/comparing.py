"""Artifacts checked, signed and compared by programs, and an answer judged by a schema."""

from __future__ import annotations

import io
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from ore.artifact import encode_artifact, read_artifact, read_bytes
from ore.artifact import verify as artifacts
from ore.artifact.compare import Difference, differences, known_to_one, not_known
from ore.artifact.many import check_each, files_of, has_folder
from ore.artifact.signers import Signature, Signers
from ore.artifact.signing import Signer
from ore.artifact.verify import Checked
from ore.backends.schema import judge_of, parse_answer
from ore.errors import ArtifactError, UsageError
from ore.files.neutral import one_line
from ore.files.reached import why_unknown
from ore.glass.planned import parse_plan
from ore.types import ExecutionArtifact, Response
from ore.types.sent import listed
from ore.types.turn_plan import Plan


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
        UsageError: ``given`` is one path.
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
    runs = [
        each if isinstance(each, ExecutionArtifact) else os.fspath(each)
        for each in listed("given", given)
    ]
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


def sign(
    given: Iterable[Path | str],
    key: Path | str,
    *,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> Verdict:
    """Sign the artifacts that hold with an SSH key, as ``--verify --sign`` does.

    The signature of ``FILE`` is ``FILE.sig``; one of the same key is replaced. What does not hold is
    not signed, and what can't be signed does not hold: its ``signature`` has the ``problem``.

    Args:
        given: Paths of artifacts, or of folders of them.
        key: The path of a private key, or of a public one whose private key an agent has. Its
            passphrase is asked for, on the terminal, where one file alone is named.
        told: Called with how many were signed, and of how many.

    Raises:
        ArtifactError: The key does not sign, or there is no ssh-keygen; or a folder can't be read, or
            has no artifact. Nothing was signed.
        UsageError: What comes on stdin can't be signed; or ``given`` is one path.
    """
    paths = [os.fspath(each) for each in listed("given", given)]
    signer = signer_of(paths, key)
    return Verdict(tuple(sign_held(check_all(paths), signer, told)))


def signer_of(paths: Sequence[str], key: Path | str) -> Signer:
    """Return what signs the artifacts at ``paths`` with ``key``, and was tried: see ``sign``.

    Raises:
        ArtifactError: It does not sign, or there is no ssh-keygen.
        UsageError: What comes on stdin can't be signed.
    """
    if "-" in paths:
        raise UsageError("What comes on stdin can't be signed: name its file.")
    signer = Signer(os.fspath(key), once=len(paths) == 1 and not has_folder(paths))
    signer.check()
    return signer


def sign_held(
    found: list[Checked],
    signer: Signer,
    told: Callable[[int, int], None],
) -> list[Checked]:
    """Sign what holds of ``found``, as it was when it was checked; return it, each with its signature.

    Args:
        found: What ``check_all`` has returned.
        signer: Signs; it was checked.
        told: Called with how many were signed, and of how many.
    """
    whole = [each for each in found if each.state == artifacts.HOLDS]
    for number, each in enumerate(whole, 1):
        each.signature = _signed(each, signer)
        told(number, len(whole))
    return found


def _signed(checked: Checked, signer: Signer) -> Signature:
    try:
        signer.check_place(checked.path)  # a pipe has no signature, and would be waited for
        data = read_bytes(checked.path)
        if sha256(data).hexdigest() != checked.sha256:
            return Signature(problem="It was changed meanwhile")
        return Signature(key=signer.sign(checked.path, data))
    except ArtifactError as exc:
        return Signature(problem=str(exc).rstrip("."))


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


def diff(old: ExecutionArtifact | Plan, new: ExecutionArtifact | Plan) -> Diff:
    """Compare what went into the runs ``old`` and ``new``, and what came out of them, as ``--diff``.

    A plan is a run that was not taken, and has no answer.

    Raises:
        ArtifactError: A plan does not hold the whole of its turn: it has images, or goes on from a run.
    """
    first, second = _as_run(old), _as_run(new)
    runs = _pinned(first, second), _pinned(second, first)
    found = differences(*runs)
    unknown = known_to_one(*runs) if found else not_known(*runs)
    return Diff(tuple(found), tuple(unknown))


def _as_run(given: ExecutionArtifact | Plan) -> ExecutionArtifact:
    if isinstance(given, ExecutionArtifact):
        return given
    return parse_plan(json.dumps(given.to_dict()).encode("ascii"), "The plan").as_artifact()


def _pinned(run: ExecutionArtifact, other: ExecutionArtifact) -> ExecutionArtifact:
    """Return a ``run`` that was planned with the digest of the ``other``, where that fits its pin."""
    pin, digest = ((each.provenance or {}).get("model_digest") for each in (run, other))
    if run.output.content is not None or not isinstance(pin, str):  # no plan, or one without a pin
        return run
    if str(digest).lower().removeprefix("sha256:").startswith(pin):
        return replace(run, provenance={**(run.provenance or {}), "model_digest": digest})
    return run


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
    for each in folders:
        if why := why_unknown(each):
            raise ArtifactError(f"'{one_line(each)}' can't be read: {why}.")
    if other := [each for each in folders if not os.path.isdir(each)]:
        raise ArtifactError(
            f"'{one_line(other[0])}' is not a folder: name two folders of artifacts."
        )
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
        UsageError: The schema is no mapping.
        ExtraNotInstalledError: The package ``jsonschema`` is missing.
    """
    with judge_of(schema) as judge:
        return parse_answer(Response(text, ""), judge)
