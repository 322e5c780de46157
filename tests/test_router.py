"""Routing by rule: what matches, how sure that is, and what wins."""

from __future__ import annotations

import doctest
import math
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ore.errors import UsageError
from ore.router import (
    MOST_LOOKED_AT,
    DEFAULT_CONFIDENCE_THRESHOLD,
    TEST_ROUTING_TARGET,
    Router,
    RuleRouter,
    build_targets_from_registry,
)
from ore.tools import TOOL_REGISTRY
from ore.types import RoutingDecision, RoutingTarget
from tests.support.process import ROOT


def target(*hints: str, name: str = "it", kind: str = "skill") -> RoutingTarget:
    return RoutingTarget(name, kind, "about", hints)


def route(prompt: str, *targets: RoutingTarget, threshold: float = 0.0) -> RoutingDecision:
    return RuleRouter(threshold).route(prompt, targets)


def content(decision: RoutingDecision) -> tuple:
    return (decision.target, decision.target_type, decision.confidence, decision.reasoning)


@pytest.mark.parametrize(
    ("hint", "prompt"),
    [
        ("read the file", "please READ  the\n\tFile now"),
        ("  Read\tthe file ", "read the file"),
        ("cat", "use cat, please"),
        ("cat", "(cat)"),
        ("cat", "bobcat cat concat"),
        ("file", "my-file.txt"),
        ("c++", "teach me C++."),
        ("c++", "c++"),
        (".net", "a .NET thing"),
        ("c#", "is c# fun?"),
        ("c#", "c#code"),
        ("don't", "I DON'T know"),
        ("straße", "die STRASSE dort"),
        ("ΣΊΣΥΦΟΣ", "ο σίσυφος εδώ"),
        ("привет", "Ну ПРИВЕТ!"),
        ("caf\u00e9", "the Cafe\u0301 here"),
        ("हिन्दी", "यह हिन्दी है"),
        ("天气", "今天天气怎么样"),
        ("ファイル", "このファイルを読んで"),
        ("ไฟล์", "อ่านไฟล์นี้"),
        ("قرأ", "قرأ الملف"),
    ],
)
def test_a_hint_matches_as_whole_words_in_any_case_and_script(hint, prompt):
    assert route(prompt, target(hint)).target == "it"


@pytest.mark.parametrize(
    ("hint", "prompt"),
    [
        ("cat", "concatenate the category, bobcat, cats and cat_5"),
        ("read file", "read, file"),
        ("read file", "read the file"),
        ("read the file", "read the files"),
        ("c++", "c+"),
        ("cafe", "caf\u00e9"),
        ("cafe", "cafe\u0301"),
        ("हिन", "हिन्दी"),
        ("ไฟล", "ไฟล์"),
        ("मी", "می\u200cخواهم"),
        ("می", "می\u200cخواهم"),
        ("ファイ", "ファイル"),
        ("दी", "हिन्दी"),
        ("q\u0323", "q\u0323\u0307"),
        ("क्", "क्\u200dष"),
        ("x2", "x²"),
        ("at", "cat"),
        ("a b", "ab"),
    ],
)
def test_a_part_of_a_word_does_not_match(hint, prompt):
    assert route(prompt, target(hint)).target is None


# The first and the last letter or digit of each block of characters, and what is beside the blocks.
UNSPACED = "กໟက႙ក៹ぁゟ㐀䶿一鿿﨎﨩\U00020000\U0003134a"
SPACED = "ཀაаaàअ가힣ァヿㄱㆺㇿᠠꀀ\uabc0"


@pytest.mark.parametrize("letter", UNSPACED + SPACED)
def test_a_letter_is_a_word_of_its_own_where_no_space_stands_between_words(letter):
    decision = route(letter * 3, target(letter))
    assert decision.target == ("it" if letter in UNSPACED else None)


@pytest.mark.parametrize(
    ("hints", "prompt", "confidence"),
    [
        (["one"], "has one", 0.4),
        (["one two"], "has one two", 0.64),
        (["one two three"], "has one two three", 0.784),
        (["one"], "One has", 0.6),
        (["one two"], "  one two", 0.84),
        (["one two three"], "one two three", 0.984),
        (["one two three four"], "one two three four", 1.0),
        (["one two", "has"], "has one two", 0.64),
        (["has", "one two"], "has one two", 0.64),
        (["has one", "one two"], "has one two", 0.84),
        (["one two", "has one"], "has one two", 0.84),
        (["one", "absent words here"], "has one", 0.4),
        (["", "  ", "one"], "has one", 0.4),
        (["one"], "none one", 0.4),
        (["one"], "one none one", 0.6),
        (["a b c d e f g h i j k"], "has a b c d e f g h i j k", 0.9963720294),
    ],
)
def test_the_longest_matching_hint_decides_the_confidence(hints, prompt, confidence):
    assert route(prompt, target(*hints)).confidence == confidence


@pytest.mark.parametrize(
    ("prompt", "targets", "winner"),
    [
        ("one two three", [target("one", name="a"), target("two three", name="b")], ("b", "skill")),
        ("one", [target("one", name="b"), target("one", name="a")], ("a", "skill")),
        ("one", [target("one"), target("one", kind="tool")], ("it", "tool")),
        ("one", [target("one", name="b", kind="tool"), target("one", name="a")], ("a", "skill")),
        ("x six three", [target("six", name="a"), target("three", name="b")], ("b", "skill")),
        ("x six three", [target("  six  ", name="a"), target("three", name="b")], ("b", "skill")),
        ("x é ab", [target("é", name="a"), target("ab", name="b")], ("b", "skill")),
        (
            "a b c d e",
            [target("a b c d", name="a"), target("a b c d e", name="b")],
            ("b", "skill"),
        ),
    ],
)
def test_the_best_target_wins_whatever_the_order(prompt, targets, winner):
    for order in (targets, targets[::-1]):
        decision = route(prompt, *order)
        assert (decision.target, decision.target_type) == winner


def test_twins_that_differ_in_case_decide_the_same_in_any_order():
    twins = [target("ONE"), target("one")]
    assert route("one", *twins).reasoning == route("one", *twins[::-1]).reasoning


@pytest.mark.parametrize("threshold", [0.4, 0.6, 0.64, 0.784, 0.84, 0.984, 1.0])
def test_a_confidence_that_equals_the_threshold_routes(threshold):
    prompts = {0.4: "x a", 0.6: "a", 0.64: "x a b", 0.784: "x a b c", 0.84: "a b", 0.984: "a b c"}
    prompt = prompts.get(threshold, "a b c d")
    everything = target("a", "a b", "a b c", "a b c d")
    assert route(prompt, everything, threshold=threshold).target_type == "skill"
    if threshold < 1:
        above = math.nextafter(threshold, 1)
        assert route(prompt, everything, threshold=above).target_type == "fallback"


def test_a_hit_says_the_hint_the_type_and_the_name():
    decision = RuleRouter().route("now Read the\nfile x", [target("Read  the File", kind="tool")])
    assert decision.reasoning == '"Read the File" matches the tool it'
    assert (decision.confidence, decision.args) == (0.784, {})


@pytest.mark.parametrize(
    ("prompt", "targets", "name", "confidence", "reasoning"),
    [
        ("hello", [], None, 0.0, "There are no targets to choose from"),
        (" \n", [target("one")], None, 0.0, "The prompt is blank"),
        ("", [], None, 0.0, "The prompt is blank"),
        (
            "hello",
            [target("one"), target()],
            None,
            0.0,
            'The prompt has none of these hints: "one"',
        ),
        ("hello", [target(), target()], None, 0.0, "No target has a hint"),
        (
            "hello",
            [target(*(f"hint {number:02}" for number in range(14))), target("a\x1b" * 200)],
            None,
            0.0,
            'The prompt has none of these hints: "'
            + ("a\\x1b" * 200)[:80]
            + '", '
            + ", ".join(f'"hint {number:02}"' for number in range(11))
            + ", and 3 more",
        ),
        (
            "has one",
            [target("one", name="a"), target("one", name="b")],
            "a",
            0.4,
            '"one" matches the skill a, but its confidence 0.4 is below threshold 0.5',
        ),
    ],
)
def test_without_a_hit_the_fallback_says_why(prompt, targets, name, confidence, reasoning):
    decision = RuleRouter().route(prompt, targets)
    assert decision.target_type == "fallback"
    assert (decision.target, decision.confidence, decision.args) == (name, confidence, {})
    assert decision.reasoning == reasoning


@pytest.mark.parametrize("hint", ["C:\\temp", 'don\'t say "hi"', "é"])
def test_a_printable_hint_is_shown_as_it_is(hint):
    assert route(hint, target(hint)).reasoning == f'"{hint}" matches the skill it'


def test_80_characters_of_a_hint_and_of_a_name_are_shown():
    decision = route("x" * 81, target("x" * 81, name="y" * 81))
    assert decision.reasoning == f'"{"x" * 80}" matches the skill {"y" * 80}'
    assert decision.target == "y" * 81


def test_numbers_are_shown_to_six_digits():
    hint = "a b c d e f g h i j k"
    assert route(f"x {hint}", target(hint), threshold=1 - 1e-16).reasoning.endswith(
        "its confidence 0.996372 is below threshold 1"
    )


@pytest.mark.parametrize("prompt", ["one", "two"])
@pytest.mark.parametrize("targets", [[], [target("one"), target("one", name="b")]])
def test_targets_that_come_one_by_one_are_the_same_as_a_list(prompt, targets):
    assert content(RuleRouter().route(prompt, iter(targets))) == content(route(prompt, *targets))


def test_a_reasoning_is_one_short_printable_line():
    hostile = target("\x1b[2J evil\u202e", name="n\n\x07" + "x" * 500)
    reasoning = route("\x1b[2J evil\u202e", hostile).reasoning
    assert reasoning.isprintable() and len(reasoning) < 250
    assert "\\x1b[2J evil\\u202e" in reasoning


@pytest.mark.parametrize("threshold", [-0.01, 1.01, math.nan, math.inf, -math.inf])
def test_a_threshold_that_is_not_between_0_and_1_is_refused(threshold):
    with pytest.raises(UsageError, match="must be from 0 to 1, not "):
        RuleRouter(threshold)


def test_the_default_threshold_is_a_half():
    assert RuleRouter().confidence_threshold == DEFAULT_CONFIDENCE_THRESHOLD == 0.5
    assert issubclass(RuleRouter, Router)
    with pytest.raises(TypeError, match="abstract"):
        Router()


def test_the_test_target_routes_by_its_hints_and_is_not_a_tool():
    assert TEST_ROUTING_TARGET == RoutingTarget(
        "test",
        "tool",
        "Stands for any tool where routing itself is tried out; it is in no registry.",
        ("test", "test routing", "try the test route"),
    )
    for hint in TEST_ROUTING_TARGET.hints:
        assert RuleRouter().route(hint, [TEST_ROUTING_TARGET]).target == "test"
    assert TEST_ROUTING_TARGET.name not in TOOL_REGISTRY


def test_targets_are_made_of_the_tools_in_the_order_of_their_names():
    targets = build_targets_from_registry(dict(reversed(TOOL_REGISTRY.items())))
    assert [(item.name, item.target_type) for item in targets] == [
        ("echo", "tool"),
        ("read-file", "tool"),
    ]
    assert targets[0].hints == ("echo", "echo back", "repeat this line", "repeat after me")
    assert targets[1].description == TOOL_REGISTRY["read-file"].description


def test_the_page_about_routing_is_true():
    page = Path(__file__).parent.parent / "docs" / "routing.md"
    failed, tried = doctest.testfile(str(page), module_relative=False)
    assert (failed, tried > 3) == (0, True)


def test_a_hint_is_looked_for_in_the_first_characters_of_a_very_long_prompt():
    prompt = "x" * (MOST_LOOKED_AT - 4) + " one"
    assert RuleRouter(0.1).route(prompt, [target("one")]).target_type == "skill"
    decision = RuleRouter(0.1).route(f" {prompt}", [target("one")])
    assert decision.target is None
    said = "The first 262,144 characters of the prompt have none of these hints: "
    assert decision.reasoning == f'{said}"one"'


@pytest.mark.parametrize(
    "hint, is_there", [("ab", True), ("ab ", True), ("b", False), ("abab", False)]
)
@pytest.mark.parametrize("before", [0, 99, 100, 1000])
def test_a_hint_is_found_as_words_however_often_it_is_only_a_part_of_some(hint, is_there, before):
    decision = RuleRouter(0.1).route("xab " * before + "é ab", [target(hint)])
    assert (decision.target_type == "skill") is is_there


@pytest.mark.slow
def test_a_long_hint_that_is_part_of_a_long_word_costs_as_much_as_the_word_is_long():
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_CPU, (20, 20))\n"
        "from ore.router import RuleRouter\n"
        "from ore.types import RoutingTarget\n"
        "target = RoutingTarget('it', 'skill', 'about', ('a' * 60_000,))\n"
        "print(RuleRouter().route('a' * (1 << 20), [target]).target_type)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "fallback\n"), done.stderr


@pytest.mark.slow
def test_a_hint_that_comes_again_thousands_of_times_is_looked_for_once():
    hints = ("aaa", "AAA") * 3000
    begun = time.process_time()
    decision = RuleRouter().route("a" * (1 << 20), [RoutingTarget("x", "skill", "d", hints)])
    assert decision.target is None and time.process_time() - begun < 3
