"""What a session was begun with, in a file beside it: ``NAME.meta.json``, never in its own.

It is written once, by whoever begins the session, and read when the session goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from ore.errors import FileAccessError, InvalidSessionError, SessionError, SessionNameError
from ore.files import reason, strictjson
from ore.files.folder import Folder
from ore.store.names import META, MOST_FILE_BYTES, check_name

LARGEST = 8 << 20
"""The most bytes of such a file: a system prompt of a mebibyte, escaped."""
_MOST_VALUES = 100_000

_TEXTS = ("backend", "model", "persona", "system")


@dataclass(frozen=True)
class Beginning:
    """What a session was begun with.

    Attributes:
        id: The session's identity: a file of another one says nothing of this session.
        backend: The backend's name.
        model: The model that answered.
        persona: The persona that was named, or None.
        system: The system prompt that was given, ``""`` for none at all, or None.
        options: The model's options as they were written, ``KEY=VALUE``.
    """

    id: str
    backend: str | None = None
    model: str | None = None
    persona: str | None = None
    system: str | None = None
    options: tuple[str, ...] = ()


def read_beginning(root: Path, name: str) -> Beginning | None:
    """Return what the session ``name`` in ``root`` was begun with; None where nothing is kept.

    Raises:
        InvalidSessionError: What is there is not such a file; it is left as it is.
        FileAccessError: The folder can't be trusted.
    """
    file = name + META
    if len(file.encode()) > MOST_FILE_BYTES:
        return None
    try:
        with Folder(root) as folder:
            return _decoded(folder.read(file, LARGEST)[0])
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as exc:
        raise InvalidSessionError(
            f"What the session '{name}' was begun with can't be used: {_why(exc)}. {root / file} "
            f"is left as it is: correct it, or move it away.",
            name,
        ) from exc


def write_beginning(
    root: Path, name: str, beginning: Beginning, report: Callable[[str], None]
) -> None:
    """Keep what the session ``name``, whose lock is held, was begun with.

    Report where it can't be written, or where something else has that file's name.
    """
    file = name + META
    text = json.dumps(asdict(beginning), indent=2, ensure_ascii=True) + "\n"
    try:
        with Folder(root) as folder:
            with suppress(FileNotFoundError):  # what an earlier session has left may be replaced
                _decoded(folder.read(file, LARGEST)[0])
            folder.replace(file, f".{name}.tmp", [text.encode()], 0o600)
    except (FileAccessError, OSError, ValueError) as exc:
        report(
            f"What the session '{name}' was begun with is not kept, but its turns are: "
            f"{_why(exc)} ({root / file})."
        )


def copy_beginning(root: Path, old: str, new: str, id: str, report: Callable[[str], None]) -> None:
    """Keep what ``old`` was begun with for ``new``, too, whose identity is ``id``; report a failure."""
    try:
        begun = read_beginning(root, old)
    except SessionError as exc:
        report(str(exc))
        return
    if begun is not None:
        write_beginning(root, new, replace(begun, id=id), report)


def _why(exc: Exception) -> str:
    return reason(exc) if isinstance(exc, OSError) else str(exc).rstrip(".")


def _decoded(data: bytes) -> Beginning:
    """Return what a file says; raise ``ValueError``, whose text is the end of a sentence."""
    value = strictjson.parse(data, limit=LARGEST, most=_MOST_VALUES)
    if not isinstance(value, dict):
        raise ValueError("it is not an object")
    known = [field.name for field in fields(Beginning)]
    for key in value:
        if key not in known:
            raise ValueError(f"it has the key {key[:40]!r}, which ORE does not write")
    if not isinstance(value.get("id"), str):
        raise ValueError("its id is not text")
    for key in _TEXTS:
        if not isinstance(value.get(key), (str, type(None))):
            raise ValueError(f"its {key} is not text")
    return Beginning(**{**value, "persona": _persona(value), "options": _options(value)})


def _persona(value: dict[str, Any]) -> str | None:
    try:
        persona = value.get("persona")
        return None if persona is None else check_name(persona, "persona")
    except SessionNameError as exc:
        raise ValueError("its persona is not a name") from exc


def _options(value: dict[str, Any]) -> tuple[str, ...]:
    options = value.get("options", [])
    if not strictjson.is_list_of_texts(options):
        raise ValueError("its options are not a list of texts")
    return tuple(options)
