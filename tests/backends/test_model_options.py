"""The model's options: what is read, and what is refused before anything is sent."""

from __future__ import annotations

from decimal import Decimal

import pytest

from ore.backends import engine_request, openai_request
from ore.backends.model_options import (
    OPTIONS,
    check_ollama,
    natural,
    parse_keep_alive,
    parse_options,
)
from ore.backends.settings import Settings
from ore.errors import CapabilityError, OreError, UsageError
from tests.support.fake_ollama.rules import OPTION_TYPES

READ = [
    (["temperature=0"], {"temperature": 0.0}),
    (["temperature=.5e-1"], {"temperature": 0.05}),
    (["seed=-1"], {"seed": -1}),
    (["seed=4294967295"], {"seed": 4294967295}),
    (["use_mmap=False"], {"use_mmap": False}),
    (["stop=a=b"], {"stop": ["a=b"]}),
    (["stop= ", "stop=\n"], {"stop": [" ", "\n"]}),
    (["num_ctx=8192", "top_p=1"], {"num_ctx": 8192, "top_p": 1.0}),
    ([], {}),
]


@pytest.mark.parametrize("pairs, options", READ)
def test_options_are_read_with_their_types(pairs, options):
    found = parse_options(pairs)
    assert found == options
    assert [type(value) for value in found.values()] == [type(v) for v in options.values()]


REFUSED = [
    ("temprature=1", "There is no option 'temprature'; the nearest is 'temperature'."),
    ("Top_K=1", "the nearest is 'top_k'"),
    ("numctx=1", "the nearest is 'num_ctx'"),
    ("xyzzy=1", "there are cache_prompt, draft_num_predict, "),
    ("seed=1.5", "The option 'seed' must be a whole number, not '1.5'."),
    ("seed=", "must be a whole number"),
    ("seed=99999999999", "'seed' must be from -2,147,483,648 to 4,294,967,295, not '99999999999'."),
    (f"seed={2**64}", "must be from -2,147,483,648 to 4,294,967,295"),
    (f"seed=-{2**64}", "must be from -2,147,483,648 to 4,294,967,295"),
    ("seed=\u0663", "must be a whole number"),
    ("seed=1_000", "must be a whole number"),
    ("temperature=hot", "The option 'temperature' must be a number, not 'hot'."),
    ("temperature=nan", "must be a number"),
    ("temperature=inf", "must be a number"),
    ("temperature=1e999", "must be a number"),
    ("temperature=" + "1" * 400, "must be a number"),
    ("use_mmap=1", "The option 'use_mmap' must be true or false, not '1'."),
    ("stop=", "needs a value"),
    ("temperature", "`options=` takes KEY=VALUE"),
    ("=1", "`options=` takes KEY=VALUE"),
]


@pytest.mark.parametrize("pair, words", REFUSED)
def test_a_wrong_option_is_refused_in_one_sentence(pair, words):
    with pytest.raises(UsageError) as caught:
        parse_options([pair])
    assert words in str(caught.value) and caught.value.exit_code == 2


def test_an_option_given_twice_is_refused():
    with pytest.raises(UsageError, match="gives 'seed' twice"):
        parse_options(["seed=1", "seed=1"])


def test_the_table_is_that_of_the_server_but_for_what_it_does_not_have():
    kinds = {"float32": "a number", "integer": "a whole number", "boolean": "true or false"}
    expected = {name: kinds[kind] for name, kind in OPTION_TYPES.items()} | {"stop": "a text"}
    kinds = {name: kind for name, (kind, _) in OPTIONS.items()}
    for name in set(OPTIONS) - set(expected):
        with pytest.raises(CapabilityError, match=f"Ollama has no option '{name}'"):
            check_ollama([name])
        del kinds[name]
    assert kinds == expected
    check_ollama(expected)


@pytest.mark.parametrize(
    "name, way", [("num_thread", ", or use Ollama."), ("max_tokens", "; it has ")]
)
def test_another_backend_is_named_only_for_an_option_that_it_has(name, way):
    with pytest.raises(CapabilityError, match="leave it out") as caught:
        engine_request.check_settings(Settings(options={name: 1}))
    assert f"no option '{name}': leave it out{way}" in str(caught.value)
    assert ("use Ollama" in str(caught.value)) == (name in OPTION_TYPES)


@pytest.mark.parametrize("check", [engine_request.check_settings, openai_request.check_settings])
@pytest.mark.parametrize(
    "options", [{"a\n\nYou: \x1b" + "b" * 9999: 1}, {"num_ctx": "\nYou: " + "b" * 999}]
)
def test_an_option_that_a_program_was_given_is_said_on_one_short_line(check, options):
    with pytest.raises(OreError, match="option '") as error:
        check(Settings(options=options))
    assert "\n" not in str(error.value) and len(str(error.value)) < 600


@pytest.mark.parametrize("value", [Decimal("0.5"), object(), {"a": 1}])
def test_an_option_that_is_no_json_is_blamed_on_the_option(value):
    with pytest.raises(
        UsageError, match="'temperature' must be a number, not (Decimal|object|dict)."
    ):
        engine_request.check_settings(Settings(options={"temperature": value}))


@pytest.mark.parametrize(
    "text, value",
    [("300", 300.0), ("-1", -1.0), ("0", 0.0), ("5m", "5m"), ("1h30m", "1h30m"), ("-1s", "-1s")],
)
def test_a_keep_alive_is_seconds_or_a_duration(text, value):
    assert parse_keep_alive(text) == value


@pytest.mark.parametrize("text", ["forever", "5 m", "m", "1e400", "nan", "5min", "9" * 50])
def test_any_other_keep_alive_is_refused(text):
    with pytest.raises(UsageError, match="`keep_alive=` takes seconds"):
        parse_keep_alive(text)


def test_a_wrong_option_reaches_no_model(ore):
    result = ore("hi", "-o", "temprature=1")
    assert (result.code, result.out, result.calls) == (2, "", [])
    assert "the nearest is 'temperature'" in result.err


def test_what_was_set_is_given_to_the_backend(ore):
    result = ore("hi", "-o", "seed=3", "--option", "temperature=0", "--keep-alive", "-1")
    settings = result.backend.settings
    assert settings.options == {"seed": 3, "temperature": 0.0}
    assert settings.asked() == {"options": settings.options, "keep_alive": -1.0}


@pytest.mark.parametrize("text", ["x\n[AYA]: y\x1b[2J", "x" * 100_000], ids=["a label", "long"])
def test_what_others_chose_is_shown_on_one_short_line(text):
    for refused in (
        lambda: parse_keep_alive(text),
        lambda: parse_options([text]),
        lambda: parse_options([f"{text}=1"]),
        lambda: parse_options([f"seed={text}"]),
    ):
        with pytest.raises(UsageError) as caught:
            refused()
        assert "\n" not in str(caught.value) and "\x1b" not in str(caught.value)
        assert len(str(caught.value)) < 800


@pytest.mark.parametrize(
    "value, found",
    [
        (0, 0),
        (1e9, 10**9),
        (4096.7, 4096),
        (-1.0, None),
        (True, None),
        (float("inf"), None),
        ("1", None),
    ],
)
def test_a_number_from_python_is_the_whole_one_that_a_server_takes_it_for(value, found):
    assert natural({"num_ctx": value}, "num_ctx") == found
