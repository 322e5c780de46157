"""Signing artifacts with an SSH key: the signature of ``FILE`` is ``FILE.sig``, over its bytes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ore.artifact.ssh_keygen import (
    ENDING,
    MOST_BYTES,
    NAMESPACE,
    Armored,
    Ended,
    can_ask,
    read_armored,
    ssh_keygen,
)
from ore.errors import ArtifactError, FileAccessError
from ore.files import read_regular, reason, replace_file
from ore.files.neutral import one_line
from ore.files.reached import why_unread

_KEY_BYTES = 1 << 20  # which no key has
_NO_KEY = {
    "are too open": "others can read it; run chmod 600 on it",
    "no private key found": "its private key is neither beside it nor with an agent; run ssh-add",
    "load public key": "it is not a key that ssh-keygen can read",
    "invalid format": "it is not a key that ssh-keygen can read",
    "error in libcrypto": "it is not a key that ssh-keygen can read",
    "agent refused": "the agent refused to sign",
}
"""Why a key does not sign: what ssh-keygen says, in any case, and the end of our sentence."""


class Signer:
    """Signs files with one key.

    Args:
        key: The path of a private key, or of a public one whose private key an agent has.
        once: Whether one file at most is signed, so that a passphrase may be asked for.

    Attributes:
        asks: Whether a passphrase is asked for; ``check`` finds it out.
    """

    def __init__(self, key: str, *, once: bool = False) -> None:
        self.key = key
        self._once = once
        self.asks = False
        self._public: bytes | None = None

    def check(self) -> None:
        """Find out that the key signs, by signing nothing; a passphrase is not asked for yet.

        Raises:
            ArtifactError: It does not, or would have to ask where it can't.
        """
        try:
            status = os.stat(self.key)
            if not stat.S_ISREG(status.st_mode):
                raise self._unable("it is not a regular file")
            if not 0 < status.st_size <= _KEY_BYTES:  # a system's file may go on without end
                raise self._unable("it is not a key that ssh-keygen can read")
        except (OSError, ValueError) as exc:
            raise self._unable(reason(exc)) from exc
        tried = self._run(b"", asks=False)
        if not tried.code:
            self._public = self._read(tried).key
            return
        if "passphrase" not in tried.said:
            raise self._unable(_why(tried))
        if not self._once:
            raise self._unable(
                "it would ask for its passphrase for each file; run ssh-add on it first"
            )
        if not can_ask():
            why = "it asks for its passphrase, and there is no terminal; run ssh-add on it first"
            raise self._unable(why)
        self.asks = True

    def has_signed(self, path: Path | str) -> bool:
        """Return whether the signature of a file is beside it, and was written after the file."""
        try:
            return os.stat(signature_of(path)).st_mtime_ns >= os.stat(path).st_mtime_ns
        except OSError:
            return False

    def check_place(self, path: Path | str) -> None:
        """Raise ``ArtifactError`` where the signature of ``path`` could not be written."""
        beside = signature_of(path)
        try:
            status = os.lstat(beside)
        except FileNotFoundError:
            status = None
        except (OSError, ValueError) as exc:
            raise _unwritable(beside, reason(exc)) from exc
        if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
            raise _unwritable(beside, f"{_shown(path)} is not a regular file")
        if status is not None and (status.st_size or not stat.S_ISREG(status.st_mode)):
            self._require_own(beside)

    def sign(self, path: Path | str, data: bytes) -> str:
        """Write the signature of ``path``, whose bytes are ``data``; return the key's fingerprint.

        A signature of the same key is replaced. The new one has the file's permissions.

        Raises:
            ArtifactError: It is not signed, and nothing was written; the file is as it was.
        """
        beside, signed = signature_of(path), self._run(data, asks=self.asks)
        if signed.code:
            raise self._unable(_why(signed))
        made = self._read(signed)
        self._public = made.key
        try:
            self.check_place(path)
            replace_file(beside, [signed.out], mode=stat.S_IMODE(os.stat(path).st_mode) & 0o666)
        except OSError as exc:
            raise _unwritable(beside, reason(exc)) from exc
        return made.fingerprint

    def sign_written(self, path: Path | str, data: bytes) -> None:
        """Sign an artifact that has just been written; what goes wrong names it, and how to go on."""
        try:
            self.sign(path, data)
        except ArtifactError as exc:
            raise ArtifactError(
                f"The artifact is in {_shown(path)} and is not signed. {exc} Sign it with "
                f"`Signer.sign({_shown(path)})`."
            ) from exc

    def _run(self, data: bytes, *, asks: bool) -> Ended:
        return ssh_keygen(["sign", "-f", self.key, "-n", NAMESPACE], data, asks=asks)

    def _read(self, signed: Ended) -> Armored:
        try:
            return read_armored(signed.out)
        except ValueError as exc:
            raise self._unable(f"what ssh-keygen wrote is not a signature: {exc}") from exc

    def _require_own(self, beside: str) -> None:
        """Raise unless what is there can be read, and is a signature of this key."""
        try:
            found = read_armored(read_regular(beside, MOST_BYTES, follow=False))
        except (FileAccessError, ValueError) as exc:
            unread = why_unread(exc)
            what = f"can't be read ({unread})" if unread else "is no signature"
            raise _unwritable(
                beside, f"it is there already and {what}; move it away first"
            ) from exc
        if self._public is not None and found.key != self._public:
            raise _unwritable(beside, "it is there already, of another key; move it away first")

    def _unable(self, why: str) -> ArtifactError:
        return ArtifactError(f"The key {_shown(self.key)} can't sign: {why}.")


def signature_of(path: Path | str) -> str:
    """Return the path of the signature of a file."""
    return os.fspath(path) + ENDING


def _why(ended: Ended) -> str:
    if "incorrect passphrase" in ended.said:
        return "that was not its passphrase"
    said = ended.said.lower()
    return next((why for words, why in _NO_KEY.items() if words in said), ended.last)


def _unwritable(path: Path | str, why: str) -> ArtifactError:
    return ArtifactError(f"The signature can't be written to {_shown(path)}: {why}.")


def _shown(path: Path | str) -> str:
    return one_line(os.fspath(path))
