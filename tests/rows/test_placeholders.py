"""A prompt with places for values: what is a place, what is text, and what is said of the rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ore.errors import UsageError
from ore.rows import placeholders
from ore.rows.placeholders import parse_template, quoted

CITY = {"city": "Rome"}

FILLED = {
    "": "",
    "no place at all": "no place at all",
    "{{city}}": "Rome",
    "{{ city }}": "Rome",
    "a {{city}} b {{city}}": "a Rome b Rome",
    "{one} }} {two": "{one} }} {two",
    '{"in":{"city":{{city}}}}': '{"in":{"city":Rome}}',
    "{{{city}}}": "{Rome}",
    r"\{{city}}": "{{city}}",
    r"\{{": "{{",
    r"\\{{city}}": r"\Rome",
    r"\\\{{city}}": r"\{{city}}",
    r"a\b {{city}} \\": r"a\b Rome \\",
    "{{city}}{{city}}": "RomeRome",
    "{ {city}}": "{ {city}}",
}


@pytest.mark.parametrize("text, filled", FILLED.items())
def test_what_is_a_place_and_what_is_text(text, filled):
    assert parse_template(text).fill(CITY) == filled


@pytest.mark.parametrize(
    "name", ["First name", "größe", "価格", "Total (EUR)", "#", "a.b", "a\u00a0b"]
)
def test_a_name_is_any_text_on_one_line_without_braces(name):
    template = parse_template(f"x {{{{{name}}}}}")
    assert template.names == (name,)
    assert template.fill({name: "1"}) == "x 1"


@pytest.mark.parametrize(
    "rest",
    ["{{", "{{}}", "{{ }}", "{{a\nb}}", "{{{{city}}}}", "{{a{b}}", "{{a", "{{a\tb}}", "{{\0}}"],
)
def test_two_braces_that_begin_no_place_are_an_error_that_names_the_line(rest):
    with pytest.raises(UsageError, match=r"^line 1 is fine has two braces in line 6 .*\\\{\{ for"):
        parse_template(f"Line 1\nLine 2 {rest}", "line 1 is fine", line=5)


def test_names_stand_once_in_the_order_of_the_text():
    assert parse_template("{{b}} {{a}} {{ b }}").names == ("b", "a")


def test_all_names_without_a_value_are_named_and_all_values_without_a_name():
    template = parse_template("{{a}} {{b}} {{c}}")
    assert template.missing(["b"]) == ["a", "c"]
    assert template.unused(["z", "b", "y"]) == ["z", "y"]
    with pytest.raises(UsageError, match="'a', 'c'"):
        template.fill({"b": ""})


def test_of_very_many_names_an_error_shows_the_first():
    said = quoted([f"n{number}" for number in range(1000)] + ["x\x1b[31m"])
    assert said.startswith("'n0', 'n1', ") and said.endswith("'n19' and 981 more")
    assert "\x1b" not in quoted(["x\x1b[31m"]) and len(quoted(["y" * 10_000])) < 100
    assert quoted(["a `timeout=5`"]) == "'a 'timeout=5''"


def test_a_prompt_that_would_be_too_long_is_refused_before_it_is_made(monkeypatch):
    monkeypatch.setattr(placeholders, "LONGEST_FILLED", 1 << 20)
    template = parse_template("{{a}}" * 3)
    assert len(template.fill({"a": "x" * 300_000})) == 900_000
    with pytest.raises(UsageError, match="more than 1 Mi characters"):
        template.fill({"a": "x" * 400_000})


@pytest.mark.slow
def test_a_long_run_of_backslashes_or_braces_is_read_in_one_pass():
    assert parse_template("\\" * 2_000_000 + "{").fill({}) == "\\" * 2_000_000 + "{"
    assert len(parse_template("\\{{" * 300_000).fill({})) == 600_000


@pytest.mark.invariant
@given(st.text(alphabet="{}\\ab \n", max_size=40))
def test_a_value_is_text_and_never_looked_into(value):
    assert (
        parse_template("<{{a}}|{{b}}>").fill({"a": value, "b": "{{a}}"}) == f"<{value}|{{{{a}}}}>"
    )


@given(st.text(alphabet="{}\\ab \n", max_size=40))
def test_any_text_can_be_written_as_a_template(text):
    r"""With a backslash doubled, and one before two braces, only where two braces follow."""
    written, at = "", 0
    while (found := text.find("{{", at)) >= 0:
        before = text[at:found]
        slashes = len(before) - len(before.rstrip("\\"))
        written, at = written + before + "\\" * slashes + "\\{{", found + 2
    assert parse_template(written + text[at:]).fill({}) == text


def test_a_text_is_as_long_as_it_is_said_to_be_before_it_is_filled():
    template, values = parse_template("Is {{a}} in {{b}}, or {{ a }}?"), {
        "a": "Paris",
        "b": "France",
    }
    assert template.length(values) == len(template.fill(values))
    assert template.length({}) == len("Is  in , or ?")
