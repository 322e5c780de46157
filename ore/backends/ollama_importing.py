"""Importing the ``ollama`` package so that no environment variable can break it.

The package makes a client while it is imported, from proxies, certificates, a host and a key that
the environment names, and fails on any that is malformed. Knows nothing about requests.
"""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from types import ModuleType

from ore.backends.environment import environment_without
from ore.errors import BackendError, ExtraNotInstalledError
from ore.files.extras import install_command
from ore.files.signals import deferred_signals

_READ_ON_IMPORT = re.compile(
    r"(https?|all|no)_proxy|ollama_(host|api_key)|ssl_cert_(file|dir)|sslkeylogfile", re.IGNORECASE
)

_PARTS = (
    "certifi",
    "h11",
    "http.client",
    "httpcore",
    "httpx",
    "importlib.metadata",
    "pydantic.fields",
    "pydantic.functional_serializers",
    "pydantic.json_schema",
    "pydantic.main",
    "pydantic.types",
)
"""What the package is made of; none of it reads, while it is imported, what is hidden below."""


def import_parts() -> None:
    """Import what the package is made of, but not the package, so that its import is quick.

    Leaves the environment alone, so that a thread may call it while others do something else.

    Raises:
        ImportError: Something is not installed, or can't be imported.
    """
    for name in _PARTS:
        import_module(name)


def import_ollama() -> ModuleType:
    """Return the ``ollama`` package; a program that has imported it already gets that one.

    What the package reads of the environment is hidden from it for the moment of the import,
    process-wide and under a lock. A program that also uses the package's own functions
    (``ollama.chat`` and others) imports it before its first turn, so that they see it all.

    Raises:
        ExtraNotInstalledError: The package is not there.
        BackendError: It is there and can't be imported.
    """
    if "ollama" in sys.modules:
        import ollama  # waits where another thread is in the middle of it

        return ollama
    # A signal waits, for pydantic makes an error of its own of what a handler raises in the middle.
    # An empty folder of certificates: nobody uses that client, and reading them all takes longer.
    with deferred_signals(), environment_without(_READ_ON_IMPORT, SSL_CERT_DIR=os.devnull):
        try:
            import ollama
        except ModuleNotFoundError as exc:
            raise ExtraNotInstalledError(
                f"The package '{exc.name}' is not installed: run {install_command()}.",
                "requirements.txt",
            ) from exc
        except (ImportError, OSError, ValueError) as exc:
            raise BackendError(
                f"The package 'ollama' can't be used ({' '.join(str(exc).split())}): "
                f"run {install_command(again=True)}."
            ) from exc
    return ollama
