"""What is asked about the models that a server lists: never more than so much, or so long."""

from __future__ import annotations

import json
import time

import pytest

from ore.backends import ollama_models
from ore.backends.address import Host
from ore.backends.failures import untold_error
from ore.backends.ollama import AyaReasoner, OllamaBackend
from ore.backends.ollama_client import OllamaClient
from ore.backends.ollama_models import default_of, described, is_of_cloud
from ore.errors import BackendTimeoutError
from ore.types import Message
from tests.backends.ollama.test_ollama_questions import http, one_answer
from tests.support.fake_ollama import FakeOllama

MANY = {f"m{number}": {} for number in range(1_000)}


def raising(error):
    def fail():
        raise error

    return fail


def all_described(show):
    return described(MANY, show)


def default(show):
    return default_of(MANY, show)


@pytest.mark.parametrize("look", [all_described, default])
@pytest.mark.parametrize("seconds, asked", [(0.0, 200), (3.0, 4), (60.0, 1)])
def test_a_slow_server_with_many_models_is_not_asked_for_ever(look, seconds, asked, monkeypatch):
    clock, names = [0.0], []

    def show(name):
        names.append(name)
        clock[0] += seconds
        return {"capabilities": ["embedding"]}

    monkeypatch.setattr(ollama_models.time, "monotonic", lambda: clock[0])
    assert look(show) is not None or look is default
    assert len(names) == asked


def test_of_what_each_model_can_do_no_more_is_kept_than_models_can():
    able = ["completion", "x" * 1_000_000, *map(str, range(100_000)), 3]
    for known in ({"capabilities": able}, {}):
        (model,) = described({"m": known}, lambda name: {"capabilities": able})
        assert model.can_answer and len(str(model.capabilities)) < 1000


def test_a_model_that_runs_elsewhere_or_can_not_be_asked_is_never_the_default():
    away = {"remote_host": "https://ollama.com:443", "capabilities": ["completion"]}
    here, embeds = {"capabilities": ["completion"]}, {"capabilities": ["embedding"]}

    def show(name):
        return {}

    for known, chosen in (
        ({"a:cloud": away, "llama3.2:x-cloud": away, "z:1b": here}, "z:1b"),
        ({"a:cloud": away, "b:1b": embeds}, None),
        ({"a:cloud": away}, None),
        ({"a:cloud": here, "llama3.2:x-cloud": here, "z:1b": here}, "z:1b"),
        ({"//ada:PW@box": here, "http://ada:PW@box/m": here, "z:1b": here}, "z:1b"),
        ({"//ada:PW@box": here}, None),
    ):
        assert default_of(known, show) == chosen


def test_of_many_models_that_answer_no_prompts_the_default_is_looked_for_in_one_pass():
    """Each of the first two hundred took a pass over all of them."""
    embeds = {"capabilities": ["embedding"], "details": {"context_length": 512}}
    begun = time.process_time()
    assert default_of({f"m{number}": embeds for number in range(100_000)}, dict) is None
    assert time.process_time() - begun < 2.0


@pytest.mark.parametrize(
    "name, is_there",
    [
        ("kimi-k2.6:cloud", True),
        ("gpt-oss:120b-Cloud", True),
        ("hub.example:5000/ada/gpt-oss:120b-cloud", True),
        ("cloud", False),
        ("my-cloud", False),
        ("cloud:1b", False),
        ("gpt-oss:120b-cloudy", False),
        ("hub.example:5000/my-cloud", False),
        (":-" * 100_000, False),  # the time grew with its square
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_model_of_the_cloud_is_known_by_its_tag_however_long(name, is_there):
    begun = time.process_time()
    assert is_of_cloud(name) == is_there
    assert time.process_time() - begun < 1.0


@pytest.mark.slow
@pytest.mark.parametrize("name, shown", [("done_reason", "?x"), ("model", r"\ud800x")])
def test_half_a_character_in_a_name_takes_nothing_of_the_answer(name, shown):
    told = {"model": "m", "message": {"role": "assistant", "content": "Yes."}, "done": True}
    with one_answer(http(json.dumps(told | {name: "\ud800x"}).encode() + b"\n")) as (host, _):
        response = AyaReasoner("m", host).reason([Message("user", "Hello")])
    assert response.content == "Yes."
    assert response.metadata["response_model" if name == "model" else name] == shown


@pytest.mark.slow
@pytest.mark.parametrize(
    "models, chosen", [(("b:1",), "b:1"), (("b:1", "mistral:7b"), "mistral:7b")]
)
def test_a_model_is_chosen_in_the_time_that_all_of_it_may_take(models, chosen):
    with FakeOllama(wait=2.0, on="*", models=models, version="0.12.0") as server:
        client = OllamaClient(Host(server.url)).prepared()
        started = time.monotonic()
        assert client.default_model(3.0) == chosen  # the list took most of it
        assert time.monotonic() - started < 4.0  # if each might take all of it, they would take 4 s


@pytest.mark.parametrize("seconds", [3.0, 0.0])
def test_of_several_models_none_is_chosen_that_may_be_for_embeddings(seconds, monkeypatch):
    clock = [0.0]

    def show(name):
        clock[0] += seconds
        if clock[0] > 7.0 or not seconds:
            raise BackendTimeoutError("late")
        return {"capabilities": ["embedding"]}

    monkeypatch.setattr(ollama_models.time, "monotonic", lambda: clock[0])
    assert default_of(MANY, show) is None
    with pytest.raises(BackendTimeoutError, match="in time which"):
        default_of(MANY, show, untold_error(Host("http://h")))
    told = {"a": {"capabilities": ["completion"]}}  # its window is still asked for
    assert default_of(MANY | told, show) == "a"


def test_a_list_is_not_lost_where_no_default_can_be_chosen_in_time():
    with FakeOllama(models=("b:1", "c:1")) as server:
        backend = OllamaBackend(server.url)
        backend.default_model = raising(untold_error(Host(server.url)))
        found, default = backend.listed()
    assert ([each.name for each in found], default) == (["b:1", "c:1"], None)
