"""SSH keys to sign with, made by the real ssh-keygen, and files of allowed signers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

needs_ssh_keygen = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None, reason="there is no ssh-keygen (openssh-client)"
)
PASSPHRASE = "a long walk at low tide"


def make_key(path: Path, passphrase: str = "") -> Path:
    """Make a key at ``path`` and ``path.pub``."""
    kind = ("-t", "ed25519")
    command = ["ssh-keygen", "-q", *kind, "-N", passphrase, "-C", path.name, "-f", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return path


def make_keys(folder: Path) -> Path:
    """Make Ada's key, Eve's, and one with a passphrase."""
    make_key(folder / "ada")
    make_key(folder / "eve")
    make_key(folder / "locked", PASSPHRASE)
    return folder


def forget_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what would answer in the place of a terminal: an agent, and a window."""
    for name in ("SSH_AUTH_SOCK", "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "DISPLAY"):
        monkeypatch.delenv(name, raising=False)


def public(key: Path) -> str:
    """The kind and the Base64 of a key's public half."""
    return " ".join(key.with_name(key.name + ".pub").read_text().split()[:2])


def allow(path: Path, *lines: tuple[str, Path], options: str = "") -> Path:
    """Write a file of allowed signers: a name and a key for each."""
    path.write_text("".join(f"{name} {options}{public(key)}\n" for name, key in lines))
    return path
