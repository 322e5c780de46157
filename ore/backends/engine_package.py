"""The engine's package: whether it is installed, and its release; nothing is imported."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ore.errors import ExtraNotInstalledError
from ore.files.extras import distribution, install_command

PACKAGE = "xllamacpp"


def check_installed() -> str:
    """Return the folder of the engine's package; import nothing.

    Raises:
        ExtraNotInstalledError: It is missing.
    """
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        text = f"The embedded engine is not installed: {install_command('embedded')}"
        raise ExtraNotInstalledError(text, "embedded")
    parent = Path(spec.origin).parent
    return str(parent.parent if spec.submodule_search_locations else parent)


def engine_version() -> str | None:
    """Return the engine's package and release, or None where it is not installed.

    A folder beside the package says it by its name; to import what reads metadata takes longer.
    """
    spec = find_spec(PACKAGE)
    if spec is not None and spec.origin is not None:
        beside = list(Path(spec.origin).parents[1].glob(f"{PACKAGE}-*.dist-info"))
        if len(beside) == 1:
            return beside[0].stem.replace("-", " ")
    installed = distribution(PACKAGE)
    return f"{PACKAGE} {installed.version}" if installed else None
