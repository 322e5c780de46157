"""Artifacts looked at and compared: ``--show``, ``--diff``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ore.artifact import parse_artifact, read_bytes
from ore.artifact import verify as artifacts
from ore.artifact.compare import unified
from ore.artifact.show import as_markdown, described
from ore.cli.options import Options
from ore.cli.terminal.console import Console
from ore.cli.terminal.ended import counted
from ore.cli.terminal.pace import Counted
from ore.errors import ArtifactError, CheckFailedError
from ore.files.neutral import one_line
from ore.glass import comparing
from ore.glass.planned import looks_like_plan, parse_plan
from ore.types import ExecutionArtifact


def show(options: Options, console: Console, *_: object) -> None:
    """Write the artifact at ``options.show`` as a page of Markdown, with whether it holds, or as data."""
    path = str(options.show)
    data = read_bytes(path, console.stdin)
    artifact = parse_artifact(data, "stdin" if path == "-" else path)
    run = described(artifacts.check(data, path), artifact)
    if options.json:
        console.json(run)
    else:
        console.document(as_markdown(run))


def diff(options: Options, console: Console, *_: object) -> None:
    """Compare the two runs at ``options.diff`` and write what differs, which is an error.

    In the place of an artifact there may be a plan: of a run that was not taken. Of two folders, the
    artifacts of one name are compared.
    """
    if all(map(os.path.isdir, options.diff)):
        _diff_folders(options, console)
        return
    if any(map(os.path.isdir, options.diff)) and all(map(os.path.exists, options.diff)):
        raise ArtifactError("--diff compares two files, or two folders: name two of one kind.")
    paths, as_json = options.diff, options.json
    compared = comparing.diff(*(_run_or_plan(path, console) for path in paths))
    found, unknown = compared.differences, compared.not_known
    if as_json:
        shown = [asdict(each) for each in found]
        console.json({"same": compared.same, "differences": shown, "not_known": list(unknown)})
    elif found:
        console.document(unified(found, *paths))
    if unknown and not as_json:
        console.notice(f"Not compared, because it is not known for both: {', '.join(unknown)}.")
    if found:
        names = ", ".join(each.name for each in found)
        first, second = (one_line(path) for path in paths)
        raise CheckFailedError(f"{first} and {second} are not the same: they differ in {names}.")
    if unknown:
        console.notice("Nothing that was compared differs.")
    else:
        console.notice("Nothing differs: input and answer are the same.")


def _diff_folders(options: Options, console: Console) -> None:
    """Write of each artifact of two folders what differs from the other folder's of its name."""
    count = differ = 0
    is_mixed = options.json and console.stdout_is_terminal

    def compared(told: Counted) -> Iterator[comparing.FolderDiff]:
        nonlocal count, differ
        old, new = options.diff
        for each in comparing.diff_folders(old, new, _untold if is_mixed else told):
            count, differ = count + 1, differ + (each.same is False or each.only_in is not None)
            yield each

    with counted(console, "compared") as told:
        if options.json:
            console.json_list(map(_diff_document, compared(told)))
        else:
            shown = [_diff_row(each) for each in compared(told) if each.same is not True]
            console.end_progress()
            console.rows(shown)
    total = f"{count:,} run{'s' * (count != 1)} compared"
    if differ:
        raise CheckFailedError(f"{total}: {differ:,} not the same. Their lines say why.")
    console.notice(f"{total}: nothing differs.")


def _untold(done: int, of: int) -> None:
    """Show nothing: the list is written to the same terminal."""


def _names(each: comparing.FolderDiff) -> list[str]:
    return [] if each.diff is None else [found.name for found in each.diff.differences]


def _diff_document(each: comparing.FolderDiff) -> dict[str, Any]:
    known = {"path": each.path, "same": each.same, "differences": _names(each)}
    return {**known, "only_in": each.only_in}


def _diff_row(each: comparing.FolderDiff) -> tuple[str, str, str]:
    if each.only_in is not None:
        return each.path, "missing", f"it is in {each.only_in} only"
    if each.same is None:
        return each.path, "not known", "nothing that is known of both differs"
    return each.path, "different", f"in {', '.join(_names(each))}"


def _run_or_plan(path: str, console: Console) -> ExecutionArtifact:
    data = read_bytes(path, console.stdin)
    if looks_like_plan(data):
        return parse_plan(data, path).as_artifact()
    return parse_artifact(data, "stdin" if path == "-" else path)
