"""One tree of exceptions; the class of an error decides the exit code.

Every message is a full sentence that says what happened and what to do next. Children keep the
evidence as attributes, so that callers branch on type and read fields, never parse messages.
"""

from __future__ import annotations

import errno
import os
import re
from enum import Enum
from typing import NamedTuple

ADVICE = r"`(?P<what>[A-Za-z_][\w.]*)(?:=(?P<value>[^`]*)|[(\[](?P<about>[^`]*)[)\]])`"
"""What can be done, as sentences say it: ```timeout=```, ```Backend.pull('llama3.2')```; a pattern."""


class Advice(NamedTuple):
    """One thing to do: an argument to give or to leave out, or a function to call.

    Attributes:
        what: Its name in Python: ``"timeout"``, ``"Backend.pull"``.
        about: What it is to be given, ``""`` where that is open: ``"llama3.2"``.
    """

    what: str
    about: str = ""

    @classmethod
    def of(cls, found: re.Match[str]) -> Advice:
        """Return what was ``found`` of ``ADVICE``."""
        return cls(found["what"], (found["value"] or found["about"] or "").strip("'\""))


class OreError(Exception):
    """Base of every error that ORE raises on purpose.

    Every child takes ``message``, a full sentence, first; what it keeps besides are its attributes.

    Attributes:
        exit_code: The process's exit code, where the error ends it.
    """

    exit_code = 1

    @property
    def advice(self) -> tuple[Advice, ...]:
        """What the sentence says to do, in its order: what it has between backticks."""
        said = str(self).removesuffix(getattr(self, "text", ""))  # an answer that it quotes
        return tuple(Advice.of(found) for found in re.finditer(ADVICE, said))

    def __reduce__(self) -> tuple[object, ...]:
        """Return how to copy it, or to send it to another process: not by what its class takes."""
        return _error_again, (type(self), self.args), vars(self)


def _error_again(kind: type[OreError], args: tuple[object, ...]) -> OreError:
    error = kind.__new__(kind)
    super(OreError, error).__init__(*args)  # what the built-in class keeps
    return error


class UsageError(OreError):
    """The request is wrong: conflicting flags, no prompt, an illegal value."""

    exit_code = 2


class CheckFailedError(OreError):
    """A check that the user asked for failed; ``text`` is an answer that it quotes at its end."""

    exit_code = 3
    text = ""


class SchemaMismatchError(CheckFailedError):
    """An answer is not what its schema asks for; ``text`` is the answer, verbatim."""

    def __init__(self, message: str, *, text: str = "") -> None:
        super().__init__(message)
        self.text = text


class HomeError(OreError):
    """There is no usable home folder for ORE's files."""


class FileAccessError(OreError):
    """A file that was named can't be used; ``path`` says which."""

    def __init__(self, message: str, path: object = None) -> None:
        super().__init__(message)
        self.path = path


class OutputError(FileAccessError):
    """An answer, a list or a document could not be written."""


class ReaderGoneError(OreError):
    """Whoever read the output has gone, as ``head`` does; there is nobody left to tell."""

    exit_code = 141


class ExtraNotInstalledError(OreError, ImportError):
    """A package is missing; ``extra`` names the extra that brings it, or is None: ORE needs it."""

    def __init__(self, message: str, extra: str | None) -> None:
        super().__init__(message)
        self.extra = extra


class PersonaError(OreError):
    """The system prompt can't be read."""


class ReasonerContractError(OreError, TypeError):
    """A reasoner returned something that is not a ``Response``, or a stream that is not of text."""


INTERRUPTED = 130
"""The exit code of a process that was interrupted (SIGINT), which raises KeyboardInterrupt."""

NO_MEMORY = "The system gives ORE no more memory: give it less to read, or end other programs."
"""What is said where ``is_shortage`` holds."""


def is_shortage(error: BaseException) -> bool:
    """Tell whether ``error`` says that there is no memory left: Python has many words for it."""
    text = str(error)
    if isinstance(error, SystemError):
        return "without " in text and "exception" in text  # the interpreter's own, half-way
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    if any(isinstance(each, MemoryError) for each in (error, error.__cause__)):
        return True  # Python 3.11 wraps one that comes while a class is made, a package any
    # What loads a module tells of it in the C library's words.
    words = "failed to map segment", "allocate lock", os.strerror(errno.ENOMEM)
    return any(each in text for each in words)


class Terminated(BaseException):
    """SIGTERM asked the process to end; like KeyboardInterrupt, it is not an ``OreError``."""

    exit_code = 143


class HungUp(Terminated):
    """SIGHUP asked the process to end: its terminal is gone."""

    exit_code = 129


# Backends


class BackendError(OreError):
    """A backend failed.

    Attributes:
        host: The address that was tried, or None.
        partial: What had been answered before the failure; never a complete answer.
    """

    def __init__(self, message: str, *, host: str | None = None, partial: str = "") -> None:
        super().__init__(message)
        self.host = host
        self.partial = partial


class ServerUnreachableError(BackendError, ConnectionError):
    """Nothing answered at the address."""


class BackendTimeoutError(BackendError, TimeoutError):
    """The backend was silent for too long, or the turn took too long."""


class IncompleteAnswerError(BackendError):
    """The answer stopped before the backend said that it was done."""


class ModelNotFoundError(BackendError):
    """The model is not there; ``model`` was asked for, ``available`` can be used instead."""

    def __init__(
        self,
        message: str,
        *,
        model: str,
        available: tuple[str, ...] = (),
        host: str | None = None,
    ) -> None:
        super().__init__(message, host=host)
        self.model = model
        self.available = available


class CapabilityError(BackendError):
    """The model or backend can't do it; ``setting`` names the option that it lacks, or is empty."""

    def __init__(self, message: str, *, host: str | None = None, setting: str = "") -> None:
        super().__init__(message, host=host)
        self.setting = setting


class ContextTruncatedError(BackendError, CheckFailedError):
    """With strict context: the prompt does not fit the context window, or was cut."""

    exit_code = 3


# Sessions


class SessionError(OreError):
    """A session can't be used; ``name`` is its name."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


class SessionNameError(SessionError, UsageError, ValueError):
    """The name is not a legal session name."""

    exit_code = 2


class SessionNotFoundError(SessionError, FileNotFoundError):
    """There is no session of that name."""


class SessionExistsError(SessionError, FileExistsError):
    """The name is taken, and nothing is ever overwritten."""


class SessionInUseError(SessionError):
    """Another process has the session open for saving; ``pid`` is its process id, or None."""

    def __init__(self, message: str, name: str, pid: int | None = None) -> None:
        super().__init__(message, name)
        self.pid = pid


class InvalidSessionError(SessionError, ValueError):
    """The file is not a session, or is not a regular file. It is left as it is."""


class SessionChangedError(SessionError):
    """The session on disk is not the beginning of the one to be saved."""


class SessionNotSavedError(SessionError):
    """The session could not be written; the file is as it was before."""


# Artifacts


class ArtifactError(OreError):
    """An artifact can't be read or written."""


class InvalidArtifactError(ArtifactError, ValueError):
    """The data is not an execution artifact that this version understands."""


# Skills and tools


class SkillError(OreError):
    """A skill can't be used; ``name`` is its name or folder."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


class SkillNotFoundError(SkillError, LookupError):
    """There is no skill of that name."""


class InvalidSkillError(SkillError, ValueError):
    """A skill's folder, SKILL.md or reference breaks the rules."""


class SkillResourceNotFoundError(SkillError, FileNotFoundError):
    """A resource that was asked for is not in the skill's folder."""


class ToolError(OreError):
    """A tool can't be used; ``tool_name`` is its name."""

    def __init__(self, message: str, tool_name: str) -> None:
        super().__init__(message)
        self.tool_name = tool_name


class UnknownToolError(ToolError, LookupError):
    """There is no tool of that name."""


class ToolFailedError(ToolError):
    """A tool that was asked for returned an error."""


class GateError(ToolError, PermissionError):
    """The gate denied the tool ``tool_name``; ``missing`` has each ``Permission`` that it lacks."""

    def __init__(self, tool_name: str, missing: frozenset[Enum]) -> None:
        # A program's own tool may name its permissions by text: it is denied like any other.
        names = sorted(str(getattr(permission, "value", permission)) for permission in missing)
        allowed = " and ".join(f"`Permission('{name}')`" for name in names)
        message = f"The tool '{tool_name}' was not run: allow it with {allowed}."
        super().__init__(message, tool_name)
        self.missing = missing
