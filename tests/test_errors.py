"""The tree of errors: who descends from whom, and which exit code that makes."""

from __future__ import annotations

import copy
import enum
import inspect
import pickle

import pytest

import ore
from ore import errors
from ore.errors import (
    BackendError,
    ContextTruncatedError,
    ExtraNotInstalledError,
    FileAccessError,
    GateError,
    HungUp,
    ModelNotFoundError,
    OreError,
    SessionError,
    SessionInUseError,
    SessionNameError,
    SkillError,
    Terminated,
    ToolError,
)

# Each error: its nearest ancestor of ours, its exit code, and what Python calls it, too.
TREE = {
    "ArtifactError": ("OreError", 1, None),
    "BackendError": ("OreError", 1, None),
    "BackendTimeoutError": ("BackendError", 1, TimeoutError),
    "CapabilityError": ("BackendError", 1, None),
    "CheckFailedError": ("OreError", 3, None),
    "ContextTruncatedError": ("BackendError", 3, None),
    "ExtraNotInstalledError": ("OreError", 1, ImportError),
    "FileAccessError": ("OreError", 1, None),
    "GateError": ("ToolError", 1, PermissionError),
    "HomeError": ("OreError", 1, None),
    "IncompleteAnswerError": ("BackendError", 1, None),
    "InvalidArtifactError": ("ArtifactError", 1, ValueError),
    "InvalidSessionError": ("SessionError", 1, ValueError),
    "InvalidSkillError": ("SkillError", 1, ValueError),
    "ModelNotFoundError": ("BackendError", 1, None),
    "OutputError": ("FileAccessError", 1, None),
    "PersonaError": ("OreError", 1, None),
    "ReaderGoneError": ("OreError", 141, None),
    "ReasonerContractError": ("OreError", 1, TypeError),
    "SchemaMismatchError": ("CheckFailedError", 3, None),
    "ServerUnreachableError": ("BackendError", 1, ConnectionError),
    "SessionChangedError": ("SessionError", 1, None),
    "SessionError": ("OreError", 1, None),
    "SessionExistsError": ("SessionError", 1, FileExistsError),
    "SessionInUseError": ("SessionError", 1, None),
    "SessionNameError": ("SessionError", 2, ValueError),
    "SessionNotFoundError": ("SessionError", 1, FileNotFoundError),
    "SessionNotSavedError": ("SessionError", 1, None),
    "SkillError": ("OreError", 1, None),
    "SkillNotFoundError": ("SkillError", 1, LookupError),
    "SkillResourceNotFoundError": ("SkillError", 1, FileNotFoundError),
    "ToolError": ("OreError", 1, None),
    "ToolFailedError": ("ToolError", 1, None),
    "UnknownToolError": ("ToolError", 1, LookupError),
    "UsageError": ("OreError", 2, None),
}


def made(name: str) -> BaseException:
    """Return an error of that class, with a word for every argument that it must have."""
    kind = getattr(errors, name)
    if kind is GateError:
        return kind("read-file", frozenset({"filesystem-read"}))
    positional, named = [], {}
    for parameter in inspect.signature(kind.__init__).parameters.values():
        required = parameter.default is parameter.empty and parameter.name != "self"
        if required and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            positional.append(parameter.name)
        elif required and parameter.kind is parameter.KEYWORD_ONLY:
            named[parameter.name] = parameter.name
    return kind(*(positional or ["message"]), **named)


def test_the_table_holds_every_error_there_is():
    classes = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, BaseException)
    }
    assert classes == set(TREE) | {"OreError", "Terminated", "HungUp"}
    assert {name for name in ore.__all__ if hasattr(errors, name)} - {"Advice"} == set(TREE) | {
        "OreError"
    }


@pytest.mark.parametrize("name", TREE)
def test_an_error_has_its_place_its_exit_code_and_pythons_own_name(name):
    parent, code, also = TREE[name]
    kind = getattr(errors, name)
    assert kind.__bases__[0] is getattr(errors, parent)
    assert kind.exit_code == code
    assert also is None or issubclass(kind, also)
    assert kind.__doc__


@pytest.mark.parametrize("name", TREE)
def test_an_error_is_caught_as_ours_and_says_only_its_sentence(name):
    error = made(name)
    assert isinstance(error, OreError) and isinstance(error, Exception)
    if name != "GateError":
        assert str(error) == "message"


def test_whoever_breaks_a_check_is_told_apart_from_whoever_fails():
    assert issubclass(ContextTruncatedError, errors.CheckFailedError)
    assert issubclass(SessionNameError, errors.UsageError)
    assert OreError.exit_code == 1


def test_termination_is_not_an_exception_that_a_turn_could_catch():
    assert not issubclass(Terminated, Exception)
    assert (Terminated.exit_code, HungUp.exit_code) == (143, 129)
    assert issubclass(HungUp, Terminated)


# The evidence


@pytest.mark.parametrize(
    "error, evidence",
    [
        (FileAccessError("m", "a.txt"), {"path": "a.txt"}),
        (FileAccessError("m"), {"path": None}),
        (ExtraNotInstalledError("m", "embedded"), {"extra": "embedded", "name": None}),
        (BackendError("m"), {"host": None, "partial": ""}),
        (BackendError("m", host="h", partial="Par"), {"host": "h", "partial": "Par"}),
        (
            ModelNotFoundError("m", model="a", available=("b",), host="h"),
            {"model": "a", "available": ("b",), "host": "h", "partial": ""},
        ),
        (SessionError("m", "paris"), {"name": "paris"}),
        (SessionInUseError("m", "paris", 7), {"name": "paris", "pid": 7}),
        (SessionInUseError("m", "paris"), {"pid": None}),
        (SkillError("m", "writing"), {"name": "writing"}),
        (ToolError("m", "echo"), {"tool_name": "echo"}),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, OreError) else "",
)
def test_the_evidence_is_kept_in_fields(error, evidence):
    assert {name: getattr(error, name) for name in evidence} == evidence
    assert str(error) == "m"


class Grant(enum.Enum):
    READ = "filesystem-read"
    SHELL = "shell"


@pytest.mark.parametrize("missing", [{Grant.SHELL, Grant.READ}, {"shell", "filesystem-read"}])
def test_a_denied_tool_says_how_to_allow_it(missing):
    error = GateError("run", frozenset(missing))
    assert str(error) == (
        "The tool 'run' was not run: allow it with `Permission('filesystem-read')` and "
        "`Permission('shell')`."
    )
    assert (error.tool_name, error.missing) == ("run", missing)
    assert [each.about for each in error.advice] == ["filesystem-read", "shell"]


@pytest.mark.parametrize("name", sorted(TREE))
def test_an_error_goes_to_another_process_and_is_copied_as_it_is(name):
    kind = getattr(errors, name)
    needed = {}
    if inspect.isfunction(kind.__init__):
        _, *taken = inspect.signature(kind.__init__).parameters.values()
        needed = {each.name: "x" for each in taken if each.default is each.empty}
    error = kind(**needed) if needed else kind("Nothing is there.")
    error.__notes__ = ["a note"]
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is kind and str(again) == str(error)
        assert vars(again) == vars(error) and again.args == error.args
