"""What to run for a package that ORE can use and that is not there.

Packages are named as ORE's own metadata has them, and not ORE itself: so the command works wherever ORE
came from (a folder, an address, an index), and nothing that is installed is lost.
"""

from __future__ import annotations

import errno
import gc
import os
import re
import shlex
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ore.errors import NO_MEMORY, BackendError, ExtraNotInstalledError, OreError, is_shortage
from ore.files.signals import deferred_signals

if TYPE_CHECKING:  # loaded only where something is missing
    from importlib.metadata import Distribution

_DISTRIBUTION = "ore-reasoning"
_PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NOT_INSTALLED = "The package '{}' is not installed: run "
"""What ``importing`` is to say of a package that ORE always needs."""
_AMONG: dict[int, str] = {}  # the package that a thread imports, by its number
_NEVER_DONE: set[str] = set()  # in a forked child: what threads of its parent were importing
_EXTRA = r"extra *== *['\"]([\w-]+)['\"]"


def distribution(name: str) -> Distribution | None:
    """Return what is installed under a name of the package index, or None."""
    from importlib import metadata

    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None


def install_command(extra: str | None, *, again: bool = False) -> str:
    """Return the command that installs an extra of ``pyproject.toml``, or what ORE always needs.

    With ``again``, what is installed and does not work is replaced.
    """
    named, files = _named(extra), _files(extra)
    if not named and not files:
        wanted = shlex.quote(f".[{extra}]") if extra else "."
        return f"pip install {wanted}, in a clone of ORE's repository"
    environment = os.path.basename(sys.prefix)
    if os.path.isfile(os.path.join(sys.prefix, "pipx_metadata.json")):
        if again:
            return f"pipx runpip {environment} install --force-reinstall {named}"
        return f"pipx inject {environment} {named}"
    python = shlex.quote(sys.executable or "python3")
    if _is_managed() and files:
        return _in_its_own_environment(python, files)
    wanted = f"-r {shlex.quote(files[-1])}" if files else named
    if find_spec("pip") is None and _is_on_path("uv"):
        return f"uv pip install {'--reinstall ' * again}--python {python} {wanted}"
    first = "" if find_spec("pip") else f"{python} -m ensurepip && "
    flags = "--force-reinstall " * again + "--break-system-packages " * _is_managed()
    return f"{first}{python} -m pip install {flags}{wanted}"


@contextmanager
def importing(package: str, missing: str, extra: str | None = None) -> Iterator[None]:
    """Make one of our errors of what goes wrong with an import, whatever a package raises.

    A signal waits: what a handler raises is no fault of the package, and can be lost in one.

    Args:
        package: What is imported, with all that it imports.
        missing: What is said where a package is not there, with ``{}`` for its name; the command that
            installs it follows.
        extra: The extra that brings it; None is what ORE always needs.

    Raises:
        ExtraNotInstalledError: A package is not there.
        BackendError: It is there and can't be imported: a part of it is of another Python, or cut short;
            a file with its name takes its place; or this process was forked while another thread imported
            one.
    """
    require_whole(package)
    thread = threading.get_ident()
    with deferred_signals(), _unlooked():
        try:
            _AMONG[thread] = package
            yield
            if why := _in_place_of(package):
                raise BackendError(why)
        except OreError:
            raise
        except Exception as exc:
            name = exc.name if isinstance(exc, ModuleNotFoundError) else None
            if name and "." not in name:
                text = f"{missing.format(name)}{install_command(extra)}"
                raise ExtraNotInstalledError(text, extra) from exc
            raise BackendError(_why_broken(package, exc, extra)) from exc
        finally:
            _AMONG.pop(thread, None)


def require_whole(package: str) -> None:
    """Raise ``BackendError`` where a package may wait for a thread that a forked child does not have.

    Python waits without end for a package that another thread was importing, or a part that it shares.
    """
    spec = getattr(sys.modules.get(package), "__spec__", None)
    is_whole = package in sys.modules and not getattr(spec, "_initializing", False)
    if package in _NEVER_DONE or _NEVER_DONE and not is_whole:
        raise BackendError(
            f"The package '{package}' can't be loaded: this process was forked while another thread of its "
            f"parent loaded '{min(_NEVER_DONE)}'. Fork before the first turn, or after it."
        )


def _lose_threads() -> None:
    """Keep in a forked child what the threads were importing that it does not have."""
    own = _AMONG.pop(threading.get_ident(), None)
    _NEVER_DONE.update(_AMONG.values())
    _AMONG.clear()
    if own is not None:
        _AMONG[threading.get_ident()] = own


os.register_at_fork(after_in_child=_lose_threads)


@contextmanager
def _unlooked() -> Iterator[None]:
    """Let Python not look for unused objects in the block.

    An import makes so many that it would look a hundred times, and finds next to none.
    """
    # A child that another thread forks meanwhile would never look.
    if not gc.isenabled() or threading.active_count() > 1:
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _why_broken(package: str, exc: Exception, extra: str | None) -> str:
    said = " ".join(str(exc).split()) or type(exc).__name__
    if is_shortage(exc):
        return runs_nowhere(said) or NO_MEMORY
    if isinstance(exc, OSError) and exc.errno in (errno.EMFILE, errno.ENFILE):
        limit = "raise the limit (ulimit -n), or close some"
        return f"The package '{package}' can't be loaded: this process may open no more files; {limit}."
    if why := _in_place_of(package):
        return why
    again = install_command(extra, again=True)
    return f"The package '{package}' can't be used ({said}): run {again}"


_CLIENTS = ("ollama", "openai")  # of servers; they import httpx


def _in_place_of(package: str) -> str:
    """Return what to say of a file in the current folder that Python takes for a package, or ""."""
    for name in (package, "httpx") if package in _CLIENTS else (package,):
        with suppress(ImportError, OSError, ValueError):
            spec = getattr(sys.modules.get(name), "__spec__", None) or find_spec(name)
            if spec and spec.origin == os.path.join(os.getcwd(), f"{name}.py"):
                return (
                    f"{spec.origin} takes the place of the package '{name}': give it another name."
                )
    return ""


def runs_nowhere(said: str) -> str:
    """Return what to say of a library that can't be mapped, as ``said``, for its disk lets nothing run.

    The system says the same where it has no memory; it is empty then.
    """
    path, found, _ = said.partition(": failed to map segment")
    with suppress(OSError, ValueError):
        if found and os.statvfs(path).f_flag & getattr(os, "ST_NOEXEC", 0):
            return (
                f"{path} can't be loaded, because its disk is mounted so that nothing may run from "
                f"it (noexec): install ORE's packages on another."
            )
    return ""


def _named(extra: str | None) -> str:
    """Return the packages of an extra, quoted for a shell; nothing where none is known."""
    found = []
    ours = distribution(_DISTRIBUTION)
    for line in (ours and ours.requires) or ():
        package, _, marker = line.partition(";")
        of_extra = re.search(_EXTRA, marker)
        if (of_extra[1] if of_extra else None) == extra:
            found.append(package.strip())
    return " ".join(map(shlex.quote, found))


def _files(extra: str | None) -> list[str]:
    """Return the files of requirements of a copy of the project: what ORE needs, and the extra's."""
    names = ["requirements.txt", *([f"requirements-{extra}.txt"] if extra else [])]
    paths = [os.path.join(_PROJECT, name) for name in names]
    return paths if all(map(os.path.isfile, paths)) else []


def _is_managed() -> bool:
    """Whether this Python is the system's, which pip leaves alone unless it is told otherwise."""
    marker = os.path.join(os.path.dirname(os.__file__), "EXTERNALLY-MANAGED")
    return sys.prefix == sys.base_prefix and os.path.isfile(marker)


def _in_its_own_environment(python: str, files: list[str]) -> str:
    folder = shlex.quote(os.path.join(_PROJECT, ".venv"))
    listed = " ".join(f"-r {shlex.quote(path)}" for path in files)
    program = shlex.quote(os.path.join(_PROJECT, "main.py"))
    return (
        f"{python} -m venv {folder} && {folder}/bin/python -m pip install {listed}, and from then on "
        f"run {folder}/bin/python {program}"
    )


def _is_on_path(program: str) -> bool:
    return any(os.access(os.path.join(each, program), os.X_OK) for each in os.get_exec_path())
