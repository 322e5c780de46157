"""``Settings`` from a program: limits of time are times, and any mapping will do for options and schemas."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import MappingProxyType

import pytest

import ore
from tests.support.fake_ollama import FakeOllama
from tests.support.fake_openai import FakeOpenAI

SCHEMA = MappingProxyType({"type": "string", "enum": ("Paris.", "Rome.")})


@pytest.mark.parametrize("seconds", [0, -1, True, math.nan, math.inf, 10**400, "5"])
@pytest.mark.parametrize("name", ["timeout", "deadline"])
def test_a_limit_that_is_no_time_to_wait_is_refused_before_a_server_is_asked(name, seconds):
    with FakeOpenAI() as server, pytest.raises(ore.UsageError, match=f"The {name} must be"):
        asked = ore.reasoner("openai:small", host=server.url, **{name: seconds})
        ore.ORE(asked).execute("Why?")
    assert not server.requests


@pytest.mark.parametrize("seconds", [0, -1, math.nan, 10**400])
def test_the_limits_of_a_backend_and_of_recorded_runs_are_refused_as_well(seconds):
    with pytest.raises(ore.UsageError, match="The timeout must be"):
        ore.backend("ollama", timeout=seconds)
    with pytest.raises(ore.UsageError, match="The deadline must be"):
        ore.Reopening(deadline=seconds)


@pytest.mark.parametrize(
    "settings, said",
    [
        (
            {"options": "temperature=0"},
            "The options are a dict, as in {'temperature': 0}, not str.",
        ),
        (
            {"format": "name, age int"},
            "A schema is a dict here, as in {'type': 'object'}, not str.",
        ),
        ({"chat_template": Path("a.jinja")}, "A chat template is text, as its file holds it, not "),
    ],
    ids=["options", "format", "chat_template"],
)
def test_a_setting_of_another_kind_says_what_it_takes_before_a_model_is_asked(settings, said):
    with pytest.raises(ore.UsageError) as raised:
        ore.reasoner("ollama:small", **settings)
    assert str(raised.value).startswith(said)


def test_the_text_of_a_schema_is_none_yet():
    with pytest.raises(ore.UsageError, match="^A schema is a dict here, .* not str.$"):
        ore.validate('{"type": "object"}', "{}")


def test_options_and_a_schema_may_be_any_mapping():
    """A dict that can't be changed can't be copied either: the answer was lost over it."""
    with FakeOllama(reply='"Paris."') as server:
        options = MappingProxyType({"temperature": 0, "stop": ("a", "b")})
        asked = ore.AyaReasoner("llama3.2", server.url, options=options, format=SCHEMA)
        answered = ore.ORE(asked).execute("Where?")
        again = ore.reasoner("ollama:llama3.2", host=server.url, options=options, format=SCHEMA)
        assert ore.ORE(again).execute("Where?").content == '"Paris."'
    assert answered.metadata["options"] == {"temperature": 0, "stop": ["a", "b"]}
    assert answered.metadata["format"] == {"type": "string", "enum": ["Paris.", "Rome."]}
    assert ore.validate(SCHEMA, '"Rome."') == "Rome."


def test_an_option_of_another_type_is_the_server_s_to_refuse():
    with FakeOpenAI() as server:
        asked = ore.reasoner("openai:small", host=server.url, options={"num_predict": "5"})
        ore.ORE(asked).execute("Why?")
        assert json.loads(server.chats[0].body)["max_tokens"] == "5"
