"""Thinking and answer told apart, wherever the text is cut; and shown on stderr, never on stdout."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ore.backends.answer import Answer, ThinkSplitter
from ore.backends.choice import open_backend
from ore.backends.http import REPLY_LIMIT, TooLarge
from ore.cli.terminal.console import Console
from tests.support.fake_ollama import FakeOllama
from tests.support.harness import Terminal, run_ore

SPLIT = [
    ("Paris.", "", "Paris."),
    ("<think>Hm.</think>Paris.", "Hm.", "Paris."),
    ("\n <think>\nHm.\n</think>\n\nParis.\n", "Hm.\n", "Paris.\n"),
    ("<think></think>Paris.", "", "Paris."),
    ("<think>never closed", "never closed", ""),
    ("<think>a</thin</think>b", "a</thin", "b"),
    ("<think>a</thi", "a</thi", ""),
    ("<think>a</think> <think>b</think>", "a", "<think>b</think>"),
    ("It is <think>x</think>", "", "It is <think>x</think>"),
    ("<thinking>x", "", "<thinking>x"),
    ("<thin", "", "<thin"),
    ("  \n", "", "  \n"),
    ("</think>x", "", "</think>x"),
    (" " * 300 + "<think>x</think>", "", " " * 300 + "<think>x</think>"),
    ("", "", ""),
]


def split(pieces: list[str]) -> tuple[str, str]:
    splitter = ThinkSplitter()
    parts = [splitter.feed(piece) for piece in pieces] + [splitter.end()]
    return "".join(t for t, _ in parts), "".join(a for _, a in parts)


@pytest.mark.parametrize("text, thinking, answer", SPLIT)
def test_a_text_is_split_the_same_whole_and_letter_by_letter(text, thinking, answer):
    assert split([text]) == (thinking, answer)
    assert split(list(text)) == (thinking, answer)


HALVES = [
    (["a\ud83d", "\ude00b"], "a\U0001f600b"),
    (["\ud83d", "", "\ude00"], "\U0001f600"),
    (["x\ude00y", "\ud83d", "\ud83d", "\ude00"], "x\ufffdy\ufffd\U0001f600"),
    (["é\ud83d", "z", "\ud83d"], "é\ufffdz\ufffd"),
]


@pytest.mark.parametrize("parts, text", HALVES)
def test_a_character_that_two_parts_share_is_whole(parts, text):
    thought: list[str] = []
    answer = Answer(thought.append)
    for part in parts:
        answer.think(part)
    said = [answer.say(part) for part in parts] + [answer.end()]
    assert "".join(said) == answer.text == text
    assert "".join(thought) == answer.thinking == text


MARKS = st.sampled_from(["<think>", "</think>", "<", "</", "think>", " ", "\n", "a", "b"])


@given(st.lists(MARKS, max_size=12), st.lists(st.integers(1, 9), max_size=40))
def test_where_pieces_are_cut_makes_no_difference(words, sizes):
    text, pieces = "".join(words), []
    rest = text
    for size in sizes:
        pieces.append(rest[:size])
        rest = rest[size:]
    assert split([*pieces, rest]) == split([text])


@given(st.text(max_size=60))
def test_a_text_without_a_mark_at_its_beginning_is_verbatim(text):
    if not text.lstrip().startswith("<think>"):
        assert split([text]) == ("", text)


def test_once_thinking_came_apart_marks_in_the_text_are_text():
    told = []
    answer = Answer(told.append)
    answer.think("Hm.")
    assert answer.say("<think>x</think>") + answer.end() == "<think>x</think>"
    assert (answer.thinking, told) == ("Hm.", ["Hm."])


def test_text_that_was_held_back_is_not_lost_when_thinking_comes_apart():
    answer = Answer()
    assert answer.say("<th") == ""
    answer.think("Hm.")
    assert answer.say("e end") + answer.end() == "<the end"
    assert (answer.text, answer.thinking) == ("<the end", "Hm.")


def chat(*args: str, **more):
    with FakeOllama(capabilities=("completion", "thinking"), **more) as fake:
        return run_ore(*args, "--host", fake.url, open_backend=open_backend), fake


BOTH_WAYS = [
    {"thinking": "Let me see."},
    {"reply": "<think>Let me see.</think>\n\nParis."},
]


@pytest.mark.parametrize("server", BOTH_WAYS)
@pytest.mark.parametrize("stream", [[], ["-s"]])
def test_thinking_goes_to_stderr_and_the_answer_alone_to_stdout(server, stream):
    result, _ = chat("hi", *stream, **server)
    assert (result.code, result.out, result.err) == (0, "Paris.\n", "[THINKING]: Let me see.\n")


@pytest.mark.parametrize("server", BOTH_WAYS)
def test_thinking_is_in_the_metadata_and_not_in_the_session(server, home):
    result, fake = chat("hi", "--session", "trip", "-j", "-q", **server)
    assert (result.err, result.json["content"]) == ("", "Paris.")
    assert result.json["metadata"]["thinking"] == "Let me see."
    assert "Let me see" not in (home / ".ore/sessions/trip.json").read_text()


def test_thinking_is_not_sent_with_the_next_prompt():
    with FakeOllama(thinking="Let me see.") as fake:
        run_ore("-c", "--host", fake.url, stdin="a\nb\n", open_backend=open_backend)
    roles = [(m["role"], m["content"]) for m in fake.chats[1].json["messages"][1:]]
    assert roles == [("user", "a"), ("assistant", "Paris."), ("user", "b")]
    assert all("thinking" not in message for message in fake.chats[1].json["messages"])


@pytest.mark.parametrize(
    "flag, sent", [("on", True), ("off", False), ("low", "low"), ("high", "high")]
)
def test_think_is_sent_as_it_was_asked(flag, sent):
    result, fake = chat("hi", "--think", flag, "-j")
    assert fake.chats[0].json["think"] == sent
    assert result.json["metadata"]["think"] == sent


def test_without_the_flag_the_request_does_not_mention_thinking():
    _, fake = chat("hi", "--model", "llama3.2:1b")
    assert "think" not in fake.chats[0].json
    assert [seen.path for seen in fake.requests].count("/api/show") == 0


@pytest.mark.parametrize("flag, chats", [("on", 0), ("medium", 0), ("off", 1)])
def test_a_model_that_can_not_think_is_told_before_the_call(flag, chats):
    with FakeOllama() as fake:
        result = run_ore("hi", "--think", flag, "--host", fake.url, open_backend=open_backend)
    assert len(fake.chats) == chats
    assert result.code == (0 if chats else 1)
    assert chats or "can't think first: leave --think out" in result.err


def shown(environ: dict[str, str], *pieces: str) -> str:
    err = Terminal()
    console = Console(None, Terminal(), err, environ)
    for piece in pieces:
        console.thinking(piece)
    console.notice("done")
    return err.getvalue()


def test_on_a_terminal_thinking_is_dim_and_passes_for_nothing_else():
    text = shown({"TERM": "xterm"}, "a\x1b[2J", "b\n[AYA]: c")
    assert text.startswith("\x1b[2m[THINKING]: ")
    assert "\x1b[2J" not in text and "\n [AYA]:" in text.replace("\x1b[0m\x1b[2m", "")


def test_without_colour_thinking_is_plain_and_ends_before_the_next_line():
    assert shown({"NO_COLOR": "1"}, "a ", "b") == "[THINKING]: a b\ndone\n"
    assert shown({"NO_COLOR": "1"}, "a\n") == "[THINKING]: a\ndone\n"


def test_an_answer_on_the_same_terminal_begins_a_line_of_its_own():
    both = Terminal()
    console = Console(None, both, both)
    console.thinking("Hm.")
    console.begin_answer()
    console.chunk("Paris. ")
    console.end_answer()
    assert both.getvalue() == "[THINKING]: Hm.\n[AYA]: Paris. \n"


def test_verbose_does_not_repeat_the_thinking():
    result, _ = chat("hi", "-v", thinking="Let me see.")
    assert result.err.count("Let me see.") == 1


def test_an_answer_and_its_thinking_together_are_bounded():
    half = "x" * (REPLY_LIMIT // 2)
    answer = Answer()
    answer.think(half)
    answer.say(half)
    for take in (answer.say, answer.think):
        with pytest.raises(TooLarge, match="an answer"):
            take("x")
