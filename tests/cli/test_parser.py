"""The command line's grammar."""

from __future__ import annotations

import pytest

from ore.cli.parser import build_parser
from ore.errors import UsageError


def flags():
    return [action for action in build_parser()._actions if action.option_strings]


def test_the_prompt_may_stand_anywhere():
    for argv in (["p", "-v", "-s"], ["-v", "p", "-s"], ["-v", "-s", "p"], ["-v", "--", "p"]):
        assert build_parser().parse_args(argv).prompt == "p"


@pytest.mark.parametrize(
    "argv",
    [["--verb"], ["--unknown"], ["a", "b"], ["--model"], ["--route-threshold", "x"], ["--save"]],
)
def test_what_is_not_in_the_grammar_raises_and_writes_nothing(argv, capsys):
    with pytest.raises(UsageError):
        build_parser().parse_args(argv)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "argv, said",
    [
        (["--timeout", "soon"], "--timeout must be a number of seconds above 0, not 'soon'."),
        (["--deadline="], "--deadline must be a number of seconds above 0, not ''."),
        (["--route-threshold", "x"], "--route-threshold must be a number from 0 to 1, not 'x'."),
        (["--think", "hard"], "--think must be on, off, low, medium or high, not 'hard'."),
        (["--backend", "x"], "--backend must be auto, ollama, embedded or openai, not 'x'."),
        (["--print-completion", "sh"], "--print-completion must be bash, zsh or fish, not 'sh'."),
        (["--model"], "--model needs one value: --help says what."),
        (["-o", "-v"], "-o/--option needs one value: --help says what."),
        (["--diff", "a"], "--diff needs 2 values: --help says what."),
        (["--verify"], "--verify needs at least one value: --help says what."),
        (["--route=yes"], "--route takes no value: leave 'yes' out."),
        (["--modle=x", "hi"], "There is no flag --modle: --help lists them."),
        (["hi", "-x"], "There is no flag -x: --help lists them."),
        (["-x", "--", "hi"], "There is no flag -x: --help lists them."),
        (["--save"], "There is no flag --save: --help lists them."),
        (["--model", "a", "--model", "b"], "--model is given twice: leave one of them out."),
    ],
)
def test_what_is_wrong_is_reported_in_our_words(argv, said):
    with pytest.raises(UsageError) as raised:
        build_parser().parse_args(argv)
    assert str(raised.value) == said


@pytest.mark.parametrize("argv", [["why", "is", "it"], ["--", "why", "-x"]])
def test_several_words_without_quotes_are_told_about_quotes(argv):
    with pytest.raises(UsageError, match="put quotes around a prompt"):
        build_parser().parse_args(argv)


@pytest.mark.parametrize(
    "argv, shown",
    [
        (["-h"], "usage: "),
        (["--help"], "usage: "),
        (["--version"], "ore "),
        (["-i", "-c", "--help"], "usage: "),
        (["--help", "--version"], "usage: "),
        (["--version", "--unknown", "a", "b"], "ore "),
        (["--help", "--timeout", "soon"], "usage: "),
    ],
)
def test_help_and_version_answer_whatever_else_is_there(argv, shown):
    assert build_parser().parse_args(argv).text.startswith(shown)


@pytest.mark.parametrize(
    "argv", [["--timeout", "soon", "--help"], ["--model", "--help"], ["--think", "x", "--version"]]
)
def test_what_is_wrong_before_help_is_an_error(argv):
    with pytest.raises(UsageError):
        build_parser().parse_args(argv)


def test_help_after_two_dashes_is_a_prompt():
    args = build_parser().parse_args(["--", "--help"])
    assert (args.prompt, args.text) == ("--help", None)


def test_help_fits_eighty_columns_and_explains_every_flag(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = build_parser().format_help()
    assert [line for line in text.splitlines() if len(line) > 80] == []
    for action in flags():
        assert action.help, action.option_strings
        assert all(flag in text for flag in action.option_strings)


@pytest.mark.parametrize("argv, expected", [([], None), (["--artifact-out"], "-")])
def test_a_bare_artifact_out_is_stdout(argv, expected):
    assert build_parser().parse_args(argv).artifact_out == expected


@pytest.mark.parametrize("flag", ["--model", "--skill", "--session", "--tool", "--timeout"])
def test_a_value_given_twice_is_refused_and_never_dropped(flag):
    with pytest.raises(UsageError, match=f"{flag} is given twice"):
        build_parser().parse_args([flag, "1", flag, "2"])


def test_what_may_be_repeated_keeps_every_value():
    args = build_parser().parse_args(["--grant", "a", "--grant", "b", "-o", "a=1", "-o", "b=2"])
    assert (args.grant, args.option) == (["a", "b"], ["a=1", "b=2"])


def test_the_help_has_no_colour_whatever_python_thinks_of_the_terminal(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" not in build_parser().format_help() + build_parser().format_usage()
