"""``-q``: stderr carries errors and warnings and nothing else, whatever would be said otherwise."""

from __future__ import annotations

import pytest

from tests.support.harness import ScriptedBackend
from tests.support.runs import record


@pytest.fixture
def kept(folder, ore):
    """An artifact of a run in the current folder, and a saved session ``trip``."""
    record(folder / "run.json", "hi")
    assert ore("--session", "trip", "hi").code == 0


WARNED = [
    ({"done_reason": "length"}, "The answer was cut off by a limit"),
    (
        {"context": {"status": "truncated", "window": 8, "prompt_tokens": 8}},
        "The prompt did not fit",
    ),
]


@pytest.mark.parametrize(
    "args, more",
    [
        (["hi"], {}),
        (["hi", "-v"], {}),
        (["hi", "-s"], {"replies": [""]}),
        (["cat", "--route", "--grant", "filesystem-read"], {}),
        (["hi", "--route"], {}),
        (["hi", "--resume-session", "trip"], {}),
        (["hi", "--continue"], {}),
        (["--artifact-in", "run.json"], {}),
        (["--list-skills"], {}),
        (["--list-models"], {"models": []}),
        (["--rename-session", "trip", "tour"], {}),
        (["--delete-session", "trip", "--yes"], {}),
        (["--pull", "small"], {}),
        (["--diff", "run.json", "run.json"], {}),
        (["--replay", "run.json", "run.json"], {"replies": ["Paris.", "Paris."]}),
        (["-c"], {"stdin": "hi\n", "terminal": "in out err"}),
        (["-c", "--resume-session", "trip"], {"stdin": "hi\n", "terminal": "in out err"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
@pytest.mark.parametrize("is_quiet", [False, True])
def test_notices_are_written_and_not_with_quiet(ore, kept, args, more, is_quiet):
    result = ore(*args, *(["-q"] if is_quiet else []), **({"terminal": "err"} | more))
    assert result.code == 0
    assert (result.err.strip() == "") == is_quiet


@pytest.mark.invariant
@pytest.mark.parametrize("flags", [(), ("-s",), ("-j",), ("-i",), ("-c", "-s")], ids=" ".join)
@pytest.mark.parametrize("metadata, said", WARNED)
@pytest.mark.parametrize("is_quiet", [False, True])
@pytest.mark.parametrize("terminal", ["", "in out err"])
def test_that_the_answer_is_not_what_was_asked_for_is_a_warning(
    ore, flags, metadata, said, is_quiet, terminal
):
    typed = {"stdin": "hi\n"} if {"-i", "-c"} & {*flags} else {}
    args = [*flags, *([] if typed else ["hi"]), *(["-q"] if is_quiet else [])]
    result = ore(*args, metadata=metadata, terminal=terminal, **typed)
    assert result.code == 0
    assert sum(line.startswith(f"ore: warning: {said}") for line in result.err.split("\n")) == 1


def test_another_backend_than_the_usual_one_is_a_warning(ore):
    def open_backend(wanted, environ, env_files, notice, warning):
        notice("Said.")
        warning("Another one answers.")
        return ScriptedBackend(["Paris."])

    assert ore("hi", "-q", open_backend=open_backend).err == "ore: warning: Another one answers.\n"


def test_thinking_is_not_followed_with_quiet(ore):
    assert ore("hi").backend.settings.on_thinking is not None
    assert ore("hi", "-q").backend.settings.on_thinking is None


@pytest.mark.parametrize(
    "args, said",
    [
        (["hi", "--model", "none"], "ore: There is no model 'none'."),
        (["--verify", "none.json"], "ore: 1 artifact: 1 can't be read. Its line says why."),
        (["hi", "--tool", "echo", "--json", "--stream"], "ore: --json can't be used with --stream"),
    ],
)
def test_errors_are_written_with_quiet_too(ore, args, said):
    assert said in ore(*args, "-q").err
