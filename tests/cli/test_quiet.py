"""``-q``: stderr carries errors and nothing else, whatever would be said otherwise."""

from __future__ import annotations

import pytest

from tests.support.runs import record


@pytest.fixture
def kept(folder, ore):
    """An artifact of a run in the current folder, and a saved session ``trip``."""
    record(folder / "run.json", "hi")
    assert ore("--session", "trip", "hi").code == 0


TRUNCATED = {"context": {"status": "truncated", "window": 8, "prompt_tokens": 8}}


@pytest.mark.parametrize(
    "args, more",
    [
        (["hi"], {}),
        (["hi", "-v"], {}),
        (["hi", "-s"], {"replies": [""]}),
        (["hi"], {"metadata": {"done_reason": "length"}}),
        (["hi"], {"metadata": TRUNCATED}),
        (["cat", "--route"], {}),
        (["hi", "--route"], {}),
        (["hi", "--resume-session", "trip"], {}),
        (["hi", "--continue"], {}),
        (["--artifact-in", "run.json"], {}),
        (["--list-skills"], {}),
        (["--list-models"], {"models": []}),
        (["--search-sessions", "nothing like it"], {}),
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


def test_thinking_is_not_followed_with_quiet(ore):
    assert ore("hi").backend.settings.on_thinking is not None
    assert ore("hi", "-q").backend.settings.on_thinking is None


@pytest.mark.parametrize(
    "args, said",
    [
        (["hi", "--model", "none"], "ore: There is no model 'none'."),
        (["--verify", "none.json"], "ore: 1 of 1 artifacts can't be read: see their lines."),
        (["hi", "--tool", "echo", "--json", "--stream"], "ore: --json can't be used with --stream"),
    ],
)
def test_errors_are_written_with_quiet_too(ore, args, said):
    assert said in ore(*args, "-q").err
