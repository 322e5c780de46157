"""What goes together: every rule of the table, and the values that are refused."""

from __future__ import annotations

from importlib import import_module

import pytest

from ore.cli.options import Options, on_or_off
from ore.cli.parser import build_parser
from ore.cli.rules import (
    CONFLICTS,
    REPL,
    STDIN_ARTIFACT,
    STDOUT_ARTIFACT,
    VERBS,
)
from ore.cli.verbs import DOES
from ore.errors import UsageError

WRITTEN = {
    "a prompt": ["hello"],
    REPL: ["-c"],
    STDOUT_ARTIFACT: ["--artifact-out=-"],
    "--interactive": ["-i"],
    "--conversational": ["-c"],
    "--route": ["--route"],
    "--json": ["--json"],
    "--stream": ["--stream"],
    "--no-stream": ["--no-stream"],
    "--list-models": ["--list-models"],
    "--list-tools": ["--list-tools"],
    "--verify-models": ["--verify-models"],
    "--list-skills": ["--list-skills"],
    "--list-personas": ["--list-personas"],
    "--list-sessions": ["--list-sessions"],
    "--continue": ["--continue"],
    "--rename-session": ["--rename-session", "old", "new"],
    "--diff": ["--diff", "a.json", "b.json"],
    "--dry-run": ["--dry-run"],
    **{f"--artifact-{what}": [f"--artifact-{what}"] for what in ("full", "text", "hashes-only")},
    "--no-stdin": ["--no-stdin"],
    "--extract": ["--extract"],
    "--logprobs": ["--logprobs"],
    "--think": ["--think", "on"],
    "--csv": ["--csv"],
    "--as": ["--report", "run.json", "--as", "methods"],
    STDIN_ARTIFACT: ["--artifact-in", "-"],
}


def parse(*argv: str) -> Options:
    return Options.from_args(build_parser().parse_args(list(argv)))


def written(name: str) -> list[str]:
    return WRITTEN.get(name, [name, "value"])


@pytest.mark.invariant
@pytest.mark.parametrize("first, second", CONFLICTS)
def test_a_conflict_is_refused_and_both_are_named(first, second):
    with pytest.raises(UsageError) as caught:
        parse(*written(first), *written(second))
    assert first in str(caught.value)
    assert second in str(caught.value) or REPL in str(caught.value)


ALLOWED = [
    ["hi", "--skill", "s", "--tool", "echo"],
    ["hi", "--skill", "s", "--route"],
    ["--artifact-in", "a", "--artifact-out", "b"],
    ["--artifact-in", "a", "--artifact-out"],
    ["--artifact-in", "a", "--stream"],
    ["--artifact-in", "a", "--json"],
    ["hi", "--artifact-out", "a", "--json"],
    ["hi", "--session", "s", "--json"],
    ["hi", "--save-session", "s", "--json"],
    ["hi", "-c", "--stream", "--verbose"],
    ["-i", "--tool", "echo", "--tool-arg", "a=b"],
    ["-c", "--route"],
    ["-c", "--save-session", "s"],
    ["--resume-session", "a", "--save-session", "b"],
    ["--list-models", "--json", "--host", "h", "--backend", "ollama", "-v", "-q"],
    ["hi", "--route", "--route-threshold", "0"],
    ["-C", "hi", "--json"],
    ["--delete-session", "s", "--yes"],
    ["--list-sessions", "--json"],
]


@pytest.mark.parametrize("argv", ALLOWED, ids=" ".join)
def test_what_is_allowed_together_parses(argv):
    assert parse(*argv)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("other", [["hi"], ["-c"], ["--tool", "echo"], ["--session", "s"], ["-s"]])
def test_a_verb_stands_alone(verb, other):
    if verb == "--rows" and other == ["hi"]:
        return  # which is asked of every row
    with pytest.raises(UsageError, match=verb):
        parse(*other, *written(verb))


def test_two_verbs_are_refused():
    with pytest.raises(UsageError, match="--list-models can't be used with --list-tools"):
        parse("--list-models", "--list-tools")


VALUED = ["model", "host", "pull", "save-session", "resume-session", "session", "tool", "grant"]
VALUED += ["tool-arg", "skill", "artifact-in", "artifact-out"]


@pytest.mark.parametrize("flag", VALUED)
@pytest.mark.parametrize("value", ["", "  "])
def test_an_empty_value_is_refused(flag, value):
    with pytest.raises(UsageError, match=f"--{flag} needs a value"):
        parse(f"--{flag}={value}")


@pytest.mark.parametrize(
    "flag, values, allowed",
    [
        ("timeout", "0 -1 nan inf -inf 1e999", "a number of seconds above 0"),
        ("deadline", "0 -1 nan inf -inf 1e999", "a number of seconds above 0"),
        ("jobs", "0 -1 257", "a whole number from 1 to 256"),
        ("max-failures", "0 -1", "a whole number above 0"),
        ("route-threshold", "nan inf -inf -0.1 1.01", "a number from 0 to 1"),
        ("min-confidence", "nan inf -inf -0.1 1.01", "a number from 0 to 1"),
    ],
)
def test_a_number_that_a_flag_can_not_have_is_refused(flag, values, allowed):
    for value in values.split():
        with pytest.raises(UsageError, match=f"^--{flag} must be {allowed}, not "):
            parse(f"--{flag}={value}")


def test_the_least_and_the_most_that_a_flag_can_have_are_allowed():
    for jobs, failures in ((1, 1), (256, 10**9)):
        parse("hi", "--rows=t.csv", f"--jobs={jobs}", f"--max-failures={failures}")
    for share, seconds in ((0, 0.001), (1, 1e9)):
        parse("hi", "--route", f"--route-threshold={share}", f"--timeout={seconds}")
        parse("hi", "--choose=a,b", f"--min-confidence={share}", f"--deadline={seconds}")


@pytest.mark.parametrize("prompt", ["", " ", "\n\t"])
def test_a_blank_prompt_is_refused(prompt):
    with pytest.raises(UsageError, match="blank"):
        parse(prompt)


@pytest.mark.parametrize(
    "argv, is_repl, has_session",
    [
        (["hi"], False, False),
        (["-i"], True, False),
        (["-i", "hi"], True, False),
        (["-c"], True, True),
        (["-c", "hi"], True, True),
        (["--session", "s"], True, True),
        (["--session", "s", "hi"], False, True),
        (["--save-session", "s", "hi"], False, True),
        (["--resume-session", "s"], True, True),
        (["--continue"], True, True),
        (["-C", "hi"], False, True),
        (["--save-session", "s", "-c", "hi"], True, True),
    ],
)
def test_which_flags_make_a_repl_and_which_a_session(argv, is_repl, has_session):
    options = parse(*argv)
    assert (options.is_repl, options.has_session) == (is_repl, has_session)


@pytest.mark.parametrize(
    "argv, needed",
    [
        (["hi", "--tool-arg", "a=b"], "--tool"),
        (["hi", "--route-threshold", "0.3"], "--route"),
        (["hi", "--yes"], "--delete-session"),
        (["--list-models", "--yes"], "--delete-session"),
        (["hi", "--artifact-full"], "--artifact-out"),
        (["hi", "--artifact-text"], "--artifact-out"),
        (["hi", "--artifact-hashes-only"], "--artifact-out"),
    ],
)
def test_a_flag_that_would_do_nothing_is_refused(argv, needed):
    with pytest.raises(UsageError, match=f"needs {needed}"):
        parse(*argv)


@pytest.mark.parametrize("verb", ["--show", "--verify", "--replay", "--why", "--report"])
def test_a_log_beside_what_reads_artifacts_is_where_the_last_one_is(verb):
    assert parse(verb, "--last", "--runs", "log").names_last
    with pytest.raises(UsageError, match=f"{verb} can't be used with --runs: leave one"):
        parse(verb, "a.json", "--runs", "log")


@pytest.mark.parametrize(
    "flag, beside",
    [("--out", "--report"), ("--junit", "--replay"), ("--junit", "--rows"), ("--runs", "--system")],
)
def test_no_file_is_called_as_stdout_is_elsewhere(flag, beside):
    with pytest.raises(
        UsageError, match=rf"^{flag} can't be stdout: name a path \(\./- is a file of"
    ):
        parse(beside, "a.json", flag, "-")
    parse(beside, "a.json", flag, "./-")


def test_rows_that_come_from_a_file_may_leave_stdin_alone():
    assert parse("--rows", "a.csv", "-n", "hi").no_stdin
    assert parse("--rows", "-", "--rows-format", "csv", "hi").rows == "-"
    with pytest.raises(UsageError, match="^--rows - reads stdin: leave --no-stdin out, or name a"):
        parse("--rows", "-", "--rows-format", "csv", "hi", "-n")


@pytest.mark.parametrize("value, means", [(None, None), ("", None), ("on", True), (" OFF ", False)])
def test_a_switch_is_on_off_or_not_set(value, means):
    assert on_or_off("ORE_HISTORY", value) is means


@pytest.mark.parametrize(
    "variable, args",
    [
        ("ORE_HISTORY", ["-i"]),
        ("ORE_HISTORY", ["--session", "trip"]),
        ("ORE_STREAM", ["-i"]),
        ("ORE_STREAM", ["Hello"]),
        ("ORE_STREAM", ["--session", "trip"]),
    ],
)
def test_a_switch_of_another_value_is_wrong_usage(ore, monkeypatch, variable, args):
    monkeypatch.setenv(variable, "maybe")
    result = ore(*args, stdin="Hello\n")
    assert result.code == 2 and not result.calls
    assert f"{variable} is 'maybe': set it to on or off." in result.err


@pytest.mark.parametrize("flag", ["--stream", "--no-stream"])
def test_a_flag_wins_over_a_switch_of_another_value(ore, monkeypatch, flag):
    monkeypatch.setenv("ORE_STREAM", "maybe")
    result = ore("Hello", flag)
    assert (result.code, result.err) == (0, "")


def test_a_turn_that_has_no_history_asks_nothing_of_its_switch(ore, monkeypatch):
    monkeypatch.setenv("ORE_HISTORY", "maybe")
    result = ore("Hello")
    assert (result.code, result.err) == (0, "")


def test_every_verb_has_the_function_that_does_it():
    assert set(DOES) == {*VERBS, "--run", "--as"}
    for verb, where in DOES.items():
        module, _, name = where.partition(":")
        assert callable(getattr(import_module(f"ore.cli.{module}"), name)), verb


def test_options_take_their_own_names_only_and_can_t_be_assigned():
    options = Options("hello", jobs=4)
    assert (options.prompt, options.jobs, options.model, Options().prompt) == (
        "hello",
        4,
        None,
        None,
    )
    others = options.replace(jobs=2)
    assert (others.prompt, others.jobs, options.jobs) == ("hello", 2, 4)
    with pytest.raises(TypeError, match="^there is no option 'job'$"):
        Options(job=4)
    with pytest.raises(TypeError, match="^there is no option 'job'$"):
        options.replace(job=4)
    with pytest.raises(AttributeError, match="options can't be changed"):
        options.jobs = 2
