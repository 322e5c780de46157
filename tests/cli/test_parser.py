"""The command line's grammar."""

from __future__ import annotations

import pytest

from ore.backends.model_options import OPTIONS
from ore.cli import parser
from ore.cli.flags import FLAGS, TOPICS
from ore.cli.help import EXAMPLES, help_text
from ore.cli.parser import build_parser
from ore.errors import UsageError

EVERY = [flag for flags in FLAGS.values() for flag in flags]


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
        (["--model"], "-m/--model needs one value: --help models says what."),
        (["-o", "-v"], "-o/--option needs one value: --help prompt says what."),
        (["-m", "--host=x"], "-m/--model needs one value: --help models says what."),
        (["-x", "-nm"], "-m/--model needs one value: --help models says what."),
        (
            ["--choose", "-1,0,1", "hi"],
            "--choose needs one value: --help prompt says what; what begins with a dash goes after =, "
            "as in --choose=-1.",
        ),
        (["--diff", "a"], "--diff needs 2 values: --help runs says what."),
        (["--diff", "-a", "-b"], "--diff needs 2 values: --help runs says what."),
        (["--diff", "a", "--json"], "--diff needs 2 values: --help runs says what."),
        (
            ["--rename-session", "a", "--yes"],
            "--rename-session needs 2 values: --help sessions says what.",
        ),
        (["--verify"], "--verify needs at least one value right after it: --help runs says what."),
        (
            ["--verify", "--json", "a.json"],
            "--verify needs at least one value right after it: --help runs says what.",
        ),
        (["--route=yes"], "--route takes no value: leave 'yes' out."),
        (["--modle=x", "hi"], "There is no flag --modle; the nearest is --model."),
        (["--sesion", "a"], "There is no flag --sesion; the nearest is --session."),
        (["--list-model"], "There is no flag --list-model; the nearest is --list-models."),
        (["-session", "a"], "There is no flag -session; the nearest is --session."),
        (["-model", "a", "hi"], "There is no flag -model; the nearest is --model."),
        (["hi", "-continue"], "There is no flag -continue; the nearest is --continue."),
        (["hi", "-z"], "There is no flag -z: --help all lists them."),
        (["-z", "--", "hi"], "There is no flag -z: --help all lists them."),
        (["--nosuch"], "There is no flag --nosuch: --help all lists them."),
        (["--save"], "There is no flag --save; the nearest is --save-session."),
        (["--model", "a", "--model", "b"], "--model is given twice: leave one of them out."),
        (["--temp", "0", "hi"], "There is no flag --temp: write -o temperature=VALUE."),
        (["hi", "--num_ctx=4096"], "There is no flag --num_ctx: write -o num_ctx=VALUE."),
        (["-p", "hi"], "There is no flag -p: write the prompt alone, in quotes."),
        (["hi", "--output", "a"], "There is no flag --output: write > FILE after the command."),
        (["--chat"], "There is no flag --chat: write -c."),
        (["--role", "a", "hi"], "There is no flag --role: write --persona NAME."),
        (
            ["--rows", "a", "--format", "csv"],
            "There is no flag --format: write --schema SCHEMA, or --rows-format FORMAT for a table.",
        ),
        (["--port", "1", "hi"], "There is no flag --port: write --host with the server's address."),
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


def test_the_name_of_a_flag_without_its_dashes_is_told_about_the_flag():
    with pytest.raises(UsageError, match="several words, or write --verify"):
        build_parser().parse_args(["verify", "run.json"])


def test_what_other_programs_have_as_a_flag_is_an_option_here():
    assert set(parser._OPTIONS.values()) <= set(OPTIONS)


@pytest.mark.parametrize(
    "argv, more",
    [
        (["-f", __file__, __file__, "What is open?"], ", and -f before each file"),
        (["What is open?", "-f", __file__, __file__], ", and -f before each file"),
        (["--choose", "yes", "no", "Is it?"], ", and commas between the words of --choose"),
        (["\u201cWhy", "is", "it?\u201d"], ", straight ones and not curled ones"),
        (["\u2013m", "a", "hi"], "; a flag begins with -, and not with a longer dash"),
        (["no such", "file"], ""),
        (["-n", "100", "Why is it?"], "; -n takes no value"),
        (["-m", "a", "--stream", "You are terse", "Hi"], "; --stream takes no value"),
        (["so", "so", "-q"], ""),
        (["-S", "my", "session", "Hi"], ""),
        (["-m", "a", "session", "Hi"], ", or write --session"),
    ],
)
def test_words_too_many_are_told_what_else_may_be_missing(argv, more):
    with pytest.raises(UsageError) as raised:
        build_parser().parse_args(argv)
    assert str(raised.value).endswith(f"around a prompt of several words{more}.")


@pytest.mark.parametrize("said, flag", [("llama3.2", "model"), (__file__, "run")])
def test_ollama_s_run_is_told_about_the_flag_for_a_model(said, flag):
    with pytest.raises(UsageError, match=f"several words, or write --{flag}"):
        build_parser().parse_args(["run", said])


@pytest.mark.parametrize(
    "argv, shown",
    [
        (["-h"], "usage: "),
        (["hi", "--help"], "usage: "),
        (["--help", "sessions"], "sessions: "),
        (["-h", "runs", "--unknown"], "runs: "),
        (["--help=all"], "One prompt"),
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


def test_help_fits_one_screen_and_names_the_topics():
    text = help_text("")
    assert len(text.splitlines()) <= 23, "the 24th line of a terminal is the shell's next prompt"
    assert max(map(len, text.splitlines())) <= 80
    assert sum(flag.daily for flag in EVERY) <= 20
    assert all(topic in text.partition("More:")[2] for topic in (*TOPICS, "all"))
    for flag in EVERY:
        assert (f"  {flag.written}  " in text) == flag.daily


def test_a_topic_shows_its_flags_and_an_example_of_each():
    for topic, flags in FLAGS.items():
        text = help_text(topic)
        assert text in help_text("all")
        for flag in flags:
            assert f"  {flag.written}  " in text and f"    {EXAMPLES[flag.long]}\n" in text
        assert text.count("\n    ore ") == len(flags)


@pytest.mark.parametrize("topic", ["", "all", *TOPICS])
def test_help_fits_eighty_columns_and_has_no_colour(topic, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    text = help_text(topic)
    assert [line for line in text.splitlines() if len(line) > 80 or "\x1b" in line] == []


@pytest.mark.parametrize("argv", [["--help", "why?"], ["-h", "why?"], ["--help=why?"]])
def test_help_on_what_is_no_topic_names_the_topics(argv):
    with pytest.raises(UsageError, match="no topic 'why\\?': there are models, .* and all"):
        build_parser().parse_args(argv)


def test_help_on_a_topic_that_is_misspelt_names_the_nearest():
    with pytest.raises(UsageError, match="'session'; the nearest is 'sessions'"):
        build_parser().parse_args(["--help", "session"])


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


def test_a_flag_says_what_its_values_are():
    for flag in EVERY:
        assert all(choice in flag.help for choice in flag.choices), flag
        assert bool(flag.allowed) == (flag.kind is not str), flag


@pytest.mark.parametrize("flag", EVERY, ids=lambda flag: flag.long)
def test_two_dashes_are_a_value_after_an_equals_sign(flag):
    taken = flag.written.partition("--")[2].split()[1:]
    if not taken or taken[1:] not in ([], ["..."]):
        pytest.skip("it takes no value, or two")
    try:
        args = vars(build_parser().parse_args([f"{flag.long}=--"]))
    except UsageError as exc:
        assert "'--'" in str(exc)
    else:
        value = args[flag.dest or flag.long[2:].replace("-", "_")]
        assert value == (["--"] if flag.repeats or taken[1:] else "--")


def test_two_dashes_alone_still_end_the_flags():
    for argv in (["-m", "x", "--", "-v"], ["--", "-v"]):
        assert build_parser().parse_args(argv).prompt == "-v"
    assert build_parser().parse_args(["--artifact-out", "--", "p"]).artifact_out == "-"
