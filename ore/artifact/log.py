"""The run log: a folder with an artifact of every turn, ``FOLDER/YYYY-MM-DD/HHMMSS-ID.json``.

Days and times are in UTC, so that the order of the names is the order of the turns.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

from ore.artifact import write_artifact
from ore.errors import ArtifactError, HomeError
from ore.files import make_private, reason
from ore.files.home import ore_home
from ore.files.neutral import one_line
from ore.files.trust import refuse_opened, steps
from ore.types import ExecutionArtifact

_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_RUN = re.compile(r"\d{6}-.*\.json")
_PLAIN = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}")


def _is_run(entry: os.DirEntry[str]) -> bool:
    return _RUN.fullmatch(entry.name) is not None and entry.is_file(follow_symlinks=False)


def _written(entry: os.DirEntry[str]) -> int:
    with suppress(FileNotFoundError):  # whoever reads it says that it has gone
        return entry.stat(follow_symlinks=False).st_mtime_ns
    return 0


def _refuse_opened_home(path: Path) -> None:
    """Raise ``HomeError`` where the way to ``path`` leads through ORE's home, and others can write there."""
    try:
        home, inside = ore_home(), set[str]()
    except HomeError:
        return
    ways = {path.absolute(), Path(os.path.abspath(path))}  # what stands before ".." may yet be made
    for way in ways:
        with suppress(OSError, ValueError):  # what is not there yet, others can't have written
            for step, _ in steps(way):
                if os.path.dirname(step) in inside or os.path.samefile(step, home):
                    refuse_opened(step)
                    inside.add(step)


class RunLog:
    """The run log in one folder, which need not exist yet.

    In ORE's home it is used only while that, and what leads from there to a run, are this user's alone.

    Args:
        root: The folder, as an absolute path.
    """

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)

    def check(self) -> None:
        """Return if it can be written to, as far as that shows now.

        Raises:
            ArtifactError: It can't.
            HomeError: It is in a home that can't be trusted.
        """
        _refuse_opened_home(self.root)
        try:
            os.stat(self.root)
        except (FileNotFoundError, NotADirectoryError):
            pass  # it is made; what is in its way shows next
        except (OSError, ValueError) as exc:
            raise self._unwritable(self.root, reason(exc)) from exc
        there = next(path for path in (self.root, *self.root.parents) if os.path.lexists(path))
        if not os.path.isdir(there):
            raise self._unwritable(there, "it is not a folder")
        if not os.access(there, os.W_OK | os.X_OK):
            raise self._unwritable(there, "it is not writable for you")

    def path_of(self, execution_id: str, timestamp: float) -> Path:
        """Return where the artifact of a run is kept whose answer was complete at ``timestamp``.

        An ``execution_id`` that could not be a file's name is hashed.

        Raises:
            ArtifactError: ``timestamp`` is not in the years 1 to 9999.
        """
        is_plain = _PLAIN.fullmatch(execution_id)
        digest = hashlib.sha256(execution_id.encode("utf-8", "surrogatepass")).hexdigest()
        name = execution_id if is_plain else digest
        try:
            at = datetime.fromtimestamp(timestamp, timezone.utc)
        except (OverflowError, OSError, ValueError) as exc:
            raise ArtifactError(
                f"The run can't be kept in the log: its timestamp {timestamp:g} is not in the "
                f"years 1 to 9999. Write it to a file of its own."
            ) from exc
        return self.root / at.date().isoformat() / f"{at:%H%M%S}-{name}.json"

    def add(self, artifact: ExecutionArtifact) -> Path:
        """Write an ``artifact`` into the log, and return its file.

        Raises:
            ArtifactError: It can't be written, or has no time.
            HomeError: The log is in a home that can't be trusted.
        """
        path = self.path_of(artifact.execution_id, artifact.timestamp)
        self.make_folder_of(str(path))
        write_artifact(artifact, path)
        return path

    def make_folder_of(self, path: str) -> None:
        """Make the folder of a day, where ``path`` is in this log.

        Raises:
            ArtifactError: It can't be made.
            HomeError: The log is in a home that can't be trusted.
        """
        day = Path(path).parent
        if day.parent != self.root:
            return
        _refuse_opened_home(day)
        if os.path.isdir(day):
            return
        try:
            make_private(day)
        except (OSError, ValueError) as exc:
            raise self._unwritable(day, reason(exc)) from exc

    def last(self) -> Path:
        """Return the newest artifact; of several in one second, the one that was written last.

        Links are not runs, and neither are FIFOs, which would be waited for.

        Raises:
            ArtifactError: There is none, or the folder can't be read.
            HomeError: It is in a home that can't be trusted.
        """
        _refuse_opened_home(self.root)
        try:
            days = sorted(filter(_DAY.fullmatch, os.listdir(self.root)), reverse=True)
            for day in days:
                runs: list[os.DirEntry[str]] = []
                with suppress(FileNotFoundError), os.scandir(self.root / day) as entries:
                    runs += filter(_is_run, entries)
                if runs:
                    newest = max(run.name[:6] for run in runs)
                    same = [run for run in runs if run.name[:6] == newest]
                    found = Path(max(same, key=lambda run: (_written(run), run.name)).path)
                    _refuse_opened_home(found)
                    return found
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as exc:
            shown = one_line(str(self.root))
            raise ArtifactError(f"The run log in {shown} can't be read: {reason(exc)}.") from exc
        raise ArtifactError(
            f"There is no run in the log {one_line(str(self.root))} yet: ask something first."
        )

    def _unwritable(self, path: Path, why: str) -> ArtifactError:
        return ArtifactError(
            f"The run log can't be written to {one_line(str(path))}: {why}. See to it, or name "
            f"another folder."
        )
