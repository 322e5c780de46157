"""Artifacts looked at and compared: ``--show``, ``--diff``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from ore.artifact import many, parse_artifact, read_artifact, read_bytes
from ore.artifact import verify as artifacts
from ore.artifact.compare import unified
from ore.artifact.show import as_markdown, described
from ore.cli.options import Options
from ore.cli.terminal.console import Console
from ore.cli.terminal.pace import Counted
from ore.errors import CheckFailedError
from ore.files.neutral import one_line
from ore.glass import comparing
from ore.rows.planned import looks_like_plan, parse_plan
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
    paths, as_json = options.diff, options.json
    compared = comparing.diff(*(_run_or_plan(path, console) for path in paths))
    found, unknown = compared.differences, compared.not_known
    if as_json:
        shown = [asdict(each) for each in found]
        console.json({"same": compared.same, "differences": shown, "not_known": list(unknown)})
    elif found:
        console.document(unified(found, *paths))
    if unknown and not as_json:
        console.notice(f"Not compared, for it is not known of both: {', '.join(unknown)}.")
    if found:
        names = ", ".join(each.name for each in found)
        first, second = (one_line(path) for path in paths)
        raise CheckFailedError(f"{first} and {second} are not the same: they differ in {names}.")
    if unknown:
        console.notice("Nothing differs of what was compared.")
    else:
        console.notice("Nothing differs: input and answer are the same.")


def _diff_folders(options: Options, console: Console) -> None:
    """Write of each artifact of two folders what differs from the other folder's of its name."""
    names = [
        {os.path.relpath(path, folder) for path in many.files_of([folder])}
        for folder in options.diff
    ]
    every = sorted(names[0] | names[1])
    differ, told = 0, Counted(console.bar, "compared")
    is_mixed = options.json and console.stdout_is_terminal

    def compared() -> Iterator[dict[str, Any]]:
        nonlocal differ
        for number, name in enumerate(every, 1):
            row = _compared(name, options.diff, [name in each for each in names])
            differ += row["same"] is False or row["only_in"] is not None
            yield row
            if not is_mixed:
                told(number, len(every))

    try:
        if options.json:
            console.json_list(compared())
        else:
            shown = [_diff_row(row) for row in compared() if row["same"] is not True]
            console.end_progress()
            console.rows(shown)
    finally:
        console.end_progress()
    total = f"{len(every):,} run{'s' * (len(every) != 1)} compared"
    if differ:
        raise CheckFailedError(f"{total}: {differ:,} not the same. Their lines say why.")
    console.notice(f"{total}: nothing differs.")


def _compared(name: str, folders: Sequence[str], is_there: Sequence[bool]) -> dict[str, Any]:
    """Return how the artifacts of one name in two folders differ."""
    row: dict[str, Any] = {"path": name, "same": None, "differences": [], "only_in": None}
    if not all(is_there):
        row["only_in"] = folders[is_there.index(True)]
        return row
    found = comparing.diff(*(read_artifact(os.path.join(each, name)) for each in folders))
    row["same"], row["differences"] = found.same, [each.name for each in found.differences]
    return row


def _diff_row(row: dict[str, Any]) -> tuple[str, str, str]:
    if row["only_in"] is not None:
        return row["path"], "missing", f"it is in {row['only_in']} only"
    if row["same"] is None:
        return row["path"], "not known", "nothing differs of what is known of both"
    return row["path"], "different", f"in {', '.join(row['differences'])}"


def _run_or_plan(path: str, console: Console) -> ExecutionArtifact:
    data = read_bytes(path, console.stdin)
    if looks_like_plan(data):
        return parse_plan(data, path).as_artifact()
    return parse_artifact(data, "stdin" if path == "-" else path)
