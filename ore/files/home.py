"""Where ORE keeps its files: ``~/.ore``, or the folder that ``ORE_HOME`` names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ore.errors import HomeError, UsageError
from ore.files.neutral import value_shown

_ADDRESS = re.compile(
    r"[\"'`(<\[\s\u200b]*(?:[a-z][a-z0-9+.-]+[:\uff1a](?=/)|https?\W?//(?=[^/]*@))", re.IGNORECASE
)


def ore_home(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder of ORE's files as an absolute path; it need not exist.

    ``ORE_HOME`` wins over ``HOME``. An empty or relative value is refused, for it would put
    private files wherever the current folder happens to be.

    Raises:
        HomeError: No absolute home is known.
    """
    environ = os.environ if environ is None else environ
    if "ORE_HOME" in environ:
        return _absolute("ORE_HOME", environ["ORE_HOME"])
    if "HOME" in environ:
        return _absolute("HOME", environ["HOME"]) / ".ore"
    try:
        return _absolute("The home folder", str(Path.home())) / ".ore"
    except RuntimeError as exc:
        raise HomeError(
            "There is no home folder for ORE's files: set HOME, or ORE_HOME to a folder of yours."
        ) from exc


def expanded(path: str) -> str:
    """Return ``path`` with the home folder in the place of a ``~`` at its beginning.

    Raises:
        UsageError: No absolute home is known, or no user of that name, nor a folder that is called so:
            the path would lead into the current folder.
    """
    is_home = path == "~" or path.startswith("~/")
    if is_home and not os.path.isabs(os.environ.get("HOME", os.path.expanduser("~"))):
        raise UsageError(
            f"{path!r} begins with the home folder, which is not known: write the full path, or set "
            f"HOME to the full path of a folder."
        )
    found = os.path.expanduser(path)
    if found.startswith("~") and "/" in path and not os.path.lexists(path.partition("/")[0]):
        raise UsageError(
            f"{path!r} begins with a user whose home is not known: write the full path."
        )
    return found


def is_address(path: str) -> bool:
    """Return whether a path begins as an address does (``s3:/``), and nothing here is called so."""
    found = _ADDRESS.match(path)
    return found is not None and not os.path.lexists(found[0])


def instead_of(folder: Path) -> str:
    """Return how another folder comes in the place of one: the words before "another folder"."""
    with suppress(HomeError):
        if ore_home() in (folder, *folder.parents):
            return "set ORE_HOME to"
    return "use"


def _absolute(variable: str, value: str) -> Path:
    path = Path(value)
    if not value or not path.is_absolute():
        which = variable if variable == "ORE_HOME" else "HOME, or ORE_HOME,"  # which goes before it
        raise HomeError(
            f"{variable} is {value_shown(value)}, which is not an absolute path: set {which} to the "
            f"full path of a folder."
        )
    return path
