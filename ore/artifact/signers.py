"""Who signed an artifact: its signature, held against a file of allowed signers (``ssh-keygen(1)``)."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from ore.artifact.signing import signature_of
from ore.artifact.ssh_keygen import (
    MOST_BYTES,
    NAMESPACE,
    PROGRAM,
    SIGNATURE,
    Armored,
    Ended,
    missing,
    read_armored,
    ssh_keygen,
)
from ore.errors import ArtifactError, FileAccessError
from ore.files import read_regular
from ore.files.neutral import one_line
from ore.files.reached import why_unknown

_MOST_SIGNERS = 16 * 1024 * 1024
_MOST_TRIED = 64
"""Under how many names a key may stand."""
_MOST_SHOWN = 100


@dataclass(frozen=True)
class Signature:
    """What was found of the signature of a file.

    Attributes:
        by: Who signed, as the file of allowed signers names them; None where that is not known.
        key: The fingerprint of the key, or None.
        problem: Why nobody is known to have signed, without a full stop; None where somebody is.
    """

    by: str | None = None
    key: str | None = None
    problem: str | None = None


class Signers:
    """Those who may sign, of one file.

    Args:
        path: The file, in the format of ssh-keygen's ALLOWED SIGNERS.

    Raises:
        ArtifactError: It can't be read, or names nobody; or there is no ssh-keygen.
    """

    def __init__(self, path: Path | str) -> None:
        self.path: str = os.fspath(path)
        try:
            data = read_regular(self.path, _MOST_SIGNERS)
        except FileAccessError as exc:
            raise ArtifactError(f"The allowed signers can't be read: {exc}") from exc
        if shutil.which(PROGRAM) is None:
            raise missing()
        lines = [line.strip() for line in data.splitlines()]
        if not any(line and not line.startswith(b"#") for line in lines):
            raise ArtifactError(
                f"{one_line(self.path)} names no allowed signer: give it a line for each, a name and "
                f"a public key."
            )
        self._names: dict[bytes, list[bytes]] = {}

    def look(self, path: Path | str, data: bytes, at: float | None) -> Signature:
        """Return who signed a file; what goes wrong is a part of what is returned.

        Args:
            path: The file; its signature is beside it.
            data: Its bytes.
            at: The moment at which the key has to be valid, in Unix seconds; None is one that is not
                known.
        """
        beside = signature_of(path)
        if os.fspath(path) == "-":
            return Signature(problem="nobody is known to have signed what comes on stdin")
        if not os.path.lexists(beside) and not why_unknown(beside):
            return Signature(problem=f"nobody signed it: there is no {one_line(beside)}")
        try:
            signature = _with_line_feeds(read_regular(beside, MOST_BYTES))
            said = read_armored(signature)
        except FileAccessError as exc:
            return Signature(problem=f"its signature can't be used: {str(exc).rstrip('.')}")
        except ValueError as exc:
            return Signature(problem=f"its signature {one_line(beside)} can't be used: {exc}")
        if said.namespace != NAMESPACE:
            made_for = one_line(said.namespace[:100])
            why = f"its signature is for '{made_for}', not for {NAMESPACE}"
            return Signature(key=said.fingerprint, problem=why)
        try:
            return self._look(signature, said, data, _moment(at))
        except ArtifactError as exc:
            why = f"its signature can't be judged: {str(exc).rstrip('.')}"
            return Signature(key=said.fingerprint, problem=why)

    def _look(self, signature: bytes, said: Armored, data: bytes, moment: str | None) -> Signature:
        if moment is None:
            why = "its signature can't be judged: it does not say when it was made"
            return Signature(key=said.fingerprint, problem=why)
        time_option = f"-Overify-time={moment}"
        for name in self._names.get(said.key, ()):  # what the key was known as for other files
            if _is_good(self._verified(name, signature, data, time_option)):
                return Signature(_read(name), said.fingerprint)
        words = ["find-principals", "-s", SIGNATURE, "-f", self.path, time_option]
        found = ssh_keygen(words, b"", signature=signature)
        stand = [name for name in found.out.split(b"\n") if name]
        if not stand:
            return Signature(key=said.fingerprint, problem=self._stranger(found, said))
        names = [name for name in stand if _is_name(name)][:_MOST_TRIED]
        if not names:
            shown = one_line(_read(stand[0])[:_MOST_SHOWN])
            why = (
                f"its key {said.fingerprint} is listed in {one_line(self.path)} for '{shown}', "
                f"which is not a name; give it a line with one"
            )
            return Signature(key=said.fingerprint, problem=why)
        for name in names:
            tried = self._verified(name, signature, data, time_option)
            if _is_good(tried):
                self._names.setdefault(said.key, []).append(name)
                return Signature(_read(name), said.fingerprint)
        return Signature(key=said.fingerprint, problem=self._broken(tried, said))

    def _verified(self, name: bytes, signature: bytes, data: bytes, time_option: str) -> Ended:
        words = ["-f", self.path, "-n", NAMESPACE, "-s", SIGNATURE, time_option]
        return ssh_keygen(["verify", "-I", name, *words], data, signature=signature)

    def _stranger(self, found: Ended, said: Armored) -> str:
        """Return why no name was found for the key."""
        for words, when in (("has expired", "no longer"), ("not yet valid", "not yet")):
            if words in found.said:
                return f"its key {said.fingerprint} was {when} valid at the time of the run"
        complaint = next((line for line in found.said.splitlines() if self.path in line), None)
        more = f" (ssh-keygen: {one_line(complaint[:200])})" if complaint else ""
        if said.is_certificate:
            where = f"no cert-authority in {one_line(self.path)} has issued it for a name there"
            return f"its certificate was not valid at the time of the run, or {where}{more}"
        return f"its key {said.fingerprint} is not in {one_line(self.path)}{more}"

    def _broken(self, tried: Ended, said: Armored) -> str:
        if "incorrect signature" in tried.said:
            return "its signature does not fit it: it was changed after it was signed"
        if "not permitted" in tried.said:
            return f"its key {said.fingerprint} may not sign for {NAMESPACE}"
        return f"its signature does not hold: {tried.last}"


def _is_good(tried: Ended) -> bool:
    """Return whether it says that a signature holds: where SIGCHLD is ignored, every exit code is 0."""
    return not tried.code and tried.out.startswith(b'Good "')


def _moment(at: float | None) -> str | None:
    """Return a moment as ssh-keygen reads it, in local time; None where it could not read it."""
    try:
        written = time.strftime("%Y%m%d%H%M%S", time.localtime(at)) if at is not None else ""
    except (OverflowError, OSError, ValueError):
        return None
    return written if len(written) == 14 and written >= "1971" else None


def _with_line_feeds(signature: bytes) -> bytes:
    """Return a signature with its lines as ssh-keygen writes them, whatever an editor has made of them."""
    lines = (line.strip() for line in signature.splitlines())
    return b"\n".join(line for line in lines if line) + b"\n"


def _is_name(principal: bytes) -> bool:
    """Return whether a principal is somebody's name: no pattern of several, and none that is left out."""
    return not (principal.startswith(b"!") or b"*" in principal or b"?" in principal)


def _read(name: bytes) -> str:
    return name.decode("utf-8", "replace")
