"""``ssh-keygen -Y``, which makes and checks signatures: run without a shell, bounded in time.

What it signs or checks comes by its stdin, so that no file is read twice; and the parts of a signature
that can be read without it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import subprocess
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass

from ore.errors import ArtifactError
from ore.files import reason
from ore.files.environment import environment
from ore.files.neutral import one_line
from ore.files.signals import deferred_signals

PROGRAM = "ssh-keygen"
SIGNATURE = "\0signature"
"""The word that stands for the file of the signature; no argument of a process can be that."""
NAMESPACE = "ore.exec.v1"
"""What a signature is for: one that was made for mail or a commit does not sign an artifact."""
ENDING = ".sig"
"""A signature is beside its file, with this at the end of the name."""
MOST_BYTES = 16 * 1024
"""The largest signature that is read; it goes through a pipe, which holds as much unread."""

SECONDS, SECONDS_TO_TYPE = 30.0, 180.0
"""How long one call may take; the longer one where somebody is asked for a passphrase."""
_ASKED = "It waited for the key's passphrase"
_UNSEEN = "A security key may wait to be touched, or an agent for its question to be answered"
"""What a signing may wait for in silence: ssh-keygen asks to be touched on a terminal only."""
_GRACE = 2.0  # seconds in which a process that was told to end puts the terminal right
_MOST_SHOWN = 300
_FIRST, _LAST = b"-----BEGIN SSH SIGNATURE-----", b"-----END SSH SIGNATURE-----"
_MAGIC, _VERSION = b"SSHSIG", b"\0\0\0\1"
_ASKPASS = "SSH_ASKPASS_REQUIRE"


@dataclass(frozen=True)
class Armored:
    """What a signature says of itself; nothing of it is checked.

    Attributes:
        key: The public key, as SSH writes it.
        namespace: What it is for.
    """

    key: bytes
    namespace: str

    @property
    def fingerprint(self) -> str:
        """The key's, as ``ssh-keygen -l`` shows it: ``SHA256:`` and 43 characters."""
        digest = base64.b64encode(hashlib.sha256(self.key).digest())
        return "SHA256:" + digest.decode("ascii").rstrip("=")

    @property
    def is_certificate(self) -> bool:
        """Whether the key comes with the certificate of an authority."""
        return b"-cert-v01@" in self.key[:60]


def read_armored(data: bytes) -> Armored:
    """Return what a signature says of itself.

    Raises:
        ValueError: It is not a signature of SSH's format, version 1.
    """
    lines = [line.strip() for line in data.strip().splitlines()]
    if len(lines) < 3 or (lines[0], lines[-1]) != (_FIRST, _LAST):
        raise ValueError("it is not an SSH signature")
    try:
        body = base64.b64decode(b"".join(lines[1:-1]), validate=True)
    except binascii.Error as exc:
        raise ValueError("it is not an SSH signature: its Base64 is damaged") from exc
    if not body.startswith(_MAGIC + _VERSION):
        raise ValueError("it is not an SSH signature of version 1")
    key, rest = _text(body[len(_MAGIC + _VERSION) :])
    return Armored(key, _text(rest)[0].decode("utf-8", "replace"))


def _text(data: bytes) -> tuple[bytes, bytes]:
    """Return a text with its length before it, and what is behind it."""
    end = 4 + int.from_bytes(data[:4], "big")
    if len(data) < max(4, end):
        raise ValueError("it is not an SSH signature: it is cut short")
    return data[4:end], data[end:]


@dataclass(frozen=True)
class Ended:
    """What a call has left: its exit code, stdout, and stderr as text."""

    code: int
    out: bytes
    said: str

    @property
    def last(self) -> str:
        """The last line of stderr that says something, for use in a sentence."""
        return _last_line(self.said) or f"code {self.code}"


def _last_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return one_line(lines[-1][:_MOST_SHOWN]).rstrip(".") if lines else ""


def ssh_keygen(
    words: Sequence[str | bytes], data: bytes, *, signature: bytes | None = None, asks: bool = False
) -> Ended:
    """Run ``ssh-keygen -Y`` with ``words`` and return what it left.

    Args:
        data: Its stdin.
        signature: What the word ``SIGNATURE`` in ``words`` is a file of, or None.
        asks: Whether it may ask the terminal for a passphrase. Else it has no terminal.

    Raises:
        ArtifactError: It is not there, or takes too long.
    """
    environ = environment()
    if not asks:
        environ[_ASKPASS] = "never"
    elif has_terminal():
        environ.setdefault(_ASKPASS, "never")
    pipe = subprocess.PIPE
    read = -1 if signature is None else _piped(signature)
    file = f"/dev/fd/{read}"
    child: subprocess.Popen[bytes] | None = None
    try:
        try:
            # A process that asks hears signals by itself, and has the terminal to put right.
            with nullcontext() if asks else deferred_signals():
                child = subprocess.Popen(
                    [PROGRAM, "-Y", *(file if word == SIGNATURE else word for word in words)],
                    env=environ,
                    stdin=pipe,
                    stdout=pipe,
                    stderr=pipe,
                    pass_fds=[] if signature is None else [read],
                    start_new_session=not asks,
                )
        except FileNotFoundError as exc:
            raise missing() from exc
        except (OSError, ValueError) as exc:
            raise ArtifactError(f"ssh-keygen can't be started: {reason(exc)}.") from exc
        silence = _ASKED if asks else _UNSEEN if words[0] == "sign" else ""
        return _ended(child, data, SECONDS_TO_TYPE if asks else SECONDS, silence)
    finally:
        if signature is not None:
            os.close(read)
        if child is not None:  # a signal may have come before it was waited for
            _end(child, asks)


def missing() -> ArtifactError:
    """Return the error for a machine without the program."""
    return ArtifactError(
        f"There is no program {PROGRAM}, which makes and checks signatures: install OpenSSH's client "
        f"(apt install openssh-client)."
    )


def has_terminal() -> bool:
    """Return whether this process has a terminal that a passphrase can be asked for on."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def can_ask() -> bool:
    """Return whether a passphrase can be asked for: on a terminal, or by a program of the user's."""
    return has_terminal() or os.environ.get(_ASKPASS) == "force"


def _piped(data: bytes) -> int:
    """Return the end of a pipe that ``data`` can be read from."""
    read, write = os.pipe()
    with os.fdopen(write, "wb") as there:
        there.write(data)
    return read


def _ended(child: subprocess.Popen[bytes], data: bytes, seconds: float, silence: str) -> Ended:
    """Return what a call left; ``silence`` says what it may wait for where it says nothing."""
    try:
        out, said = child.communicate(data, timeout=seconds)
    except subprocess.TimeoutExpired as exc:
        last = _last_line((exc.stderr or b"").decode("utf-8", "replace"))
        why = f". The last thing it said: '{last}'" if last else silence and f". {silence}"
        raise ArtifactError(
            f"ssh-keygen took longer than {seconds:g} seconds and was ended{why}."
        ) from exc
    return Ended(child.returncode, out, said.decode("utf-8", "replace"))


def _end(child: subprocess.Popen[bytes], asks: bool) -> None:
    if child.poll() is None:
        if asks:
            child.terminate()
            with suppress(subprocess.TimeoutExpired):
                child.wait(_GRACE)
        child.kill()
        child.wait()
    for stream in (child.stdin, child.stdout, child.stderr):
        if stream is not None:
            with suppress(OSError):
                stream.close()
