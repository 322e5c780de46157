"""What an answer does not show by itself, said to a program."""

from __future__ import annotations

import time

import pytest

import ore
from ore import Response, Settings
from ore.glass.limits import RepeatedLines, notes_of

LIMITED = {"done_reason": "length", "eval_count": 5}


@pytest.mark.parametrize(
    "metadata, options, sentence",
    [
        (
            LIMITED,
            {"num_predict": 5},
            "The answer was cut off by a limit: `options[num_predict=5]`.",
        ),
        (
            {**LIMITED, "eval_count": 1},
            {"num_predict": 0},
            "The answer was cut off by a limit: `options[num_predict=0]`.",
        ),
        (
            LIMITED,
            {},
            "the server's own after 5 tokens (`options['num_predict']` sets another), or the context "
            "window.",
        ),
        ({**LIMITED, "eval_count": 1}, {}, "the server's own after 1 token (`options['num_pred"),
        (  # of a server that says how large its window is, and counts nothing
            {"done_reason": "length", "context": {"window": 16}},
            {},
            "the server's own (`options['num_predict']` sets another), or the context window.",
        ),
        (
            {**LIMITED, "context": {"window": 16}},
            {},
            "sets another), or the context window.",
        ),
        (
            {**LIMITED, "context": {"window": 16, "prompt_tokens": 11}},
            {},
            "the context window of 16 tokens, which `options['num_ctx']`, or with "
            "`backend='openai'` the server's settings, may make larger.",
        ),
        (  # Ollama goes on where the window is full: what ended this is the model's own num_predict
            {**LIMITED, "context": {"window": 16, "prompt_tokens": 15}},
            {},
            "the server's own after 5 tokens;",
        ),
        (
            {**LIMITED, "eval_count": 160, "context": {"window": 16, "prompt_tokens": 15}},
            {},
            "the context window of 16 tokens, which",
        ),
        (
            {"context": {"status": "truncated", "window": 16, "prompt_tokens": 16}},
            {},
            "did not fit",
        ),
        (
            {"context": {"status": "truncated", "left_out": "system", "prompt_tokens": 16}},
            {},
            "template leaves out messages of the role 'system', so the model has not read all of",
        ),
        (
            {"context": {"status": "truncated", "prompt_tokens": 14}},
            {},
            "The server counted 14 tokens, fewer than the prompt has. It did not fit the context "
            "window, or the model's chat template leaves a part of it out: the model has not seen",
        ),
        (  # the server has refused it whole
            {"context": {"status": "truncated", "prompt_tokens": 14, "told_by": "server"}},
            {},
            "The prompt did not fit the context window: the model has not seen all of it.",
        ),
        (  # in the room of a window that the server rounds up
            {"context": {"status": "unknown", "window": 16, "prompt_tokens": 15}, "eval_count": 2},
            {},
            "more tokens than the context window of 16: the model may not have seen all of the prompt.",
        ),
        ({"response_model": "other"}, {}, "the model 'other', not the one asked for."),
        ({"response_model": "o" * 10_000}, {}, "ooo…', not the one asked for."),
        ({"images_read": False}, {}, "too few for an image"),
        ({"images_read": False, "context": {"prompt_tokens": 1}}, {}, "counted 1 token, too few"),
        ({"done_reason": "content_filter"}, {}, "by the server's filter: ask in other words"),
        ({"done_reason": "abort"}, {}, "by the server itself (abort): ask again"),
        ({"done_reason": "error"}, {}, "by the server itself (error): ask again"),
        ({"done_reason": "repetition"}, {}, "by the server itself (repetition): ask again"),
        ({"done_reason": "MAX_TOKENS"}, {}, "cut off by a limit"),
        ({"done_reason": "model_context_window_exceeded"}, {}, "cut off by a limit"),
        ({"done_reason": "SAFETY"}, {}, "by the server's filter"),
        ({"done_reason": "content-filter"}, {}, "by the server's filter"),
        ({"done_reason": "FINISH_REASON_MAX_TOKENS"}, {}, "cut off by a limit"),
        ({"done_reason": "timeout"}, {}, "by the server itself (timeout): ask again"),
        ({"done_reason": "sensitive"}, {}, "by the server's filter"),
    ],
)
def test_what_is_not_as_it_was_asked_for_is_a_sentence(metadata, options, sentence):
    [said] = ore.warnings_of(Response("A", "m", metadata=metadata), Settings(options=options))
    assert sentence in said


def test_a_whole_answer_has_none():
    known = {"done_reason": "stop", "response_model": "m:latest", "context": {"status": "complete"}}
    assert [*ore.warnings_of(Response("A", "m", metadata=known), Settings())] == []


@pytest.mark.parametrize("status, answer", [("unknown", 1), ("complete", 2)])
def test_a_prompt_and_an_answer_that_a_window_has_room_for_are_not_doubted(status, answer):
    context = {"status": status, "window": 16, "prompt_tokens": 15}
    response = Response("A", "m", metadata={"context": context, "eval_count": answer})
    assert [*ore.warnings_of(response, Settings())] == []


@pytest.mark.parametrize(
    "asked, answered, is_other",
    [
        ("gpt-oss:120b-cloud", "gpt-oss:120b", False),
        ("kimi-k2.6:cloud", "kimi-k2.6", False),
        ("kimi-k2.6:cloud", "kimi-k2.6:latest", False),
        ("gpt-oss:120b-cloud", "gpt-oss:20b", True),
        ("gpt-oss:120b", "gpt-oss:120b-cloud", True),
        ("gpu1.llama3.2:3b", "llama3.2:3b", False),
        ("us.anthropic.claude-3-haiku", "claude-3-haiku", False),
        ("gpu1.gpt-oss:120b-cloud", "gpt-oss:120b", False),
        ("gpu1.gpt-oss:120b-cloud", "gpt-oss:20b", True),
        ("openai.gpt-4.1", "gpt-4.1-2025-04-14", False),
        ("openai.gpt-4.1", "gpt-4.1-mini-2025-04-14", True),
        ("gpu1.llama3.2:3b", "llama3.2:1b", True),
        ("llama3.2:3b", "gpu1.llama3.2:3b", True),
    ],
)
def test_a_model_has_its_name_there_without_what_a_list_adds_to_it(asked, answered, is_other):
    said = [
        *ore.warnings_of(Response("A", asked, metadata={"response_model": answered}), Settings())
    ]
    assert len(said) == is_other


@pytest.mark.parametrize("images, count, said", [(1, None, 1), (1, 21, 0), (0, None, 0)])
def test_of_an_image_whose_tokens_were_not_counted_it_is_said_that_nobody_knows(
    images, count, said
):
    metadata = {"images": ["a" * 64] * images, "prompt_eval_count": count}
    found = list(ore.notices_of(Response("A", "m", metadata=metadata)))
    assert len(found) == said and all("has seen the image is not known" in each for each in found)


@pytest.mark.parametrize(
    "text, context, in_session, sentences",
    [
        ("A", {}, False, []),
        (" ", {}, False, ["The answer is empty."]),
        ("so\n" * 9, {}, False, []),
        ("so\n" * 9 + "so", {}, False, ["circles"]),
        ("-\n" * 12, {}, False, []),
        ("A", {"window": 100, "prompt_tokens": 90}, False, []),
        ("A", {"window": 100, "prompt_tokens": 91}, False, ["91 of 100 tokens."]),
        ("A", {"window": 100, "prompt_tokens": 86}, True, ["91 of 100 tokens; go on with"]),
        ("A", {"window": 100, "prompt_tokens": 99, "status": "truncated"}, False, []),
    ],
)
def test_what_else_is_to_be_known_is_a_sentence(text, context, in_session, sentences):
    response = Response(text, "m", metadata={"context": context, "eval_count": 5})
    said = list(ore.notices_of(response, in_session=in_session))
    assert len(said) == len(sentences)
    assert all(part in each for part, each in zip(sentences, said, strict=True))


def test_why_an_answer_of_calls_of_tools_alone_is_empty_is_said():
    response = Response("", "m", metadata={"asked_for_tools": True})
    [said] = ore.notices_of(response)
    assert said.startswith("The answer is empty: the model asked for tools, which ORE does not run")
    response.metadata["asked_for_tools"] = "x"  # as no reasoner of ORE's says it
    assert [*ore.notices_of(response)] == ["The answer is empty."]
    assert [*ore.notices_of(Response("A", "m", metadata={"asked_for_tools": True}))] == []


def test_a_line_of_very_many_pieces_takes_time_for_each_once():
    circles, begun = RepeatedLines(), time.process_time()
    assert not any(circles.closed_by("abcd") for _ in range(300_000))
    assert not circles.closed_by("\n") and time.process_time() - begun < 1


@pytest.mark.parametrize("block", [11, 12, 40, 1000])
def test_lines_that_come_in_turn_are_a_circle_however_many_they_are(block):
    last = 1 if block > 20 else block  # the first line comes again in each long turn
    circles, lines = RepeatedLines(), [f"line {n}\n" for n in [*range(1, block), last]]
    before = ["Once.\n", *lines * 10]
    assert not any(map(circles.closed_by, before[:-block]))
    assert any(map(circles.closed_by, before[-block:] + lines))


@pytest.mark.parametrize("order", ["AABB", "ABAB", "AAABBB"])
def test_a_circle_is_found_where_each_of_its_lines_comes_more_than_once_in_it(order):
    circles = RepeatedLines()
    lines = [f"{n} {letter}\n" for n in range(12) for letter in order]
    assert not any(map(circles.closed_by, (lines * 10)[:-1]))
    assert circles.closed_by(lines[-1])


def test_a_turn_that_is_not_quite_the_same_is_no_circle():
    text = "".join(f"turn {turn}\n" + "".join(f"{n}\n" for n in range(20)) for turn in range(50))
    assert not RepeatedLines().closed_by(text)


@pytest.mark.slow
def test_millions_of_short_lines_are_looked_at_in_time():
    """16 lines in turn, of which none comes ten times among a hundred; every third turn lacks one."""
    turn = "\n".join("abcdefghijklmnop") + "\n"
    text, begun = turn * 2 + turn[2:], time.process_time()
    assert not RepeatedLines().closed_by("".join(text + f"{n}\n" for n in range(40_000)))
    assert time.process_time() - begun < 5


def test_the_notes_of_a_worker_are_as_few_and_as_short_as_a_reader_can_take():
    assert notes_of({"notes": ["a\nb", 5]}) == ["a^Jb", "5"]
    assert [len(note) for note in notes_of({"notes": ["x" * 9999] * 999})] == [1000] * 20
    assert notes_of({"notes": "text"}) == notes_of({}) == []
