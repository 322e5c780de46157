"""Which models there are, and which one answers when none is named."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ore.backends import Model
from ore.backends.address import Host
from ore.backends.choice import open_backend
from ore.backends.ollama import OllamaBackend
from ore.backends.settings import Settings
from ore.cli import model_list
from ore.errors import ServerUnreachableError, UsageError
from ore.models import PREFERRED_MODELS, choose_default, default_model, fetch_models
from ore.reasoner import AyaReasoner
from ore.types import Message
from tests.support.fake_ollama import FakeOllama
from tests.support.harness import run_ore
from tests.support.process import MAIN, environment

SLOW_TO_IMPORT = f"""
import runpy, sys, time
class Slow:
    def find_spec(self, name, *_):
        if name == "pydantic":
            time.sleep(0.6)
sys.meta_path.insert(0, Slow())
runpy.run_path({str(MAIN)!r}, run_name="__main__")
"""


@pytest.mark.parametrize(
    "names, chosen",
    [
        ([], None),
        (["phi:latest", "gemma"], "gemma"),  # by name: not the one that was fetched last
        (["zeta", "Beta", "alpha:2b"], "alpha:2b"),
        (["qwen2.5", "llama2", "mistral", "llama3", "llama3.1", "llama3.2"], "llama3.2"),
        (["qwen2.5", "llama2:7b"], "llama2:7b"),
        (["phi", "qwen2.5:0.5b"], "qwen2.5:0.5b"),
        (["llama3.2:1b", "llama3.2:latest"], "llama3.2:latest"),
        (["llama3.2:1b", "llama3.2"], "llama3.2"),
        (["llama3.2:1b", "llama3.2:3b"], "llama3.2:1b"),
        (["mistral:latest", "llama3.2:1b"], "llama3.2:1b"),
        (["llama3.2-vision:latest", "mistral"], "mistral"),
        (["me/llama3.2:latest", "mistral"], "mistral"),
        (["hf.co/x/llama3.2"], "hf.co/x/llama3.2"),
        (["LLAMA3.2:Latest", "Llama3.2:1b", "aaa"], "LLAMA3.2:Latest"),  # one name, to Ollama
    ],
)
def test_the_default_is_the_first_preferred_model_that_is_there(names, chosen):
    assert choose_default(names) == chosen


@pytest.mark.invariant
def test_the_preferred_models_and_their_order_are_fixed():
    assert PREFERRED_MODELS == ("llama3.2", "llama3.1", "llama3", "mistral", "llama2", "qwen2.5")


NAMES = st.sampled_from(PREFERRED_MODELS) | st.text("abc:", max_size=5)
TAGS = st.sampled_from(["", ":latest", ":1b"])


@given(st.lists(st.tuples(NAMES, TAGS).map("".join)))
def test_the_default_is_always_one_of_the_names(names):
    assert choose_default(names) in (names or [None])


def test_names_come_as_the_server_gives_them_and_in_its_order():
    with FakeOllama(models=("b:1", "A:latest", "c:Q4")) as server:
        assert fetch_models(server.url) == ["b:1", "A:latest", "c:Q4"]
        assert default_model(server.url) == "A:latest"


def test_the_host_may_come_from_the_environment(monkeypatch):
    with FakeOllama(models=("mistral:latest",)) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        assert fetch_models() == ["mistral:latest"]
        assert default_model() == "mistral:latest"


def test_a_named_default_is_taken_without_asking_anybody(monkeypatch):
    monkeypatch.setenv("ORE_MODEL", " mine:1 ")
    with FakeOllama() as server:
        assert default_model(server.url) == "mine:1"
        assert server.requests == []


def test_a_blank_named_default_counts_as_none(monkeypatch):
    monkeypatch.setenv("ORE_MODEL", " ")
    with FakeOllama(scenario="tags-empty") as server:
        assert default_model(server.url) is None


def test_a_dead_server_or_a_bad_host_is_an_error():
    with FakeOllama() as server:
        url = server.url
    with pytest.raises(ServerUnreachableError):
        fetch_models(url)
    with pytest.raises(UsageError):
        default_model("not:an:address")


def test_the_backend_is_the_server_as_the_command_line_sees_it():
    with FakeOllama(models=("mistral:latest",)) as server:
        backend = OllamaBackend(Host(server.url, "--host"))
        assert (backend.name, backend.host) == ("ollama", server.url)
        assert backend.answers() is True
        assert backend.models() == ["mistral:latest"]
        assert backend.default_model() == "mistral:latest"
        steps = []
        backend.pull("new", lambda *step: steps.append(step))
        assert steps and backend.models() == ["new:latest", "mistral:latest"]
    assert backend.answers() is False


def test_the_backend_hands_its_settings_to_the_reasoner():
    settings = Settings(timeout=3, deadline=9.5, strict_context=True, conversation=True)
    reasoner = OllamaBackend("box:1").reasoner("m", settings)
    assert (reasoner.model_id, str(reasoner.host)) == ("m", "http://box:1")
    assert (reasoner.timeout, reasoner.deadline, reasoner.strict_context) == (3.0, 9.5, True)


@pytest.mark.parametrize("lists", [True, False], ids=["newer", "older"])
@pytest.mark.parametrize(
    "models, chosen",
    [
        ({"a-embed:latest": ["embedding"], "small:1b": ["completion"]}, "small:1b"),
        ({"a-embed:latest": ["embedding"]}, None),
        ({"a-embed:latest": ["embedding"], "llama3.2:1b": ["completion"]}, "llama3.2:1b"),
    ],
)
def test_a_model_for_embeddings_alone_is_never_the_default(models, chosen, lists):
    with FakeOllama(models=tuple(models)) as server:
        server.ollama.able = models
        server.ollama.lists_abilities = lists
        assert default_model(server.url) == chosen
        assert OllamaBackend(server.url).default_model() == chosen
        assert OllamaBackend(server.url, "a-embed").default_model() == "a-embed"


@pytest.mark.parametrize("lists", [True, False], ids=["newer", "older"])
def test_a_model_is_listed_with_what_is_known_of_it(lists):
    with FakeOllama(models=("llama3.2:latest", "nomic:v1")) as server:
        server.ollama.able = {"nomic:v1": ["embedding"], "llama3.2:latest": ["completion", "tools"]}
        server.ollama.lists_abilities = lists
        server.ollama.context_length = 8192
        found = OllamaBackend(server.url).described()
        asked = [seen.path for seen in server.requests]
    known = {"size": 2_019_393_189, "parameters": "3.2B", "quantization": "Q4_K_M", "window": 8192}
    assert [each.digest for each in found] == [
        hashlib.sha256(name.encode()).hexdigest() for name in ("llama3.2:latest", "nomic:v1")
    ]
    assert [each._replace(digest=None, template_sha256=None) for each in found] == [
        Model("llama3.2:latest", **known, capabilities=("completion", "tools")),
        Model("nomic:v1", **known, capabilities=("embedding",)),
    ]
    assert asked == ["/api/tags"] + [] if lists else ["/api/tags", "/api/show", "/api/show"]


@pytest.mark.parametrize("scenario", ["show-old", "show-bare", "not-found-text"])
def test_what_a_server_does_not_say_of_its_models_is_left_out(scenario):
    with FakeOllama(scenario=scenario, on="/api/show") as server:
        found = OllamaBackend(server.url).described()
    assert [model.can_answer for model in found] == [True, True]
    assert found[0].capabilities is None


@pytest.mark.parametrize(
    "models, flags, environ, told",
    [
        (
            ("zeta:1b", "beta:latest"),
            (),
            {},
            "No preferred model is there, so beta:latest answers",
        ),
        (("zeta:1b", "beta:latest"), ("--model", "zeta:1b"), {}, ""),
        (("zeta:1b", "beta:latest"), (), {"ORE_MODEL": "zeta:1b"}, ""),
        (("zeta:1b", "beta:latest"), ("-q",), {}, ""),
        (("beta:latest", "llama3.2:1b"), (), {}, ""),
    ],
)
def test_where_no_preferred_model_is_there_it_is_said_which_answers_in_pipes_too(
    models, flags, environ, told, monkeypatch
):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with FakeOllama(models=models) as server:
        result = run_ore("hi", "--host", server.url, *flags, open_backend=open_backend)
    assert (result.code, result.out) == (0, "Paris.\n")
    assert result.err.startswith(told) and bool(result.err) is bool(told)


def test_a_name_that_a_server_gives_is_said_on_one_line():
    with FakeOllama(models=("a\x1b[2J\nore: `b`:1b",)) as server:
        result = run_ore("hi", "--host", server.url, open_backend=open_backend)
    assert result.err.startswith(
        "No preferred model is there, so a^[[2J ore: 'b':1b answers: --model"
    )


def test_a_model_for_embeddings_is_listed_as_one():
    with FakeOllama(models=("embed:latest", "llama3.2:1b")) as server:
        server.ollama.able = {"embed:latest": ["embedding"]}
        result = run_ore("--list-models", "--host", server.url, open_backend=open_backend)
    rows = [line.split("\t") for line in result.out.splitlines()]
    assert [row[:2] for row in rows] == [
        ["embed:latest", "embeddings only"],
        ["llama3.2:1b", "default"],
    ]
    assert [row[-1] for row in rows] == ["embedding", "completion"]


@pytest.mark.parametrize("able", [["image"], []])
def test_a_model_that_answers_no_prompts_is_not_said_to_be_for_embeddings(able):
    with FakeOllama(models=("paints:latest", "llama3.2:1b")) as server:
        server.ollama.able = {"paints:latest": able}
        result = run_ore("--list-models", "--host", server.url, open_backend=open_backend)
    assert result.out.startswith("paints:latest\tanswers no prompts\t")


def test_a_list_has_a_column_for_each_thing_that_is_known_of_a_model():
    with FakeOllama(models=("llama3.2:1b",)) as server:
        server.ollama.able = {"llama3.2:1b": ["completion", "tools"]}
        result = run_ore("--list-models", "--host", server.url, open_backend=open_backend)
    assert result.out.rstrip("\n").split("\t") == [
        *("llama3.2:1b", "default", "2.02 GB", "3.2B", "Q4_K_M"),
        *("131072 tokens", "completion,tools"),
    ]


@pytest.mark.parametrize("name", ["LLAMA3.2:1B", "library/llama3.2:1b", "mistral", "Mistral"])
def test_the_default_is_marked_however_the_server_lets_it_be_named(name, monkeypatch):
    monkeypatch.setenv("ORE_MODEL", name)
    with FakeOllama(models=("llama3.2:1b", "mistral:latest")) as server:
        result = run_ore("--list-models", "--host", server.url, open_backend=open_backend)
    rows = [line.split("\t") for line in result.out.splitlines()]
    wanted = "mistral:latest" if "mistral" in name.lower() else "llama3.2:1b"
    assert [row[0] for row in rows if row[1] == "default"] == [wanted]


def test_nothing_is_marked_where_there_is_no_default():
    with FakeOllama(models=("None:latest",), capabilities=["embedding"]) as server:
        result = run_ore("--list-models", "--host", server.url, open_backend=open_backend)
    assert "None:latest" in result.out and "default" not in result.out


def test_a_default_s_name_which_may_be_long_is_read_once_for_a_list(monkeypatch):
    read, whole = [], model_list.full_name
    monkeypatch.setattr(model_list, "full_name", lambda name: read.append(name) or whole(name))
    long = "llama3.2:" + "x" * 100_000
    with FakeOllama(models=(long, *map("m{}".format, range(100)))) as server:
        result = run_ore("--list-models", "--host", server.url, open_backend=open_backend)
    assert [line.split("\t")[1] for line in result.out.splitlines()].count("default") == 1
    assert read.count(long) == 2  # as the default, and in the list


def test_a_model_for_embeddings_is_not_chosen_whatever_its_name():
    with FakeOllama(models=("llama3.2:latest", "mistral:latest", "mistral:7b")) as server:
        server.ollama.able = {name: ["embedding"] for name in ("llama3.2:latest", "mistral:latest")}
        found, default = OllamaBackend(server.url).listed()
        assert OllamaBackend(server.url).default_model() == default == "mistral:7b"
    assert [model.can_answer for model in found] == [False, False, True]


@pytest.mark.slow
def test_a_package_that_takes_long_to_import_takes_no_time_of_the_choice():
    with FakeOllama(models=("embed:latest", "zeta:latest")) as server:
        server.ollama.able = {"embed:latest": ["embedding"]}
        flags = ("--host", server.url, "--timeout", "0.5", "Hi")
        done = subprocess.run(
            [sys.executable, "-c", SLOW_TO_IMPORT, *flags],
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    assert "so zeta:latest answers" in done.stderr and done.returncode == 0


@pytest.mark.slow
def test_a_package_that_takes_long_to_import_takes_no_time_of_a_plan_s_window():
    with FakeOllama(models=("first:latest",), copies={"second:latest": "first:latest"}) as server:
        AyaReasoner("first", server.url).reason([Message("user", "Hello?")])  # loads it
        done = subprocess.run(
            [
                *(sys.executable, "-c", SLOW_TO_IMPORT.replace("0.6", "1.7")),
                *("--host", server.url, "-m", "second", "--dry-run", "Hi"),
            ],
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    assert json.loads(done.stdout)["window"] == 4096


def test_of_models_for_embeddings_alone_it_is_not_said_that_none_is_installed():
    with FakeOllama(models=("embed:latest",)) as server:
        server.ollama.able = {"embed:latest": ["embedding"]}
        result = run_ore("hi", "--host", server.url, open_backend=open_backend)
    assert result.code == 1
    assert result.err.startswith(
        "ore: No model that can answer is installed on http://"
    ), result.err
    assert result.err.endswith(
        "or name one with --model, as you must for a model of Ollama's cloud.\n"
    )
