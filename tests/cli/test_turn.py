"""Turns and REPLs, through the real command line with a scripted reasoner."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import signal
from contextlib import suppress

import pytest

from ore.backends.turn_errors import TurnTooLargeError
from ore.cli import main
from ore.cli.terminal import documents
from ore.cli.terminal.asking import LONGEST_LINE
from ore.cli.terminal.console import Console
from ore.errors import (
    BackendError,
    ContextTruncatedError,
    HungUp,
    IncompleteAnswerError,
    Terminated,
)
from ore.types import Response
from tests.support.faults import Intercepted, in_child
from tests.support.harness import XTERM, ScriptedBackend, Terminal, TypedInput
from tests.support.sessions import blocking

DOWN = BackendError("The server is down.")
CUT = ["Par", IncompleteAnswerError("The answer was cut.", partial="Par")]


def test_one_turn_prints_the_answer_and_nothing_else(ore):
    result = ore("Capital of France?")
    assert (result.code, result.out, result.err) == (0, "Paris.\n", "")
    assert [message.role for message in result.calls[0]] == ["system", "user"]
    assert result.prompts == ["Capital of France?"]


@pytest.mark.parametrize("flags", [[], ["-s"], ["-v"], ["-q"], ["-s", "-v", "-q"]])
def test_the_answer_is_the_same_whatever_goes_to_stderr(ore, flags):
    result = ore("Hi", *flags, replies=[["Par", "is."]])
    assert (result.code, result.out) == (0, "Paris.\n")
    assert ("[Metadata]:" in result.err) == ("-v" in flags and "-q" not in flags)


@pytest.mark.parametrize("where", ["out", ""])
def test_of_an_answer_that_comes_at_once_what_is_far_behind_is_a_document(where, ore, monkeypatch):
    """8 MiB of short lines took 21 seconds, which no deadline ended."""
    monkeypatch.setattr(documents, "_MOST_WRAPPED", 15)
    monkeypatch.setattr(documents, "_MOST_LAID_OUT", 0)  # of the document: its colons get spaces
    text = "You: one\n\ntwo\n\nYou: three"
    shown = ore("Hi", "--no-stream", terminal=where, replies=[text]).out
    on_terminal = "[AYA]: You: one\n\ntwo\n\nYou :  three\n"
    assert shown == (on_terminal if where else f"{text}\n")


def test_a_rendered_answer_that_is_long_says_from_where_on_it_is_not_laid_out(ore, monkeypatch):
    monkeypatch.setattr(documents, "_MOST_WRAPPED", 15)
    flags = ("--no-stream", "--render")
    result = ore("Hi", *flags, terminal="out err", replies=["# One\n\ntwo\n\n# Three"])
    assert result.out.endswith("\n# Three\n") and "# One" not in result.out
    assert "from here on, it is shown as it was written" in result.err


def test_a_terminal_is_told_who_answers(ore):
    result = ore("Hi", terminal="out err")
    assert result.out == "[AYA]: Paris.\n"
    assert result.err == "Model: scripted (scripted)\n"


def test_the_name_of_a_model_is_one_short_line_on_a_terminal(ore):
    result = ore("hi", models=["a\nYou: " + "b" * 10**6], terminal="out err")
    assert result.err.startswith("Model: a^JYou: bbb") and len(result.err) < 400


@pytest.mark.parametrize("mode", ["once", "repl", "session"])
@pytest.mark.parametrize(
    "flags, variable, terminal, streams",
    [
        ([], None, "out err", True),
        ([], "on", "out", True),
        ([], "off", "out", False),
        (["--no-stream"], None, "out", False),
        (["--no-stream"], "on", "out", False),
        (["-s"], "off", "out", True),
        ([], None, "err", False),
        ([], "on", "", False),
        (["-s"], None, "", True),
    ],
)
def test_an_answer_streams_on_a_terminal_in_every_mode(
    ore, monkeypatch, mode, flags, variable, terminal, streams
):
    if variable is not None:
        monkeypatch.setenv("ORE_STREAM", variable)
    args = {"once": ["Hi"], "repl": ["-i", "Hi"], "session": ["--session", "trip", "Hi"]}[mode]
    result = ore(*args, *flags, terminal=terminal, replies=[CUT], stdin="")
    assert ("Par" in result.out) == streams
    assert result.code == 1 and "The answer was cut." in result.err


@pytest.mark.parametrize(
    "flags", [["--json"], ["--artifact-out"], ["--schema", '{"type": "null"}']]
)
def test_what_is_written_as_a_whole_does_not_stream_and_nothing_is_said_of_it(ore, flags):
    result = ore("Hi", *flags, terminal="out", replies=[CUT])
    assert (result.code, result.out, result.err) == (1, "", "ore: The answer was cut.\n")


def test_an_answer_that_streamed_on_a_terminal_is_written_to_its_artifact(ore, tmp_path):
    path = tmp_path / "run.json"
    result = ore("Hi", "--artifact-out", str(path), terminal="out", replies=[["Par", "is."]])
    assert result.out == "[AYA]: Paris.\n" and result.backend.engine.closed == 1
    assert json.loads(path.read_text())["output"]["content"] == "Paris."


def test_json_has_exactly_its_keys(ore):
    document = ore("Hi", "--json").json
    assert list(document) == ["id", "model_id", "content", "timestamp", "metadata"]
    assert (document["content"], document["model_id"]) == ("Paris.", "scripted")


@pytest.mark.parametrize("flags", [[], ["--stream"]])
def test_an_empty_answer_is_a_success_and_is_reported(ore, flags):
    result = ore("Hi", *flags, replies=[""])
    assert (result.code, result.out, result.err) == (0, "\n", "The answer is empty.\n")


def test_a_failure_before_the_answer_leaves_stdout_empty(ore):
    result = ore("Hi", replies=[DOWN])
    assert (result.code, result.out, result.err) == (1, "", "ore: The server is down.\n")


def test_a_failure_in_mid_answer_ends_the_line_and_says_so(ore):
    result = ore("Hi", "--stream", replies=[CUT])
    assert (result.code, result.out, result.err) == (1, "Par\n", "ore: The answer was cut.\n")


@pytest.mark.parametrize(
    "reply, out", [(KeyboardInterrupt(), ""), (["a", KeyboardInterrupt()], "a\n")]
)
def test_an_interrupted_turn_is_130_and_its_stream_is_closed(ore, reply, out):
    result = ore("Hi", "--stream", replies=[reply])
    assert (result.code, result.out, result.err) == (130, out, "")
    assert result.backend.engine.closed == isinstance(reply, list)


@pytest.mark.parametrize("flags", [[], ["--stream"], ["--session", "trip"], ["-o", "seed=1"]])
def test_a_person_is_told_what_became_of_an_interrupted_turn(ore, home, flags):
    result = ore("Hi", *flags, replies=[KeyboardInterrupt()], terminal="err")
    assert result.code == 130
    assert result.err.endswith("\r\x1b[KStopped: the turn was dropped.\n")
    assert not (home / ".ore/sessions/trip.json").exists()


def test_a_stateless_repl_forgets(ore):
    result = ore("-i", stdin="one\n\n  \ntwo\n", replies=["1", "2"])
    assert (result.code, result.out, result.err) == (0, "1\n2\n", "")
    assert [len(messages) for messages in result.calls] == [2, 2]


def test_a_conversation_remembers(ore):
    result = ore("-c", stdin="one\ntwo\n", replies=["1", "2"])
    assert [message.content for message in result.calls[1][1:]] == ["one", "1", "two"]


@pytest.mark.parametrize("word", ["quit", "exit", "QUIT", " Exit "])
def test_a_word_leaves_the_repl(ore, word):
    assert ore("-i", stdin=f"one\n{word}\ntwo\n").prompts == ["one"]


@pytest.mark.parametrize("flag", ["-i", "-c"])
def test_a_prompt_beside_a_repl_is_its_first_turn(ore, flag):
    result = ore(flag, "first", stdin="second\n", replies=["1", "2"])
    assert (result.out, result.prompts) == ("1\n2\n", ["first", "second"])


@pytest.mark.parametrize("terminal, code", [("", 1), ("in out err", 0)])
def test_a_failed_turn_does_not_end_a_repl(ore, terminal, code):
    result = ore("-c", stdin="one\ntwo\n", replies=[DOWN, "2"], terminal=terminal)
    assert result.code == code
    assert "ore: The server is down.\n" in result.err
    assert [message.content for message in result.calls[1][1:]] == ["two"]


def test_an_interrupted_turn_returns_to_the_prompt_with_the_session_unchanged(ore):
    script = ["1", ["par", KeyboardInterrupt()], "3"]
    result = ore("-c", "-s", stdin="one\ntwo\nthree\n", replies=script, terminal="in out err")
    assert result.code == 0
    assert "Stopped: the turn was dropped." in result.err
    assert [message.content for message in result.calls[2][1:]] == ["one", "1", "three"]


def test_an_interrupted_turn_ends_a_repl_on_a_pipe(ore):
    result = ore("-c", stdin="one\ntwo\n", replies=[KeyboardInterrupt(), "2"])
    assert (result.code, len(result.calls)) == (130, 1)


def test_a_line_that_is_not_utf8_ends_a_repl_on_a_pipe_with_2(ore):
    result = ore("-i", stdin=b"one\n\xff\ntwo\n")
    assert (result.code, result.prompts) == (2, ["one"])
    assert "not UTF-8 at byte 0" in result.err


def test_a_line_that_is_not_utf8_is_asked_again_on_a_terminal(ore):
    result = ore("-i", stdin=b"\xff\ntwo\n", terminal="in out err")
    assert (result.code, result.prompts) == (0, ["two"])


def test_the_persona_is_sent_every_turn_and_never_kept(ore):
    result = ore("-c", stdin="one\ntwo\n", replies=["1", "2"])
    for messages in result.calls:
        assert [m.role for m in messages].count("system") == 1
        assert "Aya" in messages[0].content


def test_models_are_listed_with_the_default_marked(ore):
    models = ("first:latest", "second:1b")
    assert ore("--list-models", models=models).out == "first:latest\tdefault\nsecond:1b\n"
    document = ore("--list-models", "--json", models=models).json
    unknown = ("size", "parameters", "quantization", "window", "capabilities")
    unknown += ("digest", "template_sha256", "where", "problem")
    expected = {"name": "first:latest", "default": True, **dict.fromkeys(unknown)}
    assert document[0] == expected and list(document[0]) == list(expected)


def test_no_models_is_an_empty_list_and_is_reported(ore):
    result = ore("--list-models", models=())
    assert (result.code, result.out) == (0, "")
    assert "--pull" in result.err


def test_pull_as_json_names_what_was_fetched(ore):
    assert ore("--pull", "tiny", "--json").json == {"pulled": "tiny"}


def test_pull_says_what_it_does_and_asks_nothing(ore):
    result = ore("--pull", "tiny")
    licence = "Licence: SCRIPTED LICENSE 1.0 (all of it: --show-license tiny)\n"
    assert (result.code, result.out) == (0, "")
    assert result.err == f"reading\n{licence}tiny is ready.\n"
    assert result.backend.pulled == ["tiny"] and result.calls == []


@pytest.mark.parametrize(
    "context, said",
    [
        ({"status": "truncated", "window": 100, "prompt_tokens": 40}, "did not fit"),
        ({"status": "truncated", "window": None, "prompt_tokens": 40}, "did not fit"),
        ({"status": "complete", "window": 100, "prompt_tokens": 91}, "91 of 100 tokens"),
        ({"status": "complete", "window": 100, "prompt_tokens": 90}, ""),
        ({"status": "unknown", "window": None, "prompt_tokens": 40}, ""),
    ],
)
def test_a_full_context_window_is_reported_in_one_line(ore, context, said):
    result = ore("hi", replies=["Paris."], metadata={"context": context})
    assert (result.code, result.out) == (0, "Paris.\n")
    assert said in result.err and len(result.err.splitlines()) == bool(said)


@pytest.mark.parametrize(
    "flags, said",
    [
        ((), ""),
        (
            ("-c",),
            "60 of 64 tokens; go on with a larger one (-o num_ctx=N, or with --backend openai the server's settings)",
        ),
    ],
)
def test_in_a_conversation_the_answer_counts_for_the_window_of_the_next_turn(ore, flags, said):
    counts = {"context": {"status": "complete", "window": 64, "prompt_tokens": 50}}
    result = ore(*flags, stdin="hi\n", metadata={**counts, "eval_count": 10})
    assert result.code == 0 and bool(said) == ("nearly full" in result.err) and said in result.err


def test_what_bounds_a_turn_reaches_the_backend(ore):
    settings = ore("hi", "--timeout", "5", "--deadline", "60", "--strict-context").backend.settings
    assert (settings.timeout, settings.deadline, settings.strict_context) == (5.0, 60.0, True)
    assert not settings.conversation
    assert ore("-c", stdin="hi\n").backend.settings.conversation


@pytest.mark.parametrize("flag", ["--timeout", "--deadline"])
@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "soon"])
def test_a_bound_that_is_not_a_time_is_a_usage_error(ore, flag, value):
    result = ore("hi", f"{flag}={value}")
    assert (result.code, result.calls) == (2, []) and flag in result.err


@pytest.mark.parametrize("kind, code", [(ContextTruncatedError, 3), (TurnTooLargeError, 1)])
def test_that_a_conversation_is_sent_whole_is_said_where_it_does_not_fit(ore, kind, code):
    too_long = kind("The prompt does not fit.")
    alone = ore("hi", replies=[too_long])
    assert (alone.code, alone.err) == (code, "ore: The prompt does not fit.\n")
    result = ore("-c", stdin="one\ntwo\n", replies=["1", too_long])
    assert result.code == 1 and result.err == (
        "The prompt is the whole conversation, 2 messages so far: a new one begins with none.\n"
        "ore: The prompt does not fit.\n"
    )


CODE = "Like this:\n\n```sh\nls\n```\n\nor\n\n~~~\nwc -l *\x1b[2J\n~~~\n\nThat counts."


@pytest.mark.parametrize("flags", [("-x",), ("-x", "-v", "-q"), ("--extract", "--no-stream")])
@pytest.mark.parametrize("terminal", ["", "in out err"])
def test_the_last_code_block_is_printed_alone(ore, flags, terminal):
    result = ore("hi", *flags, replies=[CODE], terminal=terminal)
    shown = "wc -l *^[[2J\n" if terminal else "wc -l *\x1b[2J\n"
    assert (result.code, result.out) == (0, shown)


def test_the_whole_answer_is_in_the_session_and_in_the_artifact(ore, folder, home):
    ore("hi", "-x", "--session", "trip", replies=[CODE])
    messages = json.loads((home / ".ore/sessions/trip.json").read_text())["messages"]
    assert messages[1]["content"] == CODE
    ore("hi", "-x", "--artifact-out", "run.json", replies=[CODE])
    assert json.loads((folder / "run.json").read_text())["output"]["content"] == CODE


@pytest.mark.parametrize(
    "answer, shown",
    [
        ("Run `ls`.", "Run 'ls'."),
        ("Give `timeout=9`, `Backend.pull('x')`.", "Give 'timeout=9', 'Backend.pull('x')'."),
        ("", ""),
        ("    ls\n", "    ls\n"),
        ("Try http://me:secret@box/v1.", "Try http://me:secret@box/v1."),
    ],
)
def test_an_answer_without_a_code_block_is_shown_on_stderr(ore, home, answer, shown):
    """With apostrophes in the place of backticks, between which ORE's own advice stands."""
    result = ore("hi", "-x", "-q", "--session", "trip", replies=[answer])
    assert (result.code, result.out) == (3, "")
    assert result.err.endswith(f"ore: The answer has no fenced code block: it is\n{shown}\n")
    assert (home / ".ore/sessions/trip.json").exists(), "the turn succeeded"


@pytest.mark.slow
def test_a_code_block_is_looked_for_in_bounded_time(ore, home):
    begin = "- " * 32 + "x\n"  # each line goes on with 32 lists
    result = ore("hi", "-x", "-q", "--session", "trip", replies=[begin + "\n" * (3 << 20)])
    assert (result.code, result.out) == (3, "")
    said = "The answer has 3,145,794 characters, in which no code block can be looked for (it takes"
    assert said in result.err and (home / ".ore/sessions/trip.json").exists()
    long = "A line.\n" * 40_000 + CODE
    assert ore("hi", "-x", replies=[long]).out == ore("hi", "-x", replies=[CODE]).out


@pytest.mark.parametrize("terminal", ["", "in out err"])
def test_verbose_shows_the_id_of_the_response(ore, folder, terminal):
    result = ore("hi", "-v", "--artifact-out", "run.json", terminal=terminal)
    (line,) = (line for line in result.err.splitlines() if line.startswith("[Metadata]: "))
    assert json.loads((folder / "run.json").read_text())["execution_id"] in line


@pytest.mark.parametrize(
    "flags, said",
    [
        (["--session", "trip"], "The image is not kept in the session 'trip': later turns"),
        (["--session", "trip", "--image", "cat.png"], "The images are not kept in the session"),
        (["--session", "trip", "-q"], ""),
        (["--save-session", "trip", "-s"], "The image is not kept in the session 'trip': later"),
        ([], ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_that_a_session_keeps_no_image_is_said(ore, folder, flags, said):
    (folder / "cat.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    result = ore("What is this?", "--image", "cat.png", *flags)
    assert (result.code, result.out) == (0, "Paris.\n")
    assert said in result.err and bool(said) == ("not kept" in result.err)


@pytest.mark.parametrize(
    "flags, counts, limit",
    [
        (["-o", "num_predict=7"], {}, "-o num_predict=7."),
        (["-o", "num_predict=7"], {"window": 28, "prompt_tokens": 21}, "-o num_predict=7."),
        (
            [],
            {"window": 28, "prompt_tokens": 21},
            "the context window of 28 tokens, which -o num_ctx=N, or with --backend openai the server's "
            "settings, may make larger.",
        ),
        (
            ["-o", "num_predict=99"],
            {"window": 28, "prompt_tokens": 21},
            "the context window of 28 tokens, which -o num_ctx=N, or with --backend openai the server's "
            "settings, may make larger.",
        ),
        (
            ["-o", "num_predict=99"],
            {},
            "-o num_predict=99, the context window, or the server's own.",
        ),
        (  # of a server that does not say how large its window is
            [],
            {"window": None, "prompt_tokens": 958},
            "the model's or the server's own after 7 tokens (-o num_predict=N sets another), or the "
            "context window.",
        ),
        (
            ["-o", "num_predict=-1"],
            {"window": 4096, "prompt_tokens": 21},
            "the model's or the server's own after 7 tokens; -o num_predict=N sets another.",
        ),
    ],
)
def test_an_answer_cut_off_by_a_limit_is_reported_with_the_limit(ore, flags, counts, limit):
    context = {"status": "complete", "window": None, "prompt_tokens": None, **counts}
    result = ore("hi", *flags, metadata={"done_reason": "length", "context": context})
    assert (result.code, result.out) == (0, "Paris.\n")
    assert f"ore: warning: The answer was cut off by a limit: {limit}\n" in result.err


ROUND = "Round and round.\n"


@pytest.mark.parametrize("flags", [[], ["-s"]])
@pytest.mark.parametrize(
    "answer, is_said",
    [
        (ROUND * 10, True),
        (ROUND * 9 + "Round and round.", True),
        (ROUND * 9 + "Round and", False),
        ("".join(f"{n}.\n  {ROUND}\n" for n in range(10)), True),
        ("}\n" * 30, False),
        ("".join("else:\n" + "".join(f"{n}.{m}\n" for m in range(15)) for n in range(20)), False),
        (ROUND * 40, True),
    ],
    ids=[
        "ten",
        "nine and an open one",
        "nine and a part",
        "between others",
        "braces",
        "far apart",
        "forty",
    ],
)
def test_an_answer_that_goes_round_in_circles_is_reported_once(ore, flags, answer, is_said):
    for pieces in ([answer], list(answer)):
        result = ore("hi", *flags, replies=[pieces])
        assert (result.code, result.out) == (0, answer + "\n")
        assert result.err.count("one of its lines came for the tenth time") == is_said
        assert ("-o num_predict=N limits an answer" in result.err) == is_said
    assert ore("hi", *flags, "-q", replies=[answer]).err == ""


def test_circles_are_told_between_two_lines_while_the_answer_streams(ore):
    both = io.StringIO()
    backend = ScriptedBackend([[ROUND * 9 + "Round", " and round.\nRou", "nd."]])
    console = Console(None, both, both)
    assert main(["hi", "-s"], console, lambda *_: backend) == 0
    shown = both.getvalue()
    assert shown.startswith(ROUND * 10 + "The answer may go round in circles")
    assert shown.endswith("limits an answer.\nRound.\n")


@pytest.mark.parametrize(
    "flags, begun, end",
    [
        ([], ROUND * 10, "And on."),
        (["--schema", '{"required": ["a"]}'], '{"a": [' + "1,\n" * 11, "1]}"),
    ],
    ids=["plain", "schema"],
)
def test_circles_of_an_answer_that_is_shown_whole_are_told_while_it_comes(flags, begun, end):
    both, backend = io.StringIO(), ScriptedBackend()

    def stream_reason(messages):
        yield begun
        assert "came for the tenth time" in both.getvalue()
        return Response(begun + end, "scripted")

    backend.engine.stream_reason = stream_reason
    flags = ["hi", "--no-stream", *flags]
    assert main(flags, Console(None, both, both), lambda *_: backend) == 0
    assert both.getvalue()[-2:] == end[-1] + "\n" and both.getvalue().count("tenth time") == 1


@pytest.mark.slow
@pytest.mark.parametrize("flags, is_said", [([], True), (["-q"], False)])
def test_circles_are_told_in_a_line_of_their_own_where_the_answer_is_rendered(flags, is_said):
    pytest.importorskip("rich")
    shown = Terminal()
    backend = ScriptedBackend([[ROUND] * 12])
    console = Console(None, shown, shown)
    assert main(["hi", "--render", *flags], console, lambda *_: backend) == 0
    begin = "The answer may go round in circles" if is_said else "Round and round."
    assert f"\n[AYA]: \n{begin}" in "\n" + shown.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("terminal, code", [("", 1), ("in err", 0)])
def test_a_line_that_is_too_long_is_skipped_and_the_next_is_asked(ore, terminal, code):
    longest = b"x" * LONGEST_LINE
    lines = b"one\n" + longest + b"yz\n" + b"two\n" + longest + b"\nthree\n" + longest + b"y"
    result = ore("-i", stdin=lines, terminal=terminal, replies=["1", "2", "3", "4"])
    assert [len(prompt) for prompt in result.prompts] == [3, 3, LONGEST_LINE, 5]
    assert result.code == code
    assert result.err.count("ore: A line is longer than 16 MiB, so it was skipped") == 2


@pytest.mark.slow
def test_a_text_in_quotes_that_is_too_long_is_dropped_to_its_closing_quotes(ore):
    line = b"x" * (LONGEST_LINE // 2) + b"\n"
    quoted = b'"""' + line * 3 + b'yes"""\ntwo\n'
    result = ore("-i", stdin=quoted, terminal="in err", replies=["1"])
    assert result.prompts == ["two"] and "longer than 16 MiB" in result.err


def test_a_blank_line_is_between_an_answer_and_the_next_prompt_on_a_terminal(ore):
    result = ore("-c", stdin="one\ntwo\n", replies=["1", DOWN], terminal="in out err")
    assert result.out == "You: [AYA]: 1\n\nYou: \nYou: "
    assert ore("-c", stdin="one\ntwo\n", replies=["1", "2"]).out == "1\n2\n"


def test_a_closed_stdout_is_found_before_the_model_is_called():
    backend = ScriptedBackend(["Paris."])
    assert main(["hi"], Console(None, None, None), lambda *_: backend) == 1
    assert backend.engine.calls == []


class Full(io.StringIO):
    """A stream on a disk that is full."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_an_answer_that_cannot_be_shown_is_kept_anyway(home, tmp_path):
    for flags in (["--session", "s"], ["--artifact-out", str(tmp_path / "run.json")]):
        backend, err = ScriptedBackend(["Paris."]), io.StringIO()
        assert main(["hi", *flags], Console(None, Full(), err), lambda *_: backend) == 1
        is_said = "The turn is part of the session 's'.\n" in err.getvalue()
        assert is_said == ("--session" in flags)
    assert "Paris." in (home / ".ore/sessions/s.json").read_text()
    assert "Paris." in (tmp_path / "run.json").read_text()


def test_a_turn_that_is_neither_shown_nor_saved_reports_both(home):
    err, backend = io.StringIO(), ScriptedBackend([blocking(home)])
    assert main(["--session", "s", "hi"], Console(None, Full(), err), lambda *_: backend) == 1
    assert "not saved" in err.getvalue() and "No space left" in err.getvalue()


class Interrupting(io.StringIO):
    """A stream at whose first writing the user presses Ctrl-C."""

    def write(self, text: str) -> int:
        raise KeyboardInterrupt


def test_an_answer_not_shown_because_of_ctrl_c_is_saved_and_that_is_reported(home):
    err, backend = Terminal(), ScriptedBackend(["Paris."])
    console = Console(None, Interrupting(), err)
    assert main(["--session", "s", "hi"], console, lambda *_: backend) == 130
    assert "Paris." in (home / ".ore/sessions/s.json").read_text()
    assert err.getvalue().endswith("answered already, and is part of the session.\n")


def test_an_answer_lost_to_ctrl_c_is_reported(home):
    err, backend = Terminal(), ScriptedBackend([blocking(home)])
    console = Console(None, Interrupting(), err)
    assert main(["--session", "s", "hi"], console, lambda *_: backend) == 130
    assert "ore: The session" in err.getvalue()
    assert err.getvalue().endswith("answered already, and is not saved.\n")


def test_what_can_not_be_kept_is_told_below_the_whole_answer(home, tmp_path):
    def answer(messages):
        (tmp_path / "run.json").mkdir()
        return blocking(home)(messages)

    shown, backend = Terminal(), ScriptedBackend([answer])
    arguments = ["hi", "--session", "s", "--artifact-out", str(tmp_path / "run.json")]
    assert main(arguments, Console(None, shown, shown), lambda *_: backend) == 1
    answer, first, *_ = shown.getvalue().partition("[AYA]: ")[2].splitlines()
    assert answer == "Paris." and first.startswith("ore: The session 's' was not saved")


class Interrupted(ScriptedBackend):
    """Is asked what was in force in a turn when the user presses Ctrl-C."""

    def in_force(self, model_id, settings):
        raise KeyboardInterrupt


def test_an_answer_is_shown_whole_where_ctrl_c_comes_while_its_artifact_is_made(home, tmp_path):
    shown, backend = Terminal(), Interrupted([["It is ", "Paris."]])
    arguments = ["hi", "--session", "s", "--artifact-out", str(tmp_path / "run.json")]
    assert main(arguments, Console(None, shown, shown), lambda *_: backend) == 130
    answer, said = shown.getvalue().partition("[AYA]: ")[2].splitlines()
    assert answer == "It is Paris." and said.endswith("is part of the session.")


def test_all_that_can_not_be_kept_is_told_where_the_answer_can_not_be_shown_either(home, tmp_path):
    def answer(messages):
        (tmp_path / "run.json").mkdir()
        return blocking(home)(messages)

    err, backend = io.StringIO(), ScriptedBackend([answer])
    arguments = ["hi", "--session", "s", "--artifact-out", str(tmp_path / "run.json")]
    assert main(arguments, Console(None, Full(), err), lambda *_: backend) == 1
    said = [line.partition("ore: ")[2] for line in err.getvalue().splitlines()]
    assert "'s' was not saved" in said[0] and "run.json" in said[1] and "No space" in said[2]


class LeavingTerminal(Terminal):
    """A terminal that is gone once an answer has begun on it."""

    def write(self, text: str) -> int:
        if "[AYA]" in self.getvalue():
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        return super().write(text)


def test_a_turn_is_kept_where_ctrl_c_ends_its_reader_too_while_its_artifact_is_made(home, tmp_path):
    err, backend = Terminal(), Interrupted([["It is ", "Paris."]])
    arguments = ["hi", "--session", "s", "--artifact-out", str(tmp_path / "run.json")]
    console = Console(None, LeavingTerminal(), err)
    assert main(arguments, console, lambda *_: backend) == 130
    assert err.getvalue().endswith("answered already, and is part of the session.\n")


def test_the_last_word_is_no_label_where_ore_goes_on_while_its_artifact_is_made(home, tmp_path):
    class Continued(ScriptedBackend):
        def in_force(self, model_id, settings):
            os.kill(os.getpid(), signal.SIGCONT)  # as after Ctrl-Z and fg: the cursor was moved
            return super().in_force(model_id, settings)

    shown, backend = Terminal(), Continued([["It is ", "You:"]])
    arguments = ["hi", "--artifact-out", str(tmp_path / "run.json")]
    assert main(arguments, Console(None, shown, shown), lambda *_: backend) == 0
    assert shown.getvalue().partition("[AYA]: It is ")[2].lstrip("\n") == " You:\n"


@pytest.mark.parametrize("stage", [["--runs", "."], []], ids=["kept", "answered"])
def test_a_repl_ends_where_its_reader_is_found_gone_after_ctrl_c(tmp_path, monkeypatch, stage):
    monkeypatch.chdir(tmp_path)
    backend = Interrupted([["Par", "is."] if stage else ["Par", KeyboardInterrupt()], "2"])
    err, stdin = Terminal(), TypedInput(b"one\ntwo\n")
    console = Console(stdin, LeavingTerminal(), err)
    assert main(["-i", *stage], console, lambda *_: backend) == 141
    assert len(backend.engine.calls) == 1 and "ore:" not in err.getvalue()


@pytest.mark.parametrize(
    "folder, said",
    [(".", "answered already, and its artifact is written"), ("gone", "dropped")],
)
def test_an_interrupted_answer_that_is_in_its_artifact_is_reported(tmp_path, folder, said):
    path, err = tmp_path / folder / "run.json", Terminal()
    (tmp_path / "gone").mkdir()

    def answer(_):
        (tmp_path / "gone").rmdir()
        return "Paris."

    console = Console(None, Interrupting(), err)
    arguments = ["hi", "--artifact-out", str(path)]
    assert main(arguments, console, lambda *_: ScriptedBackend([answer])) == 130
    assert err.getvalue().endswith(f"Stopped: the turn was {said}.\n")
    assert path.exists() == (folder == ".")
    assert ("can't be written" in err.getvalue()) == (folder == "gone")


def test_an_interrupted_answer_that_is_in_one_of_two_artifacts_is_not_called_dropped(
    tmp_path, monkeypatch
):
    def answer(_):
        (tmp_path / "runs").write_text("in the way")
        return "Paris."

    monkeypatch.setenv("ORE_RUNS", str(tmp_path / "runs"))
    path, err = tmp_path / "run.json", Terminal()
    arguments = ["hi", "--artifact-out", str(path)]
    console = Console(None, Interrupting(), err)
    assert main(arguments, console, lambda *_: ScriptedBackend([answer])) == 130
    assert path.exists() and "can't be written" in err.getvalue()
    said = "Stopped: the turn was answered already, and its artifact is written.\n"
    assert err.getvalue().endswith(said)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, Terminated, HungUp])
@pytest.mark.parametrize("session", [[], ["--session", "s"]], ids=" ".join)
def test_an_artifact_that_is_not_written_is_told_whatever_stops_the_answer(
    home, tmp_path, stop, session
):
    class Stopping(io.StringIO):
        def write(self, text: str) -> int:
            raise stop

    def answer(_):
        (tmp_path / "gone").rmdir()
        return "Paris."

    (tmp_path / "gone").mkdir()
    err, backend = io.StringIO(), ScriptedBackend([answer])
    arguments = ["hi", "--artifact-out", str(tmp_path / "gone/run.json"), *session]
    with suppress(Terminated):
        main(arguments, Console(None, Stopping(), err), lambda *_: backend)
    assert err.getvalue().count("can't be written to") == 1


@pytest.mark.parametrize("is_free", [True, False], ids=["free", "taken"])
@pytest.mark.parametrize("arguments, is_repl", [(["hi"], False), ([], True)], ids=["turn", "repl"])
def test_a_session_that_is_saved_as_a_repl_is_ended_is_not_called_unsaved(
    home, arguments, is_repl, is_free
):
    folder = home / ".ore" / "sessions"

    class Ending(io.StringIO):
        def write(self, text: str) -> int:
            if is_free:
                folder.unlink()
            raise Terminated

    def answer(_):
        if folder.is_dir():
            shutil.rmtree(folder)
        folder.write_text("in the way")
        return "Paris."

    err, backend = io.StringIO(), ScriptedBackend([answer])
    console = Console(io.BytesIO(b"hi\n"), Ending(), err)
    with pytest.raises(Terminated):
        main([*arguments, "--save-session", "s"], console, lambda *_: backend)
    assert (folder / "s.json").exists() == (is_repl and is_free)
    assert err.getvalue().count("was not saved") == (not (is_repl and is_free))


@pytest.mark.parametrize("arguments", [["hi"], ["-i", "hi"]], ids=str)
def test_an_interrupted_answer_that_is_in_the_log_is_reported(tmp_path, arguments):
    err, backend = Terminal(), ScriptedBackend(["Paris."])
    console = Console(io.BytesIO(b""), Interrupting(), err)
    assert main([*arguments, "--runs", str(tmp_path)], console, lambda *_: backend) == 130
    assert (
        "Stopped: the turn was answered already, and its artifact is written.\n" in err.getvalue()
    )
    assert len(list(tmp_path.glob("*/*.json"))) == 1


def test_an_interrupted_answer_of_a_conversation_is_part_of_it(tmp_path):
    err, backend = Terminal(), ScriptedBackend(["Paris."])
    console = Console(io.BytesIO(b""), Interrupting(), err)
    assert main(["-c", "hi"], console, lambda *_: backend) == 130
    assert "answered already, and is part of the session.\n" in err.getvalue()


def interrupt_after(name, real, args, kwargs):
    try:
        real(*args, **kwargs)
    finally:
        raise KeyboardInterrupt


@pytest.mark.slow
def test_whenever_ctrl_c_comes_a_written_artifact_is_reported(tmp_path):
    def turn(at: int) -> tuple[bool, int, str]:
        err, backend = Terminal(), ScriptedBackend(["Paris."])
        console = Console(None, io.StringIO(), err)
        with Intercepted(at, interrupt_after) as calls:
            code = main(["hi", "--artifact-out", f"{tmp_path}/{at}"], console, lambda *_: backend)
        return calls.has_acted, code, err.getvalue()

    written, at, has_acted = [], 1, True
    while has_acted:
        has_acted, code, err = in_child(lambda: turn(at)).value
        assert code == (130 if has_acted else 0)
        is_written = (tmp_path / str(at)).exists()
        assert ("its artifact is written" in err) == (is_written and has_acted)
        written.append(is_written)
        at += 1
    assert not written[0] and written.count(True) > 2  # one of them is the whole turn


@pytest.mark.parametrize("flags, said", [([], "Stopped.\n"), (["-q"], "")])
def test_ctrl_c_before_a_turn_is_one_word_and_none_with_quiet(flags, said):
    err = Terminal()

    def interrupted(*_):
        raise KeyboardInterrupt

    console = Console(None, io.StringIO(), err, XTERM)
    assert main(["hi", *flags], console, interrupted) == 130
    assert err.getvalue() == f"\r\x1b[K{said}"


def test_a_repl_whose_answer_cannot_be_shown_ends(home):
    backend = ScriptedBackend(["One.", "Two."])
    console = Console(io.BytesIO(b"one\ntwo\n"), Full(), None)
    assert main(["-i"], console, lambda *_: backend) == 1
    assert len(backend.engine.calls) == 1


def test_a_repl_reports_at_its_end_what_was_never_saved(ore, home):
    result = ore("--session", "s", stdin="one\ntwo\n", replies=[blocking(home), "2"])
    assert (result.code, result.out) == (1, "Paris.\n2\n")
    assert result.err.count("not saved") == 3


def test_an_answer_that_no_artifact_can_hold_is_shown_and_that_is_reported(ore, tmp_path):
    path = tmp_path / "run.json"
    result = ore("hi", "--artifact-out", str(path), metadata={"score": float("nan")})
    assert (result.code, result.out, path.exists()) == (1, "Paris.\n", False)
    assert "can't be kept as an artifact" in result.err


class FullTerminal(Full, Terminal):
    """A terminal that can't be written to."""


def test_a_repl_that_cannot_ask_ends():
    console = Console(TypedInput(b"one\n"), FullTerminal(), Terminal())
    assert main(["-i"], console, lambda *_: ScriptedBackend(["One."])) == 1
    assert "No space left" in console.stderr.getvalue()


def test_verbose_does_not_repeat_what_is_shown_apart(ore):
    said = {"thinking": "Let me see.", "format": {"type": "object"}, "total_duration": 5}
    err = ore("hi", "-v", metadata=said).err
    assert "total_duration" in err
    assert "thinking" not in err and "format" not in err


@pytest.mark.parametrize(
    "argv, said",
    [
        (
            ["list"],
            "'list' was taken as a prompt. If it was meant as a command, write ore --list-models.",
        ),
        (
            ["help", "--host", "a"],
            "'help' was taken as a prompt. If it was meant as a command, write ore --help.",
        ),
        (
            ["serve"],
            "'serve' was taken as a prompt. If it was meant as a command, write ollama serve.",
        ),
        (
            [__file__],
            "The prompt is the name of a file. To have the file read, write -f before it",
        ),
        (["\u2014help"], "The prompt begins with a long dash; a flag begins with - or --."),
        (["list", "--system", "Translate this word."], None),
        (["--session", "a", "help"], None),
        (["list them"], None),
        (["\u2014 an aside"], None),
        (["hello"], None),
        (["yes"], None),
        (["model"], None),
    ],
)
def test_a_word_that_may_be_meant_as_a_command_is_asked_and_told_on_a_terminal(argv, said, home):
    for err, is_told in ((Terminal(), said is not None), (io.StringIO(), False)):
        backend = ScriptedBackend(["An answer."])
        assert main(argv, Console(None, io.StringIO(), err), lambda *_: backend) == 0
        assert ((said or "prompt") in err.getvalue()) is is_told


def test_a_word_from_stdin_was_not_written_as_a_command(home):
    err, backend = Terminal(), ScriptedBackend(["An answer."])
    assert main([], Console(io.BytesIO(b"list"), io.StringIO(), err), lambda *_: backend) == 0
    assert "prompt" not in err.getvalue()
