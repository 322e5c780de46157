"""The run log that the user asked for, with ``--runs`` or ``ORE_RUNS``, and ``--last`` in it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ore.artifact.log import RunLog
from ore.cli.flags import LAST
from ore.cli.options import Options
from ore.cli.rules import ARTIFACT_PATHS
from ore.errors import UsageError
from ore.files import reason
from ore.files.home import expanded, is_address
from ore.files.neutral import value_shown


def run_log(options: Options, environ: Mapping[str, str]) -> RunLog | None:
    """Return the run log, or None where none is kept.

    Raises:
        UsageError: ``ORE_RUNS`` is relative: every folder would have a log of its own. Or ``--runs``
            is an address, or relative to a folder that is gone. Or one of them begins with ``~``, and
            no home is known.
    """
    if options.runs is not None:
        if is_address(options.runs):
            raise UsageError(
                f"--runs can't be an address ({options.runs}), for a log is kept on this machine: name a "
                f"folder."
            )
        try:
            return RunLog(os.path.abspath(expanded(options.runs)))
        except OSError as exc:  # there is no current folder any more
            raise UsageError(
                f"The folder of --runs can't be found from here: {reason(exc)}. Give its full path."
            ) from exc
    folder = expanded(environ.get("ORE_RUNS", ""))
    if folder and not os.path.isabs(folder):
        raise UsageError(
            f"ORE_RUNS is {value_shown(folder)}, which is not an absolute path: set it to the full path of a "
            f"folder, as in ORE_RUNS=~/runs."
        )
    return RunLog(folder) if folder else None


def with_last(options: Options, environ: Mapping[str, str]) -> Options:
    """Return ``options`` with the path of the newest run in the log in the place of each ``--last``.

    Raises:
        UsageError: There is no log.
        ArtifactError: There is nothing in it.
    """
    if not options.names_last:
        return options
    log = run_log(options, environ)
    if log is None:
        raise UsageError(
            "--last needs a run log: set ORE_RUNS to its folder, or name it with --runs."
        )
    last = str(log.last())
    changed: dict[str, Any] = {}
    for name in ARTIFACT_PATHS:
        value = getattr(options, name)
        is_one = not isinstance(value, tuple)
        paths = [last if path == LAST else path for path in ([value] if is_one else value)]
        changed[name] = paths[0] if is_one else tuple(paths)
    return options.replace(**changed)
